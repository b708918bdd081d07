package spool

import (
	"bytes"
	"errors"
	"flag"
	"fmt"
	"maps"
	"math/rand/v2"
	"reflect"
	"slices"
	"testing"

	"github.com/cockroachdb/pebble/v2/vfs"

	"github.com/posthaste-mta/posthaste/internal/golden"
	"github.com/posthaste-mta/posthaste/mail"
)

var seedFlag = flag.Uint64("spool.seed", 0, "seed of the property test; 0 takes three fixed ones")

// A twin is a spool without a disk: the obvious second implementation that the real
// one must agree with.
type twin struct {
	messages map[mail.QueueID]*twinMessage
}

type twinMessage struct {
	envelope mail.Envelope
	place    mail.Place
	reason   string
	rcpts    []mail.Recipient
	outcomes []mail.Outcome
	body     []byte
}

func (m *twinMessage) touch() { m.place.Touched = true }

func (m *twinMessage) set(i uint32, o mail.Outcome) {
	o.Index = i
	if !sameOutcome(o, m.outcomes[i]) {
		m.outcomes[i] = o
		m.touch()
	}
}

func sameOrdered(a, b *mail.OrderedRoute) bool {
	return a == b || a != nil && b != nil && *a == *b
}

func sameOutcome(a, b mail.Outcome) bool {
	if !sameOrdered(a.Ordered, b.Ordered) {
		return false
	}
	a.Ordered, b.Ordered = nil, nil
	return a == b
}

func sameRecipient(a, b mail.Recipient) bool {
	if !sameOrdered(a.Ordered, b.Ordered) {
		return false
	}
	a.Ordered, b.Ordered = nil, nil
	return a == b
}

func sameBoth(a, b mail.RecipientOutcome) bool {
	return sameRecipient(a.Recipient, b.Recipient) && sameOutcome(a.Outcome, b.Outcome)
}

func (m *twinMessage) moveTo(area mail.Area, due mail.Instant, reason string) {
	if m.place.Area != mail.AreaCorrupt && (m.place.Area != area || m.place.Due != due || m.reason != reason) {
		m.place.Area, m.place.Due, m.reason = area, due, reason
		m.touch()
	}
}

func (w *twin) apply(c mail.Change) (answer mail.Changed) {
	m := w.messages[c.ID]
	if m == nil {
		return mail.Changed{ID: c.ID}
	}
	if c.Op == mail.ChangeRemove {
		delete(w.messages, c.ID)
		return mail.Changed{ID: c.ID}
	}
	defer func() {
		if c.Op == mail.ChangeLapse && m.place.Area == mail.AreaHold && m.place.Due > 0 && m.place.Due <= c.At {
			delete(w.messages, c.ID)
			answer = mail.Changed{ID: c.ID}
		}
	}()
	for _, o := range c.Outcomes {
		old := m.outcomes[o.Index]
		switch {
		case c.Op == mail.ChangeReported:
			old.Report = mail.ReportNone
			m.set(o.Index, old)
		case old.Result.Settled():
		default:
			if o.Report == mail.ReportNone && !o.Result.Settled() {
				o.Report = old.Report
			}
			o.Ordered = old.Ordered
			m.set(o.Index, o)
		}
	}
	for _, order := range c.Reroutes {
		for _, i := range order.Recipients {
			if o := m.outcomes[i]; !o.Result.Settled() && m.place.Area != mail.AreaCorrupt {
				o.Ordered = order.To
				m.set(i, o)
			}
		}
	}
	answer.ID = c.ID
	for i := range c.Splits {
		if s := &c.Splits[i]; s.Requeue != nil {
			w.requeue(m, c.At, s)
			if made := w.messages[s.Into]; made != nil {
				answer.Requeued = append(answer.Requeued, mail.Requeued{ID: s.Into, Place: made.place})
			}
		} else {
			w.split(m, c.At, s)
		}
	}
	m.change(c)
	m.place.Owes = slices.ContainsFunc(m.outcomes, func(o mail.Outcome) bool { return o.Report != mail.ReportNone })
	waits := slices.ContainsFunc(m.outcomes, func(o mail.Outcome) bool { return !o.Result.Settled() })
	requeues := slices.ContainsFunc(c.Splits, func(s mail.Split) bool { return s.Requeue != nil })
	if requeues && c.Op == mail.ChangeRecord && !waits && !m.place.Owes && m.place.Area != mail.AreaCorrupt {
		delete(w.messages, c.ID)
		return answer
	}
	answer.Place, answer.Reports = m.place, m.place.Owes
	return answer
}

// requeue puts a new message in the place of another one for some of its recipients.
func (w *twin) requeue(m *twinMessage, at mail.Instant, s *mail.Split) {
	q := s.Requeue
	part := &twinMessage{envelope: m.envelope, body: m.body, place: mail.Place{Area: mail.AreaDeferred, Due: at, File: m.place.File, Touched: true, Bucket: q.Flow.Bucket()}}
	part.envelope.ID, part.envelope.Sender, part.envelope.Flow, part.envelope.Requeued = s.Into, q.Sender, q.Flow, m.envelope.ID
	part.envelope.Attempts, part.envelope.LastAttempt = 0, 0
	if m.place.Area == mail.AreaHold {
		part.place.Area, part.place.Due, part.reason = mail.AreaHold, m.place.Due, m.reason
	}
	var encoded []byte
	seen, served := make(map[mail.Address]bool), make(map[mail.Address]bool)
	for i, o := range m.outcomes {
		if (o.Result == mail.Delivered || !o.Result.Settled() && !slices.Contains(s.Recipients, uint32(i))) && len(served) < mail.RequeueDistinct {
			served[m.rcpts[i].Address] = true
		}
	}
	add := func(r mail.Recipient, o mail.Outcome) {
		if seen[r.Address] && len(q.To) > 0 {
			return
		}
		if len(seen) < mail.RequeueDistinct {
			seen[r.Address] = true
		}
		r.Index = uint32(len(part.rcpts))
		o.Index = r.Index
		part.rcpts, part.outcomes = append(part.rcpts, r), append(part.outcomes, o)
		part.place.Owes = part.place.Owes || o.Report != mail.ReportNone
		encoded = appendRecipient(encoded, r)
	}
	for i, o := range m.outcomes {
		if m.place.Area == mail.AreaCorrupt || o.Result.Settled() || !slices.Contains(s.Recipients, uint32(i)) {
			continue
		}
		var left mail.Outcome
		if o.Report != mail.ReportNone {
			left = mail.Outcome{Result: o.Result, Report: o.Report, Reply: o.Reply, At: o.At}
		}
		if q.KeepRoute {
			left.Ordered = o.Ordered
		}
		var instead, fresh []mail.Replacement
		for _, r := range q.To {
			if r.Of == uint32(i) {
				instead = append(instead, r)
				if !served[r.Address] {
					fresh = append(fresh, r)
				}
			}
		}
		if len(fresh) > 0 {
			instead = fresh
		}
		for _, r := range instead {
			add(mail.Recipient{Address: r.Address, ORcpt: r.ORcpt, Notify: r.Notify}, left)
		}
		if len(instead) == 0 {
			add(m.rcpts[i], left)
		}
		m.set(uint32(i), mail.Outcome{Result: mail.Moved, At: at, Reply: mail.Reply{
			Code: 250, Status: mail.Status{Class: 2}, Text: "requeued as " + s.Into.String()}})
	}
	if n := uint32(len(part.rcpts)); n > 0 {
		if part.envelope.Recipients = n; n > chunkSize || len(encoded) > inlineRecipients {
			part.place.Chunks = (n + chunkSize - 1) / chunkSize
		}
		w.messages[s.Into] = part
	}
}

func (w *twin) split(m *twinMessage, at mail.Instant, s *mail.Split) {
	part := &twinMessage{envelope: m.envelope, reason: s.Reason, body: m.body, place: mail.Place{Area: mail.AreaHold, File: m.place.File, Touched: true, Bucket: m.place.Bucket}}
	part.envelope.ID = s.Into
	var encoded []byte
	for i, o := range m.outcomes {
		if m.place.Area == mail.AreaCorrupt || o.Result.Settled() || !slices.Contains(s.Recipients, uint32(i)) {
			continue
		}
		r, n := m.rcpts[i], uint32(len(part.rcpts))
		r.Index, o.Index = n, n
		part.rcpts, part.outcomes = append(part.rcpts, r), append(part.outcomes, o)
		part.place.Owes = part.place.Owes || o.Report != mail.ReportNone
		encoded = appendRecipient(encoded, r)
		m.set(uint32(i), mail.Outcome{Result: mail.Moved, At: at, Reply: mail.Reply{
			Code: 250, Status: mail.Status{Class: 2}, Text: "moved to " + s.Into.String() + ", which is held"}})
	}
	if n := uint32(len(part.rcpts)); n > 0 {
		if part.envelope.Recipients = n; n > chunkSize || len(encoded) > inlineRecipients {
			part.place.Chunks = (n + chunkSize - 1) / chunkSize
		}
		w.messages[s.Into] = part
	}
}

func (m *twinMessage) change(c mail.Change) {
	switch c.Op {
	case mail.ChangeDefer:
		if m.place.Area == mail.AreaHold && slices.ContainsFunc(m.outcomes, func(o mail.Outcome) bool { return !o.Result.Settled() }) {
			break
		}
		if m.envelope.Attempts == 0 || m.envelope.LastAttempt != c.At {
			m.envelope.Attempts++
			m.envelope.LastAttempt = c.At
			m.touch()
		}
		m.moveTo(mail.AreaDeferred, c.Due, "")
	case mail.ChangeHold:
		m.moveTo(mail.AreaHold, c.Due, c.Reason)
	case mail.ChangeRelease:
		switch m.place.Area {
		case mail.AreaHold:
			m.moveTo(mail.AreaDeferred, c.Due, "")
		case mail.AreaCorrupt: // it can be read
			m.place.Area, m.place.Due, m.reason = mail.AreaDeferred, max(c.Due, 0), ""
			m.touch()
		}
	case mail.ChangeCorrupt:
		m.moveTo(mail.AreaCorrupt, 0, c.Reason)
	case mail.ChangeExpire, mail.ChangeWarn, mail.ChangeLate:
		if c.Op == mail.ChangeWarn && m.envelope.Warned || c.Op == mail.ChangeLate && m.envelope.Late {
			return
		}
		for i, o := range m.outcomes {
			if !o.Result.Settled() && !slices.Contains(c.Except, uint32(i)) {
				m.set(uint32(i), m.verdict(c, m.rcpts[i], o))
			}
		}
		if c.Op == mail.ChangeWarn {
			m.envelope.Warned = true
			m.touch()
		}
		if c.Op == mail.ChangeLate {
			m.envelope.Late = true
			m.touch()
		}
	}
}

func (m *twinMessage) verdict(c mail.Change, r mail.Recipient, o mail.Outcome) mail.Outcome {
	known := m.envelope.Sender != ""
	if c.Op != mail.ChangeExpire {
		if known && (r.Notify == 0 || r.Notify&mail.NotifyDelay != 0) {
			o.Report = mail.ReportDelayed
		}
		return o
	}
	o.Result, o.Report, o.Expired = mail.Failed, mail.ReportNone, true
	if o.At == 0 {
		o.At = c.At
	}
	if !known || r.Notify == 0 || r.Notify&mail.NotifyFailure != 0 {
		o.Report = mail.ReportFailed
	}
	if o.Reply.Code == 0 {
		o.Reply = mail.Reply{Code: 550, Status: mail.Status{Class: 5, Subject: 4, Detail: 7}, Text: "delivery time expired"}
	}
	return o
}

// A trial runs random operations against spool and twin.
type trial struct {
	t    *testing.T
	rng  *rand.Rand
	fs   *vfs.MemFS
	cfg  Config
	s    *Spool
	twin twin
	now  mail.Instant
	ids  []mail.QueueID // of all messages ever made
}

// After any operations in any order, including closing and loss of power, a spool
// equals a simple map of messages.
func TestAgainstTwin(t *testing.T) {
	t.Parallel()
	longWithoutRaces(t)
	first, last := uint64(1), uint64(golden.Runs(1))
	if *seedFlag != 0 {
		first, last = *seedFlag, *seedFlag
	}
	for seed := first; seed <= last; seed++ {
		t.Run(fmt.Sprintf("spool.seed=%d", seed), func(t *testing.T) {
			fs := vfs.NewCrashableMem()
			r := &trial{
				t: t, rng: rand.New(rand.NewPCG(seed, 0)), fs: fs, cfg: counting(fs),
				twin: twin{messages: make(map[mail.QueueID]*twinMessage)},
			}
			r.s = mustOpen(t, r.cfg)
			steps := 700
			if golden.Runs(0) == 0 {
				steps = 300
			}
			for range steps {
				r.step()
			}
			r.compareAll()
			<-r.s.work.swept
			checkNoRemains(t, r.s)
			mustClose(t, r.s)
		})
	}
}

func (r *trial) step() {
	r.now++
	switch n := r.rng.IntN(100); {
	case n < 25:
		r.accept()
	case n < 75:
		r.change()
	case n < 96:
		r.compare(r.pick())
	case n < 98:
		r.reopen()
	default:
		r.compareAreas()
	}
}

func (r *trial) pick() mail.QueueID {
	if len(r.ids) == 0 || r.rng.IntN(20) == 0 {
		return mail.QueueID(r.rng.Uint64())
	}
	recent := r.ids[max(0, len(r.ids)-30):] // otherwise most are gone
	return recent[r.rng.IntN(len(recent))]
}

func (r *trial) accept() {
	m := &twinMessage{
		envelope: mail.Envelope{Arrived: r.now, EnvID: "e", Flow: testFlow(r.rng.IntN(5))},
		rcpts:    addresses([]int{1, 1, 1, 2, 5, 30, 255, 256, 257, 900, 5000}[r.rng.IntN(11)]),
		body:     noise(int(r.now), r.rng.IntN(4000)),
	}
	if r.rng.IntN(8) == 0 {
		m.body = noise(int(r.now), 6000+r.rng.IntN(40_000))
	}
	if r.rng.IntN(4) > 0 {
		m.envelope.Sender = "bob@example.com"
	}
	for i := range m.rcpts {
		m.rcpts[i].Notify = mail.Notify(r.rng.IntN(8))
	}
	d := draft(r.t, r.s, m.rcpts, m.body)
	if r.rng.IntN(3) == 0 {
		head := noise(int(r.now), r.rng.IntN(3000))
		if err := d.Prepend(head); err != nil {
			r.t.Fatal(err)
		}
		m.body = slices.Concat(head, m.body)
	}
	if r.rng.IntN(10) == 0 {
		d.Abort()
		return
	}
	if err := d.Commit(ctxTest, m.envelope); err != nil {
		r.t.Fatal(err)
	}
	a := d.Arrival()
	if a.Place.Bucket != m.envelope.Flow.Bucket() {
		r.t.Fatalf("%+v has arrived in %+v", a.Envelope, a.Place)
	}
	m.envelope, m.place = a.Envelope, a.Place
	m.outcomes = make([]mail.Outcome, len(m.rcpts))
	for i := range m.outcomes {
		m.outcomes[i].Index = uint32(i)
	}
	r.twin.messages[d.ID()] = m
	r.ids = append(r.ids, d.ID())
}

// change applies one to four changes at once, often to the same message.
func (r *trial) change() {
	var changes []mail.Change
	var want []mail.Changed
	id := r.pick()
	for range 1 + r.rng.IntN(4) {
		if r.rng.IntN(2) == 0 {
			id = r.pick()
		}
		c := mail.Change{
			Op: mail.ChangeOp(1 + r.rng.IntN(11)), ID: id, At: r.now, Reason: "why",
			Due: mail.Instant(r.rng.IntN(50)),
		}
		if c.Op == mail.ChangeLapse { // that has tests of its own
			c.Op = mail.ChangeLate
		}
		if c.Op == mail.ChangeCorrupt && r.rng.IntN(4) > 0 {
			c.Op = mail.ChangeDefer
		}
		if m := r.twin.messages[id]; m != nil {
			if r.rng.IntN(2) == 0 {
				c.Place = m.place
			}
			for range r.rng.IntN(4) {
				c.Outcomes = append(c.Outcomes, r.outcome(len(m.rcpts)))
			}
			if c.Op == mail.ChangeExpire && r.rng.IntN(2) == 0 {
				c.Except = []uint32{uint32(r.rng.IntN(len(m.rcpts))), uint32(len(m.rcpts))}
			}
		}
		if m := r.twin.messages[id]; m != nil && c.Op != mail.ChangeRemove {
			for range max(r.rng.IntN(6)-3, 0) {
				c.Reroutes = append(c.Reroutes, r.reroute(len(m.rcpts)))
			}
		}
		if m := r.twin.messages[id]; m != nil && c.Op != mail.ChangeRemove && r.rng.IntN(6) == 0 {
			s := r.split(len(m.rcpts))
			if r.rng.IntN(2) == 0 {
				s.Requeue = r.requeue(m)
			}
			c.Splits = append(c.Splits, s)
		}
		changes = append(changes, c)
		want = append(want, r.twin.apply(c))
	}
	got, err := r.s.Apply(ctxTest, changes)
	if err != nil || !reflect.DeepEqual(got, want) {
		r.t.Fatalf("apply %+v: %v\n got %+v\nwant %+v", changes, err, got, want)
	}
	for i := range changes {
		for _, s := range changes[i].Splits {
			r.ids = append(r.ids, s.Into)
		}
	}
}

// reroute draws recipients, some of them twice, and where they go; there are few routes, so that many have the same.
func (r *trial) reroute(rcpts int) mail.Reroute {
	var order mail.Reroute
	for range 1 + r.rng.IntN(400) {
		order.Recipients = append(order.Recipients, uint32(r.rng.IntN(rcpts)))
	}
	if r.rng.IntN(3) > 0 {
		order.To = &mail.OrderedRoute{Target: fmt.Sprint("smtp:[relay", r.rng.IntN(2), ".example]"), By: "bob", At: mail.Instant(r.rng.IntN(2))}
	}
	return order
}

// split draws the recipients to hold: some, all, or hardly any.
func (r *trial) split(rcpts int) mail.Split {
	id, err := r.s.Reserve(0)
	if err != nil {
		r.t.Fatal(err)
	}
	s := mail.Split{Into: id, Reason: "some are held"}
	percent := []int{1, 10, 50, 100}[r.rng.IntN(4)]
	for i := range rcpts {
		if r.rng.IntN(100) < percent {
			s.Recipients = append(s.Recipients, uint32(i))
		}
	}
	r.rng.Shuffle(len(s.Recipients), func(i, j int) { s.Recipients[i], s.Recipients[j] = s.Recipients[j], s.Recipients[i] })
	return s
}

// requeue draws what is decided anew: few addresses, so that many come twice.
func (r *trial) requeue(m *twinMessage) *mail.Requeue {
	q := &mail.Requeue{Sender: m.envelope.Sender, Flow: testFlow(r.rng.IntN(5)), KeepRoute: r.rng.IntN(2) == 0}
	if q.Sender != "" && r.rng.IntN(2) == 0 {
		q.Sender = "carol@example.com"
	}
	every := 1 + r.rng.IntN(10)
	for i := range m.rcpts {
		if i%every != 0 {
			continue
		}
		for range 1 + r.rng.IntN(3) {
			q.To = append(q.To, mail.Replacement{Of: uint32(i), Address: mail.Address(fmt.Sprint("user", r.rng.IntN(2*len(m.rcpts)), "@example.org")), ORcpt: "rfc822;x", Notify: m.rcpts[i].Notify})
		}
	}
	return q
}

func (r *trial) outcome(rcpts int) mail.Outcome {
	o := mail.Outcome{
		Index: uint32(r.rng.IntN(rcpts)), Result: mail.Result(r.rng.IntN(4)), At: r.now,
		Reply: mail.Reply{Code: 450, Text: fmt.Sprint("text ", r.rng.IntN(3)), By: "mx"},
	}
	if o.Result == mail.Failed {
		o.Report = mail.ReportFailed
	}
	return o
}

// reopen closes the spool, or cuts the power, with some of the unsynced data
// reaching the disk all the same.
func (r *trial) reopen() {
	if r.rng.IntN(2) == 0 {
		mustClose(r.t, r.s)
	} else {
		crashed := r.fs.CrashClone(vfs.CrashCloneCfg{UnsyncedDataPercent: r.rng.IntN(3) * 50, RNG: r.rng})
		mustClose(r.t, r.s)
		r.fs, r.cfg.FS = crashed, crashed
	}
	r.s = mustOpen(r.t, r.cfg)
	r.compareAll()
}

func (r *trial) compareAll() {
	r.t.Helper()
	for _, id := range r.ids {
		r.compare(id)
	}
	r.compareAreas()
	r.compareCounts()
}

// compareCounts checks what is counted for classes, tenants and flows. Sometimes that is
// switched off and on again.
func (r *trial) compareCounts() {
	r.t.Helper()
	counted(r.t, r.s)
	if mail.CountLevel(r.s.counts.state.level.Load()) == mail.CountFlows {
		want := make(sums)
		for _, m := range r.twin.messages {
			accounts, n := accountsOf(m.envelope.Flow, mail.CountFlows)
			for _, a := range accounts[:n] {
				want.add(a, mail.Usage{Messages: 1, Octets: int64(len(m.body))})
			}
		}
		if got := recounted(r.t, r.s); !maps.Equal(got, want) {
			r.t.Fatalf("there are %+v, want %+v", got, want)
		}
		checkCounts(r.t, r.s)
	}
	if r.rng.IntN(3) == 0 {
		r.s.SetCounts(mail.CountLevel(r.rng.IntN(3)))
	}
}

// compare checks one message by every way of reading it.
func (r *trial) compare(id mail.QueueID) {
	r.t.Helper()
	m := r.twin.messages[id]
	e, place, batch, err := r.s.Open(ctxTest, id, 1+r.rng.IntN(300))
	if m == nil {
		if _, err2 := r.s.Content(ctxTest, id); !errors.Is(err, ErrGone) || !errors.Is(err2, ErrGone) {
			r.t.Fatalf("%s is gone, but: %v, %v", id, err, err2)
		}
		return
	}
	if err != nil || e != m.envelope || place != m.place {
		r.t.Fatalf("open %s: %v\n got %+v in %+v\nwant %+v in %+v", id, err, e, place, m.envelope, m.place)
	}
	r.compareRecipients(id, m, batch)
	if body, err := contentOf(r.s, id); err != nil || !bytes.Equal(body, m.body) {
		r.t.Fatalf("content of %s: %d octets, want %d (%v)", id, len(body), len(m.body), err)
	}
	from := uint32(r.rng.IntN(len(m.rcpts) + 1))
	var all, owed []mail.RecipientOutcome
	for i, o := range m.outcomes[from:] {
		ro := mail.RecipientOutcome{Recipient: m.rcpts[int(from)+i], Outcome: o}
		ro.Recipient.Ordered = o.Ordered
		all = append(all, ro)
		if o.Report != mail.ReportNone {
			owed = append(owed, ro)
		}
	}
	max := 1 + r.rng.IntN(300)
	list, more, err := r.s.Outcomes(ctxTest, id, from, max)
	if err != nil || more != (len(all) > max) || !slices.EqualFunc(list, all[:min(max, len(all))], sameBoth) {
		r.t.Fatalf("outcomes of %s from %d: %v\n got %+v %v\nwant %+v", id, from, err, list, more, all)
	}
	list, more, err = r.s.Debts(ctxTest, id, from, max)
	if err != nil || more != (len(owed) > max) || !slices.EqualFunc(list, owed[:min(max, len(owed))], sameBoth) {
		r.t.Fatalf("debts of %s from %d: %v\n got %+v %v\nwant %+v", id, from, err, list, more, owed)
	}
}

func (r *trial) compareRecipients(id mail.QueueID, m *twinMessage, batch mail.RecipientBatch) {
	r.t.Helper()
	got := slices.Clone(batch.Recipients)
	for batch.More {
		var err error
		if batch, err = r.s.Read(ctxTest, id, batch.Next, 1+r.rng.IntN(600)); err != nil {
			r.t.Fatal(err)
		}
		got = append(got, batch.Recipients...)
	}
	var want []mail.Recipient
	for i, o := range m.outcomes {
		if !o.Result.Settled() {
			r := m.rcpts[i]
			r.Ordered = o.Ordered
			want = append(want, r)
		}
	}
	if !slices.EqualFunc(got, want, sameRecipient) {
		r.t.Fatalf("unsettled of %s: %v, want %v", id, got, want)
	}
}

// compareAreas checks indexes and listings.
func (r *trial) compareAreas() {
	r.t.Helper()
	r.compareTotals()
	for area := mail.AreaIncoming; area <= mail.AreaCorrupt; area++ {
		want := []mail.Cursor{}
		for id, m := range r.twin.messages {
			if m.place.Area == area {
				want = append(want, m.place.Cursor(id))
			}
		}
		slices.SortFunc(want, compareCursors)
		ordered := []mail.Cursor{}
		for _, c := range want {
			ordered = append(ordered, mail.Cursor{Due: c.Due, ID: c.ID})
		}
		slices.SortFunc(ordered, compareCursors)
		got := []mail.Cursor{}
		f := mail.Found{More: true}
		for f.More {
			var err error
			if f, err = r.s.Find(ctxTest, area, f.Next, 1+r.rng.IntN(20)); err != nil {
				r.t.Fatal(err)
			}
			got = append(got, f.Cursors...)
		}
		if !slices.Equal(got, ordered) {
			r.t.Fatalf("%s: %v\nwant %v", area, got, ordered)
		}
		r.compareBuckets(area, want)
		list, _, _, err := r.s.List(ctxTest, area, mail.Cursor{}, 1<<30)
		if err != nil {
			r.t.Fatal(err)
		}
		for _, sum := range list {
			m := r.twin.messages[sum.Envelope.ID]
			if m == nil || sum.Envelope != m.envelope || sum.Place != m.place || sum.Reason != m.reason || sum.Err != nil {
				r.t.Fatalf("%s lists %+v", area, sum)
			}
		}
	}
}

// compareBuckets checks the buckets of an area that has certain messages.
func (r *trial) compareBuckets(area mail.Area, all []mail.Cursor) {
	now := mail.Instant(r.rng.IntN(60))
	for n := range 6 {
		if n > 0 && !hasBuckets(area) {
			break
		}
		bucket := mail.Bucket(r.rng.Uint32N(uint32(mail.BucketEnd)))
		if n < 5 {
			flow := testFlow(n)
			bucket = flow.Bucket()
		}
		want, following := []mail.Cursor{}, []mail.Cursor{}
		next := mail.Never
		for i, c := range all {
			switch {
			case c.Bucket > bucket && (i == 0 || all[i-1].Bucket != c.Bucket):
				following = append(following, c)
			case c.Bucket != bucket:
			case c.Due > now:
				next = min(next, c.Due)
			default:
				want = append(want, c)
			}
		}
		got := []mail.Cursor{}
		f := mail.Found{More: true, Next: mail.Cursor{Bucket: bucket}}
		for f.More {
			var err error
			first := f.Next == mail.Cursor{Bucket: bucket}
			if f, err = r.s.Fetch(ctxTest, area, f.Next, now, r.rng.IntN(20)); err != nil {
				r.t.Fatal(err)
			}
			if first && !slices.Equal(f.Buckets, following) || !first && f.Buckets != nil {
				r.t.Fatalf("%s: bucket %v is followed by %v, want %v", area, bucket, f.Buckets, following)
			}
			got = append(got, f.Cursors...)
		}
		if !slices.Equal(got, want) || f.NextDue != next {
			r.t.Fatalf("%s at %d: bucket %v has %v next %v\nwant %v next %v", area, now, bucket, got, f.NextDue, want, next)
		}
	}
}
