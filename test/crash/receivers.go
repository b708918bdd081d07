package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net"
	"sync"
	"time"

	"github.com/posthaste-mta/posthaste/dsn"
	"github.com/posthaste-mta/posthaste/internal/sink"
	"github.com/posthaste-mta/posthaste/mail"
)

// unknownShare is the share of recipients that do not exist, during the whole
// run: an address that came alive would not report whether it was reported in
// time.
const unknownShare = 0.02

// trouble is what goes wrong at the receivers, until the last round.
func trouble() []sink.Fault {
	return append(peace(),
		sink.Fault{Stage: sink.AtGreeting, Kind: sink.RefuseForNow, Share: 0.01},
		sink.Fault{Stage: sink.AtMail, Kind: sink.RefuseForNow, Share: 0.01},
		sink.Fault{Stage: sink.AtRecipient, Kind: sink.RefuseForNow, Share: 0.02},
		sink.Fault{Stage: sink.AtRecipient, Kind: sink.Drop, Share: 0.002},
		sink.Fault{Stage: sink.AtContent, Kind: sink.Drop, Share: 0.01},
		sink.Fault{Stage: sink.AtCommit, Kind: sink.RefuseForNow, Share: 0.01},
		sink.Fault{Stage: sink.AtCommit, Kind: sink.RefuseForGood, Share: 0.005},
		sink.Fault{Stage: sink.AtCommit, Kind: sink.Drop, Share: 0.005},
		sink.Fault{Stage: sink.AtCommit, Kind: sink.LoseReply, Share: 0.005},
	)
}

// peace is what is left of it while the daemon works off its queue.
func peace() []sink.Fault {
	return []sink.Fault{{Stage: sink.AtRecipient, Kind: sink.RefuseForGood, Share: unknownShare}}
}

// receivers are those of the recipients and that of the sender, who gets the
// reports.
type receivers struct {
	recipients *sink.Server
	sender     *sink.Server
	listeners  []net.Listener // one for each domain, then the sender's
}

func newReceivers(seed uint64, l *ledger) (*receivers, error) {
	r := &receivers{}
	var errs [2]error
	r.recipients, errs[0] = sink.New(sink.Config{
		Hostname:     "recipients.test",
		MessageDelay: 5 * time.Millisecond, // so that many deliveries are under way at each kill
		Faults:       trouble(),
		Seed:         seed,
		Taken:        l.delivered,
	})
	r.sender, errs[1] = sink.New(sink.Config{
		Hostname:    "sender.test",
		ContentKept: 4 << 20,
		Taken:       l.takeReport,
	})
	if err := errors.Join(errs[:]...); err != nil {
		return nil, err
	}
	for range domains + 1 {
		ln, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			return nil, err
		}
		r.listeners = append(r.listeners, ln)
	}
	return r, nil
}

// connections returns how many connections each receiver has been given.
func (r *receivers) connections() [2]uint64 {
	return [...]uint64{ofRecipients: r.recipients.Stats().Connections, ofSender: r.sender.Stats().Connections}
}

// serve runs the receivers until ctx ends.
func (r *receivers) serve(ctx context.Context) error {
	var both sync.WaitGroup
	var errs [2]error
	both.Go(func() { errs[0] = r.recipients.Serve(ctx, r.listeners[:domains]...) })
	both.Go(func() { errs[1] = r.sender.Serve(ctx, r.listeners[domains:]...) })
	both.Wait()
	return errors.Join(errs[:]...)
}

// routes are the lines of the configuration that lead to the receivers.
func (r *receivers) routes() string {
	var text string
	for i, ln := range r.listeners {
		domain := fmt.Sprintf("d%d.test", i+1)
		if i == domains {
			domain = senderDomain
		}
		text += fmt.Sprintf("%q = \"smtp:[127.0.0.1]:%d\"\n", domain, ln.Addr().(*net.TCPAddr).Port)
	}
	return text
}

// takeReport reads a report that the sender got and notes the failures in it.
func (l *ledger) takeReport(d sink.Delivery) {
	report, _, err := dsn.Parse(bytes.NewReader(d.Content))
	if err != nil || d.Sender != "" {
		l.mu.Lock()
		defer l.mu.Unlock()
		l.complain("the sender got something that is not a report, from <%s>: %v", d.Sender, err)
		return
	}
	for _, r := range report.Recipients {
		if k, _, _ := parseRecipient(r.Final); r.Kind == mail.ReportFailed && report.EnvID == k.envID() {
			l.reported(r.Final, d)
			continue
		}
		l.mu.Lock()
		l.complain("a report of %q says %s of %s", report.EnvID, r.Kind, r.Final)
		l.mu.Unlock()
	}
}
