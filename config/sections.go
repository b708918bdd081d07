package config

import (
	"log/slog"
	"math"
	"net/netip"
	"strings"
	"time"

	"github.com/posthaste-mta/posthaste/qmgr"
	"github.com/posthaste-mta/posthaste/route"
)

// The tables of the file that are not [transport.NAME].
const (
	tableTop       = ""
	tableRoutes    = "routes"
	tableDNS       = "dns"
	tableSpool     = "spool"
	tableLog       = "log"
	tableTransport = "transport"
)

// nameHostname is the one parameter whose default comes from the environment.
const nameHostname = "myhostname"

// A section is parameters that the reference treats together.
type section struct {
	title      string
	table      string
	intro      string
	parameters []parameter[Config]
}

// sections is the table of all parameters but those of [transport.NAME], in the
// order in which they are shown. It is made once, because looking a key up
// would otherwise make it anew: a file of 30 lines took 3.5 ms.
var sections = allSections()

func allSections() []section {
	return []section{
		{"This host", tableTop, "Who we are, and where things are kept.", hostParameters()},
		{"Mail that comes in", tableTop, "Where clients connect, and who may send to whom.", inboundParameters()},
		{"Limits on messages", tableTop, "What a client may send in one session.", restarting(messageParameters())},
		{"Limits on clients", tableTop, "How many may come, and how long they may take.", restarting(connectionParameters())},
		{"Where mail goes", tableTop, "Routes for single addresses and domains are in [routes].", routingParameters()},
		{"The queue", tableTop, "How much is held in memory, and when mail is tried again.", queueParameters()},
		{"Reports", tableTop, "What senders are told about mail that could not be delivered.", reportParameters()},
		{"Defaults of transports", tableTop, "What holds for every transport that does not say otherwise in its [transport.NAME].", globals(false)},
		{"Defaults of transports of type smtp", tableTop, "How other servers are talked to, unless [transport.NAME] says otherwise.", append(clientParameters(), globals(true)...)},
		{"Name servers", tableDNS, "How hosts are looked up, and how long answers are remembered.", dnsParameters()},
		{"The spool", tableSpool, "How messages are kept on disk.", restarting(spoolParameters())},
		{"Logging", tableLog, "What is written to standard error.", restarting(logParameters())},
	}
}

// restarting marks parameters of parts that are made once, when the program
// starts.
func restarting(all []parameter[Config]) []parameter[Config] {
	for i := range all {
		all[i] = all[i].onRestart()
	}
	return all
}

func hostParameters() []parameter[Config] {
	path := text("path", "", func(s string) (string, string) {
		if s == "" {
			return "the path is empty", ""
		}
		return "", ""
	})
	socket := optional(text("path", "relative to queue_directory unless it begins with /", checkSocket), "for none")
	return []parameter[Config]{
		define(nameHostname, domain(), func(c *Config) *string { return &c.Hostname }, "",
			"The name of this host, in greetings, in Received fields, in reports and for addresses without a domain.",
			"Set it if the machine's own name is not the full name under which the Internet knows it.").onRestart(),
		define("queue_directory", path, func(c *Config) *string { return &c.QueueDirectory }, "./posthaste-data",
			"The directory that holds all queued mail; it is made if it does not exist.",
			"Set it to a local disk with room for the largest backlog you want to survive.").onRestart(),
		define("admin_socket", socket, func(c *Config) *string { return &c.AdminSocket }, "admin.sock",
			"The unix socket of the administration API, which the posthaste command talks to.",
			"Set it if operators who may not enter the queue directory are to use the command.").onRestart(),
		define("submission_socket", socket, func(c *Config) *string { return &c.SubmissionSocket }, "submit.sock",
			"The unix socket through which programs on this machine hand in mail, the sendmail command among them.",
			"Set it if the queue directory is closed to those programs, or to \"\" if they are to use SMTP.").onRestart(),
		define("shutdown_time", period(time.Second, limit[time.Duration]{max: time.Hour, zero: "not waiting"}), func(c *Config) *time.Duration { return &c.ShutdownTime }, 30*time.Second,
			"How long a stop waits for deliveries that are under way before it cuts them off.",
			"Raise it if messages are large and a delivery that is cut off would often be made twice.").onRestart(),
	}
}

// socketPathMax is how long the path of a unix socket may be on every system:
// 104 octets with the zero at its end on the BSDs, 108 on Linux.
const socketPathMax = 103

func checkSocket(s string) (string, string) {
	if len(s) > socketPathMax {
		return "a unix socket's path cannot be longer than 103 octets", ""
	}
	return "", ""
}

func inboundParameters() []parameter[Config] {
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
			"How many connections one IPv4 /24 or IPv6 /64 may have.",
			"Raise it if many clients come from one network."),
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
			"How many octets a second a client must send on average while content is waited for.",
			"Lower it for clients behind very thin lines."),
	}
}

func checkBanner(s string) (string, string) {
	if len(s) > 256 {
		return "the banner is longer than 256 octets", ""
	}
	for i := 0; i < len(s); i++ {
		if s[i] < ' ' || s[i] > '~' {
			return "the banner contains something else than printable ASCII", ""
		}
	}
	if s == "" {
		return "the banner is empty", `"ESMTP" says least`
	}
	return "", ""
}

func routingParameters() []parameter[Config] {
	return []parameter[Config]{
		define("relayhost", optional(nexthops(), "for none"), func(c *Config) *string { return &c.RelayHost }, "",
			"The server to which all mail goes that no route sends elsewhere.",
			"Set it where a provider's or a company's server must be used."),
		define("default_transport", text("transport", `such as "smtp", or "smtp:[mail.example.com]" with a nexthop`, checkTransport), func(c *Config) *string { return &c.DefaultTransport }, route.DefaultTransport,
			"The transport of all mail that no route sends elsewhere.",
			"Change it to send by a transport of your own."),
		define("postmaster", optional(mailbox(), "for postmaster at myhostname"), func(c *Config) *string { return &c.Postmaster }, "",
			"Who gets mail for \"postmaster\" without a domain.",
			"Set it where this host's own name does not receive mail.").onRestart(),
		define("inet_protocols", words(word[route.Families]{"all", route.FamiliesBoth}, word[route.Families]{"ipv4", route.FamiliesIPv4}, word[route.Families]{"ipv6", route.FamiliesIPv6}),
			func(c *Config) *route.Families { return &c.InetProtocols }, route.FamiliesBoth,
			"The kinds of addresses that mail is sent to.",
			"Set it to ipv4 on a machine whose IPv6 connections lead nowhere, or are trusted by nobody."),
	}
}

func checkTransport(s string) (string, string) {
	name, nexthop, _ := strings.Cut(s, ":")
	if !transportName.MatchString(name) {
		return quoteText(name) + " cannot be the name of a transport", ""
	}
	if strings.TrimSpace(nexthop) == "" {
		return "", ""
	}
	return explainRoute(s, route.Config{DefaultTransport: s}.Validate())
}

func queueParameters() []parameter[Config] {
	count := integer(limit[int]{min: 1, max: 10_000_000})
	wait := limit[time.Duration]{min: time.Second}
	return []parameter[Config]{
		define("qmgr_message_active_limit", count, func(c *Config) *int { return &c.Queue.ActiveLimit }, 20000,
			"How many messages are in memory at once; the others wait on disk.",
			"Raise it when many destinations are slow at the same time; a message takes about 1 KB."),
		define("qmgr_message_recipient_limit", count, func(c *Config) *int { return &c.Queue.RecipientLimit }, 20000,
			"How many recipients are in memory at once, and never fewer than qmgr_message_active_limit.",
			"Raise it for messages with very many recipients; a recipient takes about 150 octets."),
		define("qmgr_message_recipient_minimum", count, func(c *Config) *int { return &c.Queue.RecipientMinimum }, 10,
			"How many recipients each message may have in memory, whatever the others have.",
			"Raise it if messages with many recipients stall others of their kind."),
		define("in_flow_delay", period(time.Second, limit[time.Duration]{max: 10 * time.Second, zero: "none"}), func(c *Config) *time.Duration { return &c.Queue.InFlowDelay }, time.Second,
			"How long a message waits at the door while delivery has fallen behind.",
			"Set it to 0 where bursts must be taken in at once, however long they take to go out."),
		define("queue_minfree", size(limit[int64]{min: 1 << 20}), func(c *Config) *int64 { return &c.Queue.MinFree }, 256<<20,
			"The free space on the disk below which no mail is taken in.",
			"Raise it on a disk that is shared with other writers.").unlike("0").onRestart(),
		define("minimal_backoff_time", period(time.Second, wait), func(c *Config) *time.Duration { return &c.Retry.MinimalBackoff }, 300*time.Second,
			"The shortest wait between two attempts, and how long a dead destination is left alone.",
			"Lower it where greylisting is common and mail is urgent."),
		define("maximal_backoff_time", period(time.Second, wait), func(c *Config) *time.Duration { return &c.Retry.MaximalBackoff }, 4000*time.Second,
			"The longest wait between two attempts.",
			"Raise it to spend less on destinations that are away for days."),
		define("backoff_jitter", percent(), func(c *Config) *int { return &c.Retry.JitterPercent }, 10,
			"How far a wait may differ from the message's age, so that mail that was deferred together does not come back together.",
			"Raise it where outages leave bursts of retries."),
		define("maximal_queue_lifetime", period(24*time.Hour, limit[time.Duration]{max: 100 * 24 * time.Hour, zero: "a single attempt"}), func(c *Config) *time.Duration { return &c.Retry.MaximalLifetime }, 5*24*time.Hour,
			"The age at which mail that cannot be delivered is returned.",
			"Lower it where late mail is worth nothing, such as one-time passwords."),
		define("bounce_queue_lifetime", period(24*time.Hour, limit[time.Duration]{max: 100 * 24 * time.Hour, zero: "a single attempt"}), func(c *Config) *time.Duration { return &c.Retry.BounceLifetime }, 5*24*time.Hour,
			"The same for reports and other mail from the null sender; never more than maximal_queue_lifetime.",
			"Lower it if undeliverable reports fill the queue."),
		define("delay_warning_time", period(time.Hour, limit[time.Duration]{max: 100 * 24 * time.Hour, zero: "never"}), func(c *Config) *time.Duration { return &c.Retry.DelayWarningTime }, 0,
			"The age at which the sender is told, once, that a message is still waiting.",
			"Set it to 4h where senders are people."),
	}
}

func reportParameters() []parameter[Config] {
	return []parameter[Config]{
		define("bounce_size_limit", size(limit[int64]{min: 1, max: 10 << 20}), func(c *Config) *int64 { return &c.Reports.SizeLimit }, 50<<10,
			"The largest message that is given back whole to a sender who asks for it; of larger ones it is the header.",
			"Raise it if senders keep no copies.").unlike("50000").onRestart(),
		define("bounce_recipient_limit", integer(limit[int]{min: 1, max: 10_000}), func(c *Config) *int { return &c.Reports.RecipientLimit }, 5000,
			"How many recipients one report is about.",
			"Lower it if senders' programs choke on long reports.").onRestart(),
		define("bounce_footer", footer(), func(c *Config) *string { return &c.Reports.Footer }, "",
			"Text that is added to the part of reports that people read.",
			"Set it to a telephone number, or to the same in a second language.").onRestart(),
		define("double_bounce", words(word[qmgr.DoubleBounce]{"hold", qmgr.DoubleBounceHold}, word[qmgr.DoubleBounce]{"discard", qmgr.DoubleBounceDiscard}, word[qmgr.DoubleBounce]{"report", qmgr.DoubleBounceReport}),
			func(c *Config) *qmgr.DoubleBounce { return &c.Reports.DoubleBounce }, qmgr.DoubleBounceHold,
			"What becomes of undeliverable mail from the null sender: it is set aside, thrown away, or sent to 2bounce_notice_recipient.",
			"Set it to discard where nobody looks at what is held."),
		define("2bounce_notice_recipient", optional(mailbox(), "for postmaster"), func(c *Config) *string { return &c.Reports.DoubleBounceTo }, "",
			"Who gets it if double_bounce is report.",
			"Set it if somebody else than the postmaster looks after it.").onRestart(),
	}
}

// globals returns the top-level parameters that set defaults of transports:
// those of type smtp, or the others.
func globals(smtp bool) []parameter[Config] {
	var all []parameter[Config]
	for _, p := range allTransportParameters() {
		if p.global != "" && p.smtp == smtp {
			all = append(all, asGlobal(p))
		}
	}
	return all
}

func clientParameters() []parameter[Config] {
	return []parameter[Config]{
		define("smtp_helo_name", optional(domain(), "for myhostname"), func(c *Config) *string { return &c.HeloName }, "",
			"The name that we give to other servers in EHLO.",
			"Set it if the addresses that connections come from have another name in the DNS."),
		define("smtp_loop_check", flag(), func(c *Config) *bool { return &c.LoopCheck }, true,
			"Whether a server that greets with our name is taken to be ourselves.",
			"Set it to false where several hosts share one name, behind a load balancer for instance."),
		define("smtp_connection_cache_limit", integer(limit[int]{min: 1, max: 1_000_000}), func(c *Config) *int { return &c.CacheLimit }, 1000,
			"How many idle connections are kept in all.",
			"Lower it if file descriptors are scarce."),
	}
}

func dnsParameters() []parameter[Config] {
	file := text("path", "", func(s string) (string, string) {
		if s == "" {
			return "the path is empty", "/dev/null is an empty file"
		}
		return "", ""
	})
	count := integer(limit[int]{min: 1, max: 10_000_000})
	keep := period(time.Second, limit[time.Duration]{min: time.Second, max: 30 * 24 * time.Hour})
	return []parameter[Config]{
		define("servers", list(nameServer(), "addresses"), func(c *Config) *[]string { return &c.DNS.Servers }, []string{},
			"The recursive name servers to ask, in order of preference; none means those of resolv_conf.",
			"Set it where mail has a name server of its own, which is advisable."),
		define("resolv_conf", file, func(c *Config) *string { return &c.DNS.ResolvConf }, "/etc/resolv.conf",
			"The file that names servers, timeout and attempts where they are not set here.",
			"Change it if mail is to use other servers than the rest of the machine."),
		define("hosts_file", file, func(c *Config) *string { return &c.DNS.HostsFile }, "/etc/hosts",
			"The file in which a nexthop in brackets is looked up first.",
			"Set it to /dev/null if the DNS is to decide alone."),
		define("timeout", period(time.Second, limit[time.Duration]{min: 100 * time.Millisecond, max: time.Minute, zero: "what resolv_conf says"}), func(c *Config) *time.Duration { return &c.DNS.Timeout }, 0,
			"How long one server may take to answer.",
			"Raise it on a slow link."),
		define("attempts", integer(limit[int]{min: 1, max: 10, zero: "what resolv_conf says"}), func(c *Config) *int { return &c.DNS.Attempts }, 0,
			"How many times the list of servers is gone through.",
			"Raise it where packets are often lost."),
		define("deadline", period(time.Second, limit[time.Duration]{min: time.Second, max: time.Hour}), func(c *Config) *time.Duration { return &c.DNS.Deadline }, time.Minute,
			"How long looking up one nexthop may take, all questions and attempts together.",
			"Lower it if slow look-ups hold up deliveries."),
		define("concurrency", integer(limit[int]{min: 1, max: 100_000}), func(c *Config) *int { return &c.DNS.Concurrency }, 200,
			"How many questions are under way at once.",
			"Lower it where a name server drops bursts."),
		define("cache_entries", count, func(c *Config) *int { return &c.DNS.CacheEntries }, 20000,
			"How many nexthops, and how many questions, are remembered.",
			"Raise it if you send to more domains than that in a day; an entry takes about 1 KB."),
		define("mx_host_limit", integer(limit[int]{min: 1, max: 1000}), func(c *Config) *int { return &c.DNS.HostLimit }, route.DefaultHostsMax,
			"How many MX hosts of one domain are looked up, the best first.",
			"Raise it for domains that hide good hosts behind many dead ones."),
		define("positive_ttl_min", keep, func(c *Config) *time.Duration { return &c.DNS.PositiveMin }, 30*time.Second,
			"How long records are used at least, whatever their TTL.",
			"Raise it if domains with tiny TTLs load the name server."),
		define("positive_ttl_max", keep, func(c *Config) *time.Duration { return &c.DNS.PositiveMax }, 24*time.Hour,
			"How long records are used at most.",
			"Lower it to follow domains that move without lowering their TTL first."),
		define("negative_ttl_min", keep, func(c *Config) *time.Duration { return &c.DNS.NegativeMin }, 30*time.Second,
			"How long the absence of a name is believed at least.",
			"Raise it if mail to domains that do not exist loads the name server."),
		define("negative_ttl_max", keep, func(c *Config) *time.Duration { return &c.DNS.NegativeMax }, time.Hour,
			"How long the absence of a name is believed at most.",
			"Lower it to notice new domains sooner."),
		define("failure_time_min", keep, func(c *Config) *time.Duration { return &c.DNS.FailureMin }, 5*time.Second,
			"How long after a failed look-up a name is asked for again; it doubles with every further failure.",
			"Raise it if a broken name server is asked too often."),
		define("failure_time_max", period(time.Second, limit[time.Duration]{min: time.Second, max: 5 * time.Minute}), func(c *Config) *time.Duration { return &c.DNS.FailureMax }, 30*time.Second,
			"How far it doubles.",
			"Raise it if domains with broken servers are many."),
		define("stale_max", period(time.Second, limit[time.Duration]{min: time.Second, max: 30 * 24 * time.Hour, zero: "not at all"}), func(c *Config) *time.Duration { return &c.DNS.StaleMax }, time.Hour,
			"How long records are used beyond their time while no server answers.",
			"Raise it to outlive longer failures of your name servers."),
	}
}

func spoolParameters() []parameter[Config] {
	return []parameter[Config]{
		define("inline_limit", size(limit[int64]{min: 1, max: 1 << 20}), func(c *Config) *int64 { return &c.Spooling.InlineLimit }, 64<<10,
			"The largest message that is kept inside the store; larger ones are files.",
			"Raise it where most mail is a little larger and memory is plentiful."),
		define("ballast_size", size(limit[int64]{min: 4 << 10}), func(c *Config) *int64 { return &c.Spooling.Ballast }, 64<<20,
			"The size of a file that is deleted when the disk runs full, so that the queue can still be emptied.",
			"Raise it if the disk fills up quickly."),
		define("memtable_size", size(limit[int64]{min: 64 << 10, max: 1 << 30}), func(c *Config) *int64 { return &c.Spooling.MemTable }, 32<<20,
			"How much is written before it goes to a table file; mail that is gone by then never does.",
			"Raise it where more mail than that is in flight and memory is plentiful."),
		define("memtables", integer(limit[int]{min: 2, max: 64}), func(c *Config) *int { return &c.Spooling.MemTables }, 4,
			"How many such memories there may be before writers wait for the disk.",
			"Raise it on a disk that is fast on average and stalls now and then."),
		define("cache_size", size(limit[int64]{min: 1 << 20}), func(c *Config) *int64 { return &c.Spooling.Cache }, 32<<20,
			"The memory in which blocks of table files are kept.",
			"Raise it if a large backlog is read again and again."),
		define("sync_interval", period(time.Second, limit[time.Duration]{max: time.Second, zero: "none"}), func(c *Config) *time.Duration { return &c.Spooling.SyncInterval }, 0,
			"The least time between two syncs of the log.",
			"Set it to 300us or 500us on a slow disk, to commit larger groups."),
		define("slow_disk_time", period(time.Second, limit[time.Duration]{min: 100 * time.Millisecond}), func(c *Config) *time.Duration { return &c.Spooling.SlowDisk }, 5*time.Second,
			"How long one disk operation may take before an alarm is raised.",
			"Lower it to hear of a failing disk sooner."),
		define("maintenance_interval", period(time.Second, limit[time.Duration]{min: time.Second}), func(c *Config) *time.Duration { return &c.Spooling.Maintenance }, time.Minute,
			"The time between two rounds of maintenance, which removes orphaned files.",
			"Raise it if the queue directory holds hundreds of thousands of files."),
		define("readers", integer(limit[int]{min: 1, max: 256}), func(c *Config) *int { return &c.Spooling.Readers }, 4,
			"How many reads of the spool go on at once.",
			"Raise it on a disk that is fast only for parallel reads."),
	}
}

func logParameters() []parameter[Config] {
	return []parameter[Config]{
		define("level", words(word[slog.Level]{"debug", slog.LevelDebug}, word[slog.Level]{"info", slog.LevelInfo}, word[slog.Level]{"warn", slog.LevelWarn}, word[slog.Level]{"error", slog.LevelError}),
			func(c *Config) *slog.Level { return &c.Log.Level }, slog.LevelInfo,
			"The least important records that are written; each recipient's outcome is info.",
			"Set it to debug to see connections, and to warn only if the outcomes are kept elsewhere."),
		define("format", words(word[LogFormat]{"text", LogText}, word[LogFormat]{"json", LogJSON}),
			func(c *Config) *LogFormat { return &c.Log.Format }, LogText,
			"How records are written: as key=value, or as one JSON object per line.",
			"Set it to json if a program reads them."),
	}
}
