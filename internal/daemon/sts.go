package daemon

import (
	"context"
	"errors"
	"net/netip"
	"path/filepath"
	"sync"
	"sync/atomic"

	"github.com/posthaste-mta/posthaste/config"
	"github.com/posthaste-mta/posthaste/mail"
	"github.com/posthaste-mta/posthaste/mtasts"
)

// policyFile is the file of the MTA-STS policies of domains, in the queue directory.
const policyFile = "mta-sts"

// An stsFinder finds MTA-STS policies for the router. Their store lasts longer than the resolver,
// which a reload replaces; it is opened when a policy is wanted first, so that a daemon without
// the level mta-sts has none.
type stsFinder struct {
	agents  *agents
	cfg     mtasts.Config
	private atomic.Bool // web servers may have private addresses, as mail hosts may

	mu     sync.Mutex
	store  *mtasts.Store // nil: not opened yet
	closed bool
}

func newSTSFinder(cfg *config.Config, o *Options, a *agents) *stsFinder {
	s := &stsFinder{agents: a, cfg: o.STS}
	s.cfg.Resolver, s.cfg.Logger = currentResolver{a}, o.Log
	if s.cfg.Permit == nil {
		s.cfg.Permit = s.permits
	}
	s.cfg.File = filepath.Join(cfg.QueueDirectory, policyFile)
	return s
}

// permits reports whether a policy may be fetched from an address. The owner of a domain chooses it,
// as he does those of the domain's mail hosts.
func (s *stsFinder) permits(a netip.Addr) bool {
	class := mail.ClassOf(a)
	return class == mail.AddrPublic || class == mail.AddrPrivate && s.private.Load()
}

// Enforced returns the patterns of the hosts that a domain's policy names, if it is in mode
// enforce. An error means that this is not known.
//
// It looks for a new id each time, which is once in five minutes for a domain with mail (the router
// remembers the answer for so long). So a policy that keeps mail from a host, and in the end has it
// returned, was looked for anew shortly before, as RFC 8461 5.1 demands.
func (s *stsFinder) Enforced(ctx context.Context, domain string) (mx []string, enforced bool, err error) {
	store := s.opened()
	if store == nil {
		return nil, false, errSTSClosed
	}
	p, ok, err := store.Recheck(ctx, domain)
	return p.MX, ok && p.Mode == mtasts.Enforce, err
}

// status returns what is known of a domain's policy, without any request to the network.
func (s *stsFinder) status(domain string) (mtasts.Status, bool) {
	store := s.opened()
	if store == nil {
		return mtasts.Status{}, false
	}
	return store.Status(domain)
}

var errSTSClosed = errors.New("MTA-STS policies are not looked up any more")

// opened returns the store; nil after the end.
func (s *stsFinder) opened() *mtasts.Store {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.store == nil && !s.closed {
		store, err := mtasts.New(s.cfg)
		if err != nil { // it would be a fault of this file
			s.cfg.Logger.Error("MTA-STS policies are not looked up", "error", err)
			s.closed = true
			return nil
		}
		s.store = store
	}
	return s.store
}

// close ends the store. It must come before the last resolver is closed.
func (s *stsFinder) close() {
	s.mu.Lock()
	store := s.store
	s.store, s.closed = nil, true
	s.mu.Unlock()
	if store != nil {
		store.Close()
	}
}

// currentResolver is the resolver in force.
type currentResolver struct{ agents *agents }

func (r currentResolver) TXT(ctx context.Context, name string) ([]string, error) {
	set := r.agents.join()
	defer set.users.Done()
	return set.resolver.TXT(ctx, name)
}

func (r currentResolver) Addrs(ctx context.Context, host string) ([]netip.Addr, error) {
	set := r.agents.join()
	defer set.users.Done()
	return set.resolver.Addrs(ctx, host)
}
