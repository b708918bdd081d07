package main

import (
	"context"
	"errors"
	"fmt"
	"net/textproto"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/posthaste-mta/posthaste/mail"
)

// The domains of mail with VERP: of senders whose bounces come back to the daemon, and of
// recipients whose mail Postfix accepts and bounces.
const (
	verpDomain   = "verp.test"
	bounceDomain = "bounce.test"
)

// verpSecret is the secret of tags.
const verpSecret = "a secret that only the daemon has"

// verpConfig returns the part of the daemon's configuration for VERP, and writes the file of
// secrets.
func verpConfig(dir string) (top, tables string, err error) {
	file := filepath.Join(dir, "verp.secret")
	top = fmt.Sprintf("local_part_limit = 200\nsmtpd_authorized_verp_clients = [\"127.0.0.0/8\"]\nverp_secret_file = %q\n", file)
	tables = fmt.Sprintf("\n[verp.x]\nsender = [\"tagged@%[1]s\"]\n[[feedback]]\ntenant = \"tagged\"\naddresses = [\"tagged@%[1]s\"]\n"+
		"[[feedback]]\ntenant = \"plain\"\naddresses = [\"list@%[1]s\"]\nverp_tags = \"no\"\n", verpDomain)
	return top, tables, os.WriteFile(file, []byte(verpSecret+"\n"), 0o600)
}

// sameVERP sends the same mail with XVERP to the daemon and to Postfix, and compares the
// senders that they put into the envelopes, and their replies to what they refuse.
func sameVERP(ctx context.Context, t *trial) (messages, recipients int, err error) {
	a := t.receiver.account("")
	defer t.receiver.close(a)
	a.senders = make(map[mail.Address]mail.Address)
	locals := []string{"user", "user.a-b", "user+tag", "user=eq", `"user with space"`, `"user\"quote"`, "USER"}
	var wrong complaints
	number := 0
	for _, delimiters := range []string{"", "=+=", "=-=", "===", "=+-"} {
		for _, sender := range []string{"list", "owner-list", "list+x", `"li st"`} {
			number++
			for _, server := range []struct{ address, domain string }{{posthasteAddr, directDomain}, {postfixAddr, postfixDomain}} {
				lines := []string{fmt.Sprintf("MAIL FROM:<%s@%s> XVERP%s", sender, senderDomain, delimiters)}
				for i, local := range locals {
					local = strings.Replace(local, "ser", fmt.Sprintf("ser%d.%d", number, i), 1)
					local = strings.Replace(local, "SER", fmt.Sprintf("SER%d.%d", number, i), 1)
					lines = append(lines, fmt.Sprintf("RCPT TO:<%s@%s>", local, server.domain))
				}
				lines = append(lines, "DATA", fmt.Sprintf("Message-ID: <verp-%d@%s>", number, server.domain), "", "x", ".")
				reply, err := converse(server.address, lines...)
				if err != nil || !strings.HasPrefix(reply, "250") {
					return 0, 0, fmt.Errorf("%s at %s: %s, %w", lines[0], server.address, reply, err)
				}
				messages, recipients = messages+1, recipients+len(locals)
			}
		}
	}
	if err := a.wait(ctx, recipients, 0); err != nil {
		return 0, 0, err
	}
	pairs := 0
	for to, sender := range a.senders {
		local, ours := strings.CutSuffix(string(to), "@"+directDomain)
		if !ours {
			continue
		}
		theirs := string(a.senders[mail.Address(local+"@"+postfixDomain)])
		if pairs++; strings.ReplaceAll(theirs, postfixDomain, directDomain) != string(sender) {
			wrong.add("%s to %s, and Postfix's is %s", sender, to, theirs)
		}
	}
	if pairs != recipients/2 {
		wrong.add("%d recipients of %d", pairs, recipients/2)
	}
	for _, refused := range []string{"MAIL FROM:<> XVERP", "MAIL FROM:<list@" + senderDomain + "> XVERP=+", "MAIL FROM:<list@" + senderDomain + "> XVERP=/%"} {
		ours, err := converse(posthasteAddr, refused)
		theirs, other := converse(postfixAddr, refused)
		if err != nil || other != nil || ours != theirs {
			wrong.add("%s: %q, %v, and Postfix says %q, %v", refused, ours, err, theirs, other)
		}
	}
	return messages, recipients, wrong.error("different")
}

// verpRoundTrip has the daemon send mail with VERP that Postfix accepts and bounces: the bounces
// come back to the daemon, which attributes each to its recipient and tenant, and knows its tags.
func verpRoundTrip(ctx context.Context, t *trial) (messages, recipients int, err error) {
	const each = 20
	end, err := startSMTPSink(ctx, filepath.Join(t.dir, "dumps-verp"), "-f", "rcpt") // refuses all recipients
	if err != nil {
		return 0, 0, err
	}
	defer func() { err = errors.Join(err, end.stop()) }()
	for sender, xverp := range map[string]string{"tagged": "", "list": " XVERP"} {
		lines := []string{fmt.Sprintf("MAIL FROM:<%s@%s>%s", sender, verpDomain, xverp)}
		for i := range each {
			lines = append(lines, fmt.Sprintf("RCPT TO:<user%d+%s@%s>", i, sender, bounceDomain))
		}
		reply, err := converse(posthasteAddr, append(lines, "DATA", "Message-ID: <bounced-"+sender+"@interop.test>", "", "x", ".")...)
		if err != nil || !strings.HasPrefix(reply, "250") {
			return 0, 0, fmt.Errorf("%s: %s, %w", lines[0], reply, err)
		}
	}
	var wrong complaints
	for deadline := time.Now().Add(newsMax); ; {
		wrong = complaints{}
		text, err := os.ReadFile(filepath.Join(t.dir, "posthaste.out"))
		if err != nil {
			return 0, 0, err
		}
		for sender, fields := range map[string][]string{"tagged": {"verified=true", "tenant=tagged"}, "list": {"tenant=plain"}} {
			for i := range each {
				fields := append([]string{"msg=feedback", "kind=bounced", fmt.Sprintf("recipient=user%d+%s@%s", i, sender, bounceDomain), "by=verp",
					"sender=" + sender + "@" + verpDomain, "reply_class=server", "reporter=postfix.interop.test"}, fields...)
				if n := countLines(string(text), fields...); n != 1 {
					wrong.add("%d lines with %q", n, fields)
				}
			}
		}
		if wrong.n == 0 || time.Now().After(deadline) {
			break
		}
		time.Sleep(quietTime)
	}
	return 2, 2 * each, errors.Join(wrong.error("bounces not attributed"), t.spoolEmpty(ctx))
}

// countLines counts the lines of a log with all of some fields.
func countLines(text string, fields ...string) (n int) {
	for line := range strings.Lines(text) {
		all := true
		for _, f := range fields {
			all = all && strings.Contains(line, " "+f+" ")
		}
		if all {
			n++
		}
	}
	return n
}

// converse speaks SMTP, and returns the reply to the last command, or to the first that is refused. The lines
// between "DATA" and "." are content.
func converse(address string, lines ...string) (reply string, err error) {
	c, err := textproto.Dial("tcp", address)
	if err != nil {
		return "", err
	}
	defer c.Close()
	content := false
	for _, line := range append([]string{"", "EHLO interop.test"}, lines...) {
		if line != "" || content {
			if err := c.PrintfLine("%s", line); err != nil {
				return "", err
			}
		}
		if content && line != "." {
			continue
		}
		code, text, err := c.ReadResponse(0)
		if err != nil {
			return "", err
		}
		if reply = fmt.Sprintf("%d %s", code, text); code >= 400 {
			return reply, nil
		}
		content = line == "DATA"
	}
	return reply, nil
}
