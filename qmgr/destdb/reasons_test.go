package destdb

import (
	"net/netip"
	"strings"
	"testing"
	"time"

	"github.com/posthaste-mta/posthaste/mail"
)

// What hosts say is kept whole. If many say much, that takes no more memory than it may, and there is room
// again when they work, are reset, or are forgotten.
func TestLongReasons(t *testing.T) {
	db := New(Config{HostLimit: 6000}, 1)
	said := mail.Reply{Code: 421, Text: strings.Repeat("x", mail.ReplyTextMax), By: "mx.test[192.0.2.1]"}
	at := mail.Instant(1e18)
	host := func(i int) Key {
		return Key{Addr: netip.AddrPortFrom(netip.AddrFrom4([4]byte{192, 0, byte(i >> 8), byte(i)}), 25)}
	}
	text := func(i int) int { return len(db.hosts[host(i)].rec.Health.Reason.Text) }
	fits := longMost / mail.ReplyTextMax
	for i := range fits + 10 {
		db.Failed(host(i), at, at, said)
	}
	if text(0) != mail.ReplyTextMax || text(fits-1) != mail.ReplyTextMax || text(fits) != shortMax || db.long != longMost {
		t.Fatalf("of %d bytes %d, %d and %d are kept; %d are counted", mail.ReplyTextMax, text(0), text(fits-1), text(fits), db.long)
	}
	short := mail.Reply{Code: 421, Text: "busy", By: said.By}
	db.Failed(host(fits+1), at, at, short)
	db.Succeeded(host(1), at)
	db.ResetRetry(host(2), db.NewRetryReset(), at)
	for i := fits + 10; i < fits+14; i++ {
		db.Failed(host(i), at, at, said)
	}
	if text(fits+10) != mail.ReplyTextMax || text(fits+11) != mail.ReplyTextMax || text(fits+12) != shortMax {
		t.Errorf("where two have gone, %d, %d and %d bytes are kept", text(fits+10), text(fits+11), text(fits+12))
	}
	db.Learn(host(7000), Record{Used: at, Health: Health{At: at, Failures: 1, RetryAt: at.Add(time.Minute), Reason: said}}, at)
	if text(7000) != shortMax {
		t.Errorf("of what another node has told, %d bytes are kept", text(7000))
	}
	later := at.Add(60 * 24 * time.Hour)
	if db.Failed(host(0), later, later, short); db.long != longMost-mail.ReplyTextMax {
		t.Errorf("%d bytes are counted after a record has begun anew", db.long)
	}
	if db.Collect(later, 10_000); db.long != 0 || db.Len() != 1 {
		t.Errorf("%d bytes are counted of %d records", db.long, db.Len())
	}
}
