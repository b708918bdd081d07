package feedback

import (
	"bytes"
	"mime"
	"strings"

	"github.com/posthaste-mta/posthaste/mail"
	"github.com/posthaste-mta/posthaste/smtp"
)

// Bounds of a header, or of a group of fields like it.
const (
	fieldsMax = 300
	nameMax   = 100
	valueMax  = 4 << 10
)

// A field is one header field, unfolded.
type field struct{ name, value string }

// fields is a header.
type fields []field

// cutHeader divides a message or a part into its header and what follows the empty line. Lines
// that are no fields are skipped, and so is what goes beyond a bound.
func cutHeader(data []byte) (f fields, body []byte) {
	var value []byte // of the last field, which folds may continue; nil after what is skipped
	end := func() {
		if value != nil {
			f[len(f)-1].value = string(value)
		}
		value = nil
	}
	for len(data) > 0 {
		line := data
		if i := bytes.IndexByte(data, '\n'); i >= 0 {
			line, data = data[:i], data[i+1:]
		} else {
			data = nil
		}
		line = bytes.TrimRight(line, "\r \t")
		colon := bytes.IndexByte(line, ':')
		switch {
		case len(line) == 0:
			end()
			return f, data
		case line[0] == ' ' || line[0] == '\t':
			if value != nil && len(value) < valueMax {
				value = append(append(value, ' '), bytes.TrimLeft(line[:min(len(line), valueMax)], " \t")...)
			}
		case colon > 0 && len(f) < fieldsMax:
			end()
			f = append(f, field{name: strings.ToLower(string(bytes.TrimRight(line[:min(colon, nameMax)], " \t")))})
			value = append(make([]byte, 0, 80), bytes.TrimLeft(line[colon+1:min(len(line), colon+valueMax)], " \t")...)
		default:
			end()
		}
	}
	end()
	return f, nil
}

// get returns the first field of a name in lower case, "" if there is none.
func (f fields) get(name string) string {
	for i := range f {
		if f[i].name == name {
			return f[i].value
		}
	}
	return ""
}

// all returns all fields of a name in lower case.
func (f fields) all(name string) (values []string) {
	for i := range f {
		if f[i].name == name {
			values = append(values, f[i].value)
		}
	}
	return values
}

// address parses an address with or without brackets, a display name before them, or an
// address type and a semicolon. It returns "" for anything else.
func address(text string) mail.Address {
	if kind, rest, ok := strings.Cut(text, ";"); ok && !strings.ContainsAny(kind, "@<\"") {
		text = rest
	}
	if i, j := strings.LastIndexByte(text, '<'), strings.LastIndexByte(text, '>'); 0 <= i && i < j {
		text = text[i+1 : j]
	}
	text = strings.Trim(text, " \t")
	p, rest, fault := smtp.ParsePath([]byte("<"+text+">"), smtp.PathRules{Underscore: true, LocalMax: smtp.PathMax})
	if fault != smtp.FaultNone || len(rest) > 0 {
		return ""
	}
	return p.Address
}

// redacted reports whether an address field was made unreadable. RFC 6590 leaves the form open;
// programs put a word there, or something that is no address.
func redacted(text string) bool {
	return text != "" && (strings.Contains(strings.ToLower(text), "redacted") || address(text) == "")
}

// id returns what is between the brackets of a Message-ID.
func id(text string) string {
	if i, j := strings.IndexByte(text, '<'), strings.LastIndexByte(text, '>'); 0 <= i && i < j {
		text = text[i+1 : j]
	}
	return clean(text, 250)
}

// clean returns a text without control characters, no longer than max.
func clean(text string, max int) string {
	text = strings.ReplaceAll(mail.CleanText(strings.TrimSpace(text)), "\n", " ")
	if len(text) > max {
		text = strings.ToValidUTF8(text[:max], "")
	}
	return text
}

// mediaType returns the type of an entity and its parameters, "text/plain" if it has none or one
// that cannot be read (RFC 2045 5.2).
func mediaType(f fields) (kind string, parameters map[string]string) {
	kind, parameters, err := mime.ParseMediaType(f.get("content-type"))
	if kind == "" || err != nil && parameters == nil {
		return "text/plain", nil
	}
	return kind, parameters
}
