package server

import (
	"fmt"
	"net/netip"
	"strings"

	"github.com/posthaste-mta/posthaste/mail"
	"github.com/posthaste-mta/posthaste/smtp"
)

// A message is what the host of the tests has committed.
type message struct {
	envelope   mail.Envelope
	recipients []mail.Recipient
	content    string
}

// A host drives a session from memory: it holds data, and what it refuses is
// data too.
type host struct {
	session  *Session
	refusals map[string]mail.Reply // by what is refused: "begin", "content", "commit", "starttls", "handshake", or an address

	replies  []byte
	messages []message
	fields   []string // found in the last one
	events   []string // begin, commit, abort, pause, early, rejected, close
	pauses   int
	closed   bool
	reason   Reason
	waiting  Waiting

	draft    *message
	drafts   int
	held     []byte // input that Step did not take
	forget   bool   // held came before the handshake
	out      []byte
	said     int // replies that transcript has returned
	told     int // events likewise
	biggest  int // out at its longest
	contents int // Content requests
	login    int // messages of the exchange
}

// testSecurity is what every handshake negotiates.
var testSecurity = Security{Version: "TLSv1.3", Cipher: "TLS_AES_128_GCM_SHA256"}

const testDate = "Sat, 21 Nov 2026 11:00:00 +0000"

func testConfig() Config {
	return Config{Hostname: "mx.example"}.WithDefaults()
}

func newHost(cfg Config, peer Peer) *host {
	h := &host{session: New(&cfg, peer), refusals: map[string]mail.Reply{}}
	h.feed(nil)
	return h
}

func loopbackPeer() Peer { return Peer{Addr: netip.MustParseAddr("127.0.0.1")} }

// feed gives the session a piece of input and lets it work until it needs
// more. The piece is copied, because the session may move octets about.
func (h *host) feed(piece []byte) {
	h.held = append(h.held, piece...)
	for !h.closed {
		n, out, request := h.session.Step(h.held, h.out)
		h.biggest = max(h.biggest, len(out))
		h.out = out
		if !h.serve(request) {
			h.held = append([]byte(nil), h.held[n:]...)
			return
		}
		h.held = h.held[n:]
		if h.forget {
			h.held, h.forget = nil, false
		}
	}
}

func (h *host) flush() {
	h.replies = append(h.replies, h.out...)
	h.out = h.out[:0]
}

// serve does what is requested; false means that input is wanted.
func (h *host) serve(request Request) bool {
	switch r := request.(type) {
	case *Read:
		h.waiting = r.For
		h.flush()
		return false
	case *Flush:
		h.flush()
	case *Pause:
		h.pauses++
		h.event("pause %s", r.For)
	case *Early:
		h.event("early %s", r.Command)
	case *Rejected:
		h.event("rejected %s: %s", r.Command, r.Reply)
	case *Close:
		h.flush()
		h.closed, h.reason = true, r.Reason
		h.event("close %s", r.Reason)
	default:
		h.transact(request)
	}
	return true
}

func (h *host) transact(request Request) {
	switch r := request.(type) {
	case *Begin:
		if refusal, found := h.refusals["begin"]; found {
			h.session.Answer(refusal)
			return
		}
		if h.draft != nil {
			panic("a draft is open already")
		}
		h.draft = &message{}
		h.drafts++
		h.event("begin <%s>", r.Sender)
		if !r.Hold.IsZero() {
			h.event("hold for=%s until=%s", r.Hold.For, r.Hold.Until)
		}
		if r.By != (smtp.By{}) {
			h.event("by %s", r.By)
		}
		h.session.Begun(mail.QueueID(h.drafts), testDate)
	case *Recipient:
		if refusal, found := h.refusals[string(r.Recipient.Address)]; found {
			h.session.Answer(refusal)
			return
		}
		h.draft.recipients = append(h.draft.recipients, r.Recipient)
		h.session.Answer(mail.Reply{})
	case *Content:
		h.contents++
		h.draft.content += string(r.Octets)
		h.session.Answer(h.refusals["content"])
	case *Commit:
		h.fields = nil
		for _, f := range r.Fields {
			h.fields = append(h.fields, fmt.Sprintf("%d %s", f.Watched, f.Value))
		}
		refusal := h.refusals["commit"]
		if refusal.IsZero() {
			h.draft.envelope = r.Envelope
			h.messages = append(h.messages, *h.draft)
			h.event("commit %s", h.draft)
			if f := r.Forwarded; f.Given != 0 {
				h.event("forwarded %s name=%s helo=%s ident=%s", f.Addr, f.Name, f.Helo, f.Ident)
			}
		}
		h.draft = nil
		h.session.Answer(refusal)
	case *StartTLS:
		h.session.Answer(h.refusals["starttls"])
	case *Identify:
		if refusal, found := h.refusals["identify"]; found {
			h.session.Answer(refusal)
			return
		}
		h.event("identify %s %s", r.Client.Addr, r.Client.Name)
		peer := h.session.peer
		peer.Addr = r.Client.Addr
		h.session.Identified(peer)
	case *Handshake:
		h.flush()
		h.forget = true
		if _, fails := h.refusals["handshake"]; fails {
			h.session.NotEncrypted()
			return
		}
		h.event("handshake")
		h.session.Encrypted(testSecurity)
	case *Authenticate:
		h.authenticate(r)
	case *ETRN:
		h.event("etrn %s", r.Argument)
		h.session.Answer(h.refusals["etrn"])
	case *Abort:
		if h.draft == nil {
			panic("no draft to abort")
		}
		h.draft = nil
		h.event("abort")
	}
}

func (h *host) event(format string, args ...any) {
	h.events = append(h.events, fmt.Sprintf(format, args...))
}

func (m *message) String() string {
	var b strings.Builder
	fmt.Fprintf(&b, "from <%s>", m.envelope.Sender)
	for _, r := range m.recipients {
		fmt.Fprintf(&b, " to <%s>", r.Address)
		if r.ORcpt != "" {
			fmt.Fprintf(&b, " orcpt=%s", r.ORcpt)
		}
		if r.Notify != 0 {
			fmt.Fprintf(&b, " notify=%s", r.Notify)
		}
	}
	e := m.envelope
	if e.EnvID != "" {
		fmt.Fprintf(&b, " envid=%s", e.EnvID)
	}
	if e.Ret != mail.RetUnset {
		fmt.Fprintf(&b, " ret=%s", e.Ret)
	}
	if e.Body != mail.Body7Bit {
		fmt.Fprintf(&b, " body=%s", e.Body)
	}
	fmt.Fprintf(&b, " with %s", e.Client.Proto)
	if e.TLS == mail.TLSRequired {
		b.WriteString(" requiring TLS")
	}
	if !e.VERP.IsZero() {
		fmt.Fprintf(&b, " verp %v", e.VERP)
	}
	return b.String()
}

// body returns the content without our Received field.
func (m *message) body() string {
	rest := m.content
	for {
		line, after, _ := strings.Cut(rest, "\r\n")
		if !strings.HasPrefix(line, "Received: from ") && !strings.HasPrefix(line, "\t") {
			return rest
		}
		rest = after
	}
}
