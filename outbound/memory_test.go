package outbound

import (
	"net/netip"
	"testing"
	"testing/synctest"
	"time"

	"github.com/posthaste-mta/posthaste/mail"
)

// What is learnt about hosts is forgotten after a day, or when better is known,
// and never takes more than so much memory.
func TestMemory(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := newMemory()
		h := address("1")
		m.kept(h)
		if m.used.Load() || m.trait(h) != (trait{}) || m.avoid(1, h) {
			t.Error("knows something of a host that nothing was learnt about")
		}
		m.stepDown(h)
		if !time.Now().Before(m.trait(h).lockStep) {
			t.Error("forgot that the host wants lock-step")
		}
		time.Sleep(memoryTime)
		if time.Now().Before(m.trait(h).lockStep) {
			t.Error("still lock-step after a day")
		}
		for i := range staleRow {
			if time.Now().Before(m.trait(h).single) {
				t.Errorf("learnt after %d stale sessions", i)
			}
			m.wentStale(h, 1)
		}
		if !time.Now().Before(m.trait(h).single) {
			t.Error("did not learn that the host closes after every message")
		}
		other := address("2")
		m.wentStale(other, 1)
		m.wentStale(other, 1)
		m.kept(other)
		m.wentStale(other, 1)
		if time.Now().Before(m.trait(other).single) {
			t.Error("learnt from stale sessions that were not in a row")
		}
		for i := range doubtsLimit {
			if m.avoid(7, h) {
				t.Errorf("avoids the host after %d doubts", i)
			}
			m.doubtful(7, h)
		}
		m.doubtful(7, h)
		if !m.avoid(7, h) || m.avoid(8, h) || m.avoid(7, other) {
			t.Error("avoids the wrong host, or for the wrong message")
		}
	})
}

func TestMemoryIsBounded(t *testing.T) {
	m := newMemory()
	for i := range 3 * memoryMax {
		h := netip.AddrPortFrom(netip.AddrFrom4([4]byte{192, byte(i >> 16), byte(i >> 8), byte(i)}), 25)
		m.stepDown(h)
		m.doubtful(mail.QueueID(i), h)
	}
	if len(m.hosts) != memoryMax || len(m.doubts) != memoryMax {
		t.Errorf("remembers %d hosts and %d doubts", len(m.hosts), len(m.doubts))
	}
}
