package admin

import (
	"errors"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/posthaste-mta/posthaste/mail"
)

// A selector is a parsed, valid Filter.
type selector struct {
	ids       []mail.QueueID
	areas     []mail.Area
	named     bool // areas were given; only then must messages named by ID be in one of them
	damaged   bool // only messages of which something cannot be read
	lapsing   bool // of held messages, only those held until an instant
	sender    pattern
	class     pattern
	tenant    pattern
	flow      pattern
	recipient pattern
	domain    string                  // lower case; a leading dot includes subdomains
	text      string                  // lower case; part of a reply or a reason
	said      pattern                 // the class of a reply
	classify  func(mail.Reply) string // that class
	before    mail.Instant
	after     mail.Instant
}

// listed returns the areas that are searched by default. Damaged messages are left
// out: an order to drop or retry everything is not meant for them.
func listed() []mail.Area { return []mail.Area{mail.AreaIncoming, mail.AreaDeferred, mail.AreaHold} }

// A fieldError names an invalid field of a request and the reason.
type fieldError struct {
	field, value string
	err          error
}

func (e *fieldError) Error() string { return e.field + ": " + e.err.Error() }
func (e *fieldError) Unwrap() error { return e.err }

// parse parses a filter; ages are relative to now. The error joins fieldErrors.
func (f *Filter) parse(now mail.Instant) (selector, error) {
	s := selector{areas: listed(), before: mail.Never,
		sender: newPattern(f.Sender), recipient: newPattern(f.Recipient),
		class: newGlob(f.Class), tenant: newGlob(f.Tenant), flow: newGlob(f.Flow),
		domain: strings.ToLower(f.Domain), text: strings.ToLower(f.Error), said: newGlob(f.ReplyClass)}
	var errs []error
	complain := func(field, value string, err error) {
		if err != nil {
			errs = append(errs, &fieldError{field, value, err})
		}
	}
	for _, text := range f.IDs {
		id, err := mail.ParseQueueID(text)
		complain("ids", text, err)
		s.ids = append(s.ids, id)
	}
	if s.damaged = f.Damaged; s.damaged {
		s.areas = append(s.areas, mail.AreaCorrupt)
	}
	if len(f.Areas) > 0 {
		s.named = true
		s.areas = s.areas[:0]
		for _, name := range f.Areas {
			area, err := parseArea(name)
			complain("areas", name, err)
			s.areas = append(s.areas, area)
		}
	}
	if f.Older != "" {
		age, err := ParseAge(f.Older)
		complain("older", f.Older, err)
		s.before = now.Add(-age)
	}
	if f.Younger != "" {
		age, err := ParseAge(f.Younger)
		complain("younger", f.Younger, err)
		s.after = now.Add(-age)
	}
	complain("sender", f.Sender, checkPattern(f.Sender, true))
	complain("recipient", f.Recipient, checkPattern(f.Recipient, false))
	complain("domain", f.Domain, checkDomain(f.Domain))
	if f.Older != "" && f.Younger != "" && len(errs) == 0 && s.after >= s.before {
		complain("younger", f.Younger, fmt.Errorf("no message is older than %s and younger than %s", f.Older, f.Younger))
	}
	return s, errors.Join(errs...)
}

// checkPattern returns why a pattern can never match an address. A condition that
// cannot be met must not look like one that no message happens to meet.
func checkPattern(text string, sender bool) error {
	bare, quoted := text, strings.Contains(text, `"`)
	switch {
	case text == "", sender && text == "<>":
		return nil
	case text == "<>":
		return errors.New("a recipient is never the null address")
	case strings.TrimSpace(text) == "":
		return errors.New("empty pattern")
	case len(bare) > 2 && bare[0] == '<' && bare[len(bare)-1] == '>':
		return fmt.Errorf("write it without <>: %s", bare[1:len(bare)-1])
	case !quoted && strings.ContainsAny(text, ", \t;"):
		return errors.New("give one address or pattern, not a list")
	case text == "@":
		return errors.New("want @domain")
	case strings.HasPrefix(text, "@."):
		return fmt.Errorf("write @domain for a domain, or *%s for its subdomains", text[1:])
	case text[0] == '@':
		return checkDomain(strings.ReplaceAll(text[1:], "*", "x"))
	case strings.ContainsAny(text, "@*"):
		return nil
	case strings.Contains(text, "."):
		return fmt.Errorf("write an address, or @%s for the whole domain", text)
	}
	return nil // an address without a domain, such as postmaster
}

// checkDomain returns why text is not a domain, with or without a leading dot.
func checkDomain(text string) error {
	want := errors.New("give one domain such as example.net, or .example.net to include its subdomains")
	name := strings.TrimPrefix(text, ".")
	switch {
	case text == "":
		return nil
	case strings.HasPrefix(name, "[") && strings.HasSuffix(name, "]") && name == text && !strings.ContainsAny(name, " ,*@"):
		return nil
	case name == "", strings.ContainsAny(name, " \t,;*@<>[]()\"\\/"), strings.HasPrefix(name, "."), strings.HasSuffix(name, "."), strings.Contains(name, ".."):
		return want
	}
	return nil
}

// conditional reports whether the filter has conditions besides areas.
func (f *Filter) conditional() bool {
	return f != nil && (len(f.IDs) > 0 || f.Class != "" || f.Tenant != "" || f.Flow != "" || f.Sender != "" || f.Recipient != "" || f.Domain != "" || f.Error != "" || f.ReplyClass != "" || f.Damaged ||
		f.Older != "" || f.Younger != "")
}

func parseArea(name string) (mail.Area, error) {
	for area := mail.AreaIncoming; area <= mail.AreaCorrupt; area++ {
		if area.String() == name {
			return area, nil
		}
	}
	return mail.AreaNone, errors.New("want incoming, deferred, hold or corrupt")
}

// envelope reports whether a message meets the conditions on its envelope and
// place.
func (s *selector) envelope(m *Message) bool {
	e := &m.Envelope
	if s.damaged && m.Damage == "" && m.Place.Area != mail.AreaCorrupt || s.named && !slices.Contains(s.areas, m.Place.Area) {
		return false
	}
	if m.Damage != "" && e.Arrived == 0 {
		// The sender, the flow and the age are unknown, so conditions on them do not match.
		return s.before == mail.Never && s.after == 0 && s.sender.kind == matchAny && s.class.kind == matchAny && s.tenant.kind == matchAny && s.flow.kind == matchAny
	}
	if !s.class.match(e.Flow.Class) || !s.tenant.match(e.Flow.Tenant) || !s.flow.match(e.Flow.Flow) {
		return false
	}
	return e.Arrived < s.before && (s.after == 0 || e.Arrived > s.after) && s.sender.match(string(e.Sender))
}

// wantsRecipients reports whether recipients have to be read, given that the
// envelope matches.
func (s *selector) wantsRecipients(m *Message) bool {
	if s.text != "" && m.Reason != "" && strings.Contains(strings.ToLower(m.Reason), s.text) {
		return s.recipient.kind != matchAny || s.domain != "" || s.said.kind != matchAny
	}
	return s.recipient.kind != matchAny || s.domain != "" || s.said.kind != matchAny || s.text != ""
}

// match reports whether a recipient meets the conditions on recipients.
func (s *selector) match(m *Message, r *mail.RecipientOutcome) bool {
	if !s.recipient.match(string(r.Recipient.Address)) || !matchDomain(s.domain, r.Recipient.Address.Domain()) {
		return false
	}
	if s.said.kind != matchAny && !s.said.match(s.classify(r.Outcome.Reply)) {
		return false
	}
	return s.text == "" || strings.Contains(strings.ToLower(r.Outcome.Reply.String()), s.text) ||
		strings.Contains(strings.ToLower(m.Reason), s.text)
}

// matchDomain reports whether domain is want or, if want begins with a dot, the
// same domain or a subdomain of it.
func matchDomain(want, domain string) bool {
	if want == "" {
		return true
	}
	domain = strings.ToLower(domain)
	if want[0] == '.' {
		return domain == want[1:] || strings.HasSuffix(domain, want)
	}
	return domain == want
}

// A matchKind is how a pattern matches.
type matchKind uint8

const (
	matchAny      matchKind = iota
	matchNull               // the null sender, or what is not classified
	matchDomainOf           // all of a domain
	matchGlob               // literal text between stars
)

// A pattern matches addresses without regard to case. Stars are its only special
// characters: the worst-case matching time is proportional to the length of the
// address times the number of stars, unlike that of backtracking regular
// expressions.
type pattern struct {
	kind  matchKind
	parts []string // matchGlob: the text between the stars
	text  string   // matchDomainOf: the domain
}

func newPattern(text string) pattern {
	text = strings.ToLower(text)
	switch {
	case text == "":
		return pattern{}
	case text == "<>":
		return pattern{kind: matchNull}
	case text[0] == '@' && !strings.Contains(text, "*"):
		return pattern{kind: matchDomainOf, text: text[1:]}
	}
	return pattern{kind: matchGlob, parts: strings.Split(text, "*")}
}

// newGlob returns the pattern for a part of a flow.
func newGlob(text string) pattern {
	switch text {
	case "":
		return pattern{}
	case "-":
		return pattern{kind: matchNull}
	}
	return pattern{kind: matchGlob, parts: strings.Split(strings.ToLower(text), "*")}
}

func (p *pattern) match(address string) bool {
	switch p.kind {
	case matchAny:
		return true
	case matchNull:
		return address == ""
	case matchDomainOf:
		return strings.EqualFold(mail.Address(address).Domain(), p.text)
	}
	address = strings.ToLower(address)
	first, last := p.parts[0], p.parts[len(p.parts)-1]
	if len(p.parts) == 1 {
		return address == first
	}
	rest, ok := strings.CutPrefix(address, first)
	if !ok || !strings.HasSuffix(rest, last) {
		return false
	}
	rest = rest[:len(rest)-len(last)]
	for _, part := range p.parts[1 : len(p.parts)-1] {
		if _, rest, ok = strings.Cut(rest, part); !ok {
			return false
		}
	}
	return true
}

// ParseAge reads a time such as "90s", "2h", "1.5d" or "1h30m": numbers with the
// units s, m, h, d (24 h) and w (7 d). A number without a unit is in seconds.
func ParseAge(text string) (time.Duration, error) {
	bad := fmt.Errorf("%q is not a time such as 30s, 20m, 4h, 5d or 1h30m", text)
	if n, err := strconv.ParseUint(text, 10, 31); err == nil {
		return time.Duration(n) * time.Second, nil
	}
	var sum float64
	rest := text
	for rest != "" {
		i := strings.IndexFunc(rest, func(r rune) bool { return r != '.' && (r < '0' || r > '9') })
		if i <= 0 {
			return 0, bad
		}
		n, err := strconv.ParseFloat(rest[:i], 64)
		unit, ok := unitOf(rest[i])
		if err != nil || !ok {
			return 0, bad
		}
		sum += n * float64(unit)
		rest = rest[i+1:]
	}
	if text == "" || sum >= math.MaxInt64 {
		return 0, bad
	}
	return time.Duration(sum), nil
}

func unitOf(letter byte) (time.Duration, bool) {
	switch letter {
	case 's':
		return time.Second, true
	case 'm':
		return time.Minute, true
	case 'h':
		return time.Hour, true
	case 'd':
		return 24 * time.Hour, true
	case 'w':
		return 7 * 24 * time.Hour, true
	}
	return 0, false
}
