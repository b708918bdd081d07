package migrate

// lostParameters cannot be had here. Behind a name are values, separated by |, with which nothing
// is lost; with an empty value nothing ever is.
var lostParameters = []answerGroup{
	{"There is no local delivery. Start the program by a transport of type pipe, or have a server of mailboxes deliver by LMTP (docs/transports.md)", []string{
		"mailbox_command", "mailbox_command_maps", "mailbox_transport_maps", "fallback_transport", "fallback_transport_maps", "luser_relay",
	}},
	{"Users who do not exist are known to the server of the mailboxes: verify_recipients = \"callout\" has it asked at RCPT, or write routes such as \"user@example.com\" = \"error:5.1.1 no such user\"", []string{
		"local_recipient_maps", "relay_recipient_maps", "virtual_mailbox_maps",
	}},
	{"Users who have moved have a route such as \"user@example.com\" = \"error:5.1.6 he has moved to user@example.net\"", []string{"relocated_maps"}},
	{"Who may write as whom is smtpd_sender_login_maps, for clients that have logged in", []string{"local_login_sender_maps=static:*"}},
	{"Mail is not sent through a second server for filtering and back. Use the milter of the filter ([[milter]], docs/milters.md), or put the filter in front; where it gives mail back, set xforward_networks of the [[listener]]", []string{
		"content_filter", "smtpd_proxy_filter", "default_filter_nexthop",
	}},
	{"There is no proxy filter", []string{"smtpd_proxy_options", "smtpd_proxy_timeout=100s|100", "smtpd_proxy_ehlo=$myhostname"}},
	{"What a listener leaves out is set for the listener: rewrite_addresses of [[listener]], and listener of [[milter]] and [[header_rule]]", []string{"receive_override_options"}},
	{"Only fields of the message's own header can be edited, by [[header_rule]]; bodies are for a filter (a milter such as rspamd)", []string{
		"mime_header_checks", "nested_header_checks", "body_checks", "milter_header_checks", "smtp_mime_header_checks", "smtp_nested_header_checks", "smtp_body_checks", "message_reject_characters", "message_strip_characters",
	}},
	{"Milters are chosen by listener or purpose under [[milter]], not by the client's address", []string{"smtpd_milter_maps"}},
	{"Rates are not limited by the client's address but for tenants and flows, which are senders, logins or networks: set tenant_message_rate or tenant_recipient_rate (docs/quotas.md)", []string{
		"smtpd_client_message_rate_limit=0", "smtpd_client_recipient_rate_limit=0", "smtpd_client_connection_rate_limit=0", "smtpd_client_new_tls_session_rate_limit=0",
	}},
	{"Failed logins are limited by smtpd_auth_failure_limit and smtpd_auth_failure_time", []string{"smtpd_client_auth_rate_limit=0", "smtpd_sasl_exceptions_networks"}},
	{"Extensions cannot be kept from some clients or servers; smtp_pipelining = \"lockstep\" or \"group\" under [destination.NAME] helps with servers whose PIPELINING is broken", []string{
		"smtpd_discard_ehlo_keyword_address_maps", "smtp_discard_ehlo_keyword_address_maps", "smtp_discard_ehlo_keywords=chunking", "smtp_discard_lhlo_keywords", "smtp_discard_lhlo_keyword_address_maps",
	}},
	{"Replies are not changed; [reply_rule.NAME] sets what follows from one (docs/replies.md)", []string{
		"smtp_reply_filter", "smtp_delivery_status_filter", "default_delivery_status_filter", "pipe_delivery_status_filter", "smtp_dns_reply_filter", "smtpd_reject_footer", "smtpd_reject_footer_maps",
	}},
	{"Commands are not rewritten", []string{"smtpd_command_filter"}},
	{"Reports have one form; bounce_footer adds a text to it", []string{"bounce_template_file"}},
	{"Hold the mail instead (posthaste queue hold), or give the domain a route such as \"example.com\" = \"retry:4.4.1 later\"", []string{"soft_bounce=no", "defer_transports"}},
	{"Nexthops in brackets are used without their MX records; write these in routes, or set [dns] servers to a name server of your own", []string{"disable_dns_lookups=no"}},
	{"The best MX host of a domain is asked for its mail like any other. Mail for a domain whose best host this is fails with 5.4.6: write a route for it", []string{"best_mx_transport"}},
	{"SRV records are not looked up; write the host and the port", []string{"use_srv_lookup"}},
	{"Both families are tried as the DNS has them; inet_protocols = \"ipv4\" or \"ipv6\" restricts mail to one", []string{"smtp_address_preference=any|ipv6"}},
	{"The port of a server is written behind it: relayhost = \"[smtp.example.com]:587\"", []string{"smtp_tcp_port=smtp|25|24"}},
	{"XFORWARD is not sent", []string{"smtp_send_xforward_command=no"}},
	{"The fallback relay is the same for all domains of a transport: set fallback_relay under [transport.NAME]", []string{"smtp_fallback_relay_maps"}},
	{"Authorities are in one file here: put these certificates and the system's into one, and set smtp_tls_ca_file", []string{"smtp_tls_trust_anchor_file"}},
	{"Policies by domain are in [destination.NAME] with domains and tls_security_level", []string{"smtp_tls_per_site"}},
	{"The name in the handshake is that of the host, or of the domain for level secure", []string{"smtp_tls_servername"}},
	{"A certificate for this host as a client is smtp_tls_cert_file, with smtp_tls_key_file if the key is apart", []string{
		"smtp_tls_chain_files", "smtp_tls_eccert_file", "smtp_tls_eckey_file", "smtp_tls_dcert_file", "smtp_tls_dkey_file",
	}},
	{"There are no DSA certificates in TLS any more", []string{"smtpd_tls_dcert_file", "smtpd_tls_dkey_file"}},
	{"Clients are known by the fingerprints of their certificates, in relay_clientcerts; who issued these does not matter", []string{
		"smtpd_tls_CAfile=/etc/ssl/certs/ca-certificates.crt", "smtpd_tls_CApath=/etc/ssl/certs", "smtpd_tls_ask_ccert=no", "smtpd_tls_req_ccert=no",
	}},
	{"Set proxy_networks under [[listener]] to the addresses of the proxy", []string{"smtpd_upstream_proxy_protocol"}},
	{"EHLO has the same name for all transports (smtp_helo_name)", []string{"lmtp_lhlo_name"}},
	{"Headers of the PROXY protocol have ten seconds", []string{"smtpd_upstream_proxy_timeout=5s|5"}},
	{"Reports on TLS are sent by the program itself: set organization under [tls_reports]", []string{"smtp_tlsrpt_enable=no"}},
	{"Mail that came with REQUIRETLS goes only where that can be kept (smtp_requiretls)", []string{"smtp_requiretls_policy"}},
	{"Reports on TLS are made without another program", []string{"smtp_tlsrpt_socket_name", "smtp_tlsrpt_skip_reused_handshakes=yes|no"}},
	{"SMTPUTF8 is always offered", []string{"smtputf8_enable=yes"}},
	{"sender_canonical_maps and recipient_canonical_maps apply to envelopes and headers; canonical_maps has canonical_classes", []string{
		"sender_canonical_classes=envelope_sender, header_sender", "recipient_canonical_classes=envelope_recipient, header_recipient",
	}},
}
