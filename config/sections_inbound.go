package config

import (
	"math"
	"net/netip"
	"time"
)

func inboundParameters() []parameter[Config] {
	reason := optional(text("text", "printable ASCII", checkReason), "for the reason that was found")
	believed := period(time.Second, limit[time.Duration]{min: time.Second, max: 1000 * 24 * time.Hour})
	return []parameter[Config]{
		define("listen", list(listener(), "addresses"), func(c *Config) *[]netip.AddrPort { return &c.Listen }, []netip.AddrPort{netip.MustParseAddrPort("127.0.0.1:2525")},
			"The addresses and ports on which SMTP clients are served. Each address works like a [[listener]] table without any other parameter. The default applies only if the file has no [[listener]] table.",
			"Set it to \":25\" or another address to accept mail from other machines, and set mynetworks as well."),
		define("smtpd_forbid_unauth_pipelining", flag(), func(c *Config) *bool { return &c.SMTPD.ForbidEarly }, false,
			"Whether a TCP client that does not wait for replies where it must is refused with 554; otherwise it is only logged.",
			"Set it to true on a host that accepts mail from the Internet.").unlike("yes"),
		define("requiretls_enable", flag(), func(c *Config) *bool { return &c.SMTPD.RequireTLS }, true,
			"Whether REQUIRETLS (RFC 8689) is offered to clients that use TLS; a message with it is sent only over TLS, to servers with valid certificates that offer it too, and is returned if there is no such server.",
			"Set it to false if you cannot keep that promise, because the next server on the way does not offer it."),
		define("tls_required_enable", flag(), func(c *Config) *bool { return &c.SMTPD.TLSOptional }, true,
			"Whether the header field TLS-Required: No (RFC 8689) lowers the TLS security level of a message from dane or mta-sts to may.",
			"Set it to false if senders must not give up what the domains of receivers demand."),
		define("proxy_interfaces", list(address(), "IP addresses"), func(c *Config) *[]netip.Addr { return &c.ProxyInterfaces }, []netip.Addr{},
			"Addresses of a proxy or address translator that forwards connections to this host; outgoing mail never connects to them.",
			"Set it if connections reach this host through an address that the machine itself does not have."),
		define("mynetworks", list(network(), "networks"), func(c *Config) *[]netip.Prefix { return &c.MyNetworks }, []netip.Prefix{netip.MustParsePrefix("127.0.0.0/8"), netip.MustParsePrefix("::1/128")},
			"The clients that may send mail to any destination.",
			"Add the networks of the machines whose mail this host sends, and nothing wider."),
		define("relay_domains", list(relayDomain(), "domains"), func(c *Config) *[]string { return &c.RelayDomains }, []string{},
			"The domains to which any client may send mail; \".example.com\" stands for all names below example.com.",
			"Set it on a host that accepts mail from the Internet for these domains."),
		define("relay_clientcerts", list(clientCertificate(), "fingerprints"), func(c *Config) *[]string { return &c.RelayClientCerts }, []string{},
			"The SHA-256 fingerprints of certificates, or of their public keys, with which clients may send mail to any destination; a path names a file with one fingerprint per line, which may be followed by a comment.",
			"Set it for clients whose address changes."),
		define("permit_address_literals", flag(), func(c *Config) *bool { return &c.Relay.AddressLiterals }, false,
			"Whether recipients such as user@[192.0.2.1] are accepted from mynetworks.",
			"Set it to true for test equipment that has no names."),
		define("permit_unqualified_domains", flag(), func(c *Config) *bool { return &c.Relay.UnqualifiedDomains }, false,
			"Whether recipients whose domain has no dot are accepted from mynetworks.",
			"Set it to true in a closed network that has such names."),
		define("permit_routed_addresses", flag(), func(c *Config) *bool { return &c.Relay.RoutedAddresses }, false,
			"Whether recipients with %, ! or a quoted @ in the local part are accepted from mynetworks.",
			"Set it to true only if no server behind this one interprets such addresses as routes."),
		define("verify_recipients", words(word[Verification]{"no", VerifyNothing}, word[Verification]{"route", VerifyRoute}, word[Verification]{"callout", VerifyCallout}), func(c *Config) *Verification { return &c.SMTPD.Verify.Recipients }, VerifyNothing,
			"The check of recipients at RCPT, for clients on TCP. With route, a recipient is refused if mail for its domain cannot be sent anywhere; with callout, also if its mail server, when asked, would refuse it. A client gets 450 if the answer is not available in time.",
			"Set it to route if clients can correct an address, or if senders are strangers to whom no mail should be returned; set it to callout only in front of your own servers that know their recipients, since others may take it for an attack."),
		define("verify_limit", integer(limit[int]{min: 1, max: 100_000}), func(c *Config) *int { return &c.SMTPD.Verify.Limit }, 10,
			"The number of verification lookups in progress at once; they never use more than half of lookup_limit. The number of call-outs in progress at once has the same limit, but is counted separately.",
			"Raise it if clients often get 450 because a recipient could not be verified."),
		define("verify_network_limit", integer(limit[int]{min: 1, max: 100_000}), func(c *Config) *int { return &c.SMTPD.Verify.NetworkLimit }, 2,
			"The number of verification lookups in progress at once for the clients of one network, an IPv4 /24 or IPv6 /64. The number of their call-outs has the same limit, but is counted separately.",
			"Raise it up to verify_limit if all clients are in your own network."),
		define("verify_deadline", period(time.Second, limit[time.Duration]{min: 100 * time.Millisecond, max: 5 * time.Minute}), func(c *Config) *time.Duration { return &c.SMTPD.Verify.Deadline }, 5*time.Second,
			"The longest time that a client waits for verification before it gets 450 and may try again.",
			"Raise it if the name server is slow; clients wait at least five minutes (RFC 5321)."),
		define("verify_positive_time", period(time.Second, limit[time.Duration]{min: time.Second, max: 100 * 24 * time.Hour}), func(c *Config) *time.Duration { return &c.SMTPD.Verify.PositiveTime }, 24*time.Hour,
			"The time that a positive route verification of a domain stays valid.",
			"Lower it if domains often disappear."),
		define("verify_negative_time", period(time.Second, limit[time.Duration]{min: time.Second, max: 24 * time.Hour}), func(c *Config) *time.Duration { return &c.SMTPD.Verify.NegativeTime }, time.Hour,
			"The time that a negative route verification of a domain stays valid.",
			"Lower it if new domains must be usable at once."),
		define("address_verify_sender", sender(), func(c *Config) *string { return &c.SMTPD.Verify.Sender }, "",
			"The sender address used in call-outs.",
			"Set it to an address of yours that accepts all mail, for servers that refuse the null sender.").unlike("$double_bounce_sender"),
		define("unverified_recipient_reject_reason", reason, func(c *Config) *string { return &c.SMTPD.Verify.RejectReason }, "",
			"The text after 550 5.1.1 in the reply to a client whose recipient is refused by its mail server.",
			"Set it to hide that server's name, address and reply from strangers."),
		define("unverified_recipient_defer_reason", reason, func(c *Config) *string { return &c.SMTPD.Verify.DeferReason }, "",
			"The text after 450 4.1.1 in the reply to a client whose recipient could not be verified because its mail server was unreachable or undecided.",
			"Set it to hide that server's name, address and reply from strangers; the findings of this host itself are never revealed."),
		define("address_verify_positive_expire_time", believed, func(c *Config) *time.Duration { return &c.SMTPD.Verify.AddressPositive }, 31*24*time.Hour,
			"The time that a positive call-out result for an address stays valid.",
			"Lower it if people leave often."),
		define("address_verify_positive_refresh_time", believed, func(c *Config) *time.Duration { return &c.SMTPD.Verify.AddressPositiveRefresh }, 7*24*time.Hour,
			"The age at which a positive call-out result is checked again while it is still valid.",
			"Lower it together with address_verify_positive_expire_time."),
		define("address_verify_negative_expire_time", believed, func(c *Config) *time.Duration { return &c.SMTPD.Verify.AddressNegative }, 3*24*time.Hour,
			"The time that a negative call-out result for an address stays valid.",
			"Lower it if new addresses must be usable soon."),
		define("address_verify_negative_refresh_time", believed, func(c *Config) *time.Duration { return &c.SMTPD.Verify.AddressNegativeRefresh }, 3*time.Hour,
			"The age at which a negative call-out result is checked again while it is still valid.",
			"Lower it to notice new addresses sooner."),
		define("address_verify_limit", integer(limit[int]{min: 1, max: 10_000_000}), func(c *Config) *int { return &c.SMTPD.Verify.AddressLimit }, 50_000,
			"The number of addresses whose call-out results are remembered; each takes about 300 bytes, and a restart forgets them.",
			"Raise it if there are more recipients than that."),
	}
}

func messageParameters() []parameter[Config] {
	count := func(least int, zero string) kind[int] {
		return integer(limit[int]{min: least, max: math.MaxInt32, zero: zero})
	}
	return []parameter[Config]{
		define("smtpd_banner", text("text", "printable ASCII", checkBanner), func(c *Config) *string { return &c.SMTPD.Banner }, "ESMTP Posthaste",
			"The text after the host name in the greeting.",
			"Change it to hide the program's name from clients."),
		define("message_size_limit", size(limit[int64]{min: 64 << 10, zero: "no limit"}), func(c *Config) *int64 { return &c.SMTPD.MessageSizeLimit }, 10240000,
			"The size of the largest message that is accepted.",
			"Raise it to the limit of the servers to which you send; most accept 20 to 50 MB."),
		define("smtpd_recipient_limit", count(100, "no limit"), func(c *Config) *int { return &c.SMTPD.RecipientLimit }, 1000,
			"The number of recipients that one message may have; clients send the rest in another message.",
			"Raise it for list software that cannot split recipients into several messages."),
		define("smtpd_recipient_overshoot_limit", count(1, ""), func(c *Config) *int { return &c.SMTPD.RecipientOvershoot }, 1000,
			"The number of recipients beyond smtpd_recipient_limit that are answered with 452 before the session ends.",
			"Raise it for clients that ignore the 452."),
		define("line_length_limit", size(limit[int64]{min: 1000, max: 1 << 20}), func(c *Config) *int64 { return &c.SMTPD.LineLengthLimit }, 64<<10,
			"The length of the longest line that a message may contain; a message with a longer line is refused.",
			"Raise it for programs that write a whole document in one line.").unlike("2048"),
		define("header_size_limit", size(limit[int64]{min: 4 << 10, max: 16 << 20}), func(c *Config) *int64 { return &c.SMTPD.HeaderSizeLimit }, 1<<20,
			"The size limit of a message header as a whole.",
			"Lower it if mail comes from strangers; no ordinary header has 64K.").unlike("102400"),
		define("hopcount_limit", count(1, ""), func(c *Config) *int { return &c.SMTPD.HopcountLimit }, 100,
			"The number of Received fields above which a message is considered to be in a mail loop.",
			"Lower it to end loops sooner; the longest legitimate paths have some 30.").unlike("50"),
		define("own_hopcount_limit", count(1, ""), func(c *Config) *int { return &c.SMTPD.OwnHopcountLimit }, 20,
			"The number of Received fields added by this host above which a message is considered to be in a mail loop.",
			"Lower it if no message has a reason to pass through this host twice."),
		define("smtpd_soft_error_limit", count(1, ""), func(c *Config) *int { return &c.SMTPD.SoftErrorLimit }, 10,
			"The number of errors in a session above which further error replies are delayed by smtpd_error_sleep_time.",
			"Raise it for clients that send to long lists with dead addresses."),
		define("smtpd_error_sleep_time", period(time.Second, limit[time.Duration]{min: time.Millisecond, max: time.Minute}), func(c *Config) *time.Duration { return &c.SMTPD.ErrorSleepTime }, time.Second,
			"The delay before each error reply once smtpd_soft_error_limit is exceeded.",
			"Raise it to slow down clients that guess addresses."),
		define("smtpd_hard_error_limit", count(1, ""), func(c *Config) *int { return &c.SMTPD.HardErrorLimit }, 20,
			"The number of errors that ends a session.",
			"Raise it together with smtpd_soft_error_limit."),
		define("smtpd_junk_command_limit", count(1, ""), func(c *Config) *int { return &c.SMTPD.JunkCommandLimit }, 100,
			"The number of commands without effect (NOOP, RSET, VRFY) that a client may send per message before they count as errors.",
			"Raise it for clients that keep connections open with NOOP."),
		define("strict_rfc821_envelopes", flag(), func(c *Config) *bool { return &c.SMTPD.StrictEnvelopes }, true,
			"Whether addresses in MAIL and RCPT must be in angle brackets.",
			"Set it to false, which is Postfix's default, for old programs that leave them out.").unlike("no"),
		define("permit_underscores", flag(), func(c *Config) *bool { return &c.SMTPD.PermitUnderscores }, false,
			"Whether the domains of addresses may contain \"_\".",
			"Set it to true if machines with such names send mail."),
		define("local_part_limit", integer(limit[int]{min: 64, max: 1024}), func(c *Config) *int { return &c.SMTPD.LocalPartLimit }, 64,
			"The length limit, in octets, of the part of an address before the @ (RFC 5321 4.5.3.1.1).",
			"Raise it for list software that encodes the recipient in the sender address."),
	}
}

func connectionParameters() []parameter[Config] {
	count := func(zero string) kind[int] { return integer(limit[int]{min: 1, max: 1_000_000, zero: zero}) }
	wait := period(time.Second, limit[time.Duration]{min: time.Second, max: 24 * time.Hour})
	return []parameter[Config]{
		define("smtpd_connection_limit", count(""), func(c *Config) *int { return &c.SMTPD.ConnectionLimit }, 4000,
			"The number of clients that are served at once; at the limit, the oldest connection without a message is closed.",
			"Raise it if there are more legitimate clients; an idle one takes a few KB."),
		define("smtpd_client_connection_count_limit", count("no limit"), func(c *Config) *int { return &c.SMTPD.ClientConnectionLimit }, 50,
			"The number of connections from one client address.",
			"Raise it for clients that send a lot of mail, or better, add them to smtpd_client_event_limit_exceptions."),
		define("smtpd_prefix_connection_count_limit", count("no limit"), func(c *Config) *int { return &c.SMTPD.PrefixConnectionLimit }, 250,
			"The number of connections from one network of clients.",
			"Raise it if many clients come from one network."),
		define("smtpd_client_ipv4_prefix_length", integer(limit[int]{min: 1, max: 32}), func(c *Config) *int { return &c.SMTPD.IPv4PrefixLength }, 24,
			"The number of leading bits of an IPv4 address that identify a client's network, for limits on networks: smtpd_prefix_connection_count_limit, and the share of one network in smtpd_tls_handshake_limit.",
			"Lower it against clients that own larger networks.").unlike("32"),
		define("smtpd_client_ipv6_prefix_length", integer(limit[int]{min: 1, max: 128}), func(c *Config) *int { return &c.SMTPD.IPv6PrefixLength }, 64,
			"The number of leading bits of an IPv6 address that identify a client's network, for limits on networks: smtpd_prefix_connection_count_limit, the share of one network in smtpd_tls_handshake_limit, and smtpd_auth_failure_limit.",
			"Lower it to 56 or 48 against clients that own such a network.").unlike("84"),
		define("smtpd_client_event_limit_exceptions", list(network(), "networks"), func(c *Config) *[]netip.Prefix { return &c.SMTPD.LimitExceptions }, []netip.Prefix{netip.MustParsePrefix("127.0.0.0/8"), netip.MustParsePrefix("::1/128")},
			"The clients that are exempt from the limits on one client or network: smtpd_client_connection_count_limit, smtpd_prefix_connection_count_limit, the share of one network in smtpd_tls_handshake_limit, and smtpd_auth_failure_limit for their address; the limit of failed logins for a user still applies to them.",
			"Add the machines whose mail this host sends.").unlike("$mynetworks"),
		define("smtpd_refuse_networks", list(network(), "networks"), func(c *Config) *[]netip.Prefix { return &c.SMTPD.RefuseNetworks }, []netip.Prefix{},
			"The clients that are refused with 554.",
			"Set it against persistently abusive clients."),
		define("smtpd_normalize_networks", list(network(), "networks"), func(c *Config) *[]netip.Prefix { return &c.SMTPD.NormalizeNetworks }, []netip.Prefix{},
			"The clients that may end lines with a bare LF, which is repaired instead of refused.",
			"Set it for old devices in your own network, and never for strangers."),
		define("smtpd_greet_pause", period(time.Second, limit[time.Duration]{max: time.Minute, zero: "none"}), func(c *Config) *time.Duration { return &c.SMTPD.GreetPause }, 0,
			"The time before the greeting during which a client must be silent, if smtpd_forbid_unauth_pipelining is set.",
			"Set it to a few seconds against programs that send spam."),
		define("smtpd_starttls_timeout", period(time.Second, limit[time.Duration]{min: time.Second, max: time.Hour}), func(c *Config) *time.Duration { return &c.SMTPD.HandshakeTime }, 30*time.Second,
			"The time limit of a TLS handshake as a whole.",
			"Raise it for clients on very slow links.").unlike("300s"),
		define("smtpd_tls_handshake_limit", count(""), func(c *Config) *int { return &c.SMTPD.HandshakeLimit }, 100,
			"The number of TLS handshakes in progress at once, at most half of them for one client network; beyond the limit, STARTTLS is answered with 454, and a connection to a listener of purpose submissions is closed.",
			"Raise it if the log says that there are too many and the processors are not busy."),
		define("smtpd_timeout", wait, func(c *Config) *time.Duration { return &c.SMTPD.Timeout }, 5*time.Minute,
			"The time that a client may be silent between commands.",
			"Lower it if idle clients fill smtpd_connection_limit; RFC 5321 asks for five minutes."),
		define("smtpd_stress_timeout", wait, func(c *Config) *time.Duration { return &c.SMTPD.StressTimeout }, 10*time.Second,
			"The time that a client may be silent between commands while more than four fifths of smtpd_connection_limit are in use.",
			"Raise it if slow legitimate clients are cut off at busy times."),
		define("smtpd_transaction_time_limit", wait, func(c *Config) *time.Duration { return &c.SMTPD.TransactionTime }, 2*time.Hour,
			"The time limit for a client from MAIL to the end of the content.",
			"Lower it if all clients are nearby."),
		define("smtpd_min_data_rate", count(""), func(c *Config) *int { return &c.SMTPD.MinDataRate }, 500,
			"The minimum average rate, in bytes per second, at which a client must send content with DATA or BDAT.",
			"Lower it for clients on very slow links."),
	}
}

func checkBanner(s string) (string, string) {
	if s == "" {
		return "the banner is empty", `"ESMTP" is the shortest`
	}
	return checkSaid("the banner", s)
}

func checkReason(s string) (string, string) { return checkSaid("the reason", s) }

// checkSaid returns the reason why a text cannot be part of a reply, or "".
func checkSaid(what, s string) (string, string) {
	if len(s) > 256 {
		return what + " is longer than 256 bytes", ""
	}
	for i := 0; i < len(s); i++ {
		if s[i] < ' ' || s[i] > '~' {
			return what + " contains characters other than printable ASCII", ""
		}
	}
	return "", ""
}
