package migrate

import (
	"slices"
	"strings"

	"github.com/posthaste-mta/posthaste/config/maincf"
)

// carriedParameters are those that need more than another name.
func carriedParameters() map[string]func(*translation, setting) {
	all := map[string]func(*translation, setting){
		"myorigin": (*translation).origin,
		"mydomain": func(t *translation, s setting) {
			t.notNeeded("Values that refer to these have been written out", s.line())
		},
		"inet_protocols":                       (*translation).families,
		"proxy_interfaces":                     (*translation).proxyInterfaces,
		"smtpd_banner":                         (*translation).banner,
		"recipient_delimiter":                  (*translation).delimiter,
		"masquerade_domains":                   func(t *translation, s setting) { t.doc.top.set(s.Name, s.words(), s.line()) },
		"always_bcc":                           func(t *translation, s setting) { t.addressOf(s.Name, s) },
		"smtp_generic_maps":                    (*translation).generic,
		"alias_maps":                           (*translation).aliases,
		"virtual_maps":                         func(t *translation, s setting) { t.maps("virtual_alias_maps", s) },
		"smtpd_client_event_limit_exceptions":  func(t *translation, s setting) { t.networkList(s.Name, s) },
		"smtpd_forbid_bare_newline_exclusions": func(t *translation, s setting) { t.networkList("smtpd_normalize_networks", s) },
		"smtpd_authorized_xforward_hosts":      func(t *translation, s setting) { t.forwarders("xforward_networks", s) },
		"smtpd_authorized_xclient_hosts":       func(t *translation, s setting) { t.forwarders("xclient_networks", s) },
		"relay_clientcerts":                    (*translation).clientCertificates,
		"smtpd_sender_login_maps":              (*translation).senderLogins,
		"queue_minfree":                        (*translation).minFree,
		"header_size_limit":                    (*translation).headerSize,
		"notify_classes":                       (*translation).notifyClasses,
		"2bounce_notice_recipient": func(t *translation, s setting) {
			if classes := t.get("notify_classes"); slices.Contains(classes.words(), "2bounce") {
				t.addressOf(s.Name, s)
				return
			}
			t.notNeeded("Postfix reports these only where notify_classes has 2bounce", s.line())
		},
		"address_verify_sender":         (*translation).verifySender,
		"default_verp_delimiters":       (*translation).verp,
		"verp_delimiter_filter":         (*translation).verp,
		"disable_verp_bounces":          func(t *translation, s setting) { t.doc.top.set(s.Name, s.yes(), s.line()) },
		"smtpd_authorized_verp_clients": func(t *translation, s setting) { t.networkList(s.Name, s) },
		"authorized_verp_clients":       func(t *translation, s setting) { t.networkList("smtpd_authorized_verp_clients", s) },
		"smtpd_discard_ehlo_keywords":   func(t *translation, s setting) { t.discarded(s) },
		"fallback_relay":                func(t *translation, s setting) { t.doc.top.set("smtp_fallback_relay", s.text, s.line()) },
	}
	for _, name := range []string{"canonical_maps", "sender_canonical_maps", "recipient_canonical_maps", "virtual_alias_maps", "sender_bcc_maps", "recipient_bcc_maps"} {
		all[name] = func(t *translation, s setting) { t.maps(s.Name, s) }
	}
	for _, name := range []string{"canonical_classes", "masquerade_classes"} {
		all[name] = func(t *translation, s setting) { t.doc.top.set(s.Name, s.words(), s.line()) }
	}
	return all
}

// tables returns the maps that a value names. ok is false if it cannot be read, which is remarked then.
func (t *translation) tables(s setting) (all []maincf.Table, ok bool) {
	all, err := maincf.ParseTables(s.text)
	if err != nil {
		t.remark(NotUnderstood, "The value cannot be read: "+err.Error()+".", s.line())
	}
	return all, err == nil
}

// maps names the files of maps that rewrite addresses.
func (t *translation) maps(name string, s setting) {
	if s.text == "" {
		t.notNeeded("There are no such maps", s.line())
		return
	}
	if files := t.mapFiles(s); len(files) > 0 {
		t.addFiles(name, files, s.line())
	}
}

// addFiles adds files to a list of maps.
func (t *translation) addFiles(name string, files []string, origins ...string) {
	t.files[name] = append(t.files[name], files...)
	t.doc.top.set(name, t.files[name], origins...)
}

// generic translates smtp_generic_maps: mail is rewritten when it arrives, since all of it leaves again.
func (t *translation) generic(s setting) {
	if s.text == "" {
		t.notNeeded("There are no such maps", s.line())
		return
	}
	if files := t.mapFiles(s); len(files) > 0 {
		t.addFiles("canonical_maps", files, s.line())
		t.different(s, "Addresses are rewritten when mail arrives, not when it is sent (canonical_maps). Headers are rewritten for listeners of purpose submission and for local programs; rewrite_addresses of a [[listener]] changes that.")
	}
}

// families translates inet_protocols.
func (t *translation) families(s setting) {
	switch words := s.words(); {
	case slices.Equal(words, []string{"ipv4"}), slices.Equal(words, []string{"ipv6"}):
		t.doc.top.set("inet_protocols", words[0], s.line())
	default:
		t.notNeeded("The values are the defaults here", s.line())
	}
}

func (t *translation) proxyInterfaces(s setting) {
	addresses := []string{}
	for _, word := range s.words() {
		if p, ok := maincf.ParseNetwork(word); ok && p.IsSingleIP() {
			addresses = append(addresses, p.Addr().String())
		} else {
			t.lost(s, "%q is not an address in numbers.", word)
		}
	}
	if len(addresses) > 0 {
		t.doc.top.set("proxy_interfaces", addresses, s.line())
	} else if s.text == "" {
		t.notNeeded("No proxy is in front", s.line())
	}
}

// banner translates the greeting, which begins with the name of the host here in any case.
func (t *translation) banner(s setting) {
	if strings.Contains(s.Value, "mail_name") {
		t.notNeeded("The greeting has the name of this program by default", s.line())
		return
	}
	host := t.get("myhostname")
	text := strings.TrimSpace(strings.TrimPrefix(s.text, host.text))
	if text == "" {
		text = "ESMTP"
	}
	t.doc.top.set("smtpd_banner", text, s.line())
}

func (t *translation) delimiter(s setting) {
	switch len(s.text) {
	case 0:
		t.notNeeded("Users have no extensions", s.line())
		return
	case 1:
	default:
		t.different(s, "There is one delimiter; the first of these is taken.")
	}
	t.doc.top.set("recipient_delimiter", s.text[:1], s.line())
}

// addressOf sets a parameter to an address, which needs a domain here.
func (t *translation) addressOf(name string, s setting) {
	address := s.text
	if address == "" {
		t.notNeeded("There is no such address", s.line())
		return
	}
	if !strings.Contains(address, "@") {
		origin := t.get("myorigin")
		if strings.HasPrefix(origin.text, "/") {
			origin = t.get("myhostname")
		}
		address += "@" + origin.text
	}
	t.doc.top.set(name, address, s.line())
}

func (t *translation) networkList(name string, s setting) {
	if all := t.networks(s); len(all) > 0 {
		t.doc.top.set(name, all, s.line())
		return
	}
	t.notNeeded("There are no such networks", s.line())
}

// forwarders translates who may say for whom it connects, which is set for each listener here.
func (t *translation) forwarders(name string, s setting) {
	all := t.networks(s)
	if len(all) == 0 {
		t.notNeeded("By default no client may speak for another one", s.line())
		return
	}
	t.todo(s, "Set %s = %s for the [[listener]] to which these clients connect.", name, literal(all))
}

// clientCertificates translates relay_clientcerts: a map whose keys are fingerprints is a file with a
// fingerprint in each line.
func (t *translation) clientCertificates(s setting) {
	tables, ok := t.tables(s)
	if !ok {
		return
	}
	var all []string
	for _, one := range tables {
		if !one.IsText() && one.Type != maincf.TypeInline {
			t.lost(s, "%s: %s.", one.String(), external(one))
			continue
		}
		good := true
		var prints []string
		for _, p := range t.keys(s, one) {
			if prints = append(prints, p.Key); !digest.MatchString(p.Key) {
				good = false
			}
		}
		switch {
		case !good:
			t.lost(s, "%s has fingerprints that are not SHA-256 digests of 64 hexadecimal digits: openssl x509 -in client.pem -noout -fingerprint -sha256 prints the new one.", one.String())
		case one.IsText():
			all = append(all, one.Name)
		default:
			all = append(all, prints...)
		}
	}
	if len(all) > 0 {
		t.doc.top.set("relay_clientcerts", all, s.line())
	} else if s.text == "" {
		t.notNeeded("No client is known by its certificate", s.line())
	}
}

// senderLogins translates smtpd_sender_login_maps: senders with the users who may write as them.
func (t *translation) senderLogins(s setting) {
	tables, ok := t.tables(s)
	if !ok {
		return
	}
	var all []string
	for _, one := range tables {
		if !one.IsText() && one.Type != maincf.TypeInline {
			t.lost(s, "%s: %s. Write each sender with its users into smtpd_sender_login_maps, such as \"info@example.com alice bob\"; \"*@example.com {sender}\" has all write as themselves.", one.String(), external(one))
			continue
		}
		for _, p := range t.keys(s, one) {
			all = append(all, strings.TrimPrefix(p.Key, "@")+" "+strings.Join(maincf.Words(p.Value), " "))
		}
	}
	if len(all) > 0 {
		t.doc.top.set("smtpd_sender_login_maps", all, s.line())
	} else if s.text == "" {
		t.notNeeded("Users may write as anybody", s.line())
	}
}

func (t *translation) minFree(s setting) {
	if s.text == "0" || s.text == "" {
		t.notNeeded("Some disk space is kept free in any case (queue_minfree)", s.line())
		return
	}
	t.put(t.doc.top, "queue_minfree", formNumber, s)
}

// headerSize translates header_size_limit: Postfix cuts what is beyond, and here such mail is refused.
func (t *translation) headerSize(s setting) {
	const standard = 1 << 20
	if n, err := formNumber.value(s.text); err == nil && n.(int) > standard {
		t.doc.top.set("header_size_limit", n, s.line())
		return
	}
	t.notNeeded("Mail is refused if its header is larger than header_size_limit, which is 1M; Postfix cuts the header", s.line())
}

// notifyClasses translates which reports the postmaster receives.
func (t *translation) notifyClasses(s setting) {
	var others []string
	for _, word := range s.words() {
		switch word {
		case "2bounce":
			t.doc.top.set("double_bounce", "report", s.line())
		case "resource", "software":
		default:
			others = append(others, word)
		}
	}
	if len(others) > 0 {
		t.lost(s, "The postmaster gets no copies about %s; the log has a line for each.", strings.Join(others, ", "))
		return
	}
	t.otherwise("Problems of the program and of the machine are in the log", s.line())
}

func (t *translation) verifySender(s setting) {
	double := t.get("double_bounce_sender")
	switch {
	case s.text == "<>" || s.text == "":
		t.notNeeded("Call-outs have the null sender", s.line())
	case s.text == double.text || !strings.Contains(s.text, "@"):
		t.notNeeded("Call-outs have the null sender by default", s.line())
	default:
		t.doc.top.set("address_verify_sender", s.text, s.line())
	}
}

func (t *translation) verp(s setting) {
	if s.text == map[string]string{"default_verp_delimiters": "+=", "verp_delimiter_filter": "-=+"}[s.Name] {
		t.notNeeded("The values are the defaults here", s.line())
		return
	}
	t.doc.top.set(s.Name, s.text, s.line())
}

// discarded is about extensions that are not offered to clients.
func (t *translation) discarded(s setting) {
	var others []string
	for _, word := range s.words() {
		switch strings.ToLower(word) {
		case "chunking", "silent-discard", "etrn", "xclient", "xforward", "verp", "xverp":
		default:
			others = append(others, word)
		}
	}
	if len(others) > 0 {
		t.lost(s, "Extensions cannot be kept from clients: %s.", strings.Join(others, ", "))
		return
	}
	t.notNeeded("CHUNKING is safe here: a message ends where its client says and nowhere else", s.line())
}

// aliasLinesMax is how many aliases are shown.
const aliasLinesMax = 500

// aliases shows those entries of alias_maps that lead elsewhere as the lines of a map of aliases.
func (t *translation) aliases(s setting) {
	tables, ok := t.tables(s)
	if !ok {
		return
	}
	var lines []string
	for _, one := range tables {
		if !one.IsText() {
			t.lost(s, "%s: %s.", one.String(), external(one))
			continue
		}
		file, text, err := t.in.Read(s.Name, one)
		if err != nil {
			t.lost(s, "%s cannot be read: %v. Aliases of local users become lines of a file for virtual_alias_maps, without the colon.", one.String(), err)
			continue
		}
		pairs, wrong := maincf.ParseAliases(file, text)
		t.understood(wrong)
		for _, p := range pairs {
			switch {
			case strings.ContainsAny(p.Value, `|/"`) || strings.Contains(p.Value, ":include:"):
				t.lost(s, "%s:%d: the alias %q leads to a program, a file or a list in a file, which needs local delivery. A transport of type pipe starts programs (docs/transports.md).", file, p.Line, p.Key)
			case strings.HasPrefix(p.Key, "owner-"):
			default:
				lines = append(lines, p.Key+"\t"+p.Value)
			}
		}
	}
	if len(lines) == 0 {
		t.notNeeded("There is no local delivery, and nothing in these maps leads elsewhere", s.line())
		return
	}
	t.aliasLines = appendNew(nil, lines[:min(len(lines), aliasLinesMax)]...)
	t.todo(s, "Aliases of local users are not read from a file with colons. Put the %d lines at the end of the result, without the # in front, into a file such as /etc/posthaste/aliases, and set virtual_alias_maps to it.", len(lines))
}
