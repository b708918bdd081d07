// Command webhooks delivers events to webhooks, scheduled by Posthaste's core.
package main

import (
	"cmp"
	"context"
	"encoding/json"
	"flag"
	"io"
	"log/slog"
	"net/http"
	"net/url"
	"os"
	"os/signal"
	"time"

	"github.com/posthaste-mta/posthaste/driver"
	"github.com/posthaste-mta/posthaste/mail"
	"github.com/posthaste-mta/posthaste/outbound"
	"github.com/posthaste-mta/posthaste/qmgr"
	"github.com/posthaste-mta/posthaste/spool"
)

func main() {
	cfg := driver.Config{Grace: 5 * time.Second, Log: slog.New(slog.NewTextHandler(os.Stdout, nil))}
	cfg.Qmgr.DefaultTransport.RecipientLimit = 1     // a request is for one URL
	cfg.Qmgr.DoubleBounce = qmgr.DoubleBounceDiscard // events have no sender to report to
	dir := flag.String("spool", "webhooks.spool", "directory that keeps events until they are done")
	flag.IntVar(&cfg.Qmgr.DefaultTransport.Window.Limit, "per-host", 10, "most requests to one host at once; 0 for 20")
	flag.DurationVar(&cfg.Qmgr.Backoff.MinimalBackoffTime, "retry", 30*time.Second, "pause before the second attempt; then it doubles")
	flag.DurationVar(&cfg.Qmgr.Backoff.BounceQueueLifetime, "give-up", 24*time.Hour, "age at which an event is given up")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	if err := run(ctx, *dir, cfg, os.Stdin); err != nil {
		cfg.Log.Error("stopped", "error", err)
		os.Exit(1)
	}
}

// run returns nil when the input has ended and all events are done. When it ends
// before, the spool keeps what is not done, and the next run goes on with it.
func run(ctx context.Context, dir string, cfg driver.Config, in io.Reader) error {
	s, err := spool.Open(spool.Config{Settings: spool.Settings{Dir: dir}})
	if err != nil {
		return err
	}
	defer s.Close()
	w := web{s, &http.Transport{MaxIdleConnsPerHost: cfg.Qmgr.DefaultTransport.Window.Limit}}
	agents := outbound.Agents{"http": w, qmgr.TransportRetry: outbound.Retry{}, qmgr.TransportError: outbound.Error{}}
	d, err := driver.New(cfg, driver.Ports{Spool: s, Router: w, Agent: func(string) driver.Agent { return agents }})
	if err != nil {
		return err
	}
	work, stop := context.WithCancelCause(ctx)
	defer stop(nil)
	go func() {
		if err := feed(work, in, s, d, cfg.Log); err != io.EOF {
			stop(err)
		}
		d.Drain()
	}()
	err = d.Run(work)
	v, _ := d.View(context.Background(), 0)
	left, _ := s.Stats(context.Background())
	cfg.Log.Info("summary", "sent", v.Counts.Outcomes[mail.Delivered], "refused", v.Counts.Outcomes[mail.Failed],
		"put_off", v.Counts.Outcomes[mail.Deferred], "given_up", v.Counts.Expired, "left", left.Messages[mail.AreaIncoming]+left.Messages[mail.AreaDeferred])
	return cmp.Or(err, context.Cause(work))
}

// feed puts events into the spool and notifies the driver, until the input ends.
func feed(ctx context.Context, in io.Reader, s *spool.Spool, d *driver.Driver, log *slog.Logger) error {
	for input := json.NewDecoder(in); ; {
		var event struct {
			ID   string
			URLs []string
			Body json.RawMessage
		}
		if err := input.Decode(&event); err != nil {
			return err
		}
		draft, err := s.Begin(ctx)
		if err != nil {
			return err
		}
		for _, u := range event.URLs {
			draft.AddRecipient(mail.Recipient{Address: mail.Address(u)})
		}
		draft.Write(event.Body) // its error is Commit's, too
		if err := draft.Commit(ctx, mail.Envelope{EnvID: event.ID, Arrived: mail.Instant(time.Now().UnixNano())}); err != nil {
			log.Error("refused", "event", event.ID, "error", err)
			continue
		}
		log.Info("accepted", "event", event.ID, "id", draft.ID().String())
		d.Arrived(draft.Arrival())
	}
}

// Web is where requests go. How many at once, and when, is the core's business.
type web struct {
	spool *spool.Spool
	http  *http.Transport // which follows no redirection to another host
}

// Route makes the host of a URL its destination, which has a window.
func (web) Route(_ mail.Address, _ mail.TLSRequest, recipients []mail.Recipient) (routes []mail.Route) {
	for _, r := range recipients {
		route := mail.Route{Reply: mail.Reply{Code: 550, Text: "not a URL"}}
		if u, err := url.Parse(string(r.Address)); err == nil && u.Host != "" {
			route = mail.Route{Transport: "http", Nexthop: u.Host}
		}
		routes = append(routes, route)
	}
	return routes
}

func (w web) Deliver(ctx context.Context, d mail.Delivery) mail.DeliveryResult {
	status, text := w.post(ctx, d.Envelope, string(d.Recipients[0].Address))
	o := mail.Outcome{Index: d.Recipients[0].Index, Result: mail.Deferred, Reply: mail.Reply{Code: 450, Text: mail.CleanText(text)}}
	var site mail.Reply
	switch {
	case status/100 == 2:
		o.Result, o.Reply.Code = mail.Delivered, 250
	case status == 0, status == http.StatusTooManyRequests, status > http.StatusNotImplemented:
		site = o.Reply // the host is down, or it is too much for it: the window shrinks
	case status/100 != 5 && status != http.StatusRequestTimeout:
		o.Result, o.Reply.Code = mail.Failed, 550
	}
	return mail.DeliveryResult{Host: d.Nexthop, Outcomes: []mail.Outcome{o}, Site: site, Crashed: ctx.Err() != nil}
}

// post returns 0 and why if the host gave no status.
func (w web) post(ctx context.Context, e mail.Envelope, to string) (status int, text string) {
	content, err := w.spool.Content(ctx, e.ID)
	if err != nil {
		return http.StatusInternalServerError, err.Error()
	}
	ctx, cancel := context.WithTimeout(ctx, 30*time.Second)
	defer cancel()
	u, _ := url.Parse(to) // as the router did
	req := &http.Request{Method: http.MethodPost, URL: u, Body: io.NopCloser(content.Reader()), ContentLength: content.Size,
		Header: http.Header{"Content-Type": {"application/json"}, "Webhook-Id": {e.EnvID}}} // the same in every attempt
	resp, err := w.http.RoundTrip(req.WithContext(ctx))
	if err != nil {
		return 0, err.Error()
	}
	defer resp.Body.Close()
	io.CopyN(io.Discard, resp.Body, 64<<10) // or the connection could not be used again
	return resp.StatusCode, resp.Status
}
