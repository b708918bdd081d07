// Package event declares the events in the life of a message, and passes them on to those who follow
// them.
//
// An event is a line of the log: its name is the message of the line, and its fields are the
// attributes. So nothing is written twice, a program can read the log or follow the events, and what
// it has to know is the same for both. Kinds declares which events there are and which fields each of
// them has; docs/log.md and contrib/log.schema.json are made of that. A test of a package that emits
// events has its log checked by Strict.
//
// A Hub receives the events of a log from Tap, and each of its Followers receives those that it wants.
// While there is no Follower, a line costs one atomic load more. While there is one, an event is formatted once
// for all of them. A Follower has a bounded buffer. If it does not read, it loses
// events, and receives their number in their place; mail does not wait for it.
package event
