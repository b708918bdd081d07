package admin

import (
	"context"
	"errors"
	"time"

	"github.com/posthaste-mta/posthaste/idn"
	"github.com/posthaste-mta/posthaste/mail"
)

// errStopping is the error of an order that is given while the daemon stops.
var errStopping = errors.New("the daemon is stopping")

// coreNamedMax is the number of messages that the core may still have to take in from a page of an order
// for domains before the next page is given: those of one page.
const coreNamedMax = MessagesMax

// RetryDomains gives the order of "posthaste queue flush --domain" for some domains at once; one with a leading
// dot stands for the domain and its subdomains. It returns the number of messages. by and reason are for the log. It takes as long as the
// queue is large, and unlike a request does not hand the core more than it has room for, so that memory does not
// grow with the backlog. It counts for no limit: one caller at a time should use it.
//
// Mail that is deferred again meanwhile is not tried twice.
func (s *Server) RetryDomains(ctx context.Context, domains []string, by, reason string) (messages int, err error) {
	ctx = context.WithValue(ctx, peerKey{}, by)
	sel := retryOf(domains)
	for from := (position{}); ; {
		if s.stopping.Load() {
			return messages, errStopping
		}
		done, err := s.carryOut(ctx, verbRetry, &Order{Filter: &Filter{}, Reason: reason}, sel, from)
		if done != nil {
			messages += done.Matched
		}
		if err != nil {
			return messages, err
		}
		if done.Next == "" {
			return messages, nil
		}
		if from, err = parsePosition(done.Next); err != nil {
			return messages, err
		}
		if err := s.taken(ctx); err != nil {
			return messages, err
		}
	}
}

// CountDomains returns the number of messages that RetryDomains would try, as far as one request finds out.
// whole is whether all have been looked at; otherwise there may be more.
func (s *Server) CountDomains(ctx context.Context, domains []string) (messages int, whole bool, err error) {
	found, next, err := s.newScan(retryOf(domains)).run(ctx, position{}, MessagesMax)
	return len(found), err == nil && !next.set, err
}

// retryOf selects the messages with a waiting recipient in some domains that can be tried.
func retryOf(domains []string) selector {
	return selector{areas: narrow(listed(), verbRetry), before: mail.Never, sites: newDomainSet(domains...)}
}

// taken waits until the core has taken in most of the messages that orders have named.
func (s *Server) taken(ctx context.Context) error {
	for pause := time.Millisecond; ; pause = min(2*pause, 100*time.Millisecond) {
		if v, err := s.view(ctx, 0); err != nil || v.Named <= coreNamedMax {
			return err
		}
		select {
		case <-time.After(pause):
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// A domainSet is domains as idn.Key has them. One with a leading dot stands for the domain and its subdomains. An empty set
// has every domain. Unlike the patterns of a filter it takes the same time however many domains it has.
type domainSet map[string]bool

func newDomainSet(domains ...string) domainSet {
	set := make(domainSet, len(domains))
	for _, d := range domains {
		set[idn.Key(d)] = true
	}
	return set
}

func (s domainSet) match(domain string) bool {
	if len(s) == 0 {
		return true
	}
	domain = idn.Key(domain)
	if s[domain] || s["."+domain] {
		return true
	}
	for above := range mail.Above(domain) {
		if s[above] {
			return true
		}
	}
	return false
}
