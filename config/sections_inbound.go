package config

import (
	"math"
	"net/netip"
	"time"
)

func inboundParameters() []parameter[Config] {
	reason := optional(text("text", "printable ASCII", checkReason), "for what was found out")
	believed := period(time.Second, limit[time.Duration]{min: time.Second, max: 1000 * 24 * time.Hour})
	return []parameter[Config]{
		define("listen", list(listener(), "addresses"), func(c *Config) *[]netip.AddrPort { return &c.Listen }, []netip.AddrPort{netip.MustParseAddrPort("127.0.0.1:2525")},
			"The addresses and ports on which SMTP clients are served.",
			"Set it to \":25\" or another address to take mail from other machines, and mynetworks with it.").onRestart(),
		define("proxy_interfaces", list(address(), "IP addresses"), func(c *Config) *[]netip.Addr { return &c.ProxyInterfaces }, []netip.Addr{},
			"Addresses of a proxy or address translator that forwards to us, which are not tried when mail goes out.",
			"Set it if mail is forwarded to us from an address that this machine does not have."),
		define("mynetworks", list(network(), "networks"), func(c *Config) *[]netip.Prefix { return &c.MyNetworks }, []netip.Prefix{netip.MustParsePrefix("127.0.0.0/8"), netip.MustParsePrefix("::1/128")},
			"The clients that may send mail to everybody.",
			"Add the networks of the machines whose mail this host sends, and nothing wider."),
		define("relay_domains", list(relayDomain(), "domains"), func(c *Config) *[]string { return &c.RelayDomains }, []string{},
			"The domains to which everybody may send; \".example.com\" stands for all names below example.com.",
			"Set it on a host that takes in mail from the Internet for these domains."),
		define("permit_address_literals", flag(), func(c *Config) *bool { return &c.Relay.AddressLiterals }, false,
			"Whether recipients such as user@[192.0.2.1] are accepted from mynetworks.",
			"Set it to true for test equipment that has no names."),
		define("permit_unqualified_domains", flag(), func(c *Config) *bool { return &c.Relay.UnqualifiedDomains }, false,
			"Whether recipients whose domain has no dot are accepted from mynetworks.",
			"Set it to true in a closed network that has such names."),
		define("permit_routed_addresses", flag(), func(c *Config) *bool { return &c.Relay.RoutedAddresses }, false,
			"Whether recipients with %, ! or a quoted @ before the @ are accepted from mynetworks.",
			"Set it to true only if no server behind this one takes them for routes."),
		define("verify_recipients", words(word[Verification]{"no", VerifyNothing}, word[Verification]{"route", VerifyRoute}, word[Verification]{"callout", VerifyCallout}), func(c *Config) *Verification { return &c.SMTPD.Verify.Recipients }, VerifyNothing,
			"Whether a client on TCP is told at RCPT if mail for the recipient's domain cannot be sent anywhere (route), or if its receiver, which is asked, would refuse the recipient (callout); or if that cannot be found out now.",
			"Set it to route where clients can correct an address, or where senders are strangers, to whom nothing should be returned; to callout in front of servers of your own that know their recipients, for others may take it for an attack."),
		define("verify_limit", integer(limit[int]{min: 1, max: 100_000}), func(c *Config) *int { return &c.SMTPD.Verify.Limit }, 10,
			"How many look-ups for that are under way at once, and never more than half of lookup_limit; and how many call-outs.",
			"Raise it if clients hear too often that it cannot be found out."),
		define("verify_network_limit", integer(limit[int]{min: 1, max: 100_000}), func(c *Config) *int { return &c.SMTPD.Verify.NetworkLimit }, 2,
			"How many of them for clients of one network, which is an IPv4 /24 or IPv6 /64.",
			"Raise it up to verify_limit where all clients are in your own network."),
		define("verify_deadline", period(time.Second, limit[time.Duration]{min: 100 * time.Millisecond, max: 5 * time.Minute}), func(c *Config) *time.Duration { return &c.SMTPD.Verify.Deadline }, 5*time.Second,
			"After which time the client is told 450, and may ask again.",
			"Raise it where the name server is slow; clients wait for five minutes at least (RFC 5321)."),
		define("verify_positive_time", period(time.Second, limit[time.Duration]{min: time.Second, max: 100 * 24 * time.Hour}), func(c *Config) *time.Duration { return &c.SMTPD.Verify.PositiveTime }, 24*time.Hour,
			"How long it is believed that a domain takes mail.",
			"Lower it where domains vanish often."),
		define("verify_negative_time", period(time.Second, limit[time.Duration]{min: time.Second, max: 24 * time.Hour}), func(c *Config) *time.Duration { return &c.SMTPD.Verify.NegativeTime }, time.Hour,
			"How long it is believed that it does not.",
			"Lower it where new domains must be usable at once."),
		define("address_verify_sender", sender(), func(c *Config) *string { return &c.SMTPD.Verify.Sender }, "",
			"The sender that receivers are told who are asked about a recipient.",
			"Set it to an address of yours that takes all mail, for receivers that refuse the null sender.").unlike("$double_bounce_sender"),
		define("unverified_recipient_reject_reason", reason, func(c *Config) *string { return &c.SMTPD.Verify.RejectReason }, "",
			"What a client is told, after 550 5.1.1, whose recipient its receiver refuses.",
			"Set it to keep the receiver's name, address and words from strangers."),
		define("unverified_recipient_defer_reason", reason, func(c *Config) *string { return &c.SMTPD.Verify.DeferReason }, "",
			"What a client is told, after 450 4.1.1, if the receiver cannot be asked, or does not say.",
			"Set it to keep the receiver's name, address and words from strangers; what this host has found out itself is never told."),
		define("address_verify_positive_expire_time", believed, func(c *Config) *time.Duration { return &c.SMTPD.Verify.AddressPositive }, 31*24*time.Hour,
			"How long it is believed that a receiver takes mail for an address.",
			"Lower it where people leave often."),
		define("address_verify_positive_refresh_time", believed, func(c *Config) *time.Duration { return &c.SMTPD.Verify.AddressPositiveRefresh }, 7*24*time.Hour,
			"After which time it is asked again, while that is still believed.",
			"Lower it together with address_verify_positive_expire_time."),
		define("address_verify_negative_expire_time", believed, func(c *Config) *time.Duration { return &c.SMTPD.Verify.AddressNegative }, 3*24*time.Hour,
			"How long it is believed that it refuses it.",
			"Lower it where new addresses must be usable soon."),
		define("address_verify_negative_refresh_time", believed, func(c *Config) *time.Duration { return &c.SMTPD.Verify.AddressNegativeRefresh }, 3*time.Hour,
			"After which time it is asked again, while that is still believed.",
			"Lower it to hear sooner of new addresses."),
		define("address_verify_limit", integer(limit[int]{min: 1, max: 10_000_000}), func(c *Config) *int { return &c.SMTPD.Verify.AddressLimit }, 50_000,
			"How many addresses are remembered; each takes about 300 octets, and a stop forgets them.",
			"Raise it if there are more recipients than that."),
	}
}

func messageParameters() []parameter[Config] {
	count := func(least int, zero string) kind[int] {
		return integer(limit[int]{min: least, max: math.MaxInt32, zero: zero})
	}
	return []parameter[Config]{
		define("smtpd_banner", text("text", "printable ASCII", checkBanner), func(c *Config) *string { return &c.SMTPD.Banner }, "ESMTP Posthaste",
			"What follows the host name in the greeting.",
			"Change it if clients must not learn the program's name."),
		define("message_size_limit", size(limit[int64]{min: 64 << 10, zero: "no limit"}), func(c *Config) *int64 { return &c.SMTPD.MessageSizeLimit }, 10240000,
			"The largest message that is taken in.",
			"Raise it to what the servers accept to which you send; most take 20 to 50 MB."),
		define("smtpd_recipient_limit", count(100, "no limit"), func(c *Config) *int { return &c.SMTPD.RecipientLimit }, 1000,
			"How many recipients a message may have; clients send the rest in another message.",
			"Raise it for list software that cannot split."),
		define("smtpd_recipient_overshoot_limit", count(1, ""), func(c *Config) *int { return &c.SMTPD.RecipientOvershoot }, 1000,
			"How many recipients beyond the limit are answered with 452 before the session is ended.",
			"Raise it for clients that ignore the 452."),
		define("line_length_limit", size(limit[int64]{min: 1000, max: 1 << 20}), func(c *Config) *int64 { return &c.SMTPD.LineLengthLimit }, 64<<10,
			"The longest line of a message, which is refused if it has a longer one.",
			"Raise it for programs that write a whole document in one line.").unlike("2048"),
		define("header_size_limit", size(limit[int64]{min: 4 << 10, max: 16 << 20}), func(c *Config) *int64 { return &c.SMTPD.HeaderSizeLimit }, 1<<20,
			"The largest message header, in all.",
			"Lower it where mail comes from strangers; no ordinary header has 64K.").unlike("102400"),
		define("hopcount_limit", count(1, ""), func(c *Config) *int { return &c.SMTPD.HopcountLimit }, 100,
			"How many Received fields a message may have before it is taken to go round in circles.",
			"Lower it to end loops sooner; the longest honest ways have some 30.").unlike("50"),
		define("own_hopcount_limit", count(1, ""), func(c *Config) *int { return &c.SMTPD.OwnHopcountLimit }, 20,
			"How many of these fields may be ours.",
			"Lower it where no message has a reason to come twice."),
		define("smtpd_soft_error_limit", count(1, ""), func(c *Config) *int { return &c.SMTPD.SoftErrorLimit }, 10,
			"How many errors a client may make before each further one is answered late.",
			"Raise it for clients that send to long lists with dead addresses."),
		define("smtpd_error_sleep_time", period(time.Second, limit[time.Duration]{min: time.Millisecond, max: time.Minute}), func(c *Config) *time.Duration { return &c.SMTPD.ErrorSleepTime }, time.Second,
			"How late.",
			"Raise it to slow down clients that guess addresses."),
		define("smtpd_hard_error_limit", count(1, ""), func(c *Config) *int { return &c.SMTPD.HardErrorLimit }, 20,
			"How many errors end a session.",
			"Raise it together with smtpd_soft_error_limit."),
		define("smtpd_junk_command_limit", count(1, ""), func(c *Config) *int { return &c.SMTPD.JunkCommandLimit }, 100,
			"How many commands that lead to nothing (NOOP, RSET, VRFY) a client may give per message before they count as errors.",
			"Raise it for clients that keep connections open with NOOP."),
		define("strict_rfc821_envelopes", flag(), func(c *Config) *bool { return &c.SMTPD.StrictEnvelopes }, true,
			"Whether addresses in MAIL and RCPT must stand in angle brackets.",
			"Set it to false, which is Postfix's default, for old programs that leave them out.").unlike("no"),
		define("permit_underscores", flag(), func(c *Config) *bool { return &c.SMTPD.PermitUnderscores }, false,
			"Whether the domains of addresses may contain \"_\".",
			"Set it to true if machines with such names send mail."),
		define("local_part_limit", integer(limit[int]{min: 64, max: 1024}), func(c *Config) *int { return &c.SMTPD.LocalPartLimit }, 64,
			"How long the part of an address before the @ may be, in octets.",
			"Raise it for list software that packs the recipient into the sender."),
	}
}

func connectionParameters() []parameter[Config] {
	count := func(zero string) kind[int] { return integer(limit[int]{min: 1, max: 1_000_000, zero: zero}) }
	wait := period(time.Second, limit[time.Duration]{min: time.Second, max: 24 * time.Hour})
	return []parameter[Config]{
		define("smtpd_connection_limit", count(""), func(c *Config) *int { return &c.SMTPD.ConnectionLimit }, 4000,
			"How many clients are served at once; at the limit, the oldest without a message makes room.",
			"Raise it if there are more honest clients; an idle one takes some KB."),
		define("smtpd_client_connection_count_limit", count("no limit"), func(c *Config) *int { return &c.SMTPD.ClientConnectionLimit }, 50,
			"How many connections one client address may have.",
			"Raise it for clients that send very much; better put them into smtpd_client_event_limit_exceptions."),
		define("smtpd_prefix_connection_count_limit", count("no limit"), func(c *Config) *int { return &c.SMTPD.PrefixConnectionLimit }, 250,
			"How many connections one network of clients may have.",
			"Raise it if many clients come from one network."),
		define("smtpd_client_ipv4_prefix_length", integer(limit[int]{min: 1, max: 32}), func(c *Config) *int { return &c.SMTPD.IPv4PrefixLength }, 24,
			"The number of leading bits of an IPv4 address that name a client's network, for smtpd_prefix_connection_count_limit.",
			"Lower it against clients that own larger networks.").unlike("32"),
		define("smtpd_client_ipv6_prefix_length", integer(limit[int]{min: 1, max: 128}), func(c *Config) *int { return &c.SMTPD.IPv6PrefixLength }, 64,
			"The number of leading bits of an IPv6 address that name a client's network, for smtpd_prefix_connection_count_limit.",
			"Lower it to 56 or 48 against clients that own such a network.").unlike("84"),
		define("smtpd_client_event_limit_exceptions", list(network(), "networks"), func(c *Config) *[]netip.Prefix { return &c.SMTPD.LimitExceptions }, []netip.Prefix{netip.MustParsePrefix("127.0.0.0/8"), netip.MustParsePrefix("::1/128")},
			"The clients that are exempt from these two limits.",
			"Add the machines whose mail this host sends.").unlike("$mynetworks"),
		define("smtpd_refuse_networks", list(network(), "networks"), func(c *Config) *[]netip.Prefix { return &c.SMTPD.RefuseNetworks }, []netip.Prefix{},
			"The clients that are told 554 and get no service.",
			"Set it against clients that do harm and do not stop."),
		define("smtpd_normalize_networks", list(network(), "networks"), func(c *Config) *[]netip.Prefix { return &c.SMTPD.NormalizeNetworks }, []netip.Prefix{},
			"The clients that may end lines with a bare LF, which is repaired instead of refused.",
			"Set it for old devices in your own network, and never for strangers."),
		define("smtpd_forbid_unauth_pipelining", flag(), func(c *Config) *bool { return &c.SMTPD.ForbidEarly }, false,
			"Whether a TCP client that does not wait for replies where it must is told 554; otherwise it is only logged.",
			"Set it to true on a host that takes in mail from the Internet.").unlike("yes"),
		define("smtpd_greet_pause", period(time.Second, limit[time.Duration]{max: time.Minute, zero: "none"}), func(c *Config) *time.Duration { return &c.SMTPD.GreetPause }, 0,
			"How long a client must be silent before it is greeted, if smtpd_forbid_unauth_pipelining is set.",
			"Set it to a few seconds against programs that send spam."),
		define("smtpd_timeout", wait, func(c *Config) *time.Duration { return &c.SMTPD.Timeout }, 5*time.Minute,
			"How long a client may be silent between commands.",
			"Lower it if idle clients fill smtpd_connection_limit; RFC 5321 asks for five minutes."),
		define("smtpd_stress_timeout", wait, func(c *Config) *time.Duration { return &c.SMTPD.StressTimeout }, 10*time.Second,
			"The same while more than four fifths of smtpd_connection_limit are in use.",
			"Raise it if slow honest clients are cut off in busy hours."),
		define("smtpd_transaction_time_limit", wait, func(c *Config) *time.Duration { return &c.SMTPD.TransactionTime }, 2*time.Hour,
			"How long a client may take from MAIL to the end of the content.",
			"Lower it where all clients are near."),
		define("smtpd_min_data_rate", count(""), func(c *Config) *int { return &c.SMTPD.MinDataRate }, 500,
			"The least average number of bytes a second that a client must send while content is waited for, by DATA or in chunks.",
			"Lower it for clients behind very thin lines."),
	}
}

func checkBanner(s string) (string, string) {
	if s == "" {
		return "the banner is empty", `"ESMTP" says least`
	}
	return checkSaid("the banner", s)
}

func checkReason(s string) (string, string) { return checkSaid("the reason", s) }

// checkSaid tells what keeps a text from being said in a reply.
func checkSaid(what, s string) (string, string) {
	if len(s) > 256 {
		return what + " is longer than 256 octets", ""
	}
	for i := 0; i < len(s); i++ {
		if s[i] < ' ' || s[i] > '~' {
			return what + " contains something else than printable ASCII", ""
		}
	}
	return "", ""
}
