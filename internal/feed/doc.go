// Package feed hands messages to an SMTP server, for demonstrations and tests,
// and says of each what is known of its fate: accepted, refused, never sent to
// its end, or unknown, because the connection was lost between the end of the
// content and the reply. A test that counts messages needs that difference,
// which ordinary clients do not make.
//
// The procedure: [Dial], then [Client.Send] for each message. Envelopes are
// pipelined in groups; content goes by DATA or by BDAT. There is no queue and
// no second attempt.
package feed
