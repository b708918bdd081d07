package config

import (
	"strings"
	"testing"
)

func portFix(transport string) string {
	return transport + " begins in plaintext, and servers expect TLS first at port 465; set tls_wrappermode = true and tls_security_level = \"secure\" for it, or for a transport of its own, or write port 587"
}

const cohortsFix = "it has no effect: a destination is dead when none of its hosts may be tried (docs/scheduler.md#windows)"

// A value without effect is worse than a mistake: without a warning the operator
// relies on it. A file of defaults, and one whose values all have an effect, must give
// no warnings.
func TestWarnings(t *testing.T) {
	for _, c := range []struct{ name, text, want string }{
		{"defaults", "", ""},
		{"metrics that nobody may read", "metrics_listen = \":9125\"", "metrics_listen: it listens on addresses that other machines can reach, and metrics_networks has none of these"},
		{"metrics for some", "metrics_listen = \":9125\"\nmetrics_networks = [\"127.0.0.1\", \"192.0.2.0/28\"]", ""},
		{"metrics for this machine", "metrics_listen = [\"127.0.0.1:9125\", \"[::1]:9125\"]", ""},
		{"plain limits", "default_process_limit = 50\ndefault_destination_concurrency_limit = 50\ninitial_destination_concurrency = 2\nmax_message_concurrency = 40", ""},
		{"an API that works", "admin_listen = \"127.0.0.1:8025 [::1]:8025\"\nadmin_tokens = \"/t\"", ""},
		{"an API without tokens", "admin_listen = \"127.0.0.1:8025\"", "admin_listen: no program can use these addresses: there is no file of tokens; set admin_tokens, and make a token with \"posthaste token add\""},
		{"an API without a certificate", "admin_listen = \"192.0.2.1:8025\"\nadmin_tokens = \"/t\"",
			"admin_listen: no program can use 192.0.2.1:8025: it is no loopback address, so TLS is spoken there, and there is no certificate; add a [[certificate]] or set acme_names"},
		{"an API in plaintext", "admin_listen = \":8025\"\nadmin_tokens = \"/t\"\nadmin_tls = \"never\"",
			"admin_listen: [::]:8025 can be reached by other machines without TLS, so that tokens can be read on the way unless a proxy in front speaks TLS"},
		{"window above the processes", "default_process_limit = 10\n[transport.bulk]\ndestination_concurrency_limit = 30",
			"transport.bulk.destination_concurrency_limit: 30 is never reached: process_limit is 10"},
		{"told once for all transports", "default_process_limit = 10\ndefault_destination_concurrency_limit = 30",
			"default_destination_concurrency_limit: 30 is never reached: process_limit is 10"},
		{"start above the window", "initial_destination_concurrency = 8\n[transport.smtp]\ndestination_concurrency_limit = 4",
			"initial_destination_concurrency: 8 exceeds destination_concurrency_limit, which is 4"},
		{"a pause and a window", "[transport.slow]\ndestination_rate_delay = \"5s\"\ndestination_concurrency_limit = 4",
			"transport.slow.destination_concurrency_limit: it has no effect: with destination_rate_delay there is one delivery at a time"},
		{"processes above connections", "smtp_connection_limit = 100\n[transport.smtp]\nprocess_limit = 500",
			"transport.smtp.process_limit: 500 is never reached: smtp_connection_limit is 100"},
		{"share above connections", "smtp_connection_limit = 200\nmax_message_concurrency = 200", "max_message_concurrency: it is never reached: smtp_connection_limit is 200"},
		{"host limit", "[transport.smtp]\nprocess_limit = 30\ndestination_host_concurrency_limit = 40",
			"transport.smtp.destination_host_concurrency_limit: 40 is never reached: process_limit is 30"},
		{"cohorts", "[transport.smtp]\ndestination_concurrency_failed_cohort_limit = 10\n[transport.boxes]\ntype = \"lmtp\"\nnexthop = \"unix:/x\"\ndestination_concurrency_failed_cohort_limit = 0",
			"transport.boxes.destination_concurrency_failed_cohort_limit: " + cohortsFix + "\ntransport.smtp.destination_concurrency_failed_cohort_limit: " + cohortsFix},
		{"cohorts of all transports", "default_destination_concurrency_failed_cohort_limit = 3", "default_destination_concurrency_failed_cohort_limit: " + cohortsFix},
		{"cohorts by default", "default_destination_concurrency_failed_cohort_limit = 1", ""},
		{"in flight", "[transport.smtp]\npipelining_in_flight = 8", `transport.smtp.pipelining_in_flight: it has no effect: pipelining is "overlap", not "stream"`},
		{"in flight for one", "[transport.smtp]\npipelining_in_flight = 8\n[destination.own]\ndomains = [\"own.example\"]\npipelining = \"stream\"", ""},
		{"one message each", "[transport.smtp]\npipelining = \"stream\"\nconnection_reuse_count_limit = 1",
			`transport.smtp.pipelining: "stream" has no more effect than "group": connection_reuse_count_limit is 1, so no connection carries a second message`},
		{"rates that work", "default_destination_rate = \"10/s, 300/min, 10000/h\"", ""},
		{"rates that do not", "default_destination_rate = \"10/s, 600/min\"", "default_destination_rate: 600/min has no effect: 10/s is at least as strict"},
		{"rates the other way", "[transport.smtp]\nconnection_rate = \"100/s, 60/min\"", "transport.smtp.connection_rate: 100/s has no effect: 60/min is at least as strict"},
		{"a quota's rates", "tenant_message_rate = \"10/s, 5/h\"", "tenant_message_rate: 10/s has no effect: 5/h is at least as strict"},
		{"a tenant's rates", "[tenant.shop]\nrecipient_rate = \"10/s, 5000/h\"\nmessage_rate = \"10/s, 600/min\"", "tenant.shop.message_rate: 600/min has no effect: 10/s is at least as strict"},
		{"no second attempt", "minimal_backoff_time = \"2h\"\nmaximal_backoff_time = \"3h\"\nmaximal_queue_lifetime = \"1h\"\nbounce_queue_lifetime = \"1h\"",
			"maximal_queue_lifetime: mail is returned before its second attempt: minimal_backoff_time is 2h"},
		{"a priority for all", "relay_domains = \"example.com\"\n[[listener]]\naddress = \":25\"\nname = \"mx\"\nmt_priority_max = 1",
			"listener.mx.mt_priority_max: strangers who send to relay_domains may ask for this priority, too; RFC 6710 has positive ones for clients that are authorized"},
		{"dates for all", "relay_domains = \"example.com\"\n[[listener]]\naddress = \":25\"\nname = \"mx\"\nfuture_release_max = \"1d\"",
			"listener.mx.future_release_max: strangers who send to relay_domains may have their mail kept in your queue, too; RFC 4865 is for submission"},
		{"deadlines for all", "relay_domains = \"example.com\"\n[[listener]]\naddress = \":25\"\nname = \"mx\"\ndeliver_by = true",
			"listener.mx.deliver_by: strangers who send to relay_domains may have reports on their mail sent to whomever they name as its sender, as soon as it is late or passed on"},
		{"ETRN without domains", "[[listener]]\naddress = \":25\"\nname = \"mx\"\netrn = \"all\"", "listener.mx.etrn: it has no effect, because fast_flush_domains has no domain"},
		{"ETRN off", "[[listener]]\naddress = \":25\"\nname = \"mx\"\netrn = \"off\"", ""},
		{"ETRN", "fast_flush_domains = \"a.example\"\n[[listener]]\naddress = \":25\"\nname = \"mx\"\netrn = \"all\"", ""},
		{"deadlines for some", "[[listener]]\naddress = \":25\"\ndeliver_by = true", ""},
		{"a priority for some", "[[listener]]\naddress = \":25\"\nmt_priority_max = 9", ""},
		{"a priority that is lower", "relay_domains = \"example.com\"\n[[listener]]\naddress = \":25\"\nmt_priority_max = 0", ""},
		{"TLS first at 465", "relayhost = \"[relay.example.net]:465\"\nsmtp_tls_wrappermode = true\nsmtp_tls_security_level = \"secure\"", ""},
		{"TLS first at another port", "relayhost = \"[relay.example.net]:2465\"\n[transport.smtp]\ntls_wrappermode = true\ntls_security_level = \"encrypt\"", ""},
		{"465 in plaintext", "relayhost = \"[relay.example.net]:465\"", "relayhost: " + portFix("transport smtp")},
		{"465 in plaintext, in words", "default_transport = \"relay:[relay.example.net]:submissions\"\n[transport.relay]\nfallback_relay = \"[a.example], [b.example]:smtps\"",
			"default_transport: " + portFix("transport relay") + "\ntransport.relay.fallback_relay: " + portFix("transport relay")},
		{"465 in routes", "smtp_fallback_relay = \"[a.example]:465\"\n[routes]\n\"a.example\" = \":[192.0.2.1], [192.0.2.2]:465\"\n\"b.example\" = \"slow:\"\n\"c.example\" = \"first:[192.0.2.2]:465\"\n[sender_routes]\n\"<>\" = \"slow:x.example:465\"\n" +
			"[transport.slow]\nnexthop = \"b.example:465\"\n[transport.first]\ntls_wrappermode = true\ntls_security_level = \"verify\"\nfallback_relay = \"\"\n[transport.boxes]\ntype = \"lmtp\"\nnexthop = \"unix:/x\"",
			"routes.\"a.example\": " + portFix("transport smtp") + "\nsender_routes.\"<>\": " + portFix("transport slow") + "\nsmtp_fallback_relay: " + portFix("a transport without tls_wrappermode") +
				"\ntransport.slow.nexthop: " + portFix("transport slow")},
		{"TLS first at a port where no server expects it", "relayhost = \"[relay.example.net]\"\nsmtp_tls_wrappermode = true\nsmtp_tls_security_level = \"encrypt\"\n[routes]\n\"a.example\" = \"smtp:\"\n\"b.example\" = \"smtp:[b.example]:587\"\n\"c.example\" = \"discard:\"",
			"routes.\"a.example\": mail goes to the domains of its recipients, at port 25, where no server expects TLS first; write a nexthop with port 465, or use a transport without tls_wrappermode\n" +
				"routes.\"b.example\": transport smtp begins with TLS (tls_wrappermode), which servers do not expect at port 587; write [b.example]:465, or use a transport without tls_wrappermode\n" +
				"relayhost: transport smtp begins with TLS (tls_wrappermode), which servers do not expect at port 25; write [relay.example.net]:465, or use a transport without tls_wrappermode"},
		{"TLS first for all mail", "[transport.smtp]\ntls_wrappermode = true\ntls_security_level = \"encrypt\"",
			"transport.smtp.tls_wrappermode: mail goes to the domains of its recipients, at port 25, where no server expects TLS first; write a nexthop with port 465, or use a transport without tls_wrappermode"},
		{"TLS first and a level without", "relayhost = \"[relay.example.net]:465\"\nsmtp_tls_wrappermode = true\nsmtp_tls_security_level = \"secure\"\n[destination.own]\ndomains = [\".example.net\"]\ntls_security_level = \"may\"",
			"destination.own.tls_security_level: \"may\" has no effect: transport smtp, by which mail goes there, begins with TLS (tls_wrappermode)"},
		{"an empty destination", "[destination.own]\ndomains = [\"own.example\"]", "destination.own: it sets no limit and no tls_security_level, so it has no effect"},
		{"a destination's level of TLS", "[destination.own]\ndomains = [\"own.example\"]\ntls_security_level = \"encrypt\"", ""},
		{"dane on this machine", "smtp_tls_security_level = \"dane\"\n[dns]\nservers = [\"127.0.0.1\"]", ""},
		{"dane that is trusted", "smtp_tls_security_level = \"dane-only\"\n[dns]\nservers = [\"192.0.2.53\"]\ntrust_ad = true", ""},
		{"mta-sts", "smtp_tls_security_level = \"mta-sts\"\n[dns]\nservers = [\"192.0.2.53\"]", ""},
		{"dane that is not", "smtp_tls_security_level = \"dane\"\n[dns]\nservers = [\"192.0.2.53\"]\n[destination.own]\ndomains = [\"own.example\"]\ntls_security_level = \"dane-only\"",
			"smtp_tls_security_level: no TLSA record is believed, so it is no more than may: " + trustFix + "\n" +
				"destination.own.tls_security_level: no TLSA record is believed, so no mail is sent: " + trustFix},
		{"a pause and a rate", "[transport.slow]\ndestination_rate_delay = \"1s\"\ndestination_rate = \"5/s, 10/min\"",
			"transport.slow.destination_rate: 5/s has no effect: destination_rate_delay, which is 1s, is at least as strict"},
		{"a pause within a rate", "[transport.slow]\ndestination_rate_delay = \"1s\"\ndestination_rate = \"1/5s\"", ""},
		{"a transport's pause and rate", "default_transport_rate_delay = \"2s\"\ndefault_transport_rate = \"1/s\"",
			"default_transport_rate: 1/s has no effect: transport_rate_delay, which is 2s, is at least as strict"},
		{"a destination's pause and rate", "[destination.own]\ndomains = [\"own.example\"]\ndestination_rate_delay = \"1s\"\ndestination_rate = \"5/s\"",
			"destination.own.destination_rate: 5/s has no effect: destination_rate_delay, which is 1s, is at least as strict"},
		{"a destination", "[destination.own]\ndomains = [\"own.example\"]\ndestination_concurrency_limit = 300\ninitial_destination_concurrency = 400\ndestination_rate = \"1/s, 3600/h\"",
			"destination.own.destination_concurrency_limit: 300 is never reached: no transport has a process_limit of more than 100\n" +
				"destination.own.initial_destination_concurrency: 400 exceeds destination_concurrency_limit, which is 300\n" +
				"destination.own.destination_rate: 3600/h has no effect: 1/s is at least as strict"},
	} {
		cfg, err := Parse("test.toml", []byte(c.text), Environment{Hostname: "mta.example.com"})
		if err != nil {
			t.Errorf("%s: %v", c.name, err)
			continue
		}
		var got []string
		for _, w := range cfg.Warnings() {
			got = append(got, w.String())
			if w.Line < 1 {
				t.Errorf("%s: no line: %v", c.name, w)
			}
		}
		if text := strings.Join(got, "\n"); text != c.want {
			t.Errorf("%s:\n%s\nwant\n%s", c.name, text, c.want)
		}
	}
}

// An editor, and the reader of a long file, finds a warning by its line: that of the
// value, or of the table if all of it has no effect.
func TestWarningsHaveLines(t *testing.T) {
	text := "default_process_limit = 10\n\n[transport.bulk]\ndestination_concurrency_limit = 30\n\n[destination.own]\ndomains = [\"own.example\"]\n"
	cfg, err := Parse("test.toml", []byte(text), Environment{Hostname: "mta.example.com"})
	if err != nil {
		t.Fatal(err)
	}
	want := "a.toml:4: warning: transport.bulk.destination_concurrency_limit: 30 is never reached: process_limit is 10\n" +
		"a.toml:6: warning: destination.own: it sets no limit and no tls_security_level, so it has no effect\n"
	if got := cfg.Warn("a.toml", nil); got != want {
		t.Errorf("%s\nwant\n%s", got, want)
	}
}
