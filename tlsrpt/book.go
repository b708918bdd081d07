package tlsrpt

import (
	"cmp"
	"fmt"
	"slices"
)

// Bounds of a Book.
const (
	DomainsMax  = 20000  // policy domains of one day
	PoliciesMax = 20     // policies of one domain on one day
	FailuresMax = 100    // kinds of failures under one policy
	AccountsMax = 50000  // policies of all domains and days
	KindsMax    = 200000 // kinds of failures under all of them
	linesMax    = 64     // of Policy.Text and Policy.MX
)

// A Book counts sessions. The zero Book is empty. It is not safe for concurrent use.
type Book struct {
	days    map[Day]map[string][]*account
	Skipped uint64 // sessions that were not counted because of a bound

	accounts int // in all
	kinds    int // of failures, in all
}

// An account is a Section that grows.
type account struct {
	policy     Policy
	key        string
	successful uint64
	failed     map[Failure]uint64 // Sessions is 0 in the key
}

// Success counts sessions that satisfied a policy, or had none to satisfy. domain is the
// one to which the report is due, that of the mail.
func (b *Book) Success(day Day, domain string, p Policy, sessions uint64) {
	if a := b.account(day, domain, p, sessions); a != nil {
		a.successful += sessions
	}
}

// Failure counts f.Sessions sessions that did not. A session counts once, with its first
// failure.
func (b *Book) Failure(day Day, domain string, p Policy, f Failure) {
	if a := b.account(day, domain, p, f.Sessions); a != nil {
		b.fail(a, f)
	}
}

// fail counts a failure; of a kind that there is no room for, without its particulars.
func (b *Book) fail(a *account, f Failure) {
	n := f.Sessions
	f.Sessions = 0
	if _, known := a.failed[f]; !known && (len(a.failed) >= FailuresMax || b.kinds >= KindsMax) {
		f = Failure{Result: f.Result}
	}
	before := len(a.failed)
	a.failed[f] += n
	b.kinds += len(a.failed) - before
}

// account returns the account of a policy, or nil if there is no room for it.
func (b *Book) account(day Day, domain string, p Policy, sessions uint64) *account {
	if b.days == nil {
		b.days = make(map[Day]map[string][]*account)
	}
	domains := b.days[day]
	if domains == nil {
		domains = make(map[string][]*account)
		b.days[day] = domains
	}
	p.Text, p.MX = p.Text[:min(len(p.Text), linesMax)], p.MX[:min(len(p.MX), linesMax)]
	key := fmt.Sprintf("%q %q %q %q", p.Type, p.Domain, p.Text, p.MX)
	list := domains[domain]
	for _, a := range list {
		if a.key == key {
			return a
		}
	}
	if len(list) == 0 && len(domains) >= DomainsMax || len(list) >= PoliciesMax || b.accounts >= AccountsMax {
		b.Skipped += sessions
		return nil
	}
	b.accounts++
	a := &account{policy: p, key: key, failed: make(map[Failure]uint64)}
	domains[domain] = append(list, a)
	return a
}

// Merge adds sections, of another Book or of one that was kept.
func (b *Book) Merge(day Day, domain string, sections []Section) {
	for _, s := range sections {
		if a := b.account(day, domain, s.Policy, s.Summary.Successful+s.Summary.Failed); a != nil {
			a.successful += s.Summary.Successful
			for _, f := range s.Failures {
				b.fail(a, f)
			}
		}
	}
}

// Days returns the days that have counts, the oldest first.
func (b *Book) Days() []Day {
	var days []Day
	for d := range b.days {
		days = append(days, d)
	}
	slices.Sort(days)
	return days
}

// Domains returns the domains that have counts on a day, in order.
func (b *Book) Domains(day Day) []string {
	var domains []string
	for d := range b.days[day] {
		domains = append(domains, d)
	}
	slices.Sort(domains)
	return domains
}

// Sections returns what was counted for a domain on a day, always in the same order.
func (b *Book) Sections(day Day, domain string) []Section {
	var list []Section
	for _, a := range b.days[day][domain] {
		s := Section{Policy: a.policy, Summary: Summary{Successful: a.successful}}
		for f, n := range a.failed {
			f.Sessions = n
			s.Summary.Failed += n
			s.Failures = append(s.Failures, f)
		}
		slices.SortFunc(s.Failures, compare)
		list = append(list, s)
	}
	return list
}

func compare(a, b Failure) int {
	return cmp.Or(cmp.Compare(b.Sessions, a.Sessions), cmp.Compare(a.Result, b.Result), cmp.Compare(a.MX, b.MX),
		cmp.Compare(a.Receiving, b.Receiving), cmp.Compare(a.SendingIP, b.SendingIP), cmp.Compare(a.HELO, b.HELO),
		cmp.Compare(a.ReasonCode, b.ReasonCode), cmp.Compare(a.Further, b.Further))
}

// Forget removes the counts of a day.
func (b *Book) Forget(day Day) {
	for domain := range b.days[day] {
		b.ForgetDomain(day, domain)
	}
}

// ForgetDomain removes the counts of a domain on a day.
func (b *Book) ForgetDomain(day Day, domain string) {
	for _, a := range b.days[day][domain] {
		b.accounts--
		b.kinds -= len(a.failed)
	}
	delete(b.days[day], domain)
	if len(b.days[day]) == 0 {
		delete(b.days, day)
	}
}
