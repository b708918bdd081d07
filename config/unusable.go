package config

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"maps"
	"net/netip"
	"os"
	"os/user"
	"slices"
	"strings"

	"github.com/posthaste-mta/posthaste/inbound"
	"github.com/posthaste-mta/posthaste/internal/users"
	"github.com/posthaste-mta/posthaste/mail"
	"github.com/posthaste-mta/posthaste/outbound/credential"
	"github.com/posthaste-mta/posthaste/pipe"
	"github.com/posthaste-mta/posthaste/route"
	"github.com/posthaste-mta/posthaste/tlspolicy"
)

// This file has warnings of what is configured and cannot be used: a daemon would start with it, and an
// operator would notice when mail waits, or when clients complain.

// warning returns a warning about a parameter that the file sets.
func (c *Config) warning(key, format string, args ...any) Warning {
	return Warning{Key: key, Line: c.lines[key], Message: fmt.Sprintf(format, args...)}
}

// useless warns of listeners for submission at which no client may submit.
func (w *warner) useless(l *Listener) {
	c := w.c
	byCertificate := len(c.RelayClientCerts) > 0 && c.UseOfTLS(l) != inbound.TLSNone
	if l.Purpose == inbound.PurposeRelay || l.Address.Unix != "" || c.UseOfAuth(l) != inbound.AuthOff || byCertificate || len(l.Forwarders.XClient) > 0 {
		return
	}
	local := func(p netip.Prefix) bool { return p.Addr().IsLoopback() }
	at := l.Address.TCP.Addr()
	elsewhere := at.IsValid() && !at.IsUnspecified() && !at.IsLoopback()
	if len(c.MyNetworks) == 0 || elsewhere && !slices.ContainsFunc(c.MyNetworks, func(p netip.Prefix) bool { return !local(p) }) {
		w.about(fullName(fullName(tableListener, l.Name), "purpose"),
			`no client may submit mail here: mynetworks has none that can reach this address, and clients cannot log in; set users = "/etc/posthaste/users", or add the networks of the clients to mynetworks`)
	}
}

// requireTLS warns of transports that are to demand REQUIRETLS, unlike others, although it cannot be known which hosts
// are those of a domain: DNSSEC says that, and no name server validates it. Where all transports demand it that is the
// default, and mail for a domain with an MTA-STS policy is helped by it.
func (w *warner) requireTLS() {
	if w.c.Defaults.SMTP.RequireTLS || w.c.Resolve().BelievesAD() {
		return
	}
	for _, to := range w.c.targets() {
		t := w.c.Transports[to.transport]
		byDNS := len(to.nexthops) == 0 || slices.ContainsFunc(to.nexthops, func(n route.Nexthop) bool { return n.Form == route.FormDomain })
		if p := t.SMTP.policy(); t.Type == TypeSMTP && t.SMTP.RequireTLS && byDNS && p.Asked(mail.TLSRequired).NamesFromDNS() {
			w.about(w.of(to.transport, "requiretls"), "mail with REQUIRETLS reaches only domains that have an MTA-STS policy in mode enforce, and is returned otherwise, because DNSSEC says nothing of the others: %s", trustFix)
		}
	}
}

// unusableCredentials returns warnings of credentials that are for no mail, or can never be said. The file of
// credentials and its line are in the message.
func (c *Config) unusableCredentials(table *credential.Table, lines map[string]int) (list []Warning) {
	if table == nil {
		return nil
	}
	place := func(name string) string { return fmt.Sprintf("[%s] (%s:%d)", name, c.Credentials, lines[name]) }
	targets := c.targets()
	domains := slices.ContainsFunc(targets, func(to target) bool { return len(to.nexthops) == 0 })
	nexthops := c.trusted()
	for _, name := range table.Unused(nexthops, domains) {
		known := "it names none"
		if len(nexthops) > 0 {
			known = "it names " + strings.Join(nexthops[:min(len(nexthops), 5)], ", ")
		}
		list = append(list, c.warning("credentials", "%s is never used: for has no nexthop of this configuration, and %s; write for as relayhost, the route or the transport has it", place(name), known))
	}
	security := c.securityTable()
	for _, to := range targets {
		if to.what != "" && len(to.nexthops) > 0 {
			to.what += " goes to " + to.nexthops[0].String() + ", and "
		}
		for _, n := range to.nexthops {
			if n.Form != route.FormAddress || known(security.Policy(to.transport, "")) {
				continue
			}
			for _, h := range credentialsFor(table, n.String()) {
				key := to.key
				if !c.explicit[key] {
					key = "credentials"
				}
				w := c.warning(key, `%scredential %s demands a certificate for a name, and an address has none, so it is not used and the mail waits; write the name of the server in brackets, set tls_security_level = "fingerprint", or tls = "encrypted" for the credential`, to.what, place(h.Name))
				if h.Protection == credential.Verified && !slices.Contains(list, w) {
					list = append(list, w)
				}
			}
		}
	}
	return list
}

// known reports whether a server without a name can be known by its certificate.
func known(p tlspolicy.Policy) bool {
	named := func(name string) bool {
		return name != tlspolicy.MatchHost && name != tlspolicy.MatchNexthop && name != tlspolicy.MatchBelow
	}
	return p.Level == tlspolicy.Fingerprint || (p.Level == tlspolicy.Verify || p.Level == tlspolicy.Secure) && slices.ContainsFunc(p.Match, named)
}

// credentialsFor returns the credentials by which mail goes to a nexthop, of whatever sender.
func credentialsFor(table *credential.Table, nexthop string) (list []*credential.Held) {
	senders := []string{""}
	for _, h := range table.All() {
		senders = append(senders, h.Senders...)
	}
	for _, sender := range senders {
		if h := table.Named(table.For(nexthop, true, mail.Address(sender))); h != nil && !slices.Contains(list, h) {
			list = append(list, h)
		}
	}
	return list
}

// missingUsers returns warnings of users of this machine as which programs are to run, and who do not exist.
func (c *Config) missingUsers() (list []Warning) {
	for _, name := range slices.Sorted(maps.Keys(c.Transports)) {
		t := c.Transports[name]
		if t.Type != TypePipe {
			continue
		}
		err := pipe.CheckUser(t.Pipe.User)
		var noUser user.UnknownUserError
		var noGroup user.UnknownGroupError
		wrong := ""
		switch {
		case errors.As(err, &noUser):
			wrong = fmt.Sprintf("this machine has no user %q: create it (useradd --system), or correct the name", string(noUser))
		case errors.As(err, &noGroup):
			wrong = fmt.Sprintf("this machine has no group %q: create it (groupadd --system), or correct the name", string(noGroup))
		case errors.Is(err, pipe.ErrRoot):
			wrong = err.Error()
		default:
			continue // or it cannot be found out now
		}
		list = append(list, c.warning(fullName(transportTable(name), "command_user"), "%s; the daemon does not start with this", wrong))
	}
	return list
}

// noUsers returns a warning of a file of users that has none.
func (c *Config) noUsers(file *users.File) []Warning {
	if file == nil || file.Users().Len() > 0 {
		return nil
	}
	return []Warning{c.warning("users", `%s has no users, so no client can log in; add some with "posthaste user add"`, c.Logins.Users)}
}

// expressionLines is how many lines of a map are looked at, and each of how many bytes.
const (
	expressionLines   = 10_000
	expressionLineMax = 64 << 10
)

// plainExpressions returns warnings of maps that have regular expressions and are read as keys, so that
// no address ever matches one.
func (c *Config) plainExpressions() (list []Warning) {
	r := &c.Rewriting
	for _, one := range []struct {
		parameter string
		files     []string
	}{
		{"canonical_maps", r.Canonical}, {"sender_canonical_maps", r.CanonicalSenders}, {"recipient_canonical_maps", r.CanonicalRecipients},
		{"virtual_alias_maps", r.Aliases}, {"sender_bcc_maps", r.SenderBcc}, {"recipient_bcc_maps", r.RecipientBcc},
	} {
		for _, file := range one.files {
			if strings.HasPrefix(file, expressionsPrefix) {
				continue
			}
			f, err := os.Open(file)
			if err != nil {
				continue // LoadRewriting reports it
			}
			line, word := findExpression(f)
			f.Close()
			if word != "" {
				list = append(list, c.warning(one.parameter, `%s:%d: %s looks like a regular expression, and is looked up as an address: write "%s%s" if the file has expressions`, file, line, word, expressionsPrefix, file))
			}
		}
	}
	return list
}

// findExpression returns the first key that is between slashes, shortened, and its line.
func findExpression(r io.Reader) (line int, word string) {
	lines := bufio.NewScanner(r)
	lines.Buffer(nil, expressionLineMax)
	for line = 1; line <= expressionLines && lines.Scan(); line++ {
		text := lines.Text()
		key, _, _ := strings.Cut(text, " ")
		key, _, _ = strings.Cut(key, "\t")
		if end := strings.LastIndexByte(key, '/'); strings.HasPrefix(text, "/") && end > 0 && strings.Trim(key[end+1:], "ims") == "" {
			if len(key) > 60 {
				key = strings.ToValidUTF8(key[:60], "") + "…"
			}
			return line, key
		}
	}
	return 0, ""
}
