package feedback

import (
	"bytes"
	"encoding/base64"
	"fmt"
	"io"
	"mime/multipart"
	"mime/quotedprintable"
	"strings"

	"github.com/posthaste-mta/posthaste/dsn"
	"github.com/posthaste-mta/posthaste/mail"
)

// Bounds of Parse. A report of one message is a few kilobytes, with all of that message some
// megabytes at most.
const (
	SizeMax    = 16 << 20 // octets of a message; longer ones are not understood
	EntriesMax = 1000     // recipients of one report; further ones are counted in Omitted
	depthMax   = 4        // containers around a report
	partsMax   = 60       // parts of all containers together
)

// Parse reads a message whose lines end in CRLF or LF. The error wraps ErrUnknown, and the report
// has then what is known nevertheless: who it is from, and its ID. host is the name in Received
// fields of the server whose queue IDs are wanted; "" takes those of any Posthaste.
func Parse(data []byte, host string) (Report, error) {
	header, body := cutHeader(data)
	r := Report{MessageID: id(header.get("message-id")), From: address(header.get("from"))}
	if len(data) > SizeMax {
		return r, unknown("the message is longer than %d MiB", SizeMax>>20)
	}
	p := parser{report: &r, host: host}
	err := p.entity(header, body, 0)
	kind, _ := mediaType(header)
	switch auto := header.get("auto-submitted"); {
	case err == nil:
		return r, nil
	case kind == "multipart/report", header.get("x-failed-recipients") != "":
		// A bounce in a form that is not understood. It may say that it is automatic, too (RFC 3834 5), and Exim's do.
	case strings.HasPrefix(strings.ToLower(auto), "auto-replied"), header.get("x-autoreply") != "", header.get("x-autorespond") != "":
		r.Kind = KindAutoReply
		return r, nil
	}
	return r, err
}

func unknown(format string, args ...any) error {
	return fmt.Errorf("%w: %s", ErrUnknown, fmt.Sprintf(format, args...))
}

// A parser fills a report.
type parser struct {
	report *Report
	host   string
	parts  int // so far
}

// A part is one part of a container, decoded.
type part struct {
	kind    string
	header  fields
	content []byte
}

// entity looks for a report in a message or a part of one.
func (p *parser) entity(header fields, body []byte, depth int) error {
	kind, parameters := mediaType(header)
	if !strings.HasPrefix(kind, "multipart/") {
		return unknown("it is %s and not a report (multipart/report)", clean(kind, 80))
	}
	boundary := parameters["boundary"]
	if boundary == "" {
		return unknown("its parts cannot be separated, because its Content-Type has no boundary")
	}
	parts, err := p.split(body, boundary)
	if err != nil {
		return err
	}
	for i := range parts {
		switch parts[i].kind {
		case "message/delivery-status", "message/global-delivery-status":
			p.original(parts)
			return p.status(&parts[i])
		case "message/feedback-report":
			p.original(parts)
			return p.complaint(&parts[i])
		}
	}
	if kind == "multipart/report" {
		return unknown("it is a report of another kind: %s", clean(parameters["report-type"], 80))
	}
	if p.returned(parts) {
		return nil
	}
	why := unknown("none of its parts is a report")
	for i := range parts {
		if !strings.HasPrefix(parts[i].kind, "multipart/") {
			continue
		}
		if depth+1 >= depthMax {
			return unknown("it has parts within parts, more than %d deep", depthMax)
		}
		if err := p.entity(parts[i].header, parts[i].content, depth+1); err == nil {
			return nil
		} else {
			why = err
		}
	}
	return why
}

// split reads the parts of a container. What follows a damaged part is left out.
func (p *parser) split(body []byte, boundary string) (parts []part, err error) {
	rd := multipart.NewReader(bytes.NewReader(body), boundary)
	for {
		raw, err := rd.NextRawPart()
		if err != nil {
			return parts, nil // the parts before it may be a report
		}
		if p.parts++; p.parts > partsMax {
			return nil, unknown("it has more than %d parts", partsMax)
		}
		one := part{}
		for name, values := range raw.Header { // in any order: names differ
			for _, v := range values {
				one.header = append(one.header, field{strings.ToLower(name), v})
			}
		}
		one.kind, _ = mediaType(one.header)
		if one.content, err = io.ReadAll(decoder(one.header.get("content-transfer-encoding"), raw)); err != nil && len(one.content) == 0 {
			continue
		}
		parts = append(parts, one)
	}
}

// decoder undoes a Content-Transfer-Encoding.
func decoder(encoding string, rd io.Reader) io.Reader {
	switch strings.ToLower(strings.TrimSpace(encoding)) {
	case "quoted-printable":
		return quotedprintable.NewReader(rd)
	case "base64":
		return base64.NewDecoder(base64.StdEncoding, rd)
	}
	return rd
}

// status reads a delivery status notification, for which package dsn gets its part in a container
// of its own: the message may have been cut off behind it.
func (p *parser) status(one *part) error {
	const boundary = "the-part-with-the-status"
	head := "Content-Type: multipart/report; report-type=delivery-status; boundary=" + boundary + "\n\n--" + boundary + "\nContent-Type: " + one.kind + "\n\n"
	found, _, err := dsn.Parse(io.MultiReader(strings.NewReader(head), bytes.NewReader(one.content), strings.NewReader("\n--"+boundary+"--\n")))
	if err != nil {
		return unknown("%s", strings.TrimPrefix(err.Error(), dsn.ErrNotReport.Error()+": "))
	}
	r := p.report
	r.Kind, r.Reporter, r.EnvID = KindStatus, found.Host, found.EnvID
	for i := range found.Recipients {
		if len(r.Entries) == EntriesMax {
			r.Omitted = len(found.Recipients) - i
			break
		}
		from := &found.Recipients[i]
		r.Entries = append(r.Entries, Entry{
			Original: address(from.Original.Text), Final: address(string(from.Final)),
			Redacted: redacted(from.Original.Text) || redacted(string(from.Final)),
			Action:   from.Kind, Status: from.Status, Reply: reply(from),
		})
	}
	return nil
}

// reply returns the reply that a status quotes. Where the code is missing, it is that of the
// status, so that patterns of replies apply.
func reply(from *dsn.Recipient) mail.Reply {
	r := from.Reply
	switch {
	case r.Text == "" && r.Code == 0:
		return mail.Reply{}
	case r.Code == 0 && from.Kind == mail.ReportFailed:
		r.Code = 550
	case r.Code == 0 && from.Kind == mail.ReportDelayed:
		r.Code = 450
	case r.Code == 0:
		r.Code = 250
	}
	if r.Status == (mail.Status{}) {
		r.Status = from.Status
	}
	return r
}

// complaint reads the fields of a feedback report (RFC 5965 3).
func (p *parser) complaint(status *part) error {
	f, _ := cutHeader(bytes.TrimLeft(status.content, "\r\n"))
	kind := strings.ToLower(clean(f.get("feedback-type"), 30))
	if kind == "" {
		return unknown("it is a feedback report without a Feedback-Type")
	}
	r, c := p.report, &p.report.Complaint
	r.Kind, r.Reporter, r.EnvID = KindComplaint, clean(f.get("user-agent"), 200), clean(f.get("original-envelope-id"), 100)
	c.Type, c.Incidents = feedbackType(kind), incidents(f.get("incidents"))
	c.Sender = address(f.get("original-mail-from"))
	c.SourceIP, c.Domain = clean(f.get("source-ip"), 60), clean(f.get("reported-domain"), 255)
	if c.Type == "auth-failure" {
		c.AuthFailure = clean(f.get("auth-failure"), 60)
	}
	for _, text := range f.all("original-rcpt-to") {
		if len(r.Entries) == EntriesMax {
			r.Omitted++
			continue
		}
		r.Entries = append(r.Entries, recipientOf(text))
	}
	if len(r.Entries) == 0 {
		r.Entries = []Entry{recipientOf(f.get("removal-recipient"))} // of one provider
	}
	return nil
}

// recipientOf returns the entry of a recipient who complains.
func recipientOf(text string) Entry {
	if redacted(text) {
		return Entry{Redacted: true}
	}
	return Entry{Final: address(text)}
}

// feedbackType returns a registered type as it is, and "other" for all else (RFC 5965 3.5).
func feedbackType(kind string) string {
	switch kind {
	case "abuse", "fraud", "virus", "not-spam", "opt-out", "auth-failure":
		return kind
	}
	return "other"
}

// incidents parses the field Incidents (RFC 5965 3.2), 1 if it has no value that makes sense.
func incidents(text string) uint {
	var n uint
	for i := range len(text) {
		if text[i] < '0' || text[i] > '9' || n > 1_000_000 {
			return 1
		}
		n = n*10 + uint(text[i]-'0')
	}
	return max(n, 1)
}

// returnedField is a field of the returned message by which one large receiver names the recipient
// that complained, in a message that is not a feedback report (JMRP).
const returnedField = "x-hmxmroriginalrecipient"

// returned reads a complaint of this form, and reports whether it is one.
func (p *parser) returned(parts []part) bool {
	for i := range parts {
		if parts[i].kind != "message/rfc822" {
			continue
		}
		f, _ := cutHeader(parts[i].content)
		text := f.get(returnedField)
		if text == "" {
			continue
		}
		r := p.report
		r.Kind, r.Complaint = KindComplaint, Complaint{Type: "abuse", Incidents: 1}
		r.Entries = []Entry{recipientOf(text)}
		p.original(parts)
		return true
	}
	return false
}

// original reads the header of the message that a report returns.
func (p *parser) original(parts []part) {
	for i := range parts {
		switch parts[i].kind {
		case "message/rfc822", "message/global", "text/rfc822-headers", "message/global-headers", "text/rfc822":
		default:
			continue
		}
		f, _ := cutHeader(bytes.TrimLeft(parts[i].content, "\r\n"))
		p.report.Original = Original{MessageID: id(f.get("message-id")), From: address(f.get("from")),
			ReturnPath: address(f.get("return-path")), QueueID: queueID(f.all("received"), p.host)}
		return
	}
}

// queueID returns the queue ID that the last server of a name, or the last Posthaste, has noted.
func queueID(received []string, host string) mail.QueueID {
	for _, text := range received {
		_, by, ok := strings.Cut(" "+text, " by ")
		name, rest, _ := strings.Cut(by, " ")
		if !ok || host != "" && !strings.EqualFold(name, host) || host == "" && !strings.HasPrefix(rest, "(Posthaste)") {
			continue
		}
		if _, word, ok := strings.Cut(rest, " id "); ok {
			word, _, _ = strings.Cut(word, " ")
			if q, err := mail.ParseQueueID(strings.TrimRight(word, ";")); err == nil {
				return q
			}
		}
	}
	return 0
}
