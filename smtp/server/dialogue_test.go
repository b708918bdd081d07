package server

import (
	"bytes"
	"fmt"
	"net/netip"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/posthaste-mta/posthaste/mail"
	"github.com/posthaste-mta/posthaste/smtp"
)

// The dialogues of testdata are what a person would type and see. Their form:
//
//	== name                 a dialogue begins
//	# text                  a comment
//	set key value           a setting of Config or Peer, before the first C:
//	refuse what 550 5.1.1 x the host refuses "begin", "content", "commit", "starttls", "handshake" or an address
//	hello                   the client says EHLO; what follows from it is not shown
//	C: line                 the client says the line and CRLF; successive ones in one segment
//	c: text                 the same without CRLF; both know Go's escapes, and {n*text}
//	S: line                 the server says so
//	H: event                the host saw: begin, commit, abort, early, handshake, close
//	B: "text"               the content of the last message, without our Received field
//	R: line                 a line of our Received field
//
// Every dialogue is also run octet by octet and in one piece, with the same
// result, unless it tests what happens to input that comes too early.
// UPDATE=1 rewrites S: and H: lines.

type dialogue struct {
	name  string
	turns []turn // the first has no input: it is the greeting
	cfg   Config
	peer  Peer
	deny  map[string]mail.Reply
}

type turn struct {
	head   []string // the lines as they stand in the file, without the expectations
	input  []byte
	expect []string // S: and H:
	bodies []string // B: and R:
	quiet  bool     // what it leads to is not shown
}

func (u *turn) answered() bool { return len(u.expect) > 0 || len(u.bodies) > 0 || u.quiet }

func TestDialogues(t *testing.T) {
	paths, err := filepath.Glob("testdata/*.txt")
	if err != nil || len(paths) == 0 {
		t.Fatalf("no dialogues: %v", err)
	}
	for _, path := range paths {
		preface, dialogues := readDialogues(t, path)
		fresh := strings.TrimSpace(strings.Join(preface, "\n")) + "\n"
		for _, d := range dialogues {
			t.Run(strings.ReplaceAll(d.name, " ", "_"), func(t *testing.T) { fresh += d.run(t) })
		}
		if updating() {
			if err := os.WriteFile(path, []byte(fresh), 0o644); err != nil {
				t.Fatal(err)
			}
		}
	}
}

func updating() bool { return os.Getenv("UPDATE") != "" }

// run plays the dialogue and returns its text as it should stand in the file.
func (d *dialogue) run(t *testing.T) string {
	h := newHost(d.cfg, d.peer)
	h.refusals = d.deny
	var fresh strings.Builder
	fmt.Fprintf(&fresh, "\n== %s\n", d.name)
	var whole []byte
	for i, u := range d.turns {
		if len(u.input) > 0 {
			h.feed(u.input)
			whole = append(whole, u.input...)
		}
		said := h.transcript()
		if u.quiet || i == 0 && len(u.expect) == 0 {
			said = nil
		}
		if got, want := strings.Join(said, "\n"), strings.Join(u.expect, "\n"); got != want && !updating() {
			t.Errorf("after %.300q\ngot:\n%s\nwant:\n%s", u.input, got, want)
		}
		for _, line := range slices.Concat(u.head, said, u.bodies) {
			fmt.Fprintln(&fresh, line)
		}
		checkContent(t, h, u.bodies)
	}
	if !d.peer.RejectEarly {
		d.runCut(t, h, whole)
	}
	return fresh.String()
}

// runCut plays the same input cut in other ways.
func (d *dialogue) runCut(t *testing.T, h *host, whole []byte) {
	sizes := []int{1, 7, max(len(whole), 1)}
	if d.peer.TLS != TLSNone {
		sizes = sizes[:1] // nothing may come with STARTTLS
	}
	for _, size := range sizes {
		again := newHost(d.cfg, d.peer)
		again.refusals = d.deny
		for piece := range slices.Chunk(whole, size) {
			again.feed(piece)
		}
		compareHosts(t, h, again, fmt.Sprintf("pieces of %d", size))
	}
}

// compareHosts reports the differences between two runs of the same input.
func compareHosts(t *testing.T, a, b *host, what string) {
	t.Helper()
	if !bytes.Equal(a.replies, b.replies) {
		t.Errorf("%s: replies differ:\n%s\n--\n%s", what, a.replies, b.replies)
	}
	if got, want := strings.Join(b.lasting(), "\n"), strings.Join(a.lasting(), "\n"); got != want {
		t.Errorf("%s: events differ:\n%s\n--\n%s", what, want, got)
	}
	if !reflect.DeepEqual(a.messages, b.messages) {
		t.Errorf("%s: messages differ:\n%+v\n--\n%+v", what, a.messages, b.messages)
	}
}

// lasting returns the events that do not depend on how the input was split: Early
// does, and so does the moment of an abort, but not the abort itself.
func (h *host) lasting() []string {
	var out []string
	aborts := 0
	for _, e := range h.events {
		switch {
		case strings.HasPrefix(e, "early"):
		case e == "abort":
			aborts++
		default:
			out = append(out, e)
		}
	}
	return append(out, fmt.Sprintf("aborts %d pauses %d", aborts, h.pauses))
}

// transcript returns what was said since the last call.
func (h *host) transcript() []string {
	var out []string
	for line := range strings.SplitSeq(strings.TrimSuffix(string(h.replies[h.said:]), "\r\n"), "\r\n") {
		if line != "" {
			out = append(out, "S: "+line)
		}
	}
	h.said = len(h.replies)
	for _, e := range h.events[h.told:] {
		if !strings.HasPrefix(e, "rejected") && !strings.HasPrefix(e, "begin") {
			out = append(out, "H: "+e)
		}
	}
	h.told = len(h.events)
	return out
}

func checkContent(t *testing.T, h *host, wants []string) {
	for _, want := range wants {
		if len(h.messages) == 0 {
			t.Errorf("no message, want %s", want)
			return
		}
		last := h.messages[len(h.messages)-1]
		switch kind, text := want[0], want[3:]; kind {
		case 'B':
			if got := strconv.Quote(last.body()); got != text {
				t.Errorf("content is %s, want %s", got, text)
			}
		case 'R':
			if !strings.Contains(last.content, strings.ReplaceAll(text, `\t`, "\t")+"\r\n") {
				t.Errorf("content %q lacks the line %q", last.content, text)
			}
		}
	}
}

func readDialogues(t *testing.T, path string) (preface []string, all []*dialogue) {
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	for number, line := range strings.Split(strings.TrimSpace(string(text)), "\n") {
		name, found := strings.CutPrefix(line, "== ")
		switch {
		case found:
			all = append(all, &dialogue{name: name, cfg: testConfig(), peer: loopbackPeer(), deny: map[string]mail.Reply{}, turns: []turn{{}}})
		case len(all) == 0:
			preface = append(preface, line)
		case line != "":
			if err := all[len(all)-1].take(line); err != nil {
				t.Fatalf("%s:%d: %v", path, number+1, err)
			}
		}
	}
	return preface, all
}

func (d *dialogue) take(line string) error {
	kind, rest, _ := strings.Cut(line, " ")
	last := &d.turns[len(d.turns)-1]
	switch kind {
	case "S:", "H:":
		last.expect = append(last.expect, line)
		return nil
	case "B:", "R:":
		last.bodies = append(last.bodies, line)
		return nil
	}
	speaks := kind == "C:" || kind == "c:" || kind == "hello"
	if last.answered() || speaks && len(d.turns) == 1 {
		d.turns = append(d.turns, turn{})
		last = &d.turns[len(d.turns)-1]
	}
	last.head = append(last.head, line)
	switch kind {
	case "set":
		return d.set(rest)
	case "refuse":
		return d.refuse(rest)
	case "hello":
		last.input, last.quiet = []byte("EHLO client.example\r\n"), true
		return nil
	case "C:", "c:":
		input, err := unescape(rest)
		if kind == "C:" {
			input = append(input, "\r\n"...)
		}
		last.input = append(last.input, input...)
		return err
	}
	if line[0] == '#' {
		return nil
	}
	return fmt.Errorf("%q is no line of a dialogue", line)
}

// unescape reads Go's escapes and {n*text}.
func unescape(text string) ([]byte, error) {
	var out []byte
	for {
		before, rest, found := strings.Cut(text, "{")
		count, repeated, isRepeat := 0, "", false
		var after string
		if found {
			inner, tail, _ := strings.Cut(rest, "}")
			n, what, ok := strings.Cut(inner, "*")
			if v, err := strconv.Atoi(n); ok && err == nil {
				count, repeated, isRepeat, after = v, what, true, tail
			}
		}
		if !isRepeat {
			before = text
		}
		plain, err := strconv.Unquote(`"` + strings.ReplaceAll(before, `"`, `\"`) + `"`)
		if err != nil {
			return nil, fmt.Errorf("%q: %w", before, err)
		}
		out = append(out, plain...)
		if !isRepeat {
			return out, nil
		}
		what, err := strconv.Unquote(`"` + repeated + `"`)
		if err != nil {
			return nil, fmt.Errorf("%q: %w", repeated, err)
		}
		out = append(out, strings.Repeat(what, count)...)
		text = after
	}
}

func (d *dialogue) refuse(rest string) error {
	what, text, _ := strings.Cut(rest, " ")
	code, text, _ := strings.Cut(text, " ")
	n, err := strconv.ParseUint(code, 10, 16)
	if err != nil {
		return err
	}
	status, text, ok := mail.ParseStatus(text)
	if !ok {
		return fmt.Errorf("%q: no status", rest)
	}
	d.deny[what] = mail.Reply{Code: uint16(n), Status: status, Text: text}
	return nil
}

func (d *dialogue) set(rest string) error {
	key, value, _ := strings.Cut(rest, " ")
	number, err := strconv.Atoi(value)
	if value == "" {
		err = nil
	}
	switch key {
	case "size-limit":
		d.cfg.SizeLimit = int64(number)
	case "recipient-limit":
		d.peer.RecipientLimit = number
	case "recipient-overshoot":
		d.cfg.RecipientOvershoot = number
	case "text-line-limit":
		d.cfg.TextLineLimit = number
	case "header-limit":
		d.cfg.HeaderLimit = number
	case "header-field-limit":
		d.cfg.HeaderFieldLimit = number
	case "junk-limit":
		d.cfg.JunkLimit = number
	case "soft-errors":
		d.cfg.SoftErrorLimit, d.cfg.ErrorDelay = number, time.Second
	case "hard-errors":
		d.cfg.HardErrorLimit = number
	case "normalize":
		d.peer.Normalize = true
	case "reject-early":
		d.peer.RejectEarly = true
	case "xclient":
		d.peer.XClient = true
	case "xforward":
		d.peer.XForward = true
	case "tls":
		d.peer.TLS = map[string]TLS{"offered": TLSOffered, "required": TLSRequired}[value]
		return nil
	case "requiretls":
		d.peer.RequireTLS = true
	case "etrn":
		d.peer.ETRN = true
	case "verp":
		v, ok := smtp.ParseVERP(value, "")
		if !ok {
			return fmt.Errorf("%q is not two delimiters", value)
		}
		d.peer.VERP = v
		return nil
	case "verp-filter":
		d.peer.VERPFilter = value
		return nil
	case "auth":
		for name := range strings.FieldsSeq(value) {
			d.peer.Mechanisms |= smtp.ParseMechanism(name)
		}
		return nil
	case "future-release":
		d.peer.Begun = 1_900_000_000 * mail.Instant(time.Second)
		d.peer.FutureRelease = time.Duration(number) * time.Second
	case "deliver-by":
		d.peer.DeliverBy, d.peer.DeliverByMin = true, time.Duration(number)*time.Second
	case "lenient-paths":
		d.cfg.LenientPaths = true
	case "underscores":
		d.cfg.Underscores = true
	case "local-socket":
		d.peer.Addr = netip.Addr{}
	case "ipv6":
		d.peer.Addr = netip.MustParseAddr("2001:db8::7")
	case "refused-client":
		d.peer.Refusal = mail.Reply{Code: 554, Status: mail.Status{Class: 5, Subject: 7, Detail: 1}, Text: "mx.example No service"}
	default:
		return fmt.Errorf("no setting %q", key)
	}
	return err
}
