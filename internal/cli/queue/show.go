package queue

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/spf13/cobra"

	"github.com/posthaste-mta/posthaste/admin"
	"github.com/posthaste-mta/posthaste/admin/client"
	"github.com/posthaste-mta/posthaste/internal/cli/command"
	"github.com/posthaste-mta/posthaste/internal/cli/socket"
	"github.com/posthaste-mta/posthaste/internal/human"
	"github.com/posthaste-mta/posthaste/mail"
)

// showPage is the number of recipients shown without --all.
const showPage = 50

func newShowCommand(p *socket.Finder) *cobra.Command {
	var (
		named                admin.Filter
		asJSON, content, all bool
	)
	cmd := &cobra.Command{
		Use:        "show [flags] ID…",
		SuggestFor: []string{"postcat"},
		Short:      "Show messages in detail: their state, why they wait, and their recipients",
		Args:       cobra.MinimumNArgs(1),
		RunE: withDaemon(p, &named, func(cmd *cobra.Command, _ []string, c *client.Client) error {
			if err := errors.Join(command.Exclusive(cmd, "json", "content"), command.Exclusive(cmd, "all", "content")); err != nil {
				return err
			}
			out := bufio.NewWriterSize(cmd.OutOrStdout(), 64<<10)
			s := shower{cmd: cmd, client: c, out: out, all: all}
			show := s.page
			switch {
			case content:
				show = func(id string) error { return c.Content(cmd.Context(), id, out) }
			case asJSON:
				show = s.json
			}
			for i, id := range named.IDs {
				if i > 0 && !asJSON && !content {
					fmt.Fprintln(out)
				}
				if err := show(id); err != nil {
					return fmt.Errorf("%s: %w", id, err)
				}
			}
			return out.Flush()
		}),
		ValidArgsFunction: cobra.NoFileCompletions,
	}
	f := cmd.Flags()
	f.BoolVar(&asJSON, "json", false, "one JSON object per message; with --all, one more for each 1000 further recipients")
	f.BoolVar(&content, "content", false, "print the content of the message as it will be sent")
	f.BoolVar(&all, "all", false, fmt.Sprintf("show all recipients, not only the first %d", showPage))
	return cmd
}

// A shower shows messages.
type shower struct {
	cmd    *cobra.Command
	client *client.Client
	out    io.Writer
	all    bool
}

// each calls visit with the details of a message, again for each page of its
// recipients if all are wanted.
func (s *shower) each(id string, visit func(d *admin.Detail, first bool) error) error {
	from, size := uint32(0), showPage
	if s.all {
		size = admin.RecipientsMax
	}
	for {
		d, err := s.client.Show(s.cmd.Context(), id, from, size)
		if err != nil {
			return err
		}
		if err := visit(&d, from == 0); err != nil {
			return err
		}
		if !s.all || d.Next == nil {
			return nil
		}
		from = *d.Next
	}
}

func (s *shower) json(id string) error {
	e := json.NewEncoder(s.out)
	return s.each(id, func(d *admin.Detail, _ bool) error { return e.Encode(d) })
}

// page writes a message as a person reads it.
func (s *shower) page(id string) error {
	now := time.Now()
	return s.each(id, func(d *admin.Detail, first bool) error {
		if first {
			s.head(d, now)
			s.history(d, now)
		}
		s.recipients(d, now)
		if !s.all && d.Next != nil {
			fmt.Fprintf(s.out, "  … and %s; --all shows them\n", human.Count(d.Total-*d.Next, "more recipient"))
		}
		return nil
	})
}

func (s *shower) recipients(d *admin.Detail, now time.Time) {
	width := 0
	for i := range d.All {
		width = max(width, utf8.RuneCountInString(human.Plain(d.All[i].Address)))
	}
	for i := range d.All {
		s.recipient(&d.All[i], min(width, 40), now)
	}
}

func (s *shower) head(d *admin.Detail, now time.Time) {
	line := func(name, format string, args ...any) {
		fmt.Fprintf(s.out, "%-11s %s\n", name, fmt.Sprintf(format, args...))
	}
	line("Message", "%s", d.ID)
	if d.Damage != "" {
		line("Damaged", "%s", human.Plain(d.Damage))
	}
	line("State", "%s, %s", d.State, waitText(d, now))
	if d.Reason != "" {
		line("Reason", "%s", human.Plain(d.Reason))
	}
	if d.Ordered != "" {
		line("Ordered", "%s", orderedText(d.Ordered))
	}
	s.places(d, line, now)
	line("Sender", "%s", senderText(&d.Summary))
	if d.Class != "" {
		line("Class", "%s", human.Plain(d.Class))
		line("Tenant", "%s", human.Plain(d.Tenant))
		line("Flow", "%s", human.Plain(d.Flow))
	}
	line("Arrived", "%s%s", human.When(d.Arrived, now), originText(d))
	if d.RequeuedFrom != "" {
		line("Requeued", "from %s%s", human.Plain(d.RequeuedFrom), requeuedWhen(d.ID, now))
	}
	line("Size", "%s%s", human.Bytes(d.Size), contentText(d))
	switch {
	case d.Attempts > 0 && d.LastAttempt != nil:
		line("Attempts", "%s that left something to retry, with dead destinations also counted; the last %s", human.Number(d.Attempts), human.When(*d.LastAttempt, now))
	case lastOutcome(d) != nil: // it ended in a hold, or goes on
		line("Attempts", "%s that left something to retry; the last reply %s", human.Number(d.Attempts), human.When(*lastOutcome(d), now))
	case d.Waiting == d.Total && d.State != admin.StateCorrupt:
		line("Attempts", "none yet")
	}
	if d.VERP != "" {
		line("Senders", "one for each recipient (VERP %s)", d.VERP)
	}
	switch d.TLS {
	case "required":
		line("TLS", "required on all of its way, by REQUIRETLS")
	case "optional":
		line("TLS", "not required, by TLS-Required: No")
	}
	if d.EnvID != "" || d.Ret != "" {
		line("DSN", "%s", dsnText(d))
	}
	if d.DeliverBy != nil {
		line("Deliver by", "%s", deadlineText(d, now))
	}
	switch {
	case d.Warned && d.Late:
		line("Reports", "the sender was notified of the delay, and that its deadline has passed")
	case d.Late:
		line("Reports", "the sender was notified that its deadline has passed")
	case d.Warned:
		line("Reports", "the sender was notified of the delay")
	}
	line("Recipients", "%s", recipientCounts(d.Total, d.Waiting))
	fmt.Fprintln(s.out)
}

// requeuedWhen returns when a message was put in the place of another one, which is when it got its ID.
func requeuedWhen(id string, now time.Time) string {
	parsed, err := mail.ParseQueueID(id)
	if err != nil {
		return ""
	}
	return ", " + human.When(time.Unix(0, int64(parsed.Time())), now)
}

// orderedText returns what an order does that waits for deliveries.
func orderedText(order string) string {
	const end = " when the deliveries in progress end"
	switch order {
	case "hold":
		return "will be held" + end
	case "drop":
		return "will be dropped" + end
	case "some":
		return "some recipients will be given up, held, rerouted or requeued" + end
	case "reroute":
		return "recipients will be rerouted" + end + ", unless they get it from these"
	case "requeue":
		return "recipients will be requeued, under a new ID," + end + ", unless they get it from these"
	}
	return human.Plain(order) + end
}

// deadlineText returns by when the sender wants a message delivered, and what happens if it is not.
func deadlineText(d *admin.Detail, now time.Time) string {
	text := human.When(*d.DeliverBy, now)
	switch {
	case d.ByMode == "return" && d.State == admin.StateHold:
		text += "; released after that, it is returned"
	case d.ByMode == "return":
		text += ", or it is returned"
	case !d.Late:
		text += ", or its sender is notified"
	}
	if d.ByTrace {
		text += "; each server reports that it has passed it on"
	}
	return text
}

// history writes the attempts that are remembered, if there was more than one: the recipients have the last.
func (s *shower) history(d *admin.Detail, now time.Time) {
	if d.Attempts < 2 && len(d.History) < 2 {
		return
	}
	if text := missingText(d, now); text != "" {
		defer fmt.Fprintln(s.out)
		fmt.Fprintln(s.out, text)
	}
	if len(d.History) < 2 {
		return
	}
	fmt.Fprintln(s.out, "Attempts that are remembered:")
	if d.Older > 0 {
		fmt.Fprintf(s.out, "  … and %s before these\n", human.Count(d.Older, "outcome"))
	}
	for i := range d.History {
		a := &d.History[i]
		text := fmt.Sprintf("  %s  %d. %s: %s", human.When(a.At, now), a.Number, a.Result, human.Plain(a.Recipient))
		if a.More > 0 {
			text += fmt.Sprintf(" and %s more", human.Number(a.More))
		}
		if a.Host != "" {
			text += " at " + human.Plain(a.Host)
		}
		if a.Stage != "" {
			text += ", after " + a.Stage
		}
		fmt.Fprintf(s.out, "%s\n", text)
		for _, line := range strings.Split(a.Reply, "\n") {
			fmt.Fprintf(s.out, "      %s\n", human.Plain(line))
		}
	}
	if d.Forgotten == 0 {
		fmt.Fprintln(s.out)
	}
}

// missingText says which attempts are not shown; "" if all are.
func missingText(d *admin.Detail, now time.Time) string {
	if d.Forgotten == 0 || d.Since == nil {
		return ""
	}
	what, them := "are", "them"
	if d.Forgotten == 1 {
		what, them = "is", "it"
	}
	why := "before the start of the daemon (" + human.When(*d.Since, now) + ")"
	if d.Arrived.After(*d.Since) {
		why = "forgotten in favor of later ones"
	}
	return fmt.Sprintf("%s %s %s not shown; the log has %s.", human.Count(d.Forgotten, "attempt"), why, what, them)
}

// lastOutcome returns when the last of the recipients that are shown had an outcome;
// nil if none had one. A round that ends in a hold is not counted among the attempts,
// though servers have been asked.
func lastOutcome(d *admin.Detail) *time.Time {
	var last *time.Time
	for i := range d.All {
		if at := d.All[i].At; at != nil && (last == nil || at.After(*last)) {
			last = at
		}
	}
	return last
}

// places shows the destinations of a message in core, and its wait reasons.
func (s *shower) places(d *admin.Detail, line func(name, format string, args ...any), now time.Time) {
	name := "Goes to"
	for _, p := range d.Places {
		line(name, "%s: %s", human.Plain(inWay(p.Name, p.Source, p.Security)), placeText(&p, now))
		name = ""
	}
	if d.MorePlaces > 0 {
		line(name, "and %s", human.Count(d.MorePlaces, "more destination"))
		name = ""
	}
	if d.Routing > 0 {
		line(name, "%s: the route is being looked up", human.Count(d.Routing, "recipient"))
	}
}

func placeText(p *admin.MessageDestination, now time.Time) string {
	var parts []string
	if p.Busy > 0 {
		parts = append(parts, human.Count(p.Busy, "delivery")+" under way")
	}
	switch {
	case p.Deferral:
		parts = append(parts, "cannot go there now, and is being deferred")
	case p.Waiting > 0 && p.WaitReason != nil:
		parts = append(parts, human.Count(p.Waiting, "recipient")+" waiting: "+waitReasonText(p.WaitReason, now))
	case p.Waiting > 0:
		parts = append(parts, human.Count(p.Waiting, "recipient")+" waiting")
	}
	if p.Sharing != nil {
		parts = append(parts, sharingText(p.Sharing))
	}
	return strings.Join(parts, "; ")
}

// waitText returns what a message waits for and what ends the wait.
func waitText(d *admin.Detail, now time.Time) string {
	switch d.Wait {
	case admin.WaitCore:
		return "being tried or about to be"
	case admin.WaitParked:
		if d.WaitReason != nil {
			return "parked: " + waitReasonText(d.WaitReason, now)
		}
	case admin.WaitSuspended:
		if d.WaitReason != nil {
			text := waitReasonText(d.WaitReason, now)
			if d.Due != nil && (d.WaitReason.Until == nil || d.Due.Before(*d.WaitReason.Until)) {
				text += "; looked at again " + human.When(*d.Due, now)
			}
			return text
		}
	case admin.WaitBackoff:
		if d.Due != nil {
			return "to be tried again " + human.When(*d.Due, now)
		}
	case admin.WaitRoom:
		if d.Area == string(admin.StateIncoming) {
			return "waiting to be picked up by the scheduler"
		}
		return "due, waiting to be picked up by the scheduler"
	case admin.WaitRelease:
		text := "until it is released (posthaste queue release " + d.ID + ")"
		if d.Until != nil {
			text += "; removed " + human.When(*d.Until, now)
		}
		if d.Date != nil && d.Date.After(now) {
			text += "; then its sender has it kept " + human.Until(*d.Date, now)
		}
		return text
	case admin.WaitDate:
		if d.Until != nil {
			return "its sender has it kept " + human.Until(*d.Until, now) + " (posthaste queue release " + d.ID + " sends it now)"
		}
	case admin.WaitRepair:
		return "damaged, put aside"
	}
	return "waiting"
}

func originText(d *admin.Detail) string {
	text := ""
	if d.ClientAddr != "" {
		text = ", from " + human.Plain(d.ClientHelo) + "[" + human.Plain(d.ClientAddr) + "]"
	}
	if d.Protocol != "" {
		text += ", by " + human.Plain(d.Protocol)
	}
	return text
}

func contentText(d *admin.Detail) string {
	switch {
	case d.SMTPUTF8:
		return ", needs SMTPUTF8"
	case d.Body == "8BITMIME":
		return ", 8-bit"
	}
	return ""
}

func dsnText(d *admin.Detail) string {
	text := ""
	if d.Ret != "" {
		text = "return " + map[string]string{"FULL": "all of the message", "HDRS": "its header"}[d.Ret] + "  "
	}
	if d.EnvID != "" {
		text += "envelope ID " + human.Plain(d.EnvID)
	}
	return strings.TrimRight(text, " ")
}

func recipientCounts(total, waiting uint32) string {
	switch {
	case total == waiting:
		return human.Number(total)
	case waiting == 0:
		return human.Number(total) + ", all settled"
	}
	return fmt.Sprintf("%s, of whom %s still waiting", human.Number(total), map[bool]string{true: "1 is", false: human.Number(waiting) + " are"}[waiting == 1])
}

func (s *shower) recipient(r *admin.Recipient, width int, now time.Time) {
	at := ""
	if r.At != nil {
		at = "  " + human.When(*r.At, now)
	}
	fmt.Fprintf(s.out, "  %-*s  %s%s\n", width, human.Plain(r.Address), resultText(r.Result), at)
	if r.Expired {
		fmt.Fprint(s.out, "      given up because of its age; the last reply:\n")
	}
	switch {
	case r.Route == nil:
	case r.Result == mail.Pending.String() || r.Result == mail.Deferred.String():
		fmt.Fprintf(s.out, "      %s (%s; queue reroute --clear takes it back)\n", human.Plain(r.Route.Text()), human.When(r.Route.At, now))
	default:
		fmt.Fprintf(s.out, "      rerouted to %s (%s)\n", human.Plain(r.Route.To), human.When(r.Route.At, now))
	}
	if r.PutOff != "" {
		fmt.Fprintf(s.out, "      %s; because of:\n", human.Plain(r.PutOff))
	}
	for line := range strings.SplitSeq(r.Reply, "\n") {
		if r.Reply != "" {
			fmt.Fprintf(s.out, "      %s\n", human.Plain(line))
		}
	}
	class := ""
	if r.ReplyClass != "" {
		class = " (" + human.Plain(r.ReplyClass) + ")"
	}
	if r.By != "" {
		fmt.Fprintf(s.out, "      said by %s%s\n", human.Plain(r.By), class)
	}
	for _, d := range r.Doubtful {
		behind := ""
		if d.Times >= mail.DoubtsEnough {
			behind = "; other hosts come first"
		}
		fmt.Fprintf(s.out, "      %s%s\n", human.Plain(d.Text()), behind)
	}
}

func resultText(result string) string {
	if result == "pending" {
		return "not tried yet"
	}
	return result
}
