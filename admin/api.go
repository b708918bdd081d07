package admin

import (
	"time"

	"github.com/posthaste-mta/posthaste/mail"
)

// The largest pages that a request may ask for.
const (
	MessagesMax   = 1000 // messages in one answer, or IDs in one order
	RecipientsMax = 1000 // recipients of one message in one answer
)

// A State is where a message is, in one word.
type State string

// A message that is in core is active, whichever area it rests in.
const (
	StateActive   State = "active"
	StateIncoming State = "incoming"
	StateDeferred State = "deferred"
	StateHold     State = "hold"
	StateCorrupt  State = "corrupt"
)

// A Wait is what a message waits for.
type Wait string

const (
	WaitCore    Wait = "core"    // its turn: it is in core, and a delivery is under way or next
	WaitRoom    Wait = "room"    // room in core: it is new or due
	WaitParked  Wait = "parked"  // the reason in WaitReason, after which it enters core
	WaitBackoff Wait = "backoff" // its next attempt, at Due
	// WaitSuspended means the end of a suspension, by an operator or a rule, in WaitReason.
	WaitSuspended Wait = "suspended"
	WaitRelease   Wait = "release" // an operator's release
	WaitDate      Wait = "date"    // the date at Until, until which its sender has it kept (RFC 4865)
	WaitRepair    Wait = "repair"  // an operator's attention: it is damaged
)

// A Filter selects the messages that meet all of its conditions. A condition with several
// values is met by each of them. Conditions on recipients apply to recipients that still
// wait, and a single recipient must meet all of them. A text between slashes is a regular
// expression as RE2 has them, and matches a part unless it is anchored; in others but Error, * stands
// for any text. Case never matters. docs/api.md has a table.
type Filter struct {
	IDs        []string `json:"ids,omitempty" query:"id,explode" maxItems:"1000" doc:"Queue IDs. If given, only these messages are considered, and only those that also meet the other conditions are selected."`
	Areas      []string `json:"areas,omitempty" query:"area,explode" enum:"incoming,deferred,hold,corrupt" maxItems:"4" doc:"Areas to search. Default: all except corrupt."`
	Sender     []string `json:"sender,omitempty" query:"sender,explode" maxItems:"100" example:"[\"*@example.com\"]" doc:"The envelope sender: an address, in which * stands for any text; @domain; /RE2/; or <> for the null sender. Case does not matter, here and below."`
	Class      []string `json:"class,omitempty" query:"class,explode" maxItems:"100" example:"[\"bulk\"]" doc:"The class, in which * stands for any text; /RE2/; or - for messages that were accepted by a version without classes."`
	Tenant     []string `json:"tenant,omitempty" query:"tenant,explode" maxItems:"100" example:"[\"192.0.2.0/24\"]" doc:"The tenant, in which * stands for any text; or /RE2/."`
	Flow       []string `json:"flow,omitempty" query:"flow,explode" maxItems:"100" example:"[\"news@example.com\"]" doc:"The flow, in which * stands for any text; or /RE2/."`
	Recipient  []string `json:"recipient,omitempty" query:"recipient,explode" maxItems:"100" example:"[\"jane@example.net\"]" doc:"A recipient: an address, in which * stands for any text; @domain; or /RE2/."`
	Domain     []string `json:"domain,omitempty" query:"domain,explode" maxItems:"100" example:"[\"example.net\",\".example.org\"]" doc:"The domain of a recipient, in which * stands for any text; with a leading dot, also its subdomains; or /RE2/."`
	Site       []string `json:"site,omitempty" query:"site,explode" maxItems:"100" example:"[\"mx.example.net\"]" doc:"The site of a recipient's last attempt, or where it waits if there was none: the nexthop as lists of destinations show it, or a host of a site; * stands for any text; or /RE2/."`
	Host       []string `json:"host,omitempty" query:"host,explode" maxItems:"100" example:"[\"mx1.example.net\",\"192.0.2.*\"]" doc:"The server that sent a recipient's last reply: its name, its address or name[address], in which * stands for any text; /RE2/; or - for a reply of this program."`
	Source     []string `json:"source,omitempty" query:"source,explode" maxItems:"100" example:"[\"bulk1\"]" doc:"The source of a recipient's last attempt, or where it waits if there was none; * stands for any text; /RE2/; or - if there is none."`
	Error      []string `json:"error,omitempty" query:"error,explode" maxItems:"100" example:"[\"greylisted\"]" doc:"A part of a recipient's last reply or of the hold reason, in which a star is a star; or /RE2/."`
	ReplyClass []string `json:"reply_class,omitempty" query:"reply_class,explode" maxItems:"100" example:"[\"mailbox-full\"]" doc:"The class of a recipient's last reply (docs/replies.md), in which * stands for any text; or /RE2/."`
	Damaged    bool     `json:"damaged,omitempty" query:"damaged" doc:"Only messages that cannot be read completely. Unless areas are given, corrupt is searched too."`
	Older      string   `json:"older,omitempty" query:"older" maxLength:"32" example:"2h" doc:"Arrived longer ago than this time; units s, m, h, d, w."`
	Younger    string   `json:"younger,omitempty" query:"younger" maxLength:"32" example:"1d" doc:"Arrived more recently than this time ago; units s, m, h, d, w."`
	Larger     string   `json:"larger,omitempty" query:"larger" maxLength:"32" example:"10M" doc:"Larger than this size in octets; units k, M, G, in steps of 1024."`
	Smaller    string   `json:"smaller,omitempty" query:"smaller" maxLength:"32" example:"4k" doc:"Smaller than this size in octets; units k, M, G, in steps of 1024."`
}

// Unconditional reports whether the filter has no conditions but areas.
func (f *Filter) Unconditional() bool { return !f.conditional() }

// A Recipient is one recipient with its last outcome.
type Recipient struct {
	Index      uint32     `json:"index" doc:"Its number within the message, from 0."`
	Address    string     `json:"address"`
	Result     string     `json:"result" enum:"pending,sent,deferred,bounced"`
	Reply      string     `json:"reply,omitempty" doc:"The last reply exactly as received: code, status and text, with its line breaks; a final [...] marks truncation."`
	ReplyClass string     `json:"reply_class,omitempty" example:"mailbox-full" doc:"The class of the reply (docs/replies.md); absent if it refuses nothing."`
	PutOff     string     `json:"put_off,omitempty" doc:"Why it was deferred without another attempt, in this program's words; reply is the earlier failure that led to it."`
	Expired    bool       `json:"expired,omitempty" doc:"It failed because the message expired; reply is the last one received."`
	By         string     `json:"by,omitempty" doc:"The remote host that sent the reply, as name[address]; absent if this program made the reply."`
	At         *time.Time `json:"at,omitempty" doc:"When the reply was made."`
	Doubtful   []Doubtful `json:"doubtful,omitempty" doc:"Hosts that may have the message already: they had all of it, and did not reply. With 3 such attempts, other hosts come first."`
	ORcpt      string     `json:"orcpt,omitempty" doc:"ORCPT as received (RFC 3461)."`
	Notify     string     `json:"notify,omitempty" doc:"NOTIFY as received (RFC 3461)."`
	Route      *Reroute   `json:"route,omitempty" doc:"The route that an operator has ordered; absent if the configuration decides."`
}

// A Reroute is where an operator has the mail for a recipient go.
type Reroute struct {
	To     string    `json:"to" example:"smtp:[relay.example]:587" doc:"Transport and nexthop."`
	By     string    `json:"by,omitempty" doc:"The operator."`
	Reason string    `json:"reason,omitempty"`
	At     time.Time `json:"at"`
}

// Text describes it for people, without its time.
func (r *Reroute) Text() string {
	text := "an operator has it go to " + r.To
	if r.By != "" {
		text = r.By + " has it go to " + r.To
	}
	if r.Reason != "" {
		text += ": " + r.Reason
	}
	return text
}

func rerouteOf(to *mail.OrderedRoute) *Reroute {
	if to == nil {
		return nil
	}
	return &Reroute{To: to.Target, By: to.By, Reason: to.Reason, At: wall(to.At)}
}

// A Doubtful is a host, and the number of attempts there after which it was unknown whether it has a message.
type Doubtful struct {
	Host  string `json:"host" example:"192.0.2.1:25"`
	Times int    `json:"times"`
}

// A Summary is one line of a list.
type Summary struct {
	ID          string      `json:"queue_id"`
	State       State       `json:"state" enum:"active,incoming,deferred,hold,corrupt" doc:"active: in core; otherwise the area it rests in."`
	Area        string      `json:"area" enum:"incoming,deferred,hold,corrupt" doc:"Where it rests on disk."`
	InCore      *bool       `json:"in_core,omitempty" doc:"Whether the scheduler holds it for delivery; absent if the core did not answer in time."`
	Wait        Wait        `json:"wait" enum:"core,room,parked,backoff,suspended,release,date,repair" doc:"What it waits for. core: its turn among the mail in core; room: room in core; parked: the end of the condition in wait_reason, before it enters core; backoff: its next attempt; suspended: the end of the suspension in wait_reason; release: an operator's release; date: the date in held_until, which its sender has named; repair: an operator's attention to damage."`
	Sender      string      `json:"sender" doc:"The envelope sender; empty is the null sender."`
	Class       string      `json:"class,omitempty" doc:"The class; absent if the message was accepted by a version without classes."`
	Tenant      string      `json:"tenant,omitempty" doc:"The tenant, likewise."`
	Flow        string      `json:"flow,omitempty" doc:"The flow within the tenant: the sender without what differs between the messages of one mailing, or what flow_key selects; <> is the null sender's mail."`
	Size        int64       `json:"size" doc:"Size of the content in bytes."`
	Arrived     time.Time   `json:"arrived"`
	Attempts    uint32      `json:"attempts" doc:"Number of times it was deferred, including rounds in which nothing was tried because its destinations were dead. A round that ends in a hold does not count."`
	LastAttempt *time.Time  `json:"last_attempt,omitempty"`
	Due         *time.Time  `json:"due,omitempty" doc:"Deferred: time of the next attempt."`
	Until       *time.Time  `json:"held_until,omitempty" doc:"Held, but not by an operator: time of its removal; or, if wait is date, of its first attempt."`
	Deliveries  int         `json:"deliveries,omitempty" doc:"In core: transactions under way."`
	WaitReason  *WaitReason `json:"wait_reason,omitempty" doc:"In core: why its recipients wait for the first destination that has any waiting. Parked or suspended: why it does not enter core."`
	Reason      string      `json:"reason,omitempty" doc:"Why it is held or in the corrupt area; otherwise the last reply for its first waiting recipient, or for its first recipient if none waits."`
	ReplyClass  string      `json:"reply_class,omitempty" doc:"The class of that reply (docs/replies.md)."`
	Route       *Reroute    `json:"route,omitempty" doc:"The route that an operator has ordered for that recipient; others may have others. Absent if the configuration decides."`
	Ordered     string      `json:"ordered,omitempty" enum:"hold,drop,some,reroute,requeue" doc:"In core: the order that takes effect when the deliveries under way have ended. some: orders for some recipients; reroute: recipients go elsewhere unless they get the message from these deliveries; requeue: likewise, they are put into a new message. It is lost in a crash."`
	Damage      string      `json:"damage,omitempty" doc:"What part of the message cannot be read; the other fields may then be incomplete."`
	Total       uint32      `json:"recipients_total"`
	Waiting     uint32      `json:"recipients_waiting" doc:"Recipients that still need an attempt."`
	Recipients  []Recipient `json:"recipients,omitempty" doc:"The first waiting recipients, or the first recipients if none waits, up to the number requested."`
}

// An Unread is a message that could not be read or changed.
type Unread struct {
	ID    string `json:"queue_id"`
	Error string `json:"error"`
}

// A Page is a part of a list.
type Page struct {
	Messages []Summary `json:"messages"`
	Unread   []Unread  `json:"unread,omitempty" doc:"Messages that could not be read completely, and why. They may or may not match the filter."`
	Scanned  int       `json:"scanned" doc:"Messages looked at."`
	Next     string    `json:"next,omitempty" doc:"Position of the next page, to be passed as cursor. Absent at the end."`
}

// A Detail is all about one message but its content.
type Detail struct {
	Summary
	EnvID        string               `json:"env_id,omitempty" doc:"ENVID as received (RFC 3461)."`
	Ret          string               `json:"ret,omitempty" enum:"FULL,HDRS" doc:"RET as received (RFC 3461)."`
	Body         string               `json:"body,omitempty" enum:"7BIT,8BITMIME"`
	SMTPUTF8     bool                 `json:"smtputf8"`
	TLS          string               `json:"tls_request,omitempty" enum:"required,optional" doc:"What the sender asks for on its way (RFC 8689): required by REQUIRETLS, optional by a header field TLS-Required: No."`
	VERP         string               `json:"verp,omitempty" doc:"The delimiters of the recipient in the envelope sender of each transaction (VERP), followed by \"tag\" if there is a tag; absent if all transactions have the sender above."`
	Date         *time.Time           `json:"future_release,omitempty" doc:"The date until which its sender has it kept (RFC 4865), or when an operator released it before that."`
	DeliverBy    *time.Time           `json:"deliver_by,omitempty" doc:"The time by which its sender wants it delivered (RFC 2852)."`
	ByMode       string               `json:"deliver_by_mode,omitempty" enum:"notify,return" doc:"What happens if it is not: notify: its sender receives a report, and it is tried as before; return: it is returned."`
	ByTrace      bool                 `json:"deliver_by_trace,omitempty" doc:"Whether its sender receives a report from each server that passes it on."`
	Warned       bool                 `json:"warned" doc:"Whether a delay warning was sent to the sender."`
	Late         bool                 `json:"late,omitempty" doc:"Whether the report was sent that deliver_by has passed."`
	RequeuedFrom string               `json:"requeued_from,omitempty" doc:"The message in whose place an operator has put it (requeue); absent if it has arrived itself."`
	ClientAddr   string               `json:"client_address,omitempty"`
	ClientHelo   string               `json:"client_helo,omitempty"`
	Protocol     string               `json:"protocol,omitempty"`
	Places       []MessageDestination `json:"destinations,omitempty" doc:"In core: its destinations, at most 20, those with waiting recipients first."`
	MorePlaces   int                  `json:"destinations_more,omitempty" doc:"Number of destinations left out."`
	Routing      int                  `json:"routing,omitempty" doc:"In core: recipients whose routes are still being looked up."`
	History      []Attempt            `json:"history" maxItems:"100" doc:"The newest attempts that left recipients to retry or to report, the oldest first, as far as the daemon remembers them: since its start, and among the last 10,000 of all messages, or fewer if replies are long. The last outcome of each recipient is in all_recipients; the log has all attempts."`
	Older        int                  `json:"history_more,omitempty" doc:"Number of attempts that are remembered and are older than these."`
	Forgotten    int                  `json:"history_missing,omitempty" doc:"Number of the attempts (of the field attempts) of which nothing is remembered: those before history_since, and those forgotten in favor of later ones."`
	Since        *time.Time           `json:"history_since,omitempty" doc:"The start of the daemon, since which attempts are remembered; absent if none are missing."`
	All          []Recipient          `json:"all_recipients" doc:"Recipients, including settled ones, from the requested index on."`
	Next         *uint32              `json:"next,omitempty" doc:"The index of the next page; absent at the end."`
}

// An Attempt is how an attempt ended for recipients that did not get the message: those of one transaction with the same reply.
type Attempt struct {
	At        time.Time `json:"at"`
	Number    int       `json:"number" doc:"The number of the attempt at the message."`
	Result    string    `json:"result" enum:"deferred,bounced"`
	Host      string    `json:"host,omitempty" doc:"The server that gave the reply; absent if none did."`
	Source    string    `json:"source,omitempty" doc:"The source that the mail left from."`
	Stage     string    `json:"stage,omitempty" doc:"What the reply answers, as in the log; absent if it is not a server's."`
	Reply     string    `json:"reply" doc:"The reply as it came."`
	Recipient string    `json:"recipient" doc:"The first of the recipients."`
	More      int       `json:"more,omitempty" doc:"The number of other recipients."`
}

// An Order selects the messages that an order applies to.
type Order struct {
	Filter  *Filter `json:"filter,omitempty" doc:"Selects the messages. Required unless all is true."`
	All     bool    `json:"all,omitempty" doc:"Apply to all messages, or to all in the filter's areas."`
	Reason  string  `json:"reason,omitempty" maxLength:"512" doc:"Reason, stored with held messages and logged. Default for a hold: \"held by an operator\"."`
	DryRun  bool    `json:"dry_run,omitempty" doc:"Only count."`
	Confirm int     `json:"confirm,omitempty" minimum:"0" doc:"For drop, bounce, expire, and reroute to discard or error, without IDs: the maximum number of messages to change, as counted by a dry run."`
	Limit   int     `json:"limit,omitempty" minimum:"0" maximum:"1000" doc:"Maximum number of messages that this request handles; 0 means as many as it can in half a second, and at most 20,000."`
	Cursor  string  `json:"cursor,omitempty" maxLength:"128" doc:"Position to continue from: next of the previous answer."`
}

// A RerouteOrder has recipients go where the configuration would not send them, or takes that back.
type RerouteOrder struct {
	Order
	To    string `json:"to,omitempty" maxLength:"512" example:"smtp:[relay.example]:587" doc:"Where the recipients go: transport:nexthop as in a route of the configuration, or a nexthop alone for the default transport. Required unless clear is true."`
	Clear bool   `json:"clear,omitempty" doc:"They go where the configuration says again."`
}

// A RequeueOrder has messages go through what is decided when mail is accepted once more.
type RequeueOrder struct {
	Order
	KeepRoute bool `json:"keep_route,omitempty" doc:"Recipients keep the route that an operator has ordered; otherwise the configuration decides again."`
}

// Ordered is what one request did.
type Ordered struct {
	Matched    int       `json:"matched" doc:"Messages that the order applies to."`
	Recipients int       `json:"recipients,omitempty" doc:"Recipients that wait and that the order applies to, in a dry run, and for bounce, expire, reroute and requeue, and for drop and hold with conditions on recipients."`
	Rewritten  int       `json:"rewritten,omitempty" doc:"For requeue: how many of these recipients are replaced by others."`
	Splits     []Part    `json:"splits,omitempty" doc:"For requeue: the new messages, and in a dry run those that would get one. For hold with conditions on recipients: messages that also have waiting recipients that do not match; the matching recipients are moved to new messages."`
	Refused    []Refused `json:"refused,omitempty" doc:"For requeue: messages that stay as they were, since an address cannot be rewritten or there is no room."`
	Done       int       `json:"done" doc:"Messages for which the order has taken effect."`
	Pending    int       `json:"pending" doc:"Messages for which the order takes effect when the deliveries under way have ended."`
	Unchanged  int       `json:"unchanged" doc:"Messages given by ID that needed no change; of reroute also others whose recipients go there already; of requeue those without a waiting recipient that matches."`
	Dated      int       `json:"dated,omitempty" doc:"For release: messages that wait for the date until which their senders have them kept. They were released before it, or they wait for nothing else and were not released, because they were not given by ID."`
	Missing    []string  `json:"missing,omitempty" doc:"IDs that are not in the queue."`
	Unread     []Unread  `json:"unread,omitempty" doc:"Messages that could not be read or changed, and why. An unreadable message may or may not match the filter."`
	Scanned    int       `json:"scanned" doc:"Messages looked at."`
	Next       string    `json:"next,omitempty" doc:"Position of the next page, to be passed as cursor. Absent at the end."`
}

// A Part is the recipients that were moved to a new message.
type Part struct {
	From       string      `json:"from" doc:"The message that the recipients were moved from."`
	Into       string      `json:"into,omitempty" doc:"The new message; after a hold it is held. Absent in a dry run."`
	Recipients []string    `json:"recipients" doc:"The first 20 of them, with the addresses that they had."`
	More       int         `json:"recipients_more,omitempty" doc:"Number of recipients left out of the list."`
	Sender     *string     `json:"sender,omitempty" doc:"Of a requeue: the new sender; absent if it stays."`
	Rewritten  []Rewritten `json:"rewritten,omitempty" doc:"Of a requeue: the first 20 recipients that are replaced."`
}

// A Rewritten is a recipient, and those in his place.
type Rewritten struct {
	Recipient string   `json:"recipient"`
	By        []string `json:"by" doc:"The first 20 of those in his place."`
	More      int      `json:"more,omitempty" doc:"Number of others."`
}

// A Refused is a message that an order cannot be carried out for.
type Refused struct {
	ID     string `json:"queue_id"`
	Reason string `json:"reason"`
}

// Flushed is the answer to a flush.
type Flushed struct {
	Deferred int64 `json:"deferred" doc:"Number of deferred messages at the time of the flush."`
}

// A Status is the core and the spool at a glance.
type Status struct {
	Version    string            `json:"version"`
	Now        time.Time         `json:"now" doc:"The server's clock."`
	Core       CoreStatus        `json:"core"`
	Transports []TransportStatus `json:"transports"`
	Spool      SpoolStatus       `json:"spool"`
	// Connections and Alarms cover the time since the program's start; an alarm of
	// kind damaged stays until the file that it names is removed.
	Connections ConnectionsStatus `json:"connections"`
	Intake      *IntakeStatus     `json:"intake,omitempty"`
	Suspensions *SuspensionCounts `json:"suspensions,omitempty" doc:"What operators and rules on replies have suspended; absent if nothing is."`
	Alarms      []Alarm           `json:"alarms,omitempty" doc:"Conditions that need an operator's attention."`
}

// A CoreStatus is what the core holds and has done since the start.
type CoreStatus struct {
	Messages   int        `json:"messages"`
	Recipients int        `json:"recipients"`
	Busy       int        `json:"busy" doc:"Deliveries under way."`
	Lookups    int        `json:"lookups" doc:"Route lookups under way."`
	Waiting    int        `json:"lookups_waiting" doc:"Route lookups that wait because the limit of lookups under way is reached."`
	Verifying  int        `json:"verifying" doc:"Clients that wait for a recipient to be verified."`
	Callouts   int        `json:"callouts" doc:"Call-outs (probes of recipient addresses at remote servers) under way or queued."`
	CalledOut  uint64     `json:"called_out" doc:"Call-outs completed since the start."`
	Addresses  int        `json:"addresses" doc:"Addresses whose call-out result is cached."`
	Behind     bool       `json:"behind" doc:"New mail waits in the spool because the core is full."`
	Halted     bool       `json:"halted" doc:"No new deliveries are started: the program is stopping."`
	Arrived    uint64     `json:"arrived" doc:"Messages received since the start."`
	Deliveries uint64     `json:"deliveries" doc:"Delivery attempts started since the start."`
	Sent       uint64     `json:"sent" doc:"Recipients, since the start."`
	Deferred   uint64     `json:"deferred" doc:"Recipients, since the start; one may count more than once."`
	Bounced    uint64     `json:"bounced" doc:"Recipients, since the start."`
	Unknown    uint64     `json:"unknown" doc:"Recipients, since the start, that may or may not have the message: it was sent completely, and no reply came."`
	Offline    *time.Time `json:"offline_since,omitempty" doc:"The time since which hardly any host can be reached, so that our own network is considered down."`
	Expired    uint64     `json:"expired" doc:"Messages given up because of their age, since the start."`
}

// A ConnectionsStatus counts connections.
type ConnectionsStatus struct {
	Ended map[string]uint64 `json:"ended" doc:"Connections that have ended since the start, by close reason: asked, idle, busy, lost, step, mixed, wrong."`
}

// An IntakeStatus counts sessions of clients, and what they have brought, since the start.
type IntakeStatus struct {
	Open        int64            `json:"open" doc:"Sessions that are open now."`
	Sessions    int64            `json:"sessions" doc:"Sessions that were begun."`
	Refused     int64            `json:"refused" doc:"Connections that were refused because of a limit."`
	Shed        int64            `json:"shed" doc:"Sessions that were closed to make room for others."`
	Timeouts    int64            `json:"timeouts" doc:"Sessions that ended because the client was too slow."`
	Early       int64            `json:"early" doc:"Sessions in which the client did not wait for replies."`
	ProxyFailed int64            `json:"proxy_failed" doc:"Connections of proxies without a proper header."`
	Messages    int64            `json:"messages" doc:"Messages that were accepted."`
	Recipients  int64            `json:"recipients" doc:"Recipients of these."`
	Octets      int64            `json:"octets" doc:"Size of these, in octets."`
	Refusals    map[string]int64 `json:"refusals" doc:"Commands, recipients and messages that were refused, by reason: protocol, address, recipients (too many), policy, login, size, content, system, other. Reasons without a refusal are left out."`
	TLS         int64            `json:"tls" doc:"TLS handshakes that succeeded."`
	TLSFailed   int64            `json:"tls_failed" doc:"TLS handshakes that failed."`
	TLSRefused  int64            `json:"tls_refused" doc:"TLS handshakes that were not begun because of the limit."`
	Logins      int64            `json:"logins" doc:"Successful logins."`
	LoginFailed int64            `json:"login_failed" doc:"Failed logins."`
	LoginLater  int64            `json:"login_later" doc:"Logins that were not tried because of a limit."`
	Failures    int64            `json:"failures" doc:"Errors of our own while mail was taken in."`
	Panics      int64            `json:"panics" doc:"Connections lost to a bug."`
	Milters     []MilterStatus   `json:"milters,omitempty" doc:"Mail filters, in the order of their names."`
}

// A MilterStatus counts what a mail filter has done since it was first configured in this run.
type MilterStatus struct {
	Name        string `json:"name"`
	Connections int64  `json:"connections" doc:"Connections to it."`
	Messages    int64  `json:"messages" doc:"Messages that it has let pass, changed or not."`
	Refused     int64  `json:"refused" doc:"Clients, senders, recipients and messages that it has refused permanently."`
	Deferred    int64  `json:"deferred" doc:"The same, temporarily."`
	Discarded   int64  `json:"discarded" doc:"Messages that it has discarded."`
	Held        int64  `json:"held" doc:"Messages that it has had held."`
	Changed     int64  `json:"changed" doc:"Messages that it has changed."`
	Failures    int64  `json:"failures" doc:"Times that it could not be asked, or gave an invalid answer."`
}

// An Alarm is something that a person has to look at.
type Alarm struct {
	Kind       string           `json:"kind" enum:"mixed,damaged,unrecorded" doc:"mixed: a server has put content under another message's envelope. damaged: a file of the spool was damaged at a start. unrecorded: outcomes of messages cannot be written to the spool."`
	At         time.Time        `json:"at" doc:"When it happened last."`
	Text       string           `json:"text"`
	Connection *EndedConnection `json:"connection,omitempty" doc:"The connection that it happened on."`
}

// A TransportStatus is what the core holds of one transport.
type TransportStatus struct {
	Name         string              `json:"name"`
	Jobs         int                 `json:"jobs" doc:"Messages with something to deliver by it."`
	Busy         int                 `json:"busy" doc:"Deliveries under way."`
	State        string              `json:"state" enum:"alive,dead" doc:"Dead: no delivery can be attempted by it, and its mail is deferred."`
	Reason       string              `json:"reason,omitempty" doc:"Why it is dead."`
	Until        *time.Time          `json:"until,omitempty" doc:"When it is tried again."`
	Destinations []DestinationStatus `json:"destinations" doc:"Those with the most waiting, by name."`
}

// A DestinationStatus is one destination's window.
type DestinationStatus struct {
	Nexthop    string      `json:"nexthop" doc:"Of the transport retry: why the mail is deferred."`
	Source     string      `json:"source,omitempty" doc:"The source that the mail leaves from; absent without sources."`
	Security   string      `json:"security,omitempty" doc:"The security demand of the mail; absent for TLS if the server offers it."`
	Instead    string      `json:"instead,omitempty" doc:"Of the transport retry: the transport and nexthop that the mail was to take, with a colon between them."`
	State      string      `json:"state" enum:"ready,opening,full,rate-limited,paused,dead,suspended" doc:"As for destinations."`
	Window     int         `json:"window" doc:"Deliveries that may go on at the same time."`
	Busy       int         `json:"busy" doc:"Deliveries under way."`
	Todo       int         `json:"todo" doc:"Deliveries that wait."`
	Open       int         `json:"connections,omitempty" doc:"Connections that are ready, where the core decides on them; the window counts these and those being opened."`
	Opening    int         `json:"connecting,omitempty" doc:"Connections that are being opened."`
	Waits      string      `json:"waits_for,omitempty" doc:"The wait reason of its mail: the kind in wait_reason."`
	WaitReason *WaitReason `json:"wait_reason,omitempty" doc:"The same in full."`
	Reason     string      `json:"reason,omitempty" doc:"Why it is dead."`
	Until      *time.Time  `json:"until,omitempty" doc:"When it is tried again."`
}

// A SpoolStatus counts messages by area.
type SpoolStatus struct {
	Incoming int64  `json:"incoming"`
	Deferred int64  `json:"deferred"`
	Hold     int64  `json:"hold"`
	Corrupt  int64  `json:"corrupt"`
	Used     int64  `json:"used" doc:"Octets on disk."`
	Free     int64  `json:"free" doc:"Octets of disk space left."`
	Refusing string `json:"refusing,omitempty" doc:"Why no mail is taken in, such as too little disk space."`
}
