package config

import (
	"math"
	"net/netip"
	"slices"
	"time"

	"github.com/posthaste-mta/posthaste/mail"
	"github.com/posthaste-mta/posthaste/qmgr"
)

// sending returns the additional parameters of transports of type smtp.
func sending() []parameter[Transport] {
	all := slices.Concat(patience(), hosts(), transactions(), connections(), protection())
	for i := range all {
		all[i] = all[i].forSMTP()
	}
	return all
}

// patience returns the time limits of the steps of a session.
func patience() []parameter[Transport] {
	wait := period(time.Second, limit[time.Duration]{min: time.Second, max: 24 * time.Hour})
	return []parameter[Transport]{
		transportParameter("connect_timeout", wait, func(t *Transport) *time.Duration { return &t.SMTP.ConnectTimeout },
			"The time limit for connecting to one address.",
			"Lower it to get past dead hosts faster.").from("smtp_connect_timeout"),
		transportParameter("helo_timeout", wait, func(t *Transport) *time.Duration { return &t.SMTP.HeloTimeout },
			"The time limit for the server's greeting, and for its reply to EHLO.",
			"Lower it to get past hanging hosts faster; some servers make strangers wait for 30 s on purpose.").from("smtp_helo_timeout"),
		transportParameter("mail_timeout", wait, func(t *Transport) *time.Duration { return &t.SMTP.MailTimeout },
			"The time limit for the reply to MAIL.",
			"Lower it only for servers that you know.").from("smtp_mail_timeout"),
		transportParameter("rcpt_timeout", wait, func(t *Transport) *time.Duration { return &t.SMTP.RcptTimeout },
			"The time limit for the reply to RCPT, for which many servers query other systems.",
			"Lower it only for servers that you know.").from("smtp_rcpt_timeout"),
		transportParameter("data_init_timeout", wait, func(t *Transport) *time.Duration { return &t.SMTP.DataInitTimeout },
			"The time limit for the reply to DATA.",
			"Lower it only for servers that you know.").from("smtp_data_init_timeout"),
		transportParameter("data_xfer_timeout", wait, func(t *Transport) *time.Duration { return &t.SMTP.DataXferTimeout },
			"The time limit for sending up to 64 KiB of a message.",
			"Raise it for receivers behind very slow links.").from("smtp_data_xfer_timeout"),
		transportParameter("data_done_timeout", wait, func(t *Transport) *time.Duration { return &t.SMTP.DataDoneTimeout },
			"The time limit for the reply to the end of the content, while the server may still be scanning it.",
			"Raise it if receivers get messages twice: without the reply, the sender cannot know that a message was accepted.").from("smtp_data_done_timeout"),
		transportParameter("rset_timeout", wait, func(t *Transport) *time.Duration { return &t.SMTP.RsetTimeout },
			"The time limit for the reply to RSET.",
			"Raise it for slow servers whose connections are worth keeping.").from("smtp_rset_timeout"),
	}
}

// hosts returns the parameters that select hosts and the source address.
func hosts() []parameter[Transport] {
	return []parameter[Transport]{
		transportParameter("mx_address_limit", zeroIsNone(integer(limit[int]{min: 1, max: 1000, zero: "no limit"})), func(t *Transport) *int { return &t.SMTP.MXAddressLimit },
			"The number of addresses that are used from one lookup of a destination.",
			"Raise it to use more of a large site's hosts.").from("smtp_mx_address_limit"),
		transportParameter("fallback_relay", optional(nexthops(), "for none"), func(t *Transport) *string { return &t.SMTP.FallbackRelay },
			"The server for mail whose destination cannot be reached.",
			"Set it to a host that keeps retrying, so that this one stays fast.").from("smtp_fallback_relay"),
		transportParameter("randomize_addresses", inverse(flag()), func(t *Transport) *bool { return &t.SMTP.KeepOrder },
			"Whether hosts of equal preference are tried in random order.",
			"Set it to false if your name server sorts them for a reason.").from("smtp_randomize_addresses"),
		transportParameter("site_rollup", flag(), func(t *Transport) *bool { return &t.SMTP.SiteRollup },
			"Whether domains with the same MX hosts are one destination, with shared limits, connections and back-off.",
			"Set it to false to count each domain by itself, as Postfix does.").from("smtp_site_rollup"),
		transportParameter("merge_domains", flag(), func(t *Transport) *bool { return &t.MergeDomains },
			"Whether recipients of different domains share a transaction if the domains have the same MX hosts.",
			"Set it to true for a transport whose servers are known to accept it, such as one provider's.").from("smtp_merge_domains"),
		transportParameter("permit_private_hosts", flag(), func(t *Transport) *bool { return &t.SMTP.PermitPrivateHosts },
			"Whether mail routed by the DNS may be sent to private addresses; nexthops that you configure in routes, relayhost or fallback_relay may always be private.",
			"Set it to true for mail between hosts of an internal network.").from("smtp_permit_private_hosts"),
		transportParameter("bind_address", sourceAddress(), func(t *Transport) *netip.Addr { return &t.SMTP.BindAddress },
			"The source address of outgoing connections.",
			"Set it if only one of the machine's addresses has the reputation to send mail.").from("smtp_bind_address"),
	}
}

// transactions returns the parameters of sending messages on a connection.
func transactions() []parameter[Transport] {
	return []parameter[Transport]{
		transportParameter("pipelining", levels(), func(t *Transport) *mail.Level { return &t.Connections.Level },
			"The pipelining level, which is the amount that is sent before replies are awaited, if the server offers PIPELINING. The level lockstep sends one command, group the envelope of a message, overlap the content of a message with the envelope of the next, and stream whole messages. For stream, the server must also offer CHUNKING and pass a weekly probe.",
			"Set it to group or lockstep for a server behind a proxy that cannot handle more; set it to stream only for your own servers over long distances, since up to pipelining_in_flight messages may be sent twice if a connection breaks.").from("smtp_pipelining"),
		transportParameter("pipelining_in_flight", integer(limit[int]{min: 2, max: 16}), func(t *Transport) *int { return &t.Connections.InFlight },
			"The number of unanswered messages on a connection if pipelining is stream.",
			"Raise it for distant servers.").from("smtp_pipelining_in_flight"),
		transportParameter("deliver_by_strict", flag(), func(t *Transport) *bool { return &t.SMTP.DeliverByStrict },
			"Whether mail that its sender wants returned by a deadline (BY with R, RFC 2852) goes only to servers that promise to keep the deadline, as the RFC demands: they offer DELIVERBY with a minimum that leaves enough time. Otherwise such mail is sent to any server until the deadline, since hardly any server on the Internet offers DELIVERBY. Transports of type lmtp do not ask for it.",
			"Set it to true for a relay of your own that offers DELIVERBY, if mail that it cannot deliver in time must not be delivered at all.").from("smtp_deliver_by_strict"),
		transportParameter("unknown_outcome", words(word[qmgr.UnknownOutcome]{"resend", qmgr.UnknownResend}, word[qmgr.UnknownOutcome]{"hold", qmgr.UnknownHold}), func(t *Transport) *qmgr.UnknownOutcome { return &t.UnknownOutcome },
			"The handling of a message that may or may not have been delivered, because its connection broke between the end of its content and the reply, or because its program was killed. With resend it is tried again later, and perhaps delivered twice; with hold it is kept until an operator decides.",
			"Set it to hold for mail that must not arrive twice, and check the queue every day.").forPipe(),
	}
}

// connections returns the parameters of keeping and reusing connections.
func connections() []parameter[Transport] {
	return []parameter[Transport]{
		transportParameter("connection_cache_time_limit", zeroIsNone(period(time.Second, limit[time.Duration]{max: time.Hour, zero: "not at all"})), func(t *Transport) *time.Duration { return &t.Connections.IdleTime },
			"The time that an idle connection is kept open for the next delivery.",
			"Lower it for receivers that count idle connections.").from("smtp_connection_cache_time_limit").unlike("2s"),
		transportParameter("connection_reuse_time_limit", zeroIsNone(period(time.Second, limit[time.Duration]{min: time.Second, max: 24 * time.Hour, zero: "no limit"})), func(t *Transport) *time.Duration { return &t.Connections.ActiveTime },
			"The age at which a connection is no longer reused.",
			"Lower it if a load balancer should reassign connections sooner.").from("smtp_connection_reuse_time_limit"),
		transportParameter("connection_reuse_count_limit", integer(limit[int]{min: 1, max: math.MaxInt32, zero: "no limit"}), func(t *Transport) *int { return &t.Connections.CountLimit },
			"The number of messages that one connection carries.",
			"Set it for receivers that limit the messages on a connection and answer further ones with an error.").from("smtp_connection_reuse_count_limit"),
	}
}
