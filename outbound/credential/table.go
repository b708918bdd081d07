package credential

import (
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"

	"github.com/posthaste-mta/posthaste/mail"
	"github.com/posthaste-mta/posthaste/route"
)

// A Table says which credential is for which mail. It is made once and then only read; the
// tokens of its credentials are safe for concurrent use.
//
// A credential's patterns of nexthops are, in the order in which they count:
//
//	[smtp.example.net]:587   this nexthop, as the configuration writes it
//	smtp.example.net:587     this host or domain, in brackets or not, on this port
//	smtp.example.net         on any port
//	.example.net             all names below it, the longest first
//	*                        all nexthops that the configuration names
//
// What is not named by the configuration is a domain of a recipient, whose MX hosts anybody
// may choose; "*" is never for those.
//
// Of the credentials for a nexthop those for the mail's sender come first, as with Postfix's
// smtp_sender_dependent_authentication:
//
//	mia@example.com          this address; an extension may follow the local part
//	@example.com             all addresses of the domain, and of no domain below it
//	<>                       the null sender
//
// then those without senders. The case of ASCII letters does not matter. A sender is what a client has said
// in MAIL: who may send with an address uses its credential.
type Table struct {
	patterns map[string]bySender // as pattern.key
	byName   map[string]*Held
	senders  bool   // some credential has senders
	begins   string // an extension
}

// A bySender has the credentials of one pattern by the keys of senders, "" for all mail.
type bySender map[string]*Held

// A Held is a credential with its tokens.
type Held struct {
	Credential
	label  string
	tokens tokens

	mu       sync.Mutex
	known    bool      // redactor is that of the password and seen
	redactor *Redactor // nil if there is nothing to look for
	seen     []Secret  // tokens, the last ones
}

// NewTable returns a table. It fails if a credential is not valid, or two have the same name, or the same
// pattern for the same sender. A delimiter begins the extension of a local part (recipient_delimiter); "" for
// none.
func NewTable(all []Credential, delimiter string) (*Table, error) {
	t := &Table{patterns: make(map[string]bySender), byName: make(map[string]*Held), begins: delimiter}
	var errs []error
	for _, c := range all {
		if err := c.Validate(); err != nil {
			errs = append(errs, fmt.Errorf("credential %s: %w", c.Name, err))
			continue
		}
		if t.byName[c.Name] != nil {
			errs = append(errs, fmt.Errorf("credential %s: there are two of this name", c.Name))
			continue
		}
		h := &Held{Credential: c, label: c.label()}
		h.tokens.init(&h.Credential)
		t.byName[c.Name] = h
		t.senders = t.senders || len(c.Senders) > 0
		for _, pattern := range c.For {
			if err := t.assign(h, pattern); err != nil {
				errs = append(errs, err)
			}
		}
	}
	return t, errors.Join(errs...)
}

// assign makes a credential that for one of its patterns.
func (t *Table) assign(h *Held, pattern string) error {
	key, _ := parsePattern(pattern) // Validate has checked it, and the senders
	if t.patterns[key] == nil {
		t.patterns[key] = make(bySender)
	}
	senders := h.Senders
	if len(senders) == 0 {
		senders = []string{""}
	}
	for _, sender := range senders {
		whose := ""
		if sender != "" {
			sender, _ = parseSender(sender)
			whose = " and " + sender
		}
		if other := t.patterns[key][sender]; other != nil && other != h {
			return fmt.Errorf("credential %s: for: %s is for %s%s, too", h.Name, other.Name, pattern, whose)
		}
		t.patterns[key][sender] = h
	}
	return nil
}

// Named returns the credential of a name, or nil.
func (t *Table) Named(name string) *Held {
	if t == nil {
		return nil
	}
	return t.byName[name]
}

// Label names the credential in demands (tlspolicy.Demand): its name, "~" and digits. They are others if a reload gives
// the name to another user or account, or lets its secret be used on other connections. So by construction mail never
// uses a connection that was logged in for what the name stood for before, nor one that is being opened for that.
func (h *Held) Label() string { return h.label }

// label returns the Label of a credential. A new password is for the same user, so it is not part of it: a host that has refused
// the old one is remembered, and what waits need not be routed again.
func (c *Credential) label() string {
	h := sha256.New()
	for _, text := range append([]string{c.User, c.Token.File, fmt.Sprint(c.Protection, c.InClear)}, c.Token.Command...) {
		fmt.Fprintf(h, "%d:%s,", len(text), text)
	}
	return c.Name + labelMark + hex.EncodeToString(h.Sum(nil)[:4])
}

// labelMark is not in the name of any credential.
const labelMark = "~"

// Labeled returns the credential of a label. The error says why there is none.
func (t *Table) Labeled(label string) (*Held, error) {
	name, _, _ := strings.Cut(label, labelMark)
	h := t.Named(name)
	switch {
	case h == nil: // a reload has removed it
		return nil, fmt.Errorf("credential %s does not exist", name)
	case h.label != label:
		return nil, fmt.Errorf("credential %s is another one since a reload", name)
	}
	return h, nil
}

// BySender reports whether it depends on the sender which credential mail has.
func (t *Table) BySender() bool { return t != nil && t.senders }

// All returns the credentials, in the order of their names.
func (t *Table) All() []*Held {
	if t == nil {
		return nil
	}
	return slices.SortedFunc(maps.Values(t.byName), func(a, b *Held) int { return cmp.Compare(a.Name, b.Name) })
}

// Unused returns the names of credentials that fit none of the nexthops that the configuration names, in order.
// Domains means that mail also goes to domains of recipients, which a credential may name.
func (t *Table) Unused(nexthops []string, domains bool) (names []string) {
	used := make(map[*Held]bool)
	for _, n := range nexthops {
		for _, p := range t.matching(nil, n, true) {
			for _, h := range p {
				used[h] = true
			}
		}
	}
	for _, h := range t.All() {
		may := func(pattern string) bool {
			key, _ := parsePattern(pattern)
			n, err := route.ParseNexthop(key)
			return domains && (strings.HasPrefix(key, ".") || err == nil && n.Port == 0 && (n.Form == route.FormDomain || n.Form == route.FormAddress))
		}
		if !used[h] && !slices.ContainsFunc(h.For, may) {
			names = append(names, h.Name)
		}
	}
	return names
}

// Same reports whether all mail has credentials of the same labels by another table. Passwords may
// differ.
func (t *Table) Same(other *Table) bool {
	var none Table
	if t == nil {
		t = &none
	}
	if other == nil {
		other = &none
	}
	return t.begins == other.begins && maps.EqualFunc(t.patterns, other.patterns, func(a, b bySender) bool {
		return maps.EqualFunc(a, b, func(x, y *Held) bool { return x.label == y.label })
	})
}

// For returns the name of the credential for mail of a sender to a nexthop in canonical form, or "".
// Configured means that the configuration names the nexthop. The null sender is "<>"; "" is for mail
// of which the sender does not count.
func (t *Table) For(nexthop string, configured bool, sender mail.Address) string {
	name, _, _ := strings.Cut(t.LabelFor(nexthop, configured, sender), labelMark)
	return name
}

// LabelFor is For, but returns the credential's label.
func (t *Table) LabelFor(nexthop string, configured bool, sender mail.Address) string {
	if t == nil || len(t.patterns) == 0 {
		return ""
	}
	if h := t.find(nexthop, configured, sender); h != nil {
		return h.label
	}
	return ""
}

// Any reports whether there is a credential for mail to a nexthop, of whatever sender.
func (t *Table) Any(nexthop string, configured bool) bool {
	if t == nil {
		return false
	}
	var room [8]bySender
	return len(t.matching(room[:0], nexthop, configured)) > 0
}

func (t *Table) find(nexthop string, configured bool, sender mail.Address) *Held {
	var room [8]bySender
	patterns := t.matching(room[:0], nexthop, configured)
	if len(patterns) == 0 {
		return nil
	}
	if t.senders {
		for _, key := range t.keys(sender) {
			for _, p := range patterns {
				if h := p[key]; h != nil {
					return h
				}
			}
		}
	}
	for _, p := range patterns {
		if h := p[""]; h != nil {
			return h
		}
	}
	return nil
}

// keys returns the keys of a sender, in the order in which they count.
func (t *Table) keys(sender mail.Address) []string {
	key, err := parseSender(string(sender))
	if err != nil {
		return nil // it is "", or at an address literal
	}
	keys := []string{key}
	if key == nullSender {
		return keys
	}
	at := strings.LastIndexByte(key, '@')
	if t.begins != "" {
		if i := strings.Index(key[:at], t.begins); i > 0 {
			keys = append(keys, key[:i]+key[at:])
		}
	}
	return append(keys, key[at:])
}

// matching appends the credentials for a nexthop to a list, in order of precedence.
func (t *Table) matching(list []bySender, nexthop string, configured bool) []bySender {
	add := func(key string) {
		if p := t.patterns[key]; p != nil {
			list = append(list, p)
		}
	}
	if strings.HasPrefix(nexthop, "[") {
		add(nexthop)
	}
	if n, err := route.ParseNexthop(nexthop); err == nil && (n.Form == route.FormHost || n.Form == route.FormDomain) {
		if n.Port != 0 {
			add(named(n.Name, n.Port))
		}
		add(n.Name)
		for i := strings.IndexByte(n.Name, '.'); i >= 0; {
			add(n.Name[i:])
			next := strings.IndexByte(n.Name[i+1:], '.')
			if next < 0 {
				break
			}
			i += 1 + next
		}
	}
	if configured {
		add("*")
	}
	return list
}

func named(host string, port uint16) string {
	return route.Nexthop{Form: route.FormDomain, Name: host, Port: port}.String()
}

// nullSender is the pattern for mail without a sender, and the sender of such mail.
const nullSender = "<>"

// parseSender returns the key of a pattern of senders, or of a sender.
func parseSender(text string) (key string, err error) {
	if text == nullSender {
		return text, nil
	}
	at := strings.LastIndexByte(text, '@')
	if at < 0 {
		return "", fmt.Errorf("%q is no sender: write an address, @ and a domain for all of its addresses, or %s for the null sender", text, nullSender)
	}
	domain, err := route.ParseDomain(text[at+1:])
	if err != nil {
		return "", fmt.Errorf("%q is no sender: %w", text, err)
	}
	return strings.Map(lower, text[:at]) + "@" + domain, nil
}

// lower folds ASCII letters. Of others only the owner of the domain knows whether their case matters (RFC 6532
// 3.1), and some become letters of another user's name.
func lower(r rune) rune {
	if 'A' <= r && r <= 'Z' {
		return r + 'a' - 'A'
	}
	return r
}

// parsePattern returns the key of a pattern.
func parsePattern(text string) (key string, err error) {
	if text == "*" {
		return text, nil
	}
	if parent, below := strings.CutPrefix(text, "."); below {
		n, err := route.ParseNexthop(parent)
		if err != nil || n.Port != 0 || n.Form != route.FormDomain {
			return "", fmt.Errorf("%q is not a dot and a domain", text)
		}
		return "." + n.Name, nil
	}
	n, err := route.ParseNexthop(text)
	if err != nil {
		return "", err
	}
	if n.Form == route.FormSite {
		return "", fmt.Errorf("%q is a list of hosts, not a nexthop", text)
	}
	return n.String(), nil
}
