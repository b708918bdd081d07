package inbound

import (
	"encoding/binary"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/netip"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/posthaste-mta/posthaste/header"
	"github.com/posthaste-mta/posthaste/mail"
	"github.com/posthaste-mta/posthaste/milter"
	"github.com/posthaste-mta/posthaste/rewrite"
)

// packet makes a packet of the milter protocol.
func packet(code byte, texts ...string) string {
	data := ""
	for _, t := range texts {
		data += t + "\x00"
	}
	return string(append(binary.BigEndian.AppendUint32(nil, uint32(len(data)+1)), code)) + data
}

// Changes that a filter may ask for, by the numbers of the protocol.
const (
	mayAddRecipients    = 0x04
	mayRemoveRecipients = 0x08
	mayAll              = 0x1ff
)

// A filter is a milter that gives the same answer to a command each time, by the command's code;
// continue to those that it has no answer for. "" ends the connection.
type filter struct {
	may     uint32
	steps   uint32
	answers map[byte]string
	mu      sync.Mutex
	opened  int
}

// start has the filter listen on a socket, and returns the chain that it is.
func (f *filter) start(t *testing.T, ts *testServer, onFailure milter.Failure) *milter.Chain {
	t.Helper()
	path := filepath.Join(t.TempDir(), "socket")
	ln, err := net.Listen("unix", path)
	if err != nil {
		t.Fatal(err)
	}
	var serving sync.WaitGroup
	t.Cleanup(serving.Wait)
	t.Cleanup(func() { ln.Close() })
	serving.Go(func() {
		for {
			conn, err := ln.Accept()
			if err != nil {
				return
			}
			f.mu.Lock()
			f.opened++
			f.mu.Unlock()
			serving.Go(func() { f.serve(conn) })
		}
	})
	m, err := milter.New(milter.Config{Name: "filter", Network: "unix", Address: path, OnFailure: onFailure})
	if err != nil {
		t.Fatal(err)
	}
	return &milter.Chain{Milters: []*milter.Milter{m}, Host: &milter.Host{Hostname: "mx.example", Scratch: t.TempDir(), Note: func(level slog.Level, event, client, reason string, attributes ...any) {
		ts.NoteMilter(level, event, client, reason, attributes...)
	}}}
}

func (f *filter) serve(conn net.Conn) {
	defer conn.Close()
	for {
		var head [5]byte
		if _, err := io.ReadFull(conn, head[:]); err != nil {
			return
		}
		if _, err := io.CopyN(io.Discard, conn, int64(binary.BigEndian.Uint32(head[:])-1)); err != nil {
			return
		}
		f.mu.Lock()
		answer, has := f.answers[head[4]]
		f.mu.Unlock()
		switch code := head[4]; {
		case code == 'D', code == 'A':
			continue
		case code == 'Q', has && answer == "":
			return
		case code == 'O':
			b := binary.BigEndian.AppendUint32([]byte("\x00\x00\x00\x0dO\x00\x00\x00\x06"), f.may)
			answer = string(binary.BigEndian.AppendUint32(b, f.steps))
		case !has:
			answer = packet('c')
		}
		io.WriteString(conn, answer) //nolint:errcheck // then the next read fails
	}
}

func (f *filter) connections() int {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.opened
}

// filtered starts a server whose clients' mail a filter sees.
func filtered(t *testing.T, cfg Config, f *filter, onFailure milter.Failure) *testServer {
	t.Helper()
	ts := start(t, cfg, nil, EarlyLog)
	ts.SetMilters(&Milters{Others: f.start(t, ts, onFailure)})
	return ts
}

// addresses returns the recipients of a message, in their order.
func (d *memoryDraft) addresses() string {
	var list []string
	for _, r := range d.recipients {
		list = append(list, string(r.Address))
	}
	return strings.Join(list, " ")
}

// The changes of recipients that filters request, where they may remove some and where they may not,
// with and without aliases: no recipient gets a message twice, and none that was removed gets it.
func TestRecipientsByFilter(t *testing.T) {
	t.Parallel()
	rules, err := rewrite.New(rewrite.Config{Origin: "b.example", Aliases: []rewrite.Map{aliases{"team@b.example": "x@b.example y@b.example"}}, AlwaysBcc: "archive@b.example"})
	if err != nil {
		t.Fatal(err)
	}
	const add, remove, may = mayAddRecipients, mayRemoveRecipients, mayAll
	for _, c := range []struct {
		name    string
		may     uint32
		rewrite bool
		given   string
		changes string // of recipients: + or -, and the address
		want    string // "" if no recipient is left
	}{
		{"one more", add, false, "a", "+<n@c.example>", "a@b.example n@c.example"},
		{"one that is there", add, false, "a b", "+b@B.example +a@b.example +n@c.example +n@c.example", "a@b.example b@b.example n@c.example"},
		{"one that is there, held", may, false, "a b", "+b@B.example +n@c.example +n@c.example", "a@b.example b@b.example n@c.example"},
		{"removed", may, false, "a b", "-a@B.example", "b@b.example"},
		{"removed, and added again", may, false, "a b", "-a@b.example +a@b.example", "b@b.example a@b.example"},
		{"added, and removed", may, false, "a", "+n@c.example -n@c.example", "a@b.example"},
		{"another case", may, false, "a", "-A@b.example", "a@b.example"},
		{"removed that is not there", may, false, "a", "-z@b.example", "a@b.example"},
		{"all removed", may, false, "a b", "-a@b.example -b@b.example", ""},
		{"replaced", may, false, "a", "-a@b.example +n@c.example", "n@c.example"},
		{"an alias", add, true, "a", "+team@b.example", "a@b.example archive@b.example x@b.example y@b.example"},
		{"an alias that is there", add, true, "team", "+x@b.example +team@b.example", "x@b.example y@b.example archive@b.example"},
		{"an alias removed", may, true, "team a", "-team@b.example", "a@b.example archive@b.example"},
		{"what an alias stands for", may, true, "team", "-y@b.example", "x@b.example archive@b.example"},
		{"an alias removed, and added", may, true, "team", "-team@b.example +y@b.example", "archive@b.example y@b.example"},
		{"an alias removed, one of it was named before", may, true, "x team", "-team@b.example", "x@b.example archive@b.example"},
		{"an alias removed, one of it was named after", may, true, "team x", "-team@b.example", "x@b.example archive@b.example"},
		{"both removed", may, true, "team x", "-team@b.example -x@b.example", "archive@b.example"},
		{"removed without having said so", add | remove, false, "a b", "-a@b.example", "b@b.example"},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			answer := ""
			for change := range strings.FieldsSeq(c.changes) {
				answer += packet(change[0], change[1:])
			}
			var cfg Config
			if c.rewrite {
				cfg.Edits = &Edits{Others: ListenerEdits{Addresses: rules}}
			}
			ts := filtered(t, cfg, &filter{may: c.may, answers: map[byte]string{'E': answer + packet('c')}}, milter.FailReject)
			k := ts.dial(t, "127.0.0.1")
			k.hello()
			for i := range 2 { // nothing is left of the first
				k.say("MAIL FROM:<s@a.example>")
				k.hear("250")
				for name := range strings.FieldsSeq(c.given) {
					k.say("RCPT TO:<" + name + "@b.example>")
					k.hear("250")
				}
				k.say("DATA", "Subject: s", "", "text", ".")
				k.hear("354")
				k.hear("250 2.0.0")
				all := ts.sink.taken()
				if c.want == "" {
					if len(all) != 0 || ts.sink.abortions() != i+1 {
						t.Errorf("%d messages, %d aborted", len(all), ts.sink.abortions())
					}
					continue
				}
				if m := all[len(all)-1]; len(all) != i+1 || m.addresses() != c.want || int(m.envelope.Recipients) != len(m.recipients) {
					t.Errorf("%d messages, to %s (%d), want %s", len(all), m.addresses(), m.envelope.Recipients, c.want)
				}
			}
			k.say("QUIT")
			k.hear("221")
			ts.end(t)
		})
	}
}

// Of so many recipients that they are not all held, none can be removed: a filter that does it fails. One
// that adds some to as many as can be held can still remove one.
func TestManyRecipientsByFilter(t *testing.T) {
	t.Parallel()
	for given, want := range map[int]int{heldMax - 1: heldMax, heldMax: heldMax + 1, heldMax + 1: 0} {
		f := &filter{may: mayAll, steps: 0x08, answers: map[byte]string{'E': packet('+', "n1@c.example") + packet('+', "n2@c.example") + packet('-', "b7@b.example") + packet('c')}}
		var cfg Config
		cfg.Session.RecipientLimit = Unlimited
		ts := filtered(t, cfg, f, milter.FailReject)
		k := ts.dial(t, "127.0.0.1")
		k.hello()
		lines := []string{"MAIL FROM:<s@a.example>"}
		for i := range given {
			lines = append(lines, fmt.Sprintf("RCPT TO:<b%d@b.example>", i))
		}
		k.say(append(lines, "DATA")...)
		for range given + 1 {
			k.hear("250")
		}
		k.hear("354")
		k.say("text", ".", "QUIT")
		if want == 0 {
			k.hear("554 5.3.0")
		} else {
			k.hear("250")
		}
		k.hear("221")
		ts.end(t)
		all := ts.sink.taken()
		if (want == 0) != (len(all) == 0) {
			t.Fatalf("%d recipients: %d messages", given, len(all))
		}
		if want == 0 {
			continue
		}
		if len(all[0].recipients) != want || slices.ContainsFunc(all[0].recipients, func(r mail.Recipient) bool { return r.Address == "b7@b.example" }) {
			t.Errorf("%d recipients became %d, want %d", given, len(all[0].recipients), want)
		}
	}
}

// What filters want of the sender and the content is in the envelope. SMTPUTF8 is what the header
// needs: that addresses do is seen where they are sent.
func TestEnvelopeByFilter(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name, answer string
		sender       mail.Address
		utf8         bool
		body         mail.BodyType
		hold         string
	}{
		{"nothing", "", "a@a.example", false, mail.Body7Bit, ""},
		{"sender", packet('e', "<n@c.example>"), "n@c.example", false, mail.Body7Bit, ""},
		{"null sender", packet('e', "<>"), "", false, mail.Body7Bit, ""},
		{"null sender, empty", packet('e', ""), "", false, mail.Body7Bit, ""},
		{"sender in UTF-8", packet('e', "ü@c.example"), "ü@c.example", false, mail.Body7Bit, ""},
		{"recipient in UTF-8", packet('+', "<ü@c.example>"), "a@a.example", false, mail.Body7Bit, ""},
		{"field", packet('h', "X", "ü"), "a@a.example", false, mail.Body8BitMIME, ""},
		{"held", packet('q', "odd"), "a@a.example", false, mail.Body7Bit, "milter filter: odd"},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			ts := filtered(t, Config{}, &filter{may: mayAll, answers: map[byte]string{'E': c.answer + packet('c')}}, milter.FailReject)
			k := ts.dial(t, "127.0.0.1")
			k.hello()
			k.envelope()
			k.say("Subject: s", "", "text", ".", "QUIT")
			k.hear("250")
			k.hear("221")
			ts.end(t)
			m := ts.sink.taken()[0]
			if e := m.envelope; e.Sender != c.sender || e.SMTPUTF8 != c.utf8 || e.Body != c.body || m.held != c.hold {
				t.Errorf("%+v, held %q", e, m.held)
			}
		})
	}
}

// A recipient is put into the sender that a filter has chosen, and there is none in the null sender.
func TestVERPAndFilter(t *testing.T) {
	t.Parallel()
	for answer, want := range map[string]string{"": "a@a.example -=", packet('e', "<n@c.example>"): "n@c.example -=", packet('e', "<>"): " "} {
		ts := filtered(t, Config{}, &filter{may: mayAll, answers: map[byte]string{'E': answer + packet('c')}}, milter.FailReject)
		ts.SetListeners(Listener{Listener: ts.listener, VERP: VERP{Clients: []netip.Prefix{netip.MustParsePrefix("127.0.0.0/8")}}})
		k := ts.dial(t, "127.0.0.1")
		k.hello()
		k.say("MAIL FROM:<a@a.example> XVERP=-=", "RCPT TO:<b@b.example>", "DATA", "Subject: s", "", "text", ".", "QUIT")
		for _, code := range []string{"250", "250", "354", "250", "221"} {
			k.hear(code)
		}
		ts.end(t)
		if e := ts.sink.taken()[0].envelope; string(e.Sender)+" "+e.VERP.String() != want {
			t.Errorf("the sender is %q with %q, want %q", e.Sender, e.VERP, want)
		}
	}
}

// Clients of a unix socket have no address, and may use XVERP only where the listener says so.
func TestVERPOf(t *testing.T) {
	net := []netip.Prefix{netip.MustParsePrefix("192.0.2.0/24")}
	for _, row := range []struct {
		v    VERP
		from string
		want string
	}{
		{VERP{}, "192.0.2.1", ""},
		{VERP{}, "", ""},
		{VERP{Unix: true}, "192.0.2.1", ""},
		{VERP{Unix: true}, "", "+="},
		{VERP{Clients: net}, "", ""},
		{VERP{Clients: net}, "192.0.2.1", "+="},
		{VERP{Clients: net}, "192.0.3.1", ""},
		{VERP{Clients: net, Delimiters: mail.VERP{Before: '-', At: '='}}, "192.0.2.1", "-="},
	} {
		var addr netip.Addr
		if row.from != "" {
			addr = netip.MustParseAddr(row.from)
		}
		if got := row.v.of(addr).String(); got != row.want {
			t.Errorf("%+v from %q: %q, want %q", row.v, row.from, got, row.want)
		}
	}
}

// A client stays connected while filters are replaced: its next message goes through the new ones, over a
// connection of their own, and the one before through the old ones to its end.
func TestReplacedFilters(t *testing.T) {
	t.Parallel()
	marks := func(text string) *filter {
		return &filter{may: mayAll, answers: map[byte]string{'E': packet('h', "X", text) + packet('c')}}
	}
	one, two := marks("one"), marks("two")
	ts := filtered(t, Config{}, one, milter.FailReject)
	before := ts.milters.Load()
	after := &Milters{Others: two.start(t, ts, milter.FailReject)}
	k := ts.dial(t, "127.0.0.1")
	k.hello()
	for i, set := range []*Milters{before, after, after, nil, before} {
		k.envelope() // through the filters of the step before
		ts.SetMilters(set)
		k.say(fmt.Sprintf("Subject: %d", i), "", "text", ".")
		k.hear("250")
	}
	k.say("QUIT")
	k.hear("221")
	ts.end(t)
	var got []string
	for _, m := range ts.sink.taken() {
		_, rest, _ := strings.Cut(string(m.content), "\r\nSubject: ")
		got = append(got, strings.ReplaceAll(strings.TrimSuffix(rest, "\r\n\r\ntext\r\n"), "\r\nX: ", " "))
	}
	if want := []string{"0 one", "1 one", "2 two", "3 two", "4"}; !slices.Equal(got, want) {
		t.Errorf("%q, want %q", got, want)
	}
	if one.connections() != 1 || two.connections() != 1 {
		t.Errorf("%d and %d connections", one.connections(), two.connections())
	}
}

// A filter dies at the second recipient, and on_failure is tempfail or reject: nothing of the message
// passes, although the first recipient was accepted before.
func TestFilterDiesInTheMiddle(t *testing.T) {
	t.Parallel()
	for action, want := range map[milter.Failure]string{milter.FailTemporarily: "451 4.3.0", milter.FailReject: "554 5.3.0"} {
		f := &filter{may: mayAll, answers: map[byte]string{'R': packet('c')}}
		ts := filtered(t, Config{}, f, action)
		k := ts.dial(t, "127.0.0.1")
		k.hello()
		k.say("MAIL FROM:<s@a.example>", "RCPT TO:<a@b.example>")
		k.hear("250")
		k.hear("250")
		f.mu.Lock()
		f.answers = map[byte]string{'R': ""}
		f.mu.Unlock()
		k.say("RCPT TO:<b@b.example>", "RCPT TO:<c@b.example>", "DATA")
		k.hear(want)
		k.hear(want)
		k.hear("354")
		k.say("text", ".")
		k.hear(want)
		f.mu.Lock()
		f.answers = nil
		f.mu.Unlock()
		k.envelope()
		k.say("text", ".", "QUIT")
		k.hear("250")
		k.hear("221")
		ts.end(t)
		if n := len(ts.sink.taken()); n != 1 {
			t.Errorf("%v: %d messages", action, n)
		}
	}
}

// A filter that shuts down ends the session of the client, whatever it is asked about; the message that
// it throws away is accepted, and is nowhere.
func TestFilterEndsSession(t *testing.T) {
	t.Parallel()
	for _, code := range "MRTE" {
		ts := filtered(t, Config{}, &filter{may: mayAll, answers: map[byte]string{byte(code): packet('4')}}, milter.FailReject)
		k := ts.dial(t, "127.0.0.1")
		k.hello()
		k.say("MAIL FROM:<s@a.example>")
		if code != 'M' {
			k.hear("250")
			k.say("RCPT TO:<a@b.example>")
		}
		if strings.ContainsRune("TE", code) {
			k.hear("250")
			k.say("DATA", "text", ".")
			k.hear("354")
		}
		k.hear("421 4.7.1")
		k.hearEnd()
		ts.end(t)
	}
	for _, code := range "MRTLNBE" {
		ts := filtered(t, Config{}, &filter{may: mayAll, answers: map[byte]string{byte(code): packet('d')}}, milter.FailReject)
		k := ts.dial(t, "127.0.0.1")
		k.hello()
		for range 2 {
			k.envelope()
			k.say("Subject: s", "", "text", ".")
			k.hear("250 2.0.0")
		}
		k.say("QUIT")
		k.hear("221")
		ts.end(t)
		if len(ts.sink.taken()) != 0 || ts.sink.abortions() != 2 {
			t.Errorf("%c: %d messages, %d aborted", code, len(ts.sink.taken()), ts.sink.abortions())
		}
	}
}

// What a filter sees and gives back is the content after the edits of the header, and a message that
// these refuse is not shown to its end: the filter is free for the next one.
func TestFilterAfterEdits(t *testing.T) {
	t.Parallel()
	edits, err := header.Compile(header.Config{Submission: true, Domain: "a.example"})
	if err != nil {
		t.Fatal(err)
	}
	f := &filter{may: mayAll, answers: map[byte]string{'E': packet('m', "\x00\x00\x00\x01Bcc", "gone") + packet('i', "\x00\x00\x00\x01X", "y") + packet('c')}}
	ts := filtered(t, Config{Edits: &Edits{Others: ListenerEdits{Header: edits}}}, f, milter.FailReject)
	k := ts.dial(t, "127.0.0.1")
	k.hello()
	k.envelope()
	k.say("From: a@a.example", "From: b@a.example", "", ".")
	k.hear("554 5.6.0 Error: more than one From field")
	k.envelope()
	k.say("From: a@a.example", "Bcc: c@a.example", "Date: d", "Message-ID: m", "", ".", "QUIT")
	k.hear("250")
	k.hear("221")
	ts.end(t)
	m := ts.sink.taken()[0]
	received, rest, _ := strings.Cut(string(m.content), "\r\nX: y\r\n")
	if !strings.HasPrefix(received, "Received: ") || rest != "From: a@a.example\r\nDate: d\r\nMessage-ID: m\r\nBcc: gone\r\n\r\n" || m.envelope.Size != int64(len(m.content)) {
		t.Errorf("%s", m.content)
	}
	if f.connections() != 1 {
		t.Errorf("%d connections", f.connections())
	}
}
