package admin

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"time"

	"github.com/posthaste-mta/posthaste/admin/live"
	"github.com/posthaste-mta/posthaste/internal/event"
	"github.com/posthaste-mta/posthaste/internal/wiretap"
	"github.com/posthaste-mta/posthaste/mail"
	"github.com/posthaste-mta/posthaste/qmgr"
)

// Config limits what requests may cost.
type Config struct {
	// Version is the program's version as the API shows it; "" is "unknown".
	Version string
	// Logger gets one line for each order and for each failure that is not the
	// client's fault; nil discards them.
	Logger *slog.Logger

	// Quotas returns the quotas, in any order; nil if there are none.
	Quotas func(context.Context) (QuotaPage, error)
	// TLSReports returns the domains of a day with a report, and the JSON of one of them, or of
	// none for ""; nil if none are made.
	TLSReports func(day, domain string) (TLSReportPage, error)
	// Feedback returns counts of reports that came back, since a day or "" for all, by what
	// they have in common; nil: there are none.
	Feedback func(since, by string, limit int) (FeedbackPage, error)
	// Intake returns what clients have brought since the start. It is called for each status. nil if no
	// mail is taken in.
	Intake func() IntakeStatus

	// Configuration shows the host's configuration and reads it again; nil: neither.
	Configuration Configuration
	// Suspender carries out orders about suspensions; nil: there are none.
	Suspender Suspender

	// ParseRoute returns the canonical text of a route that an operator orders (mail.OrderedRoute), and why there can be
	// no such route; nil: no mail is rerouted.
	ParseRoute func(text string) (string, error)

	// Readmission returns the rules by which mail is accepted now; nil: no mail is requeued.
	Readmission func() Readmission

	// Jobs returns the jobs of a transport, at most lanes lanes and most jobs of each, false if there is no
	// such transport; nil: the host does not say.
	Jobs func(ctx context.Context, transport string, lanes, most int) (qmgr.JobList, bool, error)
	// Live has the figures that people watch; nil: there are none.
	Live *live.Sampler

	// Monitoring answers GET requests for /metrics, /healthz and /readyz; nil: there are none.
	Monitoring http.Handler

	// Events passes on what happens to messages; nil: nothing.
	Events *event.Hub

	// Attempts returns the attempts at a message that are remembered, the oldest first; nil: none are.
	Attempts func(mail.QueueID) []Attempt
	// Started is when Attempts began to remember.
	Started time.Time
	// LogLevel is the level of the log; nil: it cannot be changed.
	LogLevel LogLeveler
	// Listeners returns the names of the listeners for mail; nil: they are not known.
	Listeners func() []string
	// Wiretap has the watchers of connections; nil: they cannot be watched.
	Wiretap *wiretap.Hub

	// ReplyClass returns the class of a reply (package replies), "" if there is none; nil if
	// there are no classes.
	ReplyClass func(mail.Reply) string

	// ScanMessages is the maximum number of messages that one request looks at. 0
	// means 10,000. Lower it to make requests return sooner.
	ScanMessages int
	// SweepMessages is the maximum number of messages that one request for a count or an order reads in the order in
	// which they are stored, which is faster by far. 0 means a million.
	SweepMessages int
	// ScanRecipients is the maximum number of recipients that one request looks at.
	// 0 means 100,000.
	ScanRecipients int
	// ScanTime is the time after which a request returns what it has found so far.
	// 0 means 500 ms.
	ScanTime time.Duration
	// Scans is the maximum number of concurrent scans of the spool; further
	// requests are refused with 429. 0 means 4. Raise it where many dashboards are
	// open and the disk is fast.
	Scans int
	// Connections is the maximum number of open connections. One more takes the place of the
	// oldest that has no request under way, or waits for one to end. 0 means 64. Lower it
	// where file descriptors are scarce.
	Connections int
	// Settle is the time for which an order's request waits for the order to take effect. 0
	// means 2 s; negative means no wait.
	Settle time.Duration
	// Grace is the time for which a stop waits for requests that are under way. 0 means 5 s;
	// negative means no wait.
	Grace time.Duration
}

// WithDefaults returns the configuration with every zero value replaced by
// its default.
func (c Config) WithDefaults() Config {
	if c.Version == "" {
		c.Version = "unknown"
	}
	if c.Logger == nil {
		c.Logger = slog.New(slog.DiscardHandler)
	}
	if c.ReplyClass == nil {
		c.ReplyClass = func(mail.Reply) string { return "" }
	}
	c.ScanMessages = cmp.Or(c.ScanMessages, 10_000)
	c.SweepMessages = cmp.Or(c.SweepMessages, 1_000_000)
	c.ScanRecipients = cmp.Or(c.ScanRecipients, 100_000)
	c.ScanTime = cmp.Or(c.ScanTime, 500*time.Millisecond)
	c.Scans = cmp.Or(c.Scans, 4)
	c.Connections = cmp.Or(c.Connections, 64)
	c.Settle = cmp.Or(c.Settle, 2*time.Second)
	c.Grace = cmp.Or(c.Grace, 5*time.Second)
	return c
}

// Validate returns all errors of the configuration, joined, with defaults applied.
func (c Config) Validate() error {
	c = c.WithDefaults()
	var all []error
	atLeastOne := func(name string, n int64) {
		if n < 1 {
			all = append(all, fmt.Errorf("admin: %s is %d, must be at least 1", name, n))
		}
	}
	atLeastOne("ScanMessages", int64(c.ScanMessages))
	atLeastOne("SweepMessages", int64(c.SweepMessages))
	atLeastOne("ScanRecipients", int64(c.ScanRecipients))
	atLeastOne("ScanTime", int64(c.ScanTime))
	atLeastOne("Scans", int64(c.Scans))
	atLeastOne("Connections", int64(c.Connections))
	return errors.Join(all...)
}
