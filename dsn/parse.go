package dsn

import (
	"bytes"
	"encoding/base64"
	"errors"
	"fmt"
	"io"
	"mime"
	"mime/multipart"
	"mime/quotedprintable"
	"strings"

	"github.com/posthaste-mta/posthaste/mail"
)

// ErrNotReport means that a message is not a delivery status notification.
var ErrNotReport = errors.New("not a delivery status notification")

// Limits of Parse. A report of ours about 5,000 recipients with
// replies of usual length is about 3 MiB long.
const (
	parseMax           = 16 << 20
	parseRecipientsMax = 20_000
	parsePartsMax      = 20
)

// Parse parses a report, of this program or another. It returns values
// that are clean (see Report.Clean). Lines may end in LF alone. Any error
// means that the message is not an intelligible report, and wraps
// ErrNotReport unless it is an error of rd.
func Parse(rd io.Reader) (Report, Original, error) {
	data, err := io.ReadAll(io.LimitReader(rd, parseMax+1))
	if err != nil {
		return Report{}, Original{}, fmt.Errorf("dsn: read a report: %w", err)
	}
	if len(data) > parseMax {
		return Report{}, Original{}, fmt.Errorf("%w: longer than %d octets", ErrNotReport, parseMax)
	}
	r, o, err := parse(data)
	if err != nil {
		return Report{}, Original{}, fmt.Errorf("%w: %w", ErrNotReport, err)
	}
	return r.Clean(), o.Clean(), nil
}

func parse(data []byte) (Report, Original, error) {
	header, body := cutFields(data)
	kind, parameters, err := mime.ParseMediaType(header.get("Content-Type"))
	if err != nil {
		return Report{}, Original{}, fmt.Errorf("its Content-Type: %w", err)
	}
	if kind != "multipart/report" || !strings.EqualFold(parameters["report-type"], "delivery-status") {
		return Report{}, Original{}, fmt.Errorf("it is %q", kind)
	}
	r := Report{
		MessageID: bracketed(header.get("Message-ID")),
		Date:      parseDate(header.get("Date")),
		From:      mail.Address(bracketed(header.get("From"))),
		To:        mail.Address(bracketed(header.get("To"))),
	}
	var o Original
	found := false
	parts := multipart.NewReader(bytes.NewReader(body), parameters["boundary"])
	for range parsePartsMax {
		part, err := parts.NextRawPart()
		if err == io.EOF {
			break
		}
		if err != nil {
			return Report{}, Original{}, fmt.Errorf("its parts: %w", err)
		}
		status, err := r.parsePart(part, &o)
		if err != nil {
			return Report{}, Original{}, err
		}
		found = found || status
	}
	if !found {
		return Report{}, Original{}, errors.New("it has no status part with recipients")
	}
	return r, o, nil
}

// parsePart parses one part of the container and reports whether it was a status
// part with recipients.
func (r *Report) parsePart(part *multipart.Part, o *Original) (status bool, err error) {
	kind, _, err := mime.ParseMediaType(part.Header.Get("Content-Type"))
	if err != nil {
		return false, nil // ignore a part of unknown type
	}
	var what Part
	switch kind {
	case "message/delivery-status", "message/global-delivery-status":
	case "text/rfc822-headers", "message/global-headers":
		what = PartHeaders
	case "message/rfc822", "message/global":
		what = PartMessage
	default:
		return false, nil
	}
	content, err := decodePart(part.Header.Get("Content-Transfer-Encoding"), part)
	if err != nil {
		return false, fmt.Errorf("its part %s: %w", kind, err)
	}
	if what == PartNone {
		return r.parseStatus(content)
	}
	if o.Part == PartNone {
		*o = Original{what, content}
	}
	return false, nil
}

func decodePart(encoding string, rd io.Reader) ([]byte, error) {
	switch strings.ToLower(strings.TrimSpace(encoding)) {
	case "quoted-printable":
		rd = quotedprintable.NewReader(rd)
	case "base64":
		rd = base64.NewDecoder(base64.StdEncoding, rd)
	}
	return io.ReadAll(rd)
}

// parseStatus parses the fields of a status part. Groups without a
// Final-Recipient, which a report must have (RFC 3464 2.3.2), are skipped.
func (r *Report) parseStatus(content []byte) (bool, error) {
	f, rest := cutFields(content)
	r.Host = afterType(f.get("Reporting-MTA"))
	r.EnvID = f.get("Original-Envelope-Id")
	r.Received = parsePeerField(afterType(f.get("Received-From-MTA"))).String()
	r.Arrived = parseDate(f.get("Arrival-Date"))
	r.Deadline = parseDate(f.get("Deliver-By-Date"))
	if id, err := mail.ParseQueueID(f.get(fieldQueueID)); err == nil {
		r.QueueID = id
	}
	for len(rest) > 0 {
		f, rest = cutFields(rest)
		if f.get("Final-Recipient") == "" {
			continue
		}
		if len(r.Recipients) == parseRecipientsMax {
			return false, fmt.Errorf("it has more than %d recipients", parseRecipientsMax)
		}
		r.Recipients = append(r.Recipients, parseRecipient(f))
	}
	return len(r.Recipients) > 0, nil
}

func parseRecipient(f fields) Recipient {
	r := Recipient{
		Original:    parseTyped(f.get("Original-Recipient")),
		Final:       mail.Address(parseTyped(f.get("Final-Recipient")).Text),
		Kind:        parseAction(f.get("Action")),
		LastAttempt: parseDate(f.get("Last-Attempt-Date")),
		RetryUntil:  parseDate(f.get("Will-Retry-Until")),
	}
	word, _, _ := strings.Cut(f.get("Status"), " ") // a comment may follow
	r.Status, _, _ = mail.ParseStatus(word)
	if value := f.raw("Diagnostic-Code"); value != "" {
		r.Reply = parseDiagnostic(value)
	}
	r.Reply.By = parsePeerField(afterType(f.get("Remote-MTA"))).String()
	return r
}

func parseAction(word string) mail.ReportKind {
	word, _, _ = strings.Cut(word, " ")
	for _, k := range [...]mail.ReportKind{mail.ReportFailed, mail.ReportDelayed, mail.ReportDelivered, mail.ReportRelayed} {
		if strings.EqualFold(word, k.String()) {
			return k
		}
	}
	return mail.ReportNone
}

func parseTyped(value string) TypedAddress {
	kind, text, ok := strings.Cut(value, ";")
	if !ok {
		return TypedAddress{Text: value} // some programs omit the type
	}
	t := TypedAddress{strings.ToLower(strings.Trim(kind, " \t")), strings.Trim(text, " \t")}
	if t.Type == "utf-8" {
		t.Text = decodeEmbedded(t.Text)
	}
	return t
}

// afterType returns what follows the type of an MTA's name.
func afterType(value string) string {
	if _, name, ok := strings.Cut(value, ";"); ok {
		return strings.Trim(name, " \t")
	}
	return value
}

// bracketed returns what is between the first "<" and the last ">".
func bracketed(value string) string {
	i, j := strings.IndexByte(value, '<'), strings.LastIndexByte(value, '>')
	if i < 0 || j < i {
		return ""
	}
	return value[i+1 : j]
}

// A headerField is one field as in the message, including its folds.
type headerField struct {
	name, value []byte
}

// fields is a group of header fields.
type fields []headerField

// fieldsMax is the maximum number of fields of a group that are examined, valueMax the
// maximum length of one in octets: our longest is a reply of 4,096 empty lines.
const (
	fieldsMax = 100
	valueMax  = 128 << 10
)

// cutFields removes header fields from data, up to and including an empty line.
// Lines that are not fields are skipped.
func cutFields(data []byte) (f fields, rest []byte) {
	start := -1 // of the value of the field being read; -1 after a line that is not a field
	for at := 0; at < len(data); {
		end := at + bytes.IndexByte(data[at:], '\n') + 1
		if end == at {
			end = len(data)
		}
		line := bytes.TrimRight(data[at:end], "\r\n \t")
		colon := bytes.IndexByte(line, ':')
		switch {
		case len(line) == 0:
			return f, data[end:]
		case line[0] == ' ' || line[0] == '\t':
			if start >= 0 {
				f[len(f)-1].value = data[start:end]
			}
		case colon > 0 && len(f) < fieldsMax:
			start = at + colon + 1
			f = append(f, headerField{bytes.TrimRight(line[:colon], " \t"), data[start:end]})
		default:
			start = -1
		}
		at = end
	}
	return f, nil
}

// raw returns the first field of a name, each fold kept as "\n"; "" if there
// is none.
func (f fields) raw(name string) string {
	for i := range f {
		if !strings.EqualFold(string(f[i].name), name) {
			continue
		}
		value := f[i].value[:min(len(f[i].value), valueMax)]
		lines := strings.Split(string(value), "\n")
		for j, l := range lines {
			lines[j] = strings.TrimRight(l, "\r \t")
		}
		return strings.TrimRight(strings.Join(lines, "\n"), "\n")
	}
	return ""
}

// get returns the first field of a name, unfolded and trimmed.
func (f fields) get(name string) string {
	return strings.Trim(strings.ReplaceAll(f.raw(name), "\n", ""), " \t")
}
