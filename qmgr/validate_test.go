package qmgr_test

import (
	"strings"
	"testing"
	"time"

	"github.com/posthaste-mta/posthaste/mail"
	"github.com/posthaste-mta/posthaste/qmgr"
	"github.com/posthaste-mta/posthaste/qmgr/sched"
	"github.com/posthaste-mta/posthaste/qmgr/shape"
	"github.com/posthaste-mta/posthaste/qmgr/window"
)

// Of each number that has a bound, the bound itself is a right value, and what is beyond
// it is complained of by name: by itself, in a transport of its own, and with all others.
func TestValidate(t *testing.T) {
	type config = qmgr.Config
	fields := []struct {
		complaint string
		set       func(c *config, v int)
		good, bad int
	}{
		{"qmgr_message_active_limit is", func(c *config, v int) { c.ActiveLimit = v }, 1, -1},
		{"qmgr_message_recipient_limit is", func(c *config, v int) { c.RecipientLimit = v }, 1, -1},
		{"qmgr_message_recipient_minimum is", func(c *config, v int) { c.RecipientMinimum = v }, 1, -1},
		{"lookup_limit is", func(c *config, v int) { c.LookupLimit = v }, 1, -1},
		{"max_message_concurrency is", func(c *config, v int) { c.MessageConcurrency = v }, 1, -1},
		{"connection_limit is", func(c *config, v int) { c.ConnectionLimit = v }, 1, -1},
		{"verify_limit is", func(c *config, v int) { c.VerifyLimit = v }, 1, -1},
		{"verify_network_limit is", func(c *config, v int) { c.VerifyNetworkLimit = v }, 1, -1},
		{"verify_deadline is", func(c *config, v int) { c.VerifyDeadline = time.Duration(v) }, 1, -1},
		{"qmgr_fudge_factor is", func(c *config, v int) { c.FudgeFactor = v }, 1, -1},
		{"actions per step is", func(c *config, v int) { c.ActionsPerStep = v }, 1, -1},
		{"transport_retry_time is", func(c *config, v int) { c.TransportRetryTime = time.Duration(v) }, 1, -1},
		{"minimal backoff time", func(c *config, v int) { c.Backoff.MinimalBackoffTime = time.Duration(v) }, 1, -1},
		{"retry min", func(c *config, v int) { c.Hosts.RetryMin = time.Duration(v) }, 1, -1},
		{"lifetime of addresses is negative", func(c *config, v int) { c.Addresses.PositiveTime = time.Duration(v) }, 1, -1},
		{"matches nothing", func(c *config, v int) { c.Destinations = make([]shape.Destination, v) }, 0, 1},
	}
	inTransport := []struct {
		complaint string
		set       func(c *qmgr.TransportConfig, v int)
		good, bad int
	}{
		{"process_limit is", func(c *qmgr.TransportConfig, v int) { c.ProcessLimit = v }, 1, -1},
		{"destination_recipient_limit is", func(c *qmgr.TransportConfig, v int) { c.RecipientLimit = v }, -1, -2},
		{"recipient_refill_limit is", func(c *qmgr.TransportConfig, v int) { c.RefillLimit = v }, 1, -1},
		{"scheduler ", func(c *qmgr.TransportConfig, v int) { c.Scheduler = qmgr.Scheduler(v) }, int(sched.Runner), int(sched.Runner) + 1},
		{"delivery_slot_discount is", func(c *qmgr.TransportConfig, v int) { c.SlotDiscount = v }, 100, 101},
		{"destination_rate_delay is", func(c *qmgr.TransportConfig, v int) { c.RateDelay = time.Duration(v) }, 0, -1},
		{"transport_rate_delay is", func(c *qmgr.TransportConfig, v int) { c.TransportRateDelay = time.Duration(v) }, 0, -1},
		{"initial connections", func(c *qmgr.TransportConfig, v int) { c.Connections.Initial = v }, 1, -1},
		{"reuse count limit -1", func(c *qmgr.TransportConfig, v int) { c.Connections.CountLimit = v }, 1, -1},
		{"level 4", func(c *qmgr.TransportConfig, v int) { c.Connections.Level = mail.Level(v) }, int(mail.LevelStream), int(mail.LevelStream) + 1},
		{"messages in flight 17", func(c *qmgr.TransportConfig, v int) { c.Connections.InFlight = v }, 1, 17},
		{"messages in flight 17", func(c *qmgr.TransportConfig, v int) { c.Connections.InFlight = v }, 16, 17},
		{"feedback rule", func(c *qmgr.TransportConfig, v int) { c.Window.Rule = window.Rule(v) }, int(window.RuleReadme), int(window.RuleReadme) + 1},
	}
	for _, f := range inTransport {
		for _, name := range []string{"default", "smtp", "relay"} {
			set := func(c *config, v int) {
				if name == "default" {
					f.set(&c.DefaultTransport, v)
					return
				}
				own := c.Transports[name]
				f.set(&own, v)
				if c.Transports == nil {
					c.Transports = make(map[string]qmgr.TransportConfig)
				}
				c.Transports[name] = own
			}
			fields = append(fields, struct {
				complaint string
				set       func(c *config, v int)
				good, bad int
			}{"transport " + name + ": " + f.complaint, set, f.good, f.bad})
		}
	}
	complaint := func(c config) string {
		if err := c.WithDefaults().Validate(); err != nil {
			return err.Error()
		}
		return ""
	}
	var all config
	for _, f := range fields {
		var c config
		f.set(&c, f.good)
		if text := complaint(c); text != "" {
			t.Errorf("%s %d: %s", f.complaint, f.good, text)
		}
		f.set(&c, f.bad)
		if text := complaint(c); !strings.Contains(text, f.complaint) || strings.Count(text, "\n") > 0 {
			t.Errorf("%s %d: the complaint is %q", f.complaint, f.bad, text)
		}
		f.set(&all, f.bad)
	}
	text := complaint(all)
	for _, f := range fields {
		what := strings.TrimSpace(f.complaint[strings.LastIndex(f.complaint, ": ")+1:])
		if !strings.Contains(text, what) {
			t.Errorf("with all others wrong: no complaint of %s", f.complaint)
		}
	}
	if relay, smtp := strings.Index(text, "transport relay"), strings.Index(text, "transport smtp"); relay > smtp {
		t.Errorf("transports are not in the order of their names:\n%s", text)
	}
}
