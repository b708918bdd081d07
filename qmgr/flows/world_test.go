package flows

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/posthaste-mta/posthaste/internal/golden"
	"github.com/posthaste-mta/posthaste/mail"
	"github.com/posthaste-mta/posthaste/qmgr/fair"
	"github.com/posthaste-mta/posthaste/qmgr/sched"
)

// An outlet is a destination that takes so many deliveries at once.
type outlet struct {
	Destination
	room  int // besides those under way
	paced bool
	dead  bool
}

func (o *outlet) Room() int    { return o.room - o.Busy }
func (o *outlet) Paced() bool  { return o.paced }
func (o *outlet) Dead() bool   { return o.dead }
func (o *outlet) Starved()     {}
func (o *outlet) Place() Place { return Place{Transport: "smtp", Nexthop: o.name} }

// A carrier is a transport that has so many deliveries under way at most.
type carrier struct {
	Transport
	most int
}

func (c *carrier) Rules() sched.Rules {
	return sched.Rules{SlotCost: 5, SlotLoan: 3, SlotDiscount: 50, MinimumSlots: 3, RecipientPool: 1000, ExtraRecipients: 100, Refill: sched.Refill{Limit: 100, Delay: time.Second}}
}
func (c *carrier) Full() bool { return c.Busy >= c.most }

// A letter is a message with one recipient.
type letter struct {
	sched.Message
	flow *Flow
}

// A world is a transport, some destinations, and mail of some flows.
type world struct {
	flows *Registry
	stale sched.Stale
	carrier
	dests []*outlet
	busy  []*sched.Entry
	last  mail.QueueID
	began map[string]int // entries that were started, by the name of their flow
}

func newWorld(tenantFlows, dests int) *world {
	w := &world{carrier: carrier{most: 1000}, began: make(map[string]int)}
	w.flows = NewRegistry(tenantFlows, sched.Options{Spares: &sched.Spares{}, Stale: &w.stale})
	w.SetUp("smtp", &w.carrier, sched.Preemptive, w.flows, &fair.Rules{})
	for i := range dests {
		d := &outlet{room: 1}
		d.Destination.SetUp(&w.Transport, fmt.Sprint("d", i), d)
		w.dests = append(w.dests, d)
	}
	return w
}

// admit has a message of a flow come for a destination; of "", mail that was not classified.
func (w *world) admit(flow string, d *outlet) {
	w.last++
	m := &letter{}
	if flow != "" {
		m.flow = w.flows.Join(mail.Flow{Class: "c", Tenant: "t", Flow: flow})
	}
	m.ID, m.Owner, m.Queued, m.Own, m.Limit, m.InCore = w.last, m, mail.Instant(w.last), 1, 1, 1
	a := sched.Assignment{Message: &m.Message}
	a.Add(&d.Claim(m.flow).Destination, mail.Recipient{}, "", 1)
	a.Done()
	m.AllRead()
}

// start starts what may start, up to so many, and returns how many that were.
func (w *world) start(most int) (n int) {
	w.stale.Refresh()
	for ; n < most && !w.Full(); n++ {
		l := w.Next()
		if l == nil {
			break
		}
		e := (&sched.Selection{Lane: &l.Lane, Host: w}).Next()
		l.Start(e)
		l.Served(e)
		l.PassOn(ClaimOf(e.Destination()).At)
		w.busy = append(w.busy, e)
		w.began[e.Message.Owner.(*letter).flow.Name().Flow]++
		w.stale.Refresh()
	}
	return n
}

func (w *world) ReadFor(*sched.Message) bool                            { return false }
func (w *world) Preempted(*sched.Lane, mail.QueueID, mail.QueueID, int) {}

// end ends a delivery.
func (w *world) end(i int) {
	e := w.busy[i]
	w.busy = slices.Delete(w.busy, i, i+1)
	c, m := ClaimOf(e.Destination()), e.Message.Owner.(*letter)
	e.Leave()
	m.Touch()
	m.InCore--
	e.Release()
	c.Ended()
	e.Free()
	c.FreeIfEmpty()
	f := m.flow
	m.Free()
	w.flows.Part(f)
}

func (w *world) check() {
	w.flows.Check(func(yield func(*Transport) bool) { yield(&w.Transport) })
	w.Transport.Check()
	for _, d := range w.dests {
		d.Check()
	}
}

// Whatever happens in whatever order, lanes and claims are where they should be, whatever has room is
// used, and in the end all mail has gone and nothing is left of flows but their memory.
func TestFlowsComeAndGo(t *testing.T) {
	for seed := range uint64(golden.Runs(20)) {
		r := rand.New(rand.NewPCG(seed, 0))
		w := newWorld(1+r.IntN(8), 1+r.IntN(5))
		w.most = 1 + r.IntN(6)
		for range 300 {
			d := w.dests[r.IntN(len(w.dests))]
			switch n := r.IntN(10); {
			case n < 4:
				w.admit([]string{"", "a", "b", fmt.Sprint("f", r.IntN(20))}[r.IntN(4)], d)
			case n < 7 && len(w.busy) > 0:
				w.end(r.IntN(len(w.busy)))
			case n < 8:
				d.room, d.paced = r.IntN(6), r.IntN(2) == 0
				d.Touch()
			case n < 9:
				w.SetShares(&fair.Rules{Classes: []fair.Class{{Name: "c", Weight: 1 + r.IntN(3)}}})
				d.SetShares()
			}
			w.start(1 + r.IntN(3))
			w.stale.Refresh()
			w.flows.Reuse()
			w.check()
		}
		for _, d := range w.dests {
			d.room = 3
			d.Touch()
		}
		for w.start(100) > 0 || len(w.busy) > 0 {
			w.end(0)
		}
		w.stale.Refresh()
		w.check()
		if w.Load != (sched.Load{}) || w.lanes.Len() != 1 {
			t.Fatalf("seed %d: %+v and %d lanes are left", seed, w.Load, w.lanes.Len())
		}
	}
}

// A flow with a hundred messages for a destination that takes one at a time does not keep another waiting that
// comes later with two: these start with every second delivery.
func TestLateFlowHasItsTurn(t *testing.T) {
	w := newWorld(8, 1)
	for range 100 {
		w.admit("bulk", w.dests[0])
	}
	w.start(1)
	w.admit("one", w.dests[0])
	w.admit("one", w.dests[0])
	for range 4 {
		w.end(0)
		w.start(1)
	}
	if w.began["one"] != 2 || w.began["bulk"] != 3 {
		t.Errorf("after five starts: %v", w.began)
	}
}

// A flow that is served elsewhere, while its transport can do no more, gives up its turn at a destination
// for which another flow waits: without that, the other would wait until the first has been everywhere.
func TestTurnsArePassedOn(t *testing.T) {
	w := newWorld(8, 20)
	w.most = 1
	for _, d := range w.dests {
		w.admit("everywhere", d)
	}
	w.admit("waits", w.dests[19])
	for range 10 {
		w.start(1)
		w.end(0)
	}
	if w.began["waits"] != 1 {
		t.Errorf("after ten starts: %v", w.began)
	}
}

// The recipient slots are shared by the lanes that have unread recipients, in as few parts as the invariant allows.
func TestPartsFollowTheLanesThatShare(t *testing.T) {
	w := newWorld(100, 1)
	p := &w.pools
	var lanes []*Lane
	for i, want := range []int{1, 2, 4, 4, 8} {
		l := w.lane(w.flows.Join(mail.Flow{Tenant: "t", Flow: fmt.Sprint(i)}))
		lanes = append(lanes, l)
		if w.sharePools(l, true); p.parts != want || w.rules().RecipientPool != 1000/want {
			t.Errorf("%d lanes share in %d parts, want %d", i+1, p.parts, want)
		}
	}
	for i, want := range []int{8, 8, 4, 1, 1} {
		if w.sharePools(lanes[i], false); p.parts != want {
			t.Errorf("without %d of 5 lanes there are %d parts, want %d", i+1, p.parts, want)
		}
	}
}

// What was asked of a tenant's flows beyond its limit shares lanes, and the names of the
// tenants that are known can be listed.
func TestRegistryNamesTenants(t *testing.T) {
	r := NewRegistry(4, sched.Options{})
	f := r.Join(mail.Flow{Class: "c", Tenant: "t", Flow: "f"})
	r.Join(mail.Flow{Class: "d", Tenant: "u", Flow: "f"})
	var all []string
	r.EachTenant(func(class, tenant string) bool { all = append(all, class+"/"+tenant); return true })
	slices.Sort(all)
	if !slices.Equal(all, []string{"c/t", "d/u"}) {
		t.Errorf("known are %v", all)
	}
	r.Part(f)
	if again := r.Join(mail.Flow{Class: "c", Tenant: "t", Flow: "f"}); again != f {
		t.Error("a flow that has just been idle is not remembered")
	}
	if none := r.Join(mail.Flow{}); none != nil || none.Name() != (mail.Flow{}) || none.Path() != (fair.Path{}) {
		t.Error("mail that was not classified has a flow")
	}
}
