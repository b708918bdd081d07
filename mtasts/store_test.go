package mtasts

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"
)

// A world is what domains publish, and how well their servers work. It stands for the
// name servers (as a Resolver) and the web servers (as a Store's fetch).
type world struct {
	mu      sync.Mutex
	domains map[string]*published
	fetches []string      // domains, in order
	slow    time.Duration // each fetch takes that long
	slowDNS time.Duration // each lookup of a record takes that long
	running int           // fetches at this moment
	most    int           // the maximum of running
	good    func(domain string, p Policy)
}

// published is what one domain publishes.
type published struct {
	record string // the TXT record; "" for none
	dns    error  // of the lookup of the record
	policy Policy // without ID
	web    *Error // of the fetch
}

func newWorld() *world {
	return &world{domains: make(map[string]*published), good: func(string, Policy) {}}
}

// set changes what a domain publishes.
func (w *world) set(domain string, change func(*published)) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.domains[domain] == nil {
		w.domains[domain] = &published{}
	}
	change(w.domains[domain])
}

// policy lets a domain publish a policy for hosts below it.
func (w *world) policy(domain, id string, mode Mode, maxAge time.Duration) {
	w.set(domain, func(p *published) {
		p.record = "v=STSv1; id=" + id
		p.policy = Policy{Mode: mode, MX: []string{"*." + domain}, MaxAge: maxAge}
	})
}

func (w *world) TXT(ctx context.Context, name string) ([]string, error) {
	w.mu.Lock()
	if slow := w.slowDNS; slow > 0 {
		w.mu.Unlock()
		select {
		case <-time.After(slow):
		case <-ctx.Done():
			return nil, ctx.Err()
		}
		w.mu.Lock()
	}
	defer w.mu.Unlock()
	p := w.domains[strings.TrimPrefix(name, recordPrefix)]
	switch {
	case p == nil:
		return nil, nil
	case p.dns != nil:
		return nil, p.dns
	case p.record == "":
		return nil, nil
	}
	return []string{p.record}, nil
}

// lag sets how long fetches and lookups of records take from now on.
func (w *world) lag(web, dns time.Duration) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.slow, w.slowDNS = web, dns
}

func (w *world) Addrs(context.Context, string) ([]netip.Addr, error) { return public.addrs, nil }

func (w *world) fetch(ctx context.Context, domain string) (Policy, *Error) {
	w.mu.Lock()
	w.fetches = append(w.fetches, domain)
	w.running++
	w.most = max(w.most, w.running)
	slow := w.slow
	w.mu.Unlock()
	if slow > 0 {
		select {
		case <-time.After(slow):
		case <-ctx.Done():
		}
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	w.running--
	p := w.domains[domain]
	switch {
	case ctx.Err() != nil:
		return Policy{}, failed(FetchError, "too slow")
	case p.web != nil:
		return Policy{}, p.web
	}
	w.good(domain, p.policy)
	return p.policy, nil
}

// fetched returns and forgets the domains that were fetched from, in order.
func (w *world) fetched() []string {
	w.mu.Lock()
	defer w.mu.Unlock()
	list := w.fetches
	w.fetches = nil
	return list
}

// count returns and forgets the number of fetches.
func (w *world) count() int { return len(w.fetched()) }

// store returns a store in this world. In a bubble it must be closed there.
func (w *world) store(t testing.TB, change func(*Config)) *Store {
	t.Helper()
	c := Config{Resolver: w}
	if change != nil {
		change(&c)
	}
	s, err := New(c)
	if err != nil {
		t.Fatal(err)
	}
	s.mu.Lock()
	s.fetch = w.fetch
	s.mu.Unlock()
	return s
}

// look renders what Lookup returns: "enforce 1", or "-".
func look(t testing.TB, s *Store, domain string) string {
	t.Helper()
	return showFound(s.Lookup(t.Context(), domain))
}

func showFound(p Policy, ok bool, err error) string {
	if err != nil {
		return err.Error()
	}
	if !ok {
		return "-"
	}
	return p.Mode.String() + " " + p.ID
}

const day = 24 * time.Hour

// in runs a test in virtual time, with a store.
func in(t *testing.T, test func(t *testing.T, w *world, s *Store)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		w := newWorld()
		s := w.store(t, nil)
		defer s.Close()
		test(t, w, s)
	})
}

// A policy is fetched with the first mail and then in force for its max_age, whatever
// happens to the record and the web server meanwhile. On the moment it ends.
func TestInForce(t *testing.T) {
	for name, fault := range map[string]func(*published){
		"nothing":                 func(*published) {},
		"no record":               func(p *published) { p.record = "" },
		"no name server":          func(p *published) { p.dns = errServfail },
		"malformed record":        func(p *published) { p.record = "v=STSv1; id=" },
		"no web server":           func(p *published) { p.web = failed(FetchError, "refused") },
		"new id, no web server":   func(p *published) { p.record, p.web = "v=STSv1; id=2", failed(FetchError, "refused") },
		"new id, invalid policy":  func(p *published) { p.record, p.web = "v=STSv1; id=2", failed(Invalid, "empty") },
		"new id, bad certificate": func(p *published) { p.record, p.web = "v=STSv1; id=2", failed(WebPKI, "expired") },
	} {
		t.Run(name, func(t *testing.T) {
			in(t, func(t *testing.T, w *world, s *Store) {
				const age = 40 * time.Hour
				w.policy("example.com", "1", Enforce, age)
				if got := look(t, s, "example.com"); got != "enforce 1" {
					t.Fatal(got)
				}
				w.set("example.com", fault)
				w.set("example.com", func(p *published) {
					if p.web == nil { // the record alone does not matter: the policy is renewed
						p.web = failed(FetchError, "refused")
					}
				})
				for range 40*60 - 1 {
					time.Sleep(time.Minute)
					if got := look(t, s, "example.com"); got != "enforce 1" {
						t.Fatalf("%s", got)
					}
				}
				time.Sleep(time.Minute - time.Nanosecond)
				if got := look(t, s, "example.com"); got != "enforce 1" {
					t.Error(got, "before the end")
				}
				time.Sleep(time.Nanosecond)
				if got := look(t, s, "example.com"); got != "-" {
					t.Error(got, "after the end")
				}
			})
		})
	}
}

// While there is a policy in memory, mail does not wait for another one: a new id is noticed
// within five minutes, and the old policy applies until the new one is there.
func TestNewID(t *testing.T) {
	in(t, func(t *testing.T, w *world, s *Store) {
		w.policy("example.com", "1", Testing, 7*day)
		look(t, s, "example.com")
		w.slow = 9500 * time.Millisecond
		w.policy("example.com", "2", Enforce, 7*day)
		var seen []string
		start := time.Now()
		for time.Since(start) < 6*time.Minute {
			before := time.Now()
			got := look(t, s, "example.com")
			if time.Since(before) != 0 {
				t.Fatalf("the answer took %v", time.Since(before))
			}
			if seen == nil || !strings.HasSuffix(seen[len(seen)-1], got) {
				seen = append(seen, fmt.Sprintf("%v %s", time.Since(start), got))
			}
			time.Sleep(time.Second)
		}
		if want := []string{"0s testing 1", "5m10s enforce 2"}; !slices.Equal(seen, want) {
			t.Errorf("%q", seen)
		}
		if n := w.count(); n != 2 {
			t.Errorf("%d fetches", n)
		}
	})
}

// Domains without a record, or with a bad one, have no policy, no fetch and no place in
// memory.
func TestNoPolicy(t *testing.T) {
	in(t, func(t *testing.T, w *world, s *Store) {
		w.set("dead.example", func(p *published) { p.dns = errServfail })
		w.set("two.example", func(p *published) { p.record = "v=STSv1; id=" })
		for _, domain := range []string{"none.example", "dead.example", "two.example"} {
			if got := look(t, s, domain); got != "-" {
				t.Errorf("%s: %s", domain, got)
			}
		}
		if n := w.count(); n != 0 || len(s.entries.byName) != 0 {
			t.Errorf("%d fetches, %d entries", n, len(s.entries.byName))
		}
	})
}

// A domain whose web server fails costs a fetch after 5, 10, 20 minutes and so on up to
// a day, whatever its mail; each new id may be fetched again, once in a minute.
func TestFailuresAreRemembered(t *testing.T) {
	in(t, func(t *testing.T, w *world, s *Store) {
		w.policy("example.com", "1", Enforce, 7*day)
		w.set("example.com", func(p *published) { p.web = failed(FetchError, "refused") })
		start := time.Now()
		var at []time.Duration
		for range 6 * 24 * 60 {
			if got := look(t, s, "example.com"); got != "-" {
				t.Fatal(got)
			}
			if w.count() > 0 {
				at = append(at, time.Since(start))
			}
			time.Sleep(time.Minute)
		}
		var want []time.Duration
		next := time.Duration(0)
		for d := 5 * time.Minute; next < 6*day; d = min(2*d, day) {
			want = append(want, next)
			next += d
		}
		if !slices.Equal(at, want) {
			t.Errorf("fetched at %v, want %v", at, want)
		}
		w.policy("example.com", "2", Enforce, 7*day)
		look(t, s, "example.com")
		if n := w.count(); n != 1 {
			t.Errorf("%d fetches for the new id", n)
		}
		for i := range 600 { // a new id each second
			w.policy("example.com", fmt.Sprint("x", i), Enforce, 7*day)
			look(t, s, "example.com")
			time.Sleep(time.Second)
		}
		if n := w.count(); n != 9 {
			t.Errorf("%d fetches in ten minutes", n)
		}
		w.set("example.com", func(p *published) { p.web = nil })
		time.Sleep(time.Minute)
		if got := look(t, s, "example.com"); got != "enforce x599" {
			t.Error(got)
		}
	})
}

// A domain that flips between modes gets what it says, but no more than a fetch a minute
// (row B-138).
func TestModeFlip(t *testing.T) {
	in(t, func(t *testing.T, w *world, s *Store) {
		for i := range 3600 {
			w.policy("example.com", fmt.Sprint(i), Mode(i%3), time.Duration(i%2)*365*day)
			s.Recheck(t.Context(), "example.com")
			time.Sleep(time.Second)
		}
		if n := w.count(); n != 60 {
			t.Errorf("%d fetches in an hour", n)
		}
		time.Sleep(time.Minute)
		if got := showFound(s.Recheck(t.Context(), "example.com")); got != "enforce 3599" { // 3599%3 is 2
			t.Error(got)
		}
		w.policy("example.com", "end", None, day)
		time.Sleep(time.Minute)
		if got := showFound(s.Recheck(t.Context(), "example.com")); got != "none end" {
			t.Error(got)
		}
	})
}

// Policies are renewed each day, or after half of their max_age, as long as there is
// mail, so that mail never waits for a fetch and a policy does not end unnoticed.
func TestRenewal(t *testing.T) {
	in(t, func(t *testing.T, w *world, s *Store) {
		w.policy("year.example", "1", Enforce, 365*day)
		w.policy("hour.example", "1", Enforce, time.Hour)
		w.policy("zero.example", "1", Enforce, 0)
		w.policy("unused.example", "1", Enforce, 365*day)
		look(t, s, "unused.example")
		w.slow = time.Second
		var waited []string
		for i := range 40 * 24 * 60 {
			for _, domain := range []string{"year.example", "hour.example", "zero.example"} {
				before := time.Now()
				if got := look(t, s, domain); got != "enforce 1" {
					t.Fatalf("%s: %s", domain, got)
				}
				if time.Since(before) > 0 {
					waited = append(waited, fmt.Sprint(domain, " at ", i))
				}
			}
			time.Sleep(time.Minute)
		}
		counts := make(map[string]int)
		for _, domain := range w.fetched() {
			counts[domain]++
		}
		if want := []string{"year.example at 0", "hour.example at 0", "zero.example at 0"}; !slices.Equal(waited, want) {
			t.Errorf("mail waited for %q", waited)
		}
		// 40 days; 40 days of half hours, and of three minutes, as the policies are looked
		// at every minute; 30 days of use.
		if y, h, z, u := counts["year.example"], counts["hour.example"], counts["zero.example"], counts["unused.example"]; y < 39 || y > 41 || h < 1850 || h > 1930 || z < 14000 || z > 19300 || u < 30 || u > 31 {
			t.Errorf("fetches: %v", counts)
		}
		if got := look(t, s, "unused.example"); got != "enforce 1" {
			t.Errorf("after 40 days: %s", got)
		}
		time.Sleep(2 * time.Minute)
		if !slices.Contains(w.fetched(), "unused.example") {
			t.Error("not renewed with the next mail")
		}
	})
}

// Renewal extends a policy, also where the record is gone, and takes over a shorter
// max_age.
func TestRenewalChangesTheEnd(t *testing.T) {
	in(t, func(t *testing.T, w *world, s *Store) {
		w.policy("example.com", "1", Enforce, 10*day)
		look(t, s, "example.com")
		w.set("example.com", func(p *published) { p.record = "" })
		time.Sleep(9 * day)
		st, ok := s.Status("example.com")
		if !ok || !st.InForce || st.Err != nil || time.Until(st.Expires) < 9*day || st.Policy.ID != "1" {
			t.Errorf("%+v", st)
		}
		w.set("example.com", func(p *published) { p.policy.MaxAge = 2 * time.Hour })
		time.Sleep(day + 2*time.Minute)
		w.set("example.com", func(p *published) { p.web = failed(FetchError, "refused") })
		if st, _ := s.Status("example.com"); time.Until(st.Expires) > 2*time.Hour {
			t.Errorf("%+v", st)
		}
		time.Sleep(2 * time.Hour)
		if got := look(t, s, "example.com"); got != "-" {
			t.Error(got)
		}
	})
}

// Recheck looks for a new id at once, since mail would be returned otherwise.
func TestRecheck(t *testing.T) {
	in(t, func(t *testing.T, w *world, s *Store) {
		w.policy("example.com", "1", Enforce, 7*day)
		if got := showFound(s.Recheck(t.Context(), "example.com")); got != "enforce 1" {
			t.Error(got)
		}
		time.Sleep(2 * time.Minute)
		w.policy("example.com", "2", None, 7*day)
		if got := look(t, s, "example.com"); got != "enforce 1" {
			t.Error(got)
		}
		if got := showFound(s.Recheck(t.Context(), "example.com")); got != "none 2" {
			t.Error(got)
		}
		w.set("example.com", func(p *published) { p.dns = errServfail })
		if got := showFound(s.Recheck(t.Context(), "example.com")); got != "none 2" {
			t.Error(got)
		}
		if got := showFound(s.Recheck(t.Context(), "[192.0.2.1]")); got != "-" {
			t.Error(got)
		}
	})
}

// A hundred messages for a domain cause one fetch. A caller that stops waiting gets an error, since
// it is not known whether there is a policy; the fetch goes on for the others.
func TestOneFlight(t *testing.T) {
	in(t, func(t *testing.T, w *world, s *Store) {
		w.policy("example.com", "1", Enforce, 7*day)
		w.slow = 10 * time.Second
		var all sync.WaitGroup
		for i := range 100 {
			all.Go(func() {
				ctx, want := t.Context(), "enforce 1"
				if i%2 == 0 {
					limited, cancel := context.WithTimeout(ctx, time.Second)
					defer cancel()
					ctx, want = limited, context.DeadlineExceeded.Error()
				}
				if got := showFound(s.Lookup(ctx, "example.com")); got != want {
					t.Errorf("%d: %s", i, got)
				}
			})
		}
		all.Wait()
		if n := w.count(); n != 1 {
			t.Errorf("%d fetches", n)
		}
	})
}

// A search goes on when no caller waits for it any more, whatever its stage: the next mail finds
// its result. A search that no name server answers ends by itself, and its failure is not
// remembered for long.
func TestSearchOutlivesItsCaller(t *testing.T) {
	for _, c := range []struct {
		dns, web time.Duration
		want     string // a minute and a half later
	}{{0, 30 * time.Second, "enforce 1"}, {30 * time.Second, 0, "enforce 1"}, {40 * time.Second, 40 * time.Second, "enforce 1"}, {61 * time.Second, 0, "-"}} {
		in(t, func(t *testing.T, w *world, s *Store) {
			w.policy("example.com", "1", Enforce, 7*day)
			w.lag(c.web, c.dns)
			ctx, cancel := context.WithTimeout(t.Context(), time.Second)
			defer cancel()
			if got := showFound(s.Lookup(ctx, "example.com")); got != context.DeadlineExceeded.Error() {
				t.Errorf("%+v: %s after a second", c, got)
			}
			time.Sleep(90 * time.Second)
			ctx, cancel = context.WithTimeout(t.Context(), time.Millisecond)
			defer cancel()
			got := "-"
			if p, ok, _ := s.Lookup(ctx, "example.com"); ok {
				got = showFound(p, ok, nil)
			}
			if got != c.want {
				t.Errorf("%+v: %s later, want %s", c, got, c.want)
			}
			time.Sleep(time.Minute)
			w.lag(0, 0)
			if got := look(t, s, "example.com"); got != "enforce 1" {
				t.Errorf("%+v: %s at the end", c, got)
			}
		})
	}
}

// Web servers that are slow are fetched from side by side up to the limit. Lookups that
// find no room within the time of a fetch go without a policy.
func TestFetchLimit(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld()
		s := w.store(t, func(c *Config) { c.Fetches = 10 })
		defer s.Close()
		w.slow = 40 * time.Second
		results := make(chan string, 30)
		start := time.Now()
		for i := range cap(results) {
			domain := fmt.Sprintf("d%d.example", i)
			w.policy(domain, "1", Enforce, 7*day)
			go func() { results <- look(t, s, domain) }()
		}
		counts := make(map[string]int)
		for range cap(results) {
			counts[<-results]++
		}
		if counts["enforce 1"] != 10 || counts["-"] != 20 || w.most != 10 || time.Since(start) != time.Minute {
			t.Errorf("%v, %d at once, in %v", counts, w.most, time.Since(start))
		}
	})
}

// A domain whose policy is in force keeps it while others fill the memory; what was
// used least recently goes first. Long policies have the weight of several.
func TestBounds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld()
		s := w.store(t, func(c *Config) { c.Entries = 100 })
		defer s.Close()
		w.policy("mine.example", "1", Enforce, 365*day)
		for i := range 1000 {
			look(t, s, "mine.example")
			domain := fmt.Sprintf("d%d.example", i)
			w.policy(domain, "1", Enforce, 365*day)
			if i%2 == 0 {
				w.set(domain, func(p *published) { p.web = failed(FetchError, "refused") })
			}
			look(t, s, domain)
		}
		if len(s.entries.byName) != 100 || s.entries.byUsage.Len() != 100 || s.entries.weight != 100 {
			t.Errorf("%d entries of weight %d", len(s.entries.byName), s.entries.weight)
		}
		if _, ok := s.Status("mine.example"); !ok {
			t.Error("the one in use is forgotten")
		}
		if _, ok := s.Status("d0.example"); ok {
			t.Error("the oldest is not forgotten")
		}
		for i := range 20 {
			domain := fmt.Sprintf("h%d.example", i)
			w.policy(domain, "1", Enforce, 365*day)
			w.set(domain, func(p *published) {
				for j := range 1000 {
					p.policy.MX = append(p.policy.MX, fmt.Sprintf("a-rather-long-name-of-a-host-%d.%s", j, domain))
				}
			})
			look(t, s, domain)
		}
		if n := len(s.entries.byName); n > 2 || s.entries.weight > 100 {
			t.Errorf("%d entries of weight %d", n, s.entries.weight)
		}
	})
}

// A store that is closed answers from memory, and starts nothing. Of other domains it does not say
// that they have no policy: it does not know.
func TestClose(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld()
		s := w.store(t, nil)
		w.policy("example.com", "1", Enforce, 7*day)
		look(t, s, "example.com")
		w.slow = time.Hour
		w.policy("slow.example", "1", Enforce, 7*day)
		result := make(chan string, 1)
		go func() { result <- look(t, s, "slow.example") }()
		synctest.Wait()
		s.Close()
		if got := <-result; got != context.Canceled.Error() {
			t.Error(got)
		}
		if _, ok := s.Status("slow.example"); ok {
			t.Error("the end of the store counts as a failure of the domain")
		}
		time.Sleep(checkEvery)
		if got := look(t, s, "example.com"); got != "enforce 1" {
			t.Error(got)
		}
		w.count()
		if got := look(t, s, "slow.example"); got != context.Canceled.Error() || w.count() != 0 {
			t.Error(got)
		}
	})
}

// What is known of a domain, for people and reports.
func TestStatus(t *testing.T) {
	in(t, func(t *testing.T, w *world, s *Store) {
		if _, ok := s.Status("example.com"); ok {
			t.Error("known before the first mail")
		}
		w.policy("example.com", "1", Enforce, 7*day)
		w.set("example.com", func(p *published) { p.web = failed(WebPKI, "expired\n") })
		look(t, s, "example.com")
		st, ok := s.Status("Example.com.")
		var wrong *Error
		if !ok || st.InForce || !st.Expires.IsZero() || !errors.As(st.Err, &wrong) || wrong.Problem != WebPKI || time.Until(st.Retry) != retryMin {
			t.Errorf("%v %+v", ok, st)
		}
		time.Sleep(retryMin)
		w.set("example.com", func(p *published) { p.web = nil })
		look(t, s, "example.com")
		if st, _ := s.Status("example.com"); !st.InForce || st.Err != nil || !st.Retry.IsZero() || st.Expires.Sub(st.Fetched) != 7*day {
			t.Errorf("%+v", st)
		}
		w.set("example.com", func(p *published) { p.record = "v=STSv1;" })
		time.Sleep(checkEvery)
		look(t, s, "example.com")
		synctest.Wait()
		if st, _ := s.Status("example.com"); !st.InForce || !errors.As(st.Err, &wrong) || wrong.Problem != Invalid {
			t.Errorf("%+v", st)
		}
	})
}

func TestConfigComplains(t *testing.T) {
	for _, c := range []Config{{}, {Resolver: public, Entries: -1}, {Resolver: public, Timeout: -1}, {Resolver: public, Fetches: -1}} {
		if s, err := New(c); err == nil {
			s.Close()
			t.Errorf("%+v is accepted", c)
		}
	}
}
