package main

import (
	"bytes"
	"context"
	"hash/crc32"
	"io"
	"mime/quotedprintable"
	"os"
	"path/filepath"
	"strings"

	"github.com/posthaste-mta/posthaste/mail"
)

// startSMTPSink starts Postfix's test receiver, which writes each message into a
// file of its own.
func startSMTPSink(ctx context.Context, dir string, options ...string) (*process, error) {
	if err := os.Mkdir(dir, 0o755); err != nil {
		return nil, err
	}
	if _, err := command(ctx, "", "chown", "nobody", dir); err != nil {
		return nil, err
	}
	args := append([]string{"/usr/sbin/smtp-sink", "-u", "nobody", "-d", filepath.Join(dir, "message.%M.")}, options...)
	p, err := startProcess(filepath.Dir(dir), filepath.Base(dir), append(args, smtpSinkAddr, "1000")...)
	if err != nil {
		return nil, err
	}
	return p, p.listens(ctx, smtpSinkAddr)
}

// bookDumps enters all that smtp-sink has written into an account.
func bookDumps(a *account, dir string) error {
	names, err := filepath.Glob(filepath.Join(dir, "message.*"))
	if err != nil {
		return err
	}
	for _, name := range names {
		text, err := os.ReadFile(name)
		if err != nil {
			return err
		}
		key, recipients, bodySum := readDump(text)
		a.note(key, recipients, bodySum)
	}
	return nil
}

// readDump reads a message as smtp-sink writes it: the envelope in header
// fields of its own, lines that end in LF, and one empty line at the end. A sink
// without ESMTP gets 8-bit content as quoted-printable (RFC 6152 3), which has to
// decode to what was sent.
func readDump(text []byte) (key string, recipients []mail.Address, bodySum uint32) {
	header, body, _ := bytes.Cut(text, []byte("\n\n"))
	encoded := false
	for line := range strings.Lines(string(header)) {
		name, value, _ := strings.Cut(strings.TrimSpace(line), ": ")
		switch name {
		case "X-Rcpt-Args":
			address, _, _ := strings.Cut(strings.TrimPrefix(value, "<"), ">")
			recipients = append(recipients, mail.Address(address))
		case "Message-ID":
			key = value
		case "Content-Transfer-Encoding":
			encoded = value == "quoted-printable"
		}
	}
	if encoded {
		decoded, err := io.ReadAll(quotedprintable.NewReader(bytes.NewReader(body)))
		if err == nil { // else the checksum is that of what came, and differs
			body = decoded
		}
	}
	body = bytes.ReplaceAll(bytes.TrimSuffix(body, []byte("\n")), []byte("\n"), []byte("\r\n"))
	return key, recipients, crc32.Checksum(body, crc32.MakeTable(crc32.Castagnoli))
}
