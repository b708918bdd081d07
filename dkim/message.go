package dkim

import (
	"crypto/sha256"
	"hash"

	"github.com/posthaste-mta/posthaste/mail"
)

// A Message follows the content of one message. Call Begin, then Write for each piece, then
// Finish. A Message may be used again, and belongs to one goroutine.
type Message struct {
	ring   *Ring
	header header
	fields hash.Hash // of the signed fields
	names  []uint8   // the h= tag, as indexes of fields
	author string    // the domain of the From field
	state  messageState
	reason Reason
	body   body
}

// A messageState is what the next byte belongs to.
type messageState uint8

const (
	inHeader messageState = iota
	inBody
	unsigned // nothing that follows changes that
)

// A Reason is why a message is not signed.
type Reason uint8

const (
	Signed       Reason = iota
	NoFrom              // there is no From field
	SeveralFroms        // receivers may take any of them for the author (RFC 5322 3.6 has one)
	NoAuthor            // the From field has no address with a domain
	NoHeader            // some line of the header is not one of a field
	LongHeader          // the From field is beyond KeptMax
	NoKey               // no key is for the domain
	NoneNow             // keys are for the domain, but not at this time or for this flow
	reasons
)

// Reasons is the number of reasons.
const Reasons = int(reasons)

// String returns the words that logs show.
func (r Reason) String() string {
	return [...]string{"signed", "no From field", "several From fields", "no domain in the From field", "a line of the header is not a field",
		"the From field is too long", "no key for the domain", "no key for the domain at this time, or for this class and tenant"}[r]
}

// Begin prepares for a message.
func (m *Message) Begin(r *Ring) {
	if m.fields == nil {
		m.fields = sha256.New()
	}
	m.fields.Reset()
	m.header.begins()
	m.ring, m.names, m.author, m.state, m.reason = r, m.names[:0], "", inHeader, Signed
}

// Write takes the next piece of the content: lines that end in CRLF.
func (m *Message) Write(p []byte) {
	if m.state == inHeader {
		p = p[m.header.scan(p):]
		if m.header.state >= broken {
			m.endHeader()
		}
	}
	if m.state == inBody {
		m.body.scan(p)
	}
}

// endHeader decides whether the message can be signed, so that the body of others need not
// be hashed.
func (m *Message) endHeader() {
	m.header.end()
	m.reason = m.judge()
	if m.reason != Signed {
		m.state = unsigned
		return
	}
	m.state = inBody
	m.names = m.header.digest(m.names, m.fields)
	m.body.begins()
}

func (m *Message) judge() Reason {
	h := &m.header
	switch {
	case h.state == broken:
		return NoHeader
	case h.missed[fromField]:
		return LongHeader
	case h.count(fromField) == 0:
		return NoFrom
	case h.count(fromField) > 1:
		return SeveralFroms
	}
	m.author = authorDomain(h.from())
	switch {
	case m.ring.BySender: // that is known at the end
	case m.author == "":
		return NoAuthor
	case !m.ring.covers(m.author):
		return NoKey
	}
	return Signed
}

// Finish ends the content of a message of an envelope sender and a flow, and returns the plan
// of its signatures; at is their time.
func (m *Message) Finish(sender mail.Address, f mail.Flow, at mail.Instant) Plan {
	if m.state == inHeader {
		m.endHeader()
	}
	p := Plan{Reason: m.reason, Author: m.author}
	if m.state == unsigned {
		return p
	}
	domain := m.author
	if m.ring.BySender && (domain == "" || !m.ring.covers(domain)) {
		domain = asciiDomain(sender.Domain())
	}
	if domain == "" {
		p.Reason = NoAuthor
		return p
	}
	chosen, known := m.ring.Choose(domain, f, at)
	if len(chosen) == 0 {
		p.Reason = NoKey
		if known {
			p.Reason = NoneNow
		}
		return p
	}
	bodySum := m.body.sum()
	p.drafts = make([]draft, 0, len(chosen))
	for _, c := range chosen {
		p.drafts = append(p.drafts, m.draft(c, bodySum, at))
	}
	return p
}
