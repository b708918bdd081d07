package qmgrtest

import (
	"fmt"
	"strings"
	"testing"

	"github.com/posthaste-mta/posthaste/internal/golden"
	"github.com/posthaste-mta/posthaste/mail"
	"github.com/posthaste-mta/posthaste/qmgr"
)

// look executes the commands that only query.
func (s *script) look(tb testing.TB, l *golden.Line) {
	tb.Helper()
	switch l.Name {
	case "agent":
		for range l.Int(tb, "times", 1) {
			s.world.Step(qmgr.AgentReady{Transport: l.Word(tb, 0)})
		}
	case "unavailable":
		s.world.Step(qmgr.AgentUnavailable{Transport: l.Word(tb, 0), Reply: reply(tb, l)})
	case "select":
		s.selectTransport(tb, l)
	case "run":
		s.run(tb, l)
	case "connections":
		s.connections()
	case "destinations":
		s.destinations()
	case "destination":
		s.destination(tb, l)
	case "dump":
		s.out.WriteString(s.world.Core.Dump(qmgr.DumpOptions{Name: s.name}))
	case "spool":
		s.spool()
	case "lookups":
		s.lookups()
	case "waiting":
		for _, a := range s.world.Outstanding {
			s.print(string(s.world.Format.AppendAction(nil, s.world.Now, a)))
		}
	default:
		tb.Fatalf("%s: no such command: %s", l.Pos, l.Name)
	}
}

// spool prints where each message is and the results of its recipients.
func (s *script) spool() {
	for _, name := range s.known {
		id := s.names[name]
		m, where := s.world.Messages[id], ""
		if m == nil {
			m, where = s.world.Gone[id], "gone"
		} else if where = m.Place.Area.String(); m.Place.Area == mail.AreaDeferred {
			where += " until " + (m.Place.Due - s.world.Format.Epoch).String()
		}
		if s.world.Core.InCore(id) {
			where += ", in core"
		}
		s.print(fmt.Sprintf("%s %s:%s", name, where, tally(m)))
	}
}

// tally counts recipients by result.
func tally(m *Message) string {
	var b strings.Builder
	count := func(what string, is func(i int) bool) {
		n := 0
		for i := range m.Results {
			if is(i) {
				n++
			}
		}
		if n > 0 {
			fmt.Fprintf(&b, " %d %s", n, what)
		}
	}
	for r := mail.Pending; r <= mail.Moved; r++ {
		count(r.String(), func(i int) bool { return m.Results[i] == r })
	}
	for k := mail.ReportFailed; k <= mail.ReportRelayed; k++ {
		count(k.String()+" report owed", func(i int) bool { return m.Owed[i] == k })
		reported := 0
		for _, made := range m.Reported {
			if made == k {
				reported++
			}
		}
		if reported > 0 {
			fmt.Fprintf(&b, " %d %s reported", reported, k)
		}
	}
	return b.String()
}
