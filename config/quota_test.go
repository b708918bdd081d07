package config

import (
	"reflect"
	"strings"
	"testing"

	"github.com/posthaste-mta/posthaste/qmgr/rate"
	"github.com/posthaste-mta/posthaste/quota"
)

const quotaSample = `tenant_message_rate = "5000/h"
flow_queue_message_limit = 2_000
[tenant.acme]
sender = "acme.example"
queue_message_limit = 10_000
queue_size_limit = "1G"
message_rate = ["100/min", "5000/h"]
recipient_rate = "20000/d"
recipient_limit = 500
[tenant.customer-4711]
queue_message_limit = 7
[tenant.none]
user = "jane"
[class.bulk]
recipient_rate = "100000/d"
`

// What the file says reaches the quotas. A tenant that is known by a header field only
// can have one.
func TestQuotas(t *testing.T) {
	c := mustParse(t, quotaSample)
	want := quota.Config{
		EachTenant: quota.Limits{MessageRate: mustRates(t, "5000/h")}, EachFlow: quota.Limits{Messages: 2000},
		Tenants: map[string]quota.Limits{
			"acme":          {Messages: 10_000, Octets: 1 << 30, MessageRate: mustRates(t, "100/min, 5000/h"), RecipientRate: mustRates(t, "20000/d"), Recipients: 500},
			"customer-4711": {Messages: 7},
		},
		Classes: map[string]quota.Limits{"bulk": {RecipientRate: mustRates(t, "100000/d")}},
	}
	if got := c.Quotas(); !reflect.DeepEqual(got, want) {
		t.Errorf("%+v\nwant\n%+v", got, want)
	}
	for _, onlyChanged := range []bool{false, true} {
		if got := mustParse(t, shown(t, c, onlyChanged, false)).Quotas(); !reflect.DeepEqual(got, want) {
			t.Errorf("shown and read again: %+v\nwant\n%+v", got, want)
		}
	}
	if f := c.Flows(); len(f.Tenants) != 2 || f.Tenants[0].Name != "acme" || f.Tenants[1].Name != "none" || f.Validate() != nil {
		t.Errorf("%+v", f.Tenants)
	}
	if got := Default(testEnvironment).Quotas(); got.Any() {
		t.Errorf("%+v", got)
	}
	if _, err := Parse("", []byte("[tenant.x]\nweight = 3\n"), testEnvironment); err == nil || !strings.Contains(err.Error(), "this tenant has no mail") {
		t.Error(err)
	}
}

func mustRates(t *testing.T, text string) (l rate.Limits) {
	t.Helper()
	l, err := rate.Parse(text)
	if err != nil {
		t.Fatal(err)
	}
	return l
}
