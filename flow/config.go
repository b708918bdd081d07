package flow

import (
	"fmt"
	"net/netip"
	"strings"

	"github.com/posthaste-mta/posthaste/internal/mistakes"
	"github.com/posthaste-mta/posthaste/mail"
)

// The classes that always exist. Normal is the class of mail that no rule matches.
const (
	ClassNormal = "normal"
	ClassBulk   = "bulk"
)

// BulkRecipients is the number of recipients above which a message is bulk mail.
const BulkRecipients = 100

// Config is the rules. The zero value has the two standard classes, and a tenant for
// each network of clients.
type Config struct {
	// Classes are tried in order. Those of ClassBulk and ClassNormal that are missing
	// are added at the end with their standard values.
	Classes []Class
	// Tenants are tried in order.
	Tenants []Tenant
	// Key determines how a message's flow is found.
	Key Key
	// Dash is whether it is a "-" that ends the sender in the addresses of clients that put a
	// recipient behind it, if such an address has a "+", too, and no word of list software.
	Dash bool
	// HeaderClients are the networks of clients that may name class and tenant in
	// header fields. nil is the default, loopback. Clients of a unix socket always
	// may. Add only machines whose programs you trust with the order of all mail.
	HeaderClients []netip.Prefix
}

// A Class is a set of messages that share capacity with the other classes by weight.
type Class struct {
	Name string
	// Weight is the share of capacity relative to the other classes, from 1 to 1000.
	Weight int
	// Strict gives the class everything that it asks for before others, up to
	// MaxShare percent of the capacity, from 1 to StrictShareMax; that is also the
	// maximum of the sum over all classes, so that the others always get something.
	// Otherwise MaxShare is 0.
	Strict   bool
	MaxShare int
	// Match selects the messages. ClassBulk has its standard conditions if Match has
	// none; any other class without conditions gets only messages that name it in a
	// header field, and ClassNormal also those that belong nowhere else.
	Match Match
}

// A Tenant is a customer, or a part of the own organization, that shares the capacity
// of a class with the other tenants by weight. Its Match must have a condition.
type Tenant struct {
	Name   string
	Weight int // from 1 to 1000
	Match  Match
}

// Limits of Class and Tenant.
const (
	WeightMax      = 1000
	StrictShareMax = 90 // percent
)

// A Match has conditions of several kinds. A message must meet one of each kind that
// is given.
type Match struct {
	// Senders are patterns for the envelope sender: an address, in which * stands for
	// any text; a domain; .domain for the domains below it; or <> for the null sender.
	Senders []string
	// Clients are networks.
	Clients []netip.Prefix
	// Users are names of clients that have authenticated; "uid:33" is a user of the
	// submission socket.
	Users []string
	// Tenants are names or patterns; only for classes.
	Tenants []string
	// Headers are names of header fields, or "Name: pattern" for its value; only for
	// classes.
	Headers []string
	// Listeners are those on which the mail arrives; only for classes.
	Listeners []Listener
	// MinRecipients is a number of recipients; 0 is no condition; only for classes.
	MinRecipients int
	// MinPriority is a positive priority from which on mail is meant, MaxPriority a negative one
	// up to which it is (RFC 6710); 0 is no condition; only for classes.
	MinPriority, MaxPriority int
}

// A Listener is a local address, of which an unspecified one stands for all, or a
// listener by its name. The zero value is the submission socket.
type Listener struct {
	Addr netip.AddrPort
	Name string // if Addr is not valid
}

// given reports whether there is a condition.
func (m *Match) given() bool {
	return len(m.Senders)+len(m.Clients)+len(m.Users)+len(m.Tenants)+len(m.Headers)+len(m.Listeners)+m.MinRecipients > 0 || m.MinPriority != 0 || m.MaxPriority != 0
}

// A KeyKind is a way to find the flow of a message within its tenant.
type KeyKind uint8

const (
	KeySender KeyKind = iota // from the envelope sender; see Sender
	KeyDomain                // from its domain
	KeyHeader                // from a header field, or the sender if it is missing
	KeyNone                  // all mail of a tenant in a class is one flow
)

// A Key is a KeyKind, with the field's name for KeyHeader.
type Key struct {
	Kind   KeyKind
	Header string
}

// ParseKey reads "sender", "sender-domain", "header:NAME" or "none".
func ParseKey(text string) (Key, error) {
	switch text {
	case "sender":
		return Key{Kind: KeySender}, nil
	case "sender-domain":
		return Key{Kind: KeyDomain}, nil
	case "none":
		return Key{Kind: KeyNone}, nil
	}
	if name, found := strings.CutPrefix(text, "header:"); found {
		return Key{Kind: KeyHeader, Header: name}, checkField(name)
	}
	return Key{}, fmt.Errorf(`%q is not a flow key: want "sender", "sender-domain", "header:NAME" or "none"`, text)
}

// String is the inverse of ParseKey.
func (k Key) String() string {
	switch k.Kind {
	case KeyDomain:
		return "sender-domain"
	case KeyHeader:
		return "header:" + k.Header
	case KeyNone:
		return "none"
	}
	return "sender"
}

// fieldMax is the length of the longest name of a header field in a rule.
const fieldMax = 76

func checkField(name string) error {
	if name == "" || len(name) > fieldMax || strings.ContainsFunc(name, func(r rune) bool { return r <= ' ' || r > '~' || r == ':' }) {
		return fmt.Errorf("%q is not the name of a header field", name)
	}
	return nil
}

// CheckHeader returns the error of one of Match.Headers, if it has one.
func CheckHeader(text string) error {
	name, _, _ := strings.Cut(text, ":")
	return checkField(strings.TrimSpace(name))
}

// Validate returns all errors, joined.
func (c Config) Validate() error {
	var wrong mistakes.List
	names := make(map[string]bool)
	for i := range c.Classes {
		k := &c.Classes[i]
		wrong.AddOf("class "+k.Name, k.validate())
		wrong.Unless(!names[k.Name], "class %s is there twice", k.Name)
		names[k.Name] = true
	}
	wrong.Unless(c.strictShare() <= StrictShareMax, "maximum shares of strict classes: the sum is %d %%, and must be at most %d %%", c.strictShare(), StrictShareMax)
	clear(names)
	for i := range c.Tenants {
		t := &c.Tenants[i]
		wrong.AddOf("tenant "+t.Name, t.validate())
		wrong.Unless(!names[t.Name], "tenant %s is there twice", t.Name)
		names[t.Name] = true
	}
	if c.Key.Kind == KeyHeader {
		wrong.Add(checkField(c.Key.Header))
	}
	for _, p := range c.HeaderClients {
		wrong.Unless(p.IsValid(), "a network of header clients is not valid: %s", p)
	}
	return wrong.Join()
}

// strictShare returns the sum of the shares of classes that are strict.
func (c *Config) strictShare() (sum int) {
	for i := range c.Classes {
		sum += c.Classes[i].MaxShare
	}
	return sum
}

func (c *Class) validate() error {
	var wrong mistakes.List
	wrong.Add(checkName(c.Name, mail.ClassMax), checkWeight(c.Weight), c.Match.validate())
	wrong.Unless(!c.Strict || c.MaxShare >= 1 && c.MaxShare <= StrictShareMax, "maximum share %d %% is not between 1 and %d", c.MaxShare, StrictShareMax)
	wrong.Unless(c.Strict || c.MaxShare == 0, "a maximum share has no effect without strict priority")
	return wrong.Join()
}

func (t *Tenant) validate() error {
	var wrong mistakes.List
	m := &t.Match
	wrong.Add(checkName(t.Name, mail.TenantMax), checkWeight(t.Weight), m.validate())
	wrong.Unless(m.given(), "it has no conditions")
	wrong.Unless(len(m.Tenants)+len(m.Headers)+len(m.Listeners)+m.MinRecipients+m.MinPriority-m.MaxPriority == 0, "a tenant is found by sender, client or user only")
	return wrong.Join()
}

func (m *Match) validate() error {
	var wrong mistakes.List
	for _, s := range m.Senders {
		wrong.Unless(s != "", "a pattern for senders is empty")
	}
	for _, h := range m.Headers {
		wrong.Add(CheckHeader(h))
	}
	for _, p := range m.Clients {
		wrong.Unless(p.IsValid(), "a network is not valid: %s", p)
	}
	wrong.Unless(m.MinPriority >= 0 && m.MinPriority <= mail.PriorityMax, "minimum priority %d is not between 1 and %d", m.MinPriority, mail.PriorityMax)
	wrong.Unless(m.MaxPriority <= 0 && m.MaxPriority >= mail.PriorityMin, "maximum priority %d is not between %d and -1", m.MaxPriority, mail.PriorityMin)
	wrong.Unless(m.MinRecipients >= 0, "minimum of recipients %d is negative", m.MinRecipients)
	return wrong.Join()
}

func checkName(name string, max int) error {
	if name == "" || clean(name, max) != name {
		return fmt.Errorf("%q is not a name: want 1 to %d bytes without spaces", name, max)
	}
	return nil
}

func checkWeight(weight int) error {
	if weight < 1 || weight > WeightMax {
		return fmt.Errorf("weight %d is not between 1 and %d", weight, WeightMax)
	}
	return nil
}

// WithDefaults returns c with the standard classes and HeaderClients.
func (c Config) WithDefaults() Config {
	c.Classes = append([]Class(nil), c.Classes...)
	for _, standard := range StandardClasses() {
		known := false
		for i := range c.Classes {
			known = known || c.Classes[i].Name == standard.Name
		}
		if !known {
			c.Classes = append(c.Classes, standard)
		}
	}
	if c.HeaderClients == nil {
		c.HeaderClients = []netip.Prefix{netip.MustParsePrefix("127.0.0.0/8"), netip.MustParsePrefix("::1/128")}
	}
	return c
}

// StandardClasses returns the classes that exist without configuration. Their weights
// are those of one part of bulk mail to four of other mail.
func StandardClasses() []Class {
	return []Class{{Name: ClassBulk, Weight: 1}, {Name: ClassNormal, Weight: 4}}
}

// bulk returns the standard conditions of ClassBulk, of which one must be met: what
// large receivers demand of bulk senders since 2024 (RFC 2369, RFC 8058), what list
// software adds (RFC 2919), and what it added before that.
func bulk() []Match {
	return []Match{
		{Headers: []string{"List-Unsubscribe", "List-Id", "Precedence: bulk", "Precedence: list"}},
		{MinRecipients: BulkRecipients + 1},
	}
}
