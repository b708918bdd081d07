package report

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"

	"github.com/spf13/cobra"

	"github.com/posthaste-mta/posthaste/feedback"
	"github.com/posthaste-mta/posthaste/internal/cli/exit"
	"github.com/posthaste-mta/posthaste/internal/human"
	"github.com/posthaste-mta/posthaste/replies"
	"github.com/posthaste-mta/posthaste/replies/patternfile"
)

func newParseCommand() *cobra.Command {
	var asJSON bool
	cmd := &cobra.Command{
		Use:   "parse [FILE...]",
		Short: "Show what a report says",
		Long: `Show what delivery status notifications (DSN, RFC 3464) and complaints (ARF, RFC 5965) say.
Each file holds one message; "-", or no file, means standard input.

The exit status is 0 if all were understood, 1 if one is not a report or cannot be
understood, and 66 if a file cannot be read.`,
		Example: `  posthaste report parse bounce.eml
  posthaste report parse --json < complaint.eml | jq .entries`,
		RunE: func(cmd *cobra.Command, args []string) error {
			book := replies.New(patternfile.Shipped(), nil)
			if len(args) == 0 {
				args = []string{"-"}
			}
			p := parser{out: cmd.OutOrStdout(), in: cmd.InOrStdin(), asJSON: asJSON, several: len(args) > 1, book: book}
			return p.files(args)
		},
	}
	cmd.Flags().BoolVar(&asJSON, "json", false, "print JSON, one object for each message")
	return cmd
}

// A parser shows messages.
type parser struct {
	out     io.Writer
	in      io.Reader
	asJSON  bool
	several bool
	book    *replies.Book
}

// files shows all files, and returns an error if one could not be read or understood.
func (p *parser) files(names []string) error {
	var failed []string
	for i, name := range names {
		data, err := p.read(name)
		if err != nil {
			return exit.New(exit.NoInput, err, "")
		}
		r, err := feedback.Parse(data, "")
		if err != nil {
			failed = append(failed, fmt.Sprintf("%s: %v", human.Plain(name), err))
		}
		if err := p.show(name, i, &r, err); err != nil {
			return err
		}
	}
	if len(failed) > 0 {
		return exit.New(exit.Wrong, errors.New(strings.Join(failed, "\n")), "Only delivery status notifications (RFC 3464) and feedback reports (RFC 5965) are understood.")
	}
	return nil
}

// read returns a message, or as much of it as Parse takes.
func (p *parser) read(name string) ([]byte, error) {
	in := p.in
	if name != "-" {
		f, err := os.Open(name)
		if err != nil {
			return nil, err
		}
		defer f.Close()
		in = f
	}
	return io.ReadAll(io.LimitReader(in, feedback.SizeMax+1))
}

// A shown is a report as JSON.
type shown struct {
	File      string         `json:"file"`
	Kind      string         `json:"kind"`
	Error     string         `json:"error,omitempty"`
	MessageID string         `json:"message_id,omitempty"`
	From      string         `json:"from,omitempty"`
	Reporter  string         `json:"reporter,omitempty"`
	EnvID     string         `json:"envid,omitempty"`
	Entries   []shownEntry   `json:"entries"`
	Omitted   int            `json:"omitted,omitempty"`
	Complaint *shownReason   `json:"complaint,omitempty"`
	Original  *shownOriginal `json:"original,omitempty"`
}

type shownEntry struct {
	Recipient string `json:"recipient,omitempty"`
	Original  string `json:"original_recipient,omitempty"`
	Redacted  bool   `json:"redacted,omitempty"`
	Action    string `json:"action,omitempty"`
	Status    string `json:"status,omitempty"`
	Code      uint16 `json:"code,omitempty"`
	Text      string `json:"text,omitempty"`
	Host      string `json:"host,omitempty"`
	Class     string `json:"class,omitempty"`
}

type shownReason struct {
	Type        string `json:"type"`
	Sender      string `json:"sender,omitempty"`
	SourceIP    string `json:"source_ip,omitempty"`
	Domain      string `json:"domain,omitempty"`
	Incidents   uint   `json:"incidents"`
	AuthFailure string `json:"auth_failure,omitempty"`
}

type shownOriginal struct {
	MessageID  string `json:"message_id,omitempty"`
	From       string `json:"from,omitempty"`
	ReturnPath string `json:"return_path,omitempty"`
	QueueID    string `json:"queue_id,omitempty"`
}

func (p *parser) show(name string, number int, r *feedback.Report, failure error) error {
	s := p.shown(name, r)
	if failure != nil {
		s.Error = failure.Error()
	}
	if p.asJSON {
		text, err := json.Marshal(s)
		if err != nil {
			return err
		}
		_, err = fmt.Fprintf(p.out, "%s\n", text)
		return err
	}
	if failure != nil {
		return nil
	}
	var b strings.Builder
	if p.several {
		if number > 0 {
			b.WriteByte('\n')
		}
		fmt.Fprintf(&b, "%s:\n", human.Plain(name))
	}
	s.print(&b)
	_, err := io.WriteString(p.out, b.String())
	return err
}

func (p *parser) shown(name string, r *feedback.Report) shown {
	s := shown{File: name, Kind: r.Kind.String(), MessageID: r.MessageID, From: string(r.From), Reporter: r.Reporter, EnvID: r.EnvID, Omitted: r.Omitted, Entries: []shownEntry{}}
	for i := range r.Entries {
		e := &r.Entries[i]
		one := shownEntry{Recipient: string(e.Final), Original: string(e.Original), Redacted: e.Redacted}
		if r.Kind == feedback.KindStatus {
			one.Action, one.Status, one.Code, one.Text, one.Host = e.Action.String(), e.Status.String(), e.Reply.Code, e.Reply.Text, e.Reply.By
			one.Class = p.book.Class(e.Reply).String()
		}
		s.Entries = append(s.Entries, one)
	}
	if c := r.Complaint; r.Kind == feedback.KindComplaint {
		s.Complaint = &shownReason{c.Type, string(c.Sender), c.SourceIP, c.Domain, c.Incidents, c.AuthFailure}
	}
	if o := r.Original; o != (feedback.Original{}) {
		s.Original = &shownOriginal{MessageID: o.MessageID, From: string(o.From), ReturnPath: string(o.ReturnPath)}
		if o.QueueID != 0 {
			s.Original.QueueID = o.QueueID.String()
		}
	}
	return s
}

// print writes a report for people.
func (s *shown) print(b *strings.Builder) {
	field := func(name, value string) {
		if value != "" {
			fmt.Fprintf(b, "%-13s %s\n", name+":", human.Plain(value))
		}
	}
	switch s.Kind {
	case feedback.KindStatus.String():
		field("Report", "delivery status")
	default:
		field("Report", s.Kind)
	}
	field("Message-ID", s.MessageID)
	field("From", s.From)
	field("Reporter", s.Reporter)
	field("Envelope ID", s.EnvID)
	if c := s.Complaint; c != nil {
		field("Complaint", c.Type)
		field("Failed", c.AuthFailure)
		field("Sent by", c.Sender)
		field("Sent from", c.SourceIP)
		field("Domain", c.Domain)
		if c.Incidents > 1 {
			field("Incidents", fmt.Sprint(c.Incidents))
		}
	}
	if o := s.Original; o != nil {
		field("About", o.MessageID)
		field("Author", o.From)
		field("Return path", o.ReturnPath)
		field("Queue ID", o.QueueID)
	}
	for i := range s.Entries {
		s.Entries[i].print(b, field)
	}
	if s.Omitted > 0 {
		fmt.Fprintf(b, "\nand %s more\n", human.Count(s.Omitted, "recipient"))
	}
}

func (e *shownEntry) print(b *strings.Builder, field func(name, value string)) {
	b.WriteByte('\n')
	switch {
	case e.Original != "" && e.Recipient != "" && e.Original != e.Recipient:
		field("Recipient", e.Original+", there "+e.Recipient)
	case e.Original+e.Recipient == "" && e.Redacted:
		field("Recipient", "made unreadable by the reporter")
	case e.Original+e.Recipient == "":
		field("Recipient", "not named")
	case e.Original != "":
		field("Recipient", e.Original)
	default:
		field("Recipient", e.Recipient)
	}
	field("Action", e.Action)
	field("Status", e.Status)
	field("Class", e.Class)
	field("Host", e.Host)
	if e.Text != "" {
		field("Said", fmt.Sprintf("%d %s", e.Code, strings.Join(strings.Fields(e.Text), " ")))
	}
}
