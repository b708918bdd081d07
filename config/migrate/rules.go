package migrate

import (
	"fmt"
	"slices"
	"strings"

	"github.com/posthaste-mta/posthaste/config/maincf"
)

// restrictionLists are the parameters that have restrictions in them.
var restrictionLists = []string{"smtpd_client_restrictions", "smtpd_helo_restrictions", "smtpd_sender_restrictions", "smtpd_relay_restrictions", "smtpd_recipient_restrictions",
	"smtpd_data_restrictions", "smtpd_end_of_data_restrictions"}

// What a restriction becomes.
const (
	isRelaying   = "relaying" // which client may send where: by the purpose of listeners, mynetworks and relay_domains
	isAlways     = "always"   // it is so here in any case
	isPipelining = "pipelining"
	isRoute      = "route"
	isCallout    = "callout"
	isHelo       = "What clients say in HELO is only checked for its form"
	isClients    = "Clients are judged by their addresses alone (mynetworks, smtpd_refuse_networks); names and lists in the DNS belong to a filter (a milter such as rspamd) or to a host in front"
	isSenders    = "Senders are not judged by lists or the DNS; a filter (a milter such as rspamd) can"
	isLogins     = "Set smtpd_sender_login_maps: who may write as which sender is said there, for all who log in"
	isRecipients = "Recipients are not judged by lists; a route such as \"user@example.com\" = \"error:5.7.1 not here\" refuses one"
	isPolicy     = "Policy servers are not asked; use a milter (milter-greylist, rspamd), and for limits on what users send the quotas (docs/quotas.md)"
	isNothing    = "There is nothing like it"
)

// restrictionKinds are the restrictions of Postfix.
var restrictionKinds = map[string]string{
	"permit_mynetworks": isRelaying, "permit_sasl_authenticated": isRelaying, "permit_tls_clientcerts": isRelaying, "permit_tls_all_clientcerts": "A certificate alone permits nothing: list the fingerprints in relay_clientcerts",
	"reject_unauth_destination": isRelaying, "defer_unauth_destination": isRelaying, "permit_auth_destination": isRelaying, "reject": isRelaying, "defer": isRelaying, "permit": isRelaying,
	"reject_unauth_pipelining": isPipelining, "reject_unknown_recipient_domain": isRoute, "reject_unlisted_recipient": isCallout, "reject_unverified_recipient": isCallout,
	"check_relay_domains": isRelaying, "permit_inet_interfaces": isRelaying,
	"permit_mx_backup": "Mail is accepted for relay_domains, not for domains whose MX records name this host: list them there",

	"reject_non_fqdn_recipient": isAlways, "reject_non_fqdn_sender": isAlways, "reject_unknown_address": isSenders, "reject_non_fqdn_hostname": isHelo, "reject_multi_recipient_bounce": isNothing,
	"reject_plaintext_session": "Set tls = \"require\" for the listener", "defer_if_permit": isNothing, "defer_if_reject": isNothing,

	"reject_invalid_helo_hostname": isHelo, "reject_invalid_hostname": isHelo, "reject_non_fqdn_helo_hostname": isHelo, "reject_unknown_helo_hostname": isHelo, "reject_unknown_hostname": isHelo,
	"check_helo_access": isHelo, "check_helo_mx_access": isHelo, "check_helo_ns_access": isHelo, "check_helo_a_access": isHelo, "reject_rhsbl_helo": isHelo, "permit_naked_ip_address": isHelo,

	"reject_unknown_client": isClients, "reject_unknown_client_hostname": isClients, "reject_unknown_forward_client_hostname": isClients, "reject_unknown_reverse_client_hostname": isClients,
	"reject_rbl_client": isClients, "reject_rhsbl_client": isClients, "reject_rhsbl_reverse_client": isClients, "permit_dnswl_client": isClients, "permit_rhswl_client": isClients, "reject_maps_rbl": isClients,
	"check_client_access": isClients, "check_client_a_access": isClients, "check_client_mx_access": isClients, "check_client_ns_access": isClients, "check_reverse_client_hostname_access": isClients,
	"check_reverse_client_hostname_a_access": isClients, "check_reverse_client_hostname_mx_access": isClients, "check_reverse_client_hostname_ns_access": isClients, "check_ccert_access": "A certificate permits its client to send anywhere (relay_clientcerts), and nothing else",

	"reject_unknown_sender_domain": isSenders, "reject_unverified_sender": isSenders, "reject_rhsbl_sender": isSenders, "check_sender_access": isSenders, "check_sender_a_access": isSenders,
	"check_sender_mx_access": isSenders, "check_sender_ns_access": isSenders, "reject_unlisted_sender": isSenders,
	"reject_sender_login_mismatch": isLogins, "reject_authenticated_sender_login_mismatch": isLogins, "reject_known_sender_login_mismatch": isLogins, "reject_unauthenticated_sender_login_mismatch": isLogins, "check_sasl_access": isLogins,

	"check_recipient_access": isRecipients, "check_recipient_a_access": isRecipients, "check_recipient_mx_access": isRecipients, "check_recipient_ns_access": isRecipients, "reject_rhsbl_recipient": isRecipients,
	"check_policy_service": isPolicy, "sleep": isNothing, "warn_if_reject": isNothing,
}

// takesArgument reports whether the word behind a restriction belongs to it.
func takesArgument(name string) bool {
	switch name {
	case "reject_rbl_client", "reject_rhsbl_client", "reject_rhsbl_helo", "reject_rhsbl_sender", "reject_rhsbl_recipient", "reject_rhsbl_reverse_client", "permit_dnswl_client", "permit_rhswl_client",
		"check_policy_service", "sleep":
		return true
	}
	return strings.HasPrefix(name, "check_") && strings.HasSuffix(name, "_access")
}

// A restriction is one of a list.
type restriction struct{ name, argument string }

// restrictionsIn takes a list apart.
func restrictionsIn(text string) []restriction {
	words := maincf.Words(text)
	var all []restriction
	for i := 0; i < len(words); i++ {
		r := restriction{name: strings.ToLower(words[i])}
		switch {
		case strings.HasPrefix(words[i], "{"):
			r.argument, r.name = words[i], ""
			if inner := maincf.Words(strings.Trim(words[i], "{}")); len(inner) > 0 {
				r = restriction{strings.ToLower(inner[0]), strings.Join(inner[1:], " ")}
			}
		case takesArgument(r.name) && i+1 < len(words):
			i++
			r.argument = words[i]
		case strings.Contains(words[i], ":"): // a map alone is check_…_access of the list's kind
			r = restriction{"check_access", words[i]}
		}
		all = append(all, r)
	}
	return all
}

// restrictions translates the lists of main.cf and of services.
func (t *translation) restrictions(listeners []*listener) {
	t.relaying()
	for _, name := range restrictionLists {
		if s := t.get(name); s.set {
			t.restrictionList(s, s.line())
		}
		for _, l := range listeners {
			if s := t.option(l.service, name); s.set {
				t.restrictionList(s, lineIn(l.service, s))
			}
		}
	}
}

// relaying looks at who may send to other domains by the parameters of main.cf. Here that is mynetworks,
// always, and who has logged in or shown a certificate.
func (t *translation) relaying() {
	s := t.get("smtpd_relay_restrictions")
	if s.text == "" {
		s = t.get("smtpd_recipient_restrictions")
	}
	permitted, refuses := false, false
	for _, r := range restrictionsIn(s.text) {
		switch r.name {
		case "permit_mynetworks":
			permitted = permitted || !refuses
		case "reject_unauth_destination", "defer_unauth_destination", "reject", "defer":
			refuses = true
		}
	}
	if permitted || !s.set || !slices.ContainsFunc(t.master, func(one maincf.Service) bool { return one.Type == "inet" && one.Command == "smtpd" }) {
		return
	}
	t.doc.top.set("mynetworks", []string{}, s.line()).comment = "There is no permit_mynetworks among these restrictions, and networks in mynetworks may always send anywhere here."
	t.different(s, "mynetworks is empty: by these restrictions its clients may not send to other domains, and here they always may.")
}

// restrictionList says what has become of the restrictions of a list.
func (t *translation) restrictionList(s setting, line string) {
	gone := make(map[string][]string)
	var reasons []string
	add := func(why, what string) {
		if gone[why] == nil {
			reasons = append(reasons, why)
		}
		if !slices.Contains(gone[why], what) {
			gone[why] = append(gone[why], what)
		}
	}
	for _, r := range restrictionsIn(s.text) {
		kind, known := restrictionKinds[r.name]
		what := strings.TrimSpace(r.name + " " + r.argument)
		switch {
		case r.name == "check_client_access" && strings.HasPrefix(r.argument, "cidr:"):
			t.clientAccess(s, r.argument, line)
		case kind == isRelaying, kind == isAlways:
		case kind == isPipelining:
			t.doc.top.set("smtpd_forbid_unauth_pipelining", true, line)
		case kind == isRoute:
			t.verify("Recipients whose domains do not exist are refused at RCPT.", line)
		case kind == isCallout:
			t.remark(Todo, "Recipients that do not exist are only known to the servers that take the mail: set verify_recipients = \"callout\" to have these asked at RCPT, if they are your own.", line)
		case known:
			add(kind, what)
		case r.name == "check_access":
			add("A list of addresses alone is not looked up", r.argument)
		case r.name == "":
			t.remark(NotUnderstood, "A restriction in braces cannot be read.", line)
		default:
			add("It is a class of restrictions of your own, or not known", what)
		}
	}
	for _, why := range reasons {
		t.remark(Lost, fmt.Sprintf("%s: %s.", strings.Join(gone[why], ", "), why), line)
	}
	if len(reasons) == 0 {
		t.notNeeded("Clients in mynetworks, with a certificate in relay_clientcerts, or who have logged in may send anywhere, others to relay_domains; addresses must have domains", line)
	}
}

// verify has recipients refused at RCPT to whom there is no way.
func (t *translation) verify(why, line string) {
	t.doc.top.set("verify_recipients", "route", line).comment = why
}

// clientAccess translates a map of networks whose clients are refused.
func (t *translation) clientAccess(s setting, argument, line string) {
	var refused []string
	others := false
	t.eachNetwork(s, maincf.Table{Type: "cidr", Name: strings.TrimPrefix(argument, "cidr:")}, func(n maincf.Network) {
		word, _, _ := strings.Cut(n.Value, " ")
		if code := strings.ToUpper(word); code == "REJECT" || strings.HasPrefix(code, "5") {
			refused = append(refused, shownNetwork(n.Prefix))
		} else if code != "DUNNO" {
			others = true
		}
	})
	if others {
		t.remark(Lost, argument+": only lines with REJECT were carried over. Networks that may send anywhere belong into mynetworks.", line)
	}
	if len(refused) == 0 {
		return
	}
	if l := t.doc.top.get("smtpd_refuse_networks"); l != nil {
		t.remark(Lost, argument+": another map of clients was carried over; add its networks to smtpd_refuse_networks.", line)
		return
	}
	t.doc.top.set("smtpd_refuse_networks", refused, line)
}
