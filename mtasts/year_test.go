package mtasts

import (
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"testing"
	"testing/synctest"
	"time"

	"github.com/posthaste-mta/posthaste/internal/golden"
)

// twin is the naive idea of what is in force: the last policy that was fetched, until its
// max_age ends.
type twin map[string]struct {
	policy Policy
	at     time.Time
}

func (tw twin) inForce(domain string, now time.Time) string {
	last, ok := tw[domain]
	if !ok || now.Sub(last.at) >= max(last.policy.MaxAge, inForceMin) {
		return "-"
	}
	return show(last.policy)
}

// A year of a few domains: they change their policies, take them back and restore them, with
// outages of name servers and web servers, mail at random times and restarts. At every mail
// the policy in force is what a naive twin says; where there is none, it is because
// there was nothing to find, or because of a failure that is remembered.
func TestYear(t *testing.T) {
	days := 60 // in the stage random of .ci/run it is a year
	if golden.Runs(0) > 0 {
		days = 365
	}
	runs := golden.Runs(1)
	for range runs {
		seed := rand.Uint64()
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			path := filepath.Join(t.TempDir(), "mta-sts")
			synctest.Test(t, func(t *testing.T) {
				rng := rand.New(rand.NewPCG(seed, 0))
				w := newWorld()
				tw := make(twin)
				w.good = func(domain string, p Policy) {
					last := tw[domain]
					last.policy, last.at = p, time.Now()
					tw[domain] = last
				}
				inForce := func(domain string) string {
					w.mu.Lock()
					defer w.mu.Unlock()
					return tw.inForce(domain, time.Now())
				}
				var file []byte // the file that the store has written, without the cost of a disk
				open := func() *Store {
					if err := os.WriteFile(path, file, 0o600); err != nil {
						t.Fatal(err)
					}
					s := w.store(t, func(c *Config) { c.File = path })
					s.mu.Lock()
					defer s.mu.Unlock()
					s.write = func(_ string, text []byte) error { file = text; return nil }
					return s
				}
				s := open()
				start := time.Now()
				healthy := make(map[string]time.Time) // since when all servers of a domain are well
				names := []string{"a.example", "b.example", "c.example", "d.example"}
				ages := []time.Duration{0, time.Hour, day, 7 * day, MaxAgeMax}
				for i, domain := range names {
					w.policy(domain, "first", Enforce, ages[1+i])
					healthy[domain] = start
				}
				seen, none := 0, 0
				for id := 0; time.Since(start) < time.Duration(days)*day; id++ {
					time.Sleep(time.Duration(rng.Int64N(int64(2 * time.Hour))))
					domain := names[rng.IntN(len(names))]
					switch rng.IntN(40) {
					case 0:
						w.policy(domain, fmt.Sprint(id), Mode(rng.IntN(3)), ages[rng.IntN(len(ages))])
						healthy[domain] = time.Now()
					case 1:
						w.set(domain, func(p *published) { p.dns = errServfail })
					case 2:
						w.set(domain, func(p *published) { p.web = failed(FetchError, "refused") })
					case 3:
						w.set(domain, func(p *published) { p.record = "" })
					case 4, 5, 6, 7:
						w.policy(domain, fmt.Sprint(id), Mode(rng.IntN(3)), ages[rng.IntN(len(ages))])
						w.set(domain, func(p *published) { p.dns, p.web = nil, nil })
						healthy[domain] = time.Now()
					case 8:
						s.Close() // its fetches end with it, and none is under way: they take no time
						s = open()
					}
					domain = names[rng.IntN(len(names))]
					expected := inForce(domain)
					p, ok, _ := s.Lookup(t.Context(), domain)
					got := "-"
					if ok {
						got = show(p)
					}
					synctest.Wait() // a look for a new id, in the background
					now := inForce(domain)
					if got != expected && !(expected == "-" && got == now) {
						t.Fatalf("after %v %s has %s; before the lookup %s was in force, and after it %s", time.Since(start), domain, got, expected, now)
					}
					pub := w.domains[domain]
					well := pub.dns == nil && pub.web == nil && pub.record != ""
					if well && got == "-" {
						// Only a failed fetch of the same id excuses that, and for a day.
						if st, known := s.Status(domain); !known || st.Err == nil || !time.Now().Before(st.Retry) {
							t.Fatalf("after %v nothing is in force for %s, and nothing is wrong: %+v", time.Since(start), domain, st)
						}
					}
					if well && time.Since(healthy[domain]) > retryMax+2*checkEvery+2*renewTick && now != show(pub.policy) {
						t.Fatalf("after %v %s has %s; for %v it has published %s", time.Since(start), domain, now, time.Since(healthy[domain]), show(pub.policy))
					}
					if ok {
						seen++
					} else {
						none++
					}
				}
				s.Close()
				n := w.count()
				t.Logf("%d lookups with a policy, %d without; %d fetches", seen, none, n)
				if seen < 10*days || none == 0 {
					t.Errorf("%d lookups with a policy and %d without do not show much", seen, none)
				}
				if n > days*24*len(names)*25 {
					t.Errorf("%d fetches", n)
				}
			})
		})
	}
}
