package queue

import (
	"bufio"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/posthaste-mta/posthaste/admin"
	"github.com/posthaste-mta/posthaste/admin/client"
	"github.com/posthaste-mta/posthaste/internal/cli/command"
	"github.com/posthaste-mta/posthaste/internal/cli/socket"
	"github.com/posthaste-mta/posthaste/internal/human"
)

func newListCommand(p *socket.Finder) *cobra.Command {
	var (
		q       client.Query
		asJSON  bool
		onlyIDs bool
		asMailq bool
		flows   bool
	)
	q.Recipients = 1
	cmd := &cobra.Command{
		Use:        "list [flags] [ID…]",
		SuggestFor: []string{"mailq", "postqueue"},
		Aliases:    []string{"ls"},
		Short:      "List messages",
		Long: `List the messages that meet all given conditions, or all messages.

Incoming and held messages are sorted by age, deferred ones by their next attempt.
The list is read page by page, so it can have any length. Each message is listed once at
most; one that moves in the meantime, such as one that is released, can be missing.
"queue count" reads the queue in an order that never changes, and counts each message once.

The state "active" means that a message is in delivery or about to be. The area is
where it is stored on disk; --area selects by area, not by state.

` + patternHelp,
		Example: `  posthaste queue list --older 4h --domain example.com
  posthaste queue list --domain gmail.com --domain googlemail.com --error '/4\.7\.[0-9]+/'
  posthaste queue list --error greylist --ids | posthaste queue flush -
  posthaste queue list --class bulk --tenant shop --flows
  posthaste queue list --json | jq -r .sender | sort | uniq -c`,
		RunE: withDaemon(p, &q.Filter, func(cmd *cobra.Command, _ []string, c *client.Client) error {
			if err := command.Exclusive(cmd, "json", "ids", "mailq", "flows"); err != nil {
				return err
			}
			var (
				l      lister
				unread client.Partial
			)
			out := cmd.OutOrStdout()
			switch buffered := bufio.NewWriterSize(out, 64<<10); {
			case onlyIDs:
				l = &idLister{buffered}
			case asJSON:
				l, q.Recipients = &jsonLister{out: buffered, recipients: recipientsOf(cmd, c, &unread)}, admin.RecipientsMax
			case asMailq:
				l, q.Recipients = &mailqLister{out: buffered, recipients: recipientsOf(cmd, c, &unread)}, admin.RecipientsMax
			default:
				l = newMessageLister(buffered, command.Terminal(out), flows)
			}
			return cmp.Or(list(cmd, c, q, l), unread.OrNil())
		}),
		ValidArgsFunction: cobra.NoFileCompletions,
	}
	f := cmd.Flags()
	addFilters(f, &q.Filter)
	f.IntVarP(&q.Limit, "limit", "n", 0, "show at most this `number` of messages; 0: all")
	f.BoolVar(&asJSON, "json", false, "one JSON object per line, with the field names of postqueue -j")
	f.BoolVar(&onlyIDs, "ids", false, "print only the queue IDs")
	f.BoolVar(&asMailq, "mailq", false, "print in the format of mailq")
	f.BoolVar(&flows, "flows", false, "show class, tenant and flow in place of the sender")
	completeFilters(cmd)
	return cmd
}

// A lister shows messages one by one.
type lister interface {
	message(*admin.Summary) error
	end() error
}

func list(cmd *cobra.Command, c *client.Client, q client.Query, l lister) error {
	err := c.List(cmd.Context(), q, l.message)
	if !isPartial(err) {
		return err
	}
	return cmp.Or(l.end(), err)
}

// isPartial reports whether a list or an order was completed, possibly except for messages
// that could not be read.
func isPartial(err error) bool {
	var partial *client.Partial
	return err == nil || errors.As(err, &partial)
}

// A visitor calls visit with each waiting recipient of a message.
type visitor func(m *admin.Summary, visit func(*admin.Recipient) error) error

// recipientsOf reads the recipients that are not in a summary page by page. Those that
// cannot be read are added to unread; those of a message that has left the queue are
// not waiting.
func recipientsOf(cmd *cobra.Command, c *client.Client, unread *client.Partial) visitor {
	return func(m *admin.Summary, visit func(*admin.Recipient) error) error {
		for i := range m.Recipients {
			if err := visit(&m.Recipients[i]); err != nil {
				return err
			}
		}
		if n := len(m.Recipients); n == 0 || n >= int(m.Waiting) { // or none waits
			return nil
		}
		from := m.Recipients[len(m.Recipients)-1].Index + 1
		for {
			d, err := c.Show(cmd.Context(), m.ID, from, admin.RecipientsMax)
			if problem := (*client.Problem)(nil); errors.As(err, &problem) {
				if problem.Status != http.StatusNotFound {
					unread.Add(admin.Unread{ID: m.ID, Error: problem.Error()})
				}
				return nil
			}
			if err != nil {
				return err
			}
			for i := range d.All {
				if r := &d.All[i]; r.Result == "pending" || r.Result == "deferred" {
					if err := visit(r); err != nil {
						return err
					}
				}
			}
			if d.Next == nil {
				return nil
			}
			from = *d.Next
		}
	}
}

// An idLister writes queue IDs.
type idLister struct{ out *bufio.Writer }

func (l *idLister) message(m *admin.Summary) error {
	_, err := l.out.WriteString(m.ID + "\n")
	return err
}

func (l *idLister) end() error { return l.out.Flush() }

// A jsonLister writes an object for each message, with the names of postqueue
// -j and a few more. However many recipients a message has, they are written as
// they come.
type jsonLister struct {
	out        *bufio.Writer
	recipients visitor
}

type jsonMessage struct {
	QueueName     string            `json:"queue_name"`
	QueueID       string            `json:"queue_id"`
	ArrivalTime   int64             `json:"arrival_time"`
	MessageSize   int64             `json:"message_size"`
	ForcedExpire  bool              `json:"forced_expire"`
	Sender        string            `json:"sender"`
	Class         string            `json:"class,omitempty"`
	Tenant        string            `json:"tenant,omitempty"`
	Flow          string            `json:"flow,omitempty"`
	Area          string            `json:"area"`
	Wait          string            `json:"wait"`
	Attempts      uint32            `json:"attempts"`
	NextAttempt   int64             `json:"next_attempt,omitempty"`
	Reason        string            `json:"reason,omitempty"`
	Damage        string            `json:"damage,omitempty"`
	WaitReason    *admin.WaitReason `json:"wait_reason,omitempty"`
	Deliveries    int               `json:"deliveries,omitempty"`
	RecipientsAll uint32            `json:"recipients_total"`
	Recipients    *json.RawMessage  `json:"recipients,omitempty"` // written apart
}

type jsonRecipient struct {
	Address     string `json:"address"`
	DelayReason string `json:"delay_reason,omitempty"`
}

func (l *jsonLister) message(m *admin.Summary) error {
	j := jsonMessage{QueueName: string(m.State), QueueID: m.ID, ArrivalTime: m.Arrived.Unix(), MessageSize: m.Size, Sender: m.Sender,
		Class: m.Class, Tenant: m.Tenant, Flow: m.Flow,
		Area: m.Area, Wait: string(m.Wait), Attempts: m.Attempts, Reason: m.Reason, Damage: m.Damage, WaitReason: m.WaitReason, Deliveries: m.Deliveries, RecipientsAll: m.Total}
	if j.Sender == "" {
		j.Sender = "MAILER-DAEMON"
	}
	if m.Due != nil {
		j.NextAttempt = m.Due.Unix()
	}
	head, err := json.Marshal(j)
	if err != nil {
		return err
	}
	l.out.Write(head[:len(head)-1])
	l.out.WriteString(`,"recipients":[`)
	between := ""
	one := func(r *admin.Recipient) error {
		octets, err := json.Marshal(jsonRecipient{r.Address, reasonOf(r)})
		if err != nil {
			return err
		}
		l.out.WriteString(between)
		between = ","
		_, err = l.out.Write(octets)
		return err
	}
	if err := l.recipients(m, one); err != nil {
		return err
	}
	_, err = l.out.WriteString("]}\n")
	return err
}

func (l *jsonLister) end() error { return l.out.Flush() }

// reasonOf returns on one line why a recipient waits, and which host said so.
func reasonOf(r *admin.Recipient) string {
	reply := strings.ReplaceAll(r.Reply, "\n", " / ")
	if r.By == "" || reply == "" {
		return reply
	}
	return "host " + r.By + " said: " + reply
}

// A messageLister writes a table of messages.
type messageLister struct {
	*table
	flows   bool // in place of senders
	now     time.Time
	shown   int
	octets  int64
	damaged int // damaged messages
}

const (
	tableWide   = 120 // columns of a terminal from which on a message takes one line, not two
	tableNarrow = 48  // columns before the addresses
	tableCell   = 32  // widest cell on a wide terminal, except for the last column
)

func newMessageLister(out *bufio.Writer, width int, flows bool) *messageLister {
	l := &messageLister{flows: flows, now: time.Now()}
	header, left := []string{"QUEUE ID", "STATE", "SIZE", "AGE", "NEXT", "SENDER", "RECIPIENTS", "REASON"}, []int{0, 1, 4, 5, 6, 7}
	if flows {
		header, left = []string{"QUEUE ID", "STATE", "SIZE", "AGE", "NEXT", "CLASS", "TENANT", "FLOW", "RECIPIENTS", "REASON"}, []int{0, 1, 4, 5, 6, 7, 8, 9}
	}
	l.table = newTable(out, width, left, header...)
	if l.twoLines() {
		l.rows[0].cells = header[:len(header)-1]
	}
	return l
}

// twoLines reports whether reasons have lines of their own: a narrow terminal would cut
// them off, and they are what operators look for.
func (l *messageLister) twoLines() bool { return l.width > 0 && l.width < tableWide }

func (l *messageLister) message(m *admin.Summary) error {
	l.shown++
	l.octets += m.Size
	if m.Damage != "" || m.State == admin.StateCorrupt {
		l.damaged++
	}
	cells := []string{m.ID, string(m.State), human.Size(m.Size), human.Age(l.now.Sub(m.Arrived)), nextAttempt(m, l.now)}
	if l.flows {
		for _, text := range []string{m.Class, m.Tenant, m.Flow} {
			cells = append(cells, l.cell(human.Plain(cmp.Or(text, "-"))))
		}
	} else {
		cells = append(cells, l.cell(senderText(m)))
	}
	cells = append(cells, l.cell(recipientsText(m)))
	switch reason := listReason(m); {
	case !l.twoLines():
		return l.add(row{cells: append(cells, reason)})
	case reason != "":
		return l.add(row{cells, []string{reason}})
	}
	return l.add(row{cells: cells})
}

func (l *messageLister) cell(text string) string {
	switch {
	case l.width == 0:
		return text
	case l.twoLines() && l.flows:
		return human.Shorten(text, max((l.width-tableNarrow)/4, 10))
	case l.twoLines():
		return human.Shorten(text, max((l.width-tableNarrow)/2, 12))
	}
	return human.Shorten(text, tableCell)
}

// listReason returns why a message waits: the wait reason if it is in core, otherwise the
// last reply.
func listReason(m *admin.Summary) string {
	reason := waitingFor(m)
	if m.Ordered != "" {
		reason = strings.TrimSuffix("ordered: "+human.Plain(m.Ordered)+"; "+reason, "; ")
	}
	if m.Route == nil {
		return reason
	}
	return strings.TrimSuffix(human.Plain("rerouted to "+m.Route.To)+": "+reason, ": ")
}

func waitingFor(m *admin.Summary) string {
	if m.Damage != "" {
		return human.Plain("damaged: " + m.Damage)
	}
	if o := m.WaitReason; o != nil && o.Kind != "turn" {
		if o.Key != "" {
			return human.Plain(o.Text + " (" + o.Key + ")")
		}
		return human.Plain(o.Text)
	}
	if m.Deliveries > 0 {
		return "being delivered"
	}
	return human.Plain(m.Reason)
}

// nextAttempt returns when a message is tried next.
func nextAttempt(m *admin.Summary, now time.Time) string {
	switch m.Wait {
	case admin.WaitCore, admin.WaitRoom:
		if m.WaitReason != nil && m.WaitReason.Until != nil {
			return "in " + human.Age(m.WaitReason.Until.Sub(now))
		}
		return "now"
	case admin.WaitSuspended:
		if m.WaitReason != nil && m.WaitReason.Until != nil {
			return "in " + human.Age(m.WaitReason.Until.Sub(now))
		}
	case admin.WaitDate:
		if m.Until != nil {
			return "in " + human.Age(m.Until.Sub(now))
		}
	case admin.WaitBackoff:
		if m.Due != nil {
			return "in " + human.Age(m.Due.Sub(now))
		}
	}
	return "-"
}

// recipientsText names the first waiting recipient and counts the others.
func recipientsText(m *admin.Summary) string {
	switch {
	case m.Total == 0:
		return "-"
	case len(m.Recipients) == 0:
		return human.Count(m.Total, "recipient")
	case m.Waiting <= 1:
		return human.Plain(m.Recipients[0].Address)
	}
	return human.Plain(m.Recipients[0].Address) + " +" + human.Number(m.Waiting-1)
}

func (l *messageLister) end() error {
	if l.shown == 0 {
		fmt.Fprintln(l.out, "No messages.")
	} else {
		if err := l.flush(); err != nil {
			return err
		}
		fmt.Fprintf(l.out, "\n%s, %s", human.Count(l.shown, "message"), human.Bytes(l.octets))
		if l.damaged > 0 {
			fmt.Fprintf(l.out, "; %s damaged", human.Number(l.damaged))
		}
		fmt.Fprintln(l.out)
	}
	return l.out.Flush()
}

// senderText shows an envelope sender; the null sender is as on the wire.
func senderText(m *admin.Summary) string {
	switch {
	case m.Sender != "":
		return human.Plain(m.Sender)
	case (m.State == admin.StateCorrupt || m.Damage != "") && m.Total == 0:
		return "-" // the envelope cannot be read
	}
	return "<>"
}
