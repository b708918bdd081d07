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
			"The name that we give to other servers in EHLO.",
			"Set it if the addresses that connections come from have another name in the DNS."),
		define("smtp_loop_check", flag(), func(c *Config) *bool { return &c.LoopCheck }, true,
			"Whether a server that greets with our name is taken to be ourselves.",
			"Set it to false where several hosts share one name, behind a load balancer for instance."),
		define("smtp_connection_limit", integer(limit[int]{min: 1, max: 1_000_000}), func(c *Config) *int { return &c.SMTPConnectionLimit }, 2000,
			"How many connections to other servers there are at once, idle ones included.",
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
