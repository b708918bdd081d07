package config

// foreign tells of parameters of Postfix that have no counterpart of the same
// name what there is instead, or why there is nothing.
var foreign = map[string]string{
	"queue_run_delay":                  "there are no queue runs: every message is tried when its own time has come",
	"qmgr_clog_warn_time":              "what waits, and for what, is told by posthaste queue status and queue show",
	"hash_queue_names":                 "the spool needs no directories of its own for each queue",
	"hash_queue_depth":                 "the spool needs no directories of its own for each queue",
	"enable_long_queue_ids":            "queue IDs are always long",
	"max_idle":                         "there are no processes to recycle",
	"max_use":                          "there are no processes to recycle",
	"daemon_timeout":                   "there are no processes to watch",
	"ipc_timeout":                      "there are no processes to watch",
	"qmgr_daemon_timeout":              "there are no processes to watch",
	"qmgr_ipc_timeout":                 "there are no processes to watch",
	"service_throttle_time":            "there are no processes to restart",
	"inet_interfaces":                  "write the addresses into listen",
	"smtp_host_lookup":                 "names in brackets are looked up in [dns] hosts_file, then in the DNS",
	"disable_dns_lookups":              "write nexthops in brackets to use no MX records",
	"transport_maps":                   "write the entries under [routes]",
	"relay_transport":                  "write the domains under [routes]",
	"mydestination":                    "there is no local delivery; write the domains under [routes]",
	"local_transport":                  "there is no local delivery",
	"alias_maps":                       "there is no local delivery",
	"virtual_alias_maps":               "addresses are not rewritten",
	"canonical_maps":                   "addresses are not rewritten",
	"myorigin":                         "addresses without a domain get myhostname",
	"smtp_tls_security_level":          "there is no TLS yet",
	"smtpd_tls_security_level":         "there is no TLS yet",
	"smtp_use_tls":                     "there is no TLS yet",
	"smtpd_use_tls":                    "there is no TLS yet",
	"smtpd_tls_cert_file":              "there is no TLS yet",
	"smtpd_tls_key_file":               "there is no TLS yet",
	"smtpd_tls_chain_files":            "there is no TLS yet",
	"smtp_sasl_auth_enable":            "there is no authentication yet",
	"smtp_sasl_password_maps":          "there is no authentication yet",
	"smtpd_sasl_auth_enable":           "there is no authentication yet; clients in mynetworks may send",
	"mydomain":                         "write myhostname in full",
	"mynetworks_style":                 "write the networks into mynetworks",
	"permit_mynetworks":                "clients in mynetworks may always send",
	"smtpd_relay_restrictions":         "mynetworks may send to everybody, others to relay_domains",
	"smtpd_recipient_restrictions":     "mynetworks may send to everybody, others to relay_domains",
	"smtpd_client_restrictions":        "see smtpd_refuse_networks",
	"smtpd_forbid_bare_newline":        "bare newlines are refused, except from smtpd_normalize_networks",
	"smtpd_command_filter":             "commands are taken as they come",
	"smtp_line_length_limit":           "lines are sent as they came",
	"double_bounce_sender":             "reports about reports have the null sender; see double_bounce",
	"soft_bounce":                      "hold the messages instead: posthaste queue hold",
	"defer_transports":                 "defer by a route instead: \"example.com\" = \"retry:4.4.1 later\" under [routes]",
	"syslog_facility":                  "see the table [log]",
	"maillog_file":                     "records go to standard error; see the table [log]",
	"data_directory":                   "everything is in queue_directory",
	"mail_owner":                       "start the program as the user that is to own the queue",
	"compatibility_level":              "there are no old defaults to be compatible with",
	"qmgr_site_hog_factor":             "it belonged to Postfix's old scheduler",
	"smtp_fallback_relay_maps":         "write smtp_fallback_relay, or fallback_relay under [transport.NAME]",
	"smtp_skip_quit_response":          "nobody waits for the reply to QUIT",
	"smtp_address_preference":          "see inet_protocols",
	"parent_domain_matches_subdomains": "write .example.com for all names below example.com",
}

// Foreign tells what there is in place of a parameter of Postfix that does not
// exist here; ok is false if nothing is known of it.
func Foreign(name string) (note string, ok bool) {
	note, ok = foreign[name]
	return note, ok
}
