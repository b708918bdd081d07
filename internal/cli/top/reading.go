package top

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"runtime/debug"
	"time"

	tea "charm.land/bubbletea/v2"

	"github.com/posthaste-mta/posthaste/admin"
	"github.com/posthaste-mta/posthaste/admin/client"
	"github.com/posthaste-mta/posthaste/admin/live"
)

// A reading is what the daemon has answered at one time.
type reading struct {
	sample      live.Sample
	suspensions []admin.Suspension // the first suspensionsMax
	suspended   int                // the number of all
	alarms      []admin.Alarm      // asked for now and then
	messages    []admin.Summary
	page        string // what is open
	pageOf      target
}

// now is the daemon's clock, by which ages are shown: that of this machine may be wrong.
func (r *reading) now() time.Time { return r.sample.At }

// suspensionOf returns the suspension of something; nil if there is none.
func (r *reading) suspensionOf(scope, value string) *admin.Suspension {
	for i := range r.suspensions {
		if s := &r.suspensions[i]; s.Scope == scope && s.Value == value {
			return s
		}
	}
	return nil
}

// suspendedSite returns what keeps the mail of a site: its own suspension, or that of its
// domain, destination or transport.
func (r *reading) suspendedSite(s *live.SiteSample) *admin.Suspension {
	for _, one := range [][2]string{{"site", s.Nexthop}, {"domain", s.Nexthop}, {"destination", s.Name}, {"transport", s.Transport}} {
		if found := r.suspensionOf(one[0], one[1]); found != nil {
			return found
		}
	}
	return nil
}

// suspendedFlow returns the suspension of a flow's tenant or class.
func (r *reading) suspendedFlow(f *live.FlowSample) *admin.Suspension {
	if s := r.suspensionOf("tenant", f.Tenant); s != nil {
		return s
	}
	return r.suspensionOf("class", f.Class)
}

// A want is what the next reading should have besides the figures.
type want struct {
	alarms   bool
	messages *admin.Filter // nil: none
	page     target
	width    int    // of the page
	sites    string // only sites with this in their names, if a sample does not have all
	flows    string
}

// How many of each a reading has at most.
const (
	sitesMax    = 256
	flowsMax    = 100
	messagesMax = 200
	// suspensionsMax covers those of sites, domains, transports, tenants and classes, if there are no more of them: those of
	// destinations come behind them.
	suspensionsMax = 200
)

// requestTime is the longest time that a reading may take.
const requestTime = 10 * time.Second

// The messages of the program to its model.
type (
	readMsg struct {
		reading reading
		want    want
		at      time.Time
		err     error
		extra   bool // beside the readings that follow each other
	}
	tickMsg  struct{}
	panicMsg struct{ text string } // a command has failed with a bug
)

// read returns the command that reads what is wanted.
func read(ctx context.Context, c *client.Client, w want, extra bool) tea.Cmd {
	return guarded(func() tea.Msg {
		ctx, cancel := context.WithTimeout(ctx, requestTime)
		defer cancel()
		r, err := readAll(ctx, c, w)
		return readMsg{reading: r, want: w, at: time.Now(), err: err, extra: extra}
	})
}

// guarded returns a command whose panic becomes a message. The model panics with it, where
// the terminal is restored before it is printed.
func guarded(cmd tea.Cmd) tea.Cmd {
	return func() (msg tea.Msg) {
		defer func() {
			if r := recover(); r != nil {
				msg = panicMsg{fmt.Sprintf("%v\n%s", r, debug.Stack())}
			}
		}()
		return cmd()
	}
}

// readAll asks the daemon for all that is wanted.
func readAll(ctx context.Context, c *client.Client, w want) (r reading, err error) {
	if r.sample, err = c.Live(ctx, sitesMax, flowsMax, true); err != nil {
		return r, err
	}
	if err := addMatching(ctx, c, &r.sample, w); err != nil {
		return r, err
	}
	page, err := c.Suspensions(ctx, admin.SuspensionFilter{}, suspensionsMax, func(s *admin.Suspension) error {
		r.suspensions = append(r.suspensions, *s)
		return nil
	})
	if err != nil && statusOf(err) != http.StatusNotImplemented {
		return r, err
	}
	r.suspended = page.Matched
	if w.alarms {
		status, err := c.Status(ctx, 0)
		if err != nil {
			return r, err
		}
		r.alarms = status.Alarms
	}
	if w.messages != nil {
		if r.messages, err = readMessages(ctx, c, w.messages); err != nil {
			return r, err
		}
	}
	if w.page.kind != targetNone {
		r.pageOf = w.page
		r.page, err = pageText(ctx, c, w.page, w.width)
	}
	return r, err
}

// statusOf returns the HTTP status of a refusal; 0 for other errors.
func statusOf(err error) int {
	var p *client.Problem
	if errors.As(err, &p) {
		return p.Status
	}
	return 0
}

// addMatching adds sites and flows that match a filter and that are not among those with the
// most waiting, which a sample has. Their rates are not known.
func addMatching(ctx context.Context, c *client.Client, s *live.Sample, w want) error {
	if w.sites != "" && s.SitesKnown > len(s.Sites) {
		known := map[string]bool{}
		for i := range s.Sites {
			known[s.Sites[i].Name] = true
		}
		if _, err := c.Destinations(ctx, w.sites, nil, false, sitesMax, func(d *admin.Destination) error {
			if !known[d.Name] {
				s.Sites = append(s.Sites, siteOf(d))
			}
			return nil
		}); err != nil {
			return err
		}
	}
	if w.flows == "" || s.FlowsKnown <= len(s.Flows) {
		return nil
	}
	page, err := c.Flows(ctx, admin.FlowFilter{Flow: []string{exactly(w.flows, false)}}, flowsMax)
	if err != nil {
		return err
	}
	known := map[string]bool{}
	for i := range s.Flows {
		known[flowKey(&s.Flows[i])] = true
	}
	for i := range page.Flows {
		f := &page.Flows[i]
		one := live.FlowSample{Class: f.Class, Tenant: f.Tenant, Flow: f.Flow, Messages: f.Messages, Waiting: f.Waiting, Busy: f.Busy, Started: f.Started}
		if !known[flowKey(&one)] {
			s.Flows = append(s.Flows, one)
		}
	}
	return nil
}

func siteOf(d *admin.Destination) live.SiteSample {
	return live.SiteSample{Name: d.Name, Transport: d.Transport, Nexthop: d.Nexthop, State: d.State, Reason: d.Reason, Until: d.Until, Window: d.Window, Busy: d.Busy,
		Waiting: d.Todo, Messages: d.Messages, Recipients: d.Recipients, Oldest: d.Oldest, Connections: d.Open, Connecting: d.Opening}
}

// readMessages reads the first messages that match. Those that cannot be read are left out;
// "posthaste queue list" names them.
func readMessages(ctx context.Context, c *client.Client, f *admin.Filter) (all []admin.Summary, err error) {
	err = c.List(ctx, client.Query{Filter: *f, Recipients: 1, Limit: messagesMax}, func(m *admin.Summary) error {
		all = append(all, *m)
		return nil
	})
	var partial *client.Partial
	if errors.As(err, &partial) {
		err = nil
	}
	return all, err
}
