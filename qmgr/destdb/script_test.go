package destdb

import (
	"fmt"
	"net/netip"
	"strings"
	"testing"
	"time"

	"github.com/posthaste-mta/posthaste/internal/golden"
	"github.com/posthaste-mta/posthaste/mail"
)

// The scripts are the manual of the database: read them before the code. This
// file is the manual of their language.
func TestScripts(t *testing.T) {
	golden.RunAll(t, "testdata/*.txt", func() golden.Handler {
		s := &script{}
		return s.handle
	})
}

// epoch is the start of scripts, which show times relative to it.
const epoch = mail.Instant(1_000_000 * time.Second)

// A script has one database at a time, one clock, and at most one connection per
// host.
type script struct {
	db     *DB
	feed   *Feed
	outage Outage
	now    mail.Instant
	made   map[Key]mail.Instant // when the open connections became ready
	out    strings.Builder
}

func (s *script) handle(tb testing.TB, b *golden.Block) string {
	s.out.Reset()
	for _, l := range b.Lines {
		s.command(tb, l)
		if s.db != nil {
			s.db.check()
		}
	}
	return s.out.String()
}

func (s *script) printf(format string, args ...any) { fmt.Fprintf(&s.out, format+"\n", args...) }

func (s *script) command(tb testing.TB, l *golden.Line) {
	tb.Helper()
	switch l.Name {
	case "new": // new [hosts=N] [factor=N]: an empty database; the clock shows 0s
		s.db = New(Config{HostLimit: l.Int(tb, "hosts", 0), TarpitFactor: l.Int(tb, "factor", 0)}, 1)
		s.feed = s.db.NewFeed()
		s.now, s.made, s.outage = epoch, map[Key]mail.Instant{}, Outage{}
	case "wait": // wait TIME
		d, err := time.ParseDuration(l.Word(tb, 0))
		if err != nil {
			tb.Fatalf("%s: %v", l.Pos, err)
		}
		s.now = s.now.Add(d)
	case "show": // show HOST…: state and what follows from it
		for _, name := range l.Words {
			s.show(name)
		}
	case "facts": // facts HOST…: learned facts
		for _, name := range l.Words {
			s.facts(name)
		}
	case "collect": // collect [look=N]
		gone := s.db.Collect(s.now, l.Int(tb, "look", 1000))
		s.printf("%d gone, %d kept", gone, s.db.Len())
	case "changed": // changed [max=N]: names the records to save
		for _, c := range s.feed.Changed(nil, l.Int(tb, "max", 1000)) {
			s.printf("%v gone=%v", c.Key, c.Gone)
		}
		s.printf("lost %d", s.feed.Lost())
	case "results": // results hosts=N fail=N [from=N] [age=TIME]: as many hosts have been tried
		s.results(tb, l)
	case "probes": // probes yes|no…: attempts of an outage, one after the other
		for _, word := range l.Words {
			s.now = s.outage.ProbeAt()
			s.outage.Tried(s.now)
			changed := s.outage.Result(host1, s.now, s.now.Add(time.Millisecond), word == "yes")
			s.printf("probe at %v: %s, over %v", s.now.Sub(epoch), word, changed)
		}
	default:
		s.connection(tb, l)
	}
}

// connection executes commands about a host's connection.
func (s *script) connection(tb testing.TB, l *golden.Line) {
	k := key(l.Word(tb, 0))
	switch l.Name {
	case "open":
		s.db.Open(k, s.now)
	case "ready":
		s.made[k] = s.now
		s.db.Succeeded(k, s.now)
	case "lift": // lift HOST: enough messages succeed at the level of its hold
		for range 3 {
			s.db.Open(k, s.now)
			s.db.Succeeded(k, s.now)
			life := Life{MadeAt: s.now, Messages: 20, Clean: 20, Level: s.db.View(k, s.now).Level}
			s.db.Shut(k, life, s.now)
		}
	case "fail": // fail HOST [began=TIME]: an attempt to connect that began that long ago failed
		at := s.db.Failed(k, s.now.Add(-l.Duration(tb, "began", 0)), s.now, mail.Reply{Code: 451, Text: "no answer"})
		s.printf("left alone for %v", at.Sub(s.now).Round(time.Second))
		s.db.Shut(k, Life{}, s.now)
	case "shut": // shut HOST [messages=N] [clean=N] [level=LEVEL] [dropped] [outlived]
		life := Life{MadeAt: s.made[k], Messages: uint32(l.Int(tb, "messages", 1)), Clean: uint32(l.Int(tb, "clean", 0))}
		delete(s.made, k)
		if err := life.Level.UnmarshalText([]byte(l.Str("level", "overlap"))); err != nil {
			tb.Fatalf("%s: %v", l.Pos, err)
		}
		if l.Has("dropped") {
			life.Why = mail.CloseLost
		}
		life.Outlived = l.Has("outlived")
		s.db.Shut(k, life, s.now)
	case "stepdown": // stepdown HOST from=LEVEL
		var from mail.Level
		if err := from.UnmarshalText([]byte(l.Str("from", "overlap"))); err != nil {
			tb.Fatalf("%s: %v", l.Pos, err)
		}
		s.db.StepDown(k, from, s.now)
	case "supports", "suspect": // supports|suspect HOST [level=LEVEL] [times=N]
		level := mail.LevelOverlap
		if err := level.UnmarshalText([]byte(l.Str("level", "overlap"))); err != nil {
			tb.Fatalf("%s: %v", l.Pos, err)
		}
		observe := s.db.Supports
		if l.Name == "suspect" {
			observe = s.db.Suspect
		}
		for range l.Int(tb, "times", 1) {
			observe(k, level, s.now)
		}
	case "forever": // forever HOST: at group, as after a message under a wrong envelope
		s.db.HoldForever(k, mail.LevelGroup, s.now)
	case "proof": // proof HOST passed|failed|executes
		s.db.Probed(k, map[string]mail.Proof{
			"passed": mail.ProofPassed, "failed": mail.ProofFailed, "executes": mail.ProofExecutes,
		}[l.Word(tb, 1)], s.now)
	case "service", "rtt": // service|rtt HOST of=TIME [times=N]
		observe := s.db.ObserveService
		if l.Name == "rtt" {
			observe = s.db.ObserveRTT
		}
		for range l.Int(tb, "times", 1) {
			observe(k, l.Duration(tb, "of", 0), s.now)
		}
	default:
		tb.Fatalf("%s: no such command: %s", l.Pos, l.Name)
	}
}

// key returns the key of a host that a script names a, b, …
func key(name string) Key {
	return Key{Addr: netip.AddrPortFrom(netip.AddrFrom4([4]byte{192, 0, 2, name[0] - 'a' + 1}), 25)}
}

var host1 = key("a").Addr.Addr()

func (s *script) since(at mail.Instant) string {
	switch at {
	case 0:
		return "-"
	case mail.Never:
		return "never"
	}
	return at.Sub(epoch).Round(time.Second).String()
}

func (s *script) show(name string) {
	k := key(name)
	state, at := s.db.State(k, s.now)
	v := s.db.View(k, s.now)
	s.printf("%8v  %s %-11v %-8s open=%d failures=%d retry=%s",
		s.now.Sub(epoch), name, state, s.since(at), v.Open, v.Failures, s.since(v.RetryAt))
	if v.State != state || v.At != at || v.RetryAt != s.db.RetryAt(k, s.now) {
		s.printf("  the view says %v %v %v", v.State, v.At, v.RetryAt)
	}
}

func (s *script) facts(name string) {
	v := s.db.View(key(name), s.now)
	s.printf("%8v  %s %v held=%s streams=%v executes=%v probe=%s messages=%d rtt=%v/%v service=%v slow=%v",
		s.now.Sub(epoch), name, v.Level, s.since(v.HeldUntil), v.Streams, v.Executes, s.since(v.ProbeAt), v.MessagesMax,
		v.RTT.Round(time.Microsecond), v.RTTMin.Round(time.Microsecond), v.Service.Round(time.Microsecond), v.Slow)
}

func (s *script) results(tb testing.TB, l *golden.Line) {
	from := l.Int(tb, "from", 0)
	fails := l.Int(tb, "fail", 0)
	for i := range l.Int(tb, "hosts", 0) {
		addr := netip.AddrFrom4([4]byte{198, 51, byte((from + i) >> 8), byte(from + i)})
		if s.outage.Result(addr, s.now.Add(-l.Duration(tb, "age", 0)), s.now, i >= fails) {
			s.printf("changed by result %d", i+1)
		}
	}
	s.printf("down since %s, next attempt at %s", s.since(s.outage.Since()), s.since(s.outage.ProbeAt()))
}
