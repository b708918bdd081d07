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
	return slices.Concat(scheduling(), concurrency(), shaping(), sending(), programs())
}

// scheduling returns the parameters of a transport's delivery method and of the
// order of its deliveries.
func scheduling() []parameter[Transport] {
	count := func(least int, zero string) kind[int] {
		return integer(limit[int]{min: least, max: 1_000_000, zero: zero})
	}
	return []parameter[Transport]{
		transportParameter("type", words(word[TransportType]{"smtp", TypeSMTP}, word[TransportType]{"lmtp", TypeLMTP}, word[TransportType]{"pipe", TypePipe}, word[TransportType]{"discard", TypeDiscard}), func(t *Transport) *TransportType { return &t.Type },
			"The delivery method: smtp sends the mail to another server, lmtp to one that delivers it into mailboxes, pipe to a program on this machine, discard throws it away and counts it as delivered.",
			"Set it to discard in a test whose mail must not leave the machine.").onRestart(),
		transportParameter("nexthop", optional(transportNexthop(), "for the recipient's domain"), func(t *Transport) *string { return &t.Nexthop },
			"The destination of this transport's mail unless a route or relayhost gives another.",
			"Set it if all of the transport's mail goes to the same server; a transport of type lmtp needs one here or in each of its routes.").forSMTP().forPipe(),
		transportParameter("scheduler", schedulers(), func(t *Transport) *qmgr.Scheduler { return &t.Scheduler },
			"The order of deliveries. With preemptive, it is first come, first served, but small messages may overtake large ones. With round-robin, destinations take turns, as in Postfix's oqmgr; with runner, one message is finished before the next. A change applies only to transports that have not carried mail yet.",
			"Leave it as it is: round-robin and runner are for comparison.").from("default_scheduler"),
		transportParameter("process_limit", count(1, ""), func(t *Transport) *int { return &t.ProcessLimit },
			"The number of deliveries that one transport has in progress at once.",
			"Raise it if many destinations must be served at once; each delivery may need a connection.").from("default_process_limit"),
		transportParameter("destination_recipient_limit", zeroIsNone(count(1, "no limit")), func(t *Transport) *int { return &t.RecipientLimit },
			"The number of recipients of a message in one transaction with a destination.",
			"Lower it for servers that refuse or penalize many recipients at once.").from("default_destination_recipient_limit"),
		transportParameter("delivery_slot_cost", zeroIsNone(integer(limit[int]{min: 1, max: 1_000_000, zero: "no preemption"})), func(t *Transport) *int { return &t.SlotCost },
			"The number of deliveries of a message that earn one delivery slot, with which a later, smaller message may overtake it by one delivery. With 1, as with 0, there is no preemption.",
			"Lower it to let small mail overtake more, which slows large mail by up to 1/(cost-1), or 25 % with a cost of 5.").from("default_delivery_slot_cost"),
		transportParameter("delivery_slot_loan", zeroIsNone(count(0, "")), func(t *Transport) *int { return &t.SlotLoan },
			"The number of delivery slots that a message is lent before it has earned them.",
			"Raise it to let small mail overtake sooner.").from("default_delivery_slot_loan"),
		transportParameter("delivery_slot_discount", zeroIsNone(percent()), func(t *Transport) *int { return &t.SlotDiscount },
			"The delivery slots that a message is lent in addition to delivery_slot_loan, as a percentage of those that the message overtaking it needs.",
			"Raise it to let medium-sized mail overtake sooner.").from("default_delivery_slot_discount"),
		transportParameter("minimum_delivery_slots", zeroIsNone(count(0, "")), func(t *Transport) *int { return &t.MinimumSlots },
			"The total number of delivery slots that a message must be able to earn before others may overtake it.",
			"Raise it to leave medium-sized messages alone.").from("default_minimum_delivery_slots"),
		transportParameter("recipient_limit", count(1, ""), func(t *Transport) *int { return &t.RecipientPool },
			"The number of recipients that a transport may have in memory for messages that are only partly in memory.",
			"Raise it for messages with very many recipients; a recipient takes about 150 bytes.").from("default_recipient_limit"),
		transportParameter("extra_recipient_limit", zeroIsNone(count(0, "")), func(t *Transport) *int { return &t.ExtraRecipients },
			"The number of additional recipients in memory that are reserved for messages that overtake others.",
			"Raise it if mail with many recipients overtakes mail with even more.").from("default_extra_recipient_limit"),
		transportParameter("recipient_refill_limit", count(1, ""), func(t *Transport) *int { return &t.RefillLimit },
			"The number of recipients of a message that must fit into memory before more are read.",
			"Raise it on a slow disk, to read less often.").from("default_recipient_refill_limit"),
		transportParameter("recipient_refill_delay", period(time.Second, limit[time.Duration]{min: time.Second, max: time.Hour}), func(t *Transport) *time.Duration { return &t.RefillDelay },
			"The time after which recipients are read even if fewer than recipient_refill_limit fit into memory.",
			"Raise it together with recipient_refill_limit.").from("default_recipient_refill_delay"),
	}
}

// concurrency returns the parameters of the number of parallel deliveries to one
// destination.
func concurrency() []parameter[Transport] {
	return []parameter[Transport]{
		transportParameter("initial_destination_concurrency", integer(limit[int]{min: 1, max: 1_000_000}), func(t *Transport) *int { return &t.Window.Initial },
			"The number of parallel deliveries to a destination about which nothing is known yet.",
			"Lower it if even a few connections from a stranger are unwelcome.").from("initial_destination_concurrency"),
		transportParameter("destination_concurrency_limit", zeroIsNone(integer(limit[int]{min: 1, max: 1_000_000, zero: "no limit"})), func(t *Transport) *int { return &t.Window.Limit },
			"The largest number of parallel deliveries to one destination.",
			"Set it to the limit in the receiver's published rules.").from("default_destination_concurrency_limit"),
		transportParameter("destination_concurrency_positive_feedback", feedback(), func(t *Transport) *window.Feedback { return &t.Window.Positive },
			"The increase of a destination's concurrency after a successful delivery.",
			"Set this and the negative feedback to \"level\" for receivers that limit connections or fail now and then; \"1/concurrency\" is Postfix's remedy for connection limits.").from("default_destination_concurrency_positive_feedback"),
		transportParameter("destination_concurrency_negative_feedback", feedback(), func(t *Transport) *window.Feedback { return &t.Window.Negative },
			"The decrease of a destination's concurrency after a failure to connect to it or complete the SMTP handshake.",
			"Set this and the positive feedback to \"level\" if failures should count only when they increase with concurrency, or set it to \"1/concurrency\" or less if failures are common and mean little.").from("default_destination_concurrency_negative_feedback"),
		transportParameter("destination_concurrency_failed_cohort_limit", zeroIsNone(integer(limit[int]{min: 1, max: 1_000_000, zero: "never"})), func(t *Transport) *int { return &t.Window.FailedCohortLimit },
			"The number of failed cohorts in a row after which a destination is dead for minimal_backoff_time; a cohort is as many deliveries as the concurrency. Where connections are scheduled, in transports of type smtp and lmtp, it has no effect, since failures count against each host there.",
			"Set it only in scenarios of the simulator in the mode \"agents\", to compare with Postfix.").from("default_destination_concurrency_failed_cohort_limit"),
		transportParameter("destination_concurrency_feedback_rule", words(word[window.Rule]{"source", window.RuleSource}, word[window.Rule]{"readme", window.RuleReadme}), func(t *Transport) *window.Rule { return &t.Window.Rule },
			"The arithmetic of feedback: source follows Postfix's program, readme follows its SCHEDULER_README, which differs slightly.",
			"Set it to readme to compare with other programs that follow the text.").from("default_destination_concurrency_feedback_rule"),
		transportParameter("destination_concurrency_feedback_debug", flag(), func(t *Transport) *bool { return &t.FeedbackDebug },
			"Whether every change of a destination's concurrency is logged together with its cause.",
			"Set it to true for the transport of a destination that gets more or fewer parallel deliveries than you expect.").from("destination_concurrency_feedback_debug"),
		transportParameter("destination_rate_delay", period(time.Second, limit[time.Duration]{max: 24 * time.Hour, zero: "none"}), func(t *Transport) *time.Duration { return &t.RateDelay },
			"The pause after each delivery to a destination; it implies a concurrency of 1.",
			"Set it for receivers that count messages per minute.").from("default_destination_rate_delay"),
	}
}
