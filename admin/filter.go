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
	sender    patterns
	class     patterns
	tenant    patterns
	flow      patterns
	recipient patterns
	domain    patterns
	text      patterns                // part of a reply or a reason
	said      patterns                // the class of a reply
	site      patterns                // of the last attempt
	host      patterns                // that sent the last reply
	source    patterns                // of the last attempt
	core      *locator                // where recipients are that were not tried; nil: unknown
	classify  func(mail.Reply) string // that class
	verdicts  verdicts
	larger    int64 // octets; 0: any
	smaller   int64 // the same
	before    mail.Instant
	after     mail.Instant
	sites     domainSet    // the domain of a recipient; see RetryDomains
	elsewhere *rerouting   // of a reroute: where recipients go
	again     *requeuing   // of a requeue: what is decided anew, and how
	unborn    mail.QueueID // only messages with IDs before this one; 0: all
	untried   mail.Instant // only messages whose last round has not ended since then; 0: all; see position
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
	s := selector{areas: listed(), before: mail.Never}
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
	for _, c := range []struct {
		field string
		texts []string
		to    *patterns
		parse func(string) (pattern, error)
	}{
		{"sender", f.Sender, &s.sender, parseSender},
		{"class", f.Class, &s.class, parseGlob},
		{"tenant", f.Tenant, &s.tenant, parseGlob},
		{"flow", f.Flow, &s.flow, parseGlob},
		{"recipient", f.Recipient, &s.recipient, parseRecipient},
		{"domain", f.Domain, &s.domain, parseDomain},
		{"error", f.Error, &s.text, parsePart},
		{"reply_class", f.ReplyClass, &s.said, parseGlob},
		{"site", f.Site, &s.site, parseSite},
		{"host", f.Host, &s.host, parseGlob},
		{"source", f.Source, &s.source, parseGlob},
	} {
		all, err := parsePatterns(c.field, c.texts, c.parse)
		if *c.to = all; err != nil {
			errs = append(errs, err)
		}
	}
	for _, c := range []struct {
		field, text string
		to          *int64
	}{{"larger", f.Larger, &s.larger}, {"smaller", f.Smaller, &s.smaller}} {
		if c.text != "" {
			var err error
			*c.to, err = ParseSize(c.text)
			complain(c.field, c.text, err)
		}
	}
	if s.smaller > 0 && s.larger >= s.smaller-1 && len(errs) == 0 {
		complain("smaller", f.Smaller, fmt.Errorf("no message is larger than %s and smaller than %s", f.Larger, f.Smaller))
	}
	if f.Older != "" && f.Younger != "" && len(errs) == 0 && s.after >= s.before {
		complain("younger", f.Younger, fmt.Errorf("no message is older than %s and younger than %s", f.Older, f.Younger))
	}
	return s, errors.Join(errs...)
}

// conditional reports whether the filter has conditions besides areas.
func (f *Filter) conditional() bool {
	return f != nil && (len(f.IDs) > 0 || f.Damaged || f.Older != "" || f.Younger != "" || f.Larger != "" || f.Smaller != "" ||
		slices.ContainsFunc([][]string{f.Sender, f.Class, f.Tenant, f.Flow, f.Recipient, f.Domain, f.Error, f.ReplyClass, f.Site, f.Host, f.Source}, func(texts []string) bool { return len(texts) > 0 }))
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
		// The sender, the flow, the size and the age are unknown, so conditions on them do not match.
		return !s.aboutEnvelope()
	}
	return (s.untried == 0 || e.LastAttempt <= s.untried) && (s.unborn == 0 || e.ID < s.unborn) && s.stored(e)
}

// aboutEnvelope reports whether there are conditions on what never changes of an envelope.
func (s *selector) aboutEnvelope() bool {
	return s.before != mail.Never || s.after > 0 || s.larger > 0 || s.smaller > 0 || len(s.sender)+len(s.class)+len(s.tenant)+len(s.flow) > 0
}

// stored reports whether an envelope meets them.
func (s *selector) stored(e *mail.Envelope) bool {
	if !s.class.match(e.Flow.Class) || !s.tenant.match(e.Flow.Tenant) || !s.flow.match(e.Flow.Flow) {
		return false
	}
	if s.larger > 0 && e.Size <= s.larger || s.smaller > 0 && e.Size >= s.smaller {
		return false
	}
	return e.Arrived < s.before && (s.after == 0 || e.Arrived > s.after) && s.sender.matchAddress(e.Sender)
}

// wantsRecipients reports whether recipients have to be read, given that the
// envelope matches.
func (s *selector) wantsRecipients(m *Message) bool {
	if len(s.recipient)+len(s.domain)+len(s.sites)+len(s.said)+len(s.host) > 0 || s.aboutWay() {
		return true
	}
	return len(s.text) > 0 && (m.Reason == "" || !s.text.match(m.Reason))
}

// match reports whether a recipient meets the conditions on recipients.
func (s *selector) match(m *Message, r *mail.RecipientOutcome) bool {
	return s.addressed(r.Recipient.Address) && s.answered(m.Reason, s.verdicts.of(s, &r.Outcome.Reply)) && s.way(m, r)
}

// aboutAddress reports whether there are conditions on the addresses of recipients.
func (s *selector) aboutAddress() bool { return len(s.recipient)+len(s.domain)+len(s.sites) > 0 }

// addressed reports whether a recipient's address meets them.
func (s *selector) addressed(a mail.Address) bool {
	return s.recipient.matchAddress(a) && s.domain.matchDomain(a.Domain()) && s.sites.match(a.Domain())
}

// aboutReply reports whether there are conditions on last replies.
func (s *selector) aboutReply() bool { return len(s.said)+len(s.host)+len(s.text) > 0 }

// answered reports whether a recipient's last reply meets them, in a message that is where it is for a reason.
func (s *selector) answered(reason string, v verdict) bool {
	return v.otherwise && (v.text || reason != "" && s.text.match(reason))
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

// ParseSize reads a size in octets, such as "4096", "10k", "1.5M" or "2G", in steps of 1024.
func ParseSize(text string) (int64, error) {
	bad := fmt.Errorf("%q is not a size such as 500, 10k, 1.5M or 2G", text)
	number, factor := text, 1.
	if i := strings.IndexAny(text, "kKmMgG"); i > 0 && i == len(text)-1 {
		number, factor = text[:i], map[byte]float64{'k': 1 << 10, 'm': 1 << 20, 'g': 1 << 30}[text[i]|0x20]
	}
	n, err := strconv.ParseFloat(number, 64)
	if err != nil || strings.Trim(number, ".0123456789") != "" || n*factor < 1 || n*factor >= 1<<62 {
		return 0, bad
	}
	return int64(n * factor), nil
}
