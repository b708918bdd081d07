package client

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/posthaste-mta/posthaste/internal/golden"
	"github.com/posthaste-mta/posthaste/mail"
	"github.com/posthaste-mta/posthaste/smtp"
)

// The scripts in testdata are dialogues. Their commands:
//
//	session level=LEVEL inflight=N self=NAME  a new connection; the level is group
//	                                          if nothing else is said; with tls=offered or
//	                                          tls=required it asks for TLS, with
//	                                          tls=implicit TLS comes first, with lmtp it
//	                                          speaks LMTP, and with auth= it
//	                                          authenticates, see scripted
//	secured, unsecured why="…"                TLS was negotiated, or not
//	server say="250-one|250 two"              lines from the server; raw= is sent as it is
//	tick TIME                                 so much time passes
//	start from=A to=B,C size=N 8bit utf8 …    a transaction; the options are ESMTP parameters,
//	                                          and with strict, mail that is returned by a deadline
//	                                          goes only to a server that promises that; ago=TIME
//	                                          is when by= was given
//	content text="…" [more]                   a piece of content, the last one unless more
//	withhold                                  no content for it after all
//	close, timeout, abandon                   the end of the connection
//	quit                                      say goodbye
//	probe from=A                              find out about streaming
//	cut octets=N                              only N octets of the output are written,
//	                                          and the connection is gone
//	late                                      from now on Written is called only by
//	written                                   this, which also ends that
//
// start with "callout" asks only. "stuck" behind content keeps it from being written.
//
// The answer has the octets that the client writes, what it wants, what became
// of recipients, and what it waits for at the end of the block. Replies and
// results of a probe are shown as well.

// scripted authenticates with given responses: the first is the initial one, "-" for none, and
// "!TEXT" an error. With a proof, success is complete once the server's challenge is that.
type scripted struct {
	responses []string
	proof     string
	complete  bool
}

func (a *scripted) Begin(offered []string, _ bool) (string, []byte, error) {
	if !slices.Contains(offered, "X-TEST") {
		return "", nil, fmt.Errorf("the server offers %q", offered)
	}
	if a.responses[0] == "-" {
		a.responses = a.responses[1:]
		return "X-TEST", nil, nil
	}
	initial, err := a.Answer(nil)
	return "X-TEST", initial, err
}

func (a *scripted) Answer(challenge []byte) ([]byte, error) {
	a.complete = a.complete || string(challenge) == a.proof
	response := a.responses[0]
	if len(a.responses) > 1 {
		a.responses = a.responses[1:]
	}
	if why, bad := strings.CutPrefix(response, "!"); bad {
		return nil, errors.New(why)
	}
	return []byte(strings.Repeat(response, 1+499*strings.Count(response, "long"))), nil
}

func (a *scripted) Complete() bool { return a.proof == "" || a.complete }

// A dialogue runs one script.
type dialogue struct {
	s      *Session
	octets bool // feed the server's words octet by octet
	stuck  bool // the connection does not take what is written
	late   bool // it does, but that is not known yet
	unsure int  // octets of which it is not known
	now    mail.Instant
	out    strings.Builder
}

func TestScripts(t *testing.T) {
	golden.RunAll(t, "testdata/*.txt", func() golden.Handler { return (&dialogue{}).handle })
}

// Where the server's words are cut must not matter: all scripts once more,
// octet by octet.
func TestScriptsOctetByOctet(t *testing.T) {
	golden.RunAll(t, "testdata/*.txt", func() golden.Handler { return (&dialogue{octets: true}).handle })
}

func (d *dialogue) handle(tb testing.TB, b *golden.Block) string {
	tb.Helper()
	d.out.Reset()
	for _, l := range b.Lines {
		d.command(tb, l)
		d.observe()
	}
	if !d.s.Over() {
		fmt.Fprintf(&d.out, "wait %v\n", d.s.Wait().Kind)
	}
	return d.out.String()
}

func (d *dialogue) command(tb testing.TB, l *golden.Line) {
	switch l.Name {
	case "session":
		cfg := Config{Hello: "me.example", Peer: "mx[192.0.2.1]", Self: l.Str("self", ""), Level: Group}
		for cfg.Level = LockStep; cfg.Level.String() != l.Str("level", "group"); cfg.Level++ {
			if cfg.Level > Stream {
				tb.Fatalf("%s: no such level", l.Pos)
			}
		}
		cfg.InFlight = l.Int(tb, "inflight", 0)
		cfg.TLS = map[string]TLSUse{"": TLSNever, "offered": TLSOffered, "required": TLSRequired, "implicit": TLSImplicit}[l.Str("tls", "")]
		cfg.LMTP = has(l, "lmtp")
		if responses := l.Str("auth", ""); responses != "" {
			cfg.Auth = &scripted{responses: strings.Split(responses, "|"), proof: l.Str("proof", "")}
		}
		d.s, d.stuck, d.late, d.unsure = New(cfg), false, false, 0
		d.s.Tick(d.now)
	case "server":
		text := strings.ReplaceAll(l.Str("say", ""), "|", "\r\n") + "\r\n"
		d.feed(l.Str("raw", text))
	case "start":
		t := transaction(tb, l)
		if text := l.Str("by", ""); text != "" {
			by, ok := smtp.ParseBy([]byte(text))
			if !ok {
				tb.Fatalf("%s: by=%s", l.Pos, text)
			}
			t.Envelope.By = by.Deadline(d.now.Add(-l.Duration(tb, "ago", 0)))
		}
		if !d.s.Room() {
			d.out.WriteString("no room\n")
			return
		}
		d.s.Start(t)
	case "tick":
		passes, err := time.ParseDuration(l.Words[0])
		if err != nil {
			tb.Fatalf("%s: %v", l.Pos, err)
		}
		d.now = d.now.Add(passes)
		d.s.Tick(d.now)
	case "content":
		d.stuck = has(l, "stuck")
		if d.s.Wanting() == nil {
			d.out.WriteString("no content wanted\n")
			return
		}
		d.s.Supply([]byte(l.Str("text", "")), !has(l, "more"))
	case "secured":
		d.s.Secured()
	case "unsecured":
		d.s.HandshakeFailed(l.Str("why", ""))
	case "withhold":
		d.s.Withhold()
	case "close":
		d.s.End(LossClosed)
	case "timeout":
		d.s.End(LossTimeout)
	case "abandon":
		d.s.End(LossAbandoned)
	case "quit":
		d.s.Quit()
	case "probe":
		if !d.s.MayProbe() {
			d.out.WriteString("no probe\n")
			return
		}
		d.s.Probe(mail.Address(l.Str("from", "a@example.org")))
	case "cut":
		d.cut(l.Int(tb, "octets", 0))
	case "late":
		d.late = true
	case "written":
		d.s.Written(d.unsure)
		d.late, d.unsure = false, 0
	default:
		tb.Fatalf("%s: unknown command %s", l.Pos, l.Name)
	}
}

func (d *dialogue) feed(text string) {
	if !d.octets {
		d.s.Feed([]byte(text))
		return
	}
	for i := range len(text) {
		d.s.Feed([]byte{text[i]})
	}
}

// cut writes a part of the pending output.
func (d *dialogue) cut(n int) {
	var text string
	for _, piece := range d.s.Out(nil) {
		text += string(piece)
	}
	d.stuck = false
	d.show(text[:n])
	d.s.Written(n)
	d.s.End(LossClosed)
}

func (d *dialogue) show(text string) {
	for line := range strings.Lines(text) {
		fmt.Fprintf(&d.out, "> %s\n", showEnd(line))
	}
}

// observe does a host's part after each command, and notes what happens.
func (d *dialogue) observe() {
	if d.stuck {
		return
	}
	for d.unsure == 0 {
		out := d.s.Out(nil)
		if len(out) == 0 {
			break
		}
		var text string
		for _, piece := range out {
			text += string(piece)
		}
		d.show(text)
		if d.late {
			d.unsure = len(text)
		} else {
			d.s.Written(len(text))
		}
	}
	if t := d.s.Wanting(); t != nil && t.Whole() {
		d.out.WriteString("wants whole content\n")
	} else if t != nil {
		d.out.WriteString("wants content\n")
	}
	for t := d.s.Next(); t != nil; t = d.s.Next() {
		for i, r := range t.Results {
			fmt.Fprintf(&d.out, "%s %v: %v\n", t.Recipients[i].Address, r.Verdict, show(r.Reply))
		}
		if t.Astray() {
			d.out.WriteString("astray\n")
		}
		if t.Callout && t.SenderRefused() {
			d.out.WriteString("sender refused\n")
		}
	}
	if d.s.Over() {
		f := d.s.Failure()
		down := ""
		if f.Down {
			down = ", step down from " + f.Level.String()
		}
		if p := d.s.Probed(); p != ProbeNone {
			fmt.Fprintf(&d.out, "probe: %v\n", p)
		}
		fmt.Fprintf(&d.out, "over: %v while waiting for %v%s: %v\n", f.Kind, f.Stage, down, show(f.Reply))
	}
}

// showEnd makes a line end other than CRLF visible.
func showEnd(line string) string {
	if text, ok := strings.CutSuffix(line, "\r\n"); ok {
		return text
	}
	return fmt.Sprintf("%q", line)
}

func show(r mail.Reply) string {
	by := ""
	if r.By == "" && !r.IsZero() {
		by = " (ours)"
	}
	return r.String() + by
}

func transaction(tb testing.TB, l *golden.Line) *Transaction {
	t := &Transaction{Envelope: mail.Envelope{
		Sender:   mail.Address(l.Str("from", "a@example.org")),
		EnvID:    l.Str("envid", ""),
		Size:     int64(l.Int(tb, "size", 100)),
		SMTPUTF8: has(l, "utf8"),
	}, Unstreamed: has(l, "unstreamed"), Callout: has(l, "callout"), StrictBy: has(l, "strict")}
	if has(l, "8bit") {
		t.Envelope.Body = mail.Body8BitMIME
	}
	switch l.Str("ret", "") {
	case "hdrs":
		t.Envelope.Ret = mail.RetHeaders
	case "full":
		t.Envelope.Ret = mail.RetFull
	}
	var notify mail.Notify
	switch l.Str("notify", "") {
	case "success":
		notify = mail.NotifySuccess
	case "never":
		notify = mail.NotifyNever
	case "failure":
		notify = mail.NotifyFailure
	}
	for i, to := range strings.Split(l.Str("to", "b@example.net"), ",") {
		t.Recipients = append(t.Recipients, mail.Recipient{
			Index: uint32(i), Address: mail.Address(to), Notify: notify, ORcpt: l.Str("orcpt", ""),
		})
	}
	return t
}

func has(l *golden.Line, word string) bool {
	for _, w := range l.Words {
		if w == word {
			return true
		}
	}
	return false
}
