package destdb

import (
	"math/rand/v2"
	"net/netip"
	"testing"
	"time"

	"github.com/posthaste-mta/posthaste/internal/golden"
	"github.com/posthaste-mta/posthaste/mail"
)

// naiveDown applies the definition to the whole log since the last change.
func naiveDown(log []result, now mail.Instant) bool {
	seen := map[netip.Addr]bool{}
	total, failed := 0, 0
	for i := len(log) - 1; i >= 0 && now < log[i].at.Add(OutageWindow) && total < outageMax; i-- {
		if seen[log[i].addr] {
			continue
		}
		seen[log[i].addr] = true
		total++
		if !log[i].ok {
			failed++
		}
	}
	return total >= OutageLeast && float64(failed) >= 0.8*float64(total)
}

// An outage is declared by the result that completes the definition, neither
// earlier nor later, whatever came before.
func TestOutageTwin(t *testing.T) {
	for range golden.Runs(1) {
		seed := rand.Uint64()
		rng := rand.New(rand.NewPCG(seed, 0))
		hosts, failing, step := 10+rng.IntN(400), rng.IntN(101), 1+rng.Int64N(int64(10*time.Second))
		var o Outage
		var log []result
		now := epoch
		for i := range 2000 {
			now += mail.Instant(rng.Int64N(step))
			r := result{netip.AddrFrom4([4]byte{10, 0, byte(rng.IntN(hosts) >> 8), byte(rng.IntN(hosts))}), now, rng.IntN(100) >= failing}
			log = append(log, r)
			changed := o.Result(r.addr, now, now, r.ok)
			if want := !r.ok && naiveDown(log, now); changed != want || (o.Since() != 0) != want {
				t.Fatalf("seed %d, step %d: changed %v, down since %v, want %v", seed, i, changed, o.Since(), want)
			}
			if changed {
				o, log = Outage{}, nil
			}
		}
	}
}

// During an outage exactly one attempt begins every second.
func TestOutageProbes(t *testing.T) {
	var o Outage
	if o.Tried(epoch); o.ProbeAt() != 0 {
		t.Error("attempts are delayed without an outage")
	}
	for i := range OutageLeast {
		o.Result(netip.AddrFrom4([4]byte{10, 0, 0, byte(i)}), epoch, epoch, false)
	}
	for i := range 10 {
		want := epoch.Add(time.Duration(i+1) * time.Second)
		if at := o.ProbeAt(); at != want {
			t.Fatalf("probe %d at %v, want %v", i, at, want)
		}
		o.Tried(want)
		if o.Result(host1, want, want, false) {
			t.Fatal("a failure changed the state")
		}
	}
}

func BenchmarkOutage(b *testing.B) {
	var o Outage
	now := epoch
	for i := 0; b.Loop(); i++ {
		now += 1000
		o.Result(netip.AddrFrom4([4]byte{10, 0, byte(i >> 8), byte(i)}), now, now, true)
	}
}
