package nats

import (
	"context"
	"fmt"
	"runtime"
	"testing"
	"time"

	"github.com/posthaste-mta/posthaste/cluster"
)

// One node on its own, from nothing to the first confirmed change, and to its end; and
// what it takes while it has nothing to do.
func BenchmarkStart(b *testing.B) {
	var before, idle runtime.MemStats
	var starting time.Duration
	goroutines, more := runtime.NumGoroutine(), 0
	for b.Loop() {
		dir := b.TempDir()
		runtime.GC()
		runtime.ReadMemStats(&before)
		began := time.Now()
		n, err := Start(Config{Node: "a", Cluster: "c", Dir: dir})
		if err != nil {
			b.Fatal(err)
		}
		kv, err := n.Bucket(cluster.Bucket{Name: "bucket"})
		if err != nil {
			b.Fatal(err)
		}
		if _, err := kv.Create(b.Context(), "k", nil, 0); err != nil {
			b.Fatal(err)
		}
		starting += time.Since(began)
		runtime.GC()
		runtime.ReadMemStats(&idle)
		more = runtime.NumGoroutine() - goroutines
		if err := n.Close(context.Background()); err != nil {
			b.Fatal(err)
		}
	}
	b.ReportMetric(float64(starting.Nanoseconds())/float64(b.N), "start-ns")
	b.ReportMetric(float64(idle.HeapInuse+idle.StackInuse)-float64(before.HeapInuse+before.StackInuse), "memory-B")
	b.ReportMetric(float64(more), "goroutines")
}

func benchBucket(b *testing.B) cluster.KV {
	kv, err := first.Bucket(cluster.Bucket{Name: newBucket()})
	if err != nil {
		b.Fatal(err)
	}
	return kv
}

// A change, one after another.
func BenchmarkUpdate(b *testing.B) {
	kv, value := benchBucket(b), make([]byte, 300)
	revision, err := kv.Create(b.Context(), "k", value, 0)
	for b.Loop() {
		if err != nil {
			b.Fatal(err)
		}
		revision, err = kv.Update(b.Context(), "k", value, revision, time.Minute)
	}
}

// From a change until a watcher returns it.
func BenchmarkUpdateToWatch(b *testing.B) {
	kv, value := benchBucket(b), make([]byte, 300)
	w, err := kv.Watch("")
	if err != nil {
		b.Fatal(err)
	}
	defer w.Stop()
	revision, err := kv.Create(b.Context(), "k", value, 0)
	for b.Loop() {
		if err == nil {
			revision, err = kv.Update(b.Context(), "k", value, revision, 0)
		}
		for e := (cluster.Event{}); err == nil && e.Entry.Revision != revision; {
			e, err = w.Next(b.Context())
		}
		if err != nil {
			b.Fatal(err)
		}
	}
}

// Get from the store, which does not happen on a hot path.
func BenchmarkGet(b *testing.B) {
	kv := benchBucket(b)
	if _, err := kv.Create(b.Context(), "k", make([]byte, 300), 0); err != nil {
		b.Fatal(err)
	}
	for b.Loop() {
		if _, err := kv.Get(b.Context(), "k"); err != nil {
			b.Fatal(err)
		}
	}
}

// A register, published without waiting for anybody.
func BenchmarkPublish(b *testing.B) {
	value := make([]byte, 300)
	for b.Loop() {
		if err := first.Publish(b.Context(), "t", value, time.Second); err != nil {
			b.Fatal(err)
		}
	}
}

// Memory of the server for each key, with 20,000 of them.
func BenchmarkKeys(b *testing.B) {
	const number = 20_000
	value := make([]byte, 300)
	var before, after runtime.MemStats
	for b.Loop() {
		kv := benchBucket(b)
		runtime.GC()
		runtime.ReadMemStats(&before)
		for i := range number {
			if _, err := kv.Create(b.Context(), fmt.Sprintf("k.%d", i), value, time.Hour); err != nil {
				b.Fatal(err)
			}
		}
		runtime.GC()
		runtime.ReadMemStats(&after)
	}
	b.ReportMetric((float64(after.HeapInuse)-float64(before.HeapInuse))/number, "heap-B/key")
}
