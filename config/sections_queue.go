package config

import (
	"time"

	"github.com/posthaste-mta/posthaste/qmgr"
	"github.com/posthaste-mta/posthaste/qmgr/warmup"
)

func queueParameters() []parameter[Config] {
	count := integer(limit[int]{min: 1, max: 10_000_000})
	wait := limit[time.Duration]{min: time.Second}
	return []parameter[Config]{
		define("qmgr_message_active_limit", count, func(c *Config) *int { return &c.Queue.ActiveLimit }, 20000,
			"The number of messages in memory at once; the others wait on disk.",
			"Raise it if many destinations are slow at the same time; a message takes about 1 KB."),
		define("qmgr_message_recipient_limit", count, func(c *Config) *int { return &c.Queue.RecipientLimit }, 20000,
			"The number of recipients of all messages in memory; above it, only qmgr_message_recipient_minimum recipients of each new message are read.",
			"Raise it for messages with very many recipients; a recipient takes about 150 bytes."),
		define("qmgr_message_recipient_minimum", count, func(c *Config) *int { return &c.Queue.RecipientMinimum }, 10,
			"The number of recipients that each message may always have in memory, whatever the other messages use.",
			"Raise it if messages with many recipients stall each other."),
		define("warmup_site_limit", count, func(c *Config) *int { return &c.WarmupSiteLimit }, warmup.Config{}.WithDefaults().SiteLimit,
			"The number of sites that are remembered for each source in its warm-up; once that many were used on one day, mail for further sites leaves from other sources.",
			"Raise it for a source that sends to more sites on a day; a site takes about 250 bytes."),
		define("qmgr_fudge_factor", percent(), func(c *Config) *int { return &c.Queue.FudgeFactor }, 100,
			"The percentage of qmgr_message_recipient_limit that one message may use, if default_scheduler is round-robin.",
			"Lower it to keep one message from filling the memory."),
		define("lookup_limit", integer(limit[int]{min: 1, max: 100_000}), func(c *Config) *int { return &c.Queue.LookupLimit }, 100,
			"The number of route lookups in progress at once.",
			"Raise it if mail to many different domains waits for a distant name server."),
		define("max_message_concurrency", integer(limit[int]{min: 1, max: 100_000}), func(c *Config) *int { return &c.Queue.MessageConcurrency }, 20,
			"The number of lookups, and of connections, that one message may always have in use.",
			"Raise it if messages with very many domains matter more than others."),
		define("scale_max_concurrency", integer(limit[int]{max: 1000}), func(c *Config) *int { return &c.Queue.ConcurrencyScale }, 10,
			"The number of lookups or connections that one message may use, as a multiple of those that are free. It applies if it allows more than max_message_concurrency does. With 10, one message uses up to 91 % of an otherwise idle system.",
			"Lower it to keep more free for the next mail."),
		define("in_flow_delay", period(time.Second, limit[time.Duration]{max: 10 * time.Second, zero: "none"}), func(c *Config) *time.Duration { return &c.Queue.InFlowDelay }, time.Second,
			"The pause before a new message is accepted while delivery has fallen behind.",
			"Set it to 0 if bursts must be accepted at once, however long their delivery takes."),
		define("queue_minfree", size(limit[int64]{min: 1 << 20}), func(c *Config) *int64 { return &c.Queue.MinFree }, 256<<20,
			"The free disk space below which no mail is accepted.",
			"Raise it on a disk that other programs write to as well.").unlike("0").onRestart(),
		define("minimal_backoff_time", period(time.Second, wait), func(c *Config) *time.Duration { return &c.Retry.MinimalBackoff }, 300*time.Second,
			"The shortest time between two attempts for a message, and the time that a dead destination is left alone; a host that cannot be reached is left alone for a minute at first, then twice as long each time.",
			"Lower it if greylisting is common and mail is urgent."),
		define("maximal_backoff_time", period(time.Second, wait), func(c *Config) *time.Duration { return &c.Retry.MaximalBackoff }, 4000*time.Second,
			"The longest time between two attempts for a message.",
			"Raise it to spend less on destinations that are down for days."),
		define("transport_retry_time", period(time.Second, wait), func(c *Config) *time.Duration { return &c.Retry.TransportRetry }, 60*time.Second,
			"The time that a transport is left alone, and its mail deferred, after a delivery could not even be started, for example because there were no free sockets.",
			"Raise it if such a condition takes longer to clear."),
		define("backoff_jitter", percent(), func(c *Config) *int { return &c.Retry.JitterPercent }, 10,
			"The random variation of retry intervals, as a percentage, so that messages deferred together are not all retried together.",
			"Raise it if outages leave bursts of retries."),
		define("maximal_queue_lifetime", period(24*time.Hour, limit[time.Duration]{max: 100 * 24 * time.Hour, zero: "a single attempt"}), func(c *Config) *time.Duration { return &c.Retry.MaximalLifetime }, 5*24*time.Hour,
			"The age at which undeliverable mail is returned to the sender when an attempt fails or is put off; mail that only waits for its turn, a rate limit or a connection is not returned, and may be delivered later than this.",
			"Lower it for mail that is worthless when late, such as one-time passwords; since mail may nevertheless be delivered later, the passwords themselves must expire as well."),
		define("bounce_queue_lifetime", period(24*time.Hour, limit[time.Duration]{max: 100 * 24 * time.Hour, zero: "a single attempt"}), func(c *Config) *time.Duration { return &c.Retry.BounceLifetime }, 5*24*time.Hour,
			"The age at which undeliverable reports and other mail from the null sender are given up; never more than maximal_queue_lifetime.",
			"Lower it if undeliverable reports fill the queue."),
		define("delay_warning_time", period(time.Hour, limit[time.Duration]{max: 100 * 24 * time.Hour, zero: "never"}), func(c *Config) *time.Duration { return &c.Retry.DelayWarningTime }, 0,
			"The age at which the sender is notified, once, that a message is still waiting.",
			"Set it to 4h if senders are people."),
	}
}

func reportParameters() []parameter[Config] {
	return []parameter[Config]{
		define("bounce_size_limit", size(limit[int64]{min: 1, max: 10 << 20}), func(c *Config) *int64 { return &c.Reports.SizeLimit }, 50<<10,
			"The size of the largest message that is returned in full to a sender who asks for it; of a larger message only the header is returned.",
			"Raise it if senders keep no copies.").unlike("50000").onRestart(),
		define("bounce_recipient_limit", integer(limit[int]{min: 1, max: 10_000}), func(c *Config) *int { return &c.Reports.RecipientLimit }, 5000,
			"The number of recipients in one report.",
			"Lower it if senders' programs cannot process long reports.").onRestart(),
		define("bounce_footer", footer(), func(c *Config) *string { return &c.Reports.Footer }, "",
			"Text that is added to the human-readable part of reports.",
			"Set it to a telephone number, or to the explanation in a second language.").onRestart(),
		define("double_bounce", words(word[qmgr.DoubleBounce]{"hold", qmgr.DoubleBounceHold}, word[qmgr.DoubleBounce]{"discard", qmgr.DoubleBounceDiscard}, word[qmgr.DoubleBounce]{"report", qmgr.DoubleBounceReport}),
			func(c *Config) *qmgr.DoubleBounce { return &c.Reports.DoubleBounce }, qmgr.DoubleBounceHold,
			"The handling of undeliverable mail from the null sender: it is held for bounce_queue_lifetime, discarded, or reported to 2bounce_notice_recipient.",
			"Set it to discard if no one looks at held mail."),
		define("2bounce_notice_recipient", optional(mailbox(), "for postmaster"), func(c *Config) *string { return &c.Reports.DoubleBounceTo }, "",
			"The recipient of undeliverable mail from the null sender if double_bounce is report.",
			"Set it if someone other than the postmaster handles such mail.").onRestart(),
	}
}
