package queue

import (
	"bufio"
	"strings"
	"testing"
	"time"

	"github.com/posthaste-mta/posthaste/admin"
)

func TestWriteSources(t *testing.T) {
	now := time.Date(2026, 11, 23, 5, 0, 0, 0, time.UTC)
	ago := func(d time.Duration) *time.Time { at := now.Add(-d); return &at }
	page := admin.SourcePage{Sources: []admin.Source{
		{Name: "a", State: "in use", Ehlo: "a.example", Pools: []admin.SourcePool{{Name: "main", Weight: 1, Of: 4}}, Waiting: 6, Busy: 7, Connections: 5, Destinations: 2,
			Delivered: 1200, Deferred: 9, Bounced: 10, Since: ago(time.Hour),
			Addresses: []admin.SourceAddress{{Address: "192.0.2.1", State: "in use"}, {Address: "2001:db8::1", State: "withdrawn", Reason: "cannot assign requested address", Since: ago(time.Minute), Until: ago(-time.Minute)}},
			Sites:     []admin.SourceSite{{Name: "smtp:example.net", State: "dead", Waiting: 3, Connections: 1, Reason: "421 not from there"}}},
		{Name: "b", State: "removed", Addresses: []admin.SourceAddress{{Address: "192.0.2.2", State: "in use"}}},
	}}
	text := func(page *admin.SourcePage) string {
		var b strings.Builder
		out := bufio.NewWriter(&b)
		if err := writeSources(out, 0, page, now); err != nil {
			t.Fatal(err)
		}
		out.Flush()
		return b.String()
	}
	want := `SOURCE  STATE    WAITING  BUSY  CONNECTIONS  DESTINATIONS  DELIVERED  DEFERRED  BOUNCED  PER MINUTE
a       in use         6     7            5             2      1,200         9       10        20.0
    192.0.2.1, EHLO a.example
    2001:db8::1, EHLO a.example: cannot assign requested address, withdrawn 1m ago, tried again in 1m
    in pool main with weight 1 of 4
    smtp:example.net: dead, 3 waiting, 0 busy, 1 connection, window 0: 421 not from there
b       removed        0     0            0             0          0         0        0           -
    192.0.2.2
`
	if got := text(&page); got != want {
		t.Errorf("got\n%s\nwant\n%s", got, want)
	}
	if got := text(&admin.SourcePage{}); !strings.HasPrefix(got, "No sources are configured") {
		t.Errorf("without sources: %s", got)
	}
}

// The status of a transport has a line for each source of a destination, told apart by its name.
func TestStatusNamesSources(t *testing.T) {
	var b strings.Builder
	writeDestinations(&b, []admin.DestinationStatus{{Nexthop: "a.test", Source: "old"}, {Nexthop: "a.test", Source: "new"}, {Nexthop: "no answer", Instead: "smtp:b.test"}}, time.Now(), nil)
	for _, want := range []string{"  a.test from old ", "  a.test from new ", "  smtp:b.test "} {
		if !strings.Contains(b.String(), want) {
			t.Errorf("%q is missing in\n%s", want, &b)
		}
	}
}
