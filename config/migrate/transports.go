package migrate

import (
	"fmt"
	"maps"
	"path"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/posthaste-mta/posthaste/config/maincf"
)

// A parameter is one of Postfix's with what it is called here.
type parameter struct {
	postfix, here string
	form          form
}

// schedulingParameters are those of a transport's queue, NAME_… in Postfix, with default_ or nothing
// in front for all transports.
var schedulingParameters = []parameter{
	{"destination_concurrency_failed_cohort_limit", "destination_concurrency_failed_cohort_limit", formNumber},
	{"destination_concurrency_positive_feedback", "destination_concurrency_positive_feedback", formText},
	{"destination_concurrency_negative_feedback", "destination_concurrency_negative_feedback", formText},
	{"destination_concurrency_limit", "destination_concurrency_limit", formNumber},
	{"destination_recipient_limit", "destination_recipient_limit", formNumber},
	{"initial_destination_concurrency", "initial_destination_concurrency", formNumber},
	{"destination_rate_delay", "destination_rate_delay", formSeconds},
	{"transport_rate_delay", "transport_rate_delay", formSeconds},
	{"delivery_slot_cost", "delivery_slot_cost", formNumber},
	{"delivery_slot_loan", "delivery_slot_loan", formNumber},
	{"delivery_slot_discount", "delivery_slot_discount", formNumber},
	{"minimum_delivery_slots", "minimum_delivery_slots", formNumber},
	{"extra_recipient_limit", "extra_recipient_limit", formNumber},
	{"recipient_refill_limit", "recipient_refill_limit", formNumber},
	{"recipient_refill_delay", "recipient_refill_delay", formSeconds},
	{"recipient_limit", "recipient_limit", formNumber},
}

// clientParameters are those of smtp(8), smtp_… and lmtp_…, that need no more than another name.
var clientParameters = []parameter{
	{"connect_timeout", "connect_timeout", formSeconds}, {"helo_timeout", "helo_timeout", formSeconds}, {"lhlo_timeout", "helo_timeout", formSeconds},
	{"mail_timeout", "mail_timeout", formSeconds}, {"rcpt_timeout", "rcpt_timeout", formSeconds},
	{"data_init_timeout", "data_init_timeout", formSeconds}, {"data_xfer_timeout", "data_xfer_timeout", formSeconds}, {"data_done_timeout", "data_done_timeout", formSeconds},
	{"rset_timeout", "rset_timeout", formSeconds}, {"starttls_timeout", "starttls_timeout", formSeconds},
	{"mx_address_limit", "mx_address_limit", formNumber}, {"randomize_addresses", "randomize_addresses", formFlag},
	{"fallback_relay", "fallback_relay", formText},
	{"connection_cache_time_limit", "connection_cache_time_limit", formSeconds}, {"connection_reuse_time_limit", "connection_reuse_time_limit", formSeconds},
	{"connection_reuse_count_limit", "connection_reuse_count_limit", formNumber},
	{"tls_cert_file", "tls_cert_file", formText}, {"tls_key_file", "tls_key_file", formText},
}

// A scope is where parameters of smtp(8) are set: for all transports, or for one.
type scope struct {
	table  *table
	prefix string // of names here: "smtp_" at the top level
	get    func(name string) setting
	line   func(setting) string
}

// outgoing translates how mail is sent.
func (t *translation) outgoing() {
	t.client(scope{table: t.doc.top, prefix: "smtp_",
		get: func(name string) setting { return t.get("smtp_" + name) }, line: func(s setting) string { return s.line() }})
	if s := t.get("smtp_helo_name"); s.set && s.text != t.get("myhostname").text {
		t.doc.top.set("smtp_helo_name", s.text, s.line())
	} else if s.set {
		t.notNeeded("The name in EHLO is myhostname", s.line())
	}
	t.bindAddresses()
	for i := range t.master {
		if s := &t.master[i]; isClient(s) {
			t.transport(s)
		}
	}
}

// client translates the parameters of smtp(8) that are set in a scope.
func (t *translation) client(in scope) {
	for _, p := range clientParameters {
		s := in.get(p.postfix)
		if !s.set {
			continue
		}
		value, err := p.form.value(s.text)
		if err != nil {
			t.remark(NotUnderstood, "The value cannot be used: "+err.Error()+".", in.line(s))
			continue
		}
		if (p.here == "tls_cert_file" || p.here == "tls_key_file") && s.text == "" {
			t.notNeeded("There is no certificate for this host as a client", in.line(s))
			continue
		}
		in.table.set(in.prefix+p.here, value, in.line(s))
	}
	t.clientTLS(in)
}

// systemBundles are files and directories of authorities that are the system's own.
var systemBundles = []string{"/etc/ssl/certs/ca-certificates.crt", "/etc/ssl/certs", "/etc/pki/tls/certs/ca-bundle.crt", "/etc/pki/tls/cert.pem", "/etc/ssl/cert.pem", "/etc/ssl/ca-bundle.pem",
	"/etc/pki/ca-trust/extracted/pem/tls-ca-bundle.pem", "/usr/local/share/certs/ca-root-nss.crt"}

// clientTLS translates how connections to servers are secured.
func (t *translation) clientTLS(in scope) {
	level := in.get("tls_security_level")
	origins := []string{in.line(level)}
	if level.text == "" {
		use, enforce, name := in.get("use_tls"), in.get("enforce_tls"), in.get("tls_enforce_peername")
		switch {
		case enforce.yes() && strings.EqualFold(name.text, "no"):
			level.text, origins = "encrypt", []string{in.line(enforce), in.line(name)}
		case enforce.yes():
			level.text, origins = "verify", []string{in.line(enforce), in.line(name)}
		case use.yes():
			level.text, origins = "may", []string{in.line(use)}
		}
	}
	if wrapper := in.get("tls_wrappermode"); wrapper.set && wrapper.yes() {
		in.table.set(in.prefix+"tls_wrappermode", true, in.line(wrapper))
		if level.text == "" || level.text == "none" || level.text == "may" {
			level.text = "encrypt"
			origins = append(origins, in.line(wrapper))
		}
	} else if wrapper.set {
		t.notNeeded("TLS begins with STARTTLS by default", in.line(wrapper))
	}
	maps := in.get("tls_policy_maps")
	if tables, err := maincf.ParseTables(maps.text); err == nil && slices.ContainsFunc(tables, isMTASTS) && (level.text == "" || level.text == "may" || level.text == "dane") {
		level.text = "mta-sts"
		origins = append(origins, in.line(maps))
	}
	if level.text != "" {
		in.table.set(in.prefix+"tls_security_level", level.text, origins...)
	} else if level.set {
		in.table.set(in.prefix+"tls_security_level", "none", origins...)
	}
	if names := in.get(map[string]string{"verify": "tls_verify_cert_match", "secure": "tls_secure_cert_match"}[level.text]); names.set {
		in.table.set(in.prefix+"tls_match", certificateNames(names.text), in.line(names))
	}
	if prints := in.get("tls_fingerprint_cert_match"); prints.set && level.text == "fingerprint" {
		in.table.set(in.prefix+"tls_fingerprints", t.fingerprints(prints.text, in.line(prints)), in.line(prints))
	}
	if file := in.get("tls_CAfile"); file.set && (file.text == "" || slices.Contains(systemBundles, file.text)) {
		t.notNeeded("The authorities of the system are trusted by default", in.line(file))
	} else if file.set {
		in.table.set(in.prefix+"tls_ca_file", file.text, in.line(file))
	}
	if dir := in.get("tls_CApath"); dir.set && (dir.text == "" || slices.Contains(systemBundles, dir.text)) {
		t.notNeeded("The authorities of the system are trusted by default", in.line(dir))
	} else if dir.set {
		t.remark(Lost, "Authorities are in one file here: cat "+dir.text+"/*.pem >FILE, and set "+in.prefix+"tls_ca_file.", in.line(dir))
	}
	for _, name := range []string{"tls_protocols", "tls_mandatory_protocols"} {
		s := in.get(name)
		switch {
		case !s.set:
		case lowestTLS(s.text) == "1.3":
			t.remark(Lost, "The lowest version of TLS to servers is 1.2 and cannot be raised.", in.line(s))
		case lowestTLS(s.text) == "1.2":
			t.notNeeded("Versions of TLS below 1.2 are not spoken to servers", in.line(s))
		default:
			t.remark(Different, "Versions of TLS below 1.2 are not spoken to servers. Where TLS is not demanded, mail for servers that know no other goes in plaintext.", in.line(s))
		}
	}
}

// isMTASTS reports whether a map is one that answers with the MTA-STS policies of domains, such
// as postfix-mta-sts-resolver.
func isMTASTS(one maincf.Table) bool { return one.Type == "socketmap" }

// certificateNames returns names in certificates, which Postfix separates by colons, too.
func certificateNames(text string) []string {
	return append([]string{}, strings.FieldsFunc(text, func(r rune) bool { return strings.ContainsRune(" \t,:", r) })...)
}

// digest matches a SHA-256 digest.
var digest = regexp.MustCompile(`^(?:[0-9A-Fa-f]{2}:){31}[0-9A-Fa-f]{2}$|^[0-9A-Fa-f]{64}$`)

// fingerprints returns those digests of a list that are SHA-256, with a remark about the others.
func (t *translation) fingerprints(text, line string) []string {
	all := []string{}
	for _, word := range strings.FieldsFunc(text, func(r rune) bool { return strings.ContainsRune(" \t,|", r) }) {
		if digest.MatchString(word) {
			all = append(all, word)
			continue
		}
		t.remark(Lost, "Fingerprints are SHA-256 digests here, of 64 hexadecimal digits: openssl x509 -in cert.pem -noout -sha256 -fingerprint prints the new one.", line)
	}
	return all
}

// bindAddresses translates the addresses from which mail leaves.
func (t *translation) bindAddresses() {
	v4, v6 := t.get("smtp_bind_address"), t.get("smtp_bind_address6")
	switch {
	case v4.text != "" && v6.text != "":
		source := t.doc.table("source", "main")
		source.set("address", []string{v4.text, strings.Trim(v6.text, "[]")}, v4.line(), v6.line())
		t.doc.table("pool", "main").set("sources", []string{"main"})
	case v4.text != "":
		t.doc.top.set("smtp_bind_address", v4.text, v4.line())
	case v6.text != "":
		t.doc.top.set("smtp_bind_address", strings.Trim(v6.text, "[]"), v6.line())
	}
}

// transportNames are the names that a transport can have here.
var transportNames = regexp.MustCompile(`^[A-Za-z0-9_-]{1,64}$`)

// builtin are the transports that exist here without a table.
var builtin = []string{"smtp", "relay", "lmtp", "discard", "error", "retry"}

// transport translates a service that sends mail to other servers.
func (t *translation) transport(s *maincf.Service) {
	if !transportNames.MatchString(s.Name) {
		t.remark(Lost, fmt.Sprintf("The name %q cannot be that of a transport here: 1 to 64 letters, digits, - and _.", s.Name), serviceLine(s))
		return
	}
	one := t.doc.table("transport", s.Name)
	line := serviceLine(s)
	one.origins = nonEmpty(line)
	if !slices.Contains(builtin, s.Name) {
		one.set("type", s.Command)
	}
	t.processLimit(one, s)
	if s.Command == "lmtp" { // what smtp_ sets counts for LMTP here
		t.client(scope{table: one, get: func(name string) setting { return t.get("lmtp_" + name) }, line: func(s setting) string { return s.line() }})
		if v := t.get("lmtp_bind_address"); v.text != "" {
			one.set("bind_address", v.text, v.line())
		}
	}
	prefix := s.Command + "_"
	t.client(scope{table: one, get: func(name string) setting { return t.option(s, prefix+name) }, line: func(o setting) string { return lineIn(s, o) }})
	t.ownAddress(one, s, prefix)
	for _, o := range s.Options {
		if last, _ := s.Option(o.Name); last == o && !t.clientOption(one, o.Name, prefix) {
			t.otherOption(o, optionLine(s, o), false)
		}
	}
}

// clientOption reports whether an option of a service was translated by client or ownAddress.
func (t *translation) clientOption(one *table, name, prefix string) bool {
	if name == "syslog_name" {
		return true
	}
	name, ok := strings.CutPrefix(name, prefix)
	if !ok {
		return false
	}
	return slices.ContainsFunc(clientParameters, func(p parameter) bool { return p.postfix == name }) ||
		slices.Contains([]string{"tls_security_level", "tls_wrappermode", "use_tls", "enforce_tls", "tls_enforce_peername", "tls_verify_cert_match", "tls_secure_cert_match", "tls_fingerprint_cert_match",
			"tls_CAfile", "tls_CApath", "tls_protocols", "tls_mandatory_protocols", "bind_address", "bind_address6", "helo_name"}, name)
}

// processLimit translates the number of processes of a service.
func (t *translation) processLimit(one *table, s *maincf.Service) {
	switch n, err := strconv.Atoi(s.Limit); {
	case err != nil: // "-" is default_process_limit
	case n == 0:
		one.set("process_limit", 2000).comment = "No limit in Postfix; as many as smtp_connection_limit."
	default:
		one.set("process_limit", n)
	}
}

// ownAddress translates the address and the name of a transport that sends from one of its own.
func (t *translation) ownAddress(one *table, s *maincf.Service, prefix string) {
	v4, v6, helo := t.option(s, prefix+"bind_address"), t.option(s, prefix+"bind_address6"), t.option(s, prefix+"helo_name")
	switch {
	case v4.text != "":
		one.set("bind_address", v4.text, lineIn(s, v4))
		if v6.text != "" {
			t.remark(Lost, "A transport has one address to send from; a [source.NAME] has one of each family (docs/sources.md).", lineIn(s, v6))
		}
	case v6.text != "":
		one.set("bind_address", strings.Trim(v6.text, "[]"), lineIn(s, v6))
	}
	if helo.set && helo.text != t.get("myhostname").text {
		from := v4.text
		if from == "" {
			from = v6.text
		}
		text := fmt.Sprintf("A transport has no name of its own in EHLO; what sends from an address under a name is a source: [source.%s] with address = [\"%s\"] and ehlo = \"%s\", and a [pool.NAME] that says whose mail leaves from it (docs/sources.md).", s.Name, from, helo.text)
		t.remark(Lost, text, lineIn(s, helo))
	}
}

// use notes that mail goes by a transport, and makes the tables of those that are programs. It
// returns why it cannot be used, or "".
func (t *translation) use(name string) string {
	if slices.Contains(builtin, name) {
		return ""
	}
	s := t.service(name)
	switch {
	case name == "local":
		return "there is no local delivery: name a server of mailboxes, such as lmtp:unix:/run/dovecot/lmtp"
	case name == "virtual":
		return "there is no delivery into files: name a server of mailboxes, such as lmtp:unix:/run/dovecot/lmtp"
	case s == nil:
		return fmt.Sprintf("master.cf has no service %q", name)
	case isClient(s):
		if !transportNames.MatchString(name) {
			return fmt.Sprintf("%q cannot be the name of a transport here", name)
		}
		return ""
	case s.Command == "discard" || s.Command == "error":
		return fmt.Sprintf("%q is another name of %s; write that", name, s.Command)
	case s.Command != "pipe":
		return fmt.Sprintf("the service %s is not a transport here", name)
	}
	return t.program(s)
}

// program makes the table of a transport that is a program.
func (t *translation) program(s *maincf.Service) string {
	if t.used[s.Name] {
		return ""
	}
	if !transportNames.MatchString(s.Name) || slices.Contains(builtin, s.Name) {
		return fmt.Sprintf("%q cannot be the name of a transport here", s.Name)
	}
	if !slices.ContainsFunc(s.Args, func(arg string) bool { return len(arg) > len("argv=") && strings.HasPrefix(arg, "argv=") }) {
		return fmt.Sprintf("the service %s has no argv=, which is its command", s.Name)
	}
	t.used[s.Name] = true
	one := t.doc.table("transport", s.Name)
	line := serviceLine(s)
	one.origins = nonEmpty(line)
	one.set("type", "pipe")
	limit := t.get(s.Name + "_destination_recipient_limit")
	for i, arg := range s.Args {
		name, value, _ := strings.Cut(arg, "=")
		switch name {
		case "argv":
			t.command(one, append([]string{value}, s.Args[i+1:]...), line)
		case "flags":
			flags := strings.Map(func(r rune) rune {
				if strings.ContainsRune("BDFORXhqu.>", r) {
					return r
				}
				return -1
			}, value)
			if flags != value {
				t.remark(Lost, "These flags do not exist here: "+strings.Trim(value, "BDFORXhqu.>")+".", line)
			}
			one.set("command_flags", flags)
			if strings.ContainsAny(flags, "DO") && !limit.set {
				one.set("destination_recipient_limit", 1)
			}
		case "user":
			one.set("command_user", value)
			user, _, _ := strings.Cut(value, ":")
			t.remark(Todo, fmt.Sprintf("Only a daemon that runs as root can start a program as %s. Otherwise remove command_user of [transport.%s], and begin its command with \"/usr/bin/sudo\", \"-n\", \"-u\", \"%s\".", value, s.Name, user), line)
		case "directory":
			one.set("command_directory", value)
		case "null_sender":
			one.set("null_sender", value)
		case "eol":
			t.remark(Lost, "Lines end in LF for programs; have the command convert them.", line)
		case "size":
			t.remark(Lost, "The size is limited when mail is accepted (message_size_limit).", line)
		case "chroot":
			t.remark(Lost, "Programs are not confined to a directory; have the command do it.", line)
		default:
			if arg != "-v" {
				t.remark(NotUnderstood, fmt.Sprintf("%q of the service %s is not known.", arg, s.Name), line)
			}
		}
		if name == "argv" {
			break
		}
	}
	t.processLimit(one, s)
	return ""
}

// macro matches what pipe(8) replaces in arguments.
var macro = regexp.MustCompile(`\$(?:\{(\w+)\}|\((\w+)\)|(\w+))`)

// macros are those that exist here.
var macros = []string{"sender", "recipient", "original_recipient", "user", "extension", "mailbox", "domain", "nexthop", "size", "queue_id"}

// command translates the command of a program.
func (t *translation) command(one *table, argv []string, line string) {
	for i, arg := range argv {
		argv[i] = macro.ReplaceAllStringFunc(arg, func(found string) string {
			m := macro.FindStringSubmatch(found)
			name := m[1] + m[2] + m[3]
			if !slices.Contains(macros, name) {
				t.remark(Lost, fmt.Sprintf("There is no ${%s} for programs; there are %s.", name, strings.Join(macros, ", ")), line)
				return "$$" + found[1:]
			}
			return "${" + name + "}"
		})
	}
	if !path.IsAbs(argv[0]) {
		t.remark(Todo, "Write the path of the program from the root.", line)
		argv[0] = "/usr/bin/" + path.Base(argv[0])
	}
	one.set("command", argv)
}

// transportTables removes tables that say nothing, and writes those of programs that were not used.
func (t *translation) transportTables() {
	for i := range t.master {
		s := &t.master[i]
		if s.Command == "pipe" && !t.used[s.Name] {
			t.notNeeded("No route leads to these programs", serviceLine(s))
		}
		if isClient(s) && slices.Contains(builtin, s.Name) {
			if one := t.doc.find("transport", s.Name); one == nil || len(one.settings) == 0 {
				t.notNeeded("These transports exist without a table", nonEmpty(serviceLine(s))...)
			}
		}
	}
	for _, one := range t.doc.tables { // of a server of mailboxes, if other mail must be encrypted
		if one.kind == "transport" && one.name == "lmtp" && one.has("type") {
			one.remove("type")
		}
	}
	level := t.doc.top.get("smtp_tls_security_level")
	lmtp := func(name string) bool {
		s := t.service(name)
		return name == "lmtp" || s != nil && s.Command == "lmtp"
	}
	if level == nil || level.value == `"none"` || level.value == `"may"` {
		return
	}
	for _, name := range slices.Sorted(maps.Keys(t.used)) {
		if !lmtp(name) {
			continue
		}
		one := t.doc.table("transport", name)
		if !one.has("tls_security_level") {
			one.set("tls_security_level", "may").comment = "Postfix has lmtp_tls_security_level for this, and smtp_tls_security_level is the default here."
		}
		if t.doc.top.has("smtp_tls_wrappermode") && !one.has("tls_wrappermode") {
			one.set("tls_wrappermode", false)
		}
	}
}

// perTransport translates NAME_… for a transport; ok is false if the name of the parameter is none of
// these.
func (t *translation) perTransport(s setting) (ok bool) {
	for _, p := range append(slices.Clone(schedulingParameters), parameter{"time_limit", "command_time_limit", formSeconds}) {
		name, found := strings.CutSuffix(s.Name, "_"+p.postfix)
		if !found || name == "" || name == "default" {
			continue
		}
		service := t.service(name)
		switch {
		case service == nil && !slices.Contains(builtin, name) && name != "local" && name != "virtual":
			if p.here == "recipient_limit" || p.here == "command_time_limit" {
				return false // such as smtpd_recipient_limit, or a name of the administrator's own
			}
			t.notNeeded("master.cf has no service of this name", s.line())
		case name == "local" || name == "virtual":
			t.lost(s, "There is no local delivery. For a server of mailboxes write %s under [transport.lmtp].", p.here)
		case service != nil && service.Command == "pipe" && !t.used[name]:
			t.notNeeded("No route leads to these programs", s.line())
		case service != nil && service.Command != "pipe" && p.here == "command_time_limit":
			t.notNeeded("Only programs have a time limit", s.line())
		case service != nil && !isClient(service) && service.Command != "pipe" && !slices.Contains(builtin, name):
			return false
		default:
			t.put(t.doc.table("transport", name), p.here, p.form, s)
		}
		return true
	}
	return false
}
