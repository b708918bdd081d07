package main

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"strconv"
	"strings"

	"github.com/posthaste-mta/posthaste/mail"
)

// A test is one exchange. It returns the number of messages and of their
// recipients.
type test struct {
	name  string
	what  string
	needs []program
	run   func(ctx context.Context, t *trial) (messages, recipients int, err error)
}

// tests are all of them but those of refusals. The numbers are for countFull letters
// to each server that refuses.
func tests() []test {
	return []test{
		{"client-swaks", "swaks, four ways of speaking", []program{progSwaks}, fromClient("swaks", 40, 2, bySwaks)},
		{"client-curl", "curl smtp://", []program{progCurl}, fromClient("curl", 100, 3, byCurl)},
		{"client-smtplib", "Python's smtplib, 8 connections", []program{progPython}, fromClient("smtplib", 3000, 2, byPython)},
		{"client-sendmail", "our sendmail command", nil, fromClient("sendmail", 100, 3, bySendmail)},
		{"client-smtp-source", "Postfix's smtp-source, a connection each", []program{progPostfix}, fromSMTPSource(3000, 1)},
		{"client-smtp-source-reuse", "the same, connections reused", []program{progPostfix}, fromSMTPSource(5000, 1, "-d")},
		{"client-smtp-source-many", "the same, 50 recipients each", []program{progPostfix}, fromSMTPSource(200, 50, "-d")},
		{"client-postfix", "Postfix as a relay in front", []program{progPostfix}, fromRelay("postfix", postfixAddr, 3000)},
		{"client-exim", "Exim as a relay in front", []program{progExim}, fromRelay("exim", eximAddr, 1000)},
		{"server-postfix", "to Postfix", []program{progPostfix}, throughServer("postfix", postfixDomain, 3000, 2)},
		{"server-postfix-strict", "to Postfix with 20 recipients, 3 connections", []program{progPostfix}, throughServer("strict", strictDomain, 100, 70)},
		{"server-exim", "to Exim, 20 messages a connection", []program{progExim}, throughServer("exim", eximDomain, 1500, 1)},
		{"server-exim-recipients", "to Exim, 30 recipients a transaction", []program{progExim}, throughServer("eximmany", eximDomain, 20, 100)},
		{"server-smtp-sink", "to smtp-sink", []program{progPostfix}, intoSMTPSink("sink", 5000)},
		{"server-smtp-sink-lockstep", "the same, without PIPELINING", []program{progPostfix}, intoSMTPSink("lockstep", 3000, "-p")},
		{"server-smtp-sink-old", "the same, without ESMTP", []program{progPostfix}, intoSMTPSink("old", 3000, "-e")},
		{"mailboxes-socket", "to Dovecot by LMTP, a unix socket", []program{progDovecot}, intoMailboxes("socket", socketDomain, 1000, 3)},
		{"mailboxes-tcp", "to Dovecot by LMTP, TCP, 1 recipient", []program{progDovecot}, intoMailboxes("tcp", tcpDomain, 1000, 1)},
		{"contents", "8-bit content and long lines to servers with few extensions", []program{progPostfix, progPython}, contents},
		{"verp-same", "senders with recipients (VERP), as Postfix makes them", []program{progPostfix}, sameVERP},
		{"verp-bounces", "VERP to Postfix, which bounces it", []program{progPostfix}, verpRoundTrip},
		{"bounce-postfix", "users unknown at Postfix, reports through it", []program{progPostfix, progPython}, bounces("pbounce", postfixDomain, postfixSenders, "[127.0.0.1]", "User unknown")},
		{"bounce-exim", "users unknown at Exim, reports through it", []program{progExim, progPython}, bounces("ebounce", eximDomain, eximSenders, "[127.0.0.1]", "no such user")},
	}
}

// countFull is for how many letters to each server that refuses the numbers of the
// other cases are meant.
const countFull = 2000

// part is the number of letters of a case that are sent, of those that it is meant to have.
func (t *trial) part(full int) int {
	return min(full, max(full*t.count/countFull, 20))
}

// fromClient lets a program send letters into the daemon.
func fromClient(name string, full, recipients int, send func(context.Context, *trial, []letter) error) func(context.Context, *trial) (int, int, error) {
	return func(ctx context.Context, t *trial) (int, int, error) {
		n := t.part(full)
		sent := letters(name, directDomain, n, recipients)
		a := t.receiver.account("")
		defer t.receiver.close(a)
		if err := send(ctx, t, sent); err != nil {
			return 0, 0, err
		}
		err := a.wait(ctx, n*recipients, 0)
		return n, n * recipients, errors.Join(err, a.verify(sent))
	}
}

// fromRelay lets a server pass letters on to the daemon.
func fromRelay(name, address string, full int) func(context.Context, *trial) (int, int, error) {
	return fromClient("relay-"+name, full, 2, func(ctx context.Context, _ *trial, sent []letter) error {
		return byFeed(ctx, address, sent)
	})
}

// throughServer lets the daemon send letters to a server, which passes them on
// to our receiver.
func throughServer(name, domain string, full, recipients int) func(context.Context, *trial) (int, int, error) {
	return func(ctx context.Context, t *trial) (int, int, error) {
		n := t.part(full)
		sent := letters(name, domain, n, recipients)
		a := t.receiver.account("")
		defer t.receiver.close(a)
		if err := byFeed(ctx, posthasteAddr, sent); err != nil {
			return 0, 0, err
		}
		err := a.wait(ctx, n*recipients, 0)
		return n, n * recipients, errors.Join(err, a.verify(sent))
	}
}

// fromSMTPSource lets smtp-source send messages whose content is its own; their
// recipients are all different, so that each can be accounted for.
func fromSMTPSource(full, recipients int, options ...string) func(context.Context, *trial) (int, int, error) {
	return func(ctx context.Context, t *trial) (int, int, error) {
		n := t.part(full)
		a := t.receiver.account("")
		defer t.receiver.close(a)
		args := append([]string{"/usr/sbin/smtp-source", "-N", "-s", "20", "-m", strconv.Itoa(n), "-r", strconv.Itoa(recipients), "-l", "4096",
			"-f", "sender@" + senderDomain, "-t", "user@" + directDomain}, options...)
		if _, err := command(ctx, "", append(args, posthasteAddr)...); err != nil {
			return 0, 0, err
		}
		err := a.wait(ctx, n*recipients, 0)
		return n, n * recipients, errors.Join(err, a.verifyNumbers(n*recipients))
	}
}

// verifyNumbers reports whether so many recipients, all different, got one
// message each.
func (a *account) verifyNumbers(n int) error {
	a.mu.Lock()
	defer a.mu.Unlock()
	times := make(map[mail.Address]int)
	for d, k := range a.got {
		times[d.to] += k
	}
	var wrong complaints
	for to, k := range times {
		if k != 1 || !strings.HasSuffix(string(to), "user@"+directDomain) {
			wrong.add("%s got %d", to, k)
		}
	}
	if len(times) != n {
		wrong.add("%d recipients got something, want %d", len(times), n)
	}
	return wrong.error("wrong numbers")
}

// intoSMTPSink lets the daemon send letters to smtp-sink, whose files are the
// account.
func intoSMTPSink(name string, full int, options ...string) func(context.Context, *trial) (int, int, error) {
	const recipients = 2
	return func(ctx context.Context, t *trial) (int, int, error) {
		n := t.part(full)
		dir := filepath.Join(t.dir, "dumps-"+name)
		p, err := startSMTPSink(ctx, dir, options...)
		if err != nil {
			return 0, 0, err
		}
		sent := letters(name, dumpDomain, n, recipients)
		err = byFeed(ctx, posthasteAddr, sent)
		if err == nil {
			err = t.spoolEmpty(ctx)
		}
		if err = errors.Join(err, p.stop()); err != nil {
			return 0, 0, err
		}
		a := newAccount("")
		return n, n * recipients, errors.Join(bookDumps(a, dir), a.verify(sent))
	}
}

// bounces lets the daemon send letters of which every other one is for users
// that do not exist; the reports go back to the senders, through the server.
func bounces(name, domain, senders, remote, words string) func(context.Context, *trial) (int, int, error) {
	const full, recipients = 200, 2
	return func(ctx context.Context, t *trial) (int, int, error) {
		n := t.part(full)
		sent := letters(name, domain, n, recipients)
		var good, bad []letter
		for i := range sent {
			sent[i].sender = mail.Address("sender@" + senders)
			if i%2 == 0 {
				good = append(good, sent[i])
				continue
			}
			for r := range sent[i].recipients {
				sent[i].recipients[r] = mail.Address(fmt.Sprintf("nobody%d.%d@%s", i, r, domain))
			}
			bad = append(bad, sent[i])
		}
		a := t.receiver.account("")
		defer t.receiver.close(a)
		if err := byFeed(ctx, posthasteAddr, sent); err != nil {
			return 0, 0, err
		}
		if err := a.wait(ctx, len(good)*recipients, len(bad)); err != nil {
			return 0, 0, err
		}
		reports, err := readReports(ctx, t, a)
		if err != nil {
			return 0, 0, err
		}
		return n, n * recipients, errors.Join(a.verify(good), a.reportsOnce(), verifyReports(reports, bad, remote, words))
	}
}
