package admin

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/posthaste-mta/posthaste/mail"
)

// Page sizes of reads from an index and from a recipient list.
const (
	findMax      = 256
	recipientMax = 512
)

// A scan searches the spool for messages that meet a selector, within the limits of
// one request. It belongs to one request.
type scan struct {
	store      Store
	sel        selector
	deadline   time.Time
	messages   int  // messages that may still be looked at
	recipients int  // the same
	swept      int  // messages that may still be swept
	scanned    int  // messages looked at
	reads      bool // who asks for messages reads their recipients
	hopeless   bool // so few match that a sweep is faster than the index
	gone       []mail.QueueID
	unread     []Unread // messages that could not be read
}

func (s *Server) newScan(sel selector) *scan {
	return &scan{store: s.store, sel: sel, deadline: time.Now().Add(s.cfg.ScanTime),
		messages: s.cfg.ScanMessages, swept: s.cfg.SweepMessages, recipients: s.cfg.ScanRecipients}
}

// search scans a page for a query, which has at most max messages. release must be called when the
// request ends, unless there is an error.
func (s *Server) search(ctx context.Context, f *Filter, cursor string, max int) (c *scan, found []Message, next position, release func(), err error) {
	c, from, release, err := s.begin(ctx, f, cursor)
	if err != nil {
		return nil, nil, next, nil, err
	}
	if found, next, err = c.run(ctx, from, max); err != nil {
		release()
		return nil, nil, next, nil, s.problem(ctx, err)
	}
	return c, found, next, release, nil
}

// begin parses a query and begins its scan. release must be called when the request ends, unless there is an error.
func (s *Server) begin(ctx context.Context, f *Filter, cursor string) (c *scan, from position, release func(), err error) {
	sel, from, err := s.parseQuery(f, cursor, "query")
	if err != nil {
		return nil, from, nil, err
	}
	if release, err = s.admit(); err != nil {
		return nil, from, nil, err
	}
	sel.core = s.locator(ctx)
	return s.newScan(sel), from, release, nil
}

// spent reports whether the request has reached one of its limits.
func (c *scan) spent() bool {
	return c.messages <= 0 || c.recipients <= 0 || len(c.unread) >= MessagesMax || !time.Now().Before(c.deadline)
}

// unreadable records a message that cannot be read, so that the scan continues. A
// message that is gone is not recorded; if the client is gone, the error ends the
// scan.
func (c *scan) unreadable(ctx context.Context, id mail.QueueID, err error) error {
	switch {
	case ctx.Err() != nil:
		return ctx.Err()
	case !errors.Is(err, ErrGone):
		c.unread = append(c.unread, unreadOf(id, err))
	}
	return nil
}

// run collects at most max messages from a position on. The position returned is
// where to continue; it is zero at the end.
func (c *scan) run(ctx context.Context, from position, max int) ([]Message, position, error) {
	if len(c.sel.ids) > 0 {
		found, err := c.pick(ctx)
		return found, position{}, err
	}
	if from.swept {
		return c.sweepPage(ctx, from, max)
	}
	found, next, err := c.listed(ctx, from, max)
	if !c.hopeless || err != nil {
		return found, next, err
	}
	all, after, err := c.first(ctx, from, max)
	if len(c.unread) > MessagesMax { // an answer cannot name them
		c.unread = nil
		return found, next, nil
	}
	return all, after, err
}

// listed is run by the order of the index.
func (c *scan) listed(ctx context.Context, from position, max int) ([]Message, position, error) {
	first := 0
	if from.set {
		if first = slices.Index(c.sel.areas, from.area); first < 0 {
			return nil, position{}, &fieldError{"cursor", from.String(), errors.New("its area is not among the requested areas")}
		}
	}
	var found []Message
	for _, area := range c.sel.areas[first:] {
		if from.area != area {
			from = position{area: area, set: true}
			if c.sel.lapsing && area == mail.AreaHold {
				from.at.Due = 1 // in the index it follows messages held indefinitely
			}
		}
		if len(found) >= max || c.spent() {
			return found, from, nil
		}
		var err error
		if found, from, err = c.area(ctx, found, from, max); err != nil || from.set {
			return found, from, err
		}
	}
	return found, position{}, nil
}

// pick collects the messages that the selector names by ID.
func (c *scan) pick(ctx context.Context) ([]Message, error) {
	var found []Message
	for _, id := range c.sel.ids {
		m, err := c.store.Show(ctx, id)
		if errors.Is(err, ErrGone) {
			c.gone = append(c.gone, id)
			continue
		}
		c.scanned++
		ok := err == nil
		if ok {
			ok, _, err = c.meets(ctx, &m, 0)
		}
		if err != nil {
			if err := c.unreadable(ctx, id, err); err != nil {
				return nil, err
			}
		} else if ok {
			found = append(found, m)
		}
	}
	return found, nil
}

// area scans one area until it ends, max messages are found, or the request reaches
// a limit.
func (c *scan) area(ctx context.Context, found []Message, from position, max int) ([]Message, position, error) {
	for {
		list, err := c.store.Find(ctx, from.area, from.at, min(findMax, c.messages))
		if err != nil && len(found) > 0 && ctx.Err() == nil {
			return found, from, nil // this request returns its messages, the next one fails
		}
		if err != nil {
			return nil, position{}, fmt.Errorf("list %s: %w", from.area, err)
		}
		c.sel.prepare(from.area, list.Cursors)
		for _, at := range list.Cursors {
			here := position{area: from.area, at: at, set: true}
			if from.at == at {
				here.recipient = from.recipient
			}
			if len(found) >= max || c.spent() {
				return found, here, nil
			}
			if c.past(here) {
				return found, position{}, nil
			}
			if c.hopeless = c.sweeps() && len(c.unread) == 0 && hopeless(c.scanned, len(found), max); c.hopeless {
				return found, here, nil
			}
			m, ok, stopped, err := c.look(ctx, here)
			if err != nil || stopped.set {
				return found, stopped, err
			}
			if ok {
				found = append(found, m)
			}
		}
		if !list.More {
			return found, position{}, nil
		}
		from = position{area: from.area, at: list.Next, set: true}
		if c.spent() {
			return found, from, nil
		}
	}
}

// past reports that neither this message nor any after it in the index is old
// enough: the indexes of incoming and of damaged mail are in the order of queue
// IDs, and a message never arrives before its ID is given out.
func (c *scan) past(p position) bool {
	return p.area != mail.AreaDeferred && p.area != mail.AreaHold && p.at.ID.Time() >= c.sel.before
}

// look examines the message at a position. If it has to stop partway it returns the
// position to continue from.
func (c *scan) look(ctx context.Context, p position) (m Message, ok bool, stopped position, err error) {
	c.messages--
	c.scanned++
	m, err = c.store.Show(ctx, p.at.ID)
	if errors.Is(err, ErrGone) || err == nil && m.Place.Area != p.area {
		return m, false, position{}, nil
	}
	var next uint32
	if err == nil {
		ok, next, err = c.meets(ctx, &m, p.recipient)
	}
	if err != nil {
		return m, false, position{}, c.unreadable(ctx, p.at.ID, err)
	}
	if next > 0 {
		p.recipient = next
		return m, false, p, nil
	}
	return m, ok, position{}, nil
}

// meets reports whether a message meets the selector, reading its recipients from
// index from on. If next is not 0 the result is undecided and depends on the
// recipients from next on.
func (c *scan) meets(ctx context.Context, m *Message, from uint32) (ok bool, next uint32, err error) {
	if !c.sel.envelope(m) {
		return false, 0, nil
	}
	if !c.sel.wantsRecipients(m) {
		return true, 0, nil
	}
	for {
		q := RecipientQuery{From: from, Max: recipientMax, Waiting: true}
		list, err := c.store.Recipients(ctx, m.Envelope.ID, q)
		if err != nil {
			return false, 0, fmt.Errorf("read its recipients: %w", err)
		}
		for i := range list.Recipients {
			if c.sel.match(m, &list.Recipients[i]) {
				return true, 0, nil
			}
		}
		if !list.More {
			return false, 0, nil
		}
		c.recipients -= int(list.Next - from)
		from = list.Next
		if c.spent() && len(c.sel.ids) == 0 {
			return false, from, nil
		}
	}
}
