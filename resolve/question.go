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

// A question is a query for one name and record type.
type question struct {
	name  string // canonical, without a final dot
	qtype uint16
}

// Reasons why there is no answer. The texts appear in reports to senders, so they
// do not contain the addresses of our name servers; those are in the log.
var (
	errBusy   = errors.New("too many DNS queries are under way")
	errSilent = errors.New("no name server answered")
	errMisfit = errors.New("the name server's answer does not match the question")
	errNoTCP  = errors.New("the name server does not answer over TCP")
	errCut    = errors.New("the name server truncated its answer over TCP, too")
	errLame   = errors.New("the name server returned a referral instead of an answer")
)

// query returns a usable answer to a question from one of the servers, without
// following aliases, or an error that says why there is none. The answer's AD bit is
// set only if it is believed.
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
		rounds = 1 // little chance of success, and other questions wait
	}
	start := time.Now()
	defer func() { r.counts.latency.Duration(time.Since(start)) }()
	for round := range rounds {
		refused := false
		for _, server := range order {
			// A server, or a firewall in front of it, may drop what it does not
			// understand instead of refusing it, so later rounds omit EDNS.
			m, err := r.ask(ctx, server, q, manner{edns: round == 0, ad: conf.trustAD, timeout: conf.timeout})
			switch {
			case m != nil && err == nil:
				r.heard()
				m.AuthenticatedData = m.AuthenticatedData && conf.trustAD
				return m, nil
			case m != nil:
				r.heard()
				refused = true
			}
			if m != nil || why == nil {
				why = err // a server's answer says more than silence
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

// slowAfter is the time after which a question gives its slot back. SlowFactor
// determines how many slow questions may continue without one, as a multiple of
// Concurrency, unless Config.Slow is set. A question about a name whose own name
// servers are silent takes until the deadline, and a thousand of those must not
// keep others from being asked.
const (
	slowAfter  = 50 * time.Millisecond
	SlowFactor = 10
)

// enter waits for one of Config.Concurrency slots. The caller must call leave.
func (r *Resolver) enter(ctx context.Context) (leave func(), ok bool) {
	select {
	case r.slots <- struct{}{}:
	case <-ctx.Done():
		return nil, false
	}
	var (
		mu   sync.Mutex
		held = r.slots // nil after leave
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
		default: // Config.Slow questions already continue without a slot
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

// A manner is how a server is asked.
type manner struct {
	edns    bool
	ad      bool // ask for the AD bit (RFC 6840 5.7); signatures themselves are not needed
	timeout time.Duration
}

// ask asks one server, first by UDP, then if necessary without EDNS or by TCP. A
// message returned together with an error is an unusable answer.
func (r *Resolver) ask(ctx context.Context, server netip.AddrPort, q question, how manner) (*dns.Msg, error) {
	m, err := r.send(ctx, "udp", server, q, how)
	if err == nil && how.edns && refusesEDNS(m) {
		how.edns = false
		m, err = r.send(ctx, "udp", server, q, how)
	}
	if err != nil {
		return nil, err
	}
	if m.Truncated {
		whole, err := r.send(ctx, "tcp", server, q, how)
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
		return m, errors.New("the name server returned " + rcodeText(m.Rcode))
	case isReferral(m):
		r.counts.refusals.Add(1)
		return m, errLame
	}
	return m, nil
}

// send makes one exchange and counts it.
func (r *Resolver) send(ctx context.Context, network string, server netip.AddrPort, q question, how manner) (*dns.Msg, error) {
	query := new(dns.Msg)
	query.SetQuestion(dns.Fqdn(q.name), q.qtype)
	query.AuthenticatedData = how.ad
	if how.edns {
		query.SetEdns0(ednsSize, false)
	} else {
		r.counts.plain.Add(1)
	}
	r.counts.messages.Add(1)
	if network == "tcp" {
		r.counts.tcp.Add(1)
	}
	limited, cancel := context.WithTimeout(ctx, how.timeout)
	defer cancel()
	asked := time.Now()
	m, err := r.cfg.Exchange(limited, network, server, query)
	switch {
	case err != nil:
		r.counts.timeouts.Add(1)
		if ctx.Err() == nil && network == "udp" {
			r.health.silent(server, asked, time.Now())
		}
		r.cfg.Logger.Debug("name server did not answer", "server", server, "by", network, "name", q.name, "error", err)
		return nil, errSilent
	case !fits(query, m):
		r.counts.forged.Add(1)
		r.cfg.Logger.Debug("DNS answer does not match the question", "server", server, "by", network, "name", q.name)
		return nil, errMisfit
	}
	r.health.answered(server, time.Now())
	return m, nil
}

// refusesEDNS reports whether a server rejected the OPT record (RFC 6891 7).
func refusesEDNS(m *dns.Msg) bool {
	switch m.Rcode {
	case dns.RcodeFormatError, dns.RcodeNotImplemented, dns.RcodeBadVers:
		return true
	}
	return false
}

// isReferral reports whether a server only refers to other servers, as one does
// that does not resolve names for us (a "lame" server).
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

// heard records that some server answered.
func (r *Resolver) heard() {
	if since := r.counts.silentSince.Swap(0); since != 0 {
		r.cfg.Logger.Info("name servers answer again", "after", time.Since(time.Unix(0, since)).Round(time.Second))
	}
}

// unheard records that no server has answered a question asked at start.
func (r *Resolver) unheard(start time.Time) {
	if r.counts.silentSince.CompareAndSwap(0, start.UnixNano()) {
		r.cfg.Logger.Warn("no name server answers")
	}
}
