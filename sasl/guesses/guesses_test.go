package guesses

import (
	"fmt"
	"net/netip"
	"testing"
	"time"

	"github.com/posthaste-mta/posthaste/internal/prng"
	"github.com/posthaste-mta/posthaste/mail"
)

func network(n int) netip.Prefix {
	return netip.PrefixFrom(netip.AddrFrom4([4]byte{192, 0, byte(n >> 8), byte(n)}), 32)
}

const start = mail.Instant(1_800_000_000 * time.Second)

// One client guesses passwords of many users: it is slowed more and more, and stopped at the
// limit; a minute later it may guess once more. Others are not concerned.
func TestOneNetwork(t *testing.T) {
	g := New(Config{}.WithDefaults())
	now := start
	for i := range 20 {
		if v := g.Judge(now, network(1), fmt.Sprint("user", i)); v != Tried {
			t.Fatalf("guess %d: %s", i, v)
		}
		if d, want := g.Failed(now, network(1), fmt.Sprint("user", i)), min(time.Duration(i+1)*time.Second, 10*time.Second); d != want {
			t.Errorf("guess %d is delayed by %s, want %s", i, d, want)
		}
	}
	if v := g.Judge(now, network(1), "alice"); v != NetworkFull {
		t.Errorf("after twenty guesses: %s", v)
	}
	if v := g.Judge(now, network(2), "alice"); v != Tried {
		t.Errorf("another network: %s", v)
	}
	now = now.Add(time.Minute)
	if v := g.Judge(now, network(1), "alice"); v != Tried {
		t.Errorf("a minute later: %s", v)
	}
	g.Failed(now, network(1), "alice")
	if v := g.Judge(now, network(1), "alice"); v != NetworkFull {
		t.Errorf("after one guess more: %s", v)
	}
	if v := g.Judge(now, netip.Prefix{}, "alice"); v != Tried {
		t.Errorf("a client that is not counted: %s", v)
	}
}

// Guesses of one user's password from everywhere: the user logs in from where it did
// before, as if nothing was, and from elsewhere once in a minute at least.
func TestOneUser(t *testing.T) {
	g := New(Config{}.WithDefaults())
	now, home := start, network(60_000)
	g.Succeeded(now, home, "alice")
	for i := range 1000 {
		if v := g.Judge(now, network(i), "alice"); v == Tried {
			g.Failed(now, network(i), "alice")
		} else if i < 20 {
			t.Fatalf("guess %d: %s", i, v)
		}
	}
	if v := g.Judge(now, network(1001), "alice"); v != UserFull {
		t.Errorf("from elsewhere: %s", v)
	}
	if v := g.Judge(now, home, "alice"); v != Tried {
		t.Errorf("from home: %s", v)
	}
	if v := g.Judge(now, network(1001), "bob"); v != Tried {
		t.Errorf("another user: %s", v)
	}
	g.Failed(now, home, "alice") // a mistyped password at home does not lengthen it
	if v := g.Judge(now.Add(time.Minute), network(1001), "alice"); v != Tried {
		t.Errorf("from elsewhere a minute later: %s", v)
	}
}

// Nothing is limited if the operator says so; a wrong password still costs a second.
func TestUnlimited(t *testing.T) {
	g := New(Config{Limit: -1}.WithDefaults())
	for range 100 {
		if v := g.Judge(start, network(1), "alice"); v != Tried {
			t.Fatal(v)
		}
		if d := g.Failed(start, network(1), "alice"); d != time.Second {
			t.Fatal(d)
		}
	}
}

// Whatever is guessed, the tables stay as large as they may be, and what was used least
// recently goes first.
func TestMemory(t *testing.T) {
	g := New(Config{Entries: 10}.WithDefaults())
	for i := range 1000 {
		g.Failed(start, network(i), fmt.Sprint("user", i))
		g.Succeeded(start, network(i), "alice")
		g.Failed(start, network(0), "user0")
	}
	if n := max(len(g.networks.all), len(g.users.all), len(g.known.all), g.networks.used.Len(), g.users.used.Len(), g.known.used.Len()); n != 10 {
		t.Errorf("%d entries", n)
	}
	if v := g.Judge(start, network(0), ""); v != NetworkFull {
		t.Errorf("the busiest network was forgotten: %s", v)
	}
}

func TestConfig(t *testing.T) {
	if err := (Config{}).WithDefaults().Validate(); err != nil {
		t.Error(err)
	}
	for _, c := range []Config{{Limit: 10_001}, {Forget: 1}, {Forget: 25 * time.Hour}, {DelayMax: -1}, {DelayMax: time.Hour}, {Entries: -1}} {
		if c.WithDefaults().Validate() == nil {
			t.Errorf("%+v has no error", c)
		}
	}
}

// twin keeps for each key how long its failures last, and when that was computed. It has no
// limit of memory.
type twin struct {
	cfg   Config
	left  map[string]time.Duration // until all failures are forgotten
	at    map[string]mail.Instant
	known map[string]bool
}

func (w *twin) failures(key string, now mail.Instant) time.Duration {
	return max(w.left[key]-now.Sub(w.at[key]), 0)
}

func (w *twin) failed(key string, now mail.Instant) {
	n := w.failures(key, now)
	if n > time.Duration(w.cfg.Limit-1)*w.cfg.Forget {
		return
	}
	w.left[key], w.at[key] = n+w.cfg.Forget, now
}

// The table agrees with its twin about random logins.
func TestAgainstTwin(t *testing.T) {
	for seed := range uint64(20) {
		r := prng.New(seed)
		cfg := Config{Limit: 1 + r.IntN(5), Forget: time.Duration(1+r.IntN(60)) * time.Second}.WithDefaults()
		g := New(cfg)
		w := &twin{cfg: cfg, left: map[string]time.Duration{}, at: map[string]mail.Instant{}, known: map[string]bool{}}
		now := start
		for step := range 2000 {
			now = now.Add(time.Duration(r.IntN(8)) * time.Second)
			from, user := network(r.IntN(5)), fmt.Sprint(r.IntN(3))
			a, b := "n"+from.String(), "u"+user
			limit := time.Duration(cfg.Limit-1) * cfg.Forget // more than that is as many as the limit
			want := Tried
			switch {
			case w.failures(a, now) > limit:
				want = NetworkFull
			case w.failures(b, now) > limit && !w.known[a+b]:
				want = UserFull
			}
			if got := g.Judge(now, from, user); got != want {
				t.Fatalf("seed %d, step %d: %s, want %s", seed, step, got, want)
			}
			if want != Tried {
				continue
			}
			if r.IntN(6) == 0 {
				g.Succeeded(now, from, user)
				w.known[a+b] = true
				continue
			}
			g.Failed(now, from, user)
			w.failed(a, now)
			w.failed(b, now)
		}
	}
}
