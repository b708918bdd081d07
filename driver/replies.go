package driver

import (
	"github.com/posthaste-mta/posthaste/mail"
	"github.com/posthaste-mta/posthaste/replies"
)

// book returns what replies mean now; nil if Ports.Replies is not set. A nil Book knows no
// class and no rule.
func (d *Driver) book() *replies.Book {
	if d.ports.Replies == nil {
		return nil
	}
	return d.ports.Replies()
}

// classes finds the classes of the replies of one delivery, whose recipients often have
// the same.
type classes struct {
	book *replies.Book
	last mail.Reply
	is   replies.Class
}

// of returns a reply's class, ClassNone if it refuses nothing.
func (c *classes) of(r mail.Reply) replies.Class {
	if r.Code < 400 {
		return replies.ClassNone
	}
	if r != c.last {
		c.last, c.is = r, c.book.Class(r)
	}
	return c.is
}
