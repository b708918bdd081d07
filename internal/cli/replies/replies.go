// Package replies has the commands that show what replies of receivers mean.
package replies

import (
	"encoding/json"
	"fmt"
	"io"
	"strings"

	"github.com/spf13/cobra"

	"github.com/posthaste-mta/posthaste/config"
	"github.com/posthaste-mta/posthaste/internal/cli/command"
	"github.com/posthaste-mta/posthaste/internal/cli/configfile"
	"github.com/posthaste-mta/posthaste/internal/cli/exit"
	"github.com/posthaste-mta/posthaste/internal/human"
	"github.com/posthaste-mta/posthaste/mail"
	"github.com/posthaste-mta/posthaste/replies"
	"github.com/posthaste-mta/posthaste/replies/patternfile"
)

// NewCommand returns the commands about replies.
func NewCommand() *cobra.Command {
	cmd := command.Group("replies", "Show what replies of receivers mean, and which rules apply", `Show the class of a reply, the pattern that assigns it, and the rule that applies. Classes,
patterns and rules are described in docs/replies.md.`,
		newExplainCommand(), newPatternsCommand(), newRulesCommand())
	cmd.SuggestFor = []string{"bounces", "classify", "classes"}
	return cmd
}

func newPatternsCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "patterns",
		Short: "Print the patterns that come with the program",
		Long:  "Print the patterns that come with the program, in the form that reply_classes takes.",
		Args:  cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			_, err := io.WriteString(cmd.OutOrStdout(), patternfile.ShippedText())
			return err
		},
	}
}

func newRulesCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "rules",
		Short: "Print the rules that come with the program",
		Long:  "Print the rules for large receivers, which apply if shipped_reply_rules is true, and those for blocks of your address, which apply unless block_reply_rules is false, in the form of the configuration.",
		Args:  cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			_, err := io.WriteString(cmd.OutOrStdout(), config.ShippedReplyRulesText())
			return err
		},
	}
}

// A question is what "explain" is asked.
type question struct {
	config, mx, transport, stage string
	asJSON                       bool
}

func newExplainCommand() *cobra.Command {
	var q question
	cmd := &cobra.Command{
		Use:   "explain REPLY",
		Short: "Show the class of a reply, and the rule that applies",
		Long: `Show the class of a reply, the pattern that assigns it, and the rule that applies if a
host sends this reply. The reply is written as in the log, with " / " between
its lines. The rules are those of the file that --config names, not those of a running daemon.`,
		Example: `  posthaste replies explain "421 4.7.28 unusual rate of unsolicited mail" --mx gmail-smtp-in.l.google.com`,
		Args:    cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			return q.explain(cmd.OutOrStdout(), args[0])
		},
	}
	f := cmd.Flags()
	f.StringVarP(&q.config, "config", "c", "", "configuration `file` (TOML) with rules")
	f.StringVar(&q.mx, "mx", "mx.example.com", "the `host` that sent the reply")
	f.StringVar(&q.transport, "transport", "smtp", "the `transport` of the mail")
	f.StringVar(&q.stage, "stage", "", "the `stage` of the conversation, such as mail; without it, no rule with stages applies")
	f.BoolVar(&q.asJSON, "json", false, "print JSON")
	return cmd
}

// An answer is what "explain" prints as JSON.
type answer struct {
	Code       uint16   `json:"code"`
	Status     string   `json:"status,omitempty"`
	Text       string   `json:"text"`
	Class      string   `json:"class"`
	Pattern    string   `json:"pattern,omitempty"`
	Source     string   `json:"source,omitempty"`
	Rule       string   `json:"rule,omitempty"`
	Follows    []string `json:"follows,omitempty"`
	NotRefused bool     `json:"not_refused,omitempty"`

	unconfigured bool // no configuration was named, so there are no rules
}

func (q *question) explain(out io.Writer, text string) error {
	r, err := replies.ParseReply(text)
	if err != nil {
		return exit.Usagef("%v", err)
	}
	cfg, err := configfile.Read(q.config)
	if err != nil {
		return err
	}
	book, err := cfg.Replies()
	if err != nil {
		return exit.New(exit.Config, err, "")
	}
	r.By = q.mx + "[]"
	on := replies.Occasion{Transport: q.transport}
	if q.stage != "" {
		var ok bool
		if on.Stage, ok = mail.ParseStage(q.stage); !ok {
			return exit.Usagef("%q is not a stage of a conversation; there are %s", q.stage, strings.Join(mail.StageNames(), ", "))
		}
	}
	e := book.Explain(&r, on)
	a := answer{Code: r.Code, Status: r.Status.String(), Text: r.Text, Class: e.Class.String(), NotRefused: e.Class == replies.ClassNone, unconfigured: q.config == ""}
	if e.Pattern != nil {
		a.Pattern, a.Source = e.Pattern.Where, e.Pattern.Source
	}
	if e.Rule != nil {
		a.Rule, a.Follows = e.Rule.Name, follows(e.Rule)
	}
	if q.asJSON {
		enc := json.NewEncoder(out)
		enc.SetIndent("", "  ")
		return enc.Encode(a)
	}
	return a.print(out)
}

func (a *answer) print(out io.Writer) error {
	if a.NotRefused {
		_, err := fmt.Fprintln(out, "Nothing is refused: the reply has no class, and no rule applies.")
		return err
	}
	var b strings.Builder
	fmt.Fprintf(&b, "Class:   %s\n", a.Class)
	switch {
	case a.Pattern == "":
		b.WriteString("Pattern: none matches\n")
	case a.Source == "":
		fmt.Fprintf(&b, "Pattern: %s\n", human.Plain(a.Pattern))
	default:
		fmt.Fprintf(&b, "Pattern: %s (%s)\n", human.Plain(a.Pattern), human.Plain(a.Source))
	}
	switch {
	case a.Rule == "" && a.unconfigured:
		b.WriteString("Rule:    none applies; without --config there are none\n")
	case a.Rule == "":
		b.WriteString("Rule:    none applies\n")
	default:
		fmt.Fprintf(&b, "Rule:    [reply_rule.%s]\n", a.Rule)
	}
	for _, line := range a.Follows {
		fmt.Fprintf(&b, "         %s\n", line)
	}
	_, err := io.WriteString(out, b.String())
	return err
}

// follows says what follows from a rule, in lines.
func follows(r *replies.Rule) (lines []string) {
	switch r.Result {
	case replies.ResultPermanent:
		lines = append(lines, "the recipient fails at once")
	case replies.ResultTemporary:
		lines = append(lines, "the recipient is tried again")
	}
	after := ""
	if r.Times > 1 || r.SenderDomains > 1 {
		after = fmt.Sprintf(", after %d such replies", max(r.Times, r.SenderDomains))
		if r.InARow {
			after += " in a row"
		}
		if after += " within " + config.FormatDuration(r.Within); r.SenderDomains > 1 {
			after += fmt.Sprintf(" to senders of %d domains", r.SenderDomains)
		}
	}
	if r.Rest > 0 {
		lines = append(lines, fmt.Sprintf("no mail goes to the destination for %s%s", config.FormatDuration(r.Rest), after))
	}
	switch {
	case r.Suspend == mail.Indefinitely:
		lines = append(lines, "the destination is suspended until it is resumed"+after)
	case r.Suspend > 0:
		lines = append(lines, fmt.Sprintf("the destination is suspended for %s%s", config.FormatDuration(r.Suspend), after))
	}
	var limits []string
	if r.Concurrency > 0 {
		limits = append(limits, fmt.Sprintf("at most %d connections", r.Concurrency))
	}
	if r.RateCount > 0 {
		limits = append(limits, fmt.Sprintf("%d messages in %s", r.RateCount, config.FormatDuration(r.RatePer)))
	}
	if len(limits) > 0 {
		lines = append(lines, fmt.Sprintf("%s for %s%s", strings.Join(limits, " and "), config.FormatDuration(r.For), after))
	}
	return lines
}
