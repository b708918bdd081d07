package main

import (
	"context"
	"fmt"

	"github.com/posthaste-mta/posthaste/internal/sink"
	"github.com/posthaste-mta/posthaste/mail"
	"github.com/posthaste-mta/posthaste/test/daemon"
	"github.com/posthaste-mta/posthaste/test/measure"
)

// Ports from where on free ones are looked for: the program must not listen where
// no server may listen.
const (
	daemonPort = 22000
	sitePort   = 26000
)

// begin starts the program in a directory. The settings are for the top of the
// configuration; routes follow.
func (o options) begin(ctx context.Context, dir, settings, routes string) (*daemon.Daemon, error) {
	return daemon.Begin(ctx, daemon.Config{Binary: o.binary, Dir: dir, Hostname: "backlog.test", FirstPort: daemonPort,
		Settings: o.settings + "\n" + settings + "\n[routes]\n" + routes})
}

// receiveBulk starts a receiver for each domain of a message's recipients, whose
// deliveries count in a tally except those of friend, if it is not nil. It returns the
// routes to them; stop ends them.
func (o options) receiveBulk(cfg sink.Config, bulk *tally, singles map[mail.Address]*measure.Stream) (routes string, stop func(), err error) {
	cfg.Taken = func(d sink.Delivery) {
		if single := singles[d.Recipients[0]]; single != nil {
			single.Arrived(d)
			return
		}
		for _, to := range d.Recipients {
			bulk.take("u%d@", string(to))
		}
	}
	var all []*measure.Receiver
	stop = func() {
		for _, r := range all {
			r.Close() //nolint:errcheck // the tally has told
		}
	}
	for i := range o.domains {
		r, err := measure.Receive(cfg, "")
		if err != nil {
			stop()
			return "", nil, err
		}
		all = append(all, r)
		routes += fmt.Sprintf("\"d%d.test\" = %q\n", i, r.Target)
	}
	return routes, stop, nil
}
