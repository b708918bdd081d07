package measure

import (
	"sync"

	"github.com/posthaste-mta/posthaste/internal/sink"
)

// A Mailbox counts how often each message was delivered. The zero Mailbox is empty.
// Its methods may be called from several goroutines.
type Mailbox struct {
	mu    sync.Mutex
	taken map[string]int // by Message-ID
}

// Take counts a delivery; it is for sink.Config.Taken.
func (b *Mailbox) Take(d sink.Delivery) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.taken == nil {
		b.taken = make(map[string]int)
	}
	b.taken[d.Key]++
}

// Keys returns how many different messages were delivered.
func (b *Mailbox) Keys() int {
	b.mu.Lock()
	defer b.mu.Unlock()
	return len(b.taken)
}

// Twice returns how many messages were delivered more than once.
func (b *Mailbox) Twice() (n int) {
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, times := range b.taken {
		if times > 1 {
			n++
		}
	}
	return n
}
