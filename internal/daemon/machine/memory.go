package machine

import (
	"fmt"
	"log/slog"
	"strings"

	"github.com/posthaste-mta/posthaste/config"
	"github.com/posthaste-mta/posthaste/internal/human"
)

// What is kept in memory is bounded by limits whose defaults suit a machine that
// has 300 MB for it. GOMEMLIMIT is how an operator says that there is less, and
// without smaller limits it would only have the garbage collector run all the time.

// memoryBase is what the program takes that has just been started, in bytes.
const memoryBase = 40 << 20

// A taker is something that takes memory by a limit.
type taker struct {
	key   string
	limit func(*config.Config) *int64
	count func(*config.Config) *int // instead of limit, for what is counted
	each  int64                     // bytes for one; for limit, how many of these there are
	least int64
	lasts bool // it takes a restart to change it
}

func takers(cfg *config.Config) []taker {
	return []taker{
		{key: "spool.cache_size", limit: func(c *config.Config) *int64 { return &c.Spooling.Cache }, each: 1, least: 1 << 20, lasts: true},
		{key: "spool.memtable_size", limit: func(c *config.Config) *int64 { return &c.Spooling.MemTable }, each: int64(cfg.Spooling.MemTables), least: 512 << 10, lasts: true},
		{key: "qmgr_message_active_limit", count: func(c *config.Config) *int { return &c.Queue.ActiveLimit }, each: 1000, least: 100},
		{key: "qmgr_message_recipient_limit", count: func(c *config.Config) *int { return &c.Queue.RecipientLimit }, each: 400, least: 1000},
		{key: "address_verify_limit", count: func(c *config.Config) *int { return &c.SMTPD.Verify.AddressLimit }, each: 300, least: 100},
		{key: "dns.cache_entries", count: func(c *config.Config) *int { return &c.DNS.CacheEntries }, each: 1000, least: 100},
		{key: "smtpd_connection_limit", count: func(c *config.Config) *int { return &c.SMTPD.ConnectionLimit }, each: 16 << 10, least: 20, lasts: true},
		{key: "smtp_connection_limit", count: func(c *config.Config) *int { return &c.SMTPConnectionLimit }, each: 16 << 10, least: 10},
	}
}

// value and set hide whether a taker's limit is an int or an int64.
func (t *taker) value(c *config.Config) int64 {
	if t.limit != nil {
		return *t.limit(c)
	}
	return int64(*t.count(c))
}

func (t *taker) set(c *config.Config, v int64) {
	if t.limit != nil {
		*t.limit(c) = v
		return
	}
	*t.count(c) = int(v)
}

// fitMemory makes caches and tables smaller, all in the same proportion, until
// together they are not larger than the limit. At a reload those that last are as they
// are, and the others share the rest.
func (f *Fitted) fitMemory(limit int64, reload bool, log *slog.Logger) {
	all := takers(f.Config)
	var needed, lasting int64
	for _, t := range all {
		if t.lasts && reload {
			lasting += t.value(f.Config) * t.each
		} else {
			needed += t.value(f.Config) * t.each
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
		was := t.value(f.Config)
		now := min(max(int64(float64(was)*share), t.least), was)
		if now == was {
			continue
		}
		t.set(f.Config, now)
		smaller = append(smaller, fmt.Sprintf("%s %s instead of %s", t.key, t.text(now), t.text(was)))
	}
	log.Warn("GOMEMLIMIT is below what the configuration may take, so caches and tables are made smaller",
		"limit", human.Octets(limit), "needed", human.Octets(needed+lasting+memoryBase), "lowered", strings.Join(smaller, ", "))
}

func (t *taker) text(v int64) string {
	if t.limit != nil {
		return human.Octets(v)
	}
	return human.Number(v)
}
