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
	"github.com/posthaste-mta/posthaste/qmgr/conns"
)

// The commands of the script language for connections.

// connectionOptions reads the options of config for connections.
func connectionOptions(tb testing.TB, l *golden.Line, t *qmgr.TransportConfig) {
	tb.Helper()
	c := &t.Connections
	for key, field := range map[string]*int{"host-limit": &c.HostLimit, "initial": &c.Initial, "reuse-count": &c.CountLimit} {
		*field = l.Int(tb, key, *field)
	}
	c.IdleTime = l.Duration(tb, "cache-time", c.IdleTime)
	c.ActiveTime = l.Duration(tb, "reuse-time", c.ActiveTime)
	c.Level = level(tb, l, c.Level)
	if l.Str("unknown", "") == qmgr.UnknownHold.String() {
		t.UnknownOutcome = qmgr.UnknownHold
	}
}

func level(tb testing.TB, l *golden.Line, level mail.Level) mail.Level {
	tb.Helper()
	if text := l.Str("level", ""); text != "" {
		if err := level.UnmarshalText([]byte(text)); err != nil {
			tb.Fatalf("%s: %v", l.Pos, err)
		}
	}
	return level
}

// zone sets the hosts that serve a domain: tiers such as mx1,mx2; or why there are
// none.
func (s *script) zone(tb testing.TB, l *golden.Line) {
	tb.Helper()
	z := Zone{Reply: reply(tb, l)}
	for _, word := range l.Words[1:] {
		var tier []mail.Host
		for _, name := range strings.Split(word, ",") {
			tier = append(tier, zoneHost(tb, l, name))
		}
		z.Tiers = append(z.Tiers, tier)
	}
	s.world.Zones[l.Word(tb, 0)] = z
}

// zoneHost returns the host of a name such as mx7, or of v7 with an IPv6 address; other@mx7 is another name
// of the same.
func zoneHost(tb testing.TB, l *golden.Line, name string) mail.Host {
	tb.Helper()
	if other, same, found := strings.Cut(name, "@"); found {
		h := zoneHost(tb, l, same)
		h.Name = other
		return h
	}
	number, six := strings.CutPrefix(name, "v")
	n, err := strconv.ParseUint(strings.TrimPrefix(number, "mx"), 10, 8)
	if err != nil {
		tb.Fatalf("%s: %s is not a host such as mx7", l.Pos, name)
	}
	addr := netip.AddrFrom4([4]byte{192, 0, 2, byte(n)})
	if six {
		addr = netip.AddrFrom16([16]byte{0x20, 0x01, 0x0d, 0xb8, 7: 1, 15: byte(n)})
	}
	return mail.Host{Name: name, Addr: netip.AddrPortFrom(addr, 25)}
}

// converse executes the commands for connections.
func (s *script) converse(tb testing.TB, l *golden.Line) {
	tb.Helper()
	switch l.Name {
	case "dial":
		s.dialed(tb, l)
	case "sent":
		s.sent(tb, l)
	case "close":
		s.closed(tb, l)
	}
}

// numbers parses the connections named by a word: 3; 3-5; all.
func (s *script) numbers(tb testing.TB, l *golden.Line) (list []qmgr.ConnID) {
	tb.Helper()
	word := l.Word(tb, 0)
	if word == "all" {
		for _, c := range s.world.Connections() {
			list = append(list, c.ID)
		}
		return list
	}
	first, last, several := strings.Cut(word, "-")
	if !several {
		last = first
	}
	from, err := strconv.Atoi(first)
	to, err2 := strconv.Atoi(last)
	if err != nil || err2 != nil {
		tb.Fatalf("%s: %s is not a connection's number", l.Pos, word)
	}
	for n := from; n <= to; n++ {
		list = append(list, qmgr.ConnID(n))
	}
	return list
}

// dialWords maps the ways in which dialing ends to their results.
var dialWords = map[string]mail.OpenedConnection{
	"ok":   {},
	"fail": {Reply: mail.Reply{Code: 450, Status: mail.Status{Class: 4, Subject: 4, Detail: 1}, Text: "connection refused"}},
	"busy": {Reply: mail.Reply{Code: 421, Status: mail.Status{Class: 4, Subject: 7, Detail: 0}, Text: "too many connections"}},
	"self": {Reply: mail.Reply{Code: 554, Status: mail.Status{Class: 5, Subject: 4, Detail: 6}, Text: "mail loops back to myself"}},
	"unbound": {Unbound: true,
		Reply: mail.Reply{Code: 451, Status: mail.Status{Class: 4, Subject: 3, Detail: 0}, Text: "cannot assign requested address"}},
	"insecure": {Insecure: true,
		Reply: mail.Reply{Code: 451, Status: mail.Status{Class: 4, Subject: 7, Detail: 5}, Text: "the certificate has expired"}},
	"unfit": {Insecure: true,
		Reply: mail.Reply{Code: 550, Status: mail.Status{Class: 5, Subject: 7, Detail: 30}, Text: "REQUIRETLS is not offered"}},
	"sockets": {Unavailable: true,
		Reply: mail.Reply{Code: 451, Status: mail.Status{Class: 4, Subject: 3, Detail: 0}, Text: "too many open files"}},
}

// dialed ends dialing of connections.
func (s *script) dialed(tb testing.TB, l *golden.Line) {
	tb.Helper()
	o, ok := dialWords[l.Word(tb, 1)]
	if !ok {
		tb.Fatalf("%s: dialing ends with ok, fail, busy, self, unbound, insecure, unfit or sockets", l.Pos)
	}
	o.Level, o.Mails, o.RTT = level(tb, l, o.Level), l.Int(tb, "mails", 0), l.Duration(tb, "rtt", 0)
	var ids []qmgr.ConnID
	if l.Words[0] != "all" {
		ids = s.numbers(tb, l)
	}
	found := s.take(func(a qmgr.Action) bool {
		d, is := a.(qmgr.Dial)
		return is && (ids == nil || slices.Contains(ids, d.Conn))
	})
	if len(found) < len(ids) {
		tb.Fatalf("%s: %d of these are being dialed", l.Pos, len(found))
	}
	for _, a := range found {
		if o.Unavailable {
			s.world.Step(qmgr.AgentUnavailable{Transport: a.(qmgr.Dial).Opening.Transport, Reply: o.Reply})
		}
		s.world.Dialed(a.(qmgr.Dial), o)
		s.settle()
	}
}

// endings parses how transactions end.
func (s *script) endings(tb testing.TB, l *golden.Line, word string) (list []Ending) {
	tb.Helper()
	for _, w := range strings.Split(word, ",") {
		n := slices.Index(endingWords, w)
		switch {
		case n >= 0:
			list = append(list, Ending(n))
		case w == "unsent":
			list = append(list, Unsent)
		case w == "unknown":
			list = append(list, Unknown)
		case w == "mute":
			list = append(list, Mute)
		default:
			tb.Fatalf("%s: %s is none of %s unsent unknown mute", l.Pos, w, strings.Join(endingWords, " "))
		}
	}
	return list
}

func (s *script) connection(tb testing.TB, l *golden.Line, id qmgr.ConnID) *Connection {
	tb.Helper()
	c := s.world.Conns[id]
	if c == nil || !c.Ready {
		tb.Fatalf("%s: there is no connection %d", l.Pos, id)
	}
	return c
}

// sent ends the oldest transaction of connections.
func (s *script) sent(tb testing.TB, l *golden.Line) {
	tb.Helper()
	how := s.endings(tb, l, l.Word(tb, 1))
	for _, id := range s.numbers(tb, l) {
		c := s.connection(tb, l, id)
		if len(c.Sends) == 0 {
			if l.Words[0] == "all" {
				continue
			}
			tb.Fatalf("%s: nothing is under way on connection %d", l.Pos, id)
		}
		s.world.Sent(c, how[0], how[1:]...)
		s.settle()
	}
}

// closed ends connections.
func (s *script) closed(tb testing.TB, l *golden.Line) {
	tb.Helper()
	why := mail.CloseAsked
	for why.String() != l.Word(tb, 1) {
		if why++; why > mail.CloseWrong {
			tb.Fatalf("%s: %s is no reason", l.Pos, l.Words[1])
		}
	}
	var how []Ending
	if len(l.Words) > 2 {
		how = s.endings(tb, l, l.Words[2])
	}
	for _, id := range s.numbers(tb, l) {
		s.world.Close(s.connection(tb, l, id), why, how...)
		s.settle()
	}
}

// sayGoodbye ends the connections that have been hung up and carry nothing, unless
// the script does so itself.
func (s *script) sayGoodbye() (any bool) {
	if slices.Contains(s.held, "hangup") {
		return false
	}
	for _, c := range s.world.Connections() {
		if c.Hung && len(c.Sends) == 0 {
			s.world.Close(c, mail.CloseAsked)
			any = true
		}
	}
	return any
}

// connections prints each connection with its transactions, then what sites wait
// for.
func (s *script) connections() {
	for _, c := range s.world.Connections() {
		line := fmt.Sprintf("%d %s", c.ID, c.Opening.Host.Name)
		if c.Opening.Source != "" {
			line += " from " + c.Opening.Source
		}
		for _, a := range c.Sends {
			line += fmt.Sprintf(" %s:%d", s.name(a.Delivery.Envelope.ID), len(a.Delivery.Recipients))
		}
		if c.Hung {
			line += " ending"
		}
		s.print(line)
	}
	for _, t := range s.world.Core.View(100).Transports {
		for _, d := range t.Queues {
			if c := d.Connections; c.Waits != conns.WaitNone {
				nexthop := d.Nexthop
				if d.Source != "" {
					nexthop += " from " + d.Source
				}
				s.print(fmt.Sprintf("%s: window %d, connecting %d, ready %d, waiting %d for %v", nexthop, d.Window, c.Connecting, c.Ready, d.Todo, c.Waits))
			}
		}
	}
}

// destination prints everything about a destination: its hosts, then its
// connections.
func (s *script) destination(tb testing.TB, l *golden.Line) {
	tb.Helper()
	v, ok := s.world.Core.Destination("smtp", l.Word(tb, 0), 10)
	if !ok {
		s.print("nothing")
		return
	}
	c := v.Queue.Connections
	s.print(fmt.Sprintf("%v, window %d, connecting %d, ready %d, waits for %v", v.Queue.State, v.Queue.Window, c.Connecting, c.Ready, c.Waits))
	for _, h := range v.Hosts {
		line := fmt.Sprintf("tier %d %s %v, connections %d", h.Tier, h.Host.Name, h.Known.State, h.Connections)
		if h.Known.Failures > 0 {
			line += fmt.Sprintf(", failures %d: %v", h.Known.Failures, h.Known.Reason)
		}
		s.print(line)
	}
	for _, c := range v.Connections {
		line := fmt.Sprintf("connection %d to %s %v at %v, carries %d, room for %d, carried %d", c.ID, c.Host.Name, c.State, c.Level, c.Entries, c.Room, c.Carried)
		if c.IdleFrom != 0 {
			line += fmt.Sprintf(", idle for %v", s.world.Now.Sub(c.IdleFrom))
		}
		s.print(line)
	}
}
