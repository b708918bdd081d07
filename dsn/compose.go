package dsn

import (
	"bytes"
	"encoding/base64"
	"errors"
	"fmt"
	"hash/fnv"
	"io"
	"mime/quotedprintable"
	"strconv"

	"github.com/posthaste-mta/posthaste/mail"
)

// A Composer writes reports. The zero value is usable.
type Composer struct {
	// Contact is the address to which a reader may turn; "" names none.
	Contact mail.Address
	// Footer is added at the end of the human-readable text. It may have several
	// lines, separated by "\n".
	Footer string
}

// Compose writes a report: a complete message in lines of at most 998 octets
// that end in CRLF. It writes r.Clean() and o.Clean(). Memory grows with the
// recipients of r, since the human-readable text groups them. The error is w's, or
// that there are no recipients.
func (c Composer) Compose(w io.Writer, r Report, o Original) error {
	if len(r.Recipients) == 0 {
		return errors.New("dsn: a report needs at least one recipient (RFC 3464 2.1)")
	}
	r, o = r.Clean(), o.Clean()
	_, utf8OK := Needs(r, o)
	out := &output{w: w}
	m := mimeParts{out: out, boundary: boundary(r, o)}
	m.header(r, o, utf8OK)
	m.explanation(c.explain(r, o))
	m.status(r, utf8OK)
	if o.Part == PartHeaders || o.Part == PartMessage {
		m.original(o, utf8OK)
	}
	out.text("\r\n--", m.boundary, "--\r\n")
	out.pass(0)
	if out.err != nil {
		return fmt.Errorf("dsn: write a report: %w", out.err)
	}
	return nil
}

// mimeParts writes the container (RFC 6522).
type mimeParts struct {
	out      *output
	boundary string
}

// header writes the report's own header fields. They contain nothing of the message
// or of a reply except the sender's address, and that only if it is valid.
func (m mimeParts) header(r Report, o Original, utf8OK bool) {
	if r.Date != 0 {
		m.out.field("Date", FormatDate(r.Date))
	}
	m.out.field("From", "Mail Delivery System <"+string(r.From)+">")
	if r.To != "" {
		m.out.field("To", "<"+string(r.To)+">")
	} else {
		m.out.field("To", "undisclosed-recipients:;")
	}
	m.out.field("Subject", subject(r.Kind()))
	if r.MessageID != "" {
		m.out.field("Message-ID", "<"+r.MessageID+">")
	}
	m.out.field("Auto-Submitted", "auto-replied") // RFC 3834 5.2
	m.out.field("MIME-Version", "1.0")
	m.out.text("Content-Type: multipart/report; report-type=delivery-status;\r\n boundary=\"", m.boundary, "\"\r\n")
	if body, _ := Needs(r, o); body == mail.Body8BitMIME {
		m.out.field("Content-Transfer-Encoding", "8bit") // RFC 2045 6.4
	}
}

// part starts a part of the container.
func (m mimeParts) part(contentType, description string, e encoding) {
	m.out.text("\r\n--", m.boundary, "\r\n")
	m.out.field("Content-Type", contentType)
	m.out.field("Content-Description", description)
	if e != encoding7Bit {
		m.out.field("Content-Transfer-Encoding", e.String())
	}
	m.out.text("\r\n")
}

// explanation writes the first part. It is encoded unless it consists of short ASCII
// lines, because it must arrive by any path.
func (m mimeParts) explanation(text []byte) {
	charset, e := "us-ascii", encoding7Bit
	_, long, high := survey(text)
	if high {
		charset = "utf-8"
	}
	if high || long {
		e = encodingQP
	}
	m.part("text/plain; charset="+charset, "What happened", e)
	m.encode(e, text)
}

func (m mimeParts) status(r Report, utf8OK bool) {
	contentType, e := "message/delivery-status", encoding7Bit
	if utf8OK {
		contentType, e = "message/global-delivery-status", encoding8Bit
	}
	m.part(contentType, "The same, for programs", e)
	m.out.status(r, utf8OK)
}

func (m mimeParts) original(o Original, utf8OK bool) {
	description := "The header of the message"
	if o.Part == PartMessage {
		description = "The message"
	}
	e := encodingOf(o, utf8OK)
	m.part(o.contentType(), description, e)
	m.encode(e, o.Content)
}

// encode writes a part's content. The encoders' only errors are those of the
// output, which records them.
func (m mimeParts) encode(e encoding, content []byte) {
	switch e {
	case encodingQP:
		q := quotedprintable.NewWriter(m.out)
		_, _ = q.Write(content)
		_ = q.Close()
	case encodingBase64:
		const octets = 57 // make 76 letters
		for len(content) > 0 {
			n := min(octets, len(content))
			m.out.text(base64.StdEncoding.EncodeToString(content[:n]), "\r\n")
			content = content[n:]
		}
	default:
		_, _ = m.out.Write(content)
	}
}

// boundary returns a boundary that does not occur in the report. In the first
// two parts no line starts with "--", and encoded lines have no "=_"; so only
// the original matters. An original of n octets excludes fewer than n
// candidates, which is why the loop ends.
func boundary(r Report, o Original) string {
	h := fnv.New64a()
	_, _ = io.WriteString(h, r.MessageID) // writing to a hash does not fail
	for {
		_, _ = h.Write([]byte{'.'})
		b := "=_" + strconv.FormatUint(h.Sum64(), 36)
		if !bytes.Contains(o.Content, []byte(b)) {
			return b
		}
	}
}

// subject returns the report's subject, in words of our own only.
func subject(kind mail.ReportKind) string {
	switch kind {
	case mail.ReportFailed:
		return "Your message could not be delivered"
	case mail.ReportDelayed:
		return "Your message is delayed and will be tried again"
	case mail.ReportDelivered:
		return "Your message was delivered"
	case mail.ReportRelayed:
		return "Your message was passed on"
	}
	return "About your message"
}
