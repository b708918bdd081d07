package views

import (
	"net/netip"

	"github.com/posthaste-mta/posthaste/mail"
	"github.com/posthaste-mta/posthaste/qmgr/warmup"
)

// A Source is one source, and what the core has of it.
type Source struct {
	Name, Hello string
	Configured  bool // false: a reload has removed it, and mail is still under way from it
	Addresses   []Address
	Pools       []Pool // those that have it
	Connections int    // ready, or being opened
	Waiting     int    // entries
	Busy        int    // deliveries under way
	// Delivered, Deferred and Bounced are the recipients of today's deliveries, which is
	// since Since.
	Delivered, Deferred, Bounced uint64
	Since                        mail.Instant // 0 if there was none
	Destinations                 int          // for which it has mail, connections, or knows that they are dead
	// Most of these, those with the most waiting first.
	Sites  []DestinationSummary
	Warmup *warmup.SourceView // nil if it is not warmed up
}

// An Address is one address of a source.
type Address struct {
	Addr  netip.Addr
	State string       // "in use", "withdrawn" or "tried"
	Why   mail.Reply   // withdrawn, tried: what the system said
	Since mail.Instant // likewise: when it said so first
	Until mail.Instant // withdrawn: when it is tried again
}

// A Pool is the part that a source has in a pool.
type Pool struct {
	Pool       string
	Weight, Of int // Of is the sum of all weights
}
