package daemon

import (
	"sync/atomic"

	"github.com/posthaste-mta/posthaste/mail"
	"github.com/posthaste-mta/posthaste/replies"
)

// replyBook holds the patterns and rules for replies, which a reload replaces.
type replyBook struct {
	p atomic.Pointer[replies.Book]
}

// book returns what is in force.
func (b *replyBook) book() *replies.Book { return b.p.Load() }

// class returns the class of a reply for the API.
func (b *replyBook) class(r mail.Reply) string { return b.p.Load().Class(r).String() }
