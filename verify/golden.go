package verify

import (
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/posthaste-mta/posthaste/mail"
	"github.com/posthaste-mta/posthaste/qmgr"
)

// Golden drives a queue manager through the directives of in and compares what
// it answers, line by line, with out. It returns a *Difference where they part,
// and another error if in cannot be understood.
//
// There are recordings of both of Postfix's schedulers. The dumps in out show which
// one it is; if there are none, and the preemptive one differs, the other is tried.
func Golden(in, out []byte) error {
	want := strings.Split(strings.TrimSuffix(string(out), "\n"), "\n")
	schedulers := schedulersOf(want)
	err := replay(string(in), want, schedulers[0])
	if err != nil && len(schedulers) > 1 && replay(string(in), want, schedulers[1]) == nil {
		return nil
	}
	return err
}

// schedulersOf returns the schedulers with which a recording was made, by its dumps.
func schedulersOf(out []string) []qmgr.Scheduler {
	for _, line := range out {
		if words := strings.Fields(line); len(words) > 1 && words[0] == "xport" {
			if strings.Contains(line, " unused=") {
				return []qmgr.Scheduler{qmgr.Preemptive}
			}
			return []qmgr.Scheduler{qmgr.RoundRobin}
		}
	}
	return []qmgr.Scheduler{qmgr.Preemptive, qmgr.RoundRobin}
}

func replay(in string, want []string, scheduler qmgr.Scheduler) error {
	got, err := newGolden(scheduler).run(in)
	if err != nil {
		return fmt.Errorf("%w: %w", ErrNoRecording, err)
	}
	return compareLines(got, want)
}

func compareLines(got, want []string) error {
	for i := range max(len(got), len(want)) {
		g, w := "nothing", "nothing"
		if i < len(got) {
			g = got[i]
		}
		if i < len(want) {
			w = want[i]
		}
		if g != w {
			return &Difference{Line: i + 1, Got: g, Want: w}
		}
	}
	return nil
}

// A golden is the state of one run.
type golden struct {
	settings *settings
	routed   map[string]bool // transports that exist
	now      mail.Instant
	host     *host // nil until the first directive that needs the core
	pending  map[string]int
	picked   []qmgr.Deliver // by the number of the selection
	done     []bool
	out      []string
}

func newGolden(scheduler qmgr.Scheduler) *golden {
	standard := qmgr.TransportConfig{Scheduler: scheduler, Agents: qmgr.AgentsOffered, PerRecipientQueues: true}
	s := newSettings(standard)
	s.direct = true
	return &golden{settings: s, routed: make(map[string]bool), pending: make(map[string]int)}
}

func (g *golden) run(in string) ([]string, error) {
	for n, line := range strings.Split(in, "\n") {
		words := strings.Fields(line)
		if len(words) == 0 || strings.HasPrefix(words[0], "#") {
			continue
		}
		err := g.directive(words[0], words[1:])
		if errors.Is(err, errRefused) {
			break
		}
		if err != nil {
			return nil, fmt.Errorf("line %d: %s: %w", n+1, words[0], err)
		}
	}
	return g.out, nil
}

// errRefused ends a run where the recorder ended: it was ordered to finish a
// delivery that is not under way.
var errRefused = errors.New("not a delivery under way")

// directive carries out one line.
func (g *golden) directive(name string, args []string) error {
	d, known := directives[name]
	if !known {
		return fmt.Errorf("unknown directive")
	}
	if len(args) < d.least || d.most >= 0 && len(args) > d.most {
		return fmt.Errorf("%d words after the directive", len(args))
	}
	if d.core && g.host == nil {
		if err := g.start(); err != nil {
			return err
		}
	}
	return d.do(g, args)
}

type directive struct {
	least, most int  // words after the name; most -1: any number
	core        bool // needs the core
	do          func(*golden, []string) error
}

// directives is the language, see "Golden vectors" in the package comment.
var directives = map[string]directive{
	"set":  {2, 2, false, (*golden).set},
	"var":  {2, 2, false, (*golden).setVar},
	"now":  {1, 1, false, (*golden).setNow},
	"msg":  {2, -1, true, (*golden).message},
	"msgn": {3, -1, true, (*golden).numbered},
	"sel":  {1, 1, true, (*golden).selectEntry},
	"done": {2, 2, true, (*golden).finish},
	"xsel": {0, 0, true, (*golden).selectTransport},
	"pend": {2, 2, true, (*golden).setPending},
	"dump": {0, 0, true, (*golden).dump},
}

func (g *golden) print(format string, args ...any) {
	g.out = append(g.out, fmt.Sprintf(format, args...))
}

func (g *golden) start() error {
	h, err := newHost(g.settings.config(), g.now, g.route)
	g.host = h
	return err
}

// route goes by the address: the transport is what follows the last dot.
func (g *golden) route(_ mail.QueueID, r mail.Recipient) mail.Route {
	domain := r.Address.Domain()
	transport := domain[strings.LastIndexByte(domain, '.')+1:]
	g.routed[transport] = true
	return mail.Route{Transport: transport, Nexthop: domain}
}

func (g *golden) set(args []string) error { return g.apply(args[0], args[1]) }

// apply sets a parameter. A transport reads its parameters when it is created, so
// later ones are lost on it.
func (g *golden) apply(name, value string) error {
	before := g.settings.config()
	if err := g.settings.set(name, value); err != nil {
		return err
	}
	if g.host == nil {
		return nil
	}
	cfg := g.settings.config()
	for t := range g.routed { //archtest:anyorder each transport keeps its own
		cfg.Transports[t] = before.DefaultTransport
		if c, set := before.Transports[t]; set {
			cfg.Transports[t] = c
		}
	}
	g.host.step(qmgr.Configure{Config: cfg})
	return nil
}

func (g *golden) setVar(args []string) error {
	switch args[0] {
	case "var_qmgr_active_limit":
		return g.apply("qmgr_message_active_limit", args[1])
	case "var_qmgr_rcpt_limit":
		return g.apply("qmgr_message_recipient_limit", args[1])
	case "var_qmgr_fudge":
		return g.apply("qmgr_fudge_factor", args[1])
	case "var_qmgr_msg_rcpt_limit":
		return g.apply("qmgr_message_recipient_minimum", args[1])
	}
	return fmt.Errorf("unknown variable %s", args[0])
}

func (g *golden) setNow(args []string) error {
	text, relative := strings.CutPrefix(args[0], "+")
	n, err := strconv.ParseInt(text, 10, 64)
	if err != nil {
		return fmt.Errorf("%q is not a time", args[0])
	}
	if relative {
		n += g.now.Seconds()
	}
	if seconds(n) < g.now {
		return fmt.Errorf("time goes back to %d", n)
	}
	g.now = seconds(n)
	if g.host != nil {
		g.host.advance(g.now)
	}
	return nil
}

func (g *golden) message(args []string) error { return g.admit(args[0], args[1:]) }

// numbered admits a message whose recipients go round a list of domains.
func (g *golden) numbered(args []string) error {
	n, err := strconv.Atoi(args[1])
	if err != nil || n < 1 {
		return fmt.Errorf("%q is not a number of recipients", args[1])
	}
	domains := args[2:]
	addresses := make([]string, n)
	for i := range addresses {
		addresses[i] = fmt.Sprintf("u%05d@%s", i, domains[i%len(domains)])
	}
	return g.admit(args[0], addresses)
}

func (g *golden) admit(name string, addresses []string) error {
	if slices.Contains(g.host.names, name) {
		return fmt.Errorf("message %s is there already", name)
	}
	g.host.admit(name, addresses)
	return nil
}

func (g *golden) selectEntry(args []string) error {
	d, ok := g.host.offer(args[0])
	if !ok {
		g.print("sel %s -> -", args[0])
		return nil
	}
	a := addresses(d)
	g.print("sel %s -> #%d %s %s n=%d first=%s", args[0], len(g.picked), g.host.name(d.Delivery.Envelope.ID),
		g.queueName(d), len(a), a[0])
	g.picked, g.done = append(g.picked, d), append(g.done, false)
	return nil
}

// queueName names the destination of a delivery: with a recipient limit of 1
// that is the recipient.
func (g *golden) queueName(d qmgr.Deliver) string {
	nexthop := plain(d.Delivery.Nexthop)
	t := d.Delivery.Transport
	if g.settings.transport(t).RecipientLimit != 1 || t == qmgr.TransportRetry || t == qmgr.TransportError {
		return nexthop
	}
	return strings.ToLower(d.Delivery.Recipients[0].Address.Local()) + "@" + nexthop
}

func (g *golden) finish(args []string) error {
	n, err := strconv.Atoi(args[0])
	if err != nil {
		return fmt.Errorf("%q is not a number", args[0])
	}
	if n < 0 || n >= len(g.picked) || g.done[n] {
		return errRefused
	}
	how := slices.Index([]string{"ok", "soft", "site", "crash"}, args[1])
	if how < 0 {
		return fmt.Errorf("%q is not an ending", args[1])
	}
	g.done[n] = true
	id := g.picked[n].Delivery.Envelope.ID
	g.host.finish(g.picked[n], ending(how))
	g.print("done #%d %s %s where=%s", n, g.host.name(id), args[1], g.whereabouts(id))
	return nil
}

func (g *golden) whereabouts(id mail.QueueID) string {
	place := g.host.messages[id].place
	switch {
	case g.host.core.InCore(id):
		return "active"
	case place.Area == mail.AreaDeferred:
		return fmt.Sprintf("deferred mtime=+%d", place.Due.Seconds()-g.host.now.Seconds())
	}
	return "gone"
}

func (g *golden) selectTransport([]string) error {
	g.host.step(qmgr.SelectTransport{Pending: g.pending})
	if g.host.selected == "" {
		g.print("xsel -> -")
	} else {
		g.print("xsel -> %s", g.host.selected)
	}
	return nil
}

func (g *golden) setPending(args []string) error {
	n, err := strconv.Atoi(args[1])
	if err != nil {
		return fmt.Errorf("%q is not a number", args[1])
	}
	g.pending[args[0]] = n
	return nil
}

func (g *golden) dump([]string) error {
	text := g.host.core.Dump(qmgr.DumpOptions{Name: g.host.name, Pending: g.pending})
	g.out = append(g.out, strings.Split(strings.TrimSuffix(plain(text), "\n"), "\n")...)
	return nil
}

// plain takes out what Postfix puts before a dead destination's reason: that
// happens in a part of it that the recordings did not go through.
func plain(text string) string { return strings.ReplaceAll(text, qmgr.SuspendedPrefix, "") }
