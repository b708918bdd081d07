package config

import (
	"math"
	"net/netip"
	"slices"
	"time"

	"github.com/posthaste-mta/posthaste/mail"
	"github.com/posthaste-mta/posthaste/qmgr"
)

// sending is what a transport of type smtp has besides.
func sending() []parameter[Transport] {
	all := slices.Concat(patience(), hosts(), transactions(), connections())
	for i := range all {
		all[i] = all[i].forSMTP()
	}
	return all
}

// patience is how long each step with a server may take.
func patience() []parameter[Transport] {
	wait := period(time.Second, limit[time.Duration]{min: time.Second, max: 24 * time.Hour})
	return []parameter[Transport]{
		define("connect_timeout", wait, func(t *Transport) *time.Duration { return &t.SMTP.ConnectTimeout }, 30*time.Second,
			"How long connecting to one address may take.",
			"Lower it to get past dead hosts faster.").from("smtp_connect_timeout"),
		define("helo_timeout", wait, func(t *Transport) *time.Duration { return &t.SMTP.HeloTimeout }, 300*time.Second,
			"How long the greeting, and the reply to EHLO, may take.",
			"Lower it to get past stuck hosts faster; some servers make strangers wait for 30 s on purpose.").from("smtp_helo_timeout"),
		define("mail_timeout", wait, func(t *Transport) *time.Duration { return &t.SMTP.MailTimeout }, 300*time.Second,
			"How long the reply to MAIL may take.",
			"Lower it only for servers that you know.").from("smtp_mail_timeout"),
		define("rcpt_timeout", wait, func(t *Transport) *time.Duration { return &t.SMTP.RcptTimeout }, 300*time.Second,
			"How long the reply to RCPT may take, for which many servers ask others.",
			"Lower it only for servers that you know.").from("smtp_rcpt_timeout"),
		define("data_init_timeout", wait, func(t *Transport) *time.Duration { return &t.SMTP.DataInitTimeout }, 120*time.Second,
			"How long the reply to DATA may take.",
			"Lower it only for servers that you know.").from("smtp_data_init_timeout"),
		define("data_xfer_timeout", wait, func(t *Transport) *time.Duration { return &t.SMTP.DataXferTimeout }, 180*time.Second,
			"How long writing up to 64 KiB of a message may take.",
			"Raise it for receivers behind very slow links.").from("smtp_data_xfer_timeout"),
		define("data_done_timeout", wait, func(t *Transport) *time.Duration { return &t.SMTP.DataDoneTimeout }, 600*time.Second,
			"How long the reply to the content may take, while the server may be scanning it.",
			"Raise it if receivers get messages twice: whoever does not wait cannot know that a message was taken.").from("smtp_data_done_timeout"),
		define("rset_timeout", wait, func(t *Transport) *time.Duration { return &t.SMTP.RsetTimeout }, 20*time.Second,
			"How long the reply to RSET may take.",
			"Raise it for slow servers whose connections are worth keeping.").from("smtp_rset_timeout"),
	}
}

// hosts is which are reached, and from where.
func hosts() []parameter[Transport] {
	return []parameter[Transport]{
		define("mx_address_limit", integer(limit[int]{min: 1, max: 1000, zero: "no limit"}), func(t *Transport) *int { return &t.SMTP.MXAddressLimit }, 5,
			"How many addresses of a destination are used until it is looked up again.",
			"Raise it to reach more of a big site's hosts.").from("smtp_mx_address_limit"),
		define("fallback_relay", optional(nexthops(), "for none"), func(t *Transport) *string { return &t.SMTP.FallbackRelay }, "",
			"Where mail goes whose destination cannot be reached.",
			"Set it to a host that keeps trying, so that this one stays fast.").from("smtp_fallback_relay"),
		define("randomize_addresses", flag(), func(t *Transport) *bool { return &t.SMTP.RandomizeAddresses }, true,
			"Whether equally good hosts are tried in random order.",
			"Set it to false if your name server sorts them for a reason.").from("smtp_randomize_addresses"),
		define("site_rollup", flag(), func(t *Transport) *bool { return &t.SMTP.SiteRollup }, true,
			"Whether domains with the same MX hosts are one destination: they share its limits, its connections and its back-off.",
			"Set it to false to count each domain by itself, as Postfix does.").from("smtp_site_rollup"),
		define("merge_domains", flag(), func(t *Transport) *bool { return &t.SMTP.MergeDomains }, false,
			"Whether recipients of different domains share a transaction where the domains share MX hosts.",
			"Set it to true for a transport whose servers are known to take it, such as one provider's.").from("smtp_merge_domains"),
		define("permit_private_hosts", flag(), func(t *Transport) *bool { return &t.SMTP.PermitPrivateHosts }, false,
			"Whether the DNS may send mail to private addresses; routes, relayhost and relays in brackets always may.",
			"Set it to true for mail between hosts of an internal network.").from("smtp_permit_private_hosts"),
		define("bind_address", sourceAddress(), func(t *Transport) *netip.Addr { return &t.SMTP.BindAddress }, netip.Addr{},
			"The address that connections come from.",
			"Set it on a machine with several addresses, of which one has the reputation.").from("smtp_bind_address"),
	}
}

// transactions is how messages are sent on a connection.
func transactions() []parameter[Transport] {
	return []parameter[Transport]{
		define("pipelining", levels(), func(t *Transport) *mail.Level { return &t.SMTP.Pipelining }, mail.LevelOverlap,
			"How much is sent to servers that offer PIPELINING before their replies are waited for: one command; the envelope of a message; the content of a message and the envelope of the next (overlap); or whole messages, for which the server must offer CHUNKING too and pass a probe, once a week (stream).",
			"Set it to group or lockstep for a server behind a proxy that cannot follow; to stream for your own servers over long distances only, since up to pipelining_in_flight messages may be sent twice if a connection breaks.").from("smtp_pipelining"),
		define("pipelining_in_flight", integer(limit[int]{min: 2, max: 16}), func(t *Transport) *int { return &t.SMTP.InFlight }, 4,
			"How many messages may be unanswered on a connection if pipelining is stream.",
			"Raise it for servers far away.").from("smtp_pipelining_in_flight"),
		define("unknown_outcome", words(word[qmgr.UnknownOutcome]{"resend", qmgr.UnknownResend}, word[qmgr.UnknownOutcome]{"hold", qmgr.UnknownHold}), func(t *Transport) *qmgr.UnknownOutcome { return &t.SMTP.UnknownOutcome }, qmgr.UnknownResend,
			"What becomes of a message when the connection breaks between its end and the reply to it, so that nobody knows whether the server has it: it is sent again later, perhaps a second time, or held until an operator decides.",
			"Set it to hold for mail that must not arrive twice, and look at the queue every day."),
	}
}

// connections is for how long, and for how much, each is used.
func connections() []parameter[Transport] {
	return []parameter[Transport]{
		define("connection_cache_time_limit", period(time.Second, limit[time.Duration]{max: time.Hour, zero: "not at all"}), func(t *Transport) *time.Duration { return &t.SMTP.CacheTimeLimit }, 15*time.Second,
			"How long a connection is kept idle for the next delivery.",
			"Lower it for receivers that count idle connections.").from("smtp_connection_cache_time_limit").unlike("2s"),
		define("connection_reuse_time_limit", period(time.Second, limit[time.Duration]{min: time.Second, max: 24 * time.Hour, zero: "no limit"}), func(t *Transport) *time.Duration { return &t.SMTP.ReuseTimeLimit }, 300*time.Second,
			"How old a connection may become.",
			"Lower it if a load balancer is to see us again sooner.").from("smtp_connection_reuse_time_limit"),
		define("connection_reuse_count_limit", integer(limit[int]{min: 1, max: math.MaxInt32, zero: "no limit"}), func(t *Transport) *int { return &t.SMTP.ReuseCountLimit }, 0,
			"How many messages a connection carries.",
			"Set it for receivers that limit it, and answer what is more with an error.").from("smtp_connection_reuse_count_limit"),
	}
}
