package quota

import (
	"fmt"

	"github.com/posthaste-mta/posthaste/internal/mistakes"
	"github.com/posthaste-mta/posthaste/mail"
	"github.com/posthaste-mta/posthaste/qmgr/rate"
)

// Limits are those of one class, tenant or flow. A zero value is no limit.
type Limits struct {
	Messages      int         // in the queue
	Octets        int64       // of content in the queue
	MessageRate   rate.Limits // messages accepted in some time
	RecipientRate rate.Limits // recipients of messages accepted in some time
	Recipients    int         // of one message
}

// Config is all limits.
type Config struct {
	Classes    map[string]Limits
	Tenants    map[string]Limits
	EachTenant Limits // what a tenant has where Tenants has no limit for it
	EachFlow   Limits // of each flow of each tenant
}

// Validate returns all errors, joined.
func (c Config) Validate() error {
	var wrong mistakes.List
	check := func(what string, l Limits) {
		wrong.Unless(l.Messages >= 0 && l.Octets >= 0 && l.Recipients >= 0, "quota of %s: a limit is negative", what)
	}
	for name, l := range c.Classes { //archtest:anyorder errors of different names
		check("class "+name, l)
	}
	for name, l := range c.Tenants { //archtest:anyorder errors of different names
		check("tenant "+name, l)
	}
	check("each tenant", c.EachTenant)
	check("each flow", c.EachFlow)
	return wrong.Join()
}

// over returns l with the limits of base where l has none.
func (l Limits) over(base Limits) Limits {
	if l.Messages == 0 {
		l.Messages = base.Messages
	}
	if l.Octets == 0 {
		l.Octets = base.Octets
	}
	if l.MessageRate == (rate.Limits{}) {
		l.MessageRate = base.MessageRate
	}
	if l.RecipientRate == (rate.Limits{}) {
		l.RecipientRate = base.RecipientRate
	}
	if l.Recipients == 0 {
		l.Recipients = base.Recipients
	}
	return l
}

// waits reports whether there is a limit on what waits.
func (l *Limits) waits() bool { return l.Messages > 0 || l.Octets > 0 }

// metered reports whether there is a limit on what is sent in some time.
func (l *Limits) metered() bool {
	return l.MessageRate != (rate.Limits{}) || l.RecipientRate != (rate.Limits{})
}

// lasting reports whether what was sent must outlive the process.
func (l *Limits) lasting() bool {
	for _, limits := range [...]rate.Limits{l.MessageRate, l.RecipientRate} {
		for _, one := range limits.All() {
			if one.Per >= SavedPer {
				return true
			}
		}
	}
	return false
}

// Any reports whether there is any limit.
func (c *Config) Any() bool {
	any := c.EachTenant != (Limits{}) || c.EachFlow != (Limits{})
	for _, l := range c.Classes { //archtest:anyorder only whether there is one
		any = any || l != (Limits{})
	}
	for _, l := range c.Tenants { //archtest:anyorder only whether there is one
		any = any || l != (Limits{})
	}
	return any
}

// Counts returns for what the spool must count messages.
func (c *Config) Counts() mail.CountLevel {
	if c.EachFlow.waits() {
		return mail.CountFlows
	}
	some := c.EachTenant.waits()
	for _, l := range c.Classes { //archtest:anyorder only whether there is one
		some = some || l.waits()
	}
	for _, l := range c.Tenants { //archtest:anyorder only whether there is one
		some = some || l.waits()
	}
	if some {
		return mail.CountTenants
	}
	return mail.CountNothing
}

// A Kind says whether a limit is that of a class, a tenant or a flow.
type Kind uint8

const (
	Class Kind = iota
	Tenant
	Flow
	kinds
)

// String returns "class", "tenant" or "flow".
func (k Kind) String() string {
	if k >= kinds {
		return fmt.Sprintf("kind %d", uint8(k))
	}
	return [...]string{"class", "tenant", "flow"}[k]
}

// A Resource is a limited resource.
type Resource uint8

const (
	Messages Resource = iota
	Octets
	MessageRate
	RecipientRate
	Recipients
	resources
)

// String returns the name of the configuration's parameter.
func (r Resource) String() string {
	if r >= resources {
		return fmt.Sprintf("resource %d", uint8(r))
	}
	return [...]string{"queue_message_limit", "queue_size_limit", "message_rate", "recipient_rate", "recipient_limit"}[r]
}
