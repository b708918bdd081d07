package cluster

import (
	"context"
	"errors"
	"time"

	"github.com/posthaste-mta/posthaste/mail"
)

// A Lease is a key that its holder has until it expires. It is a value, to be replaced
// by what Renew returns.
type Lease struct {
	Key string
	// Revision is the key's. It grows with each renewal and each holder, so the one
	// that Take returned can serve as the holder's epoch.
	Revision uint64
	// Until is when the holder must stop to act on the lease, unless it was renewed:
	// the instant before it asked, and nine tenths of the TTL. The store gives it to no
	// other node before the whole TTL has passed since a later instant.
	Until mail.Instant
}

// Take asks for a lease. value says who the holder is, different for each start of it;
// now is the instant before the call, on a clock that does not stop with the process. Errors: ErrExists while
// another node has it.
func Take(ctx context.Context, kv KV, key string, value []byte, ttl time.Duration, now mail.Instant) (Lease, error) {
	revision, err := kv.Create(ctx, key, value, ttl)
	if err != nil {
		return Lease{}, err
	}
	return Lease{Key: key, Revision: revision, Until: until(now, ttl)}, nil
}

// Renew prolongs a lease, which is best done after a third of the TTL. After
// ErrConflict it is lost; after other errors it still holds until the same instant,
// and further calls find out what became of this one.
func Renew(ctx context.Context, kv KV, lease Lease, value []byte, ttl time.Duration, now mail.Instant) (Lease, error) {
	revision, err := kv.Update(ctx, lease.Key, value, lease.Revision, ttl)
	switch {
	case err == nil:
		return Lease{Key: lease.Key, Revision: revision, Until: until(now, ttl)}, nil
	case !errors.Is(err, ErrConflict):
		return lease, err
	}
	// It may have been an earlier call of ours that was made without an answer.
	held, errGet := kv.Get(ctx, lease.Key)
	if errGet != nil || string(held.Value) != string(value) || held.Revision <= lease.Revision {
		return lease, err
	}
	revision, errAgain := kv.Update(ctx, lease.Key, value, held.Revision, ttl)
	if errAgain != nil {
		return lease, errAgain
	}
	return Lease{Key: lease.Key, Revision: revision, Until: until(now, ttl)}, nil
}

// Release gives a lease back, so that another node need not wait until it expires.
// Errors: ErrConflict if it was lost.
func Release(ctx context.Context, kv KV, lease Lease) error {
	return kv.Delete(ctx, lease.Key, lease.Revision)
}

func until(asked mail.Instant, ttl time.Duration) mail.Instant { return asked.Add(ttl - ttl/10) }
