package model

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/posthaste-mta/posthaste/cluster"
	"github.com/posthaste-mta/posthaste/mail"
)

// A world is a host without goroutines, as the simulator is: a list of what is due.
type world struct {
	now    mail.Instant
	number int
	due    []due
}

type due struct {
	at     mail.Instant
	number int
	f      func()
}

func (w *world) Now() mail.Instant { return w.now }

func (w *world) After(d time.Duration, f func()) {
	w.number++
	w.due = append(w.due, due{w.now.Add(d), w.number, f})
}

// run lets time pass until an instant.
func (w *world) run(until mail.Instant) {
	for {
		i := -1
		for j, d := range w.due {
			if d.at <= until && (i < 0 || cmp.Or(cmp.Compare(d.at, w.due[i].at), cmp.Compare(d.number, w.due[i].number)) < 0) {
				i = j
			}
		}
		if i < 0 {
			w.now = until
			return
		}
		d := w.due[i]
		w.due = slices.Delete(w.due, i, i+1)
		w.now = max(w.now, d.at)
		d.f()
	}
}

// scenario has three nodes change, watch and gossip for a minute on a bad network, and
// returns what they saw.
func scenario(seed uint64) (string, Counts) {
	var log strings.Builder
	w := &world{now: 1}
	links := NewLinks(time.Millisecond, 50*time.Millisecond, seed)
	links.Loss = 100
	c := New(Config{}, w, links)
	bucket := cluster.Bucket{Name: "bucket"}
	for i := range 3 {
		n := c.Node(fmt.Sprint(i))
		var watch *Watch
		watch = n.Watch(bucket, "", func() {
			w.After(0, func() {
				for e, ok := watch.Next(); ok; e, ok = watch.Next() {
					fmt.Fprintf(&log, "%v %d: %v %s %d\n", w.now, i, e.Kind, e.Entry.Key, e.Entry.Revision)
				}
			})
		})
		var heard *Subscription
		heard = n.Subscribe("", func() {
			w.After(0, func() {
				for r, ok := heard.Next(); ok; r, ok = heard.Next() {
					fmt.Fprintf(&log, "%v %d: heard %s from %s\n", w.now, i, r.Value, r.Node)
				}
			})
		})
		tick := 0
		var step func()
		step = func() {
			tick++
			if err := n.Publish("t", []byte(fmt.Sprint(tick)), time.Second); err != nil {
				panic(err)
			}
			n.Ask(Request{Op: Create, Bucket: bucket, Key: fmt.Sprint(tick), TTL: time.Second}, time.Second, func(a Answer) {
				fmt.Fprintf(&log, "%v %d: created %d %v\n", w.now, i, a.Entry.Revision, a.Err)
			})
			w.After(700*time.Millisecond, step)
		}
		w.After(0, step)
	}
	w.run(mail.Instant(time.Minute))
	return log.String(), c.Counts()
}

// A run is repeated from its seed, or the simulator's could not be.
func TestSameSeedSameEvents(t *testing.T) {
	first, counts := scenario(1)
	second, again := scenario(1)
	if first != second || counts != again {
		t.Error("two runs with one seed differ")
	}
	if other, _ := scenario(2); other == first {
		t.Error("the seed makes no difference")
	}
	for _, what := range []string{"put", "gone", "stale", "heard", "created 0 key exists", "created 0 cluster cannot be reached"} {
		if !strings.Contains(first, what) {
			t.Errorf("nothing was %q in a minute on a bad network", what)
		}
	}
	if counts.Requests == 0 || counts.Answers == 0 || counts.Watched == 0 || counts.Registers == 0 || counts.Bytes == 0 {
		t.Errorf("counted %+v", counts)
	}
}

// A bucket does not grow with the number of changes, and forgets what is gone.
func TestBucketMemory(t *testing.T) {
	w := &world{now: 1}
	c := New(Config{}, w, NewLinks(0, 0, 1))
	bucket := cluster.Bucket{Name: "bucket", MarkerTTL: time.Second}
	n := c.Node("a")
	revision := uint64(0)
	ask := func(r Request) {
		r.Bucket, r.Key, r.Revision = bucket, "k", revision
		n.Ask(r, time.Second, func(a Answer) {
			if a.Err != nil {
				t.Fatal(a.Err)
			}
			revision = a.Entry.Revision
		})
		w.run(w.now)
	}
	ask(Request{Op: Create})
	for range 1000 {
		ask(Request{Op: Update, Value: []byte("value")})
	}
	b := c.bucket(bucket)
	if len(b.log) > 20 || b.bytes != size("k", []byte("value")) {
		t.Errorf("%d records and %d bytes after 1,000 changes of one key", len(b.log), b.bytes)
	}
	ask(Request{Op: Delete})
	w.run(w.now.Add(2 * time.Second))
	if len(b.keys) != 0 || b.bytes != 0 {
		t.Errorf("%d keys and %d bytes are left of a key that was deleted", len(b.keys), b.bytes)
	}
}
