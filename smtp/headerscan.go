package smtp

import "bytes"

// HeaderLimits are the limits above which a HeaderScan reports a Flaw.
type HeaderLimits struct {
	Octets   int    // of the whole header
	Fields   int    // number of fields
	Received int    // number of Received fields
	Own      int    // number of Received fields written by Host
	Host     string // our name, as it appears after "by" in Received fields
}

// A HeaderScan counts octets and fields of a message's header as it passes, to
// detect loops (RFC 5321 6.3) and absurd sizes. It changes nothing (6.4). Set
// Limits, then call Scan.
type HeaderScan struct {
	Limits                        HeaderLimits
	octets, fields, received, own int
	field                         headerField
	done                          bool
	line                          []byte // the start of an incomplete line
}

type headerField uint8

const (
	fieldOther headerField = iota
	fieldReceived
	fieldOwn // a Received field that is known to be ours
)

// lineStart is the length of the part of a line that is examined.
const lineStart = 512

// Scan examines the next piece of the content, up to the empty line that ends
// the header or the first line that cannot belong to one.
func (h *HeaderScan) Scan(p []byte) (found Flaw) {
	if h.done {
		return 0
	}
	for !h.done && len(p) > 0 {
		i := bytes.IndexByte(p, '\n')
		if i < 0 {
			h.octets += len(p)
			h.line = append(h.line, p[:min(len(p), lineStart-len(h.line))]...)
			break
		}
		h.octets += i + 1
		line := p[:min(i, lineStart)]
		if len(h.line) > 0 {
			h.line = append(h.line, p[:min(i, lineStart-len(h.line))]...)
			line = h.line
		}
		h.look(line)
		h.line = h.line[:0]
		p = p[i+1:]
	}
	return h.flaws()
}

func (h *HeaderScan) flaws() (found Flaw) {
	if h.octets > h.Limits.Octets {
		found |= FlawHeaderSize
	}
	if h.fields > h.Limits.Fields {
		found |= FlawHeaderFields
	}
	if h.received > h.Limits.Received || h.own >= h.Limits.Own {
		found |= FlawHops
	}
	return found
}

// look examines one line without its LF.
func (h *HeaderScan) look(line []byte) {
	line = bytes.TrimSuffix(line, []byte("\r"))
	if len(line) == 0 {
		h.done = true
		return
	}
	if line[0] != ' ' && line[0] != '\t' {
		name, _, ok := bytes.Cut(line, []byte(":"))
		if !ok || !isFieldName(name) {
			h.done = true
			return
		}
		h.fields++
		h.field = fieldOther
		if bytes.EqualFold(bytes.TrimRight(name, " \t"), []byte("Received")) {
			h.received++
			h.field = fieldReceived
		}
	}
	if h.field == fieldReceived && namesHost(line, h.Limits.Host) {
		h.own++
		h.field = fieldOwn
	}
}

// isFieldName follows RFC 5322 2.2, and also allows the white space before the
// colon that its obsolete syntax has.
func isFieldName(name []byte) bool {
	name = bytes.TrimRight(name, " \t")
	for _, c := range name {
		if c <= ' ' || c > '~' {
			return false
		}
	}
	return len(name) > 0
}

// namesHost reports whether a line of a Received field contains "by host".
func namesHost(line []byte, host string) bool {
	for rest := line; ; {
		word, after, more := bytes.Cut(rest, []byte(" "))
		word = bytes.TrimLeft(word, "\t")
		if bytes.EqualFold(word, []byte("by")) {
			name, _, _ := bytes.Cut(after, []byte(" "))
			return bytes.EqualFold(bytes.TrimRight(name, ";\t"), []byte(host))
		}
		if !more {
			return false
		}
		rest = after
	}
}
