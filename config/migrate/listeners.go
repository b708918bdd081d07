package migrate

import (
	"fmt"
	"net/netip"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/posthaste-mta/posthaste/config/maincf"
)

// A listener is a service of master.cf where clients connect.
type listener struct {
	service   *maincf.Service // with its options; behind postscreen the one that gets the connections
	front     string          // line of postscreen's service
	name      string
	addresses []string // with ports, as they are written here
	port      int
	purpose   string // "relay", "submission" or "submissions"
	tables    []*table
}

// incoming translates where clients connect, and which mail is accepted from them.
func (t *translation) incoming() {
	t.mynetworks()
	t.certificates()
	listeners := t.listeners()
	t.restrictions(listeners)
	t.listenerTables(listeners)
	t.etrn(listeners)
	t.milters(listeners)
	t.headerChecks(listeners)
	t.writeListeners(listeners)
}

// listeners returns the services where clients connect.
func (t *translation) listeners() []*listener {
	var all []*listener
	off := t.get("master_service_disable")
	disabled := func(s *maincf.Service) bool {
		for _, word := range off.words() {
			if word == s.Type || word == s.Name+"/"+s.Type || word == s.Name+"."+s.Type {
				return true
			}
		}
		return false
	}
	for i := range t.master {
		s := &t.master[i]
		if s.Type == "inet" && disabled(s) {
			t.notNeeded("The service is switched off", off.line())
			t.notNeeded("The service is switched off", serviceLine(s))
			continue
		}
		if s.Type != "inet" || s.Command != "smtpd" && s.Command != "postscreen" {
			if s.Command == "smtpd" && s.Type != "pass" {
				t.remark(Lost, "Clients connect to an address and a port, or to a unix socket: write a [[listener]] for it.", serviceLine(s))
			}
			continue
		}
		l := &listener{service: s}
		if !t.locate(l) {
			continue
		}
		if s.Command == "postscreen" {
			t.postscreen(l)
			s = l.service
		}
		wrapper := t.of(s, "smtpd_tls_wrappermode")
		switch {
		case wrapper.yes() || t.of(s, "smtpd_tls_wrappermode").text == "" && l.port == 465:
			l.purpose = "submissions"
		case l.port == 587 || t.onlyLogins(s):
			l.purpose = "submission"
		default:
			l.purpose = "relay"
		}
		name := t.master[i].Name
		l.name = listenerName(name, l.port)
		for n := 2; slices.ContainsFunc(all, func(other *listener) bool { return other.name == l.name }); n++ {
			l.name = fmt.Sprintf("%s-%d", listenerName(name, l.port), n)
		}
		all = append(all, l)
	}
	return all
}

// onlyLogins reports whether a service serves only clients that may send anywhere.
func (t *translation) onlyLogins(s *maincf.Service) bool {
	for _, name := range []string{"smtpd_client_restrictions", "smtpd_relay_restrictions", "smtpd_recipient_restrictions"} {
		if o := t.option(s, name); o.set {
			words := o.words()
			if n := len(words); n > 1 && words[n-1] == "reject" && slices.Contains(words, "permit_sasl_authenticated") {
				return true
			}
		}
	}
	return false
}

var listenerNames = regexp.MustCompile(`^[A-Za-z][A-Za-z0-9_-]{0,63}$`)

// listenerName returns the name of a listener: that of the service if it can be one.
func listenerName(service string, port int) string {
	switch {
	case service == "submission_socket": // the name of something else here
	case listenerNames.MatchString(service):
		return service
	case port == 25:
		return "smtp"
	}
	return fmt.Sprintf("port-%d", port)
}

// ports are the names of ports in master.cf.
var ports = map[string]int{"smtp": 25, "submission": 587, "smtps": 465, "submissions": 465, "ssmtp": 465, "urd": 465, "lmtp": 24}

// locate finds the addresses of a listener; it reports whether there are any.
func (t *translation) locate(l *listener) bool {
	s := l.service
	host, port := "", s.Name
	if i := strings.LastIndexByte(s.Name, ':'); i >= 0 {
		host, port = s.Name[:i], s.Name[i+1:]
	}
	l.port = ports[port]
	if n, err := strconv.ParseUint(port, 10, 16); err == nil && n > 0 {
		l.port = int(n)
	}
	if l.port == 0 {
		t.remark(Lost, fmt.Sprintf("The port %q is not known here; write a [[listener]] with its number.", port), serviceLine(s))
		return false
	}
	hosts := []string{host}
	if host == "" {
		hosts = t.interfaces()
	}
	for _, h := range hosts {
		switch a, err := netip.ParseAddr(strings.Trim(h, "[]")); {
		case err == nil:
			l.addresses = append(l.addresses, netip.AddrPortFrom(a, uint16(l.port)).String())
		case h == "all":
			l.addresses = append(l.addresses, fmt.Sprintf("%s:%d", t.everywhere(), l.port))
		case h == "loopback-only" || h == "localhost":
			l.addresses = append(l.addresses, t.loopback(l.port)...)
		case host != "":
			t.remark(Lost, fmt.Sprintf("%q is a name; write the address of the listener.", h), serviceLine(s))
		}
	}
	slices.Sort(l.addresses)
	l.addresses = slices.Compact(l.addresses)
	return len(l.addresses) > 0
}

// everywhere returns the address that stands for all of a family.
func (t *translation) everywhere() string {
	families := t.get("inet_protocols")
	switch words := families.words(); {
	case slices.Equal(words, []string{"ipv4"}):
		return "0.0.0.0"
	case slices.Equal(words, []string{"ipv6"}):
		return "[::]"
	}
	return ""
}

func (t *translation) loopback(port int) []string {
	families := t.get("inet_protocols")
	words := families.words()
	var all []string
	if !slices.Equal(words, []string{"ipv6"}) {
		all = append(all, fmt.Sprintf("127.0.0.1:%d", port))
	}
	if !slices.Equal(words, []string{"ipv4"}) {
		all = append(all, fmt.Sprintf("[::1]:%d", port))
	}
	return all
}

// interfaces returns the hosts of inet_interfaces; those that are names of this machine become
// nothing, with a remark.
func (t *translation) interfaces() []string {
	s := t.get("inet_interfaces")
	var hosts []string
	for _, word := range s.words() {
		_, err := netip.ParseAddr(strings.Trim(word, "[]"))
		switch {
		case err == nil || word == "all" || word == "loopback-only" || word == "localhost":
			hosts = append(hosts, word)
		default:
			t.todo(s, "%q is the name of an interface's address; add the address to the listeners.", word)
		}
	}
	if len(hosts) == 0 {
		hosts = []string{"loopback-only"}
	}
	return hosts
}

// listenerOptions are the options of a service that listeners know, with those of the names that only say
// what is so here in any case.
var listenerOptions = map[string]func(t *translation, l *listener, s setting, line string){
	"smtpd_tls_security_level": nil, "smtpd_tls_wrappermode": nil, "smtpd_use_tls": nil, "smtpd_enforce_tls": nil, // listenerTLS
	"smtpd_tls_protocols": nil, "smtpd_tls_mandatory_protocols": nil,
	"smtpd_sasl_auth_enable":    nil,                                                                                                                                         // logins
	"smtpd_client_restrictions": nil, "smtpd_helo_restrictions": nil, "smtpd_sender_restrictions": nil, "smtpd_relay_restrictions": nil, "smtpd_recipient_restrictions": nil, // restrictions
	"smtpd_data_restrictions": nil, "smtpd_end_of_data_restrictions": nil,
	"smtpd_etrn_restrictions": nil,                                                                // etrn
	"smtpd_milters":           nil, "milter_macro_daemon_name": nil, "milter_default_action": nil, // milters
	"cleanup_service_name":                nil, // headerChecks
	"message_size_limit":                  limitOption("message_size_limit", formNumber),
	"smtpd_recipient_limit":               limitOption("recipient_limit", formNumber),
	"smtpd_timeout":                       limitOption("timeout", formSeconds),
	"smtpd_client_connection_count_limit": limitOption("client_connection_count_limit", formNumber),
	"smtpd_forbid_unauth_pipelining":      limitOption("forbid_unauth_pipelining", formFlag),
	"smtpd_authorized_xclient_hosts":      networksOption("xclient_networks"),
	"smtpd_authorized_xforward_hosts":     networksOption("xforward_networks"),
	"receive_override_options":            (*translation).receiveOverride,
	"mynetworks":                          (*translation).ownNetworks,
	"mynetworks_style":                    (*translation).ownNetworks,
	"smtpd_upstream_proxy_protocol":       (*translation).proxyProtocol,
}

func limitOption(name string, f form) func(*translation, *listener, setting, string) {
	return func(t *translation, l *listener, s setting, line string) {
		value, err := f.value(s.text)
		if err != nil {
			t.remark(NotUnderstood, "The value cannot be used: "+err.Error()+".", line)
			return
		}
		l.set(name, value, line)
	}
}

func networksOption(name string) func(*translation, *listener, setting, string) {
	return func(t *translation, l *listener, s setting, line string) {
		if all := t.networks(s); len(all) > 0 {
			l.set(name, all, line)
			return
		}
		t.notNeeded("By default no client may speak for another one", line)
	}
}

// set sets a key in all tables of a listener.
func (l *listener) set(name string, value any, origins ...string) {
	for _, one := range l.tables {
		one.set(name, value, origins...)
	}
}

// receiveOverride translates what a service leaves out for mail that comes back from a filter.
func (t *translation) receiveOverride(l *listener, s setting, line string) {
	for _, word := range s.words() {
		switch word {
		case "no_address_mappings":
			l.set("rewrite_addresses", "none", line)
		case "no_unknown_recipient_checks", "no_header_body_checks", "no_milters":
			t.notNeeded("What a listener does not check is what is not configured for it", line)
		default:
			t.remark(Lost, fmt.Sprintf("%q is not known.", word), line)
		}
	}
}

// ownNetworks is for a service with networks of its own.
func (t *translation) ownNetworks(_ *listener, s setting, line string) {
	all := t.get("mynetworks")
	whole := t.networks(all)
	if s.Name == "mynetworks_style" {
		t.notNeeded("mynetworks is the same for all listeners", line)
		return
	}
	for _, n := range t.networks(s) {
		if !slices.Contains(whole, n) && n != "127.0.0.0/8" && n != "127.0.0.1" && n != "::1/128" {
			t.remark(Lost, "mynetworks is the same for all listeners here: add the networks to it, or give the clients a listener of purpose submission and logins.", line)
			return
		}
	}
	t.notNeeded("mynetworks has these networks", line)
}

func (t *translation) proxyProtocol(_ *listener, s setting, line string) {
	if s.text == "" {
		t.notNeeded("Clients connect themselves", line)
		return
	}
	t.remark(Todo, "Set proxy_networks of this listener to the addresses of the proxy: only its connections may begin with a header of the PROXY protocol.", line)
}

// listenerTables makes the tables of listeners.
func (t *translation) listenerTables(all []*listener) {
	interfaces := t.get("inet_interfaces")
	families := t.get("inet_protocols")
	where := []string{interfaces.line()}
	if families.set && t.everywhere() != "" {
		where = append(where, families.line())
	}
	for _, l := range all {
		for i, a := range l.addresses {
			one := &table{kind: "listener", listed: true}
			if one.origins = nonEmpty(l.front, serviceLine(l.service)); !strings.Contains(l.service.Name, ":") {
				one.origins = append(one.origins, nonEmpty(where...)...)
			}
			one.set("address", a)
			name := l.name
			if i > 0 {
				name = fmt.Sprintf("%s-%d", l.name, i+1)
			}
			one.set("name", name)
			if l.purpose != "relay" {
				one.set("purpose", l.purpose)
			}
			l.tables = append(l.tables, one)
		}
		t.listenerTLS(l)
		t.logins(l)
		for _, o := range l.service.Options {
			if last, _ := l.service.Option(o.Name); last != o {
				continue
			}
			do, known := listenerOptions[o.Name]
			line := optionLine(l.service, o)
			switch {
			case known && do != nil:
				do(t, l, t.option(l.service, o.Name), line)
			case known:
			default:
				t.otherOption(o, line, true)
			}
		}
	}
}

// writeListeners writes the listeners: in short if they have nothing but addresses.
func (t *translation) writeListeners(all []*listener) {
	if !slices.ContainsFunc(all, func(l *listener) bool { return len(l.tables) > 0 }) {
		t.doc.top.set("listen", []string{}).comment = "No service of master.cf accepts SMTP from the network; programs on this machine run sendmail."
		return
	}
	simple := !t.named && !slices.ContainsFunc(all, func(l *listener) bool {
		return slices.ContainsFunc(l.tables, func(one *table) bool { return len(one.settings) > 2 })
	})
	if simple {
		var addresses, origins []string
		for _, l := range all {
			for _, one := range l.tables {
				addresses = append(addresses, strings.Trim(one.get("address").value, `"`))
				origins = appendNew(origins, one.origins...)
			}
		}
		t.doc.top.set("listen", addresses, origins...)
		return
	}
	for _, l := range all {
		t.doc.tables = append(t.doc.tables, l.tables...)
	}
}

func nonEmpty(lines ...string) []string {
	return slices.DeleteFunc(lines, func(s string) bool { return s == "" })
}

// otherOption is for an option that is no parameter of listeners here: what the answer to the
// parameter is, that is said of it.
func (t *translation) otherOption(o maincf.Entry, line string, server bool) {
	a, known := answerTo(o.Name)
	text, err := maincf.Expand(o.Value, t.look)
	switch {
	case err != nil:
		t.remark(NotUnderstood, "The value cannot be read: "+err.Error()+".", line)
	case !known:
		t.notNeeded("Values of the administrator's own, which others refer to", line)
	case o.Name == "syslog_name":
		t.notNeeded("The log has the name of the listener or transport", line)
	case a.kind == unneeded:
		t.notNeeded(strings.TrimSuffix(a.text, "."), line)
	case a.kind == lost && a.harmless(text), text == "":
		t.notNeeded("These are switched off, or as they are here", line)
	case a.kind == lost:
		t.remark(Lost, a.text, line)
	case server && (strings.HasPrefix(o.Name, "smtp_") || strings.HasPrefix(o.Name, "lmtp_")):
		t.notNeeded("What is about sending mail has no effect on a service that accepts it", line)
	default:
		if global := t.get(o.Name); global.text == text {
			t.notNeeded("The parameter is the same for all", line)
			return
		}
		t.remark(Lost, "This parameter is the same for all listeners and transports here.", line)
	}
}
