package qmgrtest

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/posthaste-mta/posthaste/internal/golden"
	"github.com/posthaste-mta/posthaste/mail"
	"github.com/posthaste-mta/posthaste/qmgr"
	"github.com/posthaste-mta/posthaste/qmgr/destdb"
	"github.com/posthaste-mta/posthaste/qmgr/warmup"
	"github.com/posthaste-mta/posthaste/trace"
)

// A script is a conversation with a core. The output of a block is what the core
// did meanwhile, as trace lines; messages have names, and instants are relative to
// the start.
//
// By default the world answers everything except deliveries at once. The commands:
//
//	config KEY=VALUE…           see config.go; before the first other command, or a reload
//	manual                      answer nothing by default from now on
//	auto                        answer again
//	show WORD…                  print only these actions; "all" for all
//	hand WORD…                  answer these actions only on command
//	route DOMAIN [transport=T] [nexthop=N] [site=S] [reply="550 5.1.2 text"]
//	lookup DOMAIN …             like route, but it needs a lookup every time; "*" for all others
//	credential SENDER NAME      by which mail of a sender goes, with "config by-sender"
//	reroute                     what waits is routed again
//	found NEXTHOP…              end lookups
//	verify NUMBER NEXTHOP client=ADDRESS [to=RECIPIENT] [routed] [site=S] [transport=T] [credential=C]
//	arrive NAME to=LIST [from=A] [notify=WORDS] [size=N] [keep=TIME] [tls=required|optional] [verp=DELIMITERS]
//	            [return-by=TIME] [notify-by=TIME] [avoids=HOST,HOST] [due=TIME [tried=TIME]]
//	            due: it was deferred until then, by an attempt at another instant, before the core started
//	store NAME …                like arrive, but the core is not notified
//	late NAME                   the core is notified of a stored message, in the state it had then
//	                            LIST: addresses; 3*a.test: three recipients there; 3*distinct: each elsewhere
//	deliver WHICH HOW           end deliveries: WHICH is a number, a message or all;
//	                            HOW is ok fail soft site crash mixed, or a list of
//	                            these for consecutive recipients: ok,soft
//	zone DOMAIN TIER… [reply="550 5.1.2 text"]
//	                            its hosts, such as mx1,mx2 mx9, and other@mx1 by another name; without a
//	                            zone there are a few for all
//	worked HOST…                hosts of transport smtp have accepted mail now
//	dial N HOW [level=L] [mails=N] [rtt=TIME]
//	                            end dialing (with "hand dial"): N is a connection, 3-5 or all;
//	                            HOW is ok, fail, busy, self, unbound, insecure, unfit, sockets
//	sent N HOW                  end the oldest transaction of connections; HOW may also be mute,
//	                            for a call-out whose sender is refused
//	close N WHY [HOW]           end connections, after their transactions, which end as HOW says;
//	                            HOW may also be unsent and unknown; the rest was not begun
//	destination NEXTHOP         everything that the core holds of it
//	connections                 ready connections, their transactions, and what sites wait for
//	answer WORD…                answer outstanding actions of these kinds, "all" for all
//	trouble NAME WHY [report]   the next read of it, or report on it, fails: gone corrupt temporary
//	advance DURATION            time passes; the core is stepped when it wakes
//	hold|release|drop|retry NAME… [reason=T]
//	                            NAME may be that of a call-out: call-out-1, call-out-2 …
//	flush                       retry everything
//	warmup SOURCE [day=N|order=pause|resume|reset] [site=S]
//	                            an operator's order; without one, where the source's sites are
//	suspend SCOPE VALUE [for=TIME] [by=WHO] [reason=TEXT]
//	resume SCOPE VALUE          an operator's orders, which are saved; SCOPE is site, domain, transport, source, tenant or class
//	suspensions                 those in force
//	halt                        start nothing new
//	save                        warm-ups and measures are saved, and what changes of hosts from now on
//	crash [rules=LIST] [after=TIME]
//	                            the core loses its memory, and another one starts so much later with what was
//	                            saved; rules as below
//	rules LIST                  the rules on replies that there are; "none" for none. A rule has demanded something
//	                            with the refusals of deliver, dial, sent and close: rule=NAME [rest=TIME]
//	                            [concurrency=N] [rate=N/min] [for=TIME] [times=N within=TIME] [said=TEXT]
//	destinations                what rules demand of each destination from each source
//	agent T [times=N]           offer agents
//	unavailable T [reply="451 4.3.0 text"]
//	                            no agent of it can be started
//	select [T:N…]               which transport gets an agent, if N are on their way?
//	run [lanes=N] [transport=T] [print=sequence]
//	                            deliver everything with N agents; deliveries end one after another
//	dump                        every counter of the core
//	spool                       where each message is, and the results of its recipients
//	lookups                     number of lookups under way, by message
//	waiting                     actions that have not been answered
type script struct {
	cfg   qmgr.Config
	seed  uint64
	world *World
	names map[string]mail.QueueID
	known []string // names in order of appearance
	text  map[mail.QueueID]string
	hints map[mail.QueueID]qmgr.Arrived // of late arrivals
	hand  bool                          // answer nothing by default
	held  []string                      // kinds of actions that are not answered by default either
	show  []string                      // empty: all
	out   strings.Builder
}

// Handler returns a handler for scripts, with a world of its own.
func Handler() golden.Handler {
	s := &script{seed: 1, names: make(map[string]mail.QueueID), text: make(map[mail.QueueID]string), hints: make(map[mail.QueueID]qmgr.Arrived)}
	s.cfg.Backoff.JitterPercent = -1 // jitter would hide what scripts show
	return s.answer
}

func (s *script) answer(tb testing.TB, b *golden.Block) string {
	tb.Helper()
	s.out.Reset()
	for _, l := range b.Lines {
		s.command(tb, l)
	}
	if s.world != nil {
		for _, v := range s.world.Violations {
			tb.Errorf("%s: the core has violated a rule: %s", b.Pos, v)
		}
		s.world.Violations = nil
	}
	if s.out.Len() == 0 {
		return "ok"
	}
	return s.out.String()
}

func (s *script) command(tb testing.TB, l *golden.Line) {
	tb.Helper()
	switch l.Name {
	case "config":
		s.config(tb, l)
		return
	case "manual":
		s.hand = true
	case "auto":
		s.hand = false
	case "hand":
		s.held = slices.Clone(l.Words)
	case "show":
		s.show = slices.Clone(l.Words)
		if l.Has("all") {
			s.show = nil
		}
		return
	}
	s.start(tb)
	demanded := measureOf(tb, l)
	s.world.Measure = func() *mail.Measure { return demanded }
	switch l.Name {
	case "manual", "auto", "hand":
	case "found":
		s.found(tb, l)
	case "verify":
		s.verify(tb, l)
	case "route", "lookup":
		s.route(tb, l)
	case "credential":
		s.world.Credentials[mail.Address(l.Word(tb, 0))] = l.Word(tb, 1)
	case "zone":
		s.zone(tb, l)
	case "dial", "sent", "close":
		s.converse(tb, l)
	case "reroute":
		s.world.Step(qmgr.Reroute{})
	case "arrive", "store":
		s.arrive(tb, l)
	case "late":
		s.world.Step(s.hints[s.id(tb, l, 0)])
	case "deliver":
		s.deliver(tb, l)
	case "answer":
		s.answerThese(tb, l)
	case "trouble":
		if l.Has("report") {
			s.world.ReportTrouble[s.id(tb, l, 0)] = trouble(tb, l, 1)
		} else {
			s.world.Trouble[s.id(tb, l, 0)] = trouble(tb, l, 1)
		}
	case "advance":
		s.advance(tb, l)
	case "hold", "release", "drop", "retry", "flush", "halt":
		s.operate(tb, l)
	case "suspend", "resume", "suspensions":
		s.suspension(tb, l)
	case "warmup":
		s.warmup(tb, l)
	case "worked":
		s.worked(tb, l)
	case "heard":
		s.heard(tb, l)
	case "save":
		s.world.Save()
	case "crash":
		s.crash(tb, l)
	case "rules":
		s.world.Rules = rules(l.Word(tb, 0))
		s.world.Step(qmgr.Rules{Names: s.world.Rules})
	default:
		s.look(tb, l)
	}
	s.settle()
}

// start creates the world when the first command needs it.
func (s *script) start(tb testing.TB) {
	tb.Helper()
	if s.world != nil {
		return
	}
	w, err := New(s.cfg, s.seed)
	if err != nil {
		tb.Fatal(err)
	}
	s.world = w
	w.Format = trace.Format{Name: s.name, Epoch: w.Now}
	w.Log = s.log
	s.settle()
}

func (s *script) print(line string) { s.out.WriteString(line + "\n") }

// log prints a line of the trace if it is an action of a kind that is shown.
func (s *script) log(line string) {
	words := strings.SplitN(line, " ", 3)
	if words[1] == ">" || len(s.show) > 0 && !slices.Contains(s.show, words[1]) {
		return
	}
	s.print(line)
}

func (s *script) name(id mail.QueueID) string {
	if text, ok := s.text[id]; ok {
		return text
	}
	if n := ^uint64(id); n < 1<<32 {
		return fmt.Sprint("call-out-", n)
	}
	return id.String()
}

// id returns the message named by a word.
func (s *script) id(tb testing.TB, l *golden.Line, i int) mail.QueueID {
	tb.Helper()
	name := l.Word(tb, i)
	if n, err := strconv.ParseUint(strings.TrimPrefix(name, "call-out-"), 10, 32); err == nil && strings.HasPrefix(name, "call-out-") {
		return mail.CalloutID(uint32(n))
	}
	id, ok := s.names[name]
	if !ok {
		tb.Fatalf("%s: no message %s", l.Pos, l.Words[i])
	}
	return id
}

// trouble returns the trouble named by a word.
func trouble(tb testing.TB, l *golden.Line, i int) qmgr.Trouble {
	tb.Helper()
	for why := qmgr.TroubleGone; why <= qmgr.TroubleTemporary; why++ {
		if why.String() == l.Word(tb, i) {
			return why
		}
	}
	tb.Fatalf("%s: %s is no trouble", l.Pos, l.Words[i])
	return 0
}

// settle answers everything except deliveries, unless the script does so itself.
func (s *script) settle() {
	w := s.world
	for i := 0; !s.hand && (i < len(w.Outstanding) || s.sayGoodbye()); {
		if i == len(w.Outstanding) {
			i = 0
			continue
		}
		if _, delivery := w.Outstanding[i].(qmgr.Deliver); delivery || len(s.held) > 0 && slices.Contains(s.held, kindOf(w.Outstanding[i])) {
			i++
			continue
		}
		w.Answer(w.Take(i))
		i = 0
	}
}

// endingWords are the names of endings, in the order of Ending.
var endingWords = []string{"ok", "fail", "soft", "mixed", "site", "crash"}

func (s *script) advance(tb testing.TB, l *golden.Line) {
	tb.Helper()
	d, err := time.ParseDuration(l.Word(tb, 0))
	if err != nil {
		tb.Fatalf("%s: %s is not a duration", l.Pos, l.Words[0])
	}
	w := s.world
	end := w.Now.Add(d)
	for steps := 0; ; steps++ {
		wake, ok := w.Core.NextWake()
		if !ok || wake > end {
			break
		}
		if steps > 10000 {
			tb.Fatalf("%s: the core does not come to rest", l.Pos)
		}
		w.Now = max(w.Now, wake)
		w.Step(qmgr.Wake{})
		s.settle()
	}
	w.Now = end
	w.Step(qmgr.Wake{})
}

func (s *script) operate(tb testing.TB, l *golden.Line) {
	tb.Helper()
	ids := make([]mail.QueueID, len(l.Words))
	for i := range l.Words {
		ids[i] = s.id(tb, l, i)
	}
	switch l.Name {
	case "hold":
		s.world.Step(qmgr.Hold{IDs: ids, Reason: l.Str("reason", "")})
	case "release":
		s.world.Step(qmgr.Release{IDs: ids})
	case "drop":
		for _, id := range ids {
			if m := s.world.Messages[id]; m != nil {
				m.Dropped = true
			}
		}
		s.world.Step(qmgr.Drop{IDs: ids})
	case "retry":
		s.world.Step(qmgr.Retry{IDs: ids})
	case "flush":
		s.world.Step(qmgr.RetryAll{})
	case "halt":
		s.world.Step(qmgr.Halt{})
	}
}

// heard brings what another node has learned of hosts of transport smtp now: that they work, or with fails=WAIT that they
// fail, and may be tried again after that time. With ago=TIME it was some time ago.
func (s *script) heard(tb testing.TB, l *golden.Line) {
	tb.Helper()
	at := s.world.Now.Add(-l.Duration(tb, "ago", 0))
	r := destdb.Record{Used: at, Health: destdb.Health{At: at}}
	if wait := l.Duration(tb, "fails", 0); wait > 0 {
		r.Health.Failures, r.Health.RetryAt = 1, at.Add(wait)
		r.Health.Reason = mail.Reply{Code: 451, Status: mail.Status{Class: 4, Subject: 4, Detail: 1}, Text: l.Str("said", "no answer, says another node")}
	}
	s.world.Step(qmgr.Heard{Hosts: hostRecords(tb, l, r)})
}

// hostRecords has the same record for each host that is named.
func hostRecords(tb testing.TB, l *golden.Line, r destdb.Record) (hosts []mail.HostRecord) {
	tb.Helper()
	for _, name := range l.Words {
		h := zoneHost(tb, l, name)
		key, ok := destdb.AppendKey(nil, destdb.Key{Addr: h.Addr, Transport: "smtp"})
		if !ok {
			tb.Fatalf("%s: %s cannot be remembered", l.Pos, name)
		}
		hosts = append(hosts, mail.HostRecord{Key: key, Value: destdb.AppendRecord(nil, r)})
	}
	return hosts
}

// worked records that hosts of transport smtp have accepted mail now.
func (s *script) worked(tb testing.TB, l *golden.Line) {
	tb.Helper()
	at := s.world.Now
	r := destdb.Record{Used: at, Health: destdb.Health{At: at}, Pace: destdb.Pace{At: at, RTT: time.Millisecond, RTTMin: time.Millisecond}}
	s.world.Step(qmgr.Learned{Hosts: hostRecords(tb, l, r)})
}

// warmup gives an order, or shows a source's warm-up.
func (s *script) warmup(tb testing.TB, l *golden.Line) {
	tb.Helper()
	o := warmup.Order{Key: warmup.Key{Source: l.Word(tb, 0), Site: l.Str("site", "")}, Day: l.Int(tb, "day", 0)}
	switch kind, given := l.Option("order"); {
	case kind == "pause":
		o.Kind = warmup.Pause
	case kind == "resume":
		o.Kind = warmup.Resume
	case kind == "reset":
		o.Kind = warmup.Reset
	case given:
		tb.Fatalf("%s: order= is pause, resume or reset", l.Pos)
	case o.Day == 0:
		v, _ := s.world.Core.Warmup(o.Key.Source, 10)
		for _, site := range v.Top {
			fmt.Fprintf(&s.out, "%s to %s: %s, day %d, %d of %d; %d delivered, %d deferred, %d bounced\n", v.Name, site.Site, site.State, site.Day,
				site.Taken, site.Of, site.Delivered, site.Deferred, site.Bounced)
		}
		return
	}
	s.world.Step(qmgr.AdjustWarmup{Order: o})
}

func (s *script) crash(tb testing.TB, l *golden.Line) {
	tb.Helper()
	s.seed++
	if text, given := l.Option("rules"); given {
		s.world.Rules = rules(text)
	}
	s.world.Now = s.world.Now.Add(l.Duration(tb, "after", 0))
	if err := s.world.Restart(s.cfg, s.seed); err != nil {
		tb.Fatalf("%s: %v", l.Pos, err)
	}
}

func (s *script) selectTransport(tb testing.TB, l *golden.Line) {
	tb.Helper()
	pending := make(map[string]int)
	for _, w := range l.Words {
		transport, count, _ := strings.Cut(w, ":")
		n, err := strconv.Atoi(count)
		if err != nil {
			tb.Fatalf("%s: %s is not TRANSPORT:NUMBER", l.Pos, w)
		}
		pending[transport] = n
	}
	s.world.Step(qmgr.SelectTransport{Pending: pending})
}

// run delivers everything that can be selected, always with success.
func (s *script) run(tb testing.TB, l *golden.Line) {
	tb.Helper()
	lanes, transport := l.Int(tb, "lanes", 1), l.Str("transport", "smtp")
	sequence := l.Str("print", "actions") == "sequence"
	if sequence {
		defer func(show []string) { s.show = show }(s.show)
		s.show = []string{"nothing"}
	}
	var order []string
	isDelivery := func(a qmgr.Action) bool { _, is := a.(qmgr.Deliver); return is }
	running := s.take(isDelivery)
	for {
		for len(running) < lanes {
			s.world.Step(qmgr.AgentReady{Transport: transport})
			s.settle()
			picked := s.take(isDelivery)
			if len(picked) == 0 {
				break
			}
			running = append(running, picked...)
			order = append(order, strings.TrimLeft(s.name(picked[0].(qmgr.Deliver).Delivery.Envelope.ID), "m"))
		}
		if len(running) == 0 {
			break
		}
		s.world.Deliver(running[0].(qmgr.Deliver), Accepted)
		s.settle()
		running = running[1:]
	}
	if sequence {
		s.print(strings.Join(order, " "))
	}
}
