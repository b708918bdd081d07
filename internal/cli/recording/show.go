package recording

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/posthaste-mta/posthaste/config"
	"github.com/posthaste-mta/posthaste/internal/cli/exit"
	"github.com/posthaste-mta/posthaste/internal/human"
	"github.com/posthaste-mta/posthaste/mail"
	"github.com/posthaste-mta/posthaste/trace"
)

func newTraceShowCommand() *cobra.Command {
	var s traceShow
	cmd := &cobra.Command{
		Use:   "show FILE",
		Short: "Print a trace as text",
		Long: `Print a trace as text: a summary, then a line for each event (>) and each action,
with its line number in the file and the seconds since the first event.

Filters select lines: a line must concern one of the given messages, one of the
transports and one of the nexthops, and be of one of the kinds. An answer concerns
the same things as its request. --from and --to take a time since the first event,
such as 90s or 1h30m, or an instant such as 2006-01-02T15:04:05Z.

With --json, each line is a JSON object. The trace is printed while it is read, so
it can be of any size.`,
		Args: cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error { return s.run(cmd, args[0]) },
	}
	f := cmd.Flags()
	s.addFlags(f, "only lines about the message with this `ID`; may be repeated, like all filters", "only lines about")
	f.StringSliceVar(&s.kinds, "kind", nil, "only events or actions of this `kind`, such as delivered or note")
	f.StringVar(&s.from, "from", "", "only lines from this `time` on")
	f.StringVar(&s.to, "to", "", "only lines up to this `time`")
	f.BoolVar(&s.json, "json", false, "print one JSON object per line")
	f.BoolVar(&s.summaryOnly, "summary", false, "print only the summary")
	return cmd
}

// A traceShow is what the command line asks for.
type traceShow struct {
	subjects
	kinds             []string
	from, to          string
	json, summaryOnly bool
	shown             int // lines
}

func (s *traceShow) run(cmd *cobra.Command, path string) error {
	filter, err := s.filter()
	if err != nil {
		return err
	}
	f, err := openTrace(cmd, path)
	if err != nil {
		return err
	}
	defer f.close()
	out := bufio.NewWriter(cmd.OutOrStdout())
	err = s.show(f, filter, out)
	if flushed := out.Flush(); err == nil && flushed != nil {
		return exit.New(exit.IO, flushed, "")
	}
	if err != nil {
		return badTrace(err)
	}
	warnIncomplete(cmd, f.Reader)
	if filter.narrows() && !s.summaryOnly && s.shown == 0 {
		fmt.Fprintf(cmd.ErrOrStderr(), "posthaste: no line of %s matches the filters%s\n", human.Plain(f.Name()), human.Plain(filter.others()))
	}
	return nil
}

// show prints what is asked for. The summary comes first if the trace can be read
// twice, else last.
func (s *traceShow) show(f *traceFile, filter *lineFilter, out *bufio.Writer) error {
	first := s.summaryOnly || f.seekable() && !s.json
	if first {
		summary, err := trace.Summarize(f.Reader)
		if err != nil {
			return err
		}
		s.writeSummary(out, f.Reader, &summary)
		if s.summaryOnly {
			return nil
		}
		fmt.Fprintln(out)
		if err := f.rewind(); err != nil {
			return err
		}
	}
	summary, err := s.writeLines(f.Reader, filter, out)
	if err == nil && !first && !s.json {
		fmt.Fprintln(out)
		s.writeSummary(out, f.Reader, &summary)
	}
	return err
}

func (s *traceShow) writeLines(r *trace.Reader, filter *lineFilter, out *bufio.Writer) (summary trace.Summary, err error) {
	format := r.Head().Format()
	for {
		record, err := r.Next()
		if errors.Is(err, io.EOF) {
			return summary, nil
		}
		if err != nil {
			return summary, err
		}
		kind := record.Kind()
		summary.Add(record.Now, record.Event != nil, kind)
		subject, wanted := filter.wants(&record, kind, summary.First)
		switch {
		case !wanted:
		case s.json:
			err = writeJSONLine(out, &record, kind, subject)
		default:
			err = writeWords(out, format, &record, summary.First)
		}
		if wanted {
			s.shown++
		}
		if err != nil {
			return summary, nil // the reader has closed the pipe; Flush returns the error
		}
	}
}

// writeWords prints a line in words.
func writeWords(out io.Writer, format trace.Format, r *trace.Record, start mail.Instant) error {
	format.Epoch = start
	mark := " "
	if r.Event != nil {
		mark = ">"
	}
	_, err := fmt.Fprintf(out, "%7d %14.6f %s %s\n", r.Number, r.Now.Sub(start).Seconds(), mark, human.Plain(format.Sentence(r.Line)))
	return err
}

// A jsonLine is a line of a trace for programs.
type jsonLine struct {
	Line       int             `json:"line"`
	Time       string          `json:"time"`
	Event      string          `json:"event,omitempty"`
	Action     string          `json:"action,omitempty"`
	Messages   []string        `json:"messages,omitempty"`
	Transports []string        `json:"transports,omitempty"`
	Nexthops   []string        `json:"nexthops,omitempty"`
	Fields     json.RawMessage `json:"fields"`
}

func writeJSONLine(out io.Writer, r *trace.Record, kind string, s trace.Subject) error {
	line := jsonLine{Line: r.Number, Time: timeText(r.Now), Transports: once(s.Transports), Nexthops: once(s.Nexthops),
		Fields: trace.Format{Instant: timeText}.AppendFields(nil, r.Line)}
	for _, id := range s.Messages {
		line.Messages = append(line.Messages, id.String())
	}
	line.Messages = once(line.Messages)
	if r.Event != nil {
		line.Event = kind
	} else {
		line.Action = kind
	}
	return json.NewEncoder(out).Encode(line)
}

// once returns a list without what comes again.
func once(list []string) []string {
	var out []string
	for _, v := range list {
		if !slices.Contains(out, v) {
			out = append(out, v)
		}
	}
	return out
}

// timeText is an instant as programs write it.
func timeText(i mail.Instant) string {
	if i == mail.Never {
		return i.String()
	}
	return time.Unix(0, int64(i)).UTC().Format(time.RFC3339Nano)
}

// A jsonSummary is a summary for programs.
type jsonSummary struct {
	By       string          `json:"by,omitempty"`
	Seed     uint64          `json:"seed,string"` // beyond what some programs take for a number
	Start    string          `json:"start,omitempty"`
	Duration float64         `json:"duration_s"`
	Events   int             `json:"events"`
	Actions  int             `json:"actions"`
	Kinds    map[string]int  `json:"kinds"`
	Complete bool            `json:"complete"`
	Config   json.RawMessage `json:"config"`
}

func (s *traceShow) writeSummary(out *bufio.Writer, r *trace.Reader, sum *trace.Summary) {
	if s.json {
		writeJSONSummary(out, r, sum)
		return
	}
	h := r.Head()
	fmt.Fprintf(out, "Trace of %s, seed %d\n", human.Plain(h.By), h.Seed)
	if sum.Events > 0 {
		fmt.Fprintf(out, "From %s, for %v: %d events, %d actions\n", timeText(sum.First), sum.Duration(), sum.Events, sum.Actions)
	}
	for _, event := range []bool{true, false} {
		var parts []string
		for _, k := range sum.Kinds {
			if k.Event == event {
				parts = append(parts, fmt.Sprintf("%s %d", human.Plain(k.Name), k.Count))
			}
		}
		if len(parts) > 0 {
			label := "Actions:"
			if event {
				label = "Events: "
			}
			fmt.Fprintln(out, label, strings.Join(parts, ", "))
		}
	}
}

func writeJSONSummary(out io.Writer, r *trace.Reader, sum *trace.Summary) {
	h := r.Head()
	j := jsonSummary{By: h.By, Seed: h.Seed, Duration: sum.Duration().Seconds(), Events: sum.Events, Actions: sum.Actions, Complete: r.Complete(),
		Kinds: make(map[string]int), Config: h.ConfigFields()}
	if sum.Events > 0 {
		j.Start = timeText(sum.First)
	}
	for _, k := range sum.Kinds {
		j.Kinds[k.Name] = k.Count
	}
	encoder := json.NewEncoder(out)
	encoder.SetIndent("", "  ")
	encoder.Encode(j) // the writer keeps its error
}

// A lineFilter selects lines.
type lineFilter struct {
	messages             []mail.QueueID
	transports, nexthops []string
	kinds                []string
	from, to             moment
	follower             *trace.Follower // nil if no filter needs the subjects of lines
	seen                 []string        // up to nexthopsNamed nexthops, if some are asked for
}

// A moment is an instant, or a time since the first event.
type moment struct {
	set     bool
	instant mail.Instant
	since   time.Duration
}

func (m moment) at(start mail.Instant) mail.Instant {
	if m.instant != 0 {
		return m.instant
	}
	return start.Add(m.since)
}

func (s *traceShow) filter() (*lineFilter, error) {
	ids, err := s.ids()
	if err != nil {
		return nil, err
	}
	f := &lineFilter{messages: ids, transports: s.transports, nexthops: s.nexthops, kinds: s.kinds}
	if s.json || s.any() {
		f.follower = trace.NewFollower()
	}
	if err := checkKinds(s.kinds); err != nil {
		return nil, err
	}
	if f.from, err = parseMoment("--from", s.from); err != nil {
		return nil, err
	}
	if f.to, err = parseMoment("--to", s.to); err != nil {
		return nil, err
	}
	if f.from.after(f.to) {
		return nil, exit.Usagef("--from %s is later than --to %s", human.Plain(s.from), human.Plain(s.to))
	}
	return f, nil
}

// narrows reports whether there is any filter.
func (f *lineFilter) narrows() bool {
	return len(f.messages)+len(f.transports)+len(f.nexthops)+len(f.kinds) > 0 || f.from.set || f.to.set
}

// after reports whether m is later than n, as far as this is known without the trace.
func (m moment) after(n moment) bool {
	return m.set && n.set && (m.instant == 0) == (n.instant == 0) && (m.instant > n.instant || m.since > n.since)
}

// checkKinds refuses unknown kinds: a misspelled one would match nothing.
func checkKinds(kinds []string) error {
	known := kindNames()
	for _, kind := range kinds {
		if !slices.Contains(known, kind) {
			return exit.New(exit.Usage, fmt.Errorf("there is no kind %q", kind), "The kinds are: "+strings.Join(known, " "))
		}
	}
	return nil
}

func kindNames() []string {
	var names []string
	events, actions := trace.Types()
	for _, ev := range events {
		names = append(names, trace.Line{Event: ev}.Kind())
	}
	for _, a := range actions {
		names = append(names, trace.Line{Action: a}.Kind())
	}
	slices.Sort(names)
	return names
}

func parseMoment(flag, text string) (moment, error) {
	if text == "" {
		return moment{}, nil
	}
	if t, err := time.Parse(time.RFC3339, text); err == nil {
		return moment{set: true, instant: mail.Instant(t.UnixNano())}, nil
	}
	since, err := config.ParseDuration(text, time.Second)
	if err != nil {
		return moment{}, exit.Usagef("%s: %w", flag, err)
	}
	return moment{set: true, since: since}, nil
}

// wants reports whether a line is selected, and returns its subject. It must be called
// for all lines.
func (f *lineFilter) wants(r *trace.Record, kind string, start mail.Instant) (trace.Subject, bool) {
	var s trace.Subject
	if f.follower != nil {
		s = f.follower.Subject(r.Line)
		if len(f.nexthops) > 0 {
			f.see(s.Nexthops)
		}
	}
	switch {
	case f.from.set && r.Now < f.from.at(start), f.to.set && r.Now > f.to.at(start),
		len(f.kinds) > 0 && !slices.Contains(f.kinds, kind),
		!shares(f.messages, s.Messages), !shares(f.transports, s.Transports), !shares(f.nexthops, s.Nexthops):
		return s, false
	}
	return s, true
}

// nexthopsNamed is the number of nexthops that are named to whoever asked for one that is not
// in the trace.
const nexthopsNamed = 20

// see remembers nexthops of the trace.
func (f *lineFilter) see(nexthops []string) {
	for _, n := range nexthops {
		if len(f.seen) <= nexthopsNamed && !slices.Contains(f.seen, n) {
			f.seen = append(f.seen, n)
		}
	}
}

// others names the nexthops that there are, if none of those that were asked for is
// among them.
func (f *lineFilter) others() string {
	if len(f.nexthops) == 0 || len(f.seen) == 0 || slices.ContainsFunc(f.seen, func(n string) bool { return slices.Contains(f.nexthops, n) }) {
		return ""
	}
	names, more := slices.Sorted(slices.Values(f.seen)), ""
	if len(names) > nexthopsNamed {
		names, more = names[:nexthopsNamed], " and others"
	}
	return "; its nexthops are " + strings.Join(names, ", ") + more
}

// shares reports whether a wanted value is there; an empty list of wanted values matches
// everything.
func shares[T comparable](wanted, there []T) bool {
	return len(wanted) == 0 || slices.ContainsFunc(there, func(v T) bool { return slices.Contains(wanted, v) })
}
