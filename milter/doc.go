// Package milter speaks with mail filters (milters): programs such as OpenDKIM or rspamd that see
// sessions and messages as they arrive, and may refuse, hold or change them. It is the server's
// side of the protocol of Sendmail's libmilter, versions 2 to 6.
//
// # Procedure
//
// A Chain is the milters of a listener, in order. Each client has a Session with all of them,
// with one connection to each, as the protocol demands: libmilter ends a connection with its
// client. The connections are made at the first MAIL, so that clients without mail cost the
// milters nothing, and MAIL is the first command to whose reply a milter contributes; what it says
// of the client or its EHLO is the reply to MAIL, too.
//
// The content is kept in a Message until it is complete. Then each milter gets it in turn, with
// the changes of those before it, and says what it wants changed. Nothing of that is done before
// the milter's last word: a milter that fails in the middle has changed nothing.
//
// What a milter sends is not trusted: the size of packets, the number of changes, the time of each
// answer, and that of all its signs of life together are limited. A milter that breaks the rules or a
// time limit is left, and Config.OnFailure decides about the message. At the next MAIL it is tried
// again.
//
// # Reading order
//
// config.go, session.go (what is said when), conversation.go (with one milter), packet.go (its
// form), message.go (the content), change.go (changes to it), macro.go (facts about client and message).
package milter
