package intake

import (
	"math/rand/v2"
	"testing"

	"github.com/posthaste-mta/posthaste/internal/golden"
	"github.com/posthaste-mta/posthaste/mail"
	"github.com/posthaste-mta/posthaste/qmgr/fair"
)

// A fullCore is a core of a certain size, and bulk senders who always have more.
type fullCore struct {
	t     *testing.T
	a     *Admission
	size  int
	last  mail.QueueID
	bulk  map[mail.Bucket]bool
	core  []*Account
	taken map[mail.Bucket]int
}

func newFullCore(t *testing.T, size int, bulk ...mail.Bucket) *fullCore {
	c := &fullCore{t: t, a: NewAdmission(), size: size, last: 1, bulk: make(map[mail.Bucket]bool), taken: make(map[mail.Bucket]int)}
	c.a.Fetch(ScanIncoming)
	c.a.Found(ScanIncoming, mail.Found{NextDue: mail.Never})
	for _, b := range bulk {
		c.begin(b)
	}
	return c
}

// begin has a bulk sender begin.
func (c *fullCore) begin(b mail.Bucket) {
	c.bulk[b] = true
	c.last++
	c.a.Appeared(c.last, mail.Place{Area: mail.AreaIncoming, Bucket: b})
	c.fill()
}

func (c *fullCore) free() int { return c.size - len(c.core) }

func (c *fullCore) enter(acc *Account) {
	c.a.Enter(acc)
	c.core = append(c.core, acc)
	c.taken[acc.bucket]++
	if len(c.core) > c.size {
		c.t.Fatalf("%d messages are in core, of %d", len(c.core), c.size)
	}
}

// announce has a message arrive, and reports whether it comes into core at once.
func (c *fullCore) announce(b mail.Bucket) bool {
	c.last++
	if !c.a.Announced(c.last, b, c.free()) {
		c.fill()
		return false
	}
	c.enter(c.a.Account(b))
	return true
}

// fill fetches, which finds one message of a sender, or as many of a bulk sender as are asked
// for, and takes messages as long as there is room.
func (c *fullCore) fill() {
	for before := -1; before != len(c.core); {
		before = len(c.core)
		c.fetch()
		for c.free() > 0 {
			m, ok := c.a.Take(ScanIncoming, c.free())
			if !ok {
				break
			}
			c.enter(m.Account)
		}
	}
	if c.fetch(); c.last%8 == 0 {
		c.a.Check()
	}
}

func (c *fullCore) fetch() {
	for c.a.MayFetch(ScanIncoming) {
		from, most, _ := c.a.Fetch(ScanIncoming)
		f := mail.Found{Next: from, More: c.bulk[from.Bucket]}
		if !f.More {
			most = 1
		}
		for range most {
			f.Cursors = append(f.Cursors, f.Next)
			f.Next.ID++
		}
		if !c.a.Found(ScanIncoming, f) {
			c.t.Fatal("what was fetched is not expected")
		}
	}
}

// end has a message leave.
func (c *fullCore) end(i int) {
	c.a.Leave(c.core[i])
	c.core[i] = c.core[len(c.core)-1]
	c.core = c.core[:len(c.core)-1]
	c.fill()
}

func buckets(n int) (list []mail.Bucket) {
	for i := range n {
		list = append(list, mail.Bucket(1+i)<<8) // tenants of one class
	}
	return list
}

// Mail that was not classified may fill the core until other mail has come, and nearly fill
// it from then on.
func TestOneSenderUsesTheCore(t *testing.T) {
	c := newFullCore(t, 1700)
	c.begin(0)
	if n := len(c.core); n != 1700 {
		t.Errorf("one sender has %d messages in core, of 1700", n)
	}
	if c.announce(7 << 8) {
		t.Error("a message comes into core, which is full")
	}
	for range 200 {
		c.end(0)
	}
	if n := c.a.Account(0).inCore; n != 1600 {
		t.Errorf("a sender has %d messages in core beside another one, want 16/17", n)
	}
	if !c.announce(9 << 8) {
		t.Error("there is no room for a third sender")
	}
}

// However many bulk senders have filled the core, a message of another sender comes into
// core at once, or after as many messages have left as there are senders.
func TestSparseSenderEnters(t *testing.T) {
	for seed := range 5 * uint64(golden.Runs(1)) {
		rng := rand.New(rand.NewPCG(seed, 5))
		n := []int{1, 2, 5, 40, 300}[seed%5]
		size := 20 + rng.IntN(1000)
		c := newFullCore(t, size, buckets(n)...)
		for range 5 * size {
			c.end(rng.IntN(len(c.core)))
		}
		clear(c.taken)
		for range 50 * n {
			c.end(rng.IntN(len(c.core)))
		}
		few, most := 50*n, 0
		for b := range c.bulk {
			few, most = min(few, c.taken[b]), max(most, c.taken[b])
		}
		if most > 2*50 || few < 50/2 { // those who leave are drawn
			t.Errorf("seed %d: of %d bulk senders one has had %d of the next %d places, and another %d", seed, n, few, 50*n, most)
		}
		worst := 0
		for i := range 50 {
			other := mail.Bucket(1000+i) << 8
			at := c.announce(other)
			left := 0
			for ; !at && c.taken[other] == 0; left++ {
				c.end(rng.IntN(len(c.core)))
			}
			worst = max(worst, left)
			for range rng.IntN(5) {
				c.end(rng.IntN(len(c.core)))
			}
		}
		if worst > n+1 {
			t.Errorf("seed %d: a message waited until %d others had left, beside %d bulk senders in a core of %d", seed, worst, n, size)
		}
		if free := c.free(); n < 40 && free > 1+size/17 {
			t.Errorf("seed %d: %d of %d places are free beside %d senders who have more", seed, free, size, n)
		}
	}
}

// Classes come into core by their weights.
func TestClassesEnterByWeight(t *testing.T) {
	class := func(name string) mail.Bucket {
		f := mail.Flow{Class: name, Tenant: "t", Flow: "f"}
		return f.Bucket()
	}
	c := newFullCore(t, 10)
	c.a.Configure(&fair.Rules{Classes: []fair.Class{{Name: "bulk", Weight: 1}, {Name: "normal", Weight: 4}}})
	for _, name := range []string{"bulk", "normal", "other"} {
		c.begin(class(name))
	}
	for range 20 {
		c.end(0)
	}
	clear(c.taken)
	for range 600 {
		c.end(0)
	}
	if b, n, o := c.taken[class("bulk")], c.taken[class("normal")], c.taken[class("other")]; b != 100 || n != 400 || o != 100 {
		t.Errorf("%d, %d and %d came into core, want 100, 400 and 100", b, n, o)
	}
}

// What is found and not taken is bounded, however many buckets have something, and each of
// them has something.
func TestFoundIsBounded(t *testing.T) {
	for _, n := range []int{1, 10, 100, 1000} {
		c := newFullCore(t, 1, buckets(n)...)
		sc := &c.a.scans[ScanIncoming]
		if sc.found > foundMax+n*fetchMin {
			t.Errorf("%d messages are found in %d buckets", sc.found, n)
		}
		for b := range c.bulk {
			if s := sc.searches[b]; len(s.found) == 0 && !s.fetching {
				t.Errorf("nothing is found in bucket %v of %d", b, n)
			}
		}
	}
}
