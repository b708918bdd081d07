package mail

import (
	"cmp"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"
)

// Queue IDs are in log lines, Received fields and commands that people paste:
// the text must lead back to the message, and to one message only.
func TestQueueIDText(t *testing.T) {
	for text, id := range map[string]QueueID{
		"0000000000000": 0,
		"0000000000001": 1,
		"000000000000Z": 31,
		"0000000000010": 32,
		"FZZZZZZZZZZZZ": math.MaxUint64,
	} {
		if got := id.String(); got != text {
			t.Errorf("%d prints %q, want %q", uint64(id), got, text)
		}
		if got, err := ParseQueueID(text); err != nil || got != id {
			t.Errorf("%q reads %d, %v, want %d", text, uint64(got), err, uint64(id))
		}
	}
}

// What String does not write is refused: two texts for one message would defeat
// every search through logs.
func TestParseQueueIDRefuses(t *testing.T) {
	for _, text := range []string{
		"", "0", "000000000000", "00000000000000", "G000000000000", "ZZZZZZZZZZZZZ", "000000000000z", "000000000000I",
		"000000000000L", "000000000000O", "000000000000U", "00000 0000000", " 0000000000000", "00000000000\x000", "000000000000é",
	} {
		if id, err := ParseQueueID(text); err != ErrQueueID || id != 0 {
			t.Errorf("ParseQueueID(%q) = %v, %v", text, id, err)
		}
	}
}

// IDs sort by age, and their texts sort as they do: both are used as keys of
// the spool.
func TestQueueIDOrder(t *testing.T) {
	seed := rand.Uint64()
	rng := rand.New(rand.NewPCG(seed, 0))
	var ids []QueueID
	for range 2000 {
		ids = append(ids, QueueID(rng.Uint64()>>rng.IntN(64)))
	}
	slices.Sort(ids)
	for i, id := range ids {
		if back, err := ParseQueueID(id.String()); err != nil || back != id {
			t.Fatalf("seed %d: %d → %s → %d, %v", seed, uint64(id), id, uint64(back), err)
		}
		if i > 0 && strings.Compare(ids[i-1].String(), id.String()) != cmp.Compare(ids[i-1], id) {
			t.Fatalf("seed %d: %s and %s sort otherwise than %d and %d", seed, ids[i-1], id, uint64(ids[i-1]), uint64(id))
		}
	}
}

// An ID holds the time of its assignment, to the microsecond, and a serial never
// reaches into the time.
func TestNewQueueID(t *testing.T) {
	at := Instant(time.Date(2026, 11, 21, 12, 0, 0, 123456789, time.UTC).UnixNano())
	for _, serial := range []uint16{0, 1, 4095} {
		id := NewQueueID(at, serial)
		if got := id.Time(); got != at-789 {
			t.Errorf("serial %d: time %v, want %v", serial, got, at-789)
		}
		if later := NewQueueID(at.Add(time.Microsecond), 0); later <= id {
			t.Errorf("serial %d: %v a microsecond later is not above %v", serial, later, id)
		}
	}
	if NewQueueID(at, 4096) != NewQueueID(at, 0) {
		t.Error("a serial beyond 4095 changes the time")
	}
	if NewQueueID(at, 1) == NewQueueID(at, 2) {
		t.Error("IDs with different serials are equal")
	}
	last := Instant(time.Date(2112, 9, 17, 0, 0, 0, 0, time.UTC).UnixNano())
	if got := NewQueueID(last, 0).Time(); got != last {
		t.Errorf("the time %v comes back as %v", last, got)
	}
}

// Any text is either refused or the text of the ID that it reads as.
func FuzzParseQueueID(f *testing.F) {
	for _, s := range []string{"0000000000000", "FZZZZZZZZZZZZ", "06DRS4S8G0001", "abc", ""} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		id, err := ParseQueueID(s)
		if err == nil && id.String() != s {
			t.Fatalf("%q → %d → %q", s, uint64(id), id)
		}
	})
}

func BenchmarkQueueIDString(b *testing.B) {
	id := NewQueueID(Instant(time.Hour), 7)
	b.ReportAllocs()
	for b.Loop() {
		_ = id.String()
	}
}
