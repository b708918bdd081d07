package destdb

import (
	"fmt"
	"iter"

	"github.com/posthaste-mta/posthaste/internal/assert"
	"github.com/posthaste-mta/posthaste/mail"
)

// check panics unless the structures agree with each other.
func (db *DB) check() {
	db.idle.Check()
	assert.That(len(db.hosts) == len(db.all), "%d hosts by key, %d in all", len(db.hosts), len(db.all))
	assert.That(db.idle.Len() <= db.cfg.HostLimit, "%d idle hosts", db.idle.Len())
	db.changes.check()
	assert.That(len(db.changes.log) <= 2*db.cfg.HostLimit, "%d changes", len(db.changes.log))
	long := 0
	for i, h := range db.all {
		assert.That(h.place == i && db.hosts[h.key] == h, "host %d does not know its place", i)
		assert.That((h.open == 0) == h.recent.On(&db.idle), "host %d with %d connections is in the wrong list", i, h.open)
		if n := h.changed; n > db.changes.first {
			assert.That(db.changes.log[n-1-db.changes.first] == h.key, "host %d is not where the log has its last change", i)
		}
		r := &h.rec
		assert.That((r.Health.Failures > 0) == (r.Health.RetryAt > 0), "%s", fmt.Sprint(r.Health))
		assert.That(cut(r.Health.Reason) == r.Health.Reason, "a reason of %d octets", len(r.Health.Reason.Text))
		long += r.Health.long()
		for _, hold := range r.Levels.Holds {
			assert.That(hold.Lifted < mail.Never, "a hold that is never over was lifted")
		}
	}
	assert.That(long == db.long && long <= longMost, "%d bytes of long reasons, counted %d", long, db.long)
}

// each yields all hosts, in an order that depends only on the calls so far.
func (db *DB) each(now mail.Instant) iter.Seq2[Key, View] {
	return func(yield func(Key, View) bool) {
		for _, h := range db.all {
			if !yield(h.key, h.view(&db.cfg, now)) {
				return
			}
		}
	}
}
