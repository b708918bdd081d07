package event

// Fields that several events have.
var (
	fieldID     = Field{"id", Text, true, "The queue ID of the message."}
	fieldFrom   = Field{"from", Text, true, "The envelope sender; empty for the null sender."}
	fieldTo     = Field{"to", Text, true, "The recipient."}
	fieldClass  = Field{"class", Text, false, "The class of the message ([classes](flows.md))."}
	fieldTenant = Field{"tenant", Text, false, "Its tenant."}
	fieldFlow   = Field{"flow", Text, false, "Its flow."}
	fieldReason = Field{"reason", Text, false, "Why, in words for people."}
)

// ofMessage are the fields of an event about a whole message, with those of its own behind them.
func ofMessage(more ...Field) []Field {
	return append([]Field{fieldID, {"from", Text, false, "The envelope sender; absent for the null sender, and for messages that are not in core."},
		fieldClass, fieldTenant, fieldFlow}, more...)
}

// ofDestination are the fields of an event about a destination.
func ofDestination(more ...Field) []Field {
	return append([]Field{
		{"transport", Text, true, "The transport."},
		{"nexthop", Text, false, "The destination: a domain, a host in brackets, or a site in braces; absent for a whole transport."},
		{"source", Text, false, "The source that the mail leaves from."},
		{"security", Text, false, "What is demanded of connections."},
	}, more...)
}

// kinds are all events, first those of a message from its arrival to its end.
var kinds = []Kind{
	{"accepted", "info", "A message has arrived and is durable.", []Field{
		fieldID, fieldFrom,
		{"client", Text, true, "The address of the client, or `local`."},
		{"helo", Text, true, "The name that the client gave itself."},
		{"proto", Text, true, "The protocol, as in the Received field: SMTP, ESMTP, ESMTPSA and so on."},
		{"size", Integer, true, "The size of the content in bytes."},
		{"nrcpt", Integer, true, "The number of recipients."},
		{"class", Text, true, "The class of the message ([classes](flows.md))."},
		{"tenant", Text, true, "Its tenant."},
		{"flow", Text, true, "Its flow."},
		{"listener", Text, true, "The name of the listener; empty for programs on this machine."},
		{"message_id", Text, false, "The Message-ID field, at most 256 bytes of it."},
		{"until", Text, false, "Until when the sender has the message kept (FUTURERELEASE)."},
		{"deliver_by", Text, false, "Its deadline (DELIVERBY), and what happens then."},
		{"user", Text, false, "The user who has logged in."},
		{"auth", Text, false, "How he has."},
		{"tls", Text, false, "The version of TLS on the client's connection."},
		{"cipher", Text, false, "The cipher there."},
		{"requiretls", Text, false, "What the sender asks of TLS: `yes` (REQUIRETLS) or `no` (TLS-Required: No)."},
		{"verp", Text, false, "How recipients are encoded in the sender."},
		{"orig_client", Text, false, "The client that XFORWARD names."},
		{"orig_name", Text, false, "Its name."},
		{"orig_helo", Text, false, "The name that it gave itself."},
		{"orig_id", Text, false, "The queue ID that XFORWARD names."},
		{"hold", Text, false, "Why the message is held from the first moment."},
	}},
	{"discarded", "info", "Milters have removed all recipients of a message, and it was accepted and discarded.", []Field{
		fieldID, fieldFrom, {"client", Text, true, "The address of the client."}, {"reason", Text, true, "Why, in words for people."}}},
	{"delivery", "info", "An attempt has ended for one recipient.", []Field{
		fieldID, fieldFrom, fieldTo,
		{"transport", Text, true, "The transport that the mail was routed to."},
		{"nexthop", Text, true, "The destination: a domain, a host in brackets, or a site in braces."},
		{"host", Text, true, "The server that gave the final reply, or `none`."},
		{"status", Text, true, "`sent`, `deferred` or `bounced`."},
		{"delay", Seconds, true, "The time since the message arrived."},
		{"delays", Parts, true, "Its parts: before this attempt; lookup and connection; transaction."},
		{"attempt", Integer, true, "The number of the attempt."},
		{"reply", Text, true, "The reply that decided the status, word for word."},
		{"reply_class", Text, false, "What a refusal is about ([replies.md](replies.md))."},
		{"stage", Text, false, "What the refusal answers: `greeting`, `ehlo`, `auth`, `mail`, `rcpt`, `data` or `content`."},
		{"source", Text, false, "The source that the mail left from."},
		{"policy", Text, false, "What was demanded of the security of the connection."},
		{"tls", Text, false, "What was negotiated: version, cipher, and how far the certificate was verified."},
		fieldClass, fieldTenant, fieldFlow,
		{"doubtful", Text, false, "With `unknown`: the hosts that may have the message, and how often each had all of it without a reply."},
		{"unknown", Flag, false, "`true`: the recipient may have the message or not."},
	}},
	{"deferred", "info", "A message was put off until its next attempt.", ofMessage(Field{"next", Time, true, "When it is tried next."})},
	{"removed", "debug", "A message is done, and was removed from the queue.", ofMessage()},
	{"expired", "warn", "The recipients of a message that waited were given up because of its age, or a held message was removed because its time was over.", ofMessage(fieldReason)},
	{"overdue", "warn", "The recipients of a message that waited were given up because of its deadline.", ofMessage()},
	{"late", "info", "The deadline of a message has passed, and it is tried as before.", ofMessage()},
	{"held", "info", "A message was set aside.", ofMessage(fieldReason)},
	{"released", "info", "The time is over for which the sender had a message kept.", ofMessage()},
	{"dropped", "info", "An operator has removed a message.", ofMessage(fieldReason)},
	{"corrupt", "error", "A message is damaged and was set aside.", ofMessage(fieldReason)},
	{"unknown", "info", "It is unknown whether a recipient has got a message.", ofMessage(
		Field{"transport", Text, true, "The transport."}, Field{"nexthop", Text, true, "The destination."},
		Field{"source", Text, false, "The source that the mail left from."}, fieldReason)},
	{"report", "info", "A report about a message (delivery status notification) was made and is in the queue.", []Field{
		{"id", Text, true, "The queue ID of the message that it is about; empty if that was not in the queue."},
		{"report", Text, true, "The queue ID of the report."},
		fieldTo,
		{"kind", Text, true, "`failed`, `delayed`, `delivered` or `relayed`."},
		{"recipients", Integer, true, "The number of recipients that it is about."},
	}},
	{"double bounce", "warn", "Mail with the null sender could not be delivered; no report is sent about it.", []Field{
		fieldID,
		{"copy", Text, true, "The queue ID of the copy for `double_bounce_to`; empty if there is none."},
		{"recipients", Integer, true, "The number of recipients."},
		{"to", Text, true, "One of them."},
		{"reply", Text, true, "The reply about him."},
	}},
	{"feedback", "info", "A report has come back about mail that was sent: a bounce, a complaint, an automatic reply ([feedback.md](feedback.md)).", []Field{
		{"id", Text, true, "The queue ID of the report."},
		{"kind", Text, true, "`bounced`, `delayed`, `delivered`, `relayed`, `complaint`, `auto-reply`, `unknown` or `unverified`."},
		{"recipient", Text, false, "The original recipient."},
		{"domain", Text, false, "His domain."},
		{"by", Text, false, "Where he was found: `verp`, `return-path`, `original` or `final`."},
		{"verified", Flag, false, "`true`: in an address with a tag of ours."},
		{"sender", Text, false, "The envelope sender of the mail that it is about."},
		{"class", Text, false, "The class that rules give mail of that sender."},
		{"tenant", Text, false, "The tenant that it counts to."},
		{"reply_class", Text, false, "Of a bounce or a delay: what it is about ([replies.md](replies.md))."},
		{"complaint", Text, false, "Of a complaint: its type, such as `abuse`."},
		{"status", Text, false, "The enhanced status code."},
		{"reply", Text, false, "The reply that the report quotes."},
		{"host", Text, false, "Who gave it."},
		{"reporter", Text, false, "Who made the report."},
		{"source_ip", Text, false, "The address that the mail came from, by the report."},
		{"original_message_id", Text, false, "The Message-ID of the mail that it is about."},
		{"original_id", Text, false, "Its queue ID here."},
		{"envid", Text, false, "Its envelope ID (ENVID)."},
		{"message_id", Text, false, "The Message-ID of the report."},
		{"error", Text, false, "Why it was not understood."},
	}},
	{"feedback again", "info", "A report has come back that was counted before.", []Field{
		{"id", Text, true, "The queue ID of the report."},
		{"kind", Text, true, "As in `feedback`."},
		{"recipient", Text, true, "The first original recipient that it names."},
		{"recipients", Integer, true, "The number of them."},
		{"message_id", Text, true, "The Message-ID of the report."},
	}},
	{"callout", "info", "A receiver was asked whether it would accept a recipient.", []Field{
		fieldID, fieldFrom, fieldTo,
		{"transport", Text, true, "The transport."},
		{"nexthop", Text, true, "The destination."},
		{"host", Text, true, "The server that was asked."},
		{"status", Text, true, "`deliverable`, `undeliverable`, `unsure` or `not asked`."},
		{"delay", Seconds, true, "The time that it took."},
		{"reply", Text, true, "Its reply."},
	}},
	{"order", "info", "An operator, or a client by ETRN, has given an order.", []Field{
		{"verb", Text, true, "The order, such as `hold`, `release`, `drop`, `bounce`, `expire`, `retry`, `reroute`, `requeue`, `flush`, `suspend`, `resume`, `warmup`, `log level` or `reload`."},
		{"by", Text, true, "Who gave it."},
		{"reason", Text, false, "His reason."},
		{"id", Text, false, "The message that it is for."},
		{"into", Text, false, "The message that recipients were moved to: of `requeue` the one in its place."},
		{"from", Text, false, "The envelope sender."},
		{"sender", Text, false, "Of `requeue`: the new envelope sender; absent if it stays."},
		{"rewritten", Text, false, "Of `requeue`: recipients who are replaced, as old>new+new, with commas between them, at most 100; absent if all stay."},
		{"class", Text, false, "Of `requeue`: the class of the new message, with `tenant` and `flow`; all absent if none of them changes."},
		{"tenant", Text, false, "Its tenant."},
		{"flow", Text, false, "Its flow."},
		{"to", Text, false, "The recipients, with commas between them, at most 100."},
		{"route", Text, false, "Of `reroute`: where the recipients go, as transport:nexthop; not there if they go where the configuration says again."},
		{"messages", Integer, false, "The number of messages that one request was for."},
		{"first", Text, false, "The first of them."},
		{"deferred", Integer, false, "Of `flush`: the number of deferred messages."},
		{"scope", Text, false, "Of `suspend` and `resume`: `site`, `domain`, `destination`, `transport`, `source`, `tenant` or `class`."},
		{"value", Text, false, "Of the same: which one. Of `log level`: the level."},
		{"for", Text, false, "Of `suspend` and `log level`: for how long, as it was ordered; empty without an end."},
		{"source", Text, false, "Of `warmup`: the source."},
		{"site", Text, false, "Of `warmup`: the site; empty for all."},
		{"order", Text, false, "Of `warmup`: what is changed."},
		{"day", Integer, false, "Of `warmup`: the day."},
	}},
	{"suspended", "info", "Deliveries are suspended by the order of an operator or a rule on replies.", []Field{
		{"reason", Text, true, "What, who and why."}, {"next", Time, false, "Until when; absent without an end."},
		{"transport", Text, false, "Of a destination: its transport."}, {"nexthop", Text, false, "Of a destination: its nexthop."}, {"domain", Text, false, "Of a destination: the domain of recipients, if only what goes to that is suspended."}, {"source", Text, false, "Of a destination: the source, if it is suspended from one only."},
		{"refused_senders", Text, false, "Of a rule that counts whose mail is refused: the domains of the senders of that mail (`<>` is the null sender), the last five of up to 16 replies, and how many more there were."},
		{"refused_tenants", Text, false, "Likewise, the tenants."}, {"refused_domains", Text, false, "Likewise, the domains of the recipients who were refused."}}},
	{"resumed", "info", "A suspension has ended.", []Field{{"reason", Text, true, "What, who and why."},
		{"transport", Text, false, "Of a destination: its transport."}, {"nexthop", Text, false, "Of a destination: its nexthop."}, {"domain", Text, false, "Of a destination: the domain of recipients, if only what goes to that was suspended."}, {"source", Text, false, "Of a destination: the source, if it was suspended from one only."}}},
	{"dead", "warn", "A destination or a transport is not tried for a while.", ofDestination(fieldReason)},
	{"alive", "info", "It is tried again.", ofDestination(fieldReason)},
	{"rule", "info", "A rule on replies has a destination rest, or lowers its limits.", ofDestination(Field{"next", Time, false, "Until when."}, fieldReason)},
	{"mixed", "error", "A server has put content under the envelope of another message.", ofDestination(fieldReason)},
	{"withdrawn", "warn", "An address of a source cannot be used on this machine.", []Field{{"source", Text, true, "The source."}, {"reason", Text, true, "Which address, and why."}}},
	{"restored", "info", "An address of a source can be used again.", []Field{{"source", Text, true, "The source."}, {"reason", Text, true, "Which address."}}},
	{"window", "info", "The window of a destination after feedback, with `destination_concurrency_feedback_debug`.", []Field{
		{"transport", Text, true, "The transport."},
		{"nexthop", Text, true, "The destination."},
		{"cause", Text, true, "`success`, `failure` or `revival`."},
		{"window", Integer, true, "The limit of parallel deliveries; 0 while it is dead."},
		{"limit", Integer, true, "Its maximum."},
		{"success", Number, true, "The feedback gathered toward the next increase."},
		{"failure", Number, true, "The feedback left until the next decrease."},
		{"cohorts", Number, true, "The number of whole windows of deliveries that have failed in a row."},
	}},
}
