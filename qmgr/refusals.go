package qmgr

import (
	"fmt"
	"slices"
	"strings"

	"github.com/posthaste-mta/posthaste/mail"
)

// A receiver refuses mail, and a rule suspends its destination: an operator asks whose mail that was. So a destination remembers whose
// mail the last replies refused that count for such a rule. They decide nothing; package measure counts by its own means.

// A refusal is a reply that counts for a rule that suspends.
type refusal struct {
	rule string
	at   mail.Instant
	of   mail.Refused
}

const (
	refusalsMost = 16 // that a destination remembers
	namesMost    = 5  // of a kind in a note
)

// Refusers is whose mail was refused, as texts of up to five names and the number of further ones; "" if that is not known.
type Refusers struct {
	Senders string // their domains
	Tenants string
	Domains string // of recipients
}

// refuses remembers a reply.
func (l *measures) refuses(m *mail.Measure, now mail.Instant) {
	if m.Suspend <= 0 || m.Refused == (mail.Refused{}) {
		return
	}
	if len(l.refusals) == refusalsMost {
		l.refusals = slices.Delete(l.refusals, 0, 1)
	}
	l.refusals = append(l.refusals, refusal{m.Rule, now, m.Refused})
}

// refusers returns whose mail was refused for a rule within its time, and, unless it is "", for recipients of a domain.
func (l *measures) refusers(m *mail.Measure, domain string, now mail.Instant) Refusers {
	var senders, tenants, domains []string
	add := func(to *[]string, name string) {
		if name != "" && !slices.Contains(*to, name) {
			*to = append(*to, name)
		}
	}
	for i := len(l.refusals) - 1; i >= 0; i-- {
		r := &l.refusals[i]
		if r.rule != m.Rule || m.Within > 0 && r.at.Add(m.Within) < now || domain != "" && r.of.Domain != domain {
			continue
		}
		add(&senders, r.of.Sender)
		add(&tenants, r.of.Tenant)
		add(&domains, r.of.Domain)
	}
	return Refusers{few(senders), few(tenants), few(domains)}
}

// few returns the first names, and the number of the others.
func few(names []string) string {
	text := strings.Join(names[:min(len(names), namesMost)], " ")
	if more := len(names) - namesMost; more > 0 {
		text += fmt.Sprintf(" and %d more", more)
	}
	return text
}
