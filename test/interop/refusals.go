package main

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/posthaste-mta/posthaste/mail"
	"github.com/posthaste-mta/posthaste/qmgr"
)

// refusalDomain is above the domains of letters that the servers refuse at
// random: LEVEL.PEER.refuse.test is served by a server that is named for the
// peer, and spoken to by a transport that pipelines up to the level.
const refusalDomain = "refuse.test"

// A refuser is a server that refuses at random, for now and for good, at some
// stages of a transaction.
type refuser struct {
	name    string
	address string
	what    string
	stages  []string
}

// stages at which a server may refuse. Each says "refused at" and the stage.
const (
	stageMail = "MAIL"
	stageRcpt = "RCPT"
	stageData = "DATA"
	stageEnd  = "END"
)

// oneIn is how many commands there are for each that is refused.
const oneIn = 25

func refusers() []refuser {
	all := []string{stageMail, stageRcpt, stageData, stageEnd}
	behindData := []string{stageMail, stageRcpt, stageEnd} // go-smtp cannot refuse DATA itself
	return []refuser{
		{"postfix", postfixRefuseAddr, "to Postfix", all},
		{"exim", eximRefuseAddr, "to Exim", all},
		{"sendmail", sendmailAddr, "to Sendmail", all},
		{"opensmtpd", opensmtpdAddr, "to OpenSMTPD, which forbids pipelining", all},
		{"gosmtp", gosmtpAddr, "to go-smtp", behindData},
		{"gosmtp24", gosmtp24Addr, "to go-smtp v0.24.0, which executes refused chunks", behindData},
		{"gosmtp21", gosmtp21Addr, "to go-smtp v0.21.3, likewise", behindData},
	}
}

// refusalTests are one for each of these servers.
func refusalTests() (tests []test) {
	for _, r := range refusers() {
		tests = append(tests, test{"refuse-" + r.name, r.what, refusals(r)})
	}
	return tests
}

// domain is that of letters for a refuser at a level.
func (r refuser) domain(level string) string { return level + "." + r.name + "." + refusalDomain }

// refusals lets the daemon send letters to a server that refuses at random, at all
// levels of pipelining at once. Every recipient gets its letter exactly once, or the
// sender gets a report.
func refusals(r refuser) func(context.Context, *trial) (int, int, error) {
	return func(ctx context.Context, t *trial) (messages, recipients int, err error) {
		var sent []letter
		for _, level := range t.levels {
			sent = append(sent, manyLetters(r, level, t.count)...)
		}
		for _, l := range sent {
			recipients += len(l.recipients)
		}
		from := t.logSize()
		a := t.receiver.open()
		if err := byFeed(ctx, posthasteAddr, sent); err != nil {
			return 0, 0, err
		}
		late := a.waitSettled(ctx, recipients)
		if late != nil {
			late = fmt.Errorf("%w; the daemon says:\n%s", late, t.status(ctx))
		}
		said, err := t.readRefusals(from)
		if err != nil {
			return 0, 0, err
		}
		return len(sent), recipients, errors.Join(late, a.judge(sent, true, said.doubts), said.unjust.error("failed without having been refused for good"),
			t.printRefusals(r, said))
	}
}

// printRefusals prints what a server has refused, and tells whether it has at each of
// its stages: else the test would prove nothing.
func (t *trial) printRefusals(r refuser, said *sayings) error {
	var nothing complaints
	for _, level := range t.levels {
		n := said.counts[r.domain(level)]
		fmt.Printf("        %-22s %s\n", r.name+", "+level, n)
		for _, stage := range r.stages {
			if n[stage] == 0 && t.count >= 10*oneIn {
				nothing.add("%s at %s", r.domain(level), stage)
			}
		}
	}
	return nothing.error("times nothing was refused")
}

// manyLetters makes letters for one to three recipients, each from a sender of its
// own. Their bodies try to be commands: a server that takes content for commands
// takes a letter that nobody has sent.
func manyLetters(r refuser, level string, n int) []letter {
	all := letters("refuse-"+r.name+"-"+level, r.domain(level), n, 3)
	for i := range all {
		l := &all[i]
		l.sender = mail.Address(fmt.Sprintf("s%d.%s.%s@%s", i, r.name, level, senderDomain))
		l.recipients = l.recipients[:1+i%3]
		l.body += fmt.Sprintf("RSET\r\nMAIL FROM:<forged@%[1]s>\r\nRCPT TO:<user666@%[2]s>\r\nBDAT 23 LAST\r\nSubject: forged\r\n\r\n%[3]s\r\nRSET\r\n", senderDomain, r.domain(level), "forge")
	}
	return all
}

// waitSettled waits until so many recipients have got their letters or are named in a
// report, and a little longer.
func (a *account) waitSettled(ctx context.Context, recipients int) error {
	for {
		a.mu.Lock()
		settled := a.total + a.failures
		a.mu.Unlock()
		if settled >= recipients {
			time.Sleep(quietTime)
			return nil
		}
		select {
		case <-a.changed:
		case <-time.After(newsMax):
			return fmt.Errorf("no news for %s: %d of %d recipients are settled", newsMax, settled, recipients)
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// sayings are what the daemon's log says of the letters that may be refused.
type sayings struct {
	counts map[string]sayingCounts // by the domain of the recipients
	// doubts are the recipients of whose letters the daemon could not know whether
	// they were taken: they may get them twice.
	doubts map[mail.Address]bool
	// unjust are failures for another reason than that the server has refused the
	// letter: something that went before has made it refuse.
	unjust complaints
}

// sayingCounts are how often letters were refused, by stage, put off for another
// reason, or left in doubt.
type sayingCounts map[string]int

const (
	countSuspended = "suspended"
	countOther     = "other"
	countDoubt     = "doubt"
)

func (c sayingCounts) String() string {
	var words []string
	for _, stage := range []string{stageMail, stageRcpt, stageData, stageEnd} {
		words = append(words, fmt.Sprintf("%s %d", stage, c[stage]))
	}
	return fmt.Sprintf("recipients refused at %s; put off untried %d, for other reasons %d, in doubt %d", strings.Join(words, ", "),
		c[countSuspended], c[countOther], c[countDoubt])
}

func (t *trial) log() string { return filepath.Join(t.dir, "posthaste.out") }

// logSize is where the daemon's log ends now.
func (t *trial) logSize() int64 {
	info, err := os.Stat(t.log())
	if err != nil {
		return 0
	}
	return info.Size()
}

// readRefusals reads the daemon's log from an offset on.
func (t *trial) readRefusals(from int64) (*sayings, error) {
	file, err := os.Open(t.log())
	if err != nil {
		return nil, err
	}
	defer file.Close()
	if _, err := file.Seek(from, io.SeekStart); err != nil {
		return nil, err
	}
	said := &sayings{counts: make(map[string]sayingCounts), doubts: make(map[mail.Address]bool)}
	for lines := bufio.NewReader(file); ; {
		line, err := lines.ReadBytes('\n')
		if err == io.EOF {
			return said, nil
		}
		if err != nil {
			return nil, err
		}
		said.note(line)
	}
}

// note books one line of the log.
func (s *sayings) note(line []byte) {
	to := mail.Address(field(line, " to="))
	status := field(line, " status=")
	if !strings.HasSuffix(to.Domain(), refusalDomain) || status == mail.Delivered.String() {
		return
	}
	n := s.counts[to.Domain()]
	if n == nil {
		n = make(sayingCounts)
		s.counts[to.Domain()] = n
	}
	_, stage, refused := bytes.Cut(line, []byte("refused at "))
	switch {
	case bytes.Contains(line, []byte(qmgr.SuspendedPrefix)): // not even tried
		n[countSuspended]++
	case refused:
		n[capitals(stage)]++
	case bytes.Contains(line, []byte("not known whether it was taken")):
		n[countDoubt]++
		s.doubts[to] = true
	case status == mail.Failed.String():
		_, reply, _ := bytes.Cut(line, []byte(" reply="))
		s.unjust.add("%s: %s", to, bytes.TrimSpace(reply))
	default:
		n[countOther]++
	}
}

// field returns the word that follows a key in a line of the log.
func field(line []byte, key string) string {
	_, rest, found := bytes.Cut(line, []byte(key))
	if !found {
		return ""
	}
	word, _, _ := bytes.Cut(rest, []byte(" "))
	return string(word)
}

// capitals returns the capital letters with which text begins.
func capitals(text []byte) string {
	n := 0
	for n < len(text) && text[n] >= 'A' && text[n] <= 'Z' {
		n++
	}
	return string(text[:n])
}
