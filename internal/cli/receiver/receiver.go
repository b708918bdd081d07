// Package receiver has the command that plays a receiver of mail, good or bad.
package receiver

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os/signal"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/posthaste-mta/posthaste/config"
	"github.com/posthaste-mta/posthaste/internal/cli/command"
	"github.com/posthaste-mta/posthaste/internal/cli/exit"
	"github.com/posthaste-mta/posthaste/internal/sink"
)

// A sinkPlan is how a receiver is to behave.
type sinkPlan struct {
	listen   []string
	size     string
	interval time.Duration // between lines of progress; 0: none
	cfg      sink.Config
	shares   []*sinkShare
}

// A sinkShare is a fault that a flag asks for.
type sinkShare struct {
	flag, help string
	fault      sink.Fault
	told       string // what happened, for the summary
}

func sinkShares() []*sinkShare {
	one := func(flag, help string, at sink.Stage, kind sink.Kind, told string) *sinkShare {
		return &sinkShare{flag, help, sink.Fault{Stage: at, Kind: kind}, told}
	}
	return []*sinkShare{
		one("refuse-connections", "answer 421 to this `percentage` of connections", sink.AtGreeting, sink.RefuseForNow, "connections refused with 421"),
		one("tempfail", "answer 450 to this `percentage` of messages, at MAIL", sink.AtMail, sink.RefuseForNow, "messages refused with 450"),
		one("refuse-recipients", "answer 550 to this `percentage` of recipients, always the same ones", sink.AtRecipient, sink.RefuseForGood, "recipients refused with 550"),
		one("tempfail-recipients", "answer 450 to this `percentage` of recipients", sink.AtRecipient, sink.RefuseForNow, "recipients refused with 450"),
		one("drop", "close the connection in the middle of this `percentage` of messages", sink.AtContent, sink.Drop, "connections closed within a message"),
		one("lose-reply", "accept this `percentage` of messages, but close the connection instead of replying", sink.AtCommit, sink.LoseReply, "replies to messages lost"),
	}
}

// NewCommand returns the command that plays a receiver.
func NewCommand() *cobra.Command {
	plan := sinkPlan{interval: 5 * time.Second, shares: sinkShares()}
	cmd := &cobra.Command{
		Use:        "sink",
		SuggestFor: []string{"smtp-sink"},
		Short:      "Run a test receiver with configurable limits and faults",
		Long: `Accept mail by SMTP from any client, count it and discard it. The flags make the
receiver slow or limited, or let it refuse mail or close connections. A route such
as "slow.test" = "smtp:[127.0.0.1]:2526" sends mail to it.

It stores nothing and has no access control, so do not let it listen on a network that
others can reach. Without --listen, it listens on the loopback interface only.

It prints its counts every few seconds if they have changed, and a summary when it is
stopped by SIGINT (Ctrl-C) or SIGTERM.`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			s, err := newSinkRun(&plan)
			if err != nil {
				return command.Misuse(cmd, err)
			}
			ctx, stop := signal.NotifyContext(cmd.Context(), syscall.SIGINT, syscall.SIGTERM)
			defer stop()
			return s.run(ctx, cmd.OutOrStdout(), cmd.ErrOrStderr())
		},
	}
	plan.addFlags(cmd.Flags())
	return cmd
}

func (p *sinkPlan) addFlags(f *pflag.FlagSet) {
	f.SortFlags = false
	f.StringArrayVar(&p.listen, "listen", []string{"127.0.0.1:2526"}, "listen on this `address` and port; may be repeated")
	f.StringVar(&p.cfg.Hostname, "hostname", "sink.test", "host name in the greeting")
	f.IntVar(&p.cfg.ConnectionLimit, "connection-limit", 0, "maximum number of simultaneous connections, further ones get 421; 0: no limit")
	f.IntVar(&p.cfg.ClientConnectionLimit, "client-connection-limit", 0, "maximum number of simultaneous connections from one client address; 0: no limit")
	f.IntVar(&p.cfg.RecipientLimit, "recipient-limit", 0, "maximum number of recipients of a message, at least 100, further ones get 452; 0: no limit")
	f.StringVar(&p.size, "size-limit", "0", "maximum `size` of a message, at least 64K; 0: no limit")
	f.DurationVar(&p.cfg.MessageDelay, "delay", 0, "delay before each message is accepted, such as 200ms")
	f.DurationVar(&p.cfg.GreetingDelay, "greeting-delay", 0, "delay before the greeting")
	f.DurationVar(&p.cfg.RecipientDelay, "recipient-delay", 0, "delay before the reply to each recipient")
	f.DurationVar(&p.cfg.CommandDelay, "reply-delay", 0, "delay before each reply")
	for _, s := range p.shares {
		f.Var((*sinkPercent)(&s.fault.Share), s.flag, s.help)
	}
	f.StringSliceVar(&p.cfg.Withheld, "without", nil, "ESMTP `extensions` not to announce, such as PIPELINING,SIZE")
	f.Uint64Var(&p.cfg.Seed, "seed", 1, "seed of the random choices")
	f.DurationVar(&p.interval, "interval", p.interval, "interval between lines of progress; 0: no progress")
}

// A sinkPercent is a share that is written in percent.
type sinkPercent float64

func (p *sinkPercent) Set(text string) error {
	v, err := strconv.ParseFloat(strings.TrimSuffix(text, "%"), 64)
	if err != nil || !(v >= 0 && v <= 100) {
		return errors.New("it is not a number from 0 to 100")
	}
	*p = sinkPercent(v / 100)
	return nil
}

func (p *sinkPercent) String() string { return strconv.FormatFloat(float64(*p)*100, 'g', 6, 64) }
func (p *sinkPercent) Type() string   { return "a percentage, from 0 to 100" }

// A sinkRun is a receiver at work.
type sinkRun struct {
	plan   *sinkPlan
	server *sink.Server
	tally  sinkTally
}

func newSinkRun(p *sinkPlan) (*sinkRun, error) {
	size, err := config.ParseSize(p.size)
	if err != nil {
		return nil, fmt.Errorf("--size-limit: %w", err)
	}
	s := &sinkRun{plan: p}
	cfg := p.cfg
	cfg.SizeLimit, cfg.Refused = size, s.tally.refused
	for _, one := range p.shares {
		if one.fault.Share > 0 {
			cfg.Faults = append(cfg.Faults, one.fault)
		}
	}
	s.server, err = sink.New(cfg)
	return s, err
}

// run serves until ctx ends.
func (s *sinkRun) run(ctx context.Context, out, warnings io.Writer) error {
	listeners, err := sinkListen(s.plan.listen)
	if err != nil {
		var (
			address *net.AddrError
			service *net.DNSError
		)
		if errors.As(err, &address) || errors.As(err, &service) {
			return exit.Usagef("--listen takes an address and a port such as 127.0.0.1:2526: %w", err)
		}
		code, hint := exit.OfListen(err)
		return exit.New(code, err, strings.ReplaceAll(hint, "change listen", "change --listen"))
	}
	for _, ln := range listeners {
		fmt.Fprintf(out, "listening on %s\n", ln.Addr())
		if at, ok := ln.Addr().(*net.TCPAddr); ok && !at.IP.IsLoopback() {
			fmt.Fprintf(warnings, "posthaste: %s is not a loopback address: every client that reaches it can use it\n", at)
		}
	}
	// Not ctx itself, whose cause reports a signal as if it were a failure.
	serving, stop := context.WithCancel(context.WithoutCancel(ctx))
	defer stop()
	defer context.AfterFunc(ctx, stop)()
	ended := make(chan error, 1)
	go func() { ended <- s.server.Serve(serving, listeners...) }()
	err = s.watch(ended, out)
	return errors.Join(err, writeSinkSummary(out, s.server.Stats(), s.plan.shares, &s.tally))
}

// watch prints the counts until the server has ended.
func (s *sinkRun) watch(ended <-chan error, out io.Writer) error {
	var tick <-chan time.Time
	if s.plan.interval > 0 {
		ticker := time.NewTicker(s.plan.interval)
		defer ticker.Stop()
		tick = ticker.C
	}
	var last sink.Stats
	for {
		select {
		case err := <-ended:
			return err
		case now := <-tick:
			if stats := s.server.Stats(); stats != last {
				fmt.Fprintf(out, "%s  %s\n", now.Format(time.TimeOnly), sinkLine(stats))
				last = stats
			}
		}
	}
}

// sinkListen opens all listeners, or none.
func sinkListen(addresses []string) ([]net.Listener, error) {
	var all []net.Listener
	for _, address := range addresses {
		ln, err := net.Listen("tcp", address)
		if err != nil {
			for _, open := range all {
				open.Close() //nolint:errcheck // it was never used
			}
			return nil, err
		}
		all = append(all, ln)
	}
	return all, nil
}
