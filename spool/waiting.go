package spool

import (
	"github.com/posthaste-mta/posthaste/mail"
)

// Layers are sums that together are what waits: of each account
//
//	base + folding + recent + reserved
//
// where base is what the store has. All of it but base is about what is not in the store's
// sums yet, so that it is as large as what happens in a second.
type layers struct {
	base     sums   // as far as they were needed: of an account that is not in it, the store has it
	folding  sums   // of tallies that are being folded; nil unless there is a fold, and then their base stays
	recent   sums   // of tallies in tallies.done, and of messages that are being counted
	reserved sums   // of drafts; see Draft.Reserve
	folds    uint64 // number of folds that have ended, after which base has other values
}

// Waiting returns what waits of a class, of a tenant and of a flow, including what drafts
// have reserved.
func (s *Spool) Waiting(f mail.Flow) (w mail.Waiting) {
	if s.enter() != nil {
		return w
	}
	defer s.leave()
	s.withWaiting(f, func(now mail.Waiting) { w = now })
	return w
}

// Reserve counts the draft as waiting, for a flow and with a number of bytes, from now on
// until its commit has failed or it is aborted, if admit agrees: so no two drafts take the
// last place under a limit. It may be called again, which ends the earlier reservation. admit must
// not call the spool.
func (d *Draft) Reserve(f mail.Flow, octets int64, admit func(mail.Waiting) bool) (ok bool, err error) {
	if err := d.usable(); err != nil {
		return false, err
	}
	if err := d.s.enter(); err != nil {
		return false, err
	}
	defer d.s.leave()
	d.unreserve()
	d.s.withWaiting(f, func(w mail.Waiting) {
		if ok = admit(w); !ok || f == (mail.Flow{}) {
			return
		}
		d.reserved = &entry{f, mail.Usage{Messages: 1, Octets: octets}}
		accounts, n := accountsOf(f, mail.CountFlows)
		for _, a := range accounts[:n] {
			d.s.counts.sums.reserved.add(a, d.reserved.Usage)
		}
	})
	return ok, nil
}

func (d *Draft) unreserve() {
	if d.reserved != nil {
		d.s.counts.mu.Lock()
		defer d.s.counts.mu.Unlock()
		d.s.counts.release(d.reserved)
		d.reserved = nil
	}
}

// release ends a reservation.
func (c *counts) release(reserved *entry) {
	if reserved == nil {
		return
	}
	accounts, n := accountsOf(reserved.flow, mail.CountFlows)
	for _, a := range accounts[:n] {
		c.sums.reserved.add(a, mail.Usage{}.Minus(reserved.Usage))
	}
}

// withWaiting calls do under the lock of the sums. Sums that are not in memory are read
// from disk before that.
func (s *Spool) withWaiting(f mail.Flow, do func(mail.Waiting)) {
	c := &s.counts
	c.mu.Lock()
	defer c.mu.Unlock()
	for {
		var w mail.Waiting
		level := mail.CountLevel(c.state.level.Load())
		if w.Known = c.state.at() == countWhole && !c.state.doubt.Load(); !w.Known {
			do(w)
			return
		}
		accounts, n := accountsOf(f, level)
		missing := -1
		for i, a := range accounts[:n] {
			base, ok := c.sums.base[a]
			if !ok {
				missing = i
				break
			}
			*[]*mail.Usage{&w.Class, &w.Tenant, &w.Flow}[i] = base.Plus(c.sums.folding[a]).Plus(c.sums.recent[a]).Plus(c.sums.reserved[a])
		}
		if missing < 0 {
			do(w)
			return
		}
		// If a fold ends meanwhile, what was read may be from before it.
		folds := c.sums.folds
		c.mu.Unlock()
		base, err := s.readSum(accounts[missing])
		c.mu.Lock()
		if _, there := c.sums.base[accounts[missing]]; err == nil && !there && folds == c.sums.folds {
			c.cache(accounts[missing], base)
		}
		if err != nil {
			s.doubtCounts(err)
		}
	}
}

// cache keeps a sum in memory. While sums are being folded those must stay.
func (c *counts) cache(a account, base mail.Usage) {
	if len(c.sums.base) >= baseMax && c.sums.folding == nil {
		clear(c.sums.base)
	}
	c.sums.base[a] = base
}

// baseMax is the number of sums in memory above which they are forgotten and read again:
// some 4 MB.
const baseMax = 16 << 10
