package migrate

import (
	"fmt"
	"regexp"
	"strconv"
	"strings"

	"github.com/posthaste-mta/posthaste/config/maincf"
)

// A setting is a parameter of Postfix with the value that it comes to.
type setting struct {
	maincf.Entry        // as written; without a line if nothing sets it
	text         string // expanded, or Postfix's default
	set          bool
}

// shownMax is how much of a line is shown in comments and remarks, in bytes.
const shownMax = 200

// line returns the line that sets the parameter, or "" if nothing does. What sets it in master.cf is
// shown as an option.
func (s *setting) line() string {
	if !s.set {
		return ""
	}
	return lineOf(s.Entry)
}

func lineOf(e maincf.Entry) string {
	value := strings.Join(strings.Fields(e.Value), " ")
	if secretName.MatchString(e.Name) && !strings.HasSuffix(e.Name, "_maps") {
		value = withheld
	}
	if strings.HasSuffix(e.Name, "sasl_password_maps") {
		value = withoutEntries(value)
	}
	return cut(fmt.Sprintf("%s:%d: %s = %s", e.File, e.Line, e.Name, value))
}

// withoutEntries returns a list of maps without what is in inline and static ones.
func withoutEntries(value string) string {
	tables, err := maincf.ParseTables(value)
	if err != nil {
		return withheld
	}
	var all []string
	for _, one := range tables {
		all = append(all, one.String())
	}
	return strings.Join(all, ", ")
}

// cut shortens a text that is shown.
func cut(s string) string {
	s = strings.TrimRight(s, " ")
	if len(s) <= shownMax {
		return s
	}
	end := shownMax
	for end > 0 && s[end]&0xc0 == 0x80 {
		end--
	}
	return s[:end] + " …"
}

// look returns the value of a parameter before expansion: as main.cf sets it, or its default.
func (t *translation) look(name string) (string, bool) {
	if e, ok := t.in.Main.Get(name); ok {
		return e.Value, true
	}
	switch name {
	case "myhostname":
		return t.in.Environment.Hostname, true
	case "mydomain":
		return t.mydomain(), true
	}
	value, ok := standards[name]
	return value, ok
}

// mydomain returns the default of mydomain: myhostname without its first label.
func (t *translation) mydomain() string {
	name, _ := t.look("myhostname")
	if strings.Contains(name, "$") { // it would be in terms of mydomain
		return "localdomain"
	}
	if _, domain, ok := strings.Cut(name, "."); ok {
		return domain
	}
	return "localdomain"
}

// expand expands a value in which options of a service count before main.cf.
func (t *translation) expand(e maincf.Entry, service *maincf.Service) (string, bool) {
	text, err := maincf.Expand(e.Value, func(name string) (string, bool) {
		if service != nil {
			if o, ok := service.Option(name); ok && o != e {
				return o.Value, true
			}
		}
		return t.look(name)
	})
	if err != nil {
		if key := fmt.Sprint(e.File, e.Line, e.Name); e.Line > 0 && !t.reported[key] { // what defaults refer to is reported itself
			t.reported[key] = true
			t.remark(NotUnderstood, "The value cannot be read: "+err.Error()+".", lineOf(e))
		}
		return "", false
	}
	return strings.TrimSpace(text), true
}

// get returns a parameter of main.cf, or its default.
func (t *translation) get(name string) setting {
	e, ok := t.in.Main.Get(name)
	if !ok {
		e = maincf.Entry{Name: name, Value: standards[name]}
	}
	return t.setting(e, ok, nil)
}

// of returns a parameter of a service: its option, or that of main.cf.
func (t *translation) of(service *maincf.Service, name string) setting {
	if e, ok := service.Option(name); ok {
		return t.setting(e, true, service)
	}
	e, ok := t.in.Main.Get(name)
	if !ok {
		e = maincf.Entry{Name: name, Value: standards[name]}
	}
	return t.setting(e, ok, service)
}

// option returns an option of a service; set is false if there is none.
func (t *translation) option(service *maincf.Service, name string) setting {
	e, ok := service.Option(name)
	if !ok {
		return setting{Entry: maincf.Entry{Name: name}}
	}
	return t.setting(e, true, service)
}

func (t *translation) setting(e maincf.Entry, set bool, service *maincf.Service) setting {
	text, ok := t.expand(e, service)
	if !ok {
		set = false
		text, _ = maincf.Expand(standards[e.Name], t.look)
	}
	return setting{e, text, set}
}

// yes reports whether a parameter is yes.
func (s *setting) yes() bool { return strings.EqualFold(s.text, "yes") }

// words returns the items of a list.
func (s *setting) words() []string { return maincf.Words(s.text) }

// A form is how a value is written here.
type form uint8

const (
	formText form = iota
	formNumber
	formFlag
	formSeconds // a time; a number without a unit is in seconds
	formHours
	formDays
	formList
	formFeedback
)

// period matches a time as Postfix writes it.
var period = regexp.MustCompile(`^([0-9]+)\s*([smhdw]?)$`)

// value returns a value in the form; the error says why that cannot be.
func (f form) value(text string) (any, error) {
	switch f {
	case formNumber:
		n, err := strconv.ParseInt(text, 10, 64)
		if err != nil {
			return nil, fmt.Errorf("%q is not a whole number", text)
		}
		return int(n), nil
	case formFlag:
		switch strings.ToLower(text) {
		case "yes":
			return true, nil
		case "no":
			return false, nil
		}
		return nil, fmt.Errorf("%q is neither yes nor no", text)
	case formSeconds, formHours, formDays:
		m := period.FindStringSubmatch(text)
		if m == nil {
			return nil, fmt.Errorf("%q is not a time such as 30s, 5m or 2d", text)
		}
		if m[2] == "" {
			m[2] = map[form]string{formSeconds: "s", formHours: "h", formDays: "d"}[f]
		}
		return m[1] + m[2], nil
	case formList:
		return append([]string{}, maincf.Words(text)...), nil
	}
	return text, nil
}

// put sets a key of a table to the value of a parameter.
func (t *translation) put(to *table, name string, f form, s setting) bool {
	value, err := f.value(s.text)
	if err != nil {
		t.remark(NotUnderstood, "The value cannot be used: "+err.Error()+".", s.line())
		return false
	}
	to.set(name, value, s.line())
	return true
}

// standards are the defaults of Postfix 3.7 and later of the parameters to whose values others
// refer, or that count here even if nothing sets them.
var standards = map[string]string{
	"alias_database":                        "hash:/etc/aliases",
	"alias_maps":                            "hash:/etc/aliases",
	"command_directory":                     "/usr/sbin",
	"config_directory":                      "/etc/postfix",
	"daemon_directory":                      "/usr/libexec/postfix",
	"data_directory":                        "/var/lib/postfix",
	"default_database_type":                 "hash",
	"default_destination_concurrency_limit": "20",
	"default_destination_rate_delay":        "0s",
	"default_destination_recipient_limit":   "50",
	"default_process_limit":                 "100",
	"default_transport":                     "smtp",
	"double_bounce_sender":                  "double-bounce",
	"inet_interfaces":                       "all",
	"inet_protocols":                        "all",
	"initial_destination_concurrency":       "5",
	"local_transport":                       "local:$myhostname",
	"mail_name":                             "Postfix",
	"mail_owner":                            "postfix",
	"mail_version":                          "3",
	"maximal_queue_lifetime":                "5d",
	"message_size_limit":                    "10240000",
	"milter_command_timeout":                "30s",
	"milter_connect_timeout":                "30s",
	"milter_content_timeout":                "300s",
	"milter_default_action":                 "tempfail",
	"milter_macro_daemon_name":              "$myhostname",
	"mydestination":                         "$myhostname, localhost.$mydomain, localhost",
	"myorigin":                              "$myhostname",
	"notify_classes":                        "resource, software",
	"parent_domain_matches_subdomains":      "debug_peer_list,fast_flush_domains,mynetworks,permit_mx_backup_networks,qmqpd_authorized_clients,relay_domains,smtpd_access_maps",
	"queue_directory":                       "/var/spool/postfix",
	"relay_transport":                       "relay",
	"smtp_sasl_security_options":            "noplaintext, noanonymous",
	"smtp_sasl_tls_security_options":        "$smtp_sasl_security_options",
	"smtp_tls_secure_cert_match":            "nexthop, dot-nexthop",
	"smtp_tls_verify_cert_match":            "hostname",
	"smtpd_banner":                          "$myhostname ESMTP $mail_name",
	"smtpd_delay_reject":                    "yes",
	"smtpd_relay_restrictions":              "permit_mynetworks, permit_sasl_authenticated, defer_unauth_destination",
	"syslog_name":                           "postfix",
	"virtual_alias_domains":                 "$virtual_alias_maps",
	"virtual_mailbox_domains":               "$virtual_mailbox_maps",
	"virtual_transport":                     "virtual",
}
