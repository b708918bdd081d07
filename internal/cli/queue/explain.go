package queue

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/posthaste-mta/posthaste/admin"
	"github.com/posthaste-mta/posthaste/admin/client"
	"github.com/posthaste-mta/posthaste/internal/cli/command"
	"github.com/posthaste-mta/posthaste/internal/cli/socket"
	"github.com/posthaste-mta/posthaste/internal/human"
	"github.com/posthaste-mta/posthaste/mail"
)

// NewExplainCommand returns the command that says why mail waits.
func NewExplainCommand() *cobra.Command {
	var (
		p               socket.Finder
		recipient, flow string
		asJSON          bool
	)
	cmd := &cobra.Command{
		Use:        "explain {ID | DESTINATION | --flow FLOW}",
		SuggestFor: []string{"why", "diagnose"},
		Short:      "Say why a message, a destination or a flow waits",
		Long: `Say why a message, a destination or a flow waits: the reason with its code, the parameter
that binds and where it is set, what waits ahead, when it will go as far as that can be
known, the last replies, and what would change it. docs/diagnosing.md has a section for
each code.

A destination is named as in "posthaste queue destinations": transport:nexthop, or a part
of that which only one has.`,
		Example: `  posthaste explain 6C34ED1CB5G00
  posthaste explain 6C34ED1CB5G00 --recipient jane@example.net
  posthaste explain gmail.com
  posthaste explain --flow 'news@*'`,
		Args: cobra.MaximumNArgs(1),
		RunE: withDaemon(&p, nil, func(cmd *cobra.Command, args []string, c *client.Client) error {
			id, destination := "", ""
			switch {
			case len(args)+given(flow) != 1:
				return command.Misuse(cmd, errors.New("name a queue ID, a destination, or a flow with --flow"))
			case len(args) > 0:
				destination = args[0]
				if upper := strings.ToUpper(args[0]); isQueueID(upper) {
					id, destination = upper, ""
				}
			}
			if recipient != "" && id == "" {
				return command.Misuse(cmd, errors.New("--recipient goes with a queue ID"))
			}
			x, err := c.Explain(cmd.Context(), id, recipient, destination, flow)
			if err != nil {
				return err
			}
			if asJSON {
				return json.NewEncoder(cmd.OutOrStdout()).Encode(&x)
			}
			out := bufio.NewWriter(cmd.OutOrStdout())
			WriteExplanation(out, &x, command.Terminal(cmd.OutOrStdout()), time.Now())
			return out.Flush()
		}),
		ValidArgsFunction: cobra.NoFileCompletions,
	}
	p.AddFlags(cmd.Flags())
	cmd.Flags().StringVar(&recipient, "recipient", "", "only this recipient `address` of the message")
	cmd.Flags().StringVar(&flow, "flow", "", "the first `flow` that matches; * stands for any text")
	cmd.Flags().BoolVar(&asJSON, "json", false, "as one JSON object")
	return cmd
}

// isQueueID reports whether a text is a queue ID. A destination is hardly ever as long, and without a dot or a colon.
func isQueueID(text string) bool {
	_, err := mail.ParseQueueID(text)
	return err == nil
}

// given is 1 for a text that is not empty.
func given(text string) int {
	if text == "" {
		return 0
	}
	return 1
}

// WriteExplanation writes an explanation as a person reads it, for a terminal of a width, or
// 0 if there is none.
func WriteExplanation(out io.Writer, x *admin.Explanation, width int, now time.Time) {
	head := x.Subject
	fmt.Fprintln(out, strings.ToUpper(head[:1])+human.Plain(head[1:]))
	const name = "  %-9s "
	line := func(title, text string) {
		for i, part := range human.Wrap(human.Plain(text), max(width-12, 0)) {
			if i > 0 {
				title = ""
			}
			fmt.Fprintf(out, name+"%s\n", title, part)
		}
	}
	if x.Ordered != "" {
		line("Ordered", orderedText(x.Ordered))
	}
	if x.RequeuedFrom != "" {
		line("Requeued", "from "+x.RequeuedFrom)
	}
	for i := range x.Parts {
		p := &x.Parts[i]
		fmt.Fprintln(out)
		if p.Place != "" {
			line("Where", p.Place)
		}
		line("Why", p.Text+" ("+p.Code+")")
		if r := p.Rule; r != nil {
			text := r.Key
			if r.Value != "" {
				text += " = " + r.Value + ", " + r.Origin
			}
			line("Parameter", text)
		}
		ahead := "Ahead"
		for _, text := range p.Ahead {
			line(ahead, text)
			ahead = ""
		}
		if p.At != nil {
			line("When", human.When(*p.At, now)+": "+p.Basis)
		}
		for _, r := range p.Replies {
			writeReply(out, name, &r, now)
		}
		title := "Change"
		for _, text := range p.Remedies {
			line(title, text)
			title = ""
		}
	}
	for i := range x.Routes {
		r := &x.Routes[i]
		fmt.Fprintln(out)
		line("Route", "for "+r.Recipient+", "+r.Text()+" ("+human.When(r.At, now)+")")
		line("Change", r.Clear+" has the configuration decide again")
	}
	for i := range x.Doubtful {
		d := &x.Doubtful[i]
		fmt.Fprintln(out)
		line("Doubt", d.Text()+"; for "+d.Recipient)
		line("Next", d.Next)
	}
	if x.More > 0 {
		fmt.Fprintf(out, "\n… and %s.\n", human.Count(x.More, "more destination"))
	}
}

func writeReply(out io.Writer, name string, r *admin.LastReply, now time.Time) {
	of := human.Plain(r.Recipient)
	if r.By != "" {
		of = strings.TrimPrefix(of+", said by "+human.Plain(r.By), ", ")
	}
	if r.At != nil {
		of = strings.TrimPrefix(of+", "+human.When(*r.At, now), ", ")
	}
	title := "Reply"
	for text := range strings.Lines(r.Reply) {
		fmt.Fprintf(out, name+"%s\n", title, human.Plain(strings.TrimRight(text, "\r\n")))
		title = ""
	}
	if of != "" {
		fmt.Fprintf(out, name+"(%s)\n", title, of)
	}
}
