package qmgr_test

import (
	"fmt"
	"reflect"
	"testing"
	"time"

	"github.com/posthaste-mta/posthaste/internal/golden"
	"github.com/posthaste-mta/posthaste/internal/prng"
	"github.com/posthaste-mta/posthaste/mail"
	"github.com/posthaste-mta/posthaste/qmgr"
	"github.com/posthaste-mta/posthaste/qmgr/qmgrtest"
)

// twins is a run in which a core and its twin, which decides by the linear
// definitions, are given the same events.
type twins struct {
	*chaos
	twin  *qmgr.Qmgr
	seed  uint64
	steps int

	preempted uint64 // messages that have gone first, according to the core's actions
}

// newTwins returns a run with a backlog: small windows and pools, many
// messages, several transports, and jobs that overtake each other all the time.
func newTwins(t *testing.T, seed uint64) *twins {
	c := &chaos{t: t, r: prng.New(seed), dropped: make(map[mail.QueueID]bool)}
	c.cfg = qmgr.Config{
		ActiveLimit: 1 + c.r.IntN(60), RecipientLimit: 1 + c.r.IntN(200), RecipientMinimum: 1 + c.r.IntN(5),
		AsPostfix: c.r.Permille(700), Debug: true,
		DefaultTransport: qmgr.TransportConfig{ProcessLimit: 1 + c.r.IntN(20), RecipientLimit: 1 + c.r.IntN(3), RefillLimit: 1 + c.r.IntN(6),
			SlotCost: 2 + c.r.IntN(3), SlotLoan: c.r.IntN(5) - 1, SlotDiscount: c.r.IntN(101), MinimumSlots: c.r.IntN(4) - 1,
			RecipientPool: 1 + c.r.IntN(60), ExtraRecipients: 1 + c.r.IntN(20), Agents: qmgr.Agents(c.r.IntN(2))},
	}
	c.cfg.DefaultTransport.SlotDiscount = max(c.cfg.DefaultTransport.SlotDiscount, 1)
	c.cfg.DefaultTransport.Window.Initial = 1 + c.r.IntN(3)
	c.cfg.DefaultTransport.Window.Limit = 1 + c.r.IntN(4)
	c.cfg.DefaultTransport.Window.FailedCohortLimit = 1 + c.r.IntN(3)
	if c.r.Permille(200) {
		c.cfg.DefaultTransport.RateDelay = 3 * time.Second
	}
	if c.r.Permille(200) {
		c.cfg.DefaultTransport.RecipientLimit = 20
	}
	if c.r.Permille(100) {
		c.cfg.DefaultTransport.TransportRateDelay = time.Second
	}
	if c.r.Permille(150) {
		c.cfg.DefaultTransport.Scheduler = qmgr.Scheduler(1 + c.r.IntN(2))
	}
	r := &twins{chaos: c, seed: seed}
	w, err := qmgrtest.New(c.cfg, seed)
	if err != nil {
		t.Fatal(err)
	}
	make := qmgr.New
	if c.r.Permille(500) {
		make = qmgr.NewCrowded
	}
	if w.Core, err = make(c.cfg, seed); err != nil {
		t.Fatal(err)
	}
	if r.twin, err = qmgr.NewLinear(c.cfg, seed); err != nil {
		t.Fatal(err)
	}
	w.Outstanding = nil
	w.Stepped = r.compare
	c.w = w
	c.flows()
	w.Step(qmgr.Wake{})
	return r
}

func (r *twins) compare(ev qmgr.Event, actions []qmgr.Action) {
	r.steps++
	want := r.twin.Step(r.w.Now, ev)
	if len(actions)+len(want) > 0 && !reflect.DeepEqual(want, actions) {
		r.t.Fatalf("seed %d: %T%+v\nthe core: %+v\nthe twin: %+v", r.seed, ev, ev, actions, want)
	}
	for _, a := range actions {
		if _, is := a.(qmgr.Preempted); is {
			r.preempted++
		}
	}
	if r.steps%16 != 0 {
		return
	}
	if n := r.w.Core.View(0).Counts.Preemptions; n != r.preempted {
		r.t.Fatalf("seed %d: %d preemptions are counted, and %d were reported", r.seed, n, r.preempted)
	}
	if a, b := r.w.Core.Dump(qmgr.DumpOptions{}), r.twin.Dump(qmgr.DumpOptions{}); a != b {
		r.t.Fatalf("seed %d: the twin (-) and the core (+) differ:\n%s", r.seed, golden.Diff(b, a))
	}
	if r.steps%256 == 0 {
		r.twin.Check()
	}
}

func (r *twins) arrive() {
	n := 1 + r.r.IntN(3)
	if r.r.Permille(300) {
		n = 1 + r.r.IntN(60)
	}
	rcpts := make([]mail.Recipient, n)
	for i := range rcpts {
		rcpts[i].Address = mail.Address(fmt.Sprintf("u%d@d%d.test", i, r.r.IntN(12)))
		if r.r.Permille(100) {
			rcpts[i].Address = mail.Address(fmt.Sprintf("u%d@e%d.other.test", i, r.r.IntN(4)))
		}
	}
	m := r.w.Arrive("s@x.test", rcpts)
	r.ids = append(r.ids, m.Envelope.ID)
}

func (r *twins) step() {
	switch n := r.r.IntN(100); {
	case n < 12 && len(r.w.Messages) < 120:
		r.arrive()
	case n < 60:
		r.answer()
	case n < 92:
		if r.cfg.DefaultTransport.Agents == qmgr.AgentsOffered {
			r.w.Step(qmgr.AgentReady{Transport: []string{"smtp", "retry", "other"}[r.r.IntN(3)]})
		}
	case n < 94:
		r.w.Step(qmgr.SelectTransport{Pending: map[string]int{"smtp": r.r.IntN(3), "other": r.r.IntN(3)}})
	case n < 97:
		r.tick(r.r.Between(0, 3*time.Second))
	case n < 99:
		r.operate()
	}
	if r.cfg.AsPostfix || r.r.Permille(300) {
		r.settle()
	}
}

// settle answers everything but deliveries.
func (r *twins) settle() {
	for i := 0; i < len(r.w.Outstanding); {
		if _, delivery := r.w.Outstanding[i].(qmgr.Deliver); delivery {
			i++
			continue
		}
		r.w.Answer(r.w.Take(i))
		i = 0
	}
}

// answer answers something. Deliveries end well mostly.
func (r *twins) answer() {
	n := len(r.w.Outstanding)
	if n == 0 {
		return
	}
	switch a := r.w.Take(r.r.IntN(n)).(type) {
	case qmgr.Deliver:
		how := qmgrtest.Accepted
		if r.r.Permille(150) {
			how = qmgrtest.Ending(r.r.IntN(qmgrtest.Endings))
		}
		r.w.Deliver(a, how)
	default:
		r.w.Answer(a)
	}
}

func (r *twins) operate() {
	if len(r.ids) == 0 || !r.r.Permille(200) {
		return
	}
	if r.cfg.DefaultTransport.Agents == qmgr.AgentsOwn {
		r.chaos.operate()
		return
	}
	r.w.Step(qmgr.Hold{IDs: r.ids[r.r.IntN(len(r.ids)):][:1]})
}

// TestTwins: whatever happens, the core decides as its twin does, which walks
// along the list of jobs wherever the core has an index; and all counters are
// equal. At least 1,000 events for each run.
func TestTwins(t *testing.T) {
	t.Parallel()
	steps, runs := 0, golden.Runs(1)
	for seed := uint64(1); seed <= uint64(runs) || steps < 1000*runs && !t.Failed(); seed++ {
		r := newTwins(t, seed)
		for range 1500 {
			r.step()
		}
		steps += r.steps
	}
	t.Logf("%d events", steps)
}
