package spool

import (
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"

	"github.com/posthaste-mta/posthaste/internal/golden"
	"github.com/posthaste-mta/posthaste/mail"
)

// Names that look like each other's keys, a tenant named like a class, and names as long as
// they may be have counts of their own, and are read from their keys as they are.
func TestNamesOfAccounts(t *testing.T) {
	names := []string{"", "c", "t", "f", "?", "q", "normal", "bulk", "normalbulk", "a b", "=", "#", "<>", "é@ü.example", "\u202e", "\U0001f4e8@example", "192.0.2.0/24",
		strings.Repeat("x", mail.ClassMax), strings.Repeat("x", mail.TenantMax), strings.Repeat("x", mail.FlowMax), strings.Repeat("é", mail.FlowMax/2), "\xff\xff"}
	seed := uint64(time.Now().UnixNano())
	rng := rand.New(rand.NewPCG(seed, 0))
	s := open(t, counting(vfs.NewMem()))
	counted(t, s)
	one := func() string { return names[rng.IntN(len(names))] }
	seen := make(map[string]account)
	for range 150 * golden.Runs(1) {
		f := mail.Flow{Class: one(), Tenant: one(), Flow: one()}
		accounts, n := accountsOf(f, mail.CountFlows)
		for _, a := range accounts[:n] {
			k := string(a.key())
			if other, ok := seen[k]; ok && other != a {
				t.Fatalf("seed %d: %+v and %+v have one key", seed, other, a)
			}
			if seen[k] = a; len(k) < 2 || k == string([]byte{keyCount, noAccount}) {
				t.Fatalf("seed %d: %+v has the key of something else", seed, a)
			}
			if got, ok := parseAccount([]byte(k)); !ok || got != a {
				t.Fatalf("seed %d: %+v is read back as %+v", seed, a, got)
			}
		}
		accept(t, s, mail.Envelope{Flow: f}, addresses(1), text(rng.IntN(50)))
	}
	if err := s.fold(); err != nil {
		t.Fatal(err)
	}
	want := recounted(t, s)
	for k, a := range seen {
		u, err := s.readSum(a)
		if err != nil || u != want[a] {
			t.Errorf("seed %d: %q has %+v, want %+v (%v)", seed, k, u, want[a], err)
		}
	}
	if n := keyCountOf(t, s, keyCount); n != len(want)+1 {
		t.Errorf("seed %d: %d sums for %d accounts", seed, n-1, len(want))
	}
}
