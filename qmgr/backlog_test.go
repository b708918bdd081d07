package qmgr_test

import (
	"fmt"
	"reflect"
	"slices"
	"testing"
	"time"

	"github.com/posthaste-mta/posthaste/internal/golden"
	"github.com/posthaste-mta/posthaste/internal/prng"
	"github.com/posthaste-mta/posthaste/mail"
	"github.com/posthaste-mta/posthaste/qmgr"
)

// A backlog is a core with many jobs on one transport, and a host that answers
// at once. Messages are endless or have one recipient.
type backlog struct {
	core    *qmgr.Qmgr
	now     mail.Instant
	last    mail.QueueID
	to      map[mail.QueueID]string // nexthop; of endless messages too
	endless map[mail.QueueID]bool
	queue   []qmgr.Action
	started []qmgr.Deliver
	rcpts   []mail.Recipient
}

const never = 1 << 28 // and sums of some of it fit into 32 bits

// distinct is the nexthop of messages whose recipients have a destination each.
const distinct = "*"

func newBacklog(b *testing.B, makeCore func(qmgr.Config, uint64) (*qmgr.Qmgr, error), cfg qmgr.TransportConfig) *backlog {
	cfg.Agents = qmgr.AgentsOffered
	if cfg.ExtraRecipients == 0 {
		cfg.ExtraRecipients = 1 << 28 // so that the bound of memory does not matter
	}
	q, err := makeCore(qmgr.Config{ActiveLimit: never, RecipientLimit: never, RecipientMinimum: 1, DefaultTransport: cfg}, 1)
	if err != nil {
		b.Fatal(err)
	}
	h := &backlog{core: q, now: 1e18, to: make(map[mail.QueueID]string), endless: make(map[mail.QueueID]bool)}
	for i := range 5000 {
		h.rcpts = append(h.rcpts, mail.Recipient{Index: uint32(i), Address: "u@a.test"})
	}
	h.step(qmgr.Wake{})
	for _, s := range []qmgr.Scan{qmgr.ScanIncoming, qmgr.ScanDeferred} {
		h.step(qmgr.Found{Scan: s, Found: mail.Found{NextDue: mail.Never}})
	}
	return h
}

func (h *backlog) step(ev qmgr.Event) {
	h.queue = append(h.queue[:0], h.core.Step(h.now, ev)...)
	for i := 0; i < len(h.queue); i++ {
		if answer := h.answer(h.queue[i]); answer != nil {
			h.queue = append(h.queue, h.core.Step(h.now, answer)...)
		}
	}
}

func (h *backlog) answer(a qmgr.Action) qmgr.Event {
	switch a := a.(type) {
	case qmgr.Route:
		routes := make([]mail.Route, len(a.Recipients))
		for i := range routes {
			routes[i] = mail.Route{Transport: "smtp", Nexthop: h.to[a.ID]}
			if h.to[a.ID] == distinct {
				routes[i].Nexthop = fmt.Sprintf("d%07d.test", a.Recipients[i].Index)
			}
		}
		return qmgr.Routed{ID: a.ID, Routes: routes}
	case qmgr.Read:
		if h.endless[a.ID] {
			return qmgr.Recipients{ID: a.ID, Batch: mail.RecipientBatch{Recipients: h.rcpts[:min(a.Max, len(h.rcpts))], Next: 1, More: true}}
		}
		end := min(int(a.From)+a.Max, len(h.rcpts))
		return qmgr.Recipients{ID: a.ID, Batch: mail.RecipientBatch{Recipients: h.rcpts[a.From:end], Next: uint32(end), More: end < len(h.rcpts)}}
	case qmgr.Change:
		return qmgr.Changed{Changed: mail.Changed{ID: a.Change.ID}}
	case qmgr.Deliver:
		h.started = append(h.started, a)
	}
	return nil
}

func (h *backlog) arrive(nexthop string, n int) {
	h.last++
	h.to[h.last] = nexthop
	rcpts, of := h.rcpts[:min(n, len(h.rcpts))], uint32(n)
	if n == never {
		h.endless[h.last] = true
	}
	h.step(qmgr.Arrived{Arrival: mail.Arrival{Envelope: mail.Envelope{ID: h.last, Sender: "s@x.test", Arrived: h.now, Recipients: of},
		Place: mail.Place{Area: mail.AreaIncoming}, Batch: mail.RecipientBatch{Recipients: rcpts, Next: uint32(len(rcpts)), More: n > len(rcpts)}}})
}

// pick offers an agent, and returns what it gets.
func (h *backlog) pick(b *testing.B) qmgr.Deliver {
	h.step(qmgr.AgentReady{Transport: "smtp"})
	if len(h.started) == 0 {
		b.Fatal("nothing is selected")
	}
	d := h.started[0]
	h.started = h.started[:0]
	return d
}

// finish ends a delivery. A message that ends with it is followed by another one
// to the same destination.
func (h *backlog) finish(d qmgr.Deliver) {
	outcomes := make([]mail.Outcome, len(d.Delivery.Recipients))
	for i, r := range d.Delivery.Recipients {
		outcomes[i] = mail.Outcome{Index: r.Index, Result: mail.Delivered}
	}
	id := d.Delivery.Envelope.ID
	h.step(qmgr.Delivered{Entry: d.Entry, Result: mail.DeliveryResult{Outcomes: outcomes}})
	if h.endless[id] {
		return
	}
	to := h.to[id]
	delete(h.to, id)
	h.arrive(to, int(d.Delivery.Envelope.Recipients))
}

// cores are the core and its linear twin.
var cores = []struct {
	name string
	make func(qmgr.Config, uint64) (*qmgr.Qmgr, error)
}{{"core", qmgr.New}, {"twin", qmgr.NewLinear}}

var jobCounts = []int{1_000, 20_000, 200_000}

// BenchmarkBacklog is the life of one message while many others wait: first come,
// first served, all destinations have room.
func BenchmarkBacklog(b *testing.B) {
	for _, jobs := range jobCounts {
		for _, destinations := range []int{1, 100, 100_000} {
			b.Run(fmt.Sprintf("jobs=%d/destinations=%d", jobs, destinations), func(b *testing.B) {
				h := newBacklog(b, qmgr.New, roomy())
				for i := range jobs {
					h.arrive(fmt.Sprintf("d%d.test", i%destinations), 1)
				}
				b.ReportAllocs()
				for b.Loop() {
					h.finish(h.pick(b))
				}
			})
		}
	}
}

func roomy() (cfg qmgr.TransportConfig) {
	cfg.Window.Initial, cfg.Window.Limit = never, -1
	return cfg
}

// behindBlocked returns a backlog of jobs whose destinations have no room, with
// one behind them that can be served.
func behindBlocked(b *testing.B, makeCore func(qmgr.Config, uint64) (*qmgr.Qmgr, error), jobs, destinations int) *backlog {
	cfg := qmgr.TransportConfig{}
	cfg.Window.Initial, cfg.Window.Limit = 1, 1
	h := newBacklog(b, makeCore, cfg)
	destinations = min(destinations, jobs)
	for i := range destinations {
		h.arrive(fmt.Sprintf("d%d.test", i), 1)
		h.pick(b)
	}
	for i := range jobs {
		h.arrive(fmt.Sprintf("d%d.test", i%destinations), 1)
	}
	h.arrive("free.test", 1)
	return h
}

// BenchmarkSelect is one decision what goes next, when none of many jobs can be
// served but the last. The marks of those that are blocked are void, as after
// every delivery that makes room for one of them: by definition all are looked at.
func BenchmarkSelect(b *testing.B) {
	for _, jobs := range jobCounts {
		for _, destinations := range []int{1, 100, 100_000} {
			for _, core := range cores {
				b.Run(fmt.Sprintf("jobs=%d/destinations=%d/%s", jobs, destinations, core.name), func(b *testing.B) {
					h := behindBlocked(b, core.make, jobs, destinations)
					b.ReportAllocs()
					for b.Loop() {
						if h.core.Decide("smtp", true) != h.last {
							b.Fatal("the wrong job is selected")
						}
					}
				})
			}
		}
	}
}

// overtakers returns a backlog with a big message that others may overtake. Next
// to it is another one that is too big for that and has waited for long, so that
// no wait can be ruled out.
func overtakers(b *testing.B, makeCore func(qmgr.Config, uint64) (*qmgr.Qmgr, error), jobs int) *backlog {
	cfg := roomy()
	cfg.RecipientLimit = 1
	h := newBacklog(b, makeCore, cfg)
	h.arrive("big.test", never)
	h.arrive("big.test", len(h.rcpts))
	h.now = h.now.Add(time.Hour)
	for i := range jobs {
		h.arrive(fmt.Sprintf("d%d.test", i%100), 2+i*i%200)
		if i%100 == 0 {
			h.now = h.now.Add(time.Second)
		}
	}
	return h
}

// BenchmarkCandidate is the search for the message that may overtake a big one,
// among many of forty sizes and various ages.
func BenchmarkCandidate(b *testing.B) {
	for _, jobs := range jobCounts {
		for _, core := range cores {
			b.Run(fmt.Sprintf("jobs=%d/%s", jobs, core.name), func(b *testing.B) {
				h := overtakers(b, core.make, jobs)
				b.ReportAllocs()
				for b.Loop() {
					h.now = h.now.Add(time.Second)
					if h.core.FindCandidate("smtp", 100, h.now) == 0 {
						b.Fatal("there is no candidate")
					}
				}
			})
		}
	}
}

// ofManySizes returns a backlog in which no two messages have equally many recipients,
// most of them unread: 7919·i modulo their number for the i-th of them if they are mixed, else
// as many fewer than the one before as makes all scores nearly equal.
func ofManySizes(b *testing.B, makeCore func(qmgr.Config, uint64) (*qmgr.Qmgr, error), jobs int, mixed bool) *backlog {
	cfg := roomy()
	cfg.RecipientLimit = 1
	h := newBacklog(b, func(c qmgr.Config, seed uint64) (*qmgr.Qmgr, error) {
		c.RecipientLimit = 1 // so that one recipient of each is read
		return makeCore(c, seed)
	}, cfg)
	h.arrive("big.test", never)
	for i := range jobs {
		n := 20 + jobs - i
		if mixed {
			n = 2 + i*7919%(jobs+1)
		}
		h.arrive(fmt.Sprintf("d%d.test", i%100), n)
		h.now = h.now.Add(time.Second)
	}
	return h
}

// BenchmarkCandidateOfManySizes is the same where all are of different sizes: one that
// needs at most so many slots.
func BenchmarkCandidateOfManySizes(b *testing.B) {
	for _, jobs := range []int{1_000, 20_000} {
		for _, mixed := range []bool{true, false} {
			for _, slots := range []int{10, jobs / 2, never} {
				for _, core := range cores {
					b.Run(fmt.Sprintf("jobs=%d/mixed=%t/slots=%d/%s", jobs, mixed, slots, core.name), func(b *testing.B) {
						h := ofManySizes(b, core.make, jobs, mixed)
						b.ReportAllocs()
						for b.Loop() {
							h.core.FindCandidate("smtp", slots, h.now)
						}
					})
				}
			}
		}
	}
}

// A decision allocates nothing, whatever it has to look at.
func TestDecisionsDoNotAllocate(t *testing.T) {
	b := &testing.B{}
	blocked, big := behindBlocked(b, qmgr.New, 1000, 10), overtakers(b, qmgr.New, 300)
	turns, inTurn := crowd(b, qmgr.New, 1000, qmgr.Preemptive), crowd(b, qmgr.New, 1000, qmgr.RoundRobin)
	for what, decide := range map[string]func(){
		"selection":              func() { blocked.core.Decide("smtp", false) },
		"selection behind marks": func() { blocked.core.Decide("smtp", true) },
		"candidate":              func() { big.core.FindCandidate("smtp", 100, big.now) },
		"turn of peers":          func() { turns.core.Decide("smtp", false) },
		"turn of destinations":   func() { inTurn.core.Decide("smtp", false) },
	} {
		if n := testing.AllocsPerRun(100, decide); n != 0 {
			t.Errorf("%s: %v allocations", what, n)
		}
	}
}

// A candidate among hundreds of messages of nearly as many sizes, some of them
// blocked and some begun, is that of the definition. TestTwins has fewer messages,
// but everything else that may happen.
func TestCandidateAmongManySizes(t *testing.T) {
	t.Parallel()
	found := 0
	for seed := uint64(1); seed <= uint64(golden.Runs(1)); seed++ {
		r := prng.New(seed)
		cfg := qmgr.TransportConfig{RecipientLimit: 1, SlotCost: 2, SlotLoan: r.IntN(5), MinimumSlots: -1}
		cfg.Window.Initial, cfg.Window.Limit = 1+r.IntN(5), 1+r.IntN(5)
		var hosts [2]*backlog
		for i, core := range cores {
			hosts[i] = newBacklog(&testing.B{}, func(c qmgr.Config, seed uint64) (*qmgr.Qmgr, error) {
				c.RecipientLimit = 1
				return core.make(c, seed)
			}, cfg)
		}
		var busy []qmgr.Deliver
		for i := range 500 {
			domain, n, slots, which := fmt.Sprintf("d%d.test", r.IntN(60)), 1+r.IntN(2000), 1+r.IntN(3000), 0
			if len(busy) > 0 {
				which = r.IntN(len(busy))
			}
			what, pause := r.IntN(10), r.Between(0, 2*time.Second)
			var picked [2][]qmgr.Deliver
			var candidates [2]mail.QueueID
			for k, h := range hosts {
				h.now = h.now.Add(pause)
				switch {
				case what < 6:
					h.arrive(domain, n)
				case what < 9 || len(busy) == 0:
					h.started = h.started[:0]
					h.step(qmgr.AgentReady{Transport: "smtp"})
					picked[k] = slices.Clone(h.started)
				default:
					h.finish(busy[which])
				}
				if h.core.Current("smtp") {
					candidates[k] = h.core.FindCandidate("smtp", slots, h.now)
				}
			}
			if what == 9 && len(busy) > 0 {
				busy = slices.Delete(busy, which, which+1)
			}
			busy = append(busy, picked[0]...)
			if candidates[0] != 0 {
				found++
			}
			if candidates[0] != candidates[1] || !reflect.DeepEqual(picked[0], picked[1]) {
				t.Fatalf("seed %d, step %d: candidate %v and delivery %v, by definition %v and %v", seed, i, candidates[0], picked[0], candidates[1], picked[1])
			}
			if i%100 == 0 {
				hosts[0].core.Check()
			}
		}
	}
	if found == 0 {
		t.Error("there was never a candidate")
	}
}
