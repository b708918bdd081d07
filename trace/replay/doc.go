// Package replay is the host of the core whose world is a trace: it gives the
// recorded events to a new core with the recorded configuration and seed.
//
// Run does that to the letter and finds the first action that is another one
// than was recorded. Diff compares two traces without a core.
//
// Cut and Shrink leave events out, so that the core soon does other things than
// were recorded, and the answers have to follow it. A recorded answer is known by
// the question that it answered, and a question by what it says and not by its
// number or its instant. So each question of the new core gets the recorded answer
// to the same question: at its recorded instant or, if that has passed, at once. A
// question that was never recorded stays unanswered, an answer without a question
// is left out, and the core is woken when it asks for it: all of that is within the
// core's contract. What comes out is recorded anew, and so replays to the letter
// again.
package replay
