package dsn

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"unicode/utf8"
)

// A Part is the content of the third part of a report.
type Part uint8

const (
	PartNone    Part = iota // there is no third part
	PartHeaders             // the header of the message
	PartMessage             // all of the message
	PartLost                // there is none, because the message could no longer be read
)

// An Original is the part of the original message that a report returns.
type Original struct {
	Part    Part
	Content []byte // lines that end in CRLF; without the empty line after the header if Part is PartHeaders
}

// ReadOriginal reads the returnable part from the start of a message: all of it if
// full is set (RET=FULL, and a recipient failed; RFC 3461 4.3), it is at most max
// octets long and it can be sent unencoded; otherwise as many header fields as fit
// into max octets. It reads and holds little more than max.
func ReadOriginal(content io.Reader, full bool, max int) (Original, error) {
	var data []byte
	chunk := 4 << 10 // holds the header of nearly all mail
	for {
		n := min(chunk, max+1-len(data))
		data = append(data, make([]byte, n)...)
		got, err := io.ReadFull(content, data[len(data)-n:])
		data = data[:len(data)-n+got]
		switch {
		case errors.Is(err, io.EOF), errors.Is(err, io.ErrUnexpectedEOF):
			return wholeOriginal(data, full), nil
		case err != nil:
			return Original{}, fmt.Errorf("dsn: read the message: %w", err)
		case len(data) > max, !full && headerEnd(data) >= 0:
			return headers(data, max), nil
		}
		chunk *= 2
	}
}

// wholeOriginal makes an Original of a message that was read to its end.
func wholeOriginal(data []byte, full bool) Original {
	part := PartHeaders
	if full {
		part = PartMessage
	}
	return Original{part, data}.Clean()
}

// headers returns the header fields in the first octets of a message, without
// the last one if its end is missing.
func headers(data []byte, max int) Original {
	if headerEnd(data) < 0 {
		data = data[:min(len(data), max)]
		data = data[:lastField(data)]
	}
	return Original{PartHeaders, data}.Clean()
}

// headerEnd returns where the header fields end, or -1 if data does not contain
// their end.
func headerEnd(data []byte) int {
	if bytes.HasPrefix(data, []byte("\r\n")) {
		return 0
	}
	if i := bytes.Index(data, []byte("\r\n\r\n")); i >= 0 {
		return i + 2
	}
	return -1
}

// lastField returns where the last, perhaps incomplete field starts.
func lastField(data []byte) int {
	end := len(data)
	for {
		i := bytes.LastIndex(data[:end], []byte("\r\n"))
		if i < 0 {
			return 0
		}
		if next := i + 2; next < len(data) && data[next] != ' ' && data[next] != '\t' {
			return next
		}
		end = i
	}
}

// Clean returns the original in the form in which it can be sent. A message that no
// 8-bit path carries unchanged (NUL, CR or LF alone, a line of more than 998 octets)
// is reduced to its header, since message/rfc822 must not be encoded (RFC 2046
// 5.2.1). A header is cut off at its end, and if nothing is left, so is the part.
func (o Original) Clean() Original {
	switch {
	case o.Part == PartLost:
		return Original{Part: PartLost}
	case len(o.Content) == 0 || o.Part == PartNone:
		return Original{}
	}
	if o.Part == PartMessage {
		if !bytes.HasSuffix(o.Content, []byte("\r\n")) {
			o.Content = append(o.Content[:len(o.Content):len(o.Content)], "\r\n"...)
		}
		if encodingOf(o, true) <= encoding8Bit {
			return o
		}
	}
	if end := headerEnd(o.Content); end >= 0 {
		o.Content = o.Content[:end]
	}
	if len(o.Content) == 0 {
		return Original{}
	}
	if !bytes.HasSuffix(o.Content, []byte("\r\n")) {
		o.Content = append(o.Content[:len(o.Content):len(o.Content)], "\r\n"...)
	}
	o.Part = PartHeaders
	return o
}

// global reports whether the header has characters that need the message/global
// family of types (RFC 6532 3.7). Octets above 127 that are not UTF-8 are merely
// broken mail.
func (o Original) global() bool {
	header := o.Content
	if end := headerEnd(header); end >= 0 {
		header = header[:end]
	}
	return !ascii(string(header)) && utf8.Valid(header)
}

// contentType returns the media type of the part (RFC 6522 4, RFC 6533 4).
func (o Original) contentType() string {
	switch whole, global := o.Part == PartMessage, o.global(); {
	case whole && global:
		return "message/global"
	case whole:
		return "message/rfc822"
	case global:
		return "message/global-headers"
	}
	return "text/rfc822-headers"
}

// An encoding is a Content-Transfer-Encoding (RFC 2045 6).
type encoding uint8

const (
	encoding7Bit encoding = iota
	encoding8Bit
	encodingQP
	encodingBase64
)

// String returns the header field's value.
func (e encoding) String() string {
	return [...]string{"7bit", "8bit", "quoted-printable", "base64"}[e]
}

// encodingOf selects the encoding of an original. utf8OK reports whether the report
// takes a path that supports UTF-8 everywhere. A message in ASCII or with octets
// above 127 in its body is sent unencoded; all other types may be encoded and are,
// so that they have no requirements on the path.
func encodingOf(o Original, utf8OK bool) encoding {
	raw, long, high := survey(o.Content)
	free := o.Part == PartMessage && (utf8OK || !o.global()) || utf8OK && o.global()
	switch {
	case raw:
		return encodingBase64
	case long:
		return encodingQP
	case !high:
		return encoding7Bit
	case free:
		return encoding8Bit
	}
	return encodingQP
}

// survey reports whether text has octets that text must not have (NUL, and CR or
// LF alone), lines that are too long, and octets above 127.
func survey(text []byte) (raw, long, high bool) {
	line := 0
	for i := 0; i < len(text); i++ {
		switch c := text[i]; {
		case c == '\r' && i+1 < len(text) && text[i+1] == '\n':
			i++
			line = 0
			continue
		case c == 0 || c == '\r' || c == '\n':
			raw = true
		case c >= utf8.RuneSelf:
			high = true
		}
		if line++; line > lineLimit {
			long = true
		}
	}
	return raw, long, high
}
