package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"github.com/posthaste-mta/posthaste/mail"
)

// The domains of mailboxes, whose mail the daemon gives to Dovecot by LMTP.
const (
	socketDomain = "socket.test" // by a unix socket
	tcpDomain    = "boxes.test"  // by TCP
)

// dovecotUser is the number of the user who owns the mailboxes.
const dovecotUser = 64010

func dovecotDir(dir string) string    { return filepath.Join(dir, "dovecot") }
func dovecotSocket(dir string) string { return filepath.Join(dovecotDir(dir), "run", "lmtp") }

// startDovecot starts Dovecot with nothing but LMTP. Every user exists.
func startDovecot(ctx context.Context, dir string) (*process, error) {
	home := dovecotDir(dir)
	boxes := filepath.Join(home, "boxes")
	if err := errors.Join(os.MkdirAll(boxes, 0o755), os.Chmod(dir, 0o755), os.Chown(boxes, dovecotUser, dovecotUser)); err != nil {
		return nil, err
	}
	host, port, _ := strings.Cut(dovecotAddr, ":")
	text := fmt.Sprintf(`
protocols = lmtp
base_dir = %[1]s/run
state_dir = %[1]s/state
log_path = /dev/stderr
ssl = no
first_valid_uid = %[2]d
first_valid_gid = %[2]d
mail_uid = %[2]d
mail_gid = %[2]d
mail_location = maildir:~/Maildir
postmaster_address = postmaster@interop.test
default_process_limit = 100
lmtp_rcpt_check_quota = no
passdb {
  driver = static
  args = nopassword=y
}
userdb {
  driver = static
  args = home=%[1]s/boxes/%%u allow_all_users=yes
}
service lmtp {
  unix_listener lmtp {
    mode = 0600
  }
  inet_listener lmtp {
    address = %[3]s
    port = %[4]s
  }
}
`, home, dovecotUser, host, port)
	file := filepath.Join(dir, "dovecot.conf")
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		return nil, err
	}
	p, err := startProcess(dir, "dovecot", "/usr/sbin/dovecot", "-F", "-c", file)
	if err != nil {
		return nil, err
	}
	return p, p.listens(ctx, dovecotAddr)
}

// intoMailboxes lets the daemon send letters to Dovecot. Each recipient must have the letter
// once in its mailbox.
func intoMailboxes(name, domain string, full, recipients int) func(context.Context, *trial) (int, int, error) {
	return func(ctx context.Context, t *trial) (int, int, error) {
		n := t.part(full)
		sent := letters(name, domain, n, recipients)
		if err := byFeed(ctx, posthasteAddr, sent); err != nil {
			return 0, 0, err
		}
		if err := t.spoolEmpty(ctx); err != nil {
			return 0, 0, err
		}
		var wrong complaints
		for _, l := range sent {
			for _, to := range l.recipients {
				if err := l.inMailbox(t.dir, to); err != nil {
					wrong.add("%s for %s: %v", l.key, to, err)
				}
			}
		}
		return n, n * recipients, wrong.error("wrong mailboxes")
	}
}

// inMailbox reports what is wrong with a recipient's copy of a letter. Each recipient gets
// one letter in all.
func (l letter) inMailbox(dir string, to mail.Address) error {
	files, err := filepath.Glob(filepath.Join(dovecotDir(dir), "boxes", string(to), "Maildir", "new", "*"))
	if err != nil {
		return err
	}
	if len(files) != 1 {
		return fmt.Errorf("%d messages", len(files))
	}
	content, err := os.ReadFile(files[0])
	if err != nil {
		return err
	}
	header, body, _ := strings.Cut(string(content), "\n\n")
	switch {
	case body != strings.ReplaceAll(l.text(), "\r\n", "\n"):
		return fmt.Errorf("another body: %.200q", body)
	case !strings.Contains(header, "Message-ID: "+l.key+"\n"), !strings.Contains(header, "Return-Path: <"+string(l.sender)+">"):
		return fmt.Errorf("another header: %.400q", header)
	}
	return nil
}
