package resolve

import (
	"context"
	"encoding/hex"
	"errors"
	"net/netip"
	"strconv"
	"strings"
	"time"

	"github.com/miekg/dns"

	"github.com/posthaste-mta/posthaste/dane"
	"github.com/posthaste-mta/posthaste/mail"
	"github.com/posthaste-mta/posthaste/route"
)

// A Finding is the result of the lookup of a nexthop, and what DNSSEC says of it.
type Finding struct {
	Set   mail.HostSet // shared; must not be changed
	Reply mail.Reply   // why Set is empty; zero if it is not
	// Secure means that the names of the hosts are those that the owner of the nexthop
	// chose: the MX records, or the absence of any, are validated, or the operator
	// wrote the names (RFC 7672 2.2.1). It says nothing about the addresses. It is false
	// for an address, which has no name, and for a site: what is secure are
	// the records of a domain, and a site has several.
	Secure bool
	// Names are the domains to which the mail goes: the nexthop, and if it is an
	// alias the name it stands for. If Secure, they are reference identifiers for
	// DANE-TA beside that of the host (RFC 7672 3.2.2). Empty for an address, a site, a list.
	Names []string
}

// Find is like Hosts, and says what DNSSEC says of the result.
func (r *Resolver) Find(ctx context.Context, nexthop string) Finding {
	v := r.find(ctx, nexthop)
	return Finding{Set: v.set, Reply: v.reply, Secure: v.secure, Names: v.names}
}

// Names returns the Names of a nexthop's Finding if they are Secure.
func (r *Resolver) Names(ctx context.Context, nexthop string) []string {
	if f := r.Find(ctx, nexthop); f.Secure {
		return f.Names
	}
	return nil
}

// vouched returns Secure and Names of a nexthop's Finding.
func vouched(n route.Nexthop, mx record) (secure bool, names []string) {
	switch n.Form {
	case route.FormHost:
		return true, []string{n.Name}
	case route.FormDomain:
		names = []string{n.Name}
		if mx.alias != "" && mx.secure {
			names = append(names, mx.alias)
		}
		return mx.secure, names
	}
	return false, nil
}

// Validates reports whether the name servers' AD bit is believed at present. If not,
// TLSA finds no records for any host.
func (r *Resolver) Validates() bool { return r.system.get(time.Now()).trustAD }

// Addresses are the result of a lookup of a host's addresses in the DNS.
type Addresses struct {
	Answer route.Answer
	Addrs  []netip.Addr // IPv6 and IPv4 in turn, of the families in use
	// Secure means that the addresses are validated, and all aliases on the way to
	// them.
	Secure bool
	Alias  string // the name that has the addresses, if the host is an alias; "" if not
	Why    string // Unknown: what went wrong, for people
}

// Addresses looks up the addresses of a host. It looks neither in the hosts file
// nor at what kinds of addresses they are.
func (r *Resolver) Addresses(ctx context.Context, host string) Addresses {
	name, ok := canonical(host)
	if !ok {
		return Addresses{Answer: route.NoName}
	}
	h := r.host(ctx, name)
	return Addresses{Answer: h.Answer, Addrs: h.Addrs, Secure: h.secure, Alias: h.alias, Why: h.why}
}

// Addrs is like Addresses, for callers that need no more: without an error there may
// be none.
func (r *Resolver) Addrs(ctx context.Context, host string) ([]netip.Addr, error) {
	a := r.Addresses(ctx, host)
	if a.Answer == route.Unknown {
		return nil, errors.New("DNS lookup of " + mail.CleanText(host) + " failed: " + a.Why)
	}
	return a.Addrs, nil
}

// TXT returns the TXT records of a name, each with its strings joined; without an
// error there may be none.
func (r *Resolver) TXT(ctx context.Context, name string) ([]string, error) {
	canon, ok := canonical(name)
	if !ok {
		return nil, nil
	}
	rec, _ := r.lookup(ctx, question{canon, dns.TypeTXT})
	if rec.answer == route.Unknown {
		return nil, errors.New("DNS lookup of TXT records of " + mail.CleanText(name) + " failed: " + rec.why)
	}
	return rec.texts, nil
}

// TLSA looks up the TLSA records of a host for a TCP port (RFC 7672 2.2.2 and 2.2.3).
// Whether MX records led securely to the host is not its concern (Finding.Secure).
//
// The records are those of the name that the host is an alias of, if all links are
// secure, or else those of the host's own name. They are looked up only in zones
// that are signed, as far as the host's addresses show: name servers of
// others sometimes fail when asked for TLSA records, and mail would wait for nothing.
func (r *Resolver) TLSA(ctx context.Context, host string, port uint16) dane.Answer {
	name, ok := canonical(host)
	if !ok || !r.Validates() {
		return dane.Answer{State: dane.None}
	}
	bases, why := r.tlsaBases(ctx, name)
	if why != "" {
		return dane.Answer{State: dane.Failed, Why: why}
	}
	for _, base := range bases {
		owner := "_" + strconv.Itoa(int(port)) + "._tcp." + base
		if len(owner) > nameMax {
			continue // no such name can exist
		}
		rec, _ := r.lookup(ctx, question{owner, dns.TypeTLSA})
		switch {
		case rec.answer == route.Unknown:
			return dane.Answer{State: dane.Failed, Why: "DNS lookup of TLSA records of " + owner + " failed: " + rec.why}
		case rec.answer == route.Endless: // RFC 7672 2.1.3
			return dane.Answer{State: dane.Failed, Why: "the DNS aliases of " + owner + " lead nowhere"}
		case rec.answer == route.Found && rec.secure:
			return dane.Answer{State: dane.StateOf(rec.tlsa), Base: base, Records: rec.tlsa}
		}
	}
	return dane.Answer{State: dane.None}
}

// tlsaBases returns the names that may have a host's TLSA records, the first to be
// asked first, or why they are not known.
func (r *Resolver) tlsaBases(ctx context.Context, host string) (bases []string, why string) {
	h := r.host(ctx, host)
	switch {
	case h.Answer == route.Unknown:
		return nil, "DNS lookup of " + host + " failed: " + h.why
	case h.Answer != route.Found:
		return nil, "" // no connection is made to it
	case h.alias == "" && h.secure:
		return []string{host}, ""
	case h.secure:
		return []string{h.alias, host}, ""
	case h.alias == "":
		return nil, ""
	}
	// The target's zone may be unsigned, while the zone of the host, in which its
	// TLSA records are, is signed.
	link, _ := r.lookup(ctx, question{host, dns.TypeCNAME})
	switch {
	case link.answer == route.Unknown:
		return nil, "DNS lookup of the alias " + host + " failed: " + link.why
	case link.answer == route.Found && link.secure:
		return []string{host}, ""
	}
	return nil, ""
}

// tlsaRecord converts a record. One that cannot be converted is unusable, but exists.
func tlsaRecord(rr *dns.TLSA) dane.Record {
	data, err := hex.DecodeString(rr.Certificate)
	if err != nil {
		return dane.Record{}
	}
	rec, err := dane.Parse(append([]byte{rr.Usage, rr.Selector, rr.MatchingType}, data...))
	if err != nil {
		return dane.Record{}
	}
	return rec
}

// nameMax is the maximum length of a name without its final dot (RFC 1035 3.1).
const nameMax = 253

// canonical returns the name in the form in which questions are cached. ok is false
// if it cannot be a name in the DNS. A question about such a name could not be
// sent, which would look like a silent server.
func canonical(name string) (canon string, ok bool) {
	canon = strings.ToLower(strings.TrimSuffix(name, "."))
	if _, isName := dns.IsDomainName(canon); !isName || canon == "" || len(canon) > nameMax {
		return "", false
	}
	if _, err := netip.ParseAddr(canon); err == nil {
		return "", false
	}
	return canon, true
}
