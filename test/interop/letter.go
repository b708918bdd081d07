package main

import (
	"bytes"
	"fmt"
	"hash/crc32"
	"math/rand/v2"
	"strings"

	"github.com/posthaste-mta/posthaste/internal/feed"
	"github.com/posthaste-mta/posthaste/mail"
)

// A letter is a message to be sent.
type letter struct {
	key        string // Message-ID, with its brackets
	sender     mail.Address
	recipients []mail.Address
	body       string // lines that end in CRLF
}

// senderDomain is where reports about letters go, unless a case says otherwise.
const senderDomain = "origin.test"

// letters makes n of them, for recipients in a domain. The lines of the bodies
// have what programs on the way trip over: dots, "From " and nothing at their
// begin, 8-bit characters, and the longest length that RFC 5321 4.5.3.1.6 allows.
func letters(name, domain string, n, recipients int) []letter {
	dice := rand.New(rand.NewPCG(uint64(n), uint64(recipients)))
	all := make([]letter, n)
	for i := range all {
		l := letter{key: fmt.Sprintf("<%s-%d@interop.test>", name, i), sender: "sender@" + senderDomain}
		for r := range recipients {
			l.recipients = append(l.recipients, mail.Address(fmt.Sprintf("user%d.%d@%s", i, r, domain)))
		}
		var b strings.Builder
		for range 1 + dice.IntN(40) {
			b.WriteString(odd[dice.IntN(len(odd))])
			b.WriteString("\r\n")
		}
		l.body = b.String()
		all[i] = l
	}
	return all
}

// odd are the lines of bodies.
var odd = [...]string{
	"", ".", "..", ".x", "From the begin", "QUIT", "plain text", "\ttab and trailing space ", "Grüße, 你好",
	strings.Repeat("x", 998), ". " + strings.Repeat("0123456789 ", 30),
}

// content is the whole message, with line ends as SMTP has them.
func (l letter) content() string {
	return fmt.Sprintf("From: Sender <%s>\r\nTo: undisclosed-recipients:;\r\nSubject: interop\r\nMessage-ID: %s\r\n"+
		"Date: Thu, 1 Jan 2026 00:00:00 +0000\r\nMIME-Version: 1.0\r\nContent-Type: text/plain; charset=utf-8\r\nContent-Transfer-Encoding: 8bit\r\n\r\n%s",
		l.sender, l.key, l.text())
}

// text is what follows the header: the envelope, so that whoever gets the letter
// can report whether it came under its own, and the body.
func (l letter) text() string {
	var b strings.Builder
	fmt.Fprintf(&b, "%s%s\r\n", envelopeFrom, l.sender)
	for _, to := range l.recipients {
		fmt.Fprintf(&b, "%s%s\r\n", envelopeTo, to)
	}
	return b.String() + "\r\n" + l.body
}

// What the lines of the envelope begin with.
const (
	envelopeFrom = "this is from "
	envelopeTo   = "this is for "
)

// envelopeIn reads the envelope in a letter's content; false if there is none.
func envelopeIn(content []byte) (sender mail.Address, recipients []mail.Address, found bool) {
	_, text, _ := bytes.Cut(content, []byte("\r\n\r\n"))
	for line := range strings.Lines(string(text)) {
		line = strings.TrimSuffix(line, "\r\n")
		if from, ok := strings.CutPrefix(line, envelopeFrom); ok && !found {
			sender, found = mail.Address(from), true
		} else if to, ok := strings.CutPrefix(line, envelopeTo); ok && found {
			recipients = append(recipients, mail.Address(to))
		} else {
			break
		}
	}
	return sender, recipients, found
}

// message is the letter as internal/feed sends it.
func (l letter) message(i int) feed.Message {
	return feed.Message{Sender: l.sender, Recipients: l.recipients, Content: []byte(l.content()), Chunked: i%2 == 1,
		EnvID: strings.Trim(l.key, "<>")}
}

// bodySum is as in sink.Delivery.
func (l letter) bodySum() uint32 {
	return crc32.Checksum([]byte(l.text()), crc32.MakeTable(crc32.Castagnoli))
}

// addresses are the recipients as texts.
func (l letter) addresses() []string {
	var all []string
	for _, r := range l.recipients {
		all = append(all, string(r))
	}
	return all
}
