package conns

import (
	"time"

	"github.com/posthaste-mta/posthaste/internal/ilist"
	"github.com/posthaste-mta/posthaste/mail"
)

// A slot is what one connection takes up of its transport's limit. One that carries
// something cannot be had back before its deadline, which is minutes away (RFC 5321
// 4.5.3.2): whoever answers nothing, or one octet now and then, keeps what it has. So
// no site may take so many slots that others find none when they come.
//
// Three rules see to that. They let a site take all that it can use as long as enough
// is free, and take away nothing that carries a message.
//
// # Doubtful slots
//
// The first rule is for slots that are doubtful: those of connections that have not
// shown that they get on. A site that has never taken a message, as far as is known, has
// nothing but these until it takes one; for others a connection is doubtful that has
// made no progress for stallTime. A site that has some may have another connection
// only while it has fewer of them than there may still be of the transport, which are
// all but two parts in 33 of its limit: this is the dynamic threshold of Choudhury and
// Hahne ("Dynamic queue length thresholds for shared-memory packet switches", 1998)
// with factor one. Six sites that never finish have 13 slots each of 100, and thirty
// have 3 each; what they leave is for sites that do take mail.
//
// A site that finishes, but takes a minute for each message, uses as much as one that
// does not, only with interruptions: a hundred of these use a hundred slots, though
// each has just taken a message. What a message costs others is the time for which it
// uses a slot, so a site is judged by that and not by whether it finishes. One of
// whose connections has stalled is slow until paceVerdicts messages in a row have been
// prompt, and all its slots are doubtful from the start. In the terms of queueing
// theory the transport is a loss system with two classes, where the slots kept for
// the class with the short service time are a trunk reservation: those who use a slot
// for 60 s can never have the last six of 100, and whoever needs one of these for
// 100 ms finds it free although the others could use more slots than there are.
//
// Six slots may be too few for the prompt sites. So what doubtful connections may not
// have is six slots, as many as the others have at work, and half as many again, up to
// half of all: the prompt sites can always grow without waiting. A connection to a
// slow site ends after its message if there are too many doubtful ones, or if slow sites
// have half of the slots and another site waits. So nothing is taken away in the middle of
// a message, each class has half of the slots if it needs them, and the slow sites take
// turns.
//
// A new site is in neither class, and can only be judged by trying. Of the six, three
// are for that: a site that has never had a message and has no slot may have one of
// them, once. So it waits for no slow site, however many there are; only three new ones
// that never finish keep other new ones waiting, until their deadlines. Nothing that
// could be observed distinguishes those from a new one that is well.
//
// # Slots for sites with few
//
// The second rule keeps a twentieth of the slots for sites with few or none: half of these
// go to a site only while it has less than four times what is left, and the other
// half to sites that have none. It is for sites that are well known and stop answering:
// those that come next find a slot at once.
//
// # Giving slots up
//
// Sites that are well must not use up those slots one by one, for thirty of them may
// stop answering before the first is known to have done so. So the third rule has busy
// sites give slots up when a message has ended. A site with several does until the second
// half of the last twentieth is free again, and for the sake of one that has none, or at
// least two less. Busy sites then have equal parts within a few messages, as with max-min
// fairness, and what stops answering takes its part along and not the slots that were
// kept. Where there are more busy sites than slots, each keeps its only connection for a
// quantum and they go in turn, more quickly the more of them wait, as processes do
// under the Completely Fair Scheduler of Linux, until it is a message each.
//
// # Limits
//
// What no rule can see to is that more sites stop answering at once than there are
// slots, or one after the other where all others have stopped before. Each is as good
// as any other until it has stopped, and then keeps a slot until its deadline. To
// take it away sooner would be to give up mail that a slow server takes.
//
// A transport with a limit below 33 has no slots to set aside for the first rule, and
// one below 20 none for the second: there they do not apply.
const (
	// One slot in so many is kept for sites that are prompt, and one for trials.
	provenPart = 33
	// One slot in so many is kept by the second rule, half of them for sites without any.
	sparePart, spareScale = 20, 4
	// quantum is for how long a site keeps its only connection while others have none,
	// if these are no more than there are slots. More make it shorter in proportion.
	quantum = time.Second
	// slowPart of the slots is what slow sites may keep while others wait.
	slowPart = 2
)

// slotLimit is the number of slots a transport has.
func (p *Pool) slotLimit(g *Group) int { return min(g.cfg.Limit, p.cfg.Limit) }

// doubtfulLeft is how many more doubtful connections there may be, but for trials.
func (p *Pool) doubtfulLeft(g *Group) int { return max(p.doubtfulBalance(g), 0) }

// doubtfulBalance is the same, and below zero if there are too many.
func (p *Pool) doubtfulBalance(g *Group) int {
	all, atWork := p.slotLimit(g), max(g.open-g.idle.Len()-g.doubtful, 0)
	kept := min(2*(all/provenPart)+atWork+atWork/2, all/slowPart)
	return all - kept - (g.doubtful - g.trials)
}

// slowAtLimit reports whether slow sites have the slots that they may keep while others
// wait.
func (p *Pool) slowAtLimit(g *Group) bool {
	return slowPart*(g.doubtful-g.untested) >= p.slotLimit(g)
}

// firstSlots is the number of slots that are kept for first connections.
func (p *Pool) firstSlots(g *Group) int { return (p.slotLimit(g)/sparePart + 1) / 2 }

// reserves reports whether a transport has slots to set aside for the first rule.
func (p *Pool) reserves(g *Group) bool { return p.slotLimit(g) >= provenPart }

// isNew reports whether nothing is known of a site yet, and it has nothing that would
// show it.
func (s *Site) isNew() bool { return !s.proven() && !s.slow() && s.Count() == 0 }

// mayTake reports whether a site may take one more slot, when so many are free.
func (p *Pool) mayTake(s *Site, free int) bool {
	g := s.group
	doubted := s.doubtful > 0 || s.slow() || !s.proven()
	if doubted && p.reserves(g) && s.doubtful >= p.doubtfulLeft(g) && !p.mayTry(s) {
		return false
	}
	n := s.Count()
	return n == 0 || free > p.slotLimit(g)/sparePart || n < spareScale*(free-p.firstSlots(g))
}

// mayServe reports whether a site may take a slot on account of a message that uses so
// many connections.
func (p *Pool) mayServe(s *Site, used, free int) bool {
	return p.mayUse(used, free) && p.mayTake(s, free)
}

// mayTry reports whether a site may have one of the slots for trials.
func (p *Pool) mayTry(s *Site) bool {
	return s.isNew() && s.group.trials < p.slotLimit(s.group)/provenPart
}

// letsOthersFirst reports whether a site waits until no other has use for a slot. It does
// not use one that is free meanwhile, so that the first of those who wait like that can
// speak for all.
func (p *Pool) letsOthersFirst(s *Site, free int) bool {
	g := s.group
	return s.slow() && p.reserves(g) && (p.doubtfulLeft(g) == 0 || free == 0 && p.slowAtLimit(g))
}

// waitsForTrial reports whether a site that is new waits until such sites may have one
// slot more.
func (p *Pool) waitsForTrial(s *Site) bool {
	g := s.group
	return s.isNew() && p.reserves(g) && p.doubtfulLeft(g) == 0 && !p.mayTry(s)
}

// mustYield reports whether a connection whose message has ended ends for the sake of
// others. wanted is whether some waited for a slot then.
func (p *Pool) mustYield(c *Conn, wanted bool, now mail.Instant) bool {
	g := c.site.group
	switch {
	case !c.site.slow() || !p.reserves(g):
		return p.mustShare(c, now)
	case c.working():
		return false
	case p.doubtfulLeft(g) == 0:
		return true
	}
	return wanted && p.slowAtLimit(g)
}

// mustShare reports whether a connection to a prompt site ends for others by the third
// rule.
func (p *Pool) mustShare(c *Conn, now mail.Instant) bool {
	s, g := c.site, c.site.group
	n, free := s.Count(), p.free(g)+g.leaving
	if c.links.listed == listedIdle {
		free-- // its site has more for it, or it takes nothing from anybody
	}
	switch {
	case n > 1 && free < p.firstSlots(g):
		return true
	case g.slots.Len() > g.leaving:
		all := p.slotLimit(g)
		return n > 1 || now >= c.since.Add(quantum*time.Duration(all)/time.Duration(max(all, g.slots.Len())))
	case g.leaving > 0:
		return false
	}
	left := looks
	for w := range g.shares.All() {
		if left == 0 {
			break
		}
		left--
		if w.Count()+2 <= n && p.mayServe(w, w.used, max(free, p.slotLimit(g)/sparePart)+1) {
			return true
		}
	}
	return false
}

// waitForPart waits until the site may have one slot more.
func (p *Pool) waitForPart(s *Site, ask Ask, why Wait) Decision {
	s.used = ask.Used
	p.queueBack(s, &s.group.shares)
	return p.wait(s, why, mail.Never)
}

// waitForSlot waits until there may be one more connection.
func (p *Pool) waitForSlot(s *Site) Decision {
	p.queue(s, &s.group.slots)
	return p.wait(s, WaitSlot, mail.Never)
}

// waitBehind waits on one of the lists of sites that wait until there may be one more
// doubtful connection.
func (p *Pool) waitBehind(s *Site, line *ilist.List[Site]) Decision {
	p.queue(s, line)
	return p.wait(s, WaitPart, mail.Never)
}

// waitAgain has a site that has given up a slot wait behind those for whose sake it
// did, before it can take the slot itself.
func (p *Pool) waitAgain(s *Site, ask Ask) (d Decision) {
	switch {
	case s.slow():
		d = p.waitBehind(s, &s.group.behind)
	case s.Count() > 0:
		d = p.waitForPart(s, ask, WaitPart)
	default:
		d = p.waitForSlot(s)
	}
	p.wakeSlot()
	return d
}
