package sink

import (
	"errors"
	"fmt"
	"hash/fnv"
	"math/rand/v2"
	"net/netip"

	"github.com/posthaste-mta/posthaste/mail"
)

// A Stage is a point of a session at which something can go wrong.
type Stage uint8

const (
	AtGreeting  Stage = iota + 1 // instead of the greeting
	AtMail                       // instead of the reply to MAIL
	AtRecipient                  // instead of the reply to RCPT
	AtContent                    // within the content, behind the header
	AtCommit                     // instead of the reply to the content
)

// String returns the stage's name.
func (s Stage) String() string {
	return [...]string{"none", "greeting", "mail", "recipient", "content", "commit"}[s]
}

// A Kind is what goes wrong.
type Kind uint8

const (
	RefuseForNow  Kind = iota + 1 // 4xx
	RefuseForGood                 // 5xx
	Drop                          // the connection is closed without a reply
	LoseReply                     // AtCommit: the message is taken, but the connection is closed without a reply
)

// String returns the kind's name.
func (k Kind) String() string { return [...]string{"none", "4xx", "5xx", "drop", "lost reply"}[k] }

// A Fault goes wrong in a share of the occasions, which is from 0 to 1.
type Fault struct {
	Stage Stage
	Kind  Kind
	Share float64
	// Client is whose connections it concerns; invalid: those of all clients.
	Client netip.Addr
}

func validateFaults(faults []Fault) error {
	var complaints []error
	for _, f := range faults {
		switch {
		case f.Stage < AtGreeting || f.Stage > AtCommit || f.Kind < RefuseForNow || f.Kind > LoseReply:
			complaints = append(complaints, fmt.Errorf("fault %d at stage %d: there is no such thing", f.Kind, f.Stage))
		case f.Kind == LoseReply && f.Stage != AtCommit:
			complaints = append(complaints, fmt.Errorf("fault %s at %s: it is for commit only", f.Kind, f.Stage))
		case !(f.Share >= 0 && f.Share <= 1):
			complaints = append(complaints, fmt.Errorf("fault %s at %s: share %g is not within 0 and 1", f.Kind, f.Stage, f.Share))
		}
	}
	return errors.Join(complaints...)
}

// A fate decides what goes wrong on one connection.
type fate struct {
	seed uint64
	dice *rand.Rand
}

func newFate(seed, connection uint64) fate {
	return fate{seed: seed, dice: rand.New(rand.NewPCG(seed, connection))}
}

// draw returns what goes wrong for a client at a stage; 0 if nothing does.
func (f *fate) draw(faults []Fault, client netip.Addr, stage Stage, recipient mail.Address) Kind {
	for _, fault := range faults {
		if fault.Stage != stage || fault.Client.IsValid() && fault.Client != client {
			continue
		}
		if stage == AtRecipient && fault.Kind == RefuseForGood {
			if isUnknown(f.seed, recipient, fault.Share) {
				return fault.Kind
			}
		} else if f.dice.Float64() < fault.Share {
			return fault.Kind
		}
	}
	return 0
}

// isUnknown reports whether an address is one of the share that do not exist.
func isUnknown(seed uint64, address mail.Address, share float64) bool {
	h := fnv.New64a()
	fmt.Fprintf(h, "%d %s", seed, address)
	// FNV alone spreads short differences at the end of its input badly.
	return rand.New(rand.NewPCG(h.Sum64(), seed)).Float64() < share
}

// refusal returns the reply for a fault that has one.
func (k Kind) refusal(stage Stage) mail.Reply {
	switch {
	case k == RefuseForGood && stage == AtRecipient:
		return mail.Reply{Code: 550, Status: mail.Status{Class: 5, Subject: 1, Detail: 1}, Text: "No such user here"}
	case k == RefuseForGood:
		return mail.Reply{Code: 554, Status: mail.Status{Class: 5, Subject: 7, Detail: 1}, Text: "Refused for good"}
	case stage == AtGreeting:
		return mail.Reply{Code: 421, Status: mail.Status{Class: 4, Subject: 3, Detail: 2}, Text: "Try again later"}
	}
	return mail.Reply{Code: 450, Status: mail.Status{Class: 4, Subject: 2, Detail: 0}, Text: "Try again later"}
}
