package sink

import (
	"time"

	"github.com/posthaste-mta/posthaste/mail"
)

// A Delivery is an accepted message. It belongs to the function that it is passed
// to.
type Delivery struct {
	At         time.Time
	Connection uint64 // the connection's number, from 1 on
	Nth        int    // the message's number on its connection, from 1 on
	Client     mail.Client
	Reply      ReplyFate

	Key        string // what Config.KeyField said; "" if the message lacks it
	Sender     mail.Address
	EnvID      string // as in mail.Envelope
	By         string // BY, as smtp.By prints it; "" if it was not given
	Recipients []mail.Address
	Size       int64  // octets of content
	BodySum    uint32 // CRC-32C of what follows the header and its empty line
	Content    []byte // the first Config.ContentKept octets
}

// A ReplyFate is whether the client got the reply that its message was accepted.
type ReplyFate uint8

const (
	ReplySent ReplyFate = iota // it was, unless the connection breaks first
	ReplyLost                  // it was not, by a LoseReply
)

// A Refusal is a fault that happened.
type Refusal struct {
	At         time.Time
	Connection uint64
	Stage      Stage
	Kind       Kind

	Key        string         // AtContent and AtCommit
	Sender     mail.Address   // from AtMail on
	Recipients []mail.Address // AtRecipient: the one that was refused; later: all
}

// Stats is what has happened so far, and Open what is happening now.
type Stats struct {
	Connections uint64 // served
	TurnedAway  uint64 // beyond the limits of connections
	Open        int
	Peak        int    // the largest Open
	Messages    uint64 // taken
	Recipients  uint64 // of these
	Octets      uint64 // of their content
	Faults      uint64
}
