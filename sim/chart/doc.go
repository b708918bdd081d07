// Package chart draws a simulation's report as one SVG picture: for each run
// the delivery slots as coloured cells, and windows, connections and failures
// over time; then, for all runs together, the distribution of delays.
//
// # Procedure
//
// Draw lays blocks out from top to bottom: each of them takes the canvas and
// the height at which it begins, and returns the height at which the next one
// may begin. A canvas writes SVG elements; scales map values to places. The
// numbers in the picture are rounded to a tenth of a pixel, so that the same
// report gives the same file.
package chart
