package queue

import (
	"bufio"
	"errors"
	"strings"
	"testing"

	"github.com/posthaste-mta/posthaste/admin"
)

// One line for each limit, the name only once; what is not known is not shown as 0.
func TestWriteQuotas(t *testing.T) {
	page := admin.QuotaPage{Counting: true, Counted: 1234, Matched: 9, Quotas: []admin.Quota{
		{Kind: "tenant", Name: "ac\x1bme", Refused: 17, RecipientLimit: 500, Uses: []admin.QuotaUsage{
			{Limit: "queue_message_limit", Unknown: true, Of: 10_000}, {Limit: "queue_size_limit", Used: 1 << 30, Of: 2 << 30}, {Limit: "message_rate", Used: 7, Of: 5000, Per: 3_600_000}}},
		{Kind: "flow", Name: "a@example.com", Tenant: "acme", RecipientLimit: 3},
		{Kind: "flow", Shared: true, Uses: []admin.QuotaUsage{{Limit: "message_rate", Used: 1, Of: 2, Per: 60_000}}},
	}}
	var b strings.Builder
	out := bufio.NewWriter(&b)
	if err := writeQuotas(out, 200, &page, false); err != nil {
		t.Fatal(err)
	}
	if err := out.Flush(); err != nil {
		t.Fatal(err)
	}
	const want = `The messages in the queue are being counted (1,234 so far); until then limits on them refuse nothing.
KIND    NAME                   LIMIT                  USED           OF  REFUSED
tenant  ac?me                  queue_message_limit       ?       10,000       17
                               queue_size_limit     1.1 GB       2.1 GB
                               message_rate              7  5,000 in 1h
                               recipient_limit                      500
flow    a@example.com of acme  recipient_limit                        3        0
flow    (many)                 message_rate              1      2 in 1m        0
3 of 9 quotas
`
	if b.String() != want {
		t.Errorf("got\n%s\nwant\n%s", &b, want)
	}
}

// An empty list says whether there is nothing, or nothing that was asked for.
func TestWriteNoQuotas(t *testing.T) {
	for filtered, want := range map[bool]string{true: "No quotas meet the conditions.\n", false: "No quotas are configured, or no mail counts for those of each tenant or flow.\n"} {
		var b strings.Builder
		out := bufio.NewWriter(&b)
		if err := errors.Join(writeQuotas(out, 200, &admin.QuotaPage{}, filtered), out.Flush()); err != nil || b.String() != want {
			t.Errorf("filtered %v: %q, %v", filtered, b.String(), err)
		}
	}
}
