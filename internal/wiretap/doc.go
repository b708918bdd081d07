// Package wiretap shows people what SMTP connections say while they say it: those to receivers, and those of clients.
//
// A connection that a Watcher wants has a Tap, which is given what is sent and received. It splits
// that into lines, leaves out secrets, and folds contents: the first lines are shown, and the number
// of octets. A connection asks its Hub whether there are Watchers, which is an atomic load, and has no Tap
// otherwise. A Watcher has a bounded buffer, and loses lines if it does not read.
//
// A client's session is a Visit. The session itself passes its commands and contents on, since a
// tap on the octets would mistake the content of a client that does not wait for
// a reply for commands. A Watcher may want the sessions that send from or to an address. Which these are is known late, so the
// Visit keeps the last lines until then.
//
// # Secrets
//
// Of an AUTH command only the mechanism is shown. Between it and the server's last reply to it, no line of the client and no
// challenge is shown. In a client's session, the session says what is a secret. A receiver's replies may repeat a secret later; the
// connection gives a function that replaces it.
package wiretap
