package queue

import (
	"bufio"
	"cmp"
	"encoding/json"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/spf13/cobra"

	"github.com/posthaste-mta/posthaste/admin"
	"github.com/posthaste-mta/posthaste/admin/client"
	"github.com/posthaste-mta/posthaste/internal/cli/socket"
	"github.com/posthaste-mta/posthaste/internal/human"
)

func newStatusCommand(p *socket.Finder) *cobra.Command {
	var (
		destinations int
		asJSON       bool
	)
	cmd := &cobra.Command{
		Use:   "status",
		Short: "Show the state of the scheduler and the contents of the spool",
		Args:  cobra.NoArgs,
		RunE: withDaemon(p, nil, func(cmd *cobra.Command, _ []string, c *client.Client) error {
			s, err := c.Status(cmd.Context(), destinations)
			if err != nil {
				return err
			}
			if asJSON {
				return json.NewEncoder(cmd.OutOrStdout()).Encode(s)
			}
			out := bufio.NewWriter(cmd.OutOrStdout())
			writeStatus(out, &s)
			return out.Flush()
		}),
	}
	cmd.Flags().IntVarP(&destinations, "destinations", "n", 10, "show at most this `number` of destinations per transport, the ones with the most waiting mail")
	cmd.Flags().BoolVar(&asJSON, "json", false, "print one JSON object")
	return cmd
}

func writeStatus(out io.Writer, s *admin.Status) {
	fmt.Fprintf(out, "Spool   %s incoming, %s deferred, %s held, %s damaged; %s on disk, %s free\n",
		human.Number(s.Spool.Incoming), human.Number(s.Spool.Deferred), human.Number(s.Spool.Hold), human.Number(s.Spool.Corrupt),
		human.Bytes(s.Spool.Used), human.Bytes(s.Spool.Free))
	if s.Spool.Refusing != "" {
		fmt.Fprintf(out, "Full    no mail is taken in: %s\n", human.Plain(s.Spool.Refusing))
	}
	fmt.Fprintf(out, "Core    %s with %s, %s under way%s\n", human.Count(s.Core.Messages, "message"), human.Count(s.Core.Recipients, "recipient"),
		human.Count(s.Core.Busy, "delivery"), coreText(&s.Core))
	fmt.Fprintf(out, "So far  %s arrived, %s; recipients: %s sent, %s deferred, %s bounced\n", human.Count(s.Core.Arrived, "message"),
		human.Count(s.Core.Deliveries, "delivery"), human.Number(s.Core.Sent), human.Number(s.Core.Deferred), human.Number(s.Core.Bounced))
	writeIntake(out, s.Intake)
	if s.Core.Unknown > 0 {
		fmt.Fprintf(out, "Unknown %s that may or may not have the message: it was sent, and no reply came\n", human.Count(s.Core.Unknown, "recipient"))
	}
	if s.Core.Offline != nil {
		fmt.Fprintf(out, "Network hardly any host can be reached since %s: our own network seems to be down\n", human.When(*s.Core.Offline, s.Now))
	}
	for i := range s.Alarms {
		fmt.Fprintf(out, "ALARM   %s: %s\n", human.When(s.Alarms[i].At, s.Now), human.Plain(s.Alarms[i].Text))
	}
	writeSuspensions(out, "Suspend ", s.Suspensions, s.Now)
	for i := range s.Transports {
		writeTransport(out, &s.Transports[i], s.Now)
	}
}

func coreText(c *admin.CoreStatus) string {
	text := ""
	if c.Lookups+c.Waiting > 0 {
		text = fmt.Sprintf(", %s under way and %s waiting", human.Count(c.Lookups, "lookup"), human.Number(c.Waiting))
	}
	if c.Verifying > 0 {
		text += fmt.Sprintf(", %s waiting to hear of a recipient", human.Count(c.Verifying, "client"))
	}
	if c.CalledOut > 0 {
		text += fmt.Sprintf("; %s, %s remembered", human.Count(c.CalledOut, "call-out"), human.Count(c.Addresses, "address"))
	}
	switch {
	case c.Halted:
		text += "; stopping"
		if c.Busy > 0 {
			text += fmt.Sprintf(", %s to go", human.Count(c.Busy, "delivery"))
		}
	case c.Behind:
		text += "; full, new mail waits in the spool"
	}
	return text
}

// destinationMax is the widest destination that is shown in full.
const destinationMax = 44

func writeTransport(out io.Writer, t *admin.TransportStatus, now time.Time) {
	dead := t.Reason != ""
	if len(t.Destinations) == 0 && !dead {
		return
	}
	fmt.Fprintf(out, "\nTransport %s: %s, %s under way\n", human.Plain(t.Name), human.Count(t.Jobs, "message"), human.Count(t.Busy, "delivery"))
	if dead {
		fmt.Fprintf(out, "  dead: %s\n", human.Plain(t.Reason))
		if t.Until != nil {
			fmt.Fprintf(out, "  tried again %s\n", human.When(*t.Until, now))
		}
	}
	common := commonWaitReason(t)
	if common != nil && !dead {
		fmt.Fprintf(out, "  waits: %s\n", waitReasonText(common, now))
	}
	if len(t.Destinations) > 0 {
		writeDestinations(out, t.Destinations, now, common)
	}
}

// commonWaitReason returns what keeps all of a transport's mail waiting; nil if that is
// different for each destination.
func commonWaitReason(t *admin.TransportStatus) *admin.WaitReason {
	for i := range t.Destinations {
		o := t.Destinations[i].WaitReason
		if o == nil {
			continue
		}
		switch o.Kind {
		case "stop", "transport-dead", "transport-rate", "transport-delay", "process-limit":
			return o
		}
	}
	return nil
}

// writeDestinations writes a transport's destinations. Those of the transport
// retry go by where the mail was to go, and why it does not is the reason.
func writeDestinations(out io.Writer, all []admin.DestinationStatus, now time.Time, common *admin.WaitReason) {
	width := len("DESTINATION")
	for i := range all {
		if d := &all[i]; d.Instead != "" {
			d.Nexthop, d.Reason = d.Instead, d.Nexthop
		} else {
			d.Nexthop = inWay(d.Nexthop, d.Source, d.Security)
		}
		width = min(max(width, utf8.RuneCountInString(all[i].Nexthop)), destinationMax)
	}
	fmt.Fprintf(out, "  %-*s  %-12s %6s %6s %6s\n", width, "DESTINATION", "STATE", "WINDOW", "BUSY", "TODO")
	for _, d := range all {
		fmt.Fprintf(out, "  %-*s  %-12s %6d %6d %6d\n", width, human.Shorten(human.Plain(d.Nexthop), width), d.State, d.Window, d.Busy, d.Todo)
		if text := connectionsText(d.Open, d.Opening); text != "" {
			fmt.Fprintf(out, "      %s\n", text)
		}
		if o := d.WaitReason; o != nil && o.Kind != "dead" && o.Kind != "turn" && (common == nil || o.Kind != common.Kind) {
			fmt.Fprintf(out, "      waits: %s\n", waitReasonText(o, now))
		}
		if d.Reason != "" {
			fmt.Fprintf(out, "      %s\n", human.Plain(d.Reason))
		}
		if d.Until != nil {
			fmt.Fprintf(out, "      tried again %s\n", human.When(*d.Until, now))
		}
	}
}

// connectionsText counts a destination's connections; "" if there are none.
func connectionsText(open, opening int) string {
	if open+opening == 0 {
		return ""
	}
	text := human.Count(open, "connection")
	if opening > 0 {
		text += ", " + human.Number(opening) + " being opened"
	}
	return text
}

// writeIntake writes what clients have brought, and what was refused; nothing if there are no clients.
func writeIntake(out io.Writer, s *admin.IntakeStatus) {
	if s == nil {
		return
	}
	fmt.Fprintf(out, "Intake  %s open, %s so far; %s accepted for %s, %s%s\n", human.Count(s.Open, "session"), human.Number(s.Sessions),
		human.Count(s.Messages, "message"), human.Count(s.Recipients, "recipient"), human.Bytes(s.Octets), refusalsText(s.Refusals))
	if text := troubleText(s); text != "" {
		fmt.Fprintf(out, "        %s\n", text)
	}
	for i := range s.Milters {
		m := &s.Milters[i]
		fmt.Fprintf(out, "Milter  %s: %s passed%s\n", human.Plain(m.Name), human.Count(m.Messages, "message"), countsText("; ",
			named{"refused", m.Refused}, named{"deferred", m.Deferred}, named{"discarded", m.Discarded}, named{"held", m.Held}, named{"changed", m.Changed}, named{"failures", m.Failures}))
	}
}

// A named is a number with a word behind it.
type named struct {
	name string
	n    int64
}

// countsText returns the numbers that are not zero behind a text; "" if all are.
func countsText(before string, all ...named) string {
	var texts []string
	for _, one := range all {
		if one.n != 0 {
			texts = append(texts, human.Number(one.n)+" "+one.name)
		}
	}
	if len(texts) == 0 {
		return ""
	}
	return before + strings.Join(texts, ", ")
}

// refusalsText returns the refusals by reason, the most frequent first.
func refusalsText(refusals map[string]int64) string {
	var all []named
	total := int64(0)
	for name, n := range refusals {
		all = append(all, named{human.Plain(name), n})
		total += n
	}
	if total == 0 {
		return ""
	}
	slices.SortFunc(all, func(a, b named) int { return cmp.Or(cmp.Compare(b.n, a.n), cmp.Compare(a.name, b.name)) })
	return "; " + human.Count(total, "refusal") + countsText(": ", all...)
}

// troubleText returns what has kept clients from sending mail; "" if nothing has.
func troubleText(s *admin.IntakeStatus) string {
	var texts []string
	for _, one := range []named{{"refused connection", s.Refused}, {"displaced session", s.Shed}, {"timeout", s.Timeouts},
		{"early talker", s.Early}, {"bad PROXY header", s.ProxyFailed}, {"failed TLS handshake", s.TLSFailed}, {"refused TLS handshake", s.TLSRefused},
		{"failed login", s.LoginFailed}, {"delayed login", s.LoginLater}, {"internal error", s.Failures}, {"crashed session", s.Panics}} {
		if one.n != 0 {
			texts = append(texts, human.Count(one.n, one.name))
		}
	}
	return strings.Join(texts, ", ")
}
