package credential

import (
	"errors"
	"fmt"
	"strings"

	"github.com/posthaste-mta/posthaste/route"
)

// A Table says which credential is for which nexthop. It is made once and then only read; the
// tokens of its credentials are safe for concurrent use.
//
// A credential's patterns are, in the order in which they count:
//
//	[smtp.example.net]:587   this nexthop, as the configuration writes it
//	smtp.example.net:587     this host or domain, in brackets or not, on this port
//	smtp.example.net         on any port
//	.example.net             all names below it, the longest first
//	*                        all nexthops that the configuration names
//
// What is not named by the configuration is a domain of a recipient, whose MX hosts anybody
// may choose; "*" is never for those.
type Table struct {
	patterns map[string]*Held // as pattern.key
	byName   map[string]*Held
}

// A Held is a credential with its tokens.
type Held struct {
	Credential
	tokens tokens
}

// NewTable returns a table. It fails if a credential is not valid, or two have the same name or
// pattern.
func NewTable(all []Credential) (*Table, error) {
	t := &Table{patterns: make(map[string]*Held), byName: make(map[string]*Held)}
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
		h := &Held{Credential: c}
		h.tokens.init(&h.Credential)
		t.byName[c.Name] = h
		for _, pattern := range c.For {
			key, _ := parsePattern(pattern) // Validate has checked it
			if other := t.patterns[key]; other != nil && other != h {
				errs = append(errs, fmt.Errorf("credential %s: for: %s is for %s, too", c.Name, other.Name, pattern))
				continue
			}
			t.patterns[key] = h
		}
	}
	return t, errors.Join(errs...)
}

// Named returns the credential of a name, or nil.
func (t *Table) Named(name string) *Held {
	if t == nil {
		return nil
	}
	return t.byName[name]
}

// For returns the name of the credential for a nexthop in canonical form, or "". Configured means
// that the configuration names the nexthop.
func (t *Table) For(nexthop string, configured bool) string {
	if t == nil || len(t.patterns) == 0 {
		return ""
	}
	if h := t.find(nexthop, configured); h != nil {
		return h.Name
	}
	return ""
}

func (t *Table) find(nexthop string, configured bool) *Held {
	if h := t.patterns[nexthop]; h != nil && strings.HasPrefix(nexthop, "[") {
		return h
	}
	if n, err := route.ParseNexthop(nexthop); err == nil && (n.Form == route.FormHost || n.Form == route.FormDomain) {
		if h := t.patterns[named(n.Name, n.Port)]; h != nil {
			return h
		}
		if h := t.patterns[n.Name]; h != nil {
			return h
		}
		for i := strings.IndexByte(n.Name, '.'); i >= 0; {
			if h := t.patterns[n.Name[i:]]; h != nil {
				return h
			}
			next := strings.IndexByte(n.Name[i+1:], '.')
			if next < 0 {
				break
			}
			i += 1 + next
		}
	}
	if configured {
		return t.patterns["*"]
	}
	return nil
}

func named(host string, port uint16) string {
	return route.Nexthop{Form: route.FormDomain, Name: host, Port: port}.String()
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
