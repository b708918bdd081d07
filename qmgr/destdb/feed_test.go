package destdb

import (
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/posthaste-mta/posthaste/internal/golden"
	"github.com/posthaste-mta/posthaste/mail"
)

// However many consumers there are, and however far behind, each comes to know the last
// record of every host that has changed, and that a host is gone; none knows less because
// another was faster. What a slow one misses is counted.
func TestFeeds(t *testing.T) {
	for seed := range 30 * uint64(golden.Runs(1)) {
		rng := rand.New(rand.NewPCG(seed, 1))
		db := New(Config{HostLimit: 4}, seed)
		type consumer struct {
			feed  *Feed
			knows map[Key]Record
		}
		var consumers []*consumer
		fetch := func(c *consumer, max int) {
			for _, change := range c.feed.Changed(nil, max) {
				if change.Gone {
					delete(c.knows, change.Key)
				} else {
					c.knows[change.Key] = change.Record
				}
			}
			db.check()
		}
		now := epoch
		for range 120 {
			now += mail.Instant(rng.Int64N(int64(time.Hour)))
			switch k := key(string(rune('a' + rng.IntN(7)))); rng.IntN(6) {
			case 0:
				if len(consumers) < 3 && db.Len() == 0 {
					consumers = append(consumers, &consumer{db.NewFeed(), map[Key]Record{}})
				}
			case 1:
				if len(consumers) > 0 {
					fetch(consumers[rng.IntN(len(consumers))], 1+rng.IntN(3))
				}
			case 2:
				db.Collect(now, 100)
			default:
				live(db, rng, k, now)
			}
			db.check()
		}
		for i, c := range consumers {
			fetch(c, 1000)
			if c.feed.Lost() > 0 {
				continue
			}
			want := map[Key]Record{}
			for _, h := range db.all {
				want[h.key] = h.rec
			}
			for k, r := range c.knows {
				if want[k] != r {
					t.Fatalf("seed %d: consumer %d knows %v of %v, which is %v", seed, i, r, k, want[k])
				}
			}
		}
	}
}

// A consumer that does not fetch loses the oldest changes, and another loses none.
func TestSlowFeed(t *testing.T) {
	db := New(Config{HostLimit: 5}, 1)
	slow, quick := db.NewFeed(), db.NewFeed()
	for i := range 100 {
		k := key("a")
		k.Source = fmt.Sprint(i)
		db.Failed(k, epoch, epoch+mail.Instant(i), mail.Reply{Code: 421})
		if got := quick.Changed(nil, 10); len(got) == 0 || got[len(got)-1].Key != k {
			t.Fatalf("change %d is not there for the quick feed: %v", i, got)
		}
	}
	got := slow.Changed(nil, 1000)
	if len(got) == 0 || len(got) > 10 || got[len(got)-1].Key.Source != "99" || slow.Lost() == 0 || quick.Lost() != 0 {
		t.Errorf("the slow feed has %d changes and lost %d, the quick one lost %d", len(got), slow.Lost(), quick.Lost())
	}
}

// A key of the first format had the transport as its security.
func TestKeyOfFirstFormat(t *testing.T) {
	c := codec{out: []byte{keyFormat1}, writing: true}
	c.text(string(key("a").Addr.Addr().AsSlice()), 16)
	c.write(25)
	c.text("pool", textMax)
	c.text("smtp", textMax)
	k, err := ParseKey(c.out)
	if want := (Key{Addr: key("a").Addr, Transport: "smtp", Source: "pool"}); err != nil || k != want {
		t.Errorf("%v, %v; want %v", k, err, want)
	}
}
