package qmgrtest

import (
	"fmt"
	"net/netip"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/posthaste-mta/posthaste/internal/golden"
	"github.com/posthaste-mta/posthaste/mail"
	"github.com/posthaste-mta/posthaste/qmgr"
	"github.com/posthaste-mta/posthaste/trace"
)

func (s *script) route(tb testing.TB, l *golden.Line) {
	tb.Helper()
	domain := l.Word(tb, 0)
	r := mail.Route{Transport: l.Str("transport", "smtp"), Nexthop: l.Str("nexthop", domain), Site: l.Str("site", ""), Security: l.Str("security", "")}
	r.Reply = reply(tb, l)
	switch {
	case l.Name == "lookup":
		s.world.Lookups[domain] = r
	case !r.Reply.IsZero():
		s.world.Routes[domain] = mail.Route{Reply: r.Reply}
	default:
		s.world.Routes[domain] = r
	}
}

// lookups prints the number of lookups under way for each message.
func (s *script) lookups() {
	busy := make(map[mail.QueueID]int)
	for _, a := range s.world.Outstanding {
		if look, is := a.(qmgr.Lookup); is {
			busy[look.For]++
		}
	}
	if n := busy[0]; n > 0 {
		s.print(fmt.Sprintf("verification %d", n))
	}
	for _, name := range s.known {
		if n := busy[s.names[name]]; n > 0 {
			s.print(fmt.Sprintf("%s %d", name, n))
		}
	}
}

func (s *script) verify(tb testing.TB, l *golden.Line) {
	tb.Helper()
	id, err := strconv.ParseUint(l.Word(tb, 0), 10, 64)
	if err != nil {
		tb.Fatalf("%s: %s is not a number", l.Pos, l.Words[0])
	}
	var client netip.Addr
	if text := l.Str("client", ""); text != "" {
		if client, err = netip.ParseAddr(text); err != nil {
			tb.Fatalf("%s: %v", l.Pos, err)
		}
	}
	s.world.Ask(qmgr.Verify{Verification: qmgr.VerificationID(id), Client: client, Transport: l.Str("transport", "smtp"), Nexthop: l.Word(tb, 1),
		Routed: l.Has("routed"), Site: l.Str("site", ""), Security: l.Str("security", ""), Credential: l.Str("credential", ""), Recipient: mail.Address(l.Str("to", ""))})
}

// found ends lookups.
func (s *script) found(tb testing.TB, l *golden.Line) {
	tb.Helper()
	for _, nexthop := range l.Words {
		ended := s.take(func(a qmgr.Action) bool {
			look, is := a.(qmgr.Lookup)
			return is && look.Nexthop == nexthop
		})
		if len(ended) == 0 {
			tb.Fatalf("%s: there is no lookup of %s", l.Pos, nexthop)
		}
		for _, a := range ended {
			s.world.Answer(a)
		}
	}
}

// reply parses the option reply=.
func reply(tb testing.TB, l *golden.Line) mail.Reply {
	tb.Helper()
	text, given := l.Option("reply")
	if !given {
		return mail.Reply{}
	}
	code, rest, _ := strings.Cut(text, " ")
	n, err := strconv.Atoi(code)
	status, rest, ok := mail.ParseStatus(rest)
	if err != nil || !ok {
		tb.Fatalf("%s: cannot read reply %q", l.Pos, text)
	}
	return mail.Reply{Code: uint16(n), Status: status, Text: rest}
}

func (s *script) arrive(tb testing.TB, l *golden.Line) {
	tb.Helper()
	name := l.Word(tb, 0)
	notify := mail.Notify(0)
	switch l.Str("notify", "") {
	case "":
	case "NEVER":
		notify = mail.NotifyNever
	case "FAILURE":
		notify = mail.NotifyFailure
	case "DELAY":
		notify = mail.NotifyDelay
	default:
		tb.Fatalf("%s: notify= is NEVER, FAILURE or DELAY", l.Pos)
	}
	var recipients []mail.Recipient
	doubts := avoids(tb, l)
	for _, a := range s.list(tb, l, name) {
		recipients = append(recipients, mail.Recipient{Address: mail.Address(a), Notify: notify, Doubts: doubts})
	}
	if text, given := l.Option("flow"); given {
		parts := strings.SplitN(text, "/", 3)
		if len(parts) != 3 {
			tb.Fatalf("%s: flow= is class/tenant/flow", l.Pos)
		}
		s.world.Flow = func() mail.Flow { return mail.Flow{Class: parts[0], Tenant: parts[1], Flow: parts[2]} }
	} else {
		s.world.Flow = nil
	}
	s.world.Keep = l.Duration(tb, "keep", 0)
	s.world.By = mail.ByNone
	for option, mode := range map[string]mail.ByMode{"return-by": mail.ByReturn, "notify-by": mail.ByNotify} {
		if _, given := l.Option(option); given {
			s.world.By, s.world.Within = mode, l.Duration(tb, option, 0)
		}
	}
	m := s.world.Store(mail.Address(l.Str("from", "s@x.test")), recipients)
	m.Envelope.Size = int64(l.Int(tb, "size", 1000))
	var err error
	if m.Envelope.VERP, err = mail.ParseVERP(l.Str("verp", "")); err != nil {
		tb.Fatalf("%s: %v", l.Pos, err)
	}
	switch l.Str("tls", "") {
	case "":
	case "required":
		m.Envelope.TLS = mail.TLSRequired
	case "optional":
		m.Envelope.TLS = mail.TLSOptional
	default:
		tb.Fatalf("%s: tls= is required or optional", l.Pos)
	}
	if _, given := l.Option("due"); given {
		m.Place = m.in(mail.AreaDeferred, started.Add(l.Duration(tb, "due", 0)))
		m.Envelope.Attempts, m.Envelope.LastAttempt = 1, started.Add(l.Duration(tb, "tried", 0))
	}
	s.names[name], s.text[m.Envelope.ID] = m.Envelope.ID, name
	s.known = append(s.known, name)
	if l.Name == "arrive" {
		s.world.Announce(m)
	} else {
		s.hints[m.Envelope.ID] = m.Hint()
	}
}

// avoids returns doubts about hosts, such as mx1,mx2, that have the message avoid these.
func avoids(tb testing.TB, l *golden.Line) (d *mail.Doubts) {
	tb.Helper()
	text, given := l.Option("avoids")
	if !given {
		return nil
	}
	for _, name := range strings.Split(text, ",") {
		for range mail.DoubtsEnough {
			d = d.With(zoneHost(tb, l, name).Addr)
		}
	}
	return d
}

// list reads a list of recipients.
func (s *script) list(tb testing.TB, l *golden.Line, name string) (list []string) {
	tb.Helper()
	for _, part := range strings.Split(l.Str("to", ""), ",") {
		count, domain, several := strings.Cut(part, "*")
		if !several {
			list = append(list, part)
			continue
		}
		n, err := strconv.Atoi(count)
		if err != nil {
			tb.Fatalf("%s: cannot read %s", l.Pos, part)
		}
		for i := range n {
			at := domain
			if domain == "distinct" {
				at = fmt.Sprintf("%s-%02d.test", name, i+1)
			}
			list = append(list, fmt.Sprintf("u%02d@%s", i+1, at))
		}
	}
	return list
}

func (s *script) deliver(tb testing.TB, l *golden.Line) {
	tb.Helper()
	var how []Ending
	for _, word := range strings.Split(l.Word(tb, 1), ",") {
		n := slices.Index(endingWords, word)
		if n < 0 {
			tb.Fatalf("%s: %s is none of %s", l.Pos, word, strings.Join(endingWords, " "))
		}
		how = append(how, Ending(n))
	}
	which := l.Word(tb, 0)
	found := s.take(func(a qmgr.Action) bool {
		d, is := a.(qmgr.Deliver)
		return is && (which == "all" || which == s.name(d.Delivery.Envelope.ID) || which == strconv.FormatUint(uint64(d.Entry), 10))
	})
	if len(found) == 0 && which != "all" {
		tb.Fatalf("%s: no delivery of %s is under way", l.Pos, which)
	}
	for _, a := range found {
		s.world.Deliver(a.(qmgr.Deliver), how[0], how[1:]...)
		s.settle()
	}
}

// take removes and returns the outstanding actions that match.
func (s *script) take(match func(qmgr.Action) bool) (taken []qmgr.Action) {
	w := s.world
	for i := 0; i < len(w.Outstanding); {
		if match(w.Outstanding[i]) {
			taken = append(taken, w.Take(i))
		} else {
			i++
		}
	}
	return taken
}

func (s *script) answerThese(tb testing.TB, l *golden.Line) {
	tb.Helper()
	found := s.take(func(a qmgr.Action) bool {
		_, delivery := a.(qmgr.Deliver)
		return !delivery && (l.Has("all") || l.Has(kindOf(a)))
	})
	if len(found) == 0 {
		tb.Fatalf("%s: nothing like that waits for an answer", l.Pos)
	}
	for _, a := range found {
		s.world.Answer(a)
	}
}

// kindOf returns the name of an action in a trace.
func kindOf(a qmgr.Action) string {
	return strings.Fields(string(trace.Format{}.AppendAction(nil, 0, a)))[1]
}
