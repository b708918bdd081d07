// Package wiretap shows people what SMTP connections say while they say it.
//
// A connection that a Watcher wants has a Tap, which is given what is sent and received. It splits
// that into lines, leaves out secrets, and folds contents: the first lines are shown, and the number
// of octets. A connection asks its Hub whether there are Watchers, which is an atomic load, and has no Tap
// otherwise. A Watcher has a bounded buffer, and loses lines if it does not read.
//
// # Secrets
//
// Of an AUTH command only the mechanism is shown. Between it and the server's last reply to it, no line of the client and no
// challenge is shown. Replies may repeat a secret later; the connection gives a function that replaces it.
package wiretap
