package queue

import (
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/posthaste-mta/posthaste/admin"
	"github.com/posthaste-mta/posthaste/admin/client"
	"github.com/posthaste-mta/posthaste/internal/cli/command"
	"github.com/posthaste-mta/posthaste/internal/cli/socket"
	"github.com/posthaste-mta/posthaste/internal/human"
	"github.com/posthaste-mta/posthaste/qmgr/measure"
)

// scopeFlags are the flags that name what is suspended, and what their values are.
type scopeFlags struct{ values map[string]*string }

func addScopes(cmd *cobra.Command) scopeFlags {
	usage := map[measure.Scope]string{
		measure.Site:        "a `site`: a nexthop, or the MX hosts {a,b;c} as \"queue destinations\" shows them",
		measure.Domain:      "the `domain` of recipients, without its subdomains",
		measure.Destination: "a `destination` TRANSPORT:SITE, also with \"to DOMAIN\" and \"from SOURCE\" behind it",
		measure.Transport:   "all that goes by a `transport`",
		measure.Source:      "a `source`, whose mail then goes from the other sources of its pool",
		measure.Tenant:      "the mail of a `tenant`",
		measure.Class:       "the mail of a `class`",
	}
	s := scopeFlags{make(map[string]*string)}
	for _, scope := range measure.Scopes() {
		s.values[scope.String()] = cmd.Flags().String(scope.String(), "", usage[scope])
		complete(cmd, scope.String())
	}
	return s
}

// given returns what the flags name.
func (s scopeFlags) given(cmd *cobra.Command) (scope, value string, err error) {
	var names []string
	for _, of := range measure.Scopes() {
		names = append(names, of.String())
		if cmd.Flags().Changed(of.String()) {
			scope, value = of.String(), *s.values[of.String()]
		}
	}
	switch err := command.Exclusive(cmd, names...); {
	case err != nil:
		return "", "", err
	case scope == "":
		return "", "", command.Misuse(cmd, errors.New("one of --"+strings.Join(names[:len(names)-1], ", --")+" and --"+names[len(names)-1]+" is needed"))
	case value == "":
		return "", "", command.Misuse(cmd, errors.New("--"+scope+" needs a value"))
	}
	return scope, value, nil
}

func newSuspendCommand(p *socket.Finder) *cobra.Command {
	var o admin.SuspendOrder
	cmd := &cobra.Command{
		Use:     "suspend {--site|--domain|--destination|--transport|--source|--tenant|--class} VALUE --reason TEXT [--for TIME]",
		Aliases: []string{"pause"},
		Short:   "Start no deliveries to a site or domain, by a transport, from a source, or for a tenant or class",
		Long: `Start no deliveries to a site or domain, by a transport, from a source, or for a tenant
or class, until the time is over or "queue resume" ends it. Deliveries in progress are
finished. The order is kept over restarts.

Its mail waits in the queue without being tried, and is sent at once when the suspension
ends. It still expires: mail that is suspended for longer than maximal_queue_lifetime is
returned to its sender. To prevent that, use "queue hold".

Suspending it again sets a new end and reason.`,
		Example: `  posthaste queue suspend --domain example.com --for 2h --reason "they asked us to wait"
  posthaste queue suspend --tenant acme --reason "account was taken over"
  posthaste queue suspensions
  posthaste queue resume --tenant acme`,
		Args: cobra.NoArgs,
	}
	scopes := addScopes(cmd)
	f := cmd.Flags()
	f.StringVar(&o.For, "for", "", "how long, such as 30m, 4h or 1d (default: until it is resumed)")
	f.StringVar(&o.Reason, "reason", "", "the `text` shown with mail that waits, and logged; senders do not see it")
	complete(cmd, "for")
	complete(cmd, "reason")
	cmd.RunE = withDaemon(p, nil, func(cmd *cobra.Command, _ []string, c *client.Client) (err error) {
		if o.Scope, o.Value, err = scopes.given(cmd); err != nil {
			return err
		}
		if strings.TrimSpace(o.Reason) == "" {
			return command.Misuse(cmd, errors.New("--reason is needed: others will see why mail waits"))
		}
		if cmd.Flags().Changed("for") {
			if d, err := admin.ParseAge(o.For); err != nil || d <= 0 {
				return command.Misuse(cmd, fmt.Errorf("--for takes a time such as 30m, 4h, 5d or 1h30m, not %q", human.Plain(o.For)))
			}
		}
		done, err := c.Suspend(cmd.Context(), o)
		if err != nil {
			return err
		}
		if done.Warning != "" {
			fmt.Fprintf(cmd.ErrOrStderr(), "Warning: %s\n", human.Plain(done.Warning))
		}
		fmt.Fprintln(cmd.OutOrStdout(), suspensionText(&done.Suspension, time.Now()))
		return nil
	})
	return cmd
}

func newResumeCommand(p *socket.Finder) *cobra.Command {
	var o admin.ResumeOrder
	cmd := &cobra.Command{
		Use:     "resume {--site|--domain|--destination|--transport|--source|--tenant|--class} VALUE",
		Aliases: []string{"unsuspend"},
		Short:   "End a suspension, and try the mail that it kept waiting at once",
		Example: `  posthaste queue resume --domain example.com`,
		Args:    cobra.NoArgs,
	}
	scopes := addScopes(cmd)
	cmd.Flags().StringVar(&o.Reason, "reason", "", "the `text` that is logged")
	complete(cmd, "reason")
	cmd.RunE = withDaemon(p, nil, func(cmd *cobra.Command, _ []string, c *client.Client) (err error) {
		if o.Scope, o.Value, err = scopes.given(cmd); err != nil {
			return err
		}
		done, err := c.Resume(cmd.Context(), o)
		if err != nil {
			return err
		}
		s := &done.Suspension
		fmt.Fprintf(cmd.OutOrStdout(), "Resumed %s %s, suspended by %s %s.\n", s.Scope, human.Plain(s.Value), human.Plain(s.By), human.When(s.Since, time.Now()))
		return nil
	})
	return cmd
}

// suspendedUntil is when a suspension ends, as the end of a sentence about it.
func suspendedUntil(until *time.Time, now time.Time) string {
	if until == nil {
		return ", until it is resumed"
	}
	return ", " + human.Until(*until, now)
}

// suspensionText describes a suspension, its end and the command that ends it.
func suspensionText(s *admin.Suspension, now time.Time) string {
	until := "until it is resumed"
	if s.Until != nil {
		until = human.Until(*s.Until, now)
	}
	text := s.Scope + " " + s.Value + " is suspended by " + s.By + " " + until
	if s.Reason != "" {
		text += ": " + s.ReasonLine()
	}
	return human.Plain(text + "; " + s.Resume())
}
