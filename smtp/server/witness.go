package server

import (
	"bytes"

	"github.com/posthaste-mta/posthaste/smtp"
)

// A Witness is called for what the client says, as the session understands it. A host that shows sessions to people has one; from the octets
// alone, commands cannot be distinguished from the content of a client that does not wait for replies. The methods are called during
// Step. Their replies are all that Step is going to return so far, and must not be changed; these and octets are valid until the method returns.
type Witness interface {
	// Command has a command, or a line of an exchange of AUTH, without the line's end. Secrets are replaced by Concealed.
	Command(replies []byte, line string)
	// Content has octets of content, with the dots that DATA doubles removed.
	Content(replies, octets []byte)
}

// Concealed stands for a secret.
const Concealed = "[hidden]"

// SetWitness replaces the witness; nil, as at the start, is none.
func (s *Session) SetWitness(w Witness) { s.witness = w }

// testify passes a line to the witness.
func (s *Session) testify(line string) {
	if s.witness != nil {
		s.witness.Command(s.out, line)
	}
}

// testifyCommand passes the command to the witness. hidden is that conceal has something to hide, and arg its argument.
func (s *Session) testifyCommand(hidden bool, arg []byte) {
	if s.witness == nil {
		return
	}
	line := string(s.command)
	switch {
	case !hidden:
	case line == afterAUTH:
		line = Concealed
	case line == "AUTH":
		name, _, more := bytes.Cut(arg, []byte(" "))
		m := smtp.ParseMechanism(string(name))
		if m != 0 {
			line += " " + m.String()
		}
		if more || m == 0 && len(arg) > 0 {
			line += " " + Concealed
		}
	}
	s.witness.Command(s.out, line)
}
