package flow

import (
	"net/netip"
	"slices"
	"strings"

	"github.com/posthaste-mta/posthaste/internal/glob"
	"github.com/posthaste-mta/posthaste/mail"
	"github.com/posthaste-mta/posthaste/smtp"
)

// The header fields in which a permitted client names class and tenant.
const (
	HeaderClass  = "X-Posthaste-Class"
	HeaderTenant = "X-Posthaste-Tenant"
)

// Rules is a compiled Config. It does not change; any number of goroutines may use it.
type Rules struct {
	classes []classRule
	tenants []tenantRule
	key     Key
	keyed   int // the watched field of key
	dash    bool
	trusted []netip.Prefix
	watch   *smtp.FieldWatch
}

// The watched fields that are always there. Those of ours are removed.
const (
	watchedClass = iota
	watchedTenant
	watchedTLS // this one and the next stay
	watchedMessageID
)

type classRule struct {
	name  string
	match []match // one of them must be met
}

type tenantRule struct {
	name  string
	match match
}

// A match is a compiled Match.
type match struct {
	senders    glob.Senders
	clients    []netip.Prefix
	users      []string
	tenants    []glob.Pattern
	headers    []headerPattern
	listeners  []Listener
	recipients int
	// Priorities from which on, and up to which, mail is meant; 0 is no condition.
	above, below int8
}

type headerPattern struct {
	watched int
	value   glob.Pattern // "*" for any
}

// NewRules compiles a configuration; the error joins all its errors. Its zero values
// are replaced by the defaults.
func NewRules(cfg Config) (*Rules, error) {
	cfg = cfg.WithDefaults()
	if err := cfg.Validate(); err != nil {
		return nil, err
	}
	r := &Rules{key: cfg.Key, dash: cfg.Dash, trusted: cfg.HeaderClients}
	fields := []smtp.WatchedField{watchedClass: {Name: HeaderClass, Remove: true}, watchedTenant: {Name: HeaderTenant, Remove: true}, watchedTLS: {Name: "TLS-Required"},
		watchedMessageID: {Name: "Message-ID"}}
	watch := func(name string) int {
		for i := range fields {
			if strings.EqualFold(fields[i].Name, name) {
				return i
			}
		}
		fields = append(fields, smtp.WatchedField{Name: name})
		return len(fields) - 1
	}
	if cfg.Key.Kind == KeyHeader {
		r.keyed = watch(cfg.Key.Header)
	}
	for i := range cfg.Tenants {
		t := &cfg.Tenants[i]
		r.tenants = append(r.tenants, tenantRule{t.Name, compile(&t.Match, watch)})
	}
	for i := range cfg.Classes {
		c := &cfg.Classes[i]
		rule := classRule{name: c.Name}
		conditions := []Match{c.Match}
		switch {
		case c.Match.given():
		case c.Name == ClassBulk:
			conditions = bulk()
		default:
			conditions = nil
		}
		for j := range conditions {
			rule.match = append(rule.match, compile(&conditions[j], watch))
		}
		r.classes = append(r.classes, rule)
	}
	r.watch = smtp.NewFieldWatch(fields)
	return r, nil
}

func compile(m *Match, watch func(name string) int) match {
	c := match{senders: glob.NewSenders(m.Senders), clients: m.Clients, users: m.Users, listeners: m.Listeners, recipients: m.MinRecipients,
		above: int8(m.MinPriority), below: int8(m.MaxPriority)}
	for _, text := range m.Tenants {
		c.tenants = append(c.tenants, glob.New(text))
	}
	for _, text := range m.Headers {
		name, value, found := strings.Cut(text, ":")
		h := headerPattern{watched: watch(strings.TrimSpace(name)), value: "*"}
		if value = strings.TrimSpace(value); found && value != "" {
			h.value = glob.New(value)
		}
		c.headers = append(c.headers, h)
	}
	return c
}

// Watch returns the header fields that Classify and MessageID need, nil if r is nil.
func (r *Rules) Watch() *smtp.FieldWatch {
	if r == nil {
		return nil
	}
	return r.watch
}

// TLSOptional reports whether the header fields of a message have TLS-Required: No (RFC 8689 3). A
// message that has the field twice, or with another value, asks for nothing: it would be less
// protected than others.
func (r *Rules) TLSOptional(fields []smtp.Field) bool {
	count, no := 0, false
	for i := range fields {
		if fields[i].Watched == watchedTLS {
			count, no = count+1, strings.EqualFold(string(fields[i].Value), "No")
		}
	}
	return count == 1 && no
}

// MessageID returns the beginning of the first Message-ID field of a message, as it is there; "" if there is none.
func (r *Rules) MessageID(fields []smtp.Field) string { return string(field(fields, watchedMessageID)) }

// A Client is the sender of messages as far as rules depend on it. It is found once per connection.
type Client struct {
	addr     netip.Addr
	listener netip.AddrPort
	name     string // of the listener; "" if it has none
	user     string
	tenant   string // if no rule says otherwise
}

// LocalTenant is the tenant of programs on this machine that connect by TCP.
const LocalTenant = "local"

// NewClient describes a client by its address, invalid for a unix socket; where it
// connected, of which Addr is the local address, likewise, and Name that of the listener,
// "" for the submission socket; and its user, "" if that is not known.
//
// Its tenant, unless a rule or a header field names another one, is its user, or else
// "local" for a program on this machine, or else its network: the /24 of an IPv4
// address, the /64 of an IPv6 address, which is the least that one customer has.
func NewClient(addr netip.Addr, at Listener, user string) *Client {
	c := &Client{addr: addr.Unmap(), name: at.Name, user: user, tenant: LocalTenant}
	switch {
	case addr.IsValid() && at.Addr.IsValid():
		c.listener = netip.AddrPortFrom(at.Addr.Addr().Unmap().WithZone(""), at.Addr.Port())
	case addr.IsValid():
		c.listener = netip.AddrPortFrom(netip.IPv6Unspecified(), 0) // none that is configured
	}
	bits := 64
	if c.addr.Is4() {
		bits = 24
	}
	switch {
	case user != "":
		c.tenant = clean(user, mail.TenantMax)
	case c.addr.IsValid() && !c.addr.IsLoopback():
		if network, err := c.addr.WithZone("").Prefix(bits); err == nil {
			c.tenant = network.String()
		}
	}
	return c
}

// A Message is what is known of a message at the end of its content.
type Message struct {
	Client     *Client
	Sender     mail.Address
	Recipients int
	Priority   int8         // RFC 6710
	Fields     []smtp.Field // found by Rules.Watch
}

// Classify returns the flow of a message. unknown is the class that a permitted client
// has named and that does not exist, "" if there is none: the message is classified by
// the rules then, since a misspelled class must not cost a message.
func (r *Rules) Classify(m *Message) (f mail.Flow, unknown string) {
	named := r.trusts(m.Client)
	f.Tenant = r.tenant(m, named)
	f.Class, unknown = r.class(m, f.Tenant, named)
	f.Flow = r.flow(m)
	return f, unknown
}

// Known is which parts of a flow are certain.
type Known struct{ Class, Tenant, Flow bool }

// Foresee returns the flow of a message as far as it is certain at MAIL, when neither the
// header nor the number of recipients is known.
func (r *Rules) Foresee(c *Client, sender mail.Address, priority int8) (f mail.Flow, known Known) {
	m := Message{Client: c, Sender: sender, Priority: priority}
	known.Flow = r.key.Kind != KeyHeader
	if known.Flow {
		f.Flow = r.flow(&m)
	}
	if r.trusts(c) { // its header may name class and tenant
		return f, known
	}
	known.Tenant = true
	f.Tenant = r.tenant(&m, false)
	f.Class, known.Class = r.classAtMail(&m, f.Tenant)
	return f, known
}

// classAtMail returns the class of a message if no class before it in the order of trial
// depends on what follows MAIL.
func (r *Rules) classAtMail(m *Message, tenant string) (class string, certain bool) {
	for i := range r.classes {
		for j := range r.classes[i].match {
			c := r.classes[i].match[j]
			later := c.headers != nil || c.recipients > 0
			c.headers, c.recipients = nil, 0
			switch {
			case !c.met(m, tenant):
			case later:
				return "", false
			default:
				return r.classes[i].name, true
			}
		}
	}
	return ClassNormal, true
}

// trusts reports whether a client may name class and tenant.
func (r *Rules) trusts(c *Client) bool {
	return !c.addr.IsValid() || contains(r.trusted, c.addr)
}

func (r *Rules) tenant(m *Message, named bool) string {
	if value := field(m.Fields, watchedTenant); named && len(value) > 0 {
		return clean(string(value), mail.TenantMax)
	}
	for i := range r.tenants {
		if t := &r.tenants[i]; t.match.met(m, "") {
			return t.name
		}
	}
	return m.Client.tenant
}

func (r *Rules) class(m *Message, tenant string, named bool) (class, unknown string) {
	if value := field(m.Fields, watchedClass); named && len(value) > 0 {
		for i := range r.classes {
			if r.classes[i].name == string(value) {
				return r.classes[i].name, ""
			}
		}
		unknown = clean(string(value), mail.ClassMax)
	}
	for i := range r.classes {
		for j := range r.classes[i].match {
			if r.classes[i].match[j].met(m, tenant) {
				return r.classes[i].name, unknown
			}
		}
	}
	return ClassNormal, unknown
}

func (r *Rules) flow(m *Message) string {
	switch r.key.Kind {
	case KeyDomain:
		return Domain(m.Sender)
	case KeyNone:
		return string(wild)
	case KeyHeader:
		if value := field(m.Fields, r.keyed); len(value) > 0 {
			return clean(string(value), mail.FlowMax)
		}
	}
	return senderOf(m.Sender, r.dash)
}

// field returns the first value of a field, nil if there is none.
func field(fields []smtp.Field, watched int) []byte {
	for i := range fields {
		if fields[i].Watched == watched {
			return fields[i].Value
		}
	}
	return nil
}

// met reports whether a message meets one condition of each kind.
func (c *match) met(m *Message, tenant string) bool {
	return m.Recipients >= c.recipients &&
		(c.above == 0 || m.Priority >= c.above) &&
		(c.below == 0 || m.Priority <= c.below) &&
		(c.clients == nil || contains(c.clients, m.Client.addr)) &&
		(c.users == nil || m.Client.user != "" && slices.Contains(c.users, m.Client.user)) &&
		(c.listeners == nil || c.listens(m.Client)) &&
		(c.tenants == nil || glob.Any(c.tenants, tenant)) &&
		(c.senders == nil || c.senders.Match(string(m.Sender))) &&
		(c.headers == nil || c.heads(m.Fields))
}

func (c *match) listens(m *Client) bool {
	for _, l := range c.listeners {
		switch {
		case l.Name != "":
			if l.Name == m.name {
				return true
			}
		case !l.Addr.IsValid():
			if !m.listener.IsValid() && m.name == "" {
				return true
			}
		case l.Addr == m.listener, l.Addr.Addr().IsUnspecified() && l.Addr.Port() == m.listener.Port():
			return true
		}
	}
	return false
}

func (c *match) heads(fields []smtp.Field) bool {
	for i := range fields {
		for _, h := range c.headers {
			if h.watched == fields[i].Watched && glob.Matches(h.value, fields[i].Value) {
				return true
			}
		}
	}
	return false
}

func contains(networks []netip.Prefix, addr netip.Addr) bool {
	for _, p := range networks {
		if p.Contains(addr) {
			return true
		}
	}
	return false
}
