// Package top has the command that shows the running daemon live in a terminal: the totals
// with their rates, and a list of sites, flows, transports, messages or suspensions.
//
// # Procedure
//
// The program is a bubbletea model: a value that messages change (Update) and that is
// drawn as text (View). Requests to the daemon are commands that run beside it, one at a
// time, and end in a message: what they have read, or why they could not. The next one
// begins an interval after the last has ended, so a slow daemon is asked less often. If the
// daemon is gone, the last figures stay on the screen, the reason and its age are above
// them, and it is asked again until it answers.
//
// A view (Sites, Flows and so on) turns what was read into rows of cells; the list sorts,
// filters and draws rows of any view. The columns that do not fit the width of the terminal
// are left out, the least important ones first. Keys are a table, of which the help is made.
// Keys that change something are capital letters, and ask before they do it.
//
// If the output is not a terminal, the same figures are written once, as plain text.
package top
