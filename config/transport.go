package config

import (
	"math"
	"net/netip"
	"slices"
	"time"

	"github.com/posthaste-mta/posthaste/mail"
	"github.com/posthaste-mta/posthaste/qmgr"
	"github.com/posthaste-mta/posthaste/qmgr/window"
)

// transportParameters is the table of the parameters of [transport.NAME].
var transportParameters = allTransportParameters()

func allTransportParameters() []parameter[Transport] {
	return slices.Concat(scheduling(), shaping(), delivering())
}

func scheduling() []parameter[Transport] {
	count := func(least int, zero string) kind[int] {
		return integer(limit[int]{min: least, max: 1_000_000, zero: zero})
	}
	return []parameter[Transport]{
		define("type", words(word[TransportType]{"smtp", TypeSMTP}, word[TransportType]{"discard", TypeDiscard}), func(t *Transport) *TransportType { return &t.Type }, TypeSMTP,
			"What becomes of the mail: it is sent to another server, or thrown away and called delivered.",
			"Set it to discard in a test whose mail must not leave the machine.").onRestart(),
		define("nexthop", optional(nexthops(), "for the recipient's domain"), func(t *Transport) *string { return &t.Nexthop }, "",
			"Where the mail of this transport goes unless a route or relayhost says it.",
			"Set it if all of it goes to the same server.").forSMTP(),
		define("scheduler", schedulers(), func(t *Transport) *qmgr.Scheduler { return &t.Scheduler }, qmgr.Preemptive,
			"What is delivered next by a transport that has not had mail yet: what came first, except that small mail may overtake large mail; or what is next in turn by destination, as with Postfix's oqmgr; or one message after the other.",
			"Leave it: round-robin and runner are there to be compared with.").from("default_scheduler"),
		define("process_limit", count(1, ""), func(t *Transport) *int { return &t.ProcessLimit }, 100,
			"How many deliveries of a transport are under way at once.",
			"Raise it when many destinations are to be served at once; each delivery may need a connection.").from("default_process_limit"),
		define("destination_recipient_limit", count(1, "no limit"), func(t *Transport) *int { return &t.RecipientLimit }, 50,
			"How many recipients of a message go to a destination in one transaction.",
			"Lower it for servers that refuse or punish many recipients at once.").from("default_destination_recipient_limit"),
		define("delivery_slot_cost", integer(limit[int]{min: 1, max: 1_000_000, zero: "no preemption"}), func(t *Transport) *int { return &t.SlotCost }, 5,
			"How many deliveries of a message earn one slot, with which a later and smaller message may overtake it.",
			"Lower it to let small mail overtake more, which slows large mail by up to 1/(cost-1).").from("default_delivery_slot_cost"),
		define("delivery_slot_loan", count(0, ""), func(t *Transport) *int { return &t.SlotLoan }, 3,
			"How many slots a message is lent before it has earned them.",
			"Raise it to let small mail overtake sooner.").from("default_delivery_slot_loan"),
		define("delivery_slot_discount", percent(), func(t *Transport) *int { return &t.SlotDiscount }, 50,
			"How much of the slots that a message needs it is lent.",
			"Raise it to let mail of medium size overtake sooner.").from("default_delivery_slot_discount"),
		define("minimum_delivery_slots", count(0, ""), func(t *Transport) *int { return &t.MinimumSlots }, 3,
			"How many slots a message must be able to earn in all to be overtaken.",
			"Raise it if messages of medium size are to be left alone.").from("default_minimum_delivery_slots"),
		define("recipient_limit", count(1, ""), func(t *Transport) *int { return &t.RecipientPool }, 20000,
			"How many recipients of messages that are not wholly in memory a transport may have there.",
			"Raise it for messages with very many recipients; a recipient takes about 150 octets.").from("default_recipient_limit"),
		define("extra_recipient_limit", count(0, ""), func(t *Transport) *int { return &t.ExtraRecipients }, 1000,
			"How many more are kept for messages that overtake others.",
			"Raise it if mail with many recipients overtakes mail with more.").from("default_extra_recipient_limit"),
		define("recipient_refill_limit", count(1, ""), func(t *Transport) *int { return &t.RefillLimit }, 100,
			"How many recipients of a message must fit into memory before more are read.",
			"Raise it on a slow disk, to read less often.").from("default_recipient_refill_limit"),
		define("recipient_refill_delay", period(time.Second, limit[time.Duration]{min: time.Second, max: time.Hour}), func(t *Transport) *time.Duration { return &t.RefillDelay }, 5*time.Second,
			"After which time fewer are read.",
			"Raise it together with recipient_refill_limit.").from("default_recipient_refill_delay"),
		define("initial_destination_concurrency", count(1, ""), func(t *Transport) *int { return &t.InitialConcurrency }, 5,
			"How many deliveries a destination gets at once of which nothing is known yet.",
			"Lower it where even a handful of connections from a stranger is unwelcome.").from("initial_destination_concurrency"),
		define("destination_concurrency_limit", count(1, "no limit"), func(t *Transport) *int { return &t.ConcurrencyLimit }, 20,
			"How many deliveries a destination ever gets at once.",
			"Set it to what the receiver's published rules allow.").from("default_destination_concurrency_limit"),
		define("destination_concurrency_positive_feedback", feedback(), func(t *Transport) *window.Feedback { return &t.Positive }, window.Feedback{},
			"How much a successful delivery raises a destination's concurrency.",
			"Set it to \"level\", and the negative one too, for receivers that limit connections or fail now and then; \"1/concurrency\" is Postfix's remedy for the former.").from("default_destination_concurrency_positive_feedback"),
		define("destination_concurrency_negative_feedback", feedback(), func(t *Transport) *window.Feedback { return &t.Negative }, window.Feedback{},
			"How much a failure to reach or greet a destination lowers its concurrency.",
			"Set it to \"level\", and the positive one too, where failures should count only if they come with concurrency; or to \"1/concurrency\" or less where they are common and mean little.").from("default_destination_concurrency_negative_feedback"),
		define("destination_concurrency_failed_cohort_limit", count(1, "never"), func(t *Transport) *int { return &t.FailedCohortLimit }, 1,
			"After how many failed cohorts, each as many deliveries as the concurrency, a destination is dead for minimal_backoff_time.",
			"Raise it for destinations that have to keep one connection at a time and fail now and then.").from("default_destination_concurrency_failed_cohort_limit"),
		define("destination_concurrency_feedback_rule", words(word[window.Rule]{"source", window.RuleSource}, word[window.Rule]{"readme", window.RuleReadme}), func(t *Transport) *window.Rule { return &t.FeedbackRule }, window.RuleSource,
			"How feedback moves the concurrency: as Postfix does, or as its SCHEDULER_README says, which differs a little.",
			"Set it to readme to compare with other programs that follow the text.").from("default_destination_concurrency_feedback_rule"),
		define("destination_concurrency_feedback_debug", flag(), func(t *Transport) *bool { return &t.FeedbackDebug }, false,
			"Whether the log tells of every change of a destination's concurrency, and of what leads to it.",
			"Set it to true for the transport of a destination that gets more or fewer deliveries at once than you expect.").from("destination_concurrency_feedback_debug"),
		define("destination_rate_delay", period(time.Second, limit[time.Duration]{max: 24 * time.Hour, zero: "none"}), func(t *Transport) *time.Duration { return &t.RateDelay }, 0,
			"The pause after each delivery to a destination; it implies a concurrency of 1.",
			"Set it for receivers that count messages per minute.").from("default_destination_rate_delay"),
	}
}

func delivering() []parameter[Transport] {
	wait := period(time.Second, limit[time.Duration]{min: time.Second, max: 24 * time.Hour})
	count := func(least int, zero string) kind[int] {
		return integer(limit[int]{min: least, max: math.MaxInt32, zero: zero})
	}
	all := []parameter[Transport]{
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
		define("pipelining", levels(), func(t *Transport) *mail.Level { return &t.SMTP.Pipelining }, mail.LevelOverlap,
			"How much is sent to servers that offer PIPELINING before their replies are waited for: one command; the envelope of a message; the content of a message and the envelope of the next (overlap); or whole messages, for which the server must offer CHUNKING too and pass a probe, once a week (stream).",
			"Set it to group or lockstep for a server behind a proxy that cannot follow; to stream for your own servers over long distances only, since up to pipelining_in_flight messages may be sent twice if a connection breaks.").from("smtp_pipelining"),
		define("pipelining_in_flight", integer(limit[int]{min: 2, max: 16}), func(t *Transport) *int { return &t.SMTP.InFlight }, 4,
			"How many messages may be unanswered on a connection if pipelining is stream.",
			"Raise it for servers far away.").from("smtp_pipelining_in_flight"),
		define("unknown_outcome", words(word[qmgr.UnknownOutcome]{"resend", qmgr.UnknownResend}, word[qmgr.UnknownOutcome]{"hold", qmgr.UnknownHold}), func(t *Transport) *qmgr.UnknownOutcome { return &t.SMTP.UnknownOutcome }, qmgr.UnknownResend,
			"What becomes of a message when the connection breaks between its end and the reply to it, so that nobody knows whether the server has it: it is sent again later, perhaps a second time, or held until an operator decides.",
			"Set it to hold for mail that must not arrive twice, and look at the queue every day."),
		define("connection_cache_time_limit", period(time.Second, limit[time.Duration]{max: time.Hour, zero: "not at all"}), func(t *Transport) *time.Duration { return &t.SMTP.CacheTimeLimit }, 15*time.Second,
			"How long a connection is kept idle for the next delivery.",
			"Lower it for receivers that count idle connections.").from("smtp_connection_cache_time_limit").unlike("2s"),
		define("connection_reuse_time_limit", period(time.Second, limit[time.Duration]{min: time.Second, max: 24 * time.Hour, zero: "no limit"}), func(t *Transport) *time.Duration { return &t.SMTP.ReuseTimeLimit }, 300*time.Second,
			"How old a connection may become.",
			"Lower it if a load balancer is to see us again sooner.").from("smtp_connection_reuse_time_limit"),
		define("connection_reuse_count_limit", count(1, "no limit"), func(t *Transport) *int { return &t.SMTP.ReuseCountLimit }, 0,
			"How many messages a connection carries.",
			"Set it for receivers that limit it, and answer what is more with an error.").from("smtp_connection_reuse_count_limit"),
	}
	for i := range all {
		all[i] = all[i].forSMTP()
	}
	return all
}
