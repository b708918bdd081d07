package machine

import (
	"fmt"
	"log/slog"
	"strings"

	"github.com/posthaste-mta/posthaste/config"
	"github.com/posthaste-mta/posthaste/internal/human"
	"github.com/posthaste-mta/posthaste/milter"
)

// What is kept in memory is bounded by limits whose defaults suit a machine that
// has 300 MB for it. GOMEMLIMIT is how an operator says that there is less, and
// without smaller limits it would only have the garbage collector run all the time.

// memoryBase is the memory of the program just after its start, in bytes.
const memoryBase = 40 << 20

// A taker is a limit on something that takes memory.
type taker struct {
	key   string
	limit any   // in the configuration: *int64 in bytes, *int for a count
	each  int64 // bytes for one; for a limit in bytes, how many of these there are
	least int64
	lasts bool // a change takes a restart
}

func takers(c *config.Config) []taker {
	return []taker{
		{"spool.cache_size", &c.Spooling.Cache, 1, 1 << 20, true},
		{"spool.memtable_size", &c.Spooling.MemTable, int64(c.Spooling.MemTables), 512 << 10, true},
		{"qmgr_message_active_limit", &c.Queue.ActiveLimit, 1000, 100, false},
		{"qmgr_message_recipient_limit", &c.Queue.RecipientLimit, 400, 1000, false},
		{"address_verify_limit", &c.SMTPD.Verify.AddressLimit, 300, 100, false},
		{"dns.cache_entries", &c.DNS.CacheEntries, 1000, 100, false},
		{"smtpd_connection_limit", &c.SMTPD.ConnectionLimit, 16<<10 + milterMemory(c), 20, true},
		{"smtp_connection_limit", &c.SMTPConnectionLimit, 16 << 10, 10, false},
	}
}

// milterMemory is the memory of one client's conversations with milters, and of a content that they
// look at, in bytes.
func milterMemory(c *config.Config) int64 {
	n := int64(c.MilterConnections())
	if n == 0 {
		return 0
	}
	return milter.KeptMax + n*(8<<10)
}

func (t *taker) value() int64 {
	if count, ok := t.limit.(*int); ok {
		return int64(*count)
	}
	return *t.limit.(*int64)
}

func (t *taker) set(v int64) {
	if count, ok := t.limit.(*int); ok {
		*count = int(v)
		return
	}
	*t.limit.(*int64) = v
}

// fitMemory makes caches and tables smaller, all in the same proportion, until
// together they are not larger than the limit. At a reload those that last are as they
// are, and the others share the rest.
func (f *Fitted) fitMemory(limit int64, reload bool, log *slog.Logger) {
	all := takers(f.Config)
	var needed, lasting int64
	for _, t := range all {
		if t.lasts && reload {
			lasting += t.value() * t.each
		} else {
			needed += t.value() * t.each
		}
	}
	room := max(limit-memoryBase-lasting, 0)
	if needed <= room {
		return
	}
	share := float64(room) / float64(needed)
	var smaller []string
	for _, t := range all {
		if t.lasts && reload {
			continue
		}
		was := t.value()
		now := min(max(int64(float64(was)*share), t.least), was)
		if now == was {
			continue
		}
		t.set(now)
		smaller = append(smaller, fmt.Sprintf("%s %s instead of %s", t.key, t.text(now), t.text(was)))
	}
	log.Warn("GOMEMLIMIT is below what the configuration may take, so caches and tables are made smaller",
		"limit", human.Bytes(limit), "needed", human.Bytes(needed+lasting+memoryBase), "lowered", strings.Join(smaller, ", "))
}

func (t *taker) text(v int64) string {
	if _, ok := t.limit.(*int); ok {
		return human.Number(v)
	}
	return human.Bytes(v)
}
