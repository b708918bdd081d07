package warmup

import (
	"fmt"
	"strings"
	"testing"

	"github.com/posthaste-mta/posthaste/internal/golden"
	"github.com/posthaste-mta/posthaste/mail"
)

// The scripts are the manual of the rules. This file is the manual of their language.
func TestScripts(t *testing.T) {
	golden.RunAll(t, "testdata/*.txt", func() golden.Handler {
		s := &script{}
		return s.handle
	})
}

// A script has one table with the source new, and a clock that begins on 2026-03-02.
type script struct {
	table *Table
	now   mail.Instant
	saved map[Key]Record
	out   strings.Builder
}

func (s *script) handle(tb testing.TB, b *golden.Block) string {
	s.out.Reset()
	for _, l := range b.Lines {
		s.command(tb, l)
		s.table.Check()
	}
	return s.out.String()
}

func (s *script) command(tb testing.TB, l *golden.Line) {
	tb.Helper()
	k := Key{"new", l.Str("to", "a.test")}
	switch l.Name {
	case "plan": // plan [start=N] [percent=N] [days=N] [bad=N] [idle=N] [sites=N] [begins=DAYS]: a new table
		plan := &Plan{Name: "own", Allowances: Grow(l.Int(tb, "start", 10), l.Int(tb, "percent", 100), l.Int(tb, "days", 4)),
			Limits: Limits{BadDays: l.Int(tb, "bad", 0), IdleDays: l.Int(tb, "idle", 0)}}
		s.now = DayOn(2026, 3, 2).Start()
		s.saved = map[Key]Record{}
		s.table = New(s.config(plan, l.Int(tb, "begins", 0), l.Int(tb, "sites", 0)), s.now)
		s.printf("%v", plan.Allowances)
	case "replan": // replan start=N percent=N days=N: another plan for the same source
		plan := &Plan{Name: "other", Allowances: Grow(l.Int(tb, "start", 10), l.Int(tb, "percent", 100), l.Int(tb, "days", 4))}
		s.table.Configure(s.config(plan, 0, 0), s.now)
		s.printf("%v", plan.Allowances)
	case "send": // send n=N [to=SITE] [deferred=N] [bounced=N] [lost=N]: as many messages as there is room for, up to N
		n, sent := l.Int(tb, "n", 1), 0
		deferred, bounced, lost := l.Int(tb, "deferred", 0), l.Int(tb, "bounced", 0), l.Int(tb, "lost", 0)
		for ; sent < n && s.table.Allowance(k, s.now).Room.Free(); sent++ {
			s.table.Take(k, s.now)
			switch {
			case sent < deferred:
				s.table.Ended(k, Result{Deferred: 1}, s.now)
			case sent < deferred+bounced:
				s.table.Ended(k, Result{Bounced: 1}, s.now)
			case sent < deferred+bounced+lost:
			default:
				s.table.Ended(k, Result{Accepted: 1}, s.now)
			}
		}
		s.printf("%d sent; %s", sent, s.show(k))
	case "day": // day [n=DAYS]: that many days later
		for range l.Int(tb, "n", 1) {
			s.now = s.now.Add(dayLength)
		}
		s.printf("%v: %s", DayOf(s.now), s.show(k))
	case "order": // order KIND [to=SITE|to=all] [day=N]
		kinds := map[string]OrderKind{"day": SetDay, "pause": Pause, "resume": Resume, "reset": Reset}
		kind, ok := kinds[l.Word(tb, 0)]
		if !ok {
			tb.Fatalf("%s: no order is called %s", l.Pos, l.Word(tb, 0))
		}
		shown := k
		if k.Site == "all" {
			k.Site, shown.Site = "", "a.test"
		}
		if err := s.table.Obey(Order{Key: k, Kind: kind, Day: l.Int(tb, "day", 0)}, s.now); err != nil {
			s.printf("error: %v", err)
			return
		}
		s.printf("%s", s.show(shown))
	case "save": // save: what changed is written
		for _, c := range s.table.Changed(nil, 1000) {
			if c.Gone {
				delete(s.saved, c.Key)
				s.printf("forgotten %s", c.Key.Site)
				continue
			}
			s.saved[c.Key] = c.Record
			s.printf("%q: %s", c.Key.Site, AppendRecord(nil, c.Record))
		}
	case "restart": // restart: what was written is read, the rest is lost
		var all []Known
		for k, r := range s.saved {
			all = append(all, Known{k, r})
		}
		w := s.table.sources["new"]
		s.table = New(Config{Sources: []Source{{Name: "new", Start: w.start, Plan: *w.plan}}, SiteLimit: s.table.limit}, s.now)
		s.table.Load(all, s.now)
		s.printf("%s", s.show(k))
	default:
		tb.Fatalf("%s: no command is called %s", l.Pos, l.Name)
	}
}

func (s *script) config(p *Plan, begins, sites int) Config {
	return Config{SiteLimit: sites, Sources: []Source{{Name: "new", Start: DayOf(s.now) + Day(begins), Plan: *p}}}
}

func (s *script) printf(format string, args ...any) { fmt.Fprintf(&s.out, format+"\n", args...) }

// show shows a site, as in "day 2: 5 of 20, advanced".
func (s *script) show(k Key) string {
	a := s.table.Allowance(k, s.now)
	v, _ := s.table.SiteView(k, s.now)
	text := fmt.Sprintf("day %d: %d of %d", v.Day, v.Taken, v.Of)
	if v.State == Warm {
		text = fmt.Sprintf("warm: %d", v.Taken)
	}
	if v.Paused {
		text += ", paused"
	}
	if v.Last != Unjudged {
		text += ", " + v.Last.String()
	}
	if reason := a.Reason(k); reason != "" {
		text += "\n  " + reason
	}
	return text
}
