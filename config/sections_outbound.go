package config

import (
	"strings"
	"time"

	"github.com/posthaste-mta/posthaste/internal/tomlfile"
	"github.com/posthaste-mta/posthaste/route"
)

func routingParameters() []parameter[Config] {
	return []parameter[Config]{
		define("relayhost", optional(nexthops(), "for none"), func(c *Config) *string { return &c.RelayHost }, "",
			"The server for all mail that no route sends elsewhere.",
			"Set it if mail must go through the server of a provider or company."),
		define("credentials", optional(secretPath("/etc/posthaste/credentials.toml"), "for none"), func(c *Config) *string { return &c.Credentials }, "",
			"The file with the users and passwords, or access tokens, with which this host authenticates to other servers (see docs/authentication-sending.md); only its owner or the service's group may be able to read it, and a reload reads it again.",
			"Set it if relayhost, or another server that mail is sent through, demands authentication."),
		routeFileParameters()[0], routeFileParameters()[1],
		define("default_transport", text("transport", `such as "smtp", or "smtp:[mail.example.com]" with a nexthop`, checkTransport), func(c *Config) *string { return &c.DefaultTransport }, route.DefaultTransport,
			"The transport for all mail that no route sends elsewhere.",
			"Change it to send mail with a transport of your own."),
		define("postmaster", optional(mailbox(), "for postmaster at myhostname"), func(c *Config) *string { return &c.Postmaster }, "",
			"The recipient of mail for \"postmaster\" without a domain.",
			"Set it if this host's own name does not receive mail.").onRestart(),
		define("inet_protocols", words(word[route.Families]{"all", route.FamiliesBoth}, word[route.Families]{"ipv4", route.FamiliesIPv4}, word[route.Families]{"ipv6", route.FamiliesIPv6}),
			func(c *Config) *route.Families { return &c.InetProtocols }, route.FamiliesBoth,
			"The IP versions used to send mail.",
			"Set it to ipv4 on a machine whose IPv6 does not work or has a poor reputation."),
	}
}

func checkTransport(s string) (string, string) {
	name, nexthop, _ := strings.Cut(s, ":")
	if !tableName.MatchString(name) {
		return tomlfile.QuoteText(name) + " cannot be the name of a transport", ""
	}
	if strings.TrimSpace(nexthop) == "" {
		return "", ""
	}
	return explainRoute(s, route.Config{DefaultTransport: s}.Validate())
}

func clientParameters() []parameter[Config] {
	return []parameter[Config]{
		define("smtp_helo_name", optional(domain(), "for myhostname"), func(c *Config) *string { return &c.HeloName }, "",
			"The host name sent to other servers in EHLO.",
			"Set it if the DNS has another name for the addresses that connections come from."),
		define("smtp_loop_check", flag(), func(c *Config) *bool { return &c.LoopCheck }, true,
			"Whether a server whose greeting has this host's name is assumed to be this host itself, and is not used, since mail to it would loop.",
			"Set it to false if several hosts share one name, for instance behind a load balancer."),
		define("smtp_connection_limit", integer(limit[int]{min: 1, max: 1_000_000}), func(c *Config) *int { return &c.SMTPConnectionLimit }, 2000,
			"The total number of connections to other servers, including idle ones.",
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
			"The recursive name servers to query, in order of preference; an empty list means those of resolv_conf.",
			"Set it if mail has a name server of its own, which is advisable."),
		define("resolv_conf", file, func(c *Config) *string { return &c.DNS.ResolvConf }, "/etc/resolv.conf",
			"The file that supplies servers, timeout and attempts if they are not set here.",
			"Change it if mail should use other name servers than the rest of the machine."),
		define("hosts_file", file, func(c *Config) *string { return &c.DNS.HostsFile }, "/etc/hosts",
			"The file that is searched for the name of a nexthop in brackets before the DNS is asked.",
			"Set it to /dev/null to use only the DNS."),
		define("trust_ad", flag(), func(c *Config) *bool { return &c.DNS.TrustAD }, false,
			"Whether the AD bit, by which a name server marks answers as validated by DNSSEC, is trusted even if a server is not on a loopback address. If all servers are on loopback addresses, or if they come from resolv_conf and that file has the option trust-ad, the bit is always trusted.",
			"Set it if all servers validate and the network to them is trusted; TLSA records are used only if the bit is trusted."),
		define("timeout", period(time.Second, limit[time.Duration]{min: 100 * time.Millisecond, max: time.Minute, zero: "what resolv_conf says"}), func(c *Config) *time.Duration { return &c.DNS.Timeout }, 0,
			"The time that one name server has to answer a query.",
			"Raise it on a slow link."),
		define("attempts", integer(limit[int]{min: 1, max: 10, zero: "what resolv_conf says"}), func(c *Config) *int { return &c.DNS.Attempts }, 0,
			"The number of passes through the list of servers.",
			"Raise it if packets are often lost."),
		define("deadline", period(time.Second, limit[time.Duration]{min: time.Second, max: time.Hour}), func(c *Config) *time.Duration { return &c.DNS.Deadline }, time.Minute,
			"The time limit for looking up one nexthop, including all queries and attempts.",
			"Lower it if slow lookups hold up deliveries."),
		define("concurrency", integer(limit[int]{min: 1, max: 100_000}), func(c *Config) *int { return &c.DNS.Concurrency }, 200,
			"The number of DNS queries in progress at once.",
			"Lower it if a name server drops bursts."),
		define("cache_entries", count, func(c *Config) *int { return &c.DNS.CacheEntries }, 20000,
			"The number of nexthops, and of DNS queries, whose answers are cached.",
			"Raise it if you send to more domains than that in a day; an entry takes about 1 KB."),
		define("mx_host_limit", integer(limit[int]{min: 1, max: 1000}), func(c *Config) *int { return &c.DNS.HostLimit }, route.DefaultHostsMax,
			"The number of MX hosts of one domain that are looked up, best preference first.",
			"Raise it for domains that hide good hosts behind many dead ones."),
		define("positive_ttl_min", keep, func(c *Config) *time.Duration { return &c.DNS.PositiveMin }, 30*time.Second,
			"The shortest time that DNS records are cached, whatever their TTL.",
			"Raise it if domains with tiny TTLs load the name server."),
		define("positive_ttl_max", keep, func(c *Config) *time.Duration { return &c.DNS.PositiveMax }, 24*time.Hour,
			"The longest time that DNS records are cached, whatever their TTL.",
			"Lower it to follow domains that move without first lowering their TTL."),
		define("negative_ttl_min", keep, func(c *Config) *time.Duration { return &c.DNS.NegativeMin }, 30*time.Second,
			"The shortest time that the absence of a name is cached.",
			"Raise it if mail to nonexistent domains loads the name server."),
		define("negative_ttl_max", keep, func(c *Config) *time.Duration { return &c.DNS.NegativeMax }, time.Hour,
			"The longest time that the absence of a name is cached.",
			"Lower it to notice new domains sooner."),
		define("failure_time_min", keep, func(c *Config) *time.Duration { return &c.DNS.FailureMin }, 5*time.Second,
			"The delay before a name is looked up again after a failed lookup; it doubles with every further failure, up to failure_time_max.",
			"Raise it if a broken name server is queried too often."),
		define("failure_time_max", period(time.Second, limit[time.Duration]{min: time.Second, max: 5 * time.Minute}), func(c *Config) *time.Duration { return &c.DNS.FailureMax }, 30*time.Second,
			"The longest delay between lookups of a name that keep failing.",
			"Raise it if there are many domains with broken name servers."),
		define("stale_max", period(time.Second, limit[time.Duration]{min: time.Second, max: 30 * 24 * time.Hour, zero: "not at all"}), func(c *Config) *time.Duration { return &c.DNS.StaleMax }, time.Hour,
			"The time that expired DNS records may still be used while no name server answers.",
			"Raise it to survive longer failures of your name servers."),
	}
}
