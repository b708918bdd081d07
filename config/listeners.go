package config

import (
	"fmt"
	"net/netip"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/posthaste-mta/posthaste/flow"
	"github.com/posthaste-mta/posthaste/inbound"
	"github.com/posthaste-mta/posthaste/internal/tomlfile"
	"github.com/posthaste-mta/posthaste/qmgr/shape"
)

// A Listener is a table [[listener]], or an address in listen, which is one without any
// other parameter.
type Listener struct {
	Name    string // as written, or the address
	Address ListenAddress
	Purpose inbound.Purpose
	Group   string // of a unix socket
	TLS     ListenerTLS
	Auth    ListenerAuth
	Limits  ListenerLimits

	Forwarders inbound.Forwarders
	// VERPClients are the clients that may use XVERP.
	VERPClients shape.Opt[[]netip.Prefix]
	ETRN        shape.Opt[inbound.ETRNUse] // unset: by purpose
	Submission  ListenerSubmission
}

// ListenerLimits replace limits on clients and messages.
type ListenerLimits struct {
	Connections       shape.Opt[int]
	ClientConnections shape.Opt[int]   // 0: none
	Recipients        shape.Opt[int]   // 0: none
	MessageSize       shape.Opt[int64] // 0: none
	Timeout           shape.Opt[time.Duration]
	GreetPause        shape.Opt[time.Duration] // 0: none
	ForbidEarly       shape.Opt[bool]
}

// A ListenAddress is the address of a listener: an IP address and a port, or the path of a unix
// socket.
type ListenAddress struct {
	TCP  netip.AddrPort
	Unix string // a path; "" for TCP
}

// unixPrefix precedes the path of a unix socket.
const unixPrefix = "unix:"

// String returns the address as in the file.
func (a ListenAddress) String() string {
	switch {
	case a.Unix != "":
		return unixPrefix + a.Unix
	case a.TCP.IsValid():
		return a.TCP.String()
	}
	return ""
}

// listenerParameters is the table of the parameters of [[listener]].
var listenerParameters = allListenerParameters()

func allListenerParameters() []parameter[Listener] {
	return slices.Concat([]parameter[Listener]{
		define("address", listenAddress(), func(l *Listener) *ListenAddress { return &l.Address }, ListenAddress{},
			"The address and port, or the unix socket, on which clients are served.",
			"Set it for every listener."),
		define("name", text("name", `such as "submission"`, checkListenerName), func(l *Listener) *string { return &l.Name }, "",
			"The name of the listener in the log, and in the parameter listener of a class; the default is its address.",
			"Set it if classes or people refer to the listener."),
		define("purpose", words(word[inbound.Purpose]{"relay", inbound.PurposeRelay}, word[inbound.Purpose]{"submission", inbound.PurposeSubmission}, word[inbound.Purpose]{"submissions", inbound.PurposeSubmissions}),
			func(l *Listener) *inbound.Purpose { return &l.Purpose }, inbound.PurposeRelay,
			"The kind of clients: relay is for other servers, which may send to relay_domains, and for mynetworks; submission is for mail programs, and serves only clients that may send anywhere (RFC 6409); submissions is the same with TLS from the first byte (RFC 8314).",
			"Set it to submission for port 587, and to submissions for port 465."),
		define("group", optional(text("group", "a name or a number", checkGroup), "for none"), func(l *Listener) *string { return &l.Group }, "",
			"The group, by name or number, whose members may use a unix socket in addition to the owner of the queue.",
			"Set it to the group of the programs that use the socket."),
	}, tlsParameters(), authParameters(), submissionParameters(), forwarderParameters(), listenerLimits())
}

func forwarderParameters() []parameter[Listener] {
	return []parameter[Listener]{
		define("proxy_networks", list(network(), "networks"), func(l *Listener) *[]netip.Prefix { return &l.Forwarders.Proxy }, nil,
			"The proxies whose connections must begin with a header of the PROXY protocol, version 1 or 2; the header names the client, and connections from other addresses have none.",
			"Set it to the addresses of a load balancer in front of the listener that sends this header, and to nothing else, since it is trusted."),
		define("xclient_networks", list(network(), "networks"), func(l *Listener) *[]netip.Prefix { return &l.Forwarders.XClient }, nil,
			"The clients that may use XCLIENT to name the client on whose behalf they connect.",
			"Set it to the addresses of an SMTP proxy that sends XCLIENT, and to nothing else, since it is trusted."),
		define("xforward_networks", list(network(), "networks"), func(l *Listener) *[]netip.Prefix { return &l.Forwarders.XForward }, nil,
			"The clients that may use XFORWARD to name the original client of a message, for the log only.",
			"Set it to the addresses of content filters that give mail back through this listener."),
		authorizedVERP(),
		etrnParameter(),
	}
}

func listenerLimits() []parameter[Listener] {
	wait := period(time.Second, limit[time.Duration]{min: time.Second, max: 24 * time.Hour})
	return []parameter[Listener]{
		listenerLimit("connection_limit", "smtpd_connection_limit", integer(limit[int]{min: 1, max: 1_000_000}), func(l *ListenerLimits) *shape.Opt[int] { return &l.Connections }),
		listenerLimit("client_connection_count_limit", "smtpd_client_connection_count_limit", counting("no limit"), func(l *ListenerLimits) *shape.Opt[int] { return &l.ClientConnections }),
		listenerLimit("message_size_limit", "message_size_limit", size(limit[int64]{min: 64 << 10, zero: "no limit"}), func(l *ListenerLimits) *shape.Opt[int64] { return &l.MessageSize }),
		listenerLimit("recipient_limit", "smtpd_recipient_limit", integer(limit[int]{min: 100, max: 1_000_000, zero: "no limit"}), func(l *ListenerLimits) *shape.Opt[int] { return &l.Recipients }),
		listenerLimit("timeout", "smtpd_timeout", wait, func(l *ListenerLimits) *shape.Opt[time.Duration] { return &l.Timeout }),
		listenerLimit("greet_pause", "smtpd_greet_pause", period(time.Second, limit[time.Duration]{max: time.Minute, zero: "none"}), func(l *ListenerLimits) *shape.Opt[time.Duration] { return &l.GreetPause }),
		listenerLimit("forbid_unauth_pipelining", "smtpd_forbid_unauth_pipelining", flag(), func(l *ListenerLimits) *shape.Opt[bool] { return &l.ForbidEarly }),
	}
}

// listenerLimit defines the limit that replaces a top-level one on a listener.
func listenerLimit[T any](name, global string, k kind[T], field func(*ListenerLimits) *shape.Opt[T]) parameter[Listener] {
	var as parameter[Config]
	for _, all := range [][]parameter[Config]{inboundParameters(), connectionParameters(), messageParameters()} {
		if i := slices.IndexFunc(all, func(p parameter[Config]) bool { return p.name == global }); i >= 0 {
			as = all[i]
		}
	}
	return define(name, opt(k), func(l *Listener) *shape.Opt[T] { return field(&l.Limits) }, shape.Opt[T]{}, as.meaning, as.change).from(global)
}

// StandardListener returns a listener without parameters.
func StandardListener() Listener {
	return Listener{TLS: ListenerTLS{Min: 0x0303}, Auth: ListenerAuth{Mechanisms: standardMechanisms()}}
}

// listenerDefault describes the value that applies if a listener does not set a parameter.
func listenerDefault(p parameter[Listener]) string {
	standard := StandardListener()
	switch value := p.plain(&standard); {
	case p.global != "":
		return p.global
	case value == nil:
		return "by purpose"
	default:
		return literal(value)
	}
}

func listenerName(l *Listener) string { return l.Name }

func checkListenerName(s string) (string, string) {
	switch {
	case s == socketName:
		return tomlfile.QuoteText(s) + " is the name of the socket for local programs", ""
	case !tableName.MatchString(s):
		return tomlfile.QuoteText(s) + " is not a name of 1 to 64 letters, digits, - and _", ""
	}
	return "", ""
}

// AllListeners returns the listeners of listen and of [[listener]], in this order.
func (c *Config) AllListeners() []Listener {
	var all []Listener
	for _, a := range c.Listen {
		one := StandardListener()
		one.Name, one.Address = a.String(), ListenAddress{TCP: a}
		all = append(all, one)
	}
	return append(all, c.Listeners...)
}

// Terms returns the listener for package inbound, without its socket.
func (c *Config) Terms(l *Listener) inbound.Listener {
	t := inbound.Listener{Name: l.Name, Purpose: l.Purpose, Use: c.UseOfTLS(l), Auth: c.UseOfAuth(l), Forwarders: l.Forwarders, Domain: l.Submission.CompleteDomain, Priority: l.Submission.Priority.Set, PriorityMax: int8(l.Submission.Priority.Or(0)), FutureRelease: l.futureRelease(), DeliverBy: l.deliverBy(), DeliverByMin: l.Submission.DeliverByMin.Truncate(time.Second), VERP: c.verpTerms(l), ETRN: c.etrn(l), RequireTLS: c.SMTPD.RequireTLS, TLSOptional: c.SMTPD.TLSOptional, Limits: inbound.Limits{
		Connections:       l.Limits.Connections.Or(0),
		ClientConnections: optNone(l.Limits.ClientConnections),
		Recipients:        optNone(l.Limits.Recipients),
		Size:              optNone(l.Limits.MessageSize),
		CommandTimeout:    l.Limits.Timeout.Or(0),
		GreetPause:        optNone(l.Limits.GreetPause),
	}}
	if t.Auth != inbound.AuthOff {
		t.Mechanisms = l.mechanisms()
	}
	// Mail programs that people use do not always wait for replies.
	standard := c.SMTPD.ForbidEarly && l.Purpose == inbound.PurposeRelay && l.Address.Unix == ""
	if l.Limits.ForbidEarly.Or(standard) {
		t.EarlyTalkers = inbound.EarlyReject
	}
	return t
}

// optNone returns the packages' value for one that may be unset, and whose 0 means none.
func optNone[N int | int64 | time.Duration](o shape.Opt[N]) N {
	if !o.Set {
		return 0
	}
	return orNone(o.Value)
}

// listeners creates the listeners that the file defines.
func (l *loader) listeners(all *tomlfile.Entry) {
	if all != nil && !l.c.explicit["listen"] {
		l.c.Listen = []netip.AddrPort{} // its default is for a file without listeners
	}
	loadList(l, tableListener, all, listenerParameters, StandardListener, nameOfListener, func(t *tomlfile.Table, name string, one Listener, whole bool) {
		one.Name = name
		l.c.Listeners = append(l.c.Listeners, one)
		if whole {
			l.checkListener(t, &one)
		}
	})
}

// loadList creates the tables [[of]] in the order of the file. named returns a table's name,
// "" for its number. add gets each with whole false if
// something in it could not be read.
func loadList[O any](l *loader, of string, all *tomlfile.Entry, parameters []parameter[O], standard func() O, named func(*tomlfile.Table) string, add func(t *tomlfile.Table, name string, o O, whole bool)) {
	if all == nil {
		return
	}
	if all.Value.Kind != tomlfile.KindList || slices.ContainsFunc(all.Value.Items, func(n *tomlfile.Node) bool { return n.Kind != tomlfile.KindTable }) {
		p := tomlfile.Problem{Key: of, Message: "this is a list of tables", Hint: "write double brackets: [[" + of + "]]"}
		if all.Value.Kind != tomlfile.KindTable {
			p.Hint = "write [[" + of + "]] and its parameters below it"
		}
		l.src.Complain(all.At, p)
		return
	}
	lines := make(map[string]int) // by name
	for i, item := range all.Value.Items {
		t := item.Table
		name := named(t)
		if name == "" {
			name = strconv.Itoa(i + 1)
		}
		table := fullName(of, name)
		if first, found := lines[name]; found {
			l.src.Complain(t.At, tomlfile.Problem{Key: table, Message: fmt.Sprintf("there is another %s of this name in line %d", of, first), Hint: "give them different names, or remove one"})
			continue
		}
		lines[name] = l.src.Line(t.At)
		o, whole := standard(), !l.broken
		for _, one := range t.Entries {
			key := fullName(table, one.Name)
			i := slices.IndexFunc(parameters, func(p parameter[O]) bool { return p.name == one.Name })
			if i < 0 {
				l.unknown(key, of, one)
				whole = false
				continue
			}
			apply(l, parameters[i], &o, key, one)
			whole = whole && !l.failed[key]
		}
		l.note(table, t.At)
		add(t, name, o, whole)
	}
}

// nameOfListener returns the name of a listener: that in the file, or its address.
func nameOfListener(t *tomlfile.Table) string {
	if name := textOf(t, "name"); name != "" {
		return name
	}
	if e := t.Get("address"); e != nil {
		if a, f := listenAddress().read(e.Value); f == nil {
			return a.String()
		}
	}
	return textOf(t, "address")
}

// textOf returns a text of a table, or "".
func textOf(t *tomlfile.Table, parameter string) string {
	if e := t.Get(parameter); e != nil && e.Value.Kind == tomlfile.KindText {
		return e.Value.Text
	}
	return ""
}

// checkListener complains about a listener that does not fit the others, or itself.
func (l *loader) checkListener(t *tomlfile.Table, one *Listener) {
	about := l.complainer(tableListener, one.Name, t)
	switch {
	case one.Address == (ListenAddress{}):
		about("address", "this listener has no address", `add such as address = ":587" or address = "unix:/run/posthaste/smtp.sock"`)
		return
	case one.Address.Unix == "" && one.Group != "":
		about("group", "only a unix socket has a group", "remove it")
	}
	all := l.c.AllListeners()
	for _, other := range all[:len(all)-1] {
		if other.Address == one.Address && (one.Address.Unix != "" || one.Address.TCP.Port() != 0) {
			about("address", fmt.Sprintf("%s is the address of another listener", one.Address), "remove one of them")
			return
		}
	}
	l.checkTLS(one, about)
	l.checkAuth(one, about)
	l.checkForwarders(one, about)
	l.checkSubmission(one, about)
	l.checkETRN(one, about)
	for _, socket := range []struct{ key, path string }{{"admin_socket", l.c.AdminSocketPath()}, {"submission_socket", l.c.SubmissionSocketPath()}} {
		if one.Address.Unix != "" && filepath.Clean(one.Address.Unix) == filepath.Clean(socket.path) {
			about("address", "this is the path of "+socket.key, "choose another path")
		}
	}
}

// checkForwarders complains about proxies where there can be none.
func (l *loader) checkForwarders(one *Listener, about func(parameter, message, hint string)) {
	f := &one.Forwarders
	for _, list := range []struct {
		name     string
		networks []netip.Prefix
	}{{"proxy_networks", f.Proxy}, {"xclient_networks", f.XClient}, {"xforward_networks", f.XForward}} {
		switch {
		case len(list.networks) > 0 && one.Address.Unix != "":
			about(list.name, "clients of a unix socket have no address", "remove it, or set an address and a port")
		case slices.ContainsFunc(list.networks, func(p netip.Prefix) bool { return p.Bits() == 0 }):
			about(list.name, "this is every client, who could then claim to be any other", "name the addresses of the proxies")
		}
	}
}

// complainer returns a function that complains about a parameter of a table, or about the
// table if the file does not set the parameter.
func (l *loader) complainer(of, name string, t *tomlfile.Table) func(parameter, message, hint string) {
	return func(parameter, message, hint string) {
		key := fullName(fullName(of, name), parameter)
		at, ok := l.places[key]
		if !ok {
			at = t.At
		}
		l.src.Complain(at, tomlfile.Problem{Key: key, Message: message, Hint: hint})
	}
}

// checkClassListeners complains about classes of listeners that do not exist.
func (l *loader) checkClassListeners() {
	if l.broken {
		return
	}
	var names []string
	for _, one := range l.c.AllListeners() {
		names = append(names, one.Name)
	}
	for i := range l.c.Classes {
		c := &l.c.Classes[i]
		key := fullName(fullName(tableClass, c.Name), "listener")
		for _, at := range c.Match.Listeners {
			if at.Name == "" || slices.Contains(names, at.Name) {
				continue
			}
			hint := didYouMean(at.Name, names)
			if hint == "" {
				hint = "set name = " + tomlfile.QuoteText(at.Name) + " under a [[listener]], or write its address and port"
			}
			l.src.Complain(l.places[key], tomlfile.Problem{Key: key, Message: fmt.Sprintf("there is no listener %q", at.Name), Hint: hint})
		}
	}
}

// listenAddress is an address and a port, or a unix socket.
func listenAddress() kind[ListenAddress] {
	tcp := listener()
	return kind[ListenAddress]{
		name:  "address",
		form:  `such as "192.0.2.1:25", "[::1]:587", ":465" for all addresses, or "unix:/run/posthaste/smtp.sock"`,
		plain: func(a ListenAddress) any { return a.String() },
		read: func(n *tomlfile.Node) (ListenAddress, *flaw) {
			path, unix := strings.CutPrefix(n.Text, unixPrefix)
			if n.Kind != tomlfile.KindText || !unix {
				a, f := tcp.read(n)
				return ListenAddress{TCP: a}, f
			}
			if _, f := readText(n, "an address"); f != nil {
				return ListenAddress{}, f
			}
			if !filepath.IsAbs(path) {
				return ListenAddress{}, &flaw{message: tomlfile.QuoteText(n.Text) + " is not the absolute path of a socket", hint: `write such as "unix:/run/posthaste/smtp.sock"`}
			}
			if message, hint := checkSocket(path); message != "" {
				return ListenAddress{}, &flaw{message: message, hint: hint}
			}
			return ListenAddress{Unix: path}, nil
		},
	}
}

// socketName is the listener of classes for mail of the submission socket.
const socketName = "submission_socket"

// flowListener is a local address, the name of a listener, or the submission socket, which
// is the zero value.
func flowListener() kind[flow.Listener] {
	k := listener()
	return kind[flow.Listener]{
		name: k.name,
		form: `such as "192.0.2.1:587", ":587" for all addresses, the name of a [[listener]], or "` + socketName + `"`,
		read: func(n *tomlfile.Node) (flow.Listener, *flaw) {
			switch {
			case n.Kind == tomlfile.KindText && n.Text == socketName:
				return flow.Listener{}, nil
			case n.Kind == tomlfile.KindText && tableName.MatchString(n.Text) && countDigits(n.Text) < len(n.Text),
				n.Kind == tomlfile.KindText && strings.HasPrefix(n.Text, unixPrefix):
				return flow.Listener{Name: n.Text}, nil
			}
			a, f := k.read(n)
			return flow.Listener{Addr: a}, f
		},
		plain: func(l flow.Listener) any {
			switch {
			case l.Name != "":
				return l.Name
			case !l.Addr.IsValid():
				return socketName
			}
			return l.Addr.String()
		},
	}
}

// listenerTables shows the listeners in their order.
func (s *shower) listenerTables() []shownTable {
	return showList(s, tableListener, s.c.Listeners, listenerName, StandardListener, listenerParameters)
}

// showList shows the tables [[of]]. Parameters without a value are left out.
func showList[O any](s *shower, of string, all []O, name func(*O) string, standard func() O, parameters []parameter[O]) []shownTable {
	var shown []shownTable
	for i := range all {
		t := shownTable{path: []string{of}, listed: true}
		usual := standard()
		for _, p := range parameters {
			key := fullName(fullName(of, name(&all[i])), p.name)
			if p.plain(&all[i]) == nil || p.name == "name" && !s.c.explicit[key] {
				continue
			}
			if line, ok := showLine(s, p, &all[i], &usual, key, "default"); ok {
				t.lines = append(t.lines, line)
			}
		}
		shown = append(shown, t)
	}
	return shown
}

// diffListed compares the tables [[of]].
func diffListed[O any](of string, before, after []O, name func(*O) string, parameters []parameter[O]) []Change {
	old, _ := byName(before, name)
	now, _ := byName(after, name)
	return diffTables(of, old, now, parameters)
}
