package clustertest

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/posthaste-mta/posthaste/cluster"
	"github.com/posthaste-mta/posthaste/mail"
)

// patience is how long tests wait for what must happen. It is never waited for.
const patience = 30 * time.Second

// A Fixture is what a test has.
type Fixture struct {
	// A and B are two nodes of one cluster, with the names "a" and "b".
	A, B cluster.Node
	// Bucket is a name that no other test uses.
	Bucket string
}

// A Test is one part of the contract.
type Test struct {
	Name string
	Run  func(t *testing.T, f Fixture)
}

// Tests returns the contract.
func Tests() []Test {
	return []Test{
		{"Changes", changes}, {"Counter", counter}, {"Twin", twin},
		{"Expiry", expiry}, {"RenewedAndLetGo", renewed},
		{"Watch", watch}, {"Patterns", patterns}, {"SlowWatcher", slowWatcher}, {"ManyKeys", manyKeys}, {"Mirror", mirror}, {"Lagged", lagged}, {"Stop", stop},
		{"Sizes", sizes}, {"Full", full}, {"Invalid", invalid}, {"Contexts", contexts},
		{"Lease", lease}, {"Gossip", gossip}, {"GossipPatterns", gossipPatterns},
	}
}

func (f Fixture) kv(t *testing.T, n cluster.Node) cluster.KV {
	t.Helper()
	return f.sized(t, n, cluster.Bucket{})
}

func (f Fixture) sized(t *testing.T, n cluster.Node, b cluster.Bucket) cluster.KV {
	t.Helper()
	b.Name = f.Bucket
	kv, err := n.Bucket(b)
	if err != nil {
		t.Fatal(err)
	}
	return kv
}

func patient(t *testing.T) context.Context {
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	t.Cleanup(cancel)
	return ctx
}

func want(t *testing.T, err, want error) {
	t.Helper()
	if !errors.Is(err, want) {
		t.Fatalf("%v, want: %v", err, want)
	}
}

// newer fails unless a change succeeded with a later revision.
func newer(t *testing.T, old, revision uint64, err error) uint64 {
	t.Helper()
	if err != nil || revision <= old {
		t.Fatalf("revision %d after %d, %v", revision, old, err)
	}
	return revision
}

// The life of a key, with changes from two nodes: each of them succeeds only if it knew
// the latest revision.
func changes(t *testing.T, f Fixture) {
	ctx, a, b := patient(t), f.kv(t, f.A), f.kv(t, f.B)
	_, err := a.Get(ctx, "k")
	want(t, err, cluster.ErrNotFound)
	_, err = a.Update(ctx, "k", nil, 1, 0)
	want(t, err, cluster.ErrConflict)
	want(t, a.Delete(ctx, "k", 1), cluster.ErrConflict)

	made, err := a.Create(ctx, "k", []byte("1"), 0)
	newer(t, 0, made, err)
	_, err = b.Create(ctx, "k", []byte("2"), 0)
	want(t, err, cluster.ErrExists)
	_, err = b.Update(ctx, "k", []byte("2"), made+1, 0)
	want(t, err, cluster.ErrConflict)
	_, err = b.Update(ctx, "k", []byte("2"), 0, 0)
	want(t, err, cluster.ErrConflict)
	changed, err := b.Update(ctx, "k", []byte("2"), made, 0)
	newer(t, made, changed, err)
	_, err = a.Update(ctx, "k", []byte("3"), made, 0)
	want(t, err, cluster.ErrConflict)
	eventually(t, a, cluster.Entry{Key: "k", Value: []byte("2"), Revision: changed})

	want(t, a.Delete(ctx, "k", made), cluster.ErrConflict)
	if err := a.Delete(ctx, "k", changed); err != nil {
		t.Fatal(err)
	}
	want(t, b.Delete(ctx, "k", changed), cluster.ErrConflict)
	_, err = b.Update(ctx, "k", nil, changed, 0)
	want(t, err, cluster.ErrConflict)
	again, err := b.Create(ctx, "k", []byte("4"), 0)
	newer(t, changed, again, err)
	eventually(t, a, cluster.Entry{Key: "k", Value: []byte("4"), Revision: again})
}

// eventually waits until Get returns an entry.
func eventually(t *testing.T, kv cluster.KV, want cluster.Entry) {
	t.Helper()
	ctx := patient(t)
	for {
		e, err := kv.Get(ctx, want.Key)
		if err == nil && e.Revision == want.Revision && bytes.Equal(e.Value, want.Value) && e.Key == want.Key {
			return
		}
		if ctx.Err() != nil {
			t.Fatalf("%+v, %v; want: %+v", e, err, want)
		}
	}
}

// Both nodes count in one key, several goroutines each. No increment may be lost and
// none counted twice, though most of them conflict at first.
func counter(t *testing.T, f Fixture) {
	const workers, each = 3, 5
	var all sync.WaitGroup
	for _, n := range []cluster.Node{f.A, f.B} {
		kv := f.kv(t, n)
		for range workers {
			all.Go(func() {
				ctx, cancel := context.WithTimeout(context.Background(), patience)
				defer cancel()
				for done := 0; done < each && ctx.Err() == nil; {
					if increment(ctx, kv, "count") {
						done++
					}
				}
			})
		}
	}
	all.Wait()
	ctx := patient(t)
	if e, err := f.kv(t, f.A).Get(ctx, "count"); err != nil || len(e.Value) != 2*workers*each {
		t.Errorf("counted %d, %v, want %d", len(e.Value), err, 2*workers*each)
	}
}

func increment(ctx context.Context, kv cluster.KV, key string) bool {
	e, err := kv.Get(ctx, key)
	if errors.Is(err, cluster.ErrNotFound) {
		_, err = kv.Create(ctx, key, []byte("x"), 0)
		return err == nil
	}
	if err != nil {
		return false
	}
	_, err = kv.Update(ctx, key, append(e.Value, 'x'), e.Revision, 0)
	return err == nil
}

// Random changes from both nodes, one after another, give what a map gives.
func twin(t *testing.T, f Fixture) {
	seed := rand.Uint64()
	rng := rand.New(rand.NewPCG(seed, 0))
	ctx, kvs := patient(t), []cluster.KV{f.kv(t, f.A), f.kv(t, f.B)}
	naive, last := map[string]cluster.Entry{}, uint64(0)
	for i := range 200 {
		kv, key := kvs[rng.IntN(2)], fmt.Sprintf("k.%d", rng.IntN(4))
		old, exists := naive[key]
		revision := old.Revision + rng.Uint64N(2)
		value := []byte(fmt.Sprint(i))
		var got, want error
		var made uint64
		switch rng.IntN(3) {
		case 0:
			if made, got = kv.Create(ctx, key, value, 0); exists {
				want = cluster.ErrExists
			}
		case 1:
			if made, got = kv.Update(ctx, key, value, revision, 0); !exists || revision != old.Revision {
				want = cluster.ErrConflict
			}
		case 2:
			if got = kv.Delete(ctx, key, revision); !exists || revision != old.Revision {
				want = cluster.ErrConflict
			} else {
				delete(naive, key)
			}
		}
		if !errors.Is(got, want) || made != 0 && made <= last {
			t.Fatalf("seed %d, change %d of %s: %v, revision %d after %d; want %v", seed, i, key, got, made, last, want)
		}
		if made != 0 {
			naive[key], last = cluster.Entry{Key: key, Value: value, Revision: made}, made
		}
	}
	for _, e := range naive {
		eventually(t, kvs[0], e)
	}
}

// A key with a TTL goes, one without stays, and so does one whose TTL was taken away.
// Then it can be made again.
func expiry(t *testing.T, f Fixture) {
	ctx, a, b := patient(t), f.kv(t, f.A), f.kv(t, f.B)
	w := watched(t, b, "")
	stays, err := a.Create(ctx, "stays", nil, 0)
	newer(t, 0, stays, err)
	freed, err := a.Create(ctx, "freed", nil, time.Second)
	newer(t, stays, freed, err)
	freed2, err := a.Update(ctx, "freed", nil, freed, 0)
	newer(t, freed, freed2, err)
	began := time.Now()
	goes, err := a.Create(ctx, "goes", []byte("1"), 1001*time.Millisecond)
	newer(t, freed2, goes, err)
	await(t, w, func(e cluster.Event) bool { return e.Kind == cluster.Gone && e.Entry.Key == "goes" })
	if after := time.Since(began); after < 1001*time.Millisecond {
		t.Errorf("a TTL of 1.001 s was over after %v", after)
	}
	_, err = b.Get(ctx, "goes")
	want(t, err, cluster.ErrNotFound)
	_, err = b.Update(ctx, "goes", nil, goes, 0)
	want(t, err, cluster.ErrConflict)
	again, err := b.Create(ctx, "goes", nil, 0)
	newer(t, goes, again, err)
	for _, key := range []string{"stays", "freed"} {
		if _, err := a.Get(ctx, key); err != nil {
			t.Errorf("%s: %v", key, err)
		}
	}
}

// A TTL that is renewed holds, and one that is no longer renewed ends: the stores that
// keep the TTL of the first write, or none after the second, do not pass.
func renewed(t *testing.T, f Fixture) {
	ctx, a, b := patient(t), f.kv(t, f.A), f.kv(t, f.B)
	w := watched(t, b, "")
	revision, err := a.Create(ctx, "lease", nil, time.Second)
	newer(t, 0, revision, err)
	other, err := a.Create(ctx, "other", nil, 2*time.Second)
	newer(t, revision, other, err)
	revision, err = a.Update(ctx, "lease", nil, revision, 3*time.Second)
	newer(t, other, revision, err)
	e := await(t, w, func(e cluster.Event) bool { return e.Kind == cluster.Gone })
	if e.Entry.Key != "other" {
		t.Fatalf("%s was gone first, though its TTL was renewed", e.Entry.Key)
	}
	await(t, w, func(e cluster.Event) bool { return e.Kind == cluster.Gone && e.Entry.Key == "lease" })
}

// watched returns a watcher that is current.
func watched(t *testing.T, kv cluster.KV, pattern string) cluster.Watcher {
	t.Helper()
	w, err := kv.Watch(pattern)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(w.Stop)
	await(t, w, func(e cluster.Event) bool { return e.Kind == cluster.Current })
	return w
}

// await returns the first event that a condition holds for.
func await(t *testing.T, w cluster.Watcher, holds func(cluster.Event) bool) cluster.Event {
	t.Helper()
	ctx := patient(t)
	for {
		e, err := w.Next(ctx)
		if err != nil {
			t.Fatal(err)
		}
		if holds(e) {
			return e
		}
	}
}

// A watcher that comes late gets the present values, then Current, then each change with
// its revision, in their order.
func watch(t *testing.T, f Fixture) {
	ctx, a, b := patient(t), f.kv(t, f.A), f.kv(t, f.B)
	var revisions [3]uint64
	for i, key := range []string{"x.1", "x.2", "gone"} {
		var err error
		if revisions[i], err = a.Create(ctx, key, []byte(key), 0); err != nil {
			t.Fatal(err)
		}
	}
	if err := a.Delete(ctx, "gone", revisions[2]); err != nil {
		t.Fatal(err)
	}
	w, err := b.Watch("")
	if err != nil {
		t.Fatal(err)
	}
	defer w.Stop()
	expect := func(kind cluster.Kind, key, value string, revision uint64) {
		t.Helper()
		e := await(t, w, func(e cluster.Event) bool { return e.Entry.Key != "gone" })
		if e.Kind != kind || e.Entry.Key != key || string(e.Entry.Value) != value || revision != 0 && e.Entry.Revision != revision {
			t.Fatalf("%v %+v; want %v %s=%s in revision %d", e.Kind, e.Entry, kind, key, value, revision)
		}
	}
	expect(cluster.Put, "x.1", "x.1", revisions[0])
	expect(cluster.Put, "x.2", "x.2", revisions[1])
	expect(cluster.Current, "", "", 0)
	changed, err := b.Update(ctx, "x.1", []byte("new"), revisions[0], 0)
	newer(t, revisions[2], changed, err)
	expect(cluster.Put, "x.1", "new", changed)
	if err := a.Delete(ctx, "x.2", revisions[1]); err != nil {
		t.Fatal(err)
	}
	expect(cluster.Gone, "x.2", "", 0)
}

// A watcher only gets what its pattern matches; elements count, not letters.
func patterns(t *testing.T, f Fixture) {
	ctx, a := patient(t), f.kv(t, f.A)
	keys := []string{"a", "a.b", "a.b.c", "ab", "b.a"}
	for _, key := range keys {
		if _, err := a.Create(ctx, key, nil, 0); err != nil {
			t.Fatal(err)
		}
	}
	for pattern, want := range map[string]string{"": "a a.b a.b.c ab b.a", "a": "a", "a.": "a.b a.b.c", "a.b.": "a.b.c", "c.": ""} {
		w, err := f.kv(t, f.B).Watch(pattern)
		if err != nil {
			t.Fatal(err)
		}
		var got []string
		await(t, w, func(e cluster.Event) bool {
			if e.Kind == cluster.Put {
				got = append(got, e.Entry.Key)
			}
			return e.Kind == cluster.Current
		})
		w.Stop()
		if strings.Join(got, " ") != want {
			t.Errorf("pattern %q: %q, want %q", pattern, got, want)
		}
	}
}

// While a watcher does not read, a key changes often. It does not delay others, and then gets
// the latest value without most of those in between.
func slowWatcher(t *testing.T, f Fixture) {
	const times = 2000
	ctx, a, b := patient(t), f.kv(t, f.A), f.kv(t, f.B)
	w := watched(t, b, "")
	revision, err := a.Create(ctx, "k", []byte("0"), 0)
	for i := 1; i <= times && err == nil; i++ {
		revision, err = a.Update(ctx, "k", []byte(fmt.Sprint(i)), revision, 0)
	}
	if err != nil {
		t.Fatal(err)
	}
	seen, last := 0, uint64(0)
	await(t, w, func(e cluster.Event) bool {
		if e.Kind == cluster.Put {
			if seen++; e.Entry.Revision <= last {
				t.Fatalf("revision %d after %d", e.Entry.Revision, last)
			}
			last = e.Entry.Revision
		}
		return last == revision
	})
	if seen > times/2 {
		t.Errorf("%d of %d values were kept for a watcher that did not read", seen, times)
	}
}

// More keys than fit into any buffer, none of which changes twice: all of them come.
func manyKeys(t *testing.T, f Fixture) {
	const number = 1500
	a, b := f.kv(t, f.A), f.kv(t, f.B)
	var all sync.WaitGroup
	for worker := range 10 {
		all.Go(func() {
			ctx, cancel := context.WithTimeout(context.Background(), patience)
			defer cancel()
			for i := worker; i < number; i += 10 {
				if _, err := a.Create(ctx, fmt.Sprintf("k.%d", i), make([]byte, 100), 0); err != nil {
					t.Error(err)
					return
				}
			}
		})
	}
	all.Wait()
	w, err := b.Watch("k.")
	if err != nil {
		t.Fatal(err)
	}
	defer w.Stop()
	keys := map[string]bool{}
	await(t, w, func(e cluster.Event) bool {
		if e.Kind == cluster.Put {
			keys[e.Entry.Key] = true
		}
		return e.Kind == cluster.Current
	})
	if len(keys) != number {
		t.Errorf("%d keys of %d", len(keys), number)
	}
}

// A mirror at one node ends up with what the other one made, whatever was passed over.
func mirror(t *testing.T, f Fixture) {
	rng := rand.New(rand.NewPCG(rand.Uint64(), 0))
	ctx, a, b := patient(t), f.kv(t, f.A), f.kv(t, f.B)
	w, err := b.Watch("")
	if err != nil {
		t.Fatal(err)
	}
	defer w.Stop()
	entries := map[string]cluster.Entry{}
	for i := range 300 {
		key := fmt.Sprintf("k%d", rng.IntN(10))
		old, exists := entries[key]
		e := cluster.Entry{Key: key, Value: []byte(fmt.Sprint(i))}
		switch {
		case !exists:
			e.Revision, err = a.Create(ctx, key, e.Value, 0)
		case rng.IntN(3) == 0:
			err = a.Delete(ctx, key, old.Revision)
		default:
			e.Revision, err = a.Update(ctx, key, e.Value, old.Revision, 0)
		}
		if err != nil {
			t.Fatal(err)
		}
		if entries[key] = e; e.Revision == 0 {
			delete(entries, key)
		}
	}
	if _, err := a.Create(ctx, "end", nil, 0); err != nil {
		t.Fatal(err)
	}
	var m cluster.Mirror
	await(t, w, func(e cluster.Event) bool {
		m.Apply(e)
		_, ended := m.Entry("end")
		return ended && m.Current()
	})
	if m.Len() != len(entries)+1 {
		t.Errorf("%d keys, want %d", m.Len(), len(entries)+1)
	}
	for key, e := range entries {
		if got, ok := m.Entry(key); !ok || got.Revision != e.Revision || string(got.Value) != string(e.Value) {
			t.Errorf("%s: %+v, %v, want %+v", key, got, ok, e)
		}
	}
}

// A watcher does not read for longer than the store remembers that keys are gone. It says
// so, and begins anew, so that these keys do not stay in a mirror for ever.
func lagged(t *testing.T, f Fixture) {
	const number = 150
	ctx, brief := patient(t), cluster.Bucket{MarkerTTL: time.Second}
	a, b := f.sized(t, f.A, brief), f.sized(t, f.B, brief)
	var m cluster.Mirror
	w, err := b.Watch("k.")
	if err != nil {
		t.Fatal(err)
	}
	defer w.Stop()
	revisions := make([]uint64, number)
	for i := range revisions {
		if revisions[i], err = a.Create(ctx, fmt.Sprintf("k.%d", i), nil, 0); err != nil {
			t.Fatal(err)
		}
	}
	await(t, w, func(e cluster.Event) bool {
		m.Apply(e)
		return m.Len() == number && m.Current()
	})
	for i, revision := range revisions {
		if err := a.Delete(ctx, fmt.Sprintf("k.%d", i), revision); err != nil {
			t.Fatal(err)
		}
	}
	// Two seconds later the markers are gone.
	other := watched(t, a, "later")
	if _, err := a.Create(ctx, "later", nil, 2*time.Second); err != nil {
		t.Fatal(err)
	}
	await(t, other, func(e cluster.Event) bool { return e.Kind == cluster.Gone })
	if _, err := a.Create(ctx, "k.new", nil, 0); err != nil {
		t.Fatal(err)
	}
	stale := false
	await(t, w, func(e cluster.Event) bool {
		if e.Kind == cluster.Stale {
			stale = true
			want(t, e.Cause, cluster.ErrLagged)
		}
		m.Apply(e)
		_, last := m.Entry("k.new")
		return last && m.Current()
	})
	if m.Len() != 1 || !stale {
		t.Errorf("%d keys, want 1; the watcher said that it was stale: %v", m.Len(), stale)
	}
}

// Stop ends a Next that waits, and can be called again.
func stop(t *testing.T, f Fixture) {
	w := watched(t, f.kv(t, f.B), "")
	s, err := f.B.Subscribe("")
	if err != nil {
		t.Fatal(err)
	}
	ended := make(chan error, 2)
	go func() {
		_, err := w.Next(context.Background())
		ended <- err
	}()
	go func() {
		for {
			if _, err := s.Next(context.Background()); err != nil {
				ended <- err
				return
			}
		}
	}()
	w.Stop()
	s.Stop()
	for range 2 {
		select {
		case err := <-ended:
			want(t, err, cluster.ErrClosed)
		case <-patient(t).Done():
			t.Fatal("Next does not return")
		}
	}
	w.Stop()
	s.Stop()
	_, err = w.Next(context.Background())
	want(t, err, cluster.ErrClosed)
	_, err = s.Next(context.Background())
	want(t, err, cluster.ErrClosed)
}

// Values up to the maximum are kept as they are, and none above it is taken. Callers
// can use their slices again.
func sizes(t *testing.T, f Fixture) {
	ctx, a := patient(t), f.sized(t, f.A, cluster.Bucket{ValueMax: 1000})
	value := bytes.Repeat([]byte{0, 1, 255, '\n'}, 250)
	revision, err := a.Create(ctx, "k", value, 0)
	newer(t, 0, revision, err)
	kept := bytes.Clone(value)
	clear(value)
	eventually(t, a, cluster.Entry{Key: "k", Value: kept, Revision: revision})
	_, err = a.Create(ctx, "l", make([]byte, 1001), 0)
	want(t, err, cluster.ErrInvalid)
	_, err = a.Update(ctx, "k", make([]byte, 1001), revision, 0)
	want(t, err, cluster.ErrInvalid)
	revision, err = a.Update(ctx, "k", nil, revision, 0)
	newer(t, 0, revision, err)
	eventually(t, a, cluster.Entry{Key: "k", Revision: revision})
}

// A bucket that is full says so, and takes more when something was deleted.
func full(t *testing.T, f Fixture) {
	ctx, a := patient(t), f.sized(t, f.A, cluster.Bucket{ValueMax: 4000, BytesMax: 64 << 10})
	var revisions []uint64
	var err error
	for err == nil {
		var revision uint64
		if revision, err = a.Create(ctx, fmt.Sprintf("k%d", len(revisions)), make([]byte, 4000), 0); err == nil {
			revisions = append(revisions, revision)
		}
		if len(revisions) > 20 {
			t.Fatal("64 KiB take more than 80,000 bytes")
		}
	}
	want(t, err, cluster.ErrFull)
	if len(revisions) < 10 {
		t.Errorf("%d times 4,000 bytes fill 64 KiB", len(revisions))
	}
	for i, revision := range revisions[:3] {
		if err := a.Delete(ctx, fmt.Sprintf("k%d", i), revision); err != nil {
			t.Fatalf("nothing can be deleted from a full bucket: %v", err)
		}
	}
	if _, err := a.Create(ctx, "other", make([]byte, 4000), 0); err != nil {
		t.Error(err)
	}
}

// What no store would take is refused in the same way by all.
func invalid(t *testing.T, f Fixture) {
	ctx, a := patient(t), f.kv(t, f.A)
	for _, name := range []string{"", "a.b", "a b", "ä", "*", ">", strings.Repeat("a", 65)} {
		_, err := f.A.Bucket(cluster.Bucket{Name: name})
		want(t, err, cluster.ErrInvalid)
	}
	for _, key := range []string{"", ".", "a.", ".a", "a..b", "a b", "a*", "a.>", "ä", "a/b", "a\n", strings.Repeat("a", 257)} {
		_, err := a.Get(ctx, key)
		want(t, err, cluster.ErrInvalid)
		_, err = a.Create(ctx, key, nil, 0)
		want(t, err, cluster.ErrInvalid)
		_, err = a.Update(ctx, key, nil, 1, 0)
		want(t, err, cluster.ErrInvalid)
		want(t, a.Delete(ctx, key, 1), cluster.ErrInvalid)
		want(t, f.A.Publish(ctx, key, nil, time.Second), cluster.ErrInvalid)
	}
	for _, ttl := range []time.Duration{-1, 1, time.Second - 1, cluster.TTLMax + 1} {
		_, err := a.Create(ctx, "k", nil, ttl)
		want(t, err, cluster.ErrInvalid)
	}
	for _, pattern := range []string{".", "a..", "*", "a.>", "a b"} {
		_, err := a.Watch(pattern)
		want(t, err, cluster.ErrInvalid)
		_, err = f.A.Subscribe(pattern)
		want(t, err, cluster.ErrInvalid)
	}
	want(t, f.A.Publish(ctx, "t", nil, 0), cluster.ErrInvalid)
	want(t, f.A.Publish(ctx, "t", make([]byte, cluster.RegisterMax+1), time.Second), cluster.ErrInvalid)
}

// A call ends with its context, and says that it may have been done.
func contexts(t *testing.T, f Fixture) {
	a := f.kv(t, f.A)
	over, cancel := context.WithCancel(context.Background())
	cancel()
	_, err := a.Create(over, "k", nil, 0)
	want(t, err, cluster.ErrUnreachable)
	want(t, err, context.Canceled)
	_, err = a.Get(over, "k")
	want(t, err, cluster.ErrUnreachable)
	want(t, f.A.Publish(over, "t", nil, time.Second), cluster.ErrUnreachable)
	w := watched(t, a, "")
	_, err = w.Next(over)
	want(t, err, context.Canceled)
	if _, err := a.Create(context.Background(), "l", nil, 0); err != nil {
		t.Errorf("without a deadline: %v", err)
	}
	await(t, w, func(e cluster.Event) bool { return e.Kind == cluster.Put && e.Entry.Key == "l" })
}

// Two nodes want one lease. The second gets it when the first gives it back or lets it
// expire, and never before the first one's time is over.
func lease(t *testing.T, f Fixture) {
	ctx, a, b := patient(t), f.kv(t, f.A), f.kv(t, f.B)
	now := func() mail.Instant { return mail.Instant(time.Now().UnixNano()) }
	held, err := cluster.Take(ctx, a, "l", []byte("a"), 2*time.Second, now())
	if err != nil {
		t.Fatal(err)
	}
	_, err = cluster.Take(ctx, b, "l", []byte("b"), 2*time.Second, now())
	want(t, err, cluster.ErrExists)
	longer, err := cluster.Renew(ctx, a, held, []byte("a"), 2*time.Second, now())
	if err != nil || longer.Until <= held.Until || longer.Revision <= held.Revision {
		t.Fatalf("renewed: %+v, %v, before: %+v", longer, err, held)
	}
	_, err = cluster.Renew(ctx, b, held, []byte("b"), 2*time.Second, now())
	want(t, err, cluster.ErrConflict)
	// The answer to the renewal is lost, and the holder renews what it had before.
	longer, err = cluster.Renew(ctx, a, held, []byte("a"), 2*time.Second, now())
	if err != nil {
		t.Fatalf("after a renewal without an answer: %v", err)
	}
	if err := cluster.Release(ctx, a, longer); err != nil {
		t.Fatal(err)
	}
	w := watched(t, a, "l")
	other, err := cluster.Take(ctx, b, "l", []byte("b"), time.Second, now())
	if err != nil || other.Revision <= longer.Revision {
		t.Fatalf("after its release: %+v, %v", other, err)
	}
	await(t, w, func(e cluster.Event) bool { return e.Kind == cluster.Put })
	await(t, w, func(e cluster.Event) bool { return e.Kind == cluster.Gone })
	if now() < other.Until {
		t.Error("the lease was free before its holder stopped")
	}
	_, err = cluster.Renew(ctx, b, other, []byte("b"), time.Second, now())
	want(t, err, cluster.ErrConflict)
	if _, err := cluster.Take(ctx, a, "l", []byte("a"), time.Second, now()); err != nil {
		t.Error(err)
	}
}

// publishUntil repeats a register, as callers must, until a subscriber has it.
func publishUntil(t *testing.T, n cluster.Node, topic, value string, s cluster.Subscription) cluster.Register {
	t.Helper()
	ctx := patient(t)
	for {
		if err := n.Publish(ctx, topic, []byte(value), time.Second); err != nil {
			t.Fatal(err)
		}
		again, cancel := context.WithTimeout(ctx, 100*time.Millisecond)
		r, err := s.Next(again)
		cancel()
		if err == nil && r.Topic == topic && string(r.Value) == value {
			return r
		}
		if ctx.Err() != nil {
			t.Fatalf("the register does not arrive: %v", err)
		}
	}
}

// What a node publishes arrives at the other one, not at itself, with versions that
// grow.
func gossip(t *testing.T, f Fixture) {
	topic := "t." + f.Bucket
	own, err := f.A.Subscribe(topic)
	if err != nil {
		t.Fatal(err)
	}
	defer own.Stop()
	s, err := f.B.Subscribe(topic)
	if err != nil {
		t.Fatal(err)
	}
	defer s.Stop()
	first := publishUntil(t, f.A, topic, "1", s)
	second := publishUntil(t, f.A, topic, "2", s)
	if first.Node != "a" || first.TTL != time.Second || !second.Version.After(first.Version) {
		t.Errorf("%+v, then %+v", first, second)
	}
	// What B says is the first that A hears.
	if back := publishUntil(t, f.B, topic, "3", own); back.Node != "b" {
		t.Errorf("heard %+v", back)
	}
	if own.Lost() != 0 {
		t.Error("registers were dropped")
	}
}

// A subscription only gets what its pattern matches.
func gossipPatterns(t *testing.T, f Fixture) {
	s, err := f.B.Subscribe(f.Bucket + ".x.")
	if err != nil {
		t.Fatal(err)
	}
	defer s.Stop()
	for _, topic := range []string{"", ".x", ".y.1"} {
		if err := f.A.Publish(patient(t), f.Bucket+topic, nil, time.Second); err != nil {
			t.Fatal(err)
		}
	}
	r := publishUntil(t, f.A, f.Bucket+".x.1", "", s)
	if r.Topic != f.Bucket+".x.1" {
		t.Errorf("heard of %s", r.Topic)
	}
	if s.Lost() != 0 {
		t.Error("registers were dropped")
	}
}
