package migrate

import (
	"slices"
	"strings"
	"time"

	"github.com/posthaste-mta/posthaste/config"
	"github.com/posthaste-mta/posthaste/config/maincf"
)

// An answerKind is what becomes of a parameter of Postfix.
type answerKind uint8

const (
	carried  answerKind = iota + 1 // it becomes something here
	unneeded                       // it needs nothing here
	lost                           // it cannot be had here
)

// An answer is what becomes of a parameter of Postfix.
type answer struct {
	kind answerKind
	text string // why it is not needed, or what is lost and what to do
	// do carries it over; nil if that is done where the rest of its subject is.
	do func(*translation, setting)
	// fine are values with which nothing is lost, besides the empty one.
	fine []string
}

// harmless reports whether nothing is lost with a value.
func (a *answer) harmless(value string) bool {
	return value == "" || slices.ContainsFunc(a.fine, func(s string) bool { return strings.EqualFold(s, value) })
}

// sameParameters have the same name and meaning here.
var sameParameters = map[string]form{
	"message_size_limit": formNumber, "smtpd_recipient_limit": formNumber, "smtpd_recipient_overshoot_limit": formNumber, "hopcount_limit": formNumber,
	"smtpd_soft_error_limit": formNumber, "smtpd_hard_error_limit": formNumber, "smtpd_error_sleep_time": formSeconds, "smtpd_junk_command_limit": formNumber,
	"strict_rfc821_envelopes": formFlag, "smtpd_client_connection_count_limit": formNumber, "smtpd_client_ipv4_prefix_length": formNumber, "smtpd_client_ipv6_prefix_length": formNumber,
	"smtpd_starttls_timeout": formSeconds, "smtpd_timeout": formSeconds, "smtpd_min_data_rate": formNumber, "smtpd_forbid_unauth_pipelining": formFlag,
	"smtpd_sasl_authenticated_header": formFlag, "masquerade_exceptions": formList, "virtual_alias_expansion_limit": formNumber,
	"address_verify_positive_expire_time": formDays, "address_verify_positive_refresh_time": formDays, "address_verify_negative_expire_time": formDays, "address_verify_negative_refresh_time": formHours,
	"unverified_recipient_reject_reason": formText,
	"qmgr_message_active_limit":          formNumber, "qmgr_message_recipient_limit": formNumber, "qmgr_message_recipient_minimum": formNumber, "qmgr_fudge_factor": formNumber,
	"in_flow_delay": formSeconds, "minimal_backoff_time": formSeconds, "maximal_backoff_time": formSeconds, "transport_retry_time": formSeconds,
	"maximal_queue_lifetime": formDays, "bounce_queue_lifetime": formDays, "delay_warning_time": formHours,
	"bounce_size_limit": formNumber, "default_process_limit": formNumber,
	"default_destination_recipient_limit": formNumber, "default_delivery_slot_cost": formNumber, "default_delivery_slot_loan": formNumber, "default_delivery_slot_discount": formNumber,
	"default_minimum_delivery_slots": formNumber, "default_recipient_limit": formNumber, "default_extra_recipient_limit": formNumber, "default_recipient_refill_limit": formNumber,
	"default_recipient_refill_delay": formSeconds, "initial_destination_concurrency": formNumber, "default_destination_concurrency_limit": formNumber,
	"default_destination_concurrency_positive_feedback": formText, "default_destination_concurrency_negative_feedback": formText,
	"default_destination_concurrency_failed_cohort_limit": formNumber, "destination_concurrency_feedback_debug": formFlag,
	"default_destination_rate_delay": formSeconds, "default_transport_rate_delay": formSeconds,
	"requiretls_enable": formFlag, "tls_required_enable": formFlag,
}

// carriedElsewhere are translated with the rest of their subject.
var carriedElsewhere = []string{
	"myhostname", "queue_directory", "authorized_submit_users", "mynetworks", "mynetworks_style", // host.go
	"inet_interfaces", "smtpd_tls_wrappermode", // listeners.go
	"smtpd_tls_cert_file", "smtpd_tls_key_file", "smtpd_tls_eccert_file", "smtpd_tls_eckey_file", "smtpd_tls_chain_files", "tls_server_sni_maps", // listener_tls.go
	"smtpd_tls_security_level", "smtpd_use_tls", "smtpd_enforce_tls", "smtpd_tls_protocols", "smtpd_tls_mandatory_protocols", "smtpd_sasl_auth_enable",
	"smtpd_client_restrictions", "smtpd_helo_restrictions", "smtpd_sender_restrictions", "smtpd_relay_restrictions", "smtpd_recipient_restrictions", "smtpd_data_restrictions", // rules.go
	"smtpd_end_of_data_restrictions",
	"fast_flush_domains", "smtpd_etrn_restrictions", // etrn.go
	"smtpd_milters", "non_smtpd_milters", "milter_default_action", "milter_connect_timeout", "milter_command_timeout", "milter_content_timeout", "milter_macro_daemon_name", // milters.go
	"header_checks", "smtp_header_checks", // headers.go
	"smtp_helo_name", "smtp_bind_address", "smtp_bind_address6", // transports.go
	"smtp_tls_security_level", "smtp_use_tls", "smtp_enforce_tls", "smtp_tls_enforce_peername", "smtp_tls_wrappermode", "smtp_tls_verify_cert_match", "smtp_tls_secure_cert_match",
	"smtp_tls_fingerprint_cert_match", "smtp_tls_CAfile", "smtp_tls_CApath", "smtp_tls_protocols", "smtp_tls_mandatory_protocols",
	"default_transport", "relayhost", "transport_maps", "sender_dependent_relayhost_maps", "sender_dependent_default_transport_maps", "relay_domains", "relay_transport", // routes.go
	"mydestination", "mailbox_transport", "local_transport", "virtual_mailbox_domains", "virtual_transport", "virtual_alias_domains", "parent_domain_matches_subdomains",
	"smtp_tls_policy_maps",                                                                                                                                                                   // policies.go
	"smtp_sasl_auth_enable", "smtp_sasl_password_maps", "smtp_sender_dependent_authentication", "smtp_sasl_mechanism_filter", "smtp_sasl_security_options", "smtp_sasl_tls_security_options", // credentials.go
}

// answers are the answers to all parameters but those of answerTo.
var answers = allAnswers()

func allAnswers() map[string]answer {
	all := make(map[string]answer)
	for name, f := range sameParameters {
		all[name] = answer{kind: carried, do: func(t *translation, s setting) { t.same(f, s) }}
	}
	for _, name := range carriedElsewhere {
		all[name] = answer{kind: carried}
	}
	for _, p := range clientParameters {
		all["smtp_"+p.postfix] = answer{kind: carried}
	}
	for name, do := range carriedParameters() {
		all[name] = answer{kind: carried, do: do}
	}
	for _, group := range unneededParameters {
		for _, name := range group.names {
			all[name] = answer{kind: unneeded, text: group.text}
		}
	}
	for _, group := range lostParameters {
		for _, name := range group.names {
			name, value, valued := strings.Cut(name, "=")
			a := answer{kind: lost, text: group.text + "."}
			if valued {
				a.fine = strings.Split(value, "|")
			}
			all[name] = a
		}
	}
	return all
}

// same carries over a parameter that is the same here.
func (t *translation) same(f form, s setting) {
	if p := standardOf(s.Name); p != nil && s.text != "" {
		value, err := f.value(s.text)
		if text, ok := value.(string); err == nil && ok && f != formText && literal(normalTime(text)) == p.Default {
			t.notNeeded("The values are the defaults here", s.line())
			return
		}
		if err == nil && literal(value) == p.Default {
			t.notNeeded("The values are the defaults here", s.line())
			return
		}
	}
	t.put(t.doc.top, s.Name, f, s)
}

// standardOf returns the top-level parameter of a name here.
func standardOf(name string) *config.Parameter {
	all := config.Parameters()
	if i := slices.IndexFunc(all, func(p config.Parameter) bool { return p.Table == "" && p.Name == name }); i >= 0 {
		return &all[i]
	}
	return nil
}

// normalTime returns a time as the reference writes it, as far as that is simple: 300s is 5m.
func normalTime(s string) string {
	d, err := config.ParseDuration(s, time.Second)
	if err != nil {
		return s
	}
	return config.FormatDuration(d)
}

// answerTo returns the answer to a parameter; ok is false if it is none of Postfix's.
func answerTo(name string) (a answer, ok bool) {
	if a, ok = answers[name]; ok {
		return a, true
	}
	if rest, found := strings.CutPrefix(name, "lmtp_"); found {
		if slices.ContainsFunc(clientParameters, func(p parameter) bool { return p.postfix == rest }) || slices.Contains(carriedElsewhere, "smtp_"+rest) && !strings.HasPrefix(rest, "sasl_") {
			return answer{kind: carried}, true
		}
		if a, ok = answers["smtp_"+rest]; ok {
			return a, true
		}
	}
	for _, group := range prefixes {
		if strings.HasPrefix(name, group.prefix) {
			return group.answer, true
		}
	}
	for _, p := range append(slices.Clone(schedulingParameters), parameter{"time_limit", "", formSeconds}) {
		if prefix, found := strings.CutSuffix(name, "_"+p.postfix); found && prefix != "" {
			return answer{kind: carried, do: func(t *translation, s setting) {
				if !t.perTransport(s) {
					t.own(s)
				}
			}}, true
		}
	}
	return answer{}, false
}

// answer says what has become of a parameter of main.cf, and carries it over unless that was done
// already.
func (t *translation) answer(e maincf.Entry) {
	s := t.setting(e, true, nil)
	if !s.set {
		return // its value cannot be read, and there is a remark
	}
	a, known := answerTo(s.Name)
	switch {
	case !known:
		t.own(s)
	case a.kind == unneeded, a.kind == lost && a.harmless(s.text):
		text := a.text
		if a.kind == lost {
			text = "These are switched off, or as they are here"
		}
		t.notNeeded(strings.TrimSuffix(text, "."), s.line())
	case a.kind == lost:
		t.lost(s, "%s", a.text)
	case a.do != nil:
		a.do(t, s)
	default:
		t.accounted(s)
	}
}

// accounted makes sure that a line that was translated with the rest of its subject is in the result or
// in a remark.
func (t *translation) accounted(s setting) { t.otherwise("Nothing here depends on these", s.line()) }

// otherwise records that a line needs nothing here, unless it is in the result or in a remark.
func (t *translation) otherwise(text, line string) {
	if line == "" {
		return
	}
	in := func(all []string) bool { return slices.Contains(all, line) }
	for _, one := range append([]*table{t.doc.top}, t.doc.tables...) {
		if in(one.origins) || slices.ContainsFunc(one.settings, func(l *assignment) bool { return in(l.origins) }) {
			return
		}
	}
	if slices.ContainsFunc(t.notes, func(n note) bool { return in(n.at) }) || slices.ContainsFunc(t.remarks, func(r Remark) bool { return in(r.At) }) {
		return
	}
	t.notNeeded(text, line)
}

// own is for a parameter that Postfix does not have.
func (t *translation) own(s setting) {
	for _, e := range t.in.Main.Entries {
		if slices.Contains(maincf.Names(e.Value), s.Name) {
			t.notNeeded("Values of the administrator's own, which others refer to", s.line())
			return
		}
	}
	for i := range t.master {
		for _, o := range t.master[i].Options {
			if slices.Contains(maincf.Names(o.Value), s.Name) {
				t.notNeeded("Values of the administrator's own, which others refer to", s.line())
				return
			}
		}
	}
	if classes := t.get("smtpd_restriction_classes"); slices.Contains(classes.words(), s.Name) {
		t.restrictionList(s, s.line())
		return
	}
	for _, e := range t.in.Main.Entries {
		tables, err := maincf.ParseTables(e.Value)
		if err != nil {
			continue
		}
		for _, one := range tables {
			if one.Type != "" && one.Name != "" && strings.HasPrefix(s.Name, one.Name+"_") {
				t.lost(s, "It belongs to the map %s:%s, which is not asked here.", one.Type, one.Name)
				return
			}
		}
	}
	if e, ok := config.Foreign(s.Name); ok {
		t.lost(s, "%s%s.", strings.ToUpper(e[:1]), e[1:])
		return
	}
	t.remark(NotUnderstood, "It is not a parameter of Postfix up to version 3.11, and no other refers to it. If it is misspelled, Postfix has ignored it, too.", s.line())
}
