package config

import (
	"time"

	"github.com/posthaste-mta/posthaste/qmgr"
)

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
		define("qmgr_fudge_factor", percent(), func(c *Config) *int { return &c.Queue.FudgeFactor }, 100,
			"How much of qmgr_message_recipient_limit one message may have read at once, where default_scheduler is round-robin.",
			"Lower it to keep one message from filling the memory."),
		define("lookup_limit", integer(limit[int]{min: 1, max: 100_000}), func(c *Config) *int { return &c.Queue.LookupLimit }, 100,
			"How many look-ups of where mail goes are under way at once.",
			"Raise it if mail to many different domains waits for a name server that is far away."),
		define("max_message_concurrency", integer(limit[int]{min: 1, max: 100_000}), func(c *Config) *int { return &c.Queue.MessageConcurrency }, 20,
			"How many look-ups one message may always have under way.",
			"Raise it where messages with very many domains matter more than others."),
		define("scale_max_concurrency", integer(limit[int]{max: 1000}), func(c *Config) *int { return &c.Queue.ConcurrencyScale }, 10,
			"How many times as many as are free a message may have beyond that; 10 is 91 % of a system that is otherwise idle.",
			"Lower it to keep more free for mail that comes next."),
		define("in_flow_delay", period(time.Second, limit[time.Duration]{max: 10 * time.Second, zero: "none"}), func(c *Config) *time.Duration { return &c.Queue.InFlowDelay }, time.Second,
			"How long a message waits at the door while delivery has fallen behind.",
			"Set it to 0 where bursts must be taken in at once, however long they take to go out."),
		define("queue_minfree", size(limit[int64]{min: 1 << 20}), func(c *Config) *int64 { return &c.Queue.MinFree }, 256<<20,
			"The free space on the disk below which no mail is taken in.",
			"Raise it on a disk that is shared with other writers.").unlike("0").onRestart(),
		define("minimal_backoff_time", period(time.Second, wait), func(c *Config) *time.Duration { return &c.Retry.MinimalBackoff }, 300*time.Second,
			"The shortest wait between two attempts, and how long a destination that has died of failures is left alone; a host that cannot be reached is left alone for a minute at first, then for twice as long each time.",
			"Lower it where greylisting is common and mail is urgent."),
		define("maximal_backoff_time", period(time.Second, wait), func(c *Config) *time.Duration { return &c.Retry.MaximalBackoff }, 4000*time.Second,
			"The longest wait between two attempts.",
			"Raise it to spend less on destinations that are away for days."),
		define("transport_retry_time", period(time.Second, wait), func(c *Config) *time.Duration { return &c.Retry.TransportRetry }, 60*time.Second,
			"How long a transport is left alone whose mail could not even be attempted, for want of sockets for instance.",
			"Raise it if that takes longer to mend; the mail is deferred meanwhile."),
		define("backoff_jitter", percent(), func(c *Config) *int { return &c.Retry.JitterPercent }, 10,
			"How far a wait may differ from the message's age, so that mail that was deferred together does not come back together.",
			"Raise it where outages leave bursts of retries."),
		define("maximal_queue_lifetime", period(24*time.Hour, limit[time.Duration]{max: 100 * 24 * time.Hour, zero: "a single attempt"}), func(c *Config) *time.Duration { return &c.Retry.MaximalLifetime }, 5*24*time.Hour,
			"The age at which mail that cannot be delivered is returned when an attempt fails or is put off; while it waits for its turn, a rate or a connection no age ends that, and it may be delivered later.",
			"Lower it where late mail is worth nothing, such as one-time passwords; let those expire by themselves, too, since this does not bound how late they are delivered."),
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
			"What becomes of undeliverable mail from the null sender: it is set aside for bounce_queue_lifetime, thrown away, or sent to 2bounce_notice_recipient.",
			"Set it to discard where nobody looks at what is held."),
		define("2bounce_notice_recipient", optional(mailbox(), "for postmaster"), func(c *Config) *string { return &c.Reports.DoubleBounceTo }, "",
			"Who gets it if double_bounce is report.",
			"Set it if somebody else than the postmaster looks after it.").onRestart(),
	}
}
