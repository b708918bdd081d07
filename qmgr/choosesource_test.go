package qmgr

import (
	"fmt"
	"math/rand/v2"
	"net/netip"
	"testing"

	"github.com/posthaste-mta/posthaste/internal/golden"
	"github.com/posthaste-mta/posthaste/mail"
	"github.com/posthaste-mta/posthaste/qmgr/directory"
	"github.com/posthaste-mta/posthaste/qmgr/source"
	"github.com/posthaste-mta/posthaste/qmgr/warmup"
)

// pooled returns a core with one pool of n sources of equal weight, of which each has a plan
// with the allowance, or none if that is 0.
func pooled(tb testing.TB, n, allowance int) (*Qmgr, *transport) {
	var cfg Config
	cfg.DefaultTransport.Agents = AgentsConnections
	p := source.Pool{Name: "main"}
	for i := range n {
		name := fmt.Sprint("s", i)
		cfg.Sources.Sources = append(cfg.Sources.Sources, source.Source{Name: name, Addresses: []netip.Addr{netip.AddrFrom4([4]byte{203, 0, byte(i >> 8), byte(i)})}})
		p.Members = append(p.Members, source.Member{Source: name, Weight: 1})
		if allowance > 0 {
			cfg.Warmup.Sources = append(cfg.Warmup.Sources, warmup.Source{Name: name, Plan: warmup.Plan{Name: "p", Allowances: []int{allowance}}})
		}
	}
	cfg.Sources.Pools = []source.Pool{p}
	q, err := New(cfg, 1)
	if err != nil {
		tb.Fatal(err)
	}
	q.now = mail.Instant(1e18)
	return q, q.transport("smtp")
}

// The choice by its definition: of the sources in a circle, from the one on whose turn it is at
// the destination, the first that may send, has enough of its allowance left, and whose
// destination is not dead; else the first of those that are but for that. A message that was
// the last one to ask gets the same source again, as long as that is true of it.
type choiceTwin struct {
	first int            // whose turn it is at the next new destination
	next  map[string]int // whose turn it is
	last  map[string]choice
}

type choice struct {
	message uint64
	source  int
}

func (w *choiceTwin) choose(q *Qmgr, t *transport, m *message, name string) int {
	all := q.sources.All()
	state := make([]int, len(all)) // 2: it can be chosen; 1: it is dead; 0: it must not be chosen
	for i, s := range all {
		d := t.queues.Get(directory.Key{Name: name, Source: s.Name})
		waiting := 0
		if d != nil {
			waiting = d.Waiting
		}
		switch {
		case !s.Up(), q.warmup.Allowance(warmup.Key{Source: s.Name, Site: name}, q.now).Left() <= waiting:
		case d != nil && d.dead():
			state[i] = 1
		default:
			state[i] = 2
		}
	}
	from, known := w.next[name]
	if !known {
		from = w.first
	}
	for want := 2; want > 0; want-- {
		if last, ok := w.last[name]; ok && last.message == m.serial && state[last.source] >= want {
			return last.source
		}
		for k := range all {
			if i := (from + k) % len(all); state[i] >= want {
				if !known {
					w.first = (i + 1) % len(all)
				}
				w.next[name], w.last[name] = (i+1)%len(all), choice{m.serial, i}
				return i
			}
		}
	}
	return -1
}

// Sources are withdrawn and come back, destinations die and revive, allowances are used up:
// the choice is that of the definition.
func TestChooseSourceAgainstTwin(t *testing.T) {
	for run := range golden.Runs(50) {
		r := rand.New(rand.NewPCG(uint64(run), 1))
		q, smtp := pooled(t, 1+r.IntN(7), r.IntN(2)*20)
		w := choiceTwin{next: make(map[string]int), last: make(map[string]choice)}
		m := &message{stay: stay{serial: 1}}
		for pick := range 400 {
			name := fmt.Sprintf("d%d.test", r.IntN(3))
			s := q.sources.All()[r.IntN(len(q.sources.All()))]
			switch r.IntN(8) {
			case 0:
				if s.Up() {
					s.Withdraw(source.IPv4, mail.Reply{}, q.now)
				} else {
					s.Try(source.IPv4)
					s.Restore(source.IPv4)
				}
			case 1:
				if d := q.queue(smtp, name, name, s, ""); d.dead() {
					q.revive(d, CauseRevival)
				} else {
					d.window.Close()
					q.dies(d, mail.Reply{Code: 421}, q.now.Add(1e12))
				}
			case 2:
				q.warmup.Take(warmup.Key{Source: s.Name, Site: name}, q.now)
			case 3:
				q.queue(smtp, name, name, s, "").Waiting = r.IntN(10)
			}
			if r.IntN(3) > 0 {
				m.serial++
			}
			want := w.choose(q, smtp, m, name)
			got, why := q.chooseSource(m, smtp, way{name, name, ""}, name, addressees{})
			if (want < 0) != !why.IsZero() || want >= 0 && got != q.sources.All()[want] {
				t.Fatalf("run %d, pick %d for %s: %s %v, want %d", run, pick, name, got.String(), why, want)
			}
		}
	}
}

// BenchmarkChooseSource is the choice for one message of a destination: if all sources may
// send; if they are warmed up and all may still; if all but the last have used up their
// allowance; and if all have.
func BenchmarkChooseSource(b *testing.B) {
	for _, c := range []struct {
		name      string
		allowance int
		spent     func(n int) int
	}{
		{"free", 0, func(int) int { return 0 }}, {"warming", 1000, func(int) int { return 0 }},
		{"all-but-one-spent", 1000, func(n int) int { return n - 1 }}, {"all-spent", 1000, func(n int) int { return n }},
	} {
		for _, n := range []int{1, 10, 100} {
			b.Run(fmt.Sprintf("%s/members=%d", c.name, n), func(b *testing.B) {
				q, smtp := pooled(b, n, c.allowance)
				for i := range c.spent(n) {
					for range c.allowance {
						q.warmup.Take(warmup.Key{Source: fmt.Sprint("s", i), Site: "d.test"}, q.now)
					}
				}
				m := &message{}
				b.ReportAllocs()
				for b.Loop() {
					m.serial++
					q.chooseSource(m, smtp, way{"d.test", "d.test", ""}, "d.test", addressees{})
				}
			})
		}
	}
}
