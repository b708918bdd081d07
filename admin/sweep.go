package admin

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/posthaste-mta/posthaste/mail"
)

// A filter that few messages match would read nearly all of a long queue one by one, in the order of the index. A sweep
// reads all of them in the order in which they are stored, at a fiftieth of the cost for each. Counts and orders have no
// order of their own, so they are swept in pages from the start. A list begins in the order of its index, and turns to
// a sweep when the matches are too few: one that keeps the first of the page among all.
//
// The store passes over what cannot match by a part of it that is read first (Interest). That is a third of the cost of a sweep in which
// everything is looked at; judge still decides, since such a condition is only one of several.

// sweeps reports whether a sweep finds all that the selector selects. It knows nothing of indexes, and so
// not of messages that only an index still has.
func (c *scan) sweeps() bool {
	return len(c.sel.ids) == 0 && !c.sel.damaged && !slices.Contains(c.sel.areas, mail.AreaCorrupt)
}

// sweptStart returns the position from which counts and orders are swept; the zero position if the index serves
// them better: the hold area alone is hardly ever long.
func (c *scan) sweptStart() position {
	if !c.sweeps() || !slices.Contains(c.sel.areas, mail.AreaIncoming) && !slices.Contains(c.sel.areas, mail.AreaDeferred) {
		return position{}
	}
	return sweptFrom(0)
}

// hopeless reports whether the rest of a page of at most max messages would take more looks than a sweep takes time,
// at the rate at which they were found so far.
func hopeless(looked, found, most int) bool {
	const enough, worth = 500, 20_000
	return looked >= enough && (most-found)*looked > worth*max(found, 1)
}

// A swept is a message that a sweep has found, with its recipients if they are known.
type swept struct {
	Message
	recipients []mail.RecipientOutcome
	long       bool
}

// undecidedMax is the number of messages that a sweep sets aside, to read their recipients or ask the core about them when it
// does not use the store.
const undecidedMax = 256

// sweep calls take with the messages that the selector selects, at least those with an ID from next on, until max were found, the request reaches a
// limit, or there are no more. It returns the ID from which to go on; 0 at the end. Unless take reads recipients, they may not be set.
func (c *scan) sweep(ctx context.Context, from mail.QueueID, most int, limited, reads bool, take func(*swept)) (next mail.QueueID, err error) {
	in := c.sel.interest(reads)
	in.Whole = !limited // a list turns to a sweep because few match
	for found, more := 0, true; more; {
		var undecided []Message
		more, next = false, 0
		enough := false
		in.Passed = func(n int, behind mail.QueueID) bool {
			c.scanned += n
			c.swept -= n
			if enough = limited && (c.swept <= 0 || !time.Now().Before(c.deadline)); enough {
				more, next = true, behind
			}
			return !enough
		}
		err := c.store.Sweep(ctx, from, in, func(m *Sight) bool {
			if found+len(undecided) >= most || len(undecided) >= c.undecidedMax(limited) || c.sweptEnough(limited) {
				more, next = true, m.Envelope.ID
				return false
			}
			c.scanned++
			c.swept--
			switch c.judge(m) {
			case judgedMatch:
				found++
				take(&swept{m.Message, m.Recipients, m.Long})
			case judgedLater:
				undecided = append(undecided, m.Message.clone())
			}
			return true
		})
		if err != nil {
			return 0, fmt.Errorf("sweep: %w", err)
		}
		matched, err := c.decide(ctx, undecided)
		if err != nil {
			return 0, err
		}
		for i := range matched {
			found++
			take(&swept{Message: matched[i], long: true})
		}
		if from = next; more && (enough || found >= most || c.sweptEnough(limited)) {
			return next, nil
		}
	}
	return 0, nil
}

// undecidedMax is the number of messages that may be set aside now: if none of them can be read, an answer must
// still be able to name them, or without limited be recognized as one that cannot.
func (c *scan) undecidedMax(limited bool) int {
	left := MessagesMax - len(c.unread)
	if !limited {
		left++
	}
	return min(undecidedMax, left)
}

// sweptEnough reports whether the request has reached one of its limits; without limited, only that on messages that
// cannot be read.
func (c *scan) sweptEnough(limited bool) bool {
	return len(c.unread) > MessagesMax || limited && (c.swept <= 0 || len(c.unread) == MessagesMax || c.scanned%64 == 0 && !time.Now().Before(c.deadline))
}

// A judgement is what a sweep knows of a message.
type judgement uint8

const (
	judgedOut judgement = iota
	judgedMatch
	judgedLater // its recipients have to be read, or the core asked
)

func (c *scan) judge(m *Sight) judgement {
	if !slices.Contains(c.sel.areas, m.Place.Area) || c.sel.lapsing && m.Place.Area == mail.AreaHold && m.Place.Due == 0 || !c.sel.envelope(&m.Message) {
		return judgedOut
	}
	if !c.sel.wantsRecipients(&m.Message) {
		if c.reads && m.Long {
			return judgedLater
		}
		return judgedMatch
	}
	if m.Long || c.sel.aboutWay() && slices.ContainsFunc(m.Recipients, func(r mail.RecipientOutcome) bool { return r.Outcome.Result == mail.Pending }) {
		return judgedLater
	}
	for i := range m.Recipients {
		if r := &m.Recipients[i]; !r.Outcome.Result.Settled() && c.sel.match(&m.Message, r) {
			return judgedMatch
		}
	}
	return judgedOut
}

// decide returns those of the undecided messages that match.
func (c *scan) decide(ctx context.Context, undecided []Message) (matched []Message, err error) {
	if c.sel.aboutWay() && c.sel.core != nil {
		ids := make([]mail.QueueID, len(undecided))
		for i := range undecided {
			ids[i] = undecided[i].Envelope.ID
		}
		c.sel.core.prepare(ids)
	}
	for i := range undecided {
		ok, err := c.meetsAtAll(ctx, &undecided[i])
		if err != nil {
			if err := c.unreadable(ctx, undecided[i].Envelope.ID, err); err != nil {
				return nil, err
			}
		} else if ok {
			matched = append(matched, undecided[i])
		}
	}
	return matched, nil
}

// meetsAtAll is meets without the request's limit on recipients.
func (c *scan) meetsAtAll(ctx context.Context, m *Message) (ok bool, err error) {
	for from := uint32(0); ; {
		var next uint32
		if ok, next, err = c.meets(ctx, m, from); ok || err != nil || next == 0 {
			return ok, err
		}
		from = next
	}
}

// clone returns a copy that does not share memory with a sweep.
func (m *Message) clone() Message {
	to := *m
	e := &to.Envelope
	e.Sender = mail.Address(strings.Clone(string(e.Sender)))
	for _, text := range []*string{&e.EnvID, &e.Client.Helo, &e.Client.Proto, &e.Flow.Class, &e.Flow.Tenant, &e.Flow.Flow, &to.Reason} {
		*text = strings.Clone(*text)
	}
	return to
}

// sweepPage collects at most max messages in the order of IDs.
func (c *scan) sweepPage(ctx context.Context, from position, most int) (found []Message, next position, err error) {
	id, err := c.sweep(ctx, from.at.ID, most, true, true, func(m *swept) {
		found = append(found, m.Message.clone())
		for i := range m.recipients {
			if r := &m.recipients[i]; !r.Outcome.Result.Settled() {
				last := &found[len(found)-1]
				last.to = append(last.to, mail.Address(strings.Clone(string(r.Recipient.Address))))
			}
		}
	})
	if err != nil || id == 0 {
		return found, position{}, err
	}
	return found, sweptFrom(id), nil
}

// sweptFrom returns the position of a sweep at a message.
func sweptFrom(id mail.QueueID) position {
	return position{set: true, swept: true, at: mail.Cursor{ID: id}}
}

// first collects the first max messages from a position on, in the order of the index, by a sweep of all.
func (c *scan) first(ctx context.Context, from position, most int) ([]Message, position, error) {
	if !from.set {
		from = position{area: c.sel.areas[0], set: true}
	}
	var found []Message // sorted, and one more than the page has
	_, err := c.sweep(ctx, 0, int(^uint(0)>>1), false, false, func(m *swept) {
		if c.compare(c.positionOf(&m.Message), from) < 0 {
			return
		}
		i, _ := slices.BinarySearchFunc(found, &m.Message, func(a Message, b *Message) int { return c.compare(c.positionOf(&a), c.positionOf(b)) })
		if i > most {
			return
		}
		found = slices.Insert(found, i, m.Message.clone())
		found = found[:min(len(found), most+1)]
	})
	if err != nil || len(found) <= most {
		return found, position{}, err
	}
	return found[:most], c.positionOf(&found[most]), nil
}

// positionOf returns where a message is in its index.
func (c *scan) positionOf(m *Message) position {
	p := position{area: m.Place.Area, at: m.Place.Cursor(m.Envelope.ID), set: true}
	p.at.Bucket = 0
	return p
}

// compare orders positions as a list does.
func (c *scan) compare(a, b position) int {
	return cmp.Or(cmp.Compare(slices.Index(c.sel.areas, a.area), slices.Index(c.sel.areas, b.area)), cmp.Compare(a.at.Due, b.at.Due), cmp.Compare(a.at.ID, b.at.ID))
}
