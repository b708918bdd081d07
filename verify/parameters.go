package verify

import (
	"cmp"
	"fmt"
	"math"
	"strconv"
	"strings"
	"time"

	"github.com/posthaste-mta/posthaste/qmgr"
	"github.com/posthaste-mta/posthaste/qmgr/window"
)

// A parameter stores a main.cf value in a configuration. In main.cf 0 often
// means none, where in ours it means the default.
type parameter[T any] func(c *T, value string) error

// transportParameter returns the setter of a parameter without the transport's
// name in front.
func transportParameter(suffix string) parameter[qmgr.TransportConfig] {
	switch suffix {
	case "delivery_slot_cost":
		return number(func(c *qmgr.TransportConfig, n int) { c.SlotCost = orNone(n) })
	case "delivery_slot_loan":
		return number(func(c *qmgr.TransportConfig, n int) { c.SlotLoan = orNone(n) })
	case "delivery_slot_discount":
		return number(func(c *qmgr.TransportConfig, n int) { c.SlotDiscount = orNone(n) })
	case "minimum_delivery_slots":
		return number(func(c *qmgr.TransportConfig, n int) { c.MinimumSlots = orNone(n) })
	case "destination_recipient_limit":
		return number(func(c *qmgr.TransportConfig, n int) { c.RecipientLimit = orNone(n) })
	case "recipient_limit":
		return number(func(c *qmgr.TransportConfig, n int) { c.RecipientPool = orNone(n) })
	case "extra_recipient_limit":
		return number(func(c *qmgr.TransportConfig, n int) { c.ExtraRecipients = orNone(n) })
	case "recipient_refill_limit":
		return number(func(c *qmgr.TransportConfig, n int) { c.RefillLimit = n })
	case "recipient_refill_delay":
		return duration(func(c *qmgr.TransportConfig, d time.Duration) { c.RefillDelay = orNone(d) })
	case "destination_rate_delay":
		return duration(func(c *qmgr.TransportConfig, d time.Duration) { c.RateDelay = d })
	case "transport_rate_delay":
		// The recordings show when an agent asks what to deliver. That is after the
		// delay.
		return duration(func(*qmgr.TransportConfig, time.Duration) {})
	}
	return windowParameter(suffix)
}

func windowParameter(suffix string) parameter[qmgr.TransportConfig] {
	switch suffix {
	case "initial_destination_concurrency":
		return number(func(c *qmgr.TransportConfig, n int) { c.Window.Initial = n })
	case "destination_concurrency_limit":
		return number(func(c *qmgr.TransportConfig, n int) { c.Window.Limit = orNone(n) })
	case "destination_concurrency_failed_cohort_limit":
		return number(func(c *qmgr.TransportConfig, n int) { c.Window.FailedCohortLimit = orNone(n) })
	case "destination_concurrency_positive_feedback":
		return feedback(func(c *qmgr.TransportConfig, f window.Feedback) { c.Window.Positive = f })
	case "destination_concurrency_negative_feedback":
		return feedback(func(c *qmgr.TransportConfig, f window.Feedback) { c.Window.Negative = f })
	}
	return nil
}

// transportSuffixes are the names that transportParameter knows, longest first
// where one ends with another: the transport's name comes before.
var transportSuffixes = [...]string{
	"initial_destination_concurrency", "destination_concurrency_limit", "destination_concurrency_failed_cohort_limit",
	"destination_concurrency_positive_feedback", "destination_concurrency_negative_feedback",
	"delivery_slot_cost", "delivery_slot_loan", "delivery_slot_discount", "minimum_delivery_slots",
	"destination_recipient_limit", "extra_recipient_limit", "recipient_limit", "recipient_refill_limit", "recipient_refill_delay",
	"destination_rate_delay", "transport_rate_delay",
}

// coreParameter returns the setter of a parameter that all transports share.
func coreParameter(name string) parameter[qmgr.Config] {
	switch name {
	case "qmgr_message_active_limit":
		return number(func(c *qmgr.Config, n int) { c.ActiveLimit = n })
	case "qmgr_message_recipient_limit":
		return number(func(c *qmgr.Config, n int) { c.RecipientLimit = n })
	case "qmgr_fudge_factor":
		return number(func(c *qmgr.Config, n int) { c.FudgeFactor = n })
	case "qmgr_message_recipient_minimum":
		return number(func(c *qmgr.Config, n int) { c.RecipientMinimum = n })
	case "minimal_backoff_time":
		return duration(func(c *qmgr.Config, d time.Duration) { c.Backoff.MinimalBackoffTime = d })
	case "maximal_backoff_time":
		return duration(func(c *qmgr.Config, d time.Duration) { c.Backoff.MaximalBackoffTime = d })
	case "transport_retry_time":
		return duration(func(c *qmgr.Config, d time.Duration) { c.TransportRetryTime = d })
	case "maximal_queue_lifetime":
		return duration(func(c *qmgr.Config, d time.Duration) { c.Backoff.MaximalQueueLifetime = orNone(d) })
	case "bounce_queue_lifetime":
		return duration(func(c *qmgr.Config, d time.Duration) { c.Backoff.BounceQueueLifetime = orNone(d) })
	}
	return nil
}

func orNone[T int | time.Duration](v T) T {
	if v == 0 {
		return -1
	}
	return v
}

func number[T any](store func(*T, int)) parameter[T] {
	return func(c *T, value string) error {
		n, err := strconv.Atoi(value)
		if err != nil {
			return fmt.Errorf("%q is not a number", value)
		}
		store(c, n)
		return nil
	}
}

func feedback(store func(*qmgr.TransportConfig, window.Feedback)) parameter[qmgr.TransportConfig] {
	return func(c *qmgr.TransportConfig, value string) error {
		// What Postfix finds malformed it warns about, and uses 1.
		f, _ := window.ParsePostfixFeedback(value)
		store(c, f)
		return nil
	}
}

func duration[T any](store func(*T, time.Duration)) parameter[T] {
	return func(c *T, value string) error {
		d, err := parseDuration(value)
		if err == nil {
			store(c, d)
		}
		return err
	}
}

// parseDuration reads a number with one of Postfix's units, seconds by default.
func parseDuration(value string) (time.Duration, error) {
	digits, unit := value, time.Second
	if i := len(value) - 1; i > 0 {
		if u := unitOf(value[i]); u != 0 {
			digits, unit = value[:i], u
		}
	}
	n, err := strconv.Atoi(digits)
	if err != nil {
		return 0, fmt.Errorf("%q is not a duration", value)
	}
	return time.Duration(n) * unit, nil
}

func unitOf(c byte) time.Duration {
	switch c {
	case 's':
		return time.Second
	case 'm':
		return time.Minute
	case 'h':
		return time.Hour
	case 'd':
		return 24 * time.Hour
	case 'w':
		return 7 * 24 * time.Hour
	}
	return 0
}

// settings are main.cf parameters, and the configuration that follows.
type settings struct {
	core       qmgr.Config
	transports map[string]*qmgr.TransportConfig
	standard   qmgr.TransportConfig
	// direct says that messages are admitted by the recorder, whatever the limits.
	direct bool
}

func newSettings(standard qmgr.TransportConfig) *settings {
	return &settings{transports: make(map[string]*qmgr.TransportConfig), standard: standard}
}

// set takes a parameter by its whole name.
func (s *settings) set(name, value string) error {
	if p := coreParameter(name); p != nil {
		return p(&s.core, value)
	}
	for _, suffix := range transportSuffixes {
		transport, ok := strings.CutSuffix(name, "_"+suffix)
		if !ok || transport == "" {
			continue
		}
		return transportParameter(suffix)(s.transport(transport), value)
	}
	return fmt.Errorf("unknown parameter %s", name)
}

func (s *settings) transport(name string) *qmgr.TransportConfig {
	t := s.transports[name]
	if t == nil {
		copied := s.standard
		t = &copied
		s.transports[name] = t
	}
	return t
}

// config returns the configuration; transports that no parameter names get the
// standard one.
func (s *settings) config() qmgr.Config {
	c := s.core
	c.AsPostfix = true
	if s.direct {
		c.ActiveLimit = math.MaxInt32
		c.RecipientLimit = cmp.Or(c.RecipientLimit, 20000)
	}
	c.Backoff.JitterPercent = -1
	c.DefaultTransport = s.standard
	c.Transports = make(map[string]qmgr.TransportConfig, len(s.transports))
	for name, t := range s.transports { //archtest:anyorder a copy of a map is the same in any order
		c.Transports[name] = *t
	}
	return c
}
