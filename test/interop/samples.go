package main

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"path/filepath"
	"slices"
	"strings"

	"github.com/posthaste-mta/posthaste/internal/feed"
	"github.com/posthaste-mta/posthaste/mail"
)

// A narrow server takes less than its program could: it does not offer some of the
// extensions.
type narrow struct {
	name    string
	address string
	lacks   []string // keywords of EHLO
}

// narrows are Postfix with several sets of extensions, and Exim.
func narrows() []narrow {
	return []narrow{
		{"n7", "127.0.0.1:2614", []string{"8BITMIME"}},
		{"n7data", "127.0.0.1:2615", []string{"8BITMIME", "CHUNKING"}},
		{"n7ascii", "127.0.0.1:2616", []string{"8BITMIME", "SMTPUTF8"}},
		{"n7all", "127.0.0.1:2617", []string{"8BITMIME", "CHUNKING", "SMTPUTF8", "DSN"}},
		{"ascii", "127.0.0.1:2618", []string{"SMTPUTF8"}},
		{"wide", postfixAddr, nil},
		{"n7exim", eximNarrowAddr, []string{"8BITMIME", "SMTPUTF8"}},
	}
}

// domain is that of recipients at the server.
func (n narrow) domain() string { return n.name + "." + narrowDomain }

func (n narrow) lack(keyword string) bool { return slices.Contains(n.lacks, keyword) }

// A sample is content of a kind that some server cannot take as it is.
type sample struct {
	name       string
	parameters string // of MAIL
	text       string // lines end in LF
	same       bool   // every server gets it octet for octet
	folded     bool   // its long lines are broken
	unclean    bool   // octets above 127 in headers and between parts stay
	unfit      bool   // no server without SMTPUTF8 can take it
}

// samples are contents of many kinds, whose octets above 127 are declared or not.
// They are short enough to stay in memory, but for two.
func samples() []sample {
	const (
		declared = " BODY=8BITMIME"
		mime     = "MIME-Version: 1.0\nContent-Type: text/plain; charset=utf-8\n"
		eight    = "Content-Transfer-Encoding: 8bit\n"
		odd      = "Grüße, 你好\n.\n..two\nFrom here\n\ttab and trailing space \n=C3=A9 is no é\n\n"
		signed   = "DKIM-Signature: v=1; a=rsa-sha256; d=origin.test; s=x; h=from:subject;\n\tbh=47DEQpj8HBSa+/TImW+5JCeuQeRkm5NMpJWZG3hSuFU=; b=AAAA\n"
	)
	long := strings.Repeat("é0123456789 ", 500) + "\n"
	parts := "MIME-Version: 1.0\nContent-Type: multipart/mixed; boundary=\"a b\"\n" + eight + "\npreamble\n--a b\n" +
		"Content-Type: multipart/alternative; boundary=inner\n\n--inner\nContent-Type: text/plain; charset=utf-8\n" + eight + "\n" + odd +
		"--inner\nContent-Type: text/html; charset=iso-8859-1\n\n<p>Gr\xfc\xdfe\n--inner--\n\n--a b\n" +
		"Content-Type: application/octet-stream\nContent-Transfer-Encoding: base64\n\n/+8AAQ==\n--a b\n" +
		"Content-Type: application/octet-stream\nContent-Transfer-Encoding: binary\n\n\xff\xfe\x01\n--a b--\nepilogue\n"
	message := "MIME-Version: 1.0\nContent-Type: message/rfc822\n" + eight + "\nFrom: <other@origin.test>\nSubject: within\n" + mime + eight + "\n" + odd
	return []sample{
		{name: "declared", parameters: declared, text: mime + eight + "\n" + odd},
		{name: "undeclared", text: mime + eight + "\n" + odd},
		{name: "untold", text: "X-Kind: no MIME\n\n" + odd},
		{name: "latin", text: "MIME-Version: 1.0\nContent-Type: text/html;\n charset=iso-8859-1\n\n<p>Gr\xfc\xdfe\n"},
		{name: "seven", text: mime + "Content-Transfer-Encoding: 7bit\n\n" + odd},
		{name: "multipart", parameters: declared, text: parts},
		{name: "bare-multipart", text: parts},
		{name: "digest", text: "MIME-Version: 1.0\nContent-Type: multipart/digest; boundary=d\n\n--d\n\nSubject: one\n" + mime + eight + "\n" + odd + "--d\n\nSubject: two\n\n" + odd + "--d--\n"},
		{name: "message", parameters: declared, text: message},
		{name: "forwarded", text: "MIME-Version: 1.0\nContent-Type: multipart/mixed; boundary=f\n\n--f\n" + strings.TrimPrefix(message, "MIME-Version: 1.0\n") + "\n--f--\n"},
		{name: "dkim", parameters: declared, text: signed + mime + eight + "\n" + odd},
		{name: "dkim-ascii", text: signed + mime + "\nplain = text \n.\n\ttab\n", same: true},
		{name: "dkim-declared-ascii", parameters: declared, text: signed + mime + "\nplain = text \n", same: true},
		{name: "signed", text: "MIME-Version: 1.0\nContent-Type: multipart/signed; micalg=pgp-sha256;\n protocol=\"application/pgp-signature\"; boundary=s\n\n--s\n" +
			"Content-Type: text/plain; charset=utf-8\nContent-Transfer-Encoding: quoted-printable\n\n=C3=A9=20\n--s\nContent-Type: application/pgp-signature\n\nsignature\n--s--\n", same: true},
		{name: "long-high", parameters: declared, text: mime + eight + "\n" + long + odd, folded: true},
		{name: "long-ascii", text: mime + "\n" + strings.Repeat("0123456789", 500) + "\nnext\n", folded: true},
		{name: "large", parameters: declared, text: mime + eight + "\n" + strings.Repeat(odd, 2000)},
		{name: "large-undeclared", text: "X-Kind: no MIME\n\n" + strings.Repeat("plain text\n", 9000) + strings.Repeat(odd, 2000)},
		{name: "empty", text: mime + eight + "\n"},
		{name: "header", text: "Subject: Grüße\n" + mime + eight + "\n" + odd, unclean: true},
		{name: "international", parameters: declared + " SMTPUTF8", text: "Subject: Grüße\n" + mime + eight + "\n" + odd, unclean: true, unfit: true},
		{name: "international-for-nothing", parameters: declared + " SMTPUTF8", text: mime + eight + "\n" + odd},
	}
}

// content is the whole message.
func (s sample) content() []byte {
	head := fmt.Sprintf("From: <sender@%[1]s>\nTo: <user@%[1]s>\nDate: Thu, 1 Jan 2026 00:00:00 +0000\nMessage-ID: <%[2]s@interop.test>\n", senderDomain, s.name)
	return []byte(strings.ReplaceAll(head+s.text, "\n", "\r\n"))
}

// headless is content that begins with its body.
const headless = "\tno header, é\r\n\r\nsecond line\r\n"

// contents lets the daemon send samples to the servers that take less, which pass them
// on to our receiver. What arrives has to decode to what was sent.
func contents(ctx context.Context, t *trial) (messages, recipients int, err error) {
	a := t.receiver.account("")
	defer t.receiver.close(a)
	a.contents = make(map[mail.Address][]byte)
	var sent []sampleSent
	var wanted, refused int
	for _, n := range narrows() {
		if strings.HasSuffix(n.name, "exim") && t.absent[progExim] {
			continue
		}
		for _, s := range samples() {
			sent = append(sent, sampleSent{s, n, s.content()})
		}
		sent = append(sent, sampleSent{sample{name: "headless"}, n, []byte(headless)})
	}
	c, err := feed.Dial(ctx, "tcp", posthasteAddr)
	if err != nil {
		return 0, 0, err
	}
	for i, s := range sent {
		r := c.Send(feed.Message{Sender: "sender@" + senderDomain, Recipients: []mail.Address{s.recipient()}, Parameters: s.parameters, Content: s.content, Chunked: i%2 == 1})
		if r.Fate != feed.Accepted {
			return 0, 0, fmt.Errorf("%s: %s, %s: %w", s.sample.name, r.Fate, r.Reply, r.Err)
		}
		if s.unfit && s.lack("SMTPUTF8") {
			refused++
		} else {
			wanted++
		}
	}
	if err := c.Close(); err != nil {
		return 0, 0, err
	}
	if err := a.wait(ctx, wanted, refused); err != nil {
		return 0, 0, err
	}
	complaints, err := t.compareContents(ctx, a, sent)
	if err == nil {
		err = complaints.error("wrong in contents")
	}
	return len(sent), len(sent), err
}

// A sampleSent is a sample on its way through a server.
type sampleSent struct {
	sample
	narrow
	content []byte
}

func (s sampleSent) recipient() mail.Address {
	return mail.Address("user-" + s.sample.name + "@" + s.domain())
}

func (t *trial) compareContents(ctx context.Context, a *account, sent []sampleSent) (wrong complaints, err error) {
	type pair struct {
		Sent    []byte `json:"sent"`
		Got     []byte `json:"got"`
		Unclean bool   `json:"unclean"`
		Folded  bool   `json:"folded"`
	}
	var pairs []pair
	var names []string
	for _, s := range sent {
		what := s.sample.name + " through " + s.narrow.name
		got, found := a.contents[s.recipient()]
		if found == (s.unfit && s.lack("SMTPUTF8")) {
			wrong.add("%s: arrived %v", what, found)
		}
		if !found {
			continue
		}
		if text := strings.ReplaceAll(s.text, "\n", "\r\n"); s.same && !bytes.HasSuffix(got, []byte(text)) {
			wrong.add("%s: changed to %q", what, got)
		}
		if s.sample.name == "headless" {
			s.content = append([]byte("\r\n"), s.content...) // what readers need to see it as it is meant
		}
		pairs = append(pairs, pair{s.content, got, s.unclean || !s.lack("8BITMIME"), s.folded})
		names = append(names, what)
	}
	text, err := json.Marshal(pairs)
	if err != nil {
		return wrong, err
	}
	out, err := command(ctx, string(text), "python3", filepath.Join(t.scripts, "compare_contents.py"))
	if err != nil {
		return wrong, err
	}
	var found [][]string
	if err := json.Unmarshal([]byte(out), &found); err != nil {
		return wrong, err
	}
	for i, list := range found {
		for _, what := range list {
			wrong.add("%s: %s", names[i], what)
		}
	}
	return wrong, nil
}
