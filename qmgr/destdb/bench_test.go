package destdb

import (
	"net/netip"
	"runtime"
	"testing"
	"time"

	"github.com/posthaste-mta/posthaste/mail"
)

const crowd = 200_000

func crowdKey(i int) Key {
	return Key{Addr: netip.AddrPortFrom(netip.AddrFrom4([4]byte{10, byte(i >> 16), byte(i >> 8), byte(i)}), 25), Source: "a"}
}

// filled returns a DB with the maximum number of hosts, all of which have been
// used; every tenth has failed.
func filled() *DB {
	db := New(Config{}, 1)
	reason := mail.Reply{Code: 421, Text: "too many connections from your address, come back later", By: "mx.example.com[10.0.0.1]"}
	for i := range crowd {
		k := crowdKey(i)
		db.Open(k, epoch)
		if i%10 == 0 {
			db.Failed(k, epoch, epoch, reason)
		} else {
			db.Succeeded(k, epoch)
		}
		db.ObserveRTT(k, time.Millisecond, epoch)
		db.Shut(k, Life{MadeAt: epoch, Messages: 1}, epoch)
	}
	return db
}

// BenchmarkFill measures the bytes of a record and of its change (the changes of
// 200,000 records have not been fetched).
func BenchmarkFill(b *testing.B) {
	for b.Loop() {
		var before, after runtime.MemStats
		runtime.GC()
		runtime.ReadMemStats(&before)
		db := filled()
		runtime.GC()
		runtime.ReadMemStats(&after)
		b.ReportMetric(float64(after.HeapAlloc-before.HeapAlloc)/crowd, "B/record")
		runtime.KeepAlive(db)
	}
}

func BenchmarkState(b *testing.B) {
	db := filled()
	b.ReportAllocs()
	for i := 0; b.Loop(); i++ {
		db.State(crowdKey(i*7919%crowd), epoch)
	}
}

// BenchmarkStateOfFew queries the same hosts repeatedly, as a scheduler does.
func BenchmarkStateOfFew(b *testing.B) {
	db := filled()
	b.ReportAllocs()
	for i := 0; b.Loop(); i++ {
		db.State(crowdKey(i%16), epoch)
	}
}

func BenchmarkView(b *testing.B) {
	db := filled()
	b.ReportAllocs()
	for i := 0; b.Loop(); i++ {
		db.View(crowdKey(i*7919%crowd), epoch)
	}
}

// BenchmarkConnection makes all calls for one connection.
func BenchmarkConnection(b *testing.B) {
	db := filled()
	changes := make([]Change, 0, 1)
	feed := db.NewFeed()
	b.ReportAllocs()
	for i := 0; b.Loop(); i++ {
		k, now := crowdKey(i*7919%crowd), epoch.Add(time.Duration(i))
		db.Open(k, now)
		db.Succeeded(k, now)
		db.Shut(k, Life{MadeAt: now, Messages: 1}, now)
		changes = feed.Changed(changes[:0], 1)
	}
}

// BenchmarkNewHost adds an unknown host when there is no room.
func BenchmarkNewHost(b *testing.B) {
	db := filled()
	feed := db.NewFeed()
	b.ReportAllocs()
	for i := 0; b.Loop(); i++ {
		k := crowdKey(i)
		k.Source = "b"
		k.Addr = netip.AddrPortFrom(k.Addr.Addr(), uint16(i>>24))
		db.Failed(k, epoch, epoch, mail.Reply{Code: 421})
		feed.Changed(nil, 2)
	}
}

// BenchmarkCollect checks one record that stays.
func BenchmarkCollect(b *testing.B) {
	db := filled()
	for b.Loop() {
		db.Collect(epoch, 1)
	}
}

func BenchmarkCodec(b *testing.B) {
	r := fullRecord()
	out := AppendRecord(nil, r)
	b.ReportMetric(float64(len(out)), "B")
	b.ReportAllocs()
	for b.Loop() {
		out = AppendRecord(out[:0], r)
		if _, err := ParseRecord(out); err != nil {
			b.Fatal(err)
		}
	}
}
