package qmgr_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/posthaste-mta/posthaste/mail"
	"github.com/posthaste-mta/posthaste/qmgr"
)

// refused is a reply that refuses mail of a sender and a tenant for a recipient's domain.
func refused(i int, domain string) *mail.Measure {
	m := blocked(fmt.Sprintf("s%d.test", i))
	m.Refused.Tenant, m.Refused.Domain = fmt.Sprintf("t%d", i%2), domain
	return m
}

// notedRefusers returns whose mail the note about a suspension names.
func (m *measured) notedRefusers() (of qmgr.Refusers, noted bool) {
	for _, n := range m.notes {
		if n.Kind == qmgr.NoteSuspended {
			return n.Refusers, true
		}
	}
	return of, false
}

// A receiver refuses mail of several customers, and a rule suspends it. The log says whose mail that was: of the replies since mail was
// accepted, and within the time in which the rule counts.
func TestSuspensionNamesWhoWasRefused(t *testing.T) {
	m := newMeasured(t)
	m.answer(m.arrive(), refused(90, "old.test"))
	m.later(11 * time.Minute)
	m.answer(m.arrive(), refused(91, "d.test"))
	m.ok(m.arrive())
	for i := range 5 {
		if _, noted := m.notedRefusers(); noted {
			t.Fatalf("suspended after %d", i)
		}
		m.answer(m.arrive(), refused(i, "d.test"))
	}
	if of, noted := m.notedRefusers(); !noted || of != (qmgr.Refusers{Senders: "s4.test s3.test s2.test s1.test s0.test", Tenants: "t0 t1", Domains: "d.test"}) {
		t.Errorf("the note names %+v", of)
	}
}

// Of very many, the last are named and the others counted. A suspension of one domain names those whose mail to it was refused.
func TestRefusersAreBounded(t *testing.T) {
	m := newMeasured(t)
	for i := range 40 {
		one := refused(i, fmt.Sprintf("d%d.test", i))
		one.Times = 40
		m.answer(m.arrive(), one)
	}
	if of, noted := m.notedRefusers(); !noted || of.Senders != "s39.test s38.test s37.test s36.test s35.test and 11 more" {
		t.Errorf("the note names %+v", of)
	}
	m = newMeasured(t)
	for i := range 9 {
		one := refused(i, []string{"other.test", "d.test"}[i%2])
		one.Times, one.Senders, one.Domains = 4, 0, 8
		m.answer(m.arrive(), one)
		if of, noted := m.notedRefusers(); noted {
			if of.Senders != "s6.test s4.test s2.test s0.test" || of.Tenants != "t0" || of.Domains != "other.test" {
				t.Errorf("the note names %+v", of)
			}
			return
		}
	}
	t.Error("no domain was suspended")
}
