package inbound

import (
	"net/netip"
	"sync"
)

// places counts something expensive that clients have in progress, so that no network has
// more than half of it: TLS handshakes, of which one takes 1.5 ms of processor time for both ends
// together, as much as thirty small messages (BenchmarkHandshake, with an ECDSA key), and keeps
// memory if the client is slow; and passwords that are checked, each of which takes twenty
// times as much.
type places struct {
	limit int

	mu       sync.Mutex // guards the fields below
	all      int
	byPrefix map[netip.Prefix]int
}

// begin reports whether there is room for one more. No network that is counted
// may have more than half of them.
func (h *places) begin(prefix netip.Prefix) bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.all >= h.limit || prefix.IsValid() && h.byPrefix[prefix] >= atMostHalf(h.limit, h.limit) {
		return false
	}
	h.all++
	if prefix.IsValid() {
		h.byPrefix[prefix]++
	}
	return true
}

func (h *places) end(prefix netip.Prefix) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.all--
	if !prefix.IsValid() {
		return
	}
	if h.byPrefix[prefix]--; h.byPrefix[prefix] == 0 {
		delete(h.byPrefix, prefix)
	}
}
