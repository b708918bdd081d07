package migrate

import (
	"fmt"
	"slices"
	"strings"

	"github.com/posthaste-mta/posthaste/config/maincf"
)

// lineIn returns the line of a parameter of a service, which is one of master.cf if it is an
// option.
func lineIn(service *maincf.Service, s setting) string {
	if o, ok := service.Option(s.Name); ok && o == s.Entry {
		return optionLine(service, o)
	}
	return s.line()
}

// certificates translates the certificates of this server.
func (t *translation) certificates() {
	add := func(cert, key string, origins ...string) {
		if cert == "" || cert == "none" {
			return
		}
		one := t.doc.add("certificate", nonEmpty(origins...)...)
		one.set("cert", cert)
		one.set("key", key)
	}
	if chain := t.get("smtpd_tls_chain_files"); chain.set && chain.text != "" {
		t.chain(chain, chain.words(), add)
	} else {
		for _, names := range [][2]string{{"smtpd_tls_eccert_file", "smtpd_tls_eckey_file"}, {"smtpd_tls_cert_file", "smtpd_tls_key_file"}} {
			cert, key := t.get(names[0]), t.get(names[1])
			if key.text == "" || key.text == cert.Value {
				key.text = cert.text
			}
			add(cert.text, key.text, cert.line(), key.line())
		}
	}
	sni := t.get("tls_server_sni_maps")
	tables, err := maincf.ParseTables(sni.text)
	if err != nil {
		t.remark(NotUnderstood, "The value cannot be read: "+err.Error()+".", sni.line())
	}
	var files []string
	for _, one := range tables {
		if !one.IsText() && one.Type != maincf.TypeInline {
			t.lost(sni, "%s: %s. Write a [[certificate]] for each name.", one.String(), external(one))
			continue
		}
		for _, p := range t.keys(sni, one) {
			if !slices.Contains(files, p.Value) { // several names have one certificate
				files = append(files, p.Value)
				t.chain(sni, maincf.Words(p.Value), add)
			}
		}
	}
}

// chain translates files of which each has a key and its certificate, or first a key and then a
// certificate.
func (t *translation) chain(s setting, files []string, add func(cert, key string, origins ...string)) {
	switch len(files) {
	case 0:
	case 1:
		add(files[0], files[0], s.line())
	case 2:
		add(files[1], files[0], s.line())
		t.different(s, "%s is taken for a key and %s for its certificate; if each has both, write a [[certificate]] for each.", files[0], files[1])
	default:
		t.lost(s, "More than two files: write a [[certificate]] with cert and key for each certificate.")
	}
}

// certified reports whether there is a certificate for listeners.
func (t *translation) certified() bool {
	return slices.ContainsFunc(t.doc.tables, func(one *table) bool { return one.kind == "certificate" })
}

// listenerTLS translates how a listener uses TLS.
func (t *translation) listenerTLS(l *listener) {
	level := t.of(l.service, "smtpd_tls_security_level")
	line := lineIn(l.service, level)
	if level.text == "" {
		use, enforce := t.of(l.service, "smtpd_use_tls"), t.of(l.service, "smtpd_enforce_tls")
		switch {
		case enforce.yes():
			level.text, line = "encrypt", lineIn(l.service, enforce)
		case use.yes():
			level.text, line = "may", lineIn(l.service, use)
		}
	}
	for _, name := range []string{"smtpd_use_tls", "smtpd_enforce_tls"} {
		if s := t.of(l.service, name); s.set && lineIn(l.service, s) != line {
			t.otherwise("smtpd_tls_security_level counts instead of these", lineIn(l.service, s))
		}
	}
	if wrapper := t.of(l.service, "smtpd_tls_wrappermode"); wrapper.set {
		for _, one := range l.tables {
			one.origins = append(one.origins, lineIn(l.service, wrapper))
		}
	}
	certified := t.certified()
	switch {
	case l.purpose == "submissions" && !certified:
		t.remark(Todo, "A listener with TLS from the first byte needs a certificate, and there is none: add a [[certificate]] and this listener.", serviceLine(l.service))
		l.tables = nil
		return
	case l.purpose == "submissions":
		for _, one := range l.tables {
			one.origins = append(one.origins, nonEmpty(line)...)
		}
	case l.purpose == "submission" && !certified:
		l.set("tls", "none", line)
		t.remark(Todo, "There is no certificate, so passwords and mail of this listener are not encrypted: add a [[certificate]] and remove tls = \"none\".", serviceLine(l.service))
	case level.text == "encrypt" && certified:
		if l.purpose == "relay" {
			l.set("tls", "require", line)
		} else {
			for _, one := range l.tables {
				one.origins = append(one.origins, nonEmpty(line)...)
			}
		}
	case level.text == "may" && certified:
		if l.purpose == "submission" {
			l.set("tls", "may", line)
		} else {
			for _, one := range l.tables {
				one.origins = append(one.origins, nonEmpty(line)...)
			}
		}
	case certified:
		l.set("tls", "none", line)
	case level.text != "" && level.text != "none":
		t.remark(Todo, "There is no certificate, so this listener has no TLS: add a [[certificate]], or acme_names.", line)
	}
	name := "smtpd_tls_protocols"
	if level.text == "encrypt" || l.purpose == "submissions" {
		name = "smtpd_tls_mandatory_protocols"
	}
	protocols := t.of(l.service, name)
	if !protocols.set || !certified {
		return
	}
	switch lowest := lowestTLS(protocols.text); lowest {
	case "":
		t.remark(NotUnderstood, "The versions of TLS cannot be read; the lowest that clients may use here is 1.2 (tls_min).", lineIn(l.service, protocols))
	case "1.2":
		t.notNeeded("Versions of TLS below 1.2 are not spoken by default", lineIn(l.service, protocols))
	case "1.3":
		l.set("tls_min", lowest, lineIn(l.service, protocols))
	default:
		t.remark(Different, fmt.Sprintf("Clients need TLS 1.2. Set tls_min = %q for the listener if there are older ones.", lowest), lineIn(l.service, protocols))
	}
}

// lowestTLS returns the lowest version that a list of protocols such as "!SSLv2, !SSLv3, !TLSv1" or
// ">=TLSv1.2" allows; "" if that cannot be read. There is none below 1.0 here.
func lowestTLS(list string) string {
	versions := []string{"1.0", "1.1", "1.2", "1.3"}
	number := func(word string) int {
		word = strings.TrimPrefix(strings.ToLower(word), "tlsv")
		if word == "1" {
			word = "1.0"
		}
		return slices.Index(versions, word)
	}
	allowed, excludes := make([]bool, len(versions)), true
	words := strings.FieldsFunc(list, func(r rune) bool { return strings.ContainsRune(" \t,:", r) })
	for _, w := range words {
		excludes = excludes && (w[0] == '!' || w[0] == '>' || w[0] == '<')
	}
	for i := range allowed {
		allowed[i] = excludes
	}
	for _, w := range words {
		name := strings.TrimLeft(w, "!<>=")
		ssl := strings.HasPrefix(strings.ToLower(name), "sslv")
		n := number(name)
		switch {
		case n < 0 && !ssl:
			return ""
		case strings.HasPrefix(w, ">="):
			for i := range max(n, 0) {
				allowed[i] = false
			}
		case strings.HasPrefix(w, "<="): // the highest does not matter
		case ssl:
		case w[0] == '!':
			allowed[n] = false
		default:
			allowed[n] = true
		}
	}
	for i, yes := range allowed {
		if yes {
			return versions[i]
		}
	}
	return ""
}

// logins says what has to be done for clients that log in.
func (t *translation) logins(l *listener) {
	s := t.of(l.service, "smtpd_sasl_auth_enable")
	if !s.set {
		return
	}
	line := lineIn(l.service, s)
	if !s.yes() {
		t.notNeeded("Clients do not log in unless there is a file of users", line)
		return
	}
	text := "Passwords of Dovecot or Cyrus are not asked for: add the users with \"posthaste user add\" and set users = \"/etc/posthaste/users\" (docs/authentication.md). Until then only mynetworks may send to other domains."
	t.remark(Todo, text, line)
	if l.purpose == "relay" {
		t.remark(Todo, "Set auth = \"optional\" for the listeners of purpose relay on which clients are to log in, once there is a file of users; better have them use port 587.", line)
	}
}

// postscreen takes the service that postscreen(8) hands connections to, and says what of it there is.
func (t *translation) postscreen(l *listener) {
	l.front = serviceLine(l.service)
	t.remark(Lost, "There is no postscreen. Clients that speak before the greeting are refused with smtpd_greet_pause = \"6s\" and smtpd_forbid_unauth_pipelining = true; lists of addresses in the DNS belong to a filter (a milter such as rspamd) or to a host in front.", l.front)
	for i := range t.master {
		if s := &t.master[i]; s.Type == "pass" && s.Command == "smtpd" {
			l.service = s
		}
	}
}
