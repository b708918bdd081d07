package courier

import (
	"bytes"
	"compress/gzip"
	"encoding/base64"
	"fmt"
	"hash/crc32"
	"net/url"
	"time"

	"github.com/posthaste-mta/posthaste/mail"
	"github.com/posthaste-mta/posthaste/tlsrpt"
)

// A Message is mail with a report.
type Message struct {
	From, To mail.Address
	Domain   string // that the report is about
	Content  []byte // lines that end in CRLF
}

// compress returns a report as it is sent.
func compress(r tlsrpt.Report) ([]byte, error) {
	text, err := r.JSON()
	if err != nil {
		return nil, err
	}
	var out bytes.Buffer
	w := gzip.NewWriter(&out)
	if _, err := w.Write(text); err != nil {
		return nil, err
	}
	if err := w.Close(); err != nil {
		return nil, err
	}
	return out.Bytes(), nil
}

// recipient returns the address in a mailto URI. The header fields that such a URI may have are
// left out.
func recipient(u *url.URL) (mail.Address, error) {
	text, err := url.PathUnescape(u.Opaque)
	if to := mail.Address(text); err == nil && isAddress(to) {
		return to, nil
	}
	return "", fmt.Errorf("%w: %.100q has no address of a usual form", errNever, u.Opaque)
}

func checksum(data []byte) uint32 { return crc32.ChecksumIEEE(data) }

// compose returns the message with a report (RFC 8460 5.3). Its own delivery must not fail because of the
// TLS that it is about, so it says that it needs none (RFC 8689 5).
func compose(from, to mail.Address, r *tlsrpt.Report, key taskKey, text []byte, now time.Time) Message {
	submitter := from.Domain()
	boundary := fmt.Sprintf("=_%08x.%08x", checksum([]byte(r.ID)), checksum(text))
	var b bytes.Buffer
	line := func(format string, args ...any) { fmt.Fprintf(&b, format+"\r\n", args...) }
	line("From: <%s>", from)
	line("To: <%s>", to)
	line("Date: %s", now.UTC().Format("Mon, 02 Jan 2006 15:04:05 -0700"))
	line("Subject: Report Domain: %s\r\n Submitter: %s\r\n Report-ID: <%s>", key.domain, submitter, r.ID)
	line("Message-ID: <%08x.%s>", checksum([]byte(to)), r.ID)
	line("TLS-Report-Domain: %s", key.domain)
	line("TLS-Report-Submitter: %s", submitter)
	line("TLS-Required: No")
	line("Auto-Submitted: auto-generated")
	line("MIME-Version: 1.0")
	line("Content-Type: multipart/report; report-type=\"tlsrpt\";\r\n boundary=\"%s\"", boundary)
	line("\r\n--%s", boundary)
	line("Content-Type: text/plain; charset=us-ascii\r\n")
	line("This is an aggregate TLS report (RFC 8460) from %s\r\nfor %s, of %s (UTC).\r\n", submitter, key.domain, key.day)
	line("--%s", boundary)
	line("Content-Type: application/tlsrpt+gzip")
	line("Content-Transfer-Encoding: base64")
	line("Content-Disposition: attachment;\r\n filename=\"%s!%s!%d!%d.json.gz\"\r\n", submitter, key.domain, r.Range.Start.Unix(), r.Range.End.Unix())
	const width = 57 // octets in a line of 76 characters
	for len(text) > 0 {
		n := min(width, len(text))
		line("%s", base64.StdEncoding.EncodeToString(text[:n]))
		text = text[n:]
	}
	line("--%s--", boundary)
	return Message{from, to, key.domain, b.Bytes()}
}
