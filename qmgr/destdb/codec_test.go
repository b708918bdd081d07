package destdb

import (
	"bytes"
	"math/rand/v2"
	"net/netip"
	"strings"
	"testing"
	"time"

	"github.com/posthaste-mta/posthaste/internal/golden"
	"github.com/posthaste-mta/posthaste/mail"
)

func fullRecord() Record {
	return Record{
		Used: epoch.Add(time.Hour),
		Health: Health{At: epoch, Failures: 3, RetryAt: epoch.Add(time.Hour), Reason: mail.Reply{
			Code: 421, Status: mail.Status{Class: 4, Subject: 7, Detail: 999}, Text: "too many\nfrom you", By: "mx[192.0.2.1]"}},
		Closed: Closing{MadeAt: epoch - 5, At: epoch},
		Levels: Levels{Holds: [3]Hold{{1, 2}, {mail.Never, epoch}, {3, 0}}, Strikes: strikesMax},
		Limit:  Limit{Messages: 1<<32 - 1, At: epoch},
		Proof:  Proof{At: epoch, Result: mail.ProofExecutes, Executes: true},
		Pace:   Pace{At: mail.Never, RTT: paceMax, RTTMin: 1, Service: 300, ServiceFloor: 1 << 20},
		Caps:   Caps{At: epoch, Extensions: 1<<16 - 1, SizeMax: 1<<63 - 1},
	}
}

// Saved records must be read back unchanged, or hosts are judged by what they never
// did.
func TestRecordRoundTrip(t *testing.T) {
	seed := rand.Uint64()
	rng := rand.New(rand.NewPCG(seed, 0))
	records := []Record{{}, fullRecord()}
	for range 1000 * golden.Runs(1) {
		records = append(records, anyRecord(rng))
	}
	for _, r := range records {
		b := AppendRecord([]byte("x"), r)
		got, err := ParseRecord(b[1:])
		if err != nil || got != r {
			t.Fatalf("seed %d: %+v came back as %+v, %v", seed, r, got, err)
		}
	}
}

// The longest possible record fits.
func TestRecordMax(t *testing.T) {
	r := fullRecord()
	for i := range r.Levels.Holds {
		r.Levels.Holds[i] = Hold{Until: mail.Never, Lifted: mail.Never}
	}
	for _, at := range []*mail.Instant{&r.Used, &r.Health.At, &r.Health.RetryAt, &r.Closed.At, &r.Closed.MadeAt,
		&r.Limit.At, &r.Proof.At, &r.Pace.At, &r.Caps.At} {
		*at = mail.Never
	}
	r.Health.Reason.Text = strings.Repeat("ä", 3000)
	r.Health.Reason.By = strings.Repeat("b", 1000)
	b := AppendRecord(nil, r)
	if got, err := ParseRecord(b); err != nil || len(got.Health.Reason.Text) != mail.ReplyTextMax {
		t.Errorf("%d octets: %v", len(b), err)
	}
	r.Health.Reason.By = ""
	if own, err := ParseRecord(AppendRecord(nil, r)); err != nil || len(own.Health.Reason.Text) != ownTextMax {
		t.Errorf("our own words: %d octets, %v", len(own.Health.Reason.Text), err)
	}
	if _, err := ParseRecord(append(b, make([]byte, RecordMax)...)); err == nil {
		t.Error("a record of any length is read")
	}
}

// A key that is read back as another would give a host the record of a different
// one.
func TestKeyRoundTrip(t *testing.T) {
	for _, k := range []Key{
		key("a"),
		{Addr: netip.MustParseAddrPort("[2001:db8::1]:2525"), Source: "pool-2", Security: "dane mx.example"},
		{Addr: netip.MustParseAddrPort("[::ffff:192.0.2.1]:25")},
		{Addr: netip.MustParseAddrPort("192.0.2.1:0"), Security: strings.Repeat("s", textMax), Source: strings.Repeat("e", textMax)},
	} {
		b, ok := AppendKey(nil, k)
		got, err := ParseKey(b)
		if !ok || err != nil || got != k || len(b) > KeyMax {
			t.Errorf("%v came back as %v, %d octets, %v %v", k, got, len(b), ok, err)
		}
	}
	for _, k := range []Key{
		{},
		{Addr: netip.MustParseAddrPort("[fe80::1%eth0]:25")},
		{Addr: key("a").Addr, Source: strings.Repeat("e", textMax+1)},
		{Addr: key("a").Addr, Security: strings.Repeat("e", textMax+1)},
	} {
		if b, ok := AppendKey([]byte("x"), k); ok || string(b) != "x" {
			t.Errorf("%v is saved as %x", k, b)
		}
	}
}

// The disk, and other nodes, may contain anything: input is either refused or has
// one meaning, which the database can handle.
func FuzzParse(f *testing.F) {
	f.Add(AppendRecord(nil, fullRecord()))
	f.Add(AppendRecord(nil, Record{}))
	for _, name := range []string{"a", "b"} {
		b, _ := AppendKey(nil, key(name))
		f.Add(b)
	}
	f.Add([]byte{})
	f.Add([]byte{format, 0x80})
	f.Fuzz(func(t *testing.T, b []byte) {
		if k, err := ParseKey(b); err == nil {
			again, ok := AppendKey(nil, k)
			if !ok || b[0] == keyFormat && !bytes.Equal(again, b) {
				t.Errorf("key %x is written %x", b, again)
			}
			if back, err := ParseKey(again); err != nil || back != k {
				t.Errorf("key %+v is written as %+v: %v", k, back, err)
			}
		}
		r, err := ParseRecord(b)
		if err != nil {
			return
		}
		again := AppendRecord(nil, r)
		if back, err := ParseRecord(again); err != nil || back != r {
			t.Errorf("%+v is written as %+v: %v", r, back, err)
		}
		db := New(Config{HostLimit: 2}, 1)
		if db.Learn(key("a"), r, epoch) {
			db.check()
			if at := db.RetryAt(key("a"), epoch); at > epoch.Add(72*time.Minute) {
				t.Errorf("suppressed until %v", at)
			}
			if m := Merge(r, r); m != r {
				t.Errorf("%+v", m)
			}
		}
	})
}
