package main

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"time"

	"github.com/posthaste-mta/posthaste/admin"
	"github.com/posthaste-mta/posthaste/admin/client"
	"github.com/posthaste-mta/posthaste/mail"
)

// A refuser is a server that refuses at random, for now and for good, at some
// stages of a transaction.
type refuser struct {
	name    string
	address string
	what    string
	needs   program
	stages  []string
	levels  []string // at which the server can be spoken to, whatever it offers
	unasked bool     // BDAT is not refused where DATA would be
}

// stages at which a server may refuse. Each says "refused at" and the stage.
const (
	stageMail = "MAIL"
	stageRcpt = "RCPT"
	stageData = "DATA"
	stageEnd  = "END"
)

// oneIn is how many commands there are for each that is refused.
const oneIn = 25

func allRefusers() []refuser {
	all := []string{stageMail, stageRcpt, stageData, stageEnd}
	behindData := []string{stageMail, stageRcpt, stageEnd} // go-smtp cannot refuse DATA itself
	lockstep, overlap, stream := wayNames[:wayLockstep+1], wayNames[:wayOverlap+1], wayNames[:wayStream+1]
	return []refuser{
		{"postfix", postfixRefuseAddr, "to Postfix", progPostfix, all, stream, false},
		{"exim", eximRefuseAddr, "to Exim", progExim, all, stream, true},
		{"sendmail", sendmailAddr, "to Sendmail, without CHUNKING", progSendmail, all, overlap, false},
		{"opensmtpd", opensmtpdAddr, "to OpenSMTPD, which forbids pipelining", progOpenSMTPD, all, lockstep, false},
		{"gosmtp", gosmtpAddr, "to go-smtp", progGoSMTP, behindData, stream, false},
		{"gosmtp24", gosmtp24Addr, "to go-smtp v0.24.0, which executes refused chunks", progGoSMTP24, behindData, overlap, false},
		{"gosmtp21", gosmtp21Addr, "to go-smtp v0.21.3, likewise", progGoSMTP21, behindData, overlap, false},
	}
}

// refusers are those whose programs there are.
func (t *trial) refusers() []refuser {
	return slices.DeleteFunc(allRefusers(), func(r refuser) bool { return t.absent[r.needs] })
}

// refusalTests are two for each of these servers: with connections that last, and
// with connections that break.
func refusalTests() (tests []test) {
	for _, r := range allRefusers() {
		tests = append(tests, test{"refuse-" + r.name, r.what, []program{r.needs}, refusals(r, "refuse-"+r.name, fateWhole)},
			test{"cut-" + r.name, r.what + ", connections cut", []program{r.needs}, refusals(r, "cut-"+r.name, fateCut, fateHeld)})
	}
	return tests
}

// refusals lets the daemon send letters to a server that refuses at random, over its
// lanes of some fates at once. Every recipient gets its letter exactly once, or the
// sender gets a report, or the letter is held because it is unknown.
func refusals(r refuser, name string, fates ...fate) func(context.Context, *trial) (int, int, error) {
	return func(ctx context.Context, t *trial) (messages, recipients int, err error) {
		lanes := t.lanesOf(r, fates...)
		var sent []letter
		for _, l := range lanes {
			sent = append(sent, manyLetters(l, name, l.letters)...)
		}
		for _, l := range sent {
			recipients += len(l.recipients)
		}
		from := t.logSize()
		a := t.receiver.account(name)
		defer t.receiver.close(a)
		if err := byFeed(ctx, posthasteAddr, sent); err != nil {
			return 0, 0, err
		}
		held, late := t.waitSettled(ctx, a, sent)
		if late != nil {
			late = fmt.Errorf("%w; the daemon says:\n%s", late, t.status(ctx))
		}
		said, err := t.readRefusals(from, lanes)
		if err != nil {
			return 0, 0, err
		}
		again, judged := a.judge(sent, &excuses{refused: true, doubts: said.doubts, held: held})
		printRefusals(t, lanes, said, again)
		return len(sent), recipients, errors.Join(late, judged, said.unjust.error("failed without having been refused for good"),
			wronglyHeld(lanes, said.doubts, held, sent), t.proven(lanes, said), t.dropHeld(ctx, held))
	}
}

// manyLetters makes letters for one to three recipients at one of a lane's hosts,
// each from a sender of its own. Their bodies try to be commands: a server that takes
// content for commands accepts a letter that was never sent.
func manyLetters(lane *lane, name string, n int) []letter {
	all := letters(name+"-"+lane.transport(), lane.domain(), n, 3)
	for i := range all {
		l := &all[i]
		l.sender = mail.Address(fmt.Sprintf("s%d.%s.%s@%s", i, lane.transport(), name, senderDomain))
		l.recipients = l.recipients[:1+i%3]
		for r := range l.recipients {
			l.recipients[r] = mail.Address(fmt.Sprintf("user%d.%d@%s", i, r, lane.host(i)))
		}
		l.body += fmt.Sprintf("RSET\r\nMAIL FROM:<forged@%[1]s>\r\nRCPT TO:<user666@%[2]s>\r\nBDAT 23 LAST\r\nSubject: forged\r\n\r\n%[3]s\r\n%[4]s\r\n", senderDomain, lane.host(i), "forge", lastLine)
	}
	return all
}

// lastLine is that of every letter to a server that refuses.
const lastLine = "RSET"

// flushTime is how often the daemon is ordered not to wait for servers that have
// failed: here they do so all the time.
const flushTime = 2 * time.Second

// waitSettled waits until all recipients have got their letters or are named in a
// report, or the letters are held, and a little longer. It returns whose letters
// are held, with the letters' IDs.
func (t *trial) waitSettled(ctx context.Context, a *account, sent []letter) (held map[mail.Address]string, err error) {
	c := client.New(filepath.Join(posthasteQueue(t.dir), "admin.sock"))
	defer c.Close()
	tick := time.NewTicker(flushTime)
	defer tick.Stop()
	last := time.Now()
	for before := -1; ; {
		if held, err = heldRecipients(ctx, c, sent); err != nil {
			return nil, err
		}
		left := a.unsettled(sent, held)
		switch {
		case left == 0:
			time.Sleep(quietTime)
			return held, nil
		case left != before:
			before, last = left, time.Now()
		case time.Since(last) > newsMax:
			return held, fmt.Errorf("no news for %s: %d recipients are not settled", newsMax, left)
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			return held, ctx.Err()
		}
		if _, err := c.Flush(ctx); err != nil {
			return held, err
		}
	}
}

// heldRecipients asks the daemon which letters are held.
func heldRecipients(ctx context.Context, c *client.Client, sent []letter) (map[mail.Address]string, error) {
	ours := make(map[mail.Address]bool)
	for _, l := range sent {
		for _, to := range l.recipients {
			ours[to] = true
		}
	}
	held := make(map[mail.Address]string)
	q := client.Query{Filter: admin.Filter{Areas: []string{"hold"}}, Recipients: 3}
	return held, c.List(ctx, q, func(m *admin.Summary) error {
		for _, r := range m.Recipients {
			if to := mail.Address(r.Address); ours[to] && r.Result == "deferred" || r.Result == "pending" {
				held[to] = m.ID
			}
		}
		return nil
	})
}

// dropHeld gives up what is held, once it is in the books.
func (t *trial) dropHeld(ctx context.Context, held map[mail.Address]string) error {
	var ids []string
	for _, id := range held {
		ids = append(ids, id)
	}
	if len(ids) == 0 {
		return nil
	}
	slices.Sort(ids)
	c := client.New(filepath.Join(posthasteQueue(t.dir), "admin.sock"))
	defer c.Close()
	_, err := c.Order(ctx, client.Drop, admin.Order{Filter: &admin.Filter{IDs: slices.Compact(ids)}}, nil)
	return err
}

// wronglyHeld reports whether letters are held of which nothing was in doubt, or not
// held although something was and the lane holds such letters.
func wronglyHeld(lanes []*lane, doubts map[mail.Address]int, held map[mail.Address]string, sent []letter) error {
	holding := make(map[string]bool)
	for _, l := range lanes {
		holding[l.domain()] = l.fate == fateHeld
	}
	var idle, missed complaints
	for _, l := range sent {
		doubtful, resting := 0, 0
		for _, to := range l.recipients {
			if held[to] != "" {
				resting++
			}
			if doubts[to] > 0 {
				doubtful++
			}
			if doubts[to] > 0 && holding[laneOf(to)] && held[to] == "" {
				missed.add("%s for %s", l.key, to)
			}
		}
		if resting > 0 && doubtful == 0 {
			idle.add("%s", l.key)
		}
	}
	return errors.Join(idle.error("held for no reason"), missed.error("in doubt and not held"))
}

// printRefusals prints what a server has refused, and how it was spoken to.
func printRefusals(t *trial, lanes []*lane, said *sayings, again int) {
	t.print(func() {
		for _, l := range lanes {
			fmt.Printf("        %-22s %s\n        %22s %s\n", l.peer.name+", "+l.transport(), said.counts[l.domain()], "", &l.tap.counts)
		}
		if again > 0 {
			fmt.Printf("        delivered again, as the log explains: %d recipients\n", again)
		}
	})
}

// proven reports whether the test has proven anything: whether the server has refused at
// each of its stages, whether it was spoken to at the levels in question and not at one
// that it does not support, and whether connections were cut. What is too rare to be
// expected of each lane is asked of all together.
func (t *trial) proven(lanes []*lane, said *sayings) error {
	var nothing, wrong complaints
	total, cut, cuts := make(sayingCounts), false, 0
	most, all := make(map[string]int), make(map[string]int) // transactions at a lane's level, and at any
	for _, l := range lanes {
		n := said.counts[l.domain()]
		for _, stage := range l.peer.stages {
			total[stage] += n[stage]
			if n[stage] == 0 && l.letters >= 20*oneIn && !(stage == stageData && l.level == "stream" && l.peer.unasked) {
				nothing.add("no refusal at %s by %s", stage, l.domain())
			}
		}
		cut = cut || l.fate != fateWhole
		cuts += l.tap.counts.broken()
		most[l.level] += l.tap.counts.pipelined(l.top())
		all[l.level] += l.tap.counts.total()
		for _, level := range wayNames {
			if n := l.tap.counts.pipelined(level); n > 0 && !slices.Contains(l.peer.levels, level) {
				wrong.add("%s: %d transactions went as %s", l.domain(), n, level)
			}
		}
	}
	for level, n := range all {
		if most[level] < 1+n/leastPart {
			nothing.add("%d of %d transactions went as %s or the highest that the server supports", most[level], n, level)
		}
	}
	for _, stage := range lanes[0].peer.stages {
		if total[stage] == 0 {
			nothing.add("no refusal at %s", stage)
		}
	}
	if cut && cuts == 0 {
		nothing.add("no connection was cut")
	}
	if t.count < 10*oneIn {
		nothing = complaints{}
	}
	return errors.Join(nothing.error("times too little was proven"), wrong.error("times a server was spoken to as it must not be"))
}

// top is the level at which a lane's server ought to be spoken to.
func (l *lane) top() string {
	if slices.Contains(l.peer.levels, l.level) {
		return l.level
	}
	return l.peer.levels[len(l.peer.levels)-1]
}

// leastPart of the transactions of a level's lanes at least must have gone at that level. It is
// small because the daemon does not overlap where the server is slower than far.
const leastPart = 100
