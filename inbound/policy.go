package inbound

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"strings"

	"github.com/posthaste-mta/posthaste/idn"
	"github.com/posthaste-mta/posthaste/internal/certificate"
	"github.com/posthaste-mta/posthaste/mail"
	"github.com/posthaste-mta/posthaste/smtp"
)

// A Policy decides who may send where. It is called concurrently from many
// connections, for every recipient, and must not block: no lookups.
type Policy interface {
	// Sender returns the refusal of a sender at MAIL, or a zero reply.
	Sender(client *Client, sender mail.Address) mail.Reply
	// Recipient returns the refusal of a recipient, or a zero reply.
	Recipient(client *Client, sender, recipient mail.Address) mail.Reply
	// Trusts reports whether a client may send anywhere, and so may learn what is in the queue.
	Trusts(client *Client) bool
}

// A Client has the facts that decide where a client may send.
type Client struct {
	Addr    netip.Addr // invalid for a unix socket
	Purpose Purpose    // of the listener
	// Certificates are the fingerprints of its certificate and of the key in it; zero
	// without one.
	Certificates [2]certificate.Fingerprint
	// User is the user who has logged in, in the form of sasl.PrepareName; "" if none has.
	User string
	// MustLogin is whether clients of the listener that may not send anywhere for another
	// reason must log in.
	MustLogin bool
}

// A Verifier finds out whether a recipient that the policy permits can be sent to,
// so that the client learns at once if not. It is called concurrently from many
// connections.
type Verifier interface {
	// Known returns the reason why mail cannot be sent there, or a zero reply if it
	// can, if that is known without waiting. Otherwise ok is false, and Verify must
	// be called. The way, and so the answer, may depend on the sender.
	Known(client mail.Client, sender, recipient mail.Address) (reason mail.Reply, ok bool)
	// Verify finds out the reason, or returns a temporary one if it cannot. It
	// should take seconds at most: the client waits for its reply to RCPT.
	Verify(ctx context.Context, client mail.Client, sender, recipient mail.Address) (reason mail.Reply)
}

// A Gate slows intake down when delivery falls behind (Postfix:
// in_flow_delay).
type Gate interface {
	// Wait returns when a message may begin. It should take seconds at most: the
	// client waits for its reply to MAIL. An error refuses the message for now.
	Wait(ctx context.Context) error
}

// RelayConfig configures a RelayPolicy. The names in parentheses are Postfix's.
type RelayConfig struct {
	// Networks may send anywhere (mynetworks). Default loopback. Clients on
	// unix sockets always may.
	Networks []netip.Prefix
	// ClientCertificates are those of further clients that may send anywhere, by the
	// fingerprint of the certificate or of its key (relay_clientcerts). The issuer and the
	// validity of a certificate do not matter.
	ClientCertificates []certificate.Fingerprint
	// RelayDomains are the domains to which any client may send (relay_domains).
	// ".example.com" stands for all names below example.com. Default none.
	RelayDomains []string
	// AllowLiterals accepts recipients such as user@[192.0.2.1] (similar to
	// resolve_numeric_domain).
	AllowLiterals bool
	// AllowUnqualified accepts recipient domains without a dot, for closed
	// networks that have such names. A domain in RelayDomains needs no dot.
	AllowUnqualified bool
	// AllowRouting accepts "%", "!" and a quoted "@" in local parts from Networks
	// (similar to allow_untrusted_routing). A next hop that trusts us could take
	// them for routes. Other networks may never use them.
	AllowRouting bool
	// SenderLogins are the senders that users who have logged in may give at MAIL
	// (smtpd_sender_login_maps). Default: any.
	SenderLogins []SenderLogin
}

// A RelayPolicy lets some networks send anywhere and all others to some domains
// only (RFC 5321 7.9), where they are not refused altogether, as on a listener for
// submission. The sender's address and the EHLO name authorize nothing, since any client
// can claim them.
type RelayPolicy struct {
	cfg          RelayConfig
	certificates map[certificate.Fingerprint]bool
	logins       senderLogins
	domains      domainSet
}

// NewRelayPolicy returns a RelayPolicy; the error joins all errors of the
// configuration.
func NewRelayPolicy(cfg RelayConfig) (*RelayPolicy, error) {
	if cfg.Networks == nil {
		cfg.Networks = loopback()
	}
	p := &RelayPolicy{cfg: cfg, certificates: map[certificate.Fingerprint]bool{}, logins: newSenderLogins(cfg.SenderLogins)}
	for _, f := range cfg.ClientCertificates {
		p.certificates[f] = true
	}
	domains, err := newDomainSet("relay domain", cfg.RelayDomains)
	p.domains = domains
	complaints := []error{err}
	for _, n := range cfg.Networks {
		if !n.IsValid() {
			complaints = append(complaints, fmt.Errorf("a network of the relay policy is not valid: %s", n))
		}
	}
	return p, errors.Join(complaints...)
}

// Trusts implements Policy. What others send is not signed in the
// name of our domains.
func (p *RelayPolicy) Trusts(client *Client) bool {
	if !client.Addr.IsValid() || client.User != "" || contains(p.cfg.Networks, client.Addr) {
		return true
	}
	for _, f := range client.Certificates {
		if f != (certificate.Fingerprint{}) && p.certificates[f] {
			return true
		}
	}
	return false
}

// Sender implements Policy. The null sender is that of reports, which each user may send.
func (p *RelayPolicy) Sender(client *Client, sender mail.Address) mail.Reply {
	switch {
	case client.MustLogin && !p.Trusts(client):
		return mail.Reply{Code: 530, Status: mail.Status{Class: 5, Subject: 7, Detail: 0}, Text: "Authentication required"} // RFC 4954 6
	case client.User != "" && sender != "" && !p.logins.own(client.User, string(sender)):
		return mail.Reply{Code: 553, Status: mail.Status{Class: 5, Subject: 7, Detail: 1}, Text: "<" + string(sender) + ">: Sender address rejected: not owned by user " + mail.CleanText(client.User)}
	}
	return mail.Reply{}
}

// Recipient implements Policy.
func (p *RelayPolicy) Recipient(client *Client, _, recipient mail.Address) mail.Reply {
	domain := recipient.Domain()
	trusted := p.Trusts(client)
	switch {
	case client.Purpose.closed() && !trusted:
		r := refusal(recipient, 7, 0, "Only permitted clients may submit mail here")
		r.Code = 530 // RFC 6409 4.3
		return r
	case domain == "":
		return mail.Reply{} // postmaster, which any client may reach (RFC 5321 4.5.1)
	}
	if strings.ContainsAny(recipient.Local(), "%!@") && !(trusted && p.cfg.AllowRouting) {
		return refusal(recipient, 7, 1, "Routed address refused")
	}
	if domain[0] == '[' {
		return p.literal(trusted, recipient)
	}
	ascii, err := idn.ASCII(domain)
	if err != nil {
		return refusal(recipient, 1, 2, "Bad domain name")
	}
	switch {
	case p.domains.has(ascii):
		return mail.Reply{}
	case !trusted:
		return refusal(recipient, 7, 1, "Relay access denied")
	case !strings.Contains(ascii, ".") && !p.cfg.AllowUnqualified:
		return refusal(recipient, 1, 2, "Domain is not fully qualified")
	}
	return mail.Reply{}
}

func (p *RelayPolicy) literal(trusted bool, recipient mail.Address) mail.Reply {
	switch {
	case !trusted:
		return refusal(recipient, 7, 1, "Relay access denied")
	case !p.cfg.AllowLiterals:
		return refusal(recipient, 1, 2, "Address literals are not accepted")
	}
	return mail.Reply{}
}

// A domainSet is domains in lower case, as A-labels. One with a leading dot stands for all names below it.
type domainSet map[string]bool

// newDomainSet returns the set of a list; what names an entry in errors, which are joined.
func newDomainSet(what string, domains []string) (domainSet, error) {
	set := make(domainSet)
	var complaints []error
	for _, d := range domains {
		name, below := strings.CutPrefix(d, ".")
		ascii, err := idn.ASCII(name)
		if err != nil || !smtp.ValidDomain(ascii) {
			complaints = append(complaints, fmt.Errorf("%s %q is not a domain name", what, d))
			continue
		}
		if below {
			ascii = "." + ascii
		}
		set[ascii] = true
	}
	return set, errors.Join(complaints...)
}

// has reports whether a domain, in lower case, is in the set.
func (s domainSet) has(domain string) bool { return s[domain] || s.hasAround(domain) }

// lists reports whether a domain, in lower case, is in the set itself; one with a leading dot stands for the domain and all names
// below it.
func (s domainSet) lists(domain string) bool {
	name, below := strings.CutPrefix(domain, ".")
	return s[name] && (!below || s[domain])
}

// hasBelow reports whether all names below a domain, in lower case, are in the set.
func (s domainSet) hasBelow(domain string) bool { return s["."+domain] || s.hasAround(domain) }

// hasAround reports whether the set has all names below a domain that a domain is below.
func (s domainSet) hasAround(domain string) bool {
	if len(s) == 0 {
		return false
	}
	for above := range mail.Above(domain) {
		if s[above] {
			return true
		}
	}
	return false
}

func refusal(recipient mail.Address, subject, detail uint16, text string) mail.Reply {
	return mail.Reply{
		Code:   550,
		Status: mail.Status{Class: 5, Subject: subject, Detail: detail},
		Text:   "<" + string(recipient) + ">: " + text,
	}
}
