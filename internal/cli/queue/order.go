package queue

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/schollz/progressbar/v3"
	"github.com/spf13/cobra"

	"github.com/posthaste-mta/posthaste/admin"
	"github.com/posthaste-mta/posthaste/admin/client"
	"github.com/posthaste-mta/posthaste/internal/cli/command"
	"github.com/posthaste-mta/posthaste/internal/cli/exit"
	"github.com/posthaste-mta/posthaste/internal/cli/socket"
	"github.com/posthaste-mta/posthaste/internal/human"
	"github.com/posthaste-mta/posthaste/mail"
)

// An order is one of the commands that change messages.
type order struct {
	verb    client.Verb
	aliases []string
	short   string
	long    string
	present string // "Holding"
	past    string // "Held"
	later   string // "will be held when their deliveries end"
	nothing string // "No message was there to hold."
	harmful bool   // it cannot be taken back

	question string // harmful: what is asked before
}

// orders are the commands, with the words that they write.
func orders() []order {
	return []order{
		{verb: client.Hold, aliases: []string{"freeze"}, short: "Hold messages until they are released",
			long: `Hold messages until they are released. Deliveries in progress are finished first.

With a condition on recipients (--recipient, --domain, --site, --host, --source, --error,
--reply-class) only the recipients that meet the conditions are held. If the same message
has other waiting recipients, the held ones are moved to a new message, whose ID is shown.`,
			present: "Holding", past: "Held", later: "will be held when the delivery in progress ends", nothing: "There is nothing to hold."},
		{verb: client.Release, aliases: []string{"thaw", "unhold"}, short: "Release held messages and try them at once",
			long: `Release held messages and try them at once.

A message that its sender has kept until a date (FUTURERELEASE) waits for that date
after its release. If it waits for nothing else, a release by its ID sends it at
once. A release by conditions or with --all does not apply to it.`,
			present: "Releasing", past: "Released", later: "will be released", nothing: "There is nothing to release."},
		{verb: client.Drop, aliases: []string{"delete", "rm"}, short: "Remove messages without notifying their senders",
			long: `Remove messages without notifying their senders. Deliveries in progress are finished
first. This cannot be undone.

With a condition on recipients (--recipient, --domain, --site, --host, --source, --error,
--reply-class) only the recipients that meet the conditions are given up; the message stays
in the queue for the others.

Without IDs, the matching messages are counted first, and no more than were counted
are dropped. On a terminal the command asks for confirmation; a script must pass
--yes.`,
			present: "Dropping", past: "Dropped", later: "will be dropped when the delivery in progress ends", nothing: "There is nothing to drop.", harmful: true, question: "Drop %s without notifying the senders?"},
		{verb: client.Bounce, aliases: []string{"return"}, short: "Give up recipients and return the message to its sender",
			long: `Give up recipients and report to the sender that mail for them could not be
delivered. With a condition on recipients (--recipient, --domain, --site, --host, --source,
--error, --reply-class) only the recipients that meet the conditions are given up; the
message stays in the queue for the others. Deliveries in progress are finished first. This cannot be undone.

The sender gets the report at once, even if other recipients of the message still
wait for a later attempt.

Without IDs, the matching messages are counted first, and no more than were counted
are returned. On a terminal the command asks for confirmation; a script must pass
--yes.`,
			present: "Returning", past: "Returned", later: "will be returned when the delivery in progress ends", nothing: "There is nothing to return.", harmful: true, question: "Return %s to the senders?"},
		{verb: client.Expire, short: "Give up recipients as if their time in the queue had ended",
			long: `Give up recipients as if the message's lifetime (maximal_queue_lifetime) had ended.
The report to the sender quotes the last reply of each recipient's server, which says
more than the operator's words in the report of "bounce". With a condition on recipients
(--recipient, --domain, --site, --host, --source, --error, --reply-class) only the
recipients that meet the conditions are given up; the message stays in the queue for the
others. Held messages expire, too. Deliveries in
progress are finished first. This cannot be undone.

Without IDs, the matching messages are counted first, and no more than were counted
expire. On a terminal the command asks for confirmation; a script must pass --yes.`,
			present: "Expiring", past: "Expired", later: "will expire when the delivery in progress ends", nothing: "There is nothing to expire.", harmful: true, question: "Expire %s, and report it to the senders?"},
		{verb: client.Retry, aliases: []string{"retry"}, short: "Try messages now",
			long: `Try deferred messages now, before they are due. Without IDs or conditions all
deferred messages are tried, and dead destinations are tried again.`,
			present: "Retrying", past: "Trying", nothing: "There is nothing to try."},
		{verb: client.Reroute, short: "Have recipients go elsewhere than the configuration says",
			long: `Have recipients go elsewhere than the configuration says: through another relay while
a receiver's is down, or to nowhere. With a condition on recipients (--recipient,
--domain, --site, --host, --source, --error, --reply-class) only the recipients that meet
the conditions are rerouted. Other recipients of the message keep their route and are not
retried. Deliveries in progress are finished first; recipients that wait are tried at
once.

With --to discard: or error: the mail is lost to the recipients, which cannot be undone.
Without IDs, the matching messages are counted first, and no more than were counted are
rerouted. On a terminal the command asks for confirmation; a script must pass --yes.

--to takes what a route of the configuration takes, transport:nexthop, or a nexthop
alone for the default transport; a word without a dot is a transport. The route is kept
over restarts and reloads until --clear takes it back. TLS, credentials and REQUIRETLS are those of the new nexthop.`,
			present: "Rerouting", past: "Rerouted", later: "will be rerouted when the delivery in progress ends, unless it succeeds", nothing: "There is nothing to reroute."},
		{verb: client.Requeue, short: "Accept messages once more, by the rules of today",
			long: `Put messages through what is decided when mail is accepted, by the configuration in
force: the sender and the recipients are rewritten again (canonical, masquerade, virtual
aliases), the class, tenant and flow are found again, and the mail is routed anew. Use it
after a change of these, for the mail that waits.

The recipients get a message of their own with a new queue ID, which is shown and logged.
Its age, its content with the header and signatures, and what the sender has asked for stay;
the attempts begin anew, at once. A held message stays held. Copies (always_bcc, sender_bcc,
recipient_bcc) are not made again, and filters (milters) and quotas are not asked. Routes
that operators have ordered end, unless --keep-route is given.

With a condition on recipients (--recipient, --domain, --site, --host, --source, --error,
--reply-class) only the recipients that meet the conditions are requeued. A message stays as
it is if one of these addresses cannot be rewritten. Deliveries in progress are finished first.

--dry-run says what would change.`,
			present: "Requeuing", past: "Requeued", later: "will be requeued when the delivery in progress ends, unless it succeeds", nothing: "There is nothing to requeue."},
	}
}

// An orderCall is one call of an order.
type orderCall struct {
	order
	cmd    *cobra.Command
	client *client.Client
	filter admin.Filter
	all    bool
	reason string
	dryRun bool
	yes    bool
	to     string // of a reroute
	clear  bool   // likewise

	keepRoute bool // of a requeue
}

func newOrderCommand(p *socket.Finder, o order) *cobra.Command {
	call, run := orderCall{order: o}, (*orderCall).run
	use, all, reason := string(o.verb)+" {ID… | - | conditions | --all}", "select all messages, or all in the areas of --area", "the reason, in a few `words`; logged, and stored with held messages"
	if o.verb == client.Retry {
		run = (*orderCall).flush
		use, all, reason = "flush [ID… | - | conditions]", "select all messages, as without conditions", "the reason, in a few `words`; logged"
	} else {
		o.long += "\n\nSelect messages by their IDs, by \"-\" for IDs on standard input, by conditions, or\nwith --all.\n\n" + patternHelp
	}
	cmd := &cobra.Command{
		Use:     use,
		Aliases: o.aliases,
		Short:   o.short,
		Long:    o.long,
		RunE: withDaemon(p, &call.filter, func(cmd *cobra.Command, args []string, c *client.Client) error {
			call.cmd, call.client = cmd, c
			return run(&call, len(args) > 0)
		}),
		ValidArgsFunction: cobra.NoFileCompletions,
	}
	f := cmd.Flags()
	addFilters(f, &call.filter)
	f.BoolVar(&call.all, "all", false, all)
	f.StringVar(&call.reason, "reason", "", reason)
	f.BoolVarP(&call.dryRun, "dry-run", "n", false, "only count the messages")
	if o.verb == client.Reroute {
		f.BoolVarP(&call.yes, "yes", "y", false, "do not ask for confirmation, with --to discard: or error:")
		cmd.Use = "reroute {--to NEXTHOP | --clear} {ID… | - | conditions | --all}"
		cmd.Example = `  posthaste queue reroute --domain example.net --to '[relay.example.org]:587' --reason "their MX is down"
  posthaste queue reroute 6C34ED1CB5G00 --to slow:
  posthaste queue reroute --clear --domain example.net`
		f.StringVar(&call.to, "to", "", "where the recipients go, a `nexthop` or transport:nexthop")
		f.BoolVar(&call.clear, "clear", false, "have the recipients go where the configuration says again")
	}
	if o.verb == client.Requeue {
		cmd.Example = `  posthaste queue requeue --domain old.example --dry-run
  posthaste queue requeue --domain old.example --reason "moved to new.example"
  posthaste queue requeue 6C34ED1CB5G00`
		f.BoolVar(&call.keepRoute, "keep-route", false, "keep the routes that \"queue reroute\" has ordered")
	}
	if o.harmful {
		f.BoolVarP(&call.yes, "yes", "y", false, "do not ask for confirmation")
	}
	completeFilters(cmd)
	return cmd
}

// run carries out the order; named is true if IDs were given, even if there were none on
// standard input.
func (o *orderCall) run(named bool) error {
	if err := o.check(named); err != nil {
		return err
	}
	if named && len(o.filter.IDs) == 0 {
		fmt.Fprintln(o.cmd.OutOrStdout(), o.nothing)
		return nil
	}
	req := admin.Order{Filter: &o.filter, All: o.all, Reason: o.reason, DryRun: o.dryRun}
	o.harmful, o.question = o.harms()
	would := string(o.verb)
	if o.clear {
		would, o.past = "clear the route of", "Cleared the route of"
		o.later = "will go where the configuration says when the delivery in progress ends, unless it succeeds"
	}
	if o.harmful && !named && !o.dryRun {
		confirmed, err := o.confirm(req)
		if err != nil || confirmed == 0 {
			return err
		}
		req.Confirm = confirmed
	}
	done, err := o.give(req)
	if o.dryRun && isPartial(err) {
		if done.Matched > 0 || done.Unchanged == 0 {
			fmt.Fprintf(o.cmd.OutOrStdout(), "Would %s %s.\n", would, whom(&done))
		}
		o.tellDated(&done)
		o.tellSplits(&done)
		o.tellUnchanged(&done)
	} else if err == nil || done.Matched > 0 {
		o.report(&done)
	}
	if err != nil && !isPartial(err) && (done.Scanned > 0 || errors.Is(err, client.ErrStopped)) {
		return o.unfinished(&done, err)
	}
	if err != nil {
		return o.leftOut(&done, err)
	}
	if done.Matched+done.Unchanged+done.Dated+len(done.Missing)+len(done.Refused) == 0 && !o.all {
		return o.none()
	}
	return o.leftOut(&done, nil)
}

// leftOut returns the error for what an order was not carried out for; err is what else is known of that.
func (o *orderCall) leftOut(done *admin.Ordered, err error) error {
	for _, one := range []error{refused(done.Refused), missing(done.Missing)} {
		switch {
		case one == nil:
		case err == nil:
			err = one
		default:
			err = fmt.Errorf("%w; %w", one, err)
		}
	}
	return err
}

// none reports that no message matches. With --all this is a success; with conditions
// it is more often a mistake in them, which a script must notice.
func (o *orderCall) none() error {
	if o.all {
		fmt.Fprintln(o.cmd.OutOrStdout(), o.nothing)
		return nil
	}
	return exit.New(exit.Nothing, fmt.Errorf("no message to %s meets the conditions", o.verb), "\"posthaste queue list\" takes the same conditions and lists the messages.")
}

// toMax is the maximum length in bytes of the argument of --to, which is the API's.
const toMax = 512

func (o *orderCall) check(named bool) error {
	conditions := o.filter
	conditions.IDs, conditions.Areas = nil, nil
	conditional := named || !isAll(&conditions)
	switch {
	case !conditional && !o.all:
		return command.Misuse(o.cmd, fmt.Errorf("select the messages to %s: IDs, conditions, or --all", o.verb))
	case conditional && o.all:
		return command.Misuse(o.cmd, errors.New("--all cannot be combined with IDs or conditions"))
	case o.clear && o.to != "":
		return command.Misuse(o.cmd, errors.New("--to and --clear were both given; give one of them"))
	case len(o.to) > toMax:
		return command.Misuse(o.cmd, fmt.Errorf("--to has %s; it can have at most %d", human.Count(len(o.to), "byte"), toMax))
	case o.verb == client.Reroute && o.to == "" && !o.clear:
		return command.Misuse(o.cmd, errors.New("say where the recipients go with --to, or have the configuration decide again with --clear"))
	}
	return nil
}

// harms reports whether the order cannot be taken back, and what is asked before. A reroute with --yes is taken for such a one: where
// the default transport is error, its target does not say so.
func (o *orderCall) harms() (harmful bool, question string) {
	if o.verb != client.Reroute {
		return o.harmful, o.question
	}
	switch transport, _, _ := strings.Cut(strings.TrimSpace(o.to), ":"); transport {
	case mail.TransportDiscard:
		return true, "Discard the mail for %s without notifying the senders?"
	case mail.TransportError:
		return true, "Give up %s, and report it to the senders?"
	}
	return o.yes, ""
}

// confirm asks whether to drop what the filter matches, and returns how many
// messages that may be; 0 is a no.
func (o *orderCall) confirm(req admin.Order) (int, error) {
	req.DryRun = true
	counted, err := o.send(nil, req, nil)
	if err != nil && (counted.Matched == 0 || !isPartial(err)) {
		return 0, err // what the order itself cannot read it names again
	}
	switch {
	case counted.Matched == 0 && counted.Unchanged > 0:
		o.report(&counted)
		return 0, nil
	case counted.Matched == 0:
		return 0, o.none()
	}
	if o.yes {
		return counted.Matched, nil
	}
	if command.Terminal(o.cmd.InOrStdin()) == 0 {
		return 0, exit.New(exit.Usage, fmt.Errorf("this would %s %s", o.verb, whom(&counted)), "Pass --yes to do it, or --dry-run to only count.")
	}
	fmt.Fprintf(o.cmd.ErrOrStderr(), o.question+" [y/N] ", whom(&counted))
	answer, err := bufio.NewReader(o.cmd.InOrStdin()).ReadString('\n')
	if err != nil && err != io.EOF {
		return 0, exit.Errorf(exit.IO, "read the answer: %w", err)
	}
	if answer = strings.ToLower(strings.TrimSpace(answer)); answer != "y" && answer != "yes" {
		fmt.Fprintln(o.cmd.OutOrStdout(), "Nothing was done.")
		return 0, nil
	}
	return counted.Matched, nil
}

// unfinished returns the error for an order that has ended before it was given for all messages. What was done of it
// has been reported.
func (o *orderCall) unfinished(done *admin.Ordered, err error) error {
	what := fmt.Sprintf("the order ended after it had looked at %s", human.Count(done.Scanned, "message"))
	if !errors.Is(err, client.ErrStopped) {
		what += "; those of the last request may have been changed, too"
	}
	if o.dryRun {
		what = "not all messages were counted"
	}
	hint := "This command continues: " + command.Repetition(o.cmd)
	if slices.Equal(o.cmd.Flags().Args(), []string{"-"}) {
		hint += "\nIt reads the same IDs on standard input; those that are gone are named."
	}
	return exit.New(exit.TempFail, fmt.Errorf("%s: %w", what, err), hint)
}

// give gives the order, with a bar on a terminal if it takes long. After a signal it ends with the request under way, so that it is
// known what was done; a second signal ends the program.
func (o *orderCall) give(req admin.Order) (admin.Ordered, error) {
	until, stop := signal.NotifyContext(o.cmd.Context(), os.Interrupt, syscall.SIGTERM, syscall.SIGHUP)
	defer stop()
	context.AfterFunc(until, stop)
	stderr := o.cmd.ErrOrStderr()
	if command.Terminal(stderr) == 0 {
		return o.send(until.Done(), req, nil)
	}
	bar := progressbar.NewOptions64(o.total(&req), progressbar.OptionSetWriter(stderr), progressbar.OptionSetDescription(o.present),
		progressbar.OptionShowCount(), progressbar.OptionClearOnFinish(), progressbar.OptionThrottle(100*time.Millisecond), progressbar.OptionSetWidth(30))
	defer func() { _ = bar.Exit() }() // the bar is only decoration
	begin := time.Now()
	return o.send(until.Done(), req, func(done *admin.Ordered) {
		if time.Since(begin) > time.Second { // a short order needs no bar
			_ = bar.Set64(int64(max(done.Matched, done.Scanned)))
		}
	})
}

func (o *orderCall) send(stop <-chan struct{}, req admin.Order, progress func(*admin.Ordered)) (admin.Ordered, error) {
	switch o.verb {
	case client.Requeue:
		return o.client.Requeue(o.cmd.Context(), stop, admin.RequeueOrder{Order: req, KeepRoute: o.keepRoute}, progress)
	case client.Reroute:
		return o.client.Reroute(o.cmd.Context(), stop, admin.RerouteOrder{Order: req, To: o.to, Clear: o.clear}, progress)
	}
	return o.client.OrderUntil(o.cmd.Context(), stop, o.verb, req, progress)
}

// total is the number of messages an order will look at, as far as is known; -1 if
// it is not.
func (o *orderCall) total(req *admin.Order) int64 {
	switch {
	case len(o.filter.IDs) > 0:
		return int64(len(o.filter.IDs))
	case req.Confirm > 0:
		return int64(req.Confirm)
	}
	s, err := o.client.Status(o.cmd.Context(), 0)
	if err != nil || len(o.filter.Areas) > 0 {
		return -1
	}
	if o.verb == client.Release {
		return s.Spool.Hold
	}
	return s.Spool.Incoming + s.Spool.Deferred
}

// report writes what was done.
func (o *orderCall) report(done *admin.Ordered) {
	out := o.cmd.OutOrStdout()
	switch {
	case done.Done > 0:
		all := *done
		if all.Matched = done.Done; done.Pending > 0 {
			all.Recipients = 0 // it is not known how they are divided
		}
		fmt.Fprintf(out, "%s %s.\n", o.past, whom(&all))
	case done.Pending+done.Unchanged == 0 && len(done.Missing)+len(done.Refused) == 0 && o.all:
		fmt.Fprintln(out, o.nothing)
	}
	if done.Pending > 0 {
		fmt.Fprintf(out, "%s %s.\n", human.Count(done.Pending, "message"), o.later)
	}
	o.tellDated(done)
	o.tellSplits(done)
	o.tellUnchanged(done)
}

// tellUnchanged says of how many messages an order changes nothing.
func (o *orderCall) tellUnchanged(done *admin.Ordered) {
	if done.Unchanged > 0 {
		fmt.Fprintf(o.cmd.OutOrStdout(), "%s needed no change.\n", human.Count(done.Unchanged, "message"))
	}
}

// tellDated says that a release does not send all messages now.
func (o *orderCall) tellDated(done *admin.Ordered) {
	if done.Dated > 0 {
		fmt.Fprintf(o.cmd.OutOrStdout(), "Waiting for the date until which its sender has it kept: %s. A release by ID sends such a message now.\n", human.Count(done.Dated, "message"))
	}
}

// tellSplits shows which recipients were put into which message of their own. The log
// has them all.
func (o *orderCall) tellSplits(done *admin.Ordered) {
	if o.verb == client.Requeue {
		o.tellRequeued(done)
		return
	}
	const most, mostAddresses = 20, 10
	out := o.cmd.OutOrStdout()
	for i := range done.Splits[:min(len(done.Splits), most)] {
		p := &done.Splits[i]
		names := strings.Join(p.Recipients[:min(len(p.Recipients), mostAddresses)], " ")
		if more := len(p.Recipients) + p.More - mostAddresses; more > 0 {
			names += fmt.Sprintf(" and %s more", human.Number(more))
		}
		if p.Into == "" {
			fmt.Fprintf(out, "%s also has recipients that would stay. These would be held: %s\n", p.From, names)
		} else {
			fmt.Fprintf(out, "From %s into %s: %s\n", p.From, p.Into, names)
		}
	}
	tellMore(out, len(done.Splits), most)
}

// tellMore says how many of n new messages were not shown.
func tellMore(out io.Writer, n, shown int) {
	switch {
	case n == client.PartsMax:
		fmt.Fprintln(out, "… and many more; the log has them all.")
	case n > shown:
		fmt.Fprintf(out, "… and %s more; the log has them all.\n", human.Number(n-shown))
	}
}

// tellRequeued shows under which ID a message is in the queue now, and what has changed.
func (o *orderCall) tellRequeued(done *admin.Ordered) {
	const most = 20
	out := o.cmd.OutOrStdout()
	changed := done.Rewritten > 0
	for i := range done.Splits {
		p := &done.Splits[i]
		if changed = changed || p.Sender != nil; i >= most {
			continue
		}
		name := p.From
		if p.Into != "" {
			name += " is now " + p.Into
		}
		fmt.Fprintf(out, "%s: %s\n", name, changesOf(p))
	}
	tellMore(out, len(done.Splits), most)
	if !changed && len(done.Splits) > 0 && !o.dryRun {
		fmt.Fprintln(out, "No address has changed. Mail that is not held is routed anew, and tried as if it had not been tried before.")
	}
}

// changesOf says what a requeue changes of the addresses of a message.
func changesOf(p *admin.Part) string {
	const most = 5
	var all []string
	if p.Sender != nil {
		all = append(all, "the sender becomes <"+human.Plain(*p.Sender)+">")
	}
	for _, w := range p.Rewritten[:min(len(p.Rewritten), most)] {
		by := strings.Join(w.By[:min(len(w.By), most)], " ")
		if more := len(w.By) + w.More - most; more > 0 {
			by += fmt.Sprintf(" and %s more", human.Number(more))
		}
		all = append(all, human.Plain(w.Recipient)+" becomes "+human.Plain(by))
	}
	if len(p.Rewritten) > most {
		all = append(all, "…")
	}
	if len(all) == 0 {
		return "no address changes"
	}
	return strings.Join(all, "; ")
}

// refused complains about messages that stay as they were.
func refused(list []admin.Refused) error {
	const most = 10
	if len(list) == 0 {
		return nil
	}
	var all []string
	for _, r := range list[:min(len(list), most)] {
		all = append(all, r.ID+": "+human.Plain(r.Reason))
	}
	if more := len(list) - most; more > 0 {
		all = append(all, fmt.Sprintf("and %s more", human.Number(more)))
	}
	return exit.New(exit.Data, fmt.Errorf("%s not requeued, and as before: %s", human.Count(len(list), "message"), strings.Join(all, "; ")), "Nothing of such a message was changed. Correct the maps, reload, and repeat the order.")
}

// whom says for how many recipients or messages an order is.
func whom(done *admin.Ordered) string {
	if done.Recipients > 0 {
		return human.Count(done.Recipients, "recipient") + " of " + human.Count(done.Matched, "message")
	}
	return human.Count(done.Matched, "message")
}

// missing complains about IDs that are not in the queue.
func missing(ids []string) error {
	const most = 10
	switch n := len(ids); {
	case n == 0:
		return nil
	case n > most:
		return exit.Errorf(exit.NoInput, "not in the queue: %s and %s more", strings.Join(ids[:most], " "), human.Number(n-most))
	}
	return exit.New(exit.NoInput, errors.New("not in the queue: "+strings.Join(ids, " ")), "")
}

func (o *orderCall) flush(named bool) error {
	if named || !isAll(&o.filter) || o.dryRun {
		conditions := o.filter
		conditions.Areas, conditions.IDs = nil, nil
		o.all = o.all || !named && isAll(&conditions) // areas alone are no condition
		return o.run(named)
	}
	done, err := o.client.Flush(o.cmd.Context())
	if err != nil {
		return err
	}
	if done.Deferred == 0 {
		fmt.Fprintln(o.cmd.OutOrStdout(), o.nothing)
		return nil
	}
	fmt.Fprintf(o.cmd.OutOrStdout(), "Trying %s now.\n", human.Count(done.Deferred, "deferred message"))
	return nil
}
