package admin

import "time"

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
	WaitCore    Wait = "core"    // its turn: it is in core, being tried or about to be
	WaitRoom    Wait = "room"    // room in core: it is new, or due
	WaitParked  Wait = "parked"  // what Obstacle says, after which it comes into core
	WaitBackoff Wait = "backoff" // its next attempt, at Due
	WaitRelease Wait = "release" // an operator's release
	WaitRepair  Wait = "repair"  // a person to look at it: it is damaged
)

// A Filter picks messages: those that meet all of its conditions. Conditions
// on recipients look at recipients that still wait, and one of them must meet
// all of them.
type Filter struct {
	IDs       []string `json:"ids,omitempty" query:"id,explode" maxItems:"1000" doc:"Queue IDs. Given them, no other message is looked at; those of them that do not meet the other conditions are left alone."`
	Areas     []string `json:"areas,omitempty" query:"area,explode" enum:"incoming,deferred,hold,corrupt" maxItems:"4" doc:"Areas to look in. Without any: all but corrupt."`
	Sender    string   `json:"sender,omitempty" query:"sender" maxLength:"512" example:"*@example.com" doc:"The envelope sender: an address, in which * stands for any text; @domain; or <> for the null sender. Case does not matter."`
	Recipient string   `json:"recipient,omitempty" query:"recipient" maxLength:"512" example:"jane@example.net" doc:"A recipient: an address, in which * stands for any text; or @domain. Case does not matter."`
	Domain    string   `json:"domain,omitempty" query:"domain" maxLength:"512" example:"example.net" doc:"The domain of a recipient; with a dot in front, its subdomains also."`
	Error     string   `json:"error,omitempty" query:"error" maxLength:"512" example:"greylisted" doc:"A part of a recipient's last reply, or of the reason for a hold. Case does not matter."`
	Damaged   bool     `json:"damaged,omitempty" query:"damaged" doc:"Of which something cannot be read. Without areas, corrupt is looked at, too."`
	Older     string   `json:"older,omitempty" query:"older" maxLength:"32" example:"2h" doc:"Arrived longer ago than this; units s, m, h, d, w."`
	Younger   string   `json:"younger,omitempty" query:"younger" maxLength:"32" example:"1d" doc:"Arrived less long ago than this; units s, m, h, d, w."`
}

// A Recipient is one recipient with its last outcome.
type Recipient struct {
	Index   uint32     `json:"index" doc:"Its number within the message, from 0."`
	Address string     `json:"address"`
	Result  string     `json:"result" enum:"pending,sent,deferred,bounced"`
	Reply   string     `json:"reply,omitempty" doc:"The last reply as it came: code, status and text, in as many lines; [...] at the end stands for what was not kept."`
	PutOff  string     `json:"put_off,omitempty" doc:"Why it was put off without another attempt, in this program's words; reply is what led to that."`
	Expired bool       `json:"expired,omitempty" doc:"It was given up because of the message's age; reply is the last one."`
	By      string     `json:"by,omitempty" doc:"The remote host that said so, as name[address]; absent if this program did."`
	At      *time.Time `json:"at,omitempty" doc:"When it said so."`
	ORcpt   string     `json:"orcpt,omitempty" doc:"ORCPT as received (RFC 3461)."`
	Notify  string     `json:"notify,omitempty" doc:"NOTIFY as received (RFC 3461)."`
}

// A Summary is one line of a list.
type Summary struct {
	ID          string      `json:"queue_id"`
	State       State       `json:"state" enum:"active,incoming,deferred,hold,corrupt" doc:"active: in core; otherwise the area it rests in."`
	Area        string      `json:"area" enum:"incoming,deferred,hold,corrupt" doc:"Where it rests on disk."`
	InCore      *bool       `json:"in_core,omitempty" doc:"Whether it is being tried or about to be; absent if the core did not say in time."`
	Wait        Wait        `json:"wait" enum:"core,room,parked,backoff,release,repair" doc:"What it waits for: its turn in core, room in core, what the obstacle says before it comes into core, its next attempt, a release, a repair."`
	Sender      string      `json:"sender" doc:"The envelope sender; empty is the null sender."`
	Size        int64       `json:"size" doc:"Octets of content."`
	Arrived     time.Time   `json:"arrived"`
	Attempts    uint32      `json:"attempts" doc:"How often it was put off: rounds that left something to retry, also those in which nothing was tried because its destinations were dead. A round that ends in a hold does not count."`
	LastAttempt *time.Time  `json:"last_attempt,omitempty"`
	Due         *time.Time  `json:"due,omitempty" doc:"Deferred: when it is to be tried again."`
	Until       *time.Time  `json:"held_until,omitempty" doc:"Held, and not by an operator: when it is removed."`
	Deliveries  int         `json:"deliveries,omitempty" doc:"In core: transactions under way."`
	Obstacle    *Obstacle   `json:"obstacle,omitempty" doc:"In core: what keeps it from going to the first destination for which something of it waits. Parked: what keeps it from coming into core."`
	Reason      string      `json:"reason,omitempty" doc:"Why it is held or put aside; else the last reply for its first waiting recipient, or for its first one if none waits."`
	Damage      string      `json:"damage,omitempty" doc:"What of the message cannot be read; what is told of it may be incomplete then."`
	Total       uint32      `json:"recipients_total"`
	Waiting     uint32      `json:"recipients_waiting" doc:"Recipients that still need an attempt."`
	Recipients  []Recipient `json:"recipients,omitempty" doc:"The first waiting recipients, or the first ones if none waits; as many as were asked for."`
}

// An Unread is a message that could not be read, or not be changed.
type Unread struct {
	ID    string `json:"queue_id"`
	Error string `json:"error"`
}

// A Page is a part of a list.
type Page struct {
	Messages []Summary `json:"messages"`
	Unread   []Unread  `json:"unread,omitempty" doc:"Messages of which not all that was asked for can be read, and why. It may not be known whether they belong in the list."`
	Scanned  int       `json:"scanned" doc:"Messages looked at."`
	Next     string    `json:"next,omitempty" doc:"Where to go on: pass it as cursor. Absent at the end."`
}

// A Detail is all about one message but its content.
type Detail struct {
	Summary
	EnvID      string               `json:"env_id,omitempty" doc:"ENVID as received (RFC 3461)."`
	Ret        string               `json:"ret,omitempty" enum:"FULL,HDRS" doc:"RET as received (RFC 3461)."`
	Body       string               `json:"body,omitempty" enum:"7BIT,8BITMIME"`
	SMTPUTF8   bool                 `json:"smtputf8"`
	Warned     bool                 `json:"warned" doc:"Whether the sender was told of the delay."`
	ClientAddr string               `json:"client_address,omitempty"`
	ClientHelo string               `json:"client_helo,omitempty"`
	Protocol   string               `json:"protocol,omitempty"`
	Places     []MessageDestination `json:"destinations,omitempty" doc:"In core: where it goes, at most 20, those first for which something waits."`
	MorePlaces int                  `json:"destinations_more,omitempty" doc:"Destinations that are left out."`
	Routing    int                  `json:"routing,omitempty" doc:"In core: recipients of whom it is not known yet where they go."`
	Ordered    string               `json:"ordered,omitempty" enum:"hold,drop,some" doc:"In core: what has been ordered, and is carried out when the deliveries under way have ended. some: for some recipients. A crash forgets it."`
	All        []Recipient          `json:"all_recipients" doc:"Recipients, settled ones also, from the index asked for."`
	Next       *uint32              `json:"next,omitempty" doc:"The index from which to go on; absent at the end."`
}

// An Order says for which messages an order is, and how.
type Order struct {
	Filter  *Filter `json:"filter,omitempty" doc:"Which messages. Either it has conditions or all is true."`
	All     bool    `json:"all,omitempty" doc:"All messages, or all in the areas that the filter names."`
	Reason  string  `json:"reason,omitempty" maxLength:"512" doc:"Why; kept with held messages, and logged. Without it, held messages are held by an operator."`
	DryRun  bool    `json:"dry_run,omitempty" doc:"Only count."`
	Confirm int     `json:"confirm,omitempty" minimum:"0" doc:"For drop and bounce without IDs: how many messages the caller means at most, as a dry run counted them."`
	Limit   int     `json:"limit,omitempty" minimum:"0" maximum:"1000" doc:"Messages that this request handles at most; 0 is 1000."`
	Cursor  string  `json:"cursor,omitempty" maxLength:"128" doc:"Where to go on: next of the answer before."`
}

// Ordered is what one request did.
type Ordered struct {
	Matched    int      `json:"matched" doc:"Messages that the order is for."`
	Recipients int      `json:"recipients,omitempty" doc:"Of bounce, and of drop and hold with conditions on recipients: the recipients that it is for."`
	Splits     []Part   `json:"splits,omitempty" doc:"Of hold with conditions on recipients: the messages that also wait for recipients that do not meet them. Those that do are put into messages of their own."`
	Done       int      `json:"done" doc:"Messages for which it has taken effect."`
	Pending    int      `json:"pending" doc:"Messages for which it takes effect when deliveries under way have ended."`
	Unchanged  int      `json:"unchanged" doc:"Messages asked for by ID for which there was nothing to do."`
	Missing    []string `json:"missing,omitempty" doc:"IDs that are not in the queue."`
	Unread     []Unread `json:"unread,omitempty" doc:"Messages that could not be read, so that it is not known whether the order is for them, or for which it could not be carried out, and why."`
	Scanned    int      `json:"scanned" doc:"Messages looked at."`
	Next       string   `json:"next,omitempty" doc:"Where to go on: pass it as cursor. Absent at the end."`
}

// A Part is recipients that were put into a message of their own.
type Part struct {
	From       string   `json:"from" doc:"The message that they were taken from."`
	Into       string   `json:"into,omitempty" doc:"The new message, which is held. Absent in a dry run."`
	Recipients []string `json:"recipients" doc:"The first 20 of them."`
	More       int      `json:"recipients_more,omitempty" doc:"How many others there are."`
}

// Flushed is the answer to a flush.
type Flushed struct {
	Deferred int64 `json:"deferred" doc:"Deferred messages at the time."`
}

// A Status is the core and the spool at a glance.
type Status struct {
	Version    string            `json:"version"`
	Now        time.Time         `json:"now" doc:"The server's clock."`
	Core       CoreStatus        `json:"core"`
	Transports []TransportStatus `json:"transports"`
	Spool      SpoolStatus       `json:"spool"`
	// Connections and Alarms are of this run of the program; an alarm of kind
	// damaged stays until the file that it names is removed.
	Connections ConnectionsStatus `json:"connections"`
	Alarms      []Alarm           `json:"alarms,omitempty" doc:"What must not be missed."`
}

// A CoreStatus is what the core holds and has done since the start.
type CoreStatus struct {
	Messages   int        `json:"messages"`
	Recipients int        `json:"recipients"`
	Busy       int        `json:"busy" doc:"Deliveries under way."`
	Lookups    int        `json:"lookups" doc:"Look-ups of where mail goes, under way."`
	Waiting    int        `json:"lookups_waiting" doc:"Look-ups that have not begun, because as many as may be are under way."`
	Verifying  int        `json:"verifying" doc:"Clients that wait to hear whether a recipient can be reached."`
	Callouts   int        `json:"callouts" doc:"Questions to receivers about recipients, under way or waiting in queues."`
	CalledOut  uint64     `json:"called_out" doc:"Such questions that have ended, since the start."`
	Addresses  int        `json:"addresses" doc:"Addresses of which the receiver's answer is remembered."`
	Behind     bool       `json:"behind" doc:"New mail waits in the spool because the core is full."`
	Halted     bool       `json:"halted" doc:"Nothing new is started: the program is stopping."`
	Arrived    uint64     `json:"arrived" doc:"Messages, since the start."`
	Deliveries uint64     `json:"deliveries" doc:"Attempts started, since the start."`
	Sent       uint64     `json:"sent" doc:"Recipients, since the start."`
	Deferred   uint64     `json:"deferred" doc:"Recipients, since the start; one may count more than once."`
	Bounced    uint64     `json:"bounced" doc:"Recipients, since the start."`
	Unknown    uint64     `json:"unknown" doc:"Recipients, since the start, who may have the message or not: it was sent to its end, and no reply came."`
	Offline    *time.Time `json:"offline_since,omitempty" doc:"Since when hardly any host can be reached, so that our own network is held to be down."`
	Expired    uint64     `json:"expired" doc:"Messages given up because of their age, since the start."`
}

// A ConnectionsStatus counts connections.
type ConnectionsStatus struct {
	Ended map[string]uint64 `json:"ended" doc:"Connections that have ended since the start, by why: asked, idle, busy, lost, step, mixed, wrong."`
}

// An Alarm is something that a person has to look at.
type Alarm struct {
	Kind       string           `json:"kind" enum:"mixed,damaged,unrecorded" doc:"mixed: a server has put what was sent under another envelope. damaged: a file of the spool was damaged at a start. unrecorded: what has become of mail cannot be written to the spool."`
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
	Nexthop  string     `json:"nexthop" doc:"Of the transport retry: why the mail is deferred."`
	Instead  string     `json:"instead,omitempty" doc:"Of the transport retry: the transport and nexthop that the mail was to take, with a colon between them."`
	State    string     `json:"state" enum:"ready,dead,suspended"`
	Window   int        `json:"window" doc:"Deliveries that may go on at the same time."`
	Busy     int        `json:"busy" doc:"Deliveries under way."`
	Todo     int        `json:"todo" doc:"Deliveries that wait."`
	Open     int        `json:"connections,omitempty" doc:"Connections that are ready, where the core decides on them; the window counts these and those being opened."`
	Opening  int        `json:"connecting,omitempty" doc:"Connections that are being opened."`
	Waits    string     `json:"waits_for,omitempty" doc:"What keeps that which waits from going now: the kind of obstacle."`
	Obstacle *Obstacle  `json:"obstacle,omitempty" doc:"The same in full."`
	Reason   string     `json:"reason,omitempty" doc:"Why it is dead."`
	Until    *time.Time `json:"until,omitempty" doc:"When it is tried again."`
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
