package resolve

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"sync"
	"time"

	"github.com/miekg/dns"
)

// A question is what a server is asked for.
type question struct {
	name  string // canonical, without a final dot
	qtype uint16
}

// Why there is no answer. The texts end up in reports to senders, whom our name
// servers' addresses do not concern; those are in the log.
var (
	errBusy   = errors.New("too many other questions are under way")
	errSilent = errors.New("no name server answers")
	errMisfit = errors.New("a name server answered another question")
	errNoTCP  = errors.New("a name server does not answer by TCP")
	errCut    = errors.New("a name server cut its answer short by TCP too")
	errLame   = errors.New("a name server does not resolve names for us")
)

// query gets one usable answer to a question out of the servers, without
// following aliases. If there is none it says why.
func (r *Resolver) query(ctx context.Context, q question) (answer *dns.Msg, why error) {
	leave, ok := r.enter(ctx)
	if !ok {
		return nil, errBusy
	}
	defer leave()
	r.counts.questions.Add(1)
	conf := r.system.get(time.Now())
	order, allSick := r.health.order(conf.servers, time.Now())
	rounds := conf.attempts
	if allSick {
		rounds = 1 // there is little hope, and others wait
	}
	start := time.Now()
	for round := range rounds {
		refused := false
		for _, server := range order {
			// A server, or a firewall before it, may drop what it does not
			// understand instead of refusing it, so later rounds do without EDNS.
			m, err := r.ask(ctx, server, q, round == 0, conf.timeout)
			switch {
			case m != nil && err == nil:
				r.heard()
				return m, nil
			case m != nil:
				r.heard()
				refused = true
			}
			if m != nil || why == nil {
				why = err // what a server said tells more than silence
			}
			if ctx.Err() != nil {
				return nil, why
			}
		}
		if refused {
			return nil, why
		}
	}
	r.unheard(start)
	return nil, why
}

// slowAfter is after which time a question gives its slot back, and SlowFactor how many
// times as many may go on without one, unless Config.Slow says otherwise. A question about a name whose own name servers
// are silent takes until our patience ends, and a thousand of those must not keep
// others from being asked.
const (
	slowAfter  = 50 * time.Millisecond
	SlowFactor = 10
)

// enter waits for one of Config.Concurrency slots. The caller has to leave.
func (r *Resolver) enter(ctx context.Context) (leave func(), ok bool) {
	select {
	case r.slots <- struct{}{}:
	case <-ctx.Done():
		return nil, false
	}
	var (
		mu   sync.Mutex
		held = r.slots // nil when it has been left
	)
	slow := time.AfterFunc(slowAfter, func() {
		mu.Lock()
		defer mu.Unlock()
		if held == nil {
			return
		}
		select {
		case r.slow <- struct{}{}:
			<-held
			held = r.slow
		default: // there are too many of these
		}
	})
	return func() {
		slow.Stop()
		mu.Lock()
		defer mu.Unlock()
		<-held
		held = nil
	}, true
}

// ask asks one server, first by UDP, then if need be without EDNS or by TCP. A
// message together with an error is an answer of no use.
func (r *Resolver) ask(ctx context.Context, server netip.AddrPort, q question, edns bool, timeout time.Duration) (*dns.Msg, error) {
	m, err := r.send(ctx, "udp", server, q, edns, timeout)
	if err == nil && edns && refusesEDNS(m) {
		edns = false
		m, err = r.send(ctx, "udp", server, q, false, timeout)
	}
	if err != nil {
		return nil, err
	}
	if m.Truncated {
		whole, err := r.send(ctx, "tcp", server, q, edns, timeout)
		if err != nil {
			return m, errNoTCP
		}
		m = whole
	}
	switch {
	case m.Truncated:
		return m, errCut
	case m.Rcode != dns.RcodeSuccess && m.Rcode != dns.RcodeNameError:
		r.counts.refusals.Add(1)
		return m, errors.New("a name server answered " + rcodeText(m.Rcode))
	case isReferral(m):
		r.counts.refusals.Add(1)
		return m, errLame
	}
	return m, nil
}

// send carries out one exchange and keeps count of it.
func (r *Resolver) send(ctx context.Context, network string, server netip.AddrPort, q question, edns bool, timeout time.Duration) (*dns.Msg, error) {
	query := new(dns.Msg)
	query.SetQuestion(dns.Fqdn(q.name), q.qtype)
	if edns {
		query.SetEdns0(ednsSize, false)
	} else {
		r.counts.plain.Add(1)
	}
	r.counts.messages.Add(1)
	if network == "tcp" {
		r.counts.tcp.Add(1)
	}
	limited, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	asked := time.Now()
	m, err := r.cfg.Exchange(limited, network, server, query)
	switch {
	case err != nil:
		r.counts.timeouts.Add(1)
		if ctx.Err() == nil && network == "udp" {
			r.health.silent(server, asked, time.Now())
		}
		r.cfg.Logger.Debug("name server does not answer", "server", server, "by", network, "name", q.name, "error", err)
		return nil, errSilent
	case !fits(query, m):
		r.counts.forged.Add(1)
		r.cfg.Logger.Debug("answer does not fit the question", "server", server, "by", network, "name", q.name)
		return nil, errMisfit
	}
	r.health.answered(server, time.Now())
	return m, nil
}

// refusesEDNS tells whether a server balks at the OPT record (RFC 6891 7).
func refusesEDNS(m *dns.Msg) bool {
	switch m.Rcode {
	case dns.RcodeFormatError, dns.RcodeNotImplemented, dns.RcodeBadVers:
		return true
	}
	return false
}

// isReferral tells whether a server only names others that might know, which
// is what a server does that is not there for us (a "lame" one).
func isReferral(m *dns.Msg) bool {
	if m.Rcode != dns.RcodeSuccess || len(m.Answer) > 0 || m.Authoritative || m.RecursionAvailable {
		return false
	}
	servers := false
	for _, rr := range m.Ns {
		switch rr.(type) {
		case *dns.SOA:
			return false
		case *dns.NS:
			servers = true
		}
	}
	return servers
}

func rcodeText(code int) string {
	if text, ok := dns.RcodeToString[code]; ok {
		return text
	}
	return fmt.Sprintf("RCODE %d", code)
}

// heard notes that some server answers.
func (r *Resolver) heard() {
	if since := r.counts.silentSince.Swap(0); since != 0 {
		r.cfg.Logger.Info("name servers answer again", "after", time.Since(time.Unix(0, since)).Round(time.Second))
	}
}

// unheard notes that no server has answered a question asked at start.
func (r *Resolver) unheard(start time.Time) {
	if r.counts.silentSince.CompareAndSwap(0, start.UnixNano()) {
		r.cfg.Logger.Warn("no name server answers")
	}
}
