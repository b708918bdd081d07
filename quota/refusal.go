package quota

import (
	"cmp"
	"fmt"
	"strconv"
	"time"

	"github.com/posthaste-mta/posthaste/mail"
)

// A Refusal is a limit that a message exceeds.
type Refusal struct {
	Kind     Kind
	Name     string // of the class, tenant or flow
	Resource Resource
	Moment   Moment
	Used     int64         // of the limit, before this message
	Asked    int64         // what the message would add
	Limit    int64         // the limit
	Per      time.Duration // the time of a rate
	Wait     time.Duration // until a rate has room; 0 if that is not known
	Never    bool          // the message alone exceeds the limit
}

// A Moment is when a message is checked.
type Moment uint8

const (
	AtMail Moment = iota
	AtRecipient
	AtEnd // of the content
)

// A gravity is how long a limit holds out, as far as the client can know: the least grave
// first.
type gravity uint8

const (
	forTransaction gravity = iota // the rest is welcome in another transaction
	forSomeTime                   // Wait is known
	forUnknownTime
	forGood
)

func (r *Refusal) gravity() gravity {
	switch {
	case r.tooMany() && r.Moment == AtRecipient:
		return forTransaction
	case r.Never:
		return forGood
	case r.Wait == 0:
		return forUnknownTime
	}
	return forSomeTime
}

// graver returns the graver one of two refusals, a if they are equal; either may be nil.
func graver(a, b *Refusal) *Refusal {
	switch {
	case a == nil:
		return b
	case b == nil:
		return a
	case cmp.Or(cmp.Compare(a.gravity(), b.gravity()), cmp.Compare(a.Wait, b.Wait)) < 0:
		return b
	}
	return a
}

// Reply returns the reply to the client. It names the tenant or flow, whose own mail this
// is, with its numbers; of a class, in which others send as well, it has no numbers.
func (r *Refusal) Reply() mail.Reply {
	code, subject, detail := uint16(452), uint16(3), uint16(1)
	switch {
	case r.tooMany() && r.Moment == AtRecipient:
		subject, detail = 5, 3 // the client sends the rest in another transaction
	case r.tooMany():
		code, subject, detail = 554, 5, 3
	case r.Never:
		code, subject, detail = 552, 3, 4
	case r.Resource == MessageRate || r.Resource == RecipientRate:
		code, subject, detail = 450, 7, 1
	}
	return mail.Reply{Code: code, Status: mail.Status{Class: code / 100, Subject: subject, Detail: detail}, Text: r.text()}
}

// tooMany reports whether the message has more recipients than any message may have.
func (r *Refusal) tooMany() bool {
	return r.Never && (r.Resource == Recipients || r.Resource == RecipientRate)
}

func (r *Refusal) text() string {
	who := r.Kind.String() + " " + short(r.Name)
	switch {
	case r.tooMany():
		return fmt.Sprintf("Too many recipients for one message of %s: the limit is %d", who, r.Limit)
	case r.Never:
		return fmt.Sprintf("Message too large for the quota of %s: the limit is %d bytes", who, r.Limit)
	case r.Resource == Messages && r.Kind != Class:
		return fmt.Sprintf("Too much mail of %s waits here: %d of %d messages; try again later", who, r.Used, r.Limit)
	case r.Resource == Octets && r.Kind != Class:
		return fmt.Sprintf("Too much mail of %s waits here: %d of %d bytes%s; try again later", who, r.Used, r.Limit, r.asked())
	case r.Resource == Messages, r.Resource == Octets:
		return fmt.Sprintf("Too much mail of %s waits here; try again later", who)
	}
	what := "messages"
	if r.Resource == RecipientRate {
		what = "recipients"
	}
	used := ""
	if r.Kind != Class {
		used = fmt.Sprintf(": %d in the last %s%s, the limit is %d", r.Used, span(r.Per, false), r.asked(), r.Limit)
	}
	return fmt.Sprintf("Too many %s from %s%s; try again in %s", what, who, used, span(r.Wait, true))
}

// asked is what the message would add, in words, if the limit is not reached without it.
func (r *Refusal) asked() string {
	if r.Used >= r.Limit || r.Asked <= 0 {
		return ""
	}
	return fmt.Sprintf(" and %d in this message", r.Asked)
}

// short returns a name that leaves room for the rest of a reply, in ASCII. Names have no
// white space and no control characters.
func short(name string) string {
	if name == "" {
		return "-"
	}
	const most = 64
	var out []byte
	for i := 0; i < len(name); i++ {
		if len(out) == most {
			return string(out) + "..."
		}
		switch c := name[i]; {
		case c > ' ' && c <= '~':
			out = append(out, c)
		case c < 0x80 || c >= 0xc0: // once for each character
			out = append(out, '?')
		}
	}
	return string(out)
}

// span returns a time in words, rounded up to whole units: "hour", "24 hours"; with one,
// "1 hour".
func span(d time.Duration, one bool) string {
	unit, name := time.Second, "second"
	for _, u := range []struct {
		unit time.Duration
		name string
		from time.Duration
	}{{time.Minute, "minute", 2 * time.Minute}, {time.Hour, "hour", 2 * time.Hour}, {24 * time.Hour, "day", 3 * 24 * time.Hour}} {
		if d >= u.from || d == u.unit {
			unit, name = u.unit, u.name
		}
	}
	n := max((d+unit-1)/unit, 1)
	switch {
	case n > 1:
		return strconv.FormatInt(int64(n), 10) + " " + name + "s"
	case one:
		return "1 " + name
	}
	return name
}
