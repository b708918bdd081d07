package migrate

// An answerGroup is parameters with the same answer.
type answerGroup struct {
	text  string // without the full stop
	names []string
}

// A prefixGroup is the beginning of the names of parameters with the same answer.
type prefixGroup struct {
	prefix string
	answer answer
}

// prefixes are looked at after all names.
var prefixes = []prefixGroup{
	{"postscreen_", answer{kind: lost, text: "There is no postscreen. smtpd_greet_pause with smtpd_forbid_unauth_pipelining refuses clients that speak too early, smtpd_refuse_networks those of some networks; lists in the DNS belong to a filter or to a host in front."}},
	{"tlsproxy_", answer{kind: unneeded, text: "There are no processes for the parts of the program"}},
	{"fast_flush_", answer{kind: unneeded, text: "There are no files with the mail of each domain: ETRN and posthaste queue flush --domain search the queue"}},
	{"qmqpd_", answer{kind: lost, text: "There is no QMQP; have the clients use SMTP."}},
	{"multi_instance_", answer{kind: lost, text: "Each instance of Postfix has a main.cf of its own. Import each, and run one daemon for each result, with its own queue_directory; or use one daemon with listeners, classes and sources for what they did.", fine: []string{"no"}}},
	{"maillog_file", answer{kind: unneeded, text: "The log goes to standard error, where systemd's journal takes it; [log] sets its level and format"}},
	{"proxy_read_maps", answer{kind: unneeded, text: "Maps are read by the program itself"}},
	{"non_bdb_", answer{kind: unneeded, text: "Maps are read from their texts, so no database has to be made or converted"}},
}

// unneededParameters need nothing here, for the reason that each group has.
var unneededParameters = []answerGroup{
	{"There are no processes for the parts of the program", []string{
		"max_idle", "max_use", "daemon_timeout", "ipc_timeout", "ipc_idle", "ipc_ttl", "qmgr_daemon_timeout", "qmgr_ipc_timeout", "service_throttle_time", "application_event_drain_time", "fork_attempts", "fork_delay",
		"trigger_timeout", "opportunistic_lock", "stale_lock_time", "deliver_lock_attempts", "deliver_lock_delay", "master_service_disable", "process_id", "process_id_directory", "process_name", "service_name",
		"bounce_service_name", "cleanup_service_name", "connection_cache_service_name", "defer_service_name", "dnsblog_service_name", "error_service_name", "flush_service_name", "pickup_service_name", "postlog_service_name",
		"proxymap_service_name", "proxywrite_service_name", "queue_service_name", "rewrite_service_name", "showq_service_name", "smtpd_service_name", "tlsmgr_service_name", "tlsproxy_service_name", "trace_service_name",
		"address_verify_service_name", "dnsblog_reply_delay", "postlogd_watchdog_timeout", "anvil_status_update_time", "connection_cache_status_update_time", "connection_cache_protocol_timeout",
		"connection_cache_ttl_limit", "proxy_write_maps", "import_environment", "export_environment", "fault_injection_code", "smtpd_delay_open_until_valid_rcpt", "debugger_command", "dont_remove",
		"berkeley_db_create_buffer_size", "berkeley_db_read_buffer_size", "lmdb_map_size", "default_database_type", "default_cache_db_type", "daemon_table_open_error_is_fatal", "tcp_windowsize",
		"smtpd_history_flush_threshold", "socketmap_max_query_size", "socketmap_max_reply_size", "known_tcp_ports",
	}},
	{"The program is one file, and everything that it keeps is in queue_directory", []string{
		"alternate_config_directories", "command_directory", "config_directory", "daemon_directory", "data_directory", "html_directory", "manpage_directory", "meta_directory", "readme_directory", "sample_directory",
		"shlib_directory", "mailq_path", "newaliases_path", "sendmail_path", "openssl_path", "mail_spool_directory", "mail_release_date", "mail_version", "mail_name", "helpful_warnings",
	}},
	{"The program runs as the user that starts it, who owns the queue; groups may submit mail (submission_group) and administer (admin_group)", []string{
		"mail_owner", "setgid_group", "default_privs", "authorized_flush_users", "authorized_mailq_users", "allow_min_user",
	}},
	{"The log goes to standard error, where systemd's journal takes it; [log] sets its level and format", []string{
		"syslog_facility", "syslog_name", "respectful_logging", "info_log_address_format", "delay_logging_resolution_limit", "smtpd_client_port_logging", "qmqpd_client_port_logging", "smtp_tls_loglevel", "smtpd_tls_loglevel",
		"smtp_tls_loglevel_maps", "smtpd_tls_loglevel_maps", "smtp_tls_trace_size_limit", "smtpd_tls_trace_size_limit", "tls_trace_rate_limit", "smtp_log_tls_feature_status", "smtp_tls_note_starttls_offer",
		"smtpd_log_access_permit_actions", "debug_peer_level", "debug_peer_list", "backwards_bounce_logfile_compatibility", "show_user_unknown_table_name", "smtpd_tls_received_header", "stress",
		"header_from_format", "smtpd_hide_client_session",
	}},
	{"There are no old defaults to be compatible with", []string{"compatibility_level", "sun_mailtool_compatibility"}},
	{"The spool has no subdirectories for queues, and queue IDs are always long", []string{"hash_queue_names", "hash_queue_depth", "enable_long_queue_ids", "queue_file_attribute_count_limit"}},
	{"There are no queue runs: each message is tried at its own time", []string{"queue_run_delay"}},
	{"posthaste queue status and queue show report which mail waits, and why", []string{"qmgr_clog_warn_time", "confirm_delay_cleared"}},
	{"There is no local delivery", []string{
		"alias_database", "biff", "home_mailbox", "forward_path", "mailbox_size_limit", "mailbox_delivery_lock", "virtual_mailbox_base", "virtual_mailbox_limit", "virtual_mailbox_lock",
		"virtual_minimum_uid", "virtual_uid_maps", "virtual_gid_maps", "allow_mail_to_commands", "allow_mail_to_files", "command_execution_directory", "command_expansion_filter", "execution_directory_expansion_filter",
		"expand_owner_alias", "forward_expansion_filter", "frozen_delivered_to", "owner_request_special", "prepend_delivered_header", "propagate_unmatched_extensions", "require_home_directory", "reset_owner_alias",
		"strict_mailbox_ownership", "local_command_shell", "local_destination_concurrency_limit", "local_destination_recipient_limit", "virtual_destination_concurrency_limit", "virtual_destination_recipient_limit",
		"command_time_limit", "local_delivery_status_filter", "virtual_delivery_status_filter", "virtual_alias_recursion_limit", "virtual_alias_address_length_limit", "duplicate_filter_limit", "enable_original_recipient",
		"smtpd_reject_unlisted_recipient", "smtpd_reject_unlisted_sender", "unknown_local_recipient_reject_code", "unknown_relay_recipient_reject_code", "unknown_virtual_alias_reject_code",
		"unknown_virtual_mailbox_reject_code", "relocated_prefix_enable", "empty_address_recipient",
	}},
	{"What clients may do is in the purpose of a listener, mynetworks and relay_domains, with replies of the program's own", []string{
		"smtpd_delay_reject", "smtpd_helo_required", "disable_vrfy_command", "smtpd_relay_before_recipient_restrictions", "access_map_defer_code", "access_map_reject_code", "defer_code", "invalid_hostname_reject_code",
		"maps_rbl_reject_code", "multi_recipient_bounce_reject_code", "non_fqdn_reject_code", "plaintext_reject_code", "reject_code", "relay_domains_reject_code", "unknown_address_reject_code", "unknown_client_reject_code",
		"unknown_hostname_reject_code", "unverified_recipient_defer_code", "unverified_recipient_reject_code", "unverified_sender_defer_code", "unverified_sender_reject_code", "unverified_sender_reject_reason",
		"reject_tempfail_action", "unknown_address_tempfail_action", "unknown_helo_hostname_tempfail_action", "unverified_recipient_tempfail_action", "unverified_sender_tempfail_action", "smtpd_null_access_lookup_key",
		"smtpd_expansion_filter", "smtpd_restriction_classes", "default_rbl_reply", "rbl_reply_maps", "maps_rbl_domains", "smtpd_noop_commands", "smtpd_forbidden_commands", "smtpd_peername_lookup", "smtpd_dns_reply_filter",
		"permit_mx_backup_networks", "allow_untrusted_routing", "allow_percent_hack", "swap_bangpath", "resolve_dequoted_address", "resolve_null_domain", "resolve_numeric_domain", "smtpd_per_record_deadline",
		"smtpd_per_request_deadline", "smtpd_client_connection_limit_exceptions", "smtpd_reject_filter_maps",
	}},
	{"There are no policy servers", []string{
		"smtpd_policy_service_default_action", "smtpd_policy_service_max_idle", "smtpd_policy_service_max_ttl", "smtpd_policy_service_policy_context", "smtpd_policy_service_request_limit",
		"smtpd_policy_service_retry_delay", "smtpd_policy_service_timeout", "smtpd_policy_service_try_limit",
	}},
	{"Bare newlines are refused, except from smtpd_normalize_networks", []string{"smtpd_forbid_bare_newline", "smtpd_forbid_bare_newline_reject_code", "cleanup_replace_stray_cr_lf"}},
	{"Milters ask for what they want to know, and versions are negotiated", []string{
		"milter_protocol", "milter_connect_macros", "milter_data_macros", "milter_end_of_data_macros", "milter_end_of_header_macros", "milter_helo_macros", "milter_mail_macros", "milter_rcpt_macros",
		"milter_unknown_command_macros", "milter_macro_defaults", "milter_macro_v", "internal_mail_filter_classes",
	}},
	{"Call-outs and lookups are remembered in memory, and asked by the way that mail takes", []string{
		"address_verify_map", "address_verify_cache_cleanup_interval", "address_verify_negative_cache", "address_verify_pending_request_limit", "address_verify_poll_count", "address_verify_poll_delay", "address_verify_sender_ttl",
		"address_verify_default_transport", "address_verify_local_transport", "address_verify_relay_transport", "address_verify_relayhost", "address_verify_sender_dependent_default_transport_maps",
		"address_verify_sender_dependent_relayhost_maps", "address_verify_transport_maps", "address_verify_virtual_transport", "smtp_address_verify_target",
	}},
	{"Sessions of TLS are resumed without a database, and its parameters are those of Go's crypto/tls", []string{
		"smtp_tls_session_cache_database", "smtp_tls_session_cache_timeout", "smtpd_tls_session_cache_database", "smtpd_tls_session_cache_timeout", "smtpd_tls_always_issue_session_ids", "smtp_tls_connection_reuse",
		"smtpd_tls_dh1024_param_file", "smtpd_tls_dh512_param_file", "smtpd_tls_eecdh_grade", "smtp_tls_scert_verifydepth", "smtpd_tls_ccert_verifydepth", "smtp_tls_block_early_mail_reply", "tls_append_default_CA",
		"tls_config_file", "tls_config_name", "tls_daemon_random_bytes", "tls_dane_digests", "tls_dane_digest_agility", "tls_dane_trust_anchor_digest_enable", "tls_disable_workarounds", "tls_eecdh_auto_curves",
		"tls_eecdh_strong_curve", "tls_eecdh_ultra_curve", "tls_ffdhe_auto_groups", "tls_export_cipherlist", "tls_fast_shutdown_enable", "tls_high_cipherlist", "tls_legacy_public_key_fingerprints", "tls_low_cipherlist",
		"tls_medium_cipherlist", "tls_null_cipherlist", "tls_preempt_cipherlist", "tls_random_bytes", "tls_random_exchange_name", "tls_random_prng_update_period", "tls_random_reseed_period", "tls_random_source",
		"tls_session_ticket_cipher", "tls_ssl_options", "tls_wildcard_matches_multiple_labels", "tls_trust_server_ccerts", "smtp_tls_dane_insecure_mx_policy", "smtp_tls_force_insecure_host_tlsa_lookup",
		"smtp_tls_enable_rpk", "smtpd_tls_enable_rpk", "smtp_tls_cipherlist", "smtpd_tls_cipherlist", "smtp_tls_fingerprint_digest", "smtpd_tls_fingerprint_digest", "smtp_tls_enforce_sts_mx_patterns",
		"smtp_tls_ciphers", "smtp_tls_mandatory_ciphers", "smtp_tls_exclude_ciphers", "smtp_tls_mandatory_exclude_ciphers", "smtpd_tls_ciphers", "smtpd_tls_mandatory_ciphers", "smtpd_tls_exclude_ciphers",
		"smtpd_tls_mandatory_exclude_ciphers",
	}},
	{"Passwords are offered over TLS only, in the file of credentials and in that of users", []string{
		"smtpd_tls_auth_only", "smtp_sasl_tls_verified_security_options", "smtp_sasl_type", "smtp_sasl_path", "smtpd_sasl_security_options", "smtpd_sasl_tls_security_options", "smtpd_sasl_type", "smtpd_sasl_path",
		"smtpd_sasl_local_domain", "smtpd_sasl_response_limit", "smtpd_sasl_service", "smtpd_sasl_application_name", "broken_sasl_auth_clients", "cyrus_sasl_config_path", "send_cyrus_sasl_authzid", "smtp_send_dummy_mail_auth",
		"smtpd_sasl_mechanism_filter", "smtp_sasl_auth_cache_name", "smtp_sasl_auth_cache_time", "smtp_sasl_auth_soft_bounce", "empty_address_local_login_sender_maps_lookup_key", "smtp_sasl_password_result_delimiter",
	}},
	{"The DNS and its cache are the program's own ([dns])", []string{
		"dns_ncache_ttl_fix_enable", "dnssec_probe", "smtp_dns_resolver_options", "smtp_dns_support_level", "smtp_host_lookup", "smtp_defer_if_no_mx_address_found", "ignore_mx_lookup_error",
		"smtp_cname_overrides_servername", "allow_srv_lookup_fallback", "ignore_srv_lookup_error",
	}},
	{"Connections are kept for all destinations, and chosen by what is known of their hosts (docs/connections.md)", []string{
		"smtp_connection_cache_destinations", "smtp_connection_cache_on_demand", "smtp_cache_connection", "smtp_mx_session_limit", "smtp_balance_inet_protocols", "smtp_always_send_ehlo", "smtp_never_send_ehlo",
		"smtp_quit_timeout", "smtp_skip_quit_response", "smtp_xforward_timeout", "smtp_per_record_deadline", "smtp_per_request_deadline", "smtp_min_data_rate", "smtp_pix_workarounds", "smtp_pix_workaround_delay_time",
		"smtp_pix_workaround_maps", "smtp_pix_workaround_threshold_time", "smtp_quote_rfc821_envelope", "smtp_skip_5xx_greeting", "smtp_skip_4xx_greeting", "smtp_bind_address_enforce", "lmtp_assume_final",
	}},
	{"Messages are sent as they came, and converted only for servers without 8BITMIME", []string{
		"smtp_line_length_limit", "line_length_limit", "header_address_token_limit", "body_checks_size_limit", "mime_boundary_length_limit", "mime_nesting_limit", "detect_8bit_encoding_header",
		"disable_mime_input_processing", "disable_mime_output_conversion", "force_mime_input_conversion", "strict_7bit_headers", "strict_8bitmime", "strict_8bitmime_body", "strict_mime_encoding_domain",
		"always_add_missing_headers", "undisclosed_recipients_header", "message_drop_headers", "sendmail_fix_line_endings", "full_name_encoding_charset", "enable_errors_to", "extract_recipient_limit",
		"non_empty_end_of_header_action", "smtputf8_autodetect_classes", "strict_smtputf8", "enable_idna2003_compatibility", "domain_to_ascii", "requiretls_esmtp_header",
	}},
	{"Reports are those of RFC 3464 and quote what the server said", []string{"double_bounce_sender", "bounce_notice_recipient", "error_notice_recipient", "delay_notice_recipient", "enable_threaded_bounces", "requiretls_redact_dsn"}},
	{"Rates are counted for tenants and flows (docs/quotas.md)", []string{"anvil_rate_time_unit"}},
	{"[sender_routes] are for the null sender with the key <>", []string{"empty_address_default_transport_maps_lookup_key", "empty_address_relayhost_maps_lookup_key", "sender_based_routing"}},
	{"Addresses are completed as complete_domain and myorigin say", []string{"append_at_myorigin", "append_dot_mydomain", "local_header_rewrite_clients", "remote_header_rewrite_domain"}},
	{"There is one daemon for each configuration, which systemd starts and stops", []string{"postmulti_control_commands", "postmulti_start_commands", "postmulti_stop_commands"}},
	{"It belonged to Postfix's old scheduler", []string{"qmgr_site_hog_factor"}},
}
