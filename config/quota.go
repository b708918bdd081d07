package config

import (
	"fmt"
	"strings"

	"github.com/posthaste-mta/posthaste/flow"
	"github.com/posthaste-mta/posthaste/qmgr/rate"
	"github.com/posthaste-mta/posthaste/quota"
)

// A Class is a class of mail, and its quota.
type Class struct {
	flow.Class
	Quota quota.Limits
}

// A Tenant is a tenant, and its quota.
type Tenant struct {
	flow.Tenant
	Quota quota.Limits
}

// conditional reports whether mail belongs to the tenant by a condition. Without one it
// does by a header field only.
func (t *Tenant) conditional() bool {
	return len(t.Match.Senders)+len(t.Match.Clients)+len(t.Match.Users) > 0
}

// Quotas returns the configuration of package quota.
func (c *Config) Quotas() quota.Config {
	q := quota.Config{EachTenant: c.EachTenant, EachFlow: c.EachFlow}
	for i := range c.Classes {
		if k := &c.Classes[i]; k.Quota != (quota.Limits{}) {
			if q.Classes == nil {
				q.Classes = make(map[string]quota.Limits)
			}
			q.Classes[k.Name] = k.Quota
		}
	}
	for i := range c.Tenants {
		if t := &c.Tenants[i]; t.Quota != (quota.Limits{}) {
			if q.Tenants == nil {
				q.Tenants = make(map[string]quota.Limits)
			}
			q.Tenants[t.Name] = t.Quota
		}
	}
	return q
}

// quotaWords are the words in which the parameters of a quota differ.
type quotaWords struct {
	prefix   string // of their names
	of       string // "the tenant"
	default_ string // what 0 stands for; %s is the parameter
}

// quotaDefaults are the parameters of every tenant and of every flow.
func quotaDefaults() []parameter[Config] {
	return append(quotaParameters(quotaWords{"tenant_", "each tenant, unless [tenant.NAME] sets its own limit", "no limit"}, func(c *Config) *quota.Limits { return &c.EachTenant }),
		quotaParameters(quotaWords{"flow_", "each flow of a tenant", "no limit"}, func(c *Config) *quota.Limits { return &c.EachFlow })...)
}

// quotaParameters are the parameters of one quota.
func quotaParameters[O any](w quotaWords, of func(*O) *quota.Limits) []parameter[O] {
	none := func(name string) string {
		if strings.Contains(w.default_, "%s") {
			return fmt.Sprintf(w.default_, name)
		}
		return w.default_
	}
	perTime := func(name string) kind[rate.Limits] {
		k := rates()
		k.limits = `or "" for ` + none(name)
		return k
	}
	return []parameter[O]{
		define(w.prefix+"queue_message_limit", integer(limit[int]{min: 1, max: 1_000_000_000, zero: none("queue_message_limit")}), func(o *O) *int { return &of(o).Messages }, 0,
			"The maximum number of messages in the queue for "+w.of+"; beyond it, mail is refused with 452 until some has left (docs/quotas.md).",
			"Set it so that one sender whose mail cannot be delivered does not fill the disk."),
		define(w.prefix+"queue_size_limit", size(limit[int64]{min: 1 << 10, zero: none("queue_size_limit")}), func(o *O) *int64 { return &of(o).Octets }, 0,
			"The maximum size in bytes of the content in the queue for "+w.of+"; beyond it, mail is refused with 452 until some has left.",
			"Set it in addition to the limit on the number of messages if some are large."),
		define(w.prefix+"message_rate", perTime("message_rate"), func(o *O) *rate.Limits { return &of(o).MessageRate }, rate.Limits{},
			"The maximum number of messages accepted in a span of time for "+w.of+"; beyond it, mail is refused with 450 until enough of the time has passed.",
			"Set it to what a customer has paid for, or to several times what is usual, so that a stolen password does limited harm."),
		define(w.prefix+"recipient_rate", perTime("recipient_rate"), func(o *O) *rate.Limits { return &of(o).RecipientRate }, rate.Limits{},
			"The maximum number of recipients of the messages accepted in a span of time for "+w.of+"; beyond it, mail is refused with 450.",
			"Set it where messages have many recipients."),
		define(w.prefix+"recipient_limit", integer(limit[int]{min: 1, max: 1_000_000, zero: none("recipient_limit")}), func(o *O) *int { return &of(o).Recipients }, 0,
			"The maximum number of recipients of one message for "+w.of+"; the reply makes clients send the rest in another message.",
			"Set it lower than 100 only for clients that you know: others may not expect that (RFC 5321 4.5.3.1.8)."),
	}
}
