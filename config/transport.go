package config

import (
	"slices"
	"time"

	"github.com/posthaste-mta/posthaste/qmgr"
	"github.com/posthaste-mta/posthaste/qmgr/window"
)

// transportParameters is the table of the parameters of [transport.NAME].
var transportParameters = allTransportParameters()

func allTransportParameters() []parameter[Transport] {
	return slices.Concat(scheduling(), concurrency(), shaping(), sending())
}

// scheduling is what becomes of a transport's mail, and what is next.
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
	}
}

// concurrency is how much of it goes to one destination at once.
func concurrency() []parameter[Transport] {
	return []parameter[Transport]{
		define("initial_destination_concurrency", integer(limit[int]{min: 1, max: 1_000_000}), func(t *Transport) *int { return &t.InitialConcurrency }, 5,
			"How many deliveries a destination gets at once of which nothing is known yet.",
			"Lower it where even a handful of connections from a stranger is unwelcome.").from("initial_destination_concurrency"),
		define("destination_concurrency_limit", integer(limit[int]{min: 1, max: 1_000_000, zero: "no limit"}), func(t *Transport) *int { return &t.ConcurrencyLimit }, 20,
			"How many deliveries a destination ever gets at once.",
			"Set it to what the receiver's published rules allow.").from("default_destination_concurrency_limit"),
		define("destination_concurrency_positive_feedback", feedback(), func(t *Transport) *window.Feedback { return &t.Positive }, window.Feedback{},
			"How much a successful delivery raises a destination's concurrency.",
			"Set it to \"level\", and the negative one too, for receivers that limit connections or fail now and then; \"1/concurrency\" is Postfix's remedy for the former.").from("default_destination_concurrency_positive_feedback"),
		define("destination_concurrency_negative_feedback", feedback(), func(t *Transport) *window.Feedback { return &t.Negative }, window.Feedback{},
			"How much a failure to reach or greet a destination lowers its concurrency.",
			"Set it to \"level\", and the positive one too, where failures should count only if they come with concurrency; or to \"1/concurrency\" or less where they are common and mean little.").from("default_destination_concurrency_negative_feedback"),
		define("destination_concurrency_failed_cohort_limit", integer(limit[int]{min: 1, max: 1_000_000, zero: "never"}), func(t *Transport) *int { return &t.FailedCohortLimit }, 1,
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
