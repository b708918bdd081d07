package flows

import (
	"github.com/posthaste-mta/posthaste/internal/ilist"
	"github.com/posthaste-mta/posthaste/qmgr/sched"
)

// pools is how the recipient slots of a transport are shared: each lane that has messages with unread
// recipients has an equal part, one of 1, 2, 4 … parts.
//
// Invariant: there are as many parts as lanes on unread, or more, and fewer than four times as many, so that the
// parts of all need not be changed for each lane more or less. A lane that has none unread keeps the part
// that it had.
type pools struct {
	unread ilist.List[Lane] // those that share
	parts  int
}

// rules are those of each lane.
func (t *Transport) rules() sched.Rules {
	r := t.Owner.Rules()
	r.RecipientPool /= t.pools.parts
	r.ExtraRecipients /= t.pools.parts
	return r
}

// sharePools notes that a lane has messages with unread recipients, or has none any more.
func (t *Transport) sharePools(l *Lane, unread bool) {
	p := &t.pools
	if !unread {
		p.unread.Remove(&l.unread)
		switch n := p.unread.Len(); {
		case p.parts == 1:
		case n <= 1:
			t.setParts(1)
		case n <= p.parts/4:
			t.setParts(p.parts / 2)
		}
		return
	}
	p.unread.PushBack(&l.unread, l)
	if p.unread.Len() > p.parts {
		t.setParts(p.parts * 2)
		return
	}
	l.setPart()
}

func (t *Transport) setParts(n int) {
	t.pools.parts = n
	for l := range t.pools.unread.All() {
		l.setPart()
	}
}

func (l *Lane) setPart() {
	r := l.transport.rules()
	l.SetPools(r.RecipientPool, r.ExtraRecipients)
}
