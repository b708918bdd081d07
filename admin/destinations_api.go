package admin

import "time"

// DestinationsMax is the maximum number of destinations in one answer.
const DestinationsMax = 1000

// A Destination is one line of a list of destinations. Its counts cover mail in
// core, not deferred mail that is not due.
type Destination struct {
	Name       string      `json:"name" doc:"Transport and nexthop, separated by a colon."`
	Transport  string      `json:"transport"`
	Source     string      `json:"source,omitempty" doc:"The source that its mail leaves from; absent if there is none, or several."`
	Security   string      `json:"security,omitempty" doc:"The security demand of its mail, as level or level=names; absent for TLS if the server offers it."`
	Sources    []string    `json:"sources,omitempty" doc:"The sources that its mail leaves from, whose counts are added up here."`
	Nexthop    string      `json:"nexthop" doc:"Domain, [host]:port, or {host,host;host}: MX hosts that several domains share."`
	State      string      `json:"state" enum:"ready,opening,full,rate-limited,paused,dead,suspended" doc:"ready: it takes mail; opening: its hosts are being looked up or connected to; full: it is at a limit of concurrent connections or deliveries; rate-limited: it is at a rate limit; paused: a delay between two deliveries; dead: it cannot be reached; suspended: an operator or a rule on replies has suspended it, or its transport, site or source."`
	Messages   int         `json:"messages" doc:"Messages with waiting recipients."`
	Recipients int         `json:"recipients" doc:"Recipients that wait."`
	Todo       int         `json:"todo" doc:"Waiting transactions."`
	Oldest     *time.Time  `json:"oldest,omitempty" doc:"Arrival time of the oldest waiting message."`
	Busy       int         `json:"busy" doc:"Transactions under way; more than the window if several messages are pipelined on a connection."`
	Window     int         `json:"window" doc:"Current limit of concurrent connections, or of concurrent deliveries if an agent makes them. 0 while it is dead."`
	Open       int         `json:"connections" doc:"Open connections."`
	Opening    int         `json:"connecting" doc:"Connections that are being opened."`
	Hosts      *HostCounts `json:"hosts,omitempty" doc:"Absent if an agent makes the deliveries or the hosts are not known."`
	WaitReason *WaitReason `json:"wait_reason,omitempty" doc:"Why its waiting mail is not being sent now; absent if nothing waits."`
	Reason     string      `json:"reason,omitempty" doc:"Why it is dead."`
	Rule       string      `json:"rule,omitempty" doc:"The rule on replies, [reply_rule.NAME], that keeps mail from it until then."`
	Lowered    string      `json:"lowered_by,omitempty" doc:"The rule on replies whose limits apply now."`
	LoweredEnd *time.Time  `json:"lowered_until,omitempty" doc:"Until when they apply, unless it replies so again."`
	Until      *time.Time  `json:"until,omitempty" doc:"When it is tried again."`
	Suspended  *Suspension `json:"suspended,omitempty" doc:"The suspension of it, or of its transport, nexthop or source, if an operator or a rule on replies has suspended it. Its mail is deferred, and does not wait here."`
	Failure    *Failure    `json:"last_failure,omitempty" doc:"The last failed connection to one of its hosts."`
}

// HostCounts counts a destination's hosts by state.
type HostCounts struct {
	Up    int `json:"up" doc:"Hosts that have connections, or are not known to have failed."`
	Busy  int `json:"busy" doc:"Of these: hosts that refused further connections."`
	Retry int `json:"retry" doc:"Hosts that failed and wait for a retry."`
}

// A Failure is why something failed, and when.
type Failure struct {
	Reply string    `json:"reply" doc:"Code, status and text; made by this program if the host sent no reply."`
	At    time.Time `json:"at"`
}

// A DestinationPage is a part of a list of destinations.
type DestinationPage struct {
	Destinations []Destination     `json:"destinations" doc:"Those with the most waiting first."`
	Matched      int               `json:"matched" doc:"Number of matching destinations in any state, on all pages."`
	States       map[string]int    `json:"states" doc:"Number of these by state."`
	Suspensions  *SuspensionCounts `json:"suspensions,omitempty" doc:"What operators and rules on replies have suspended, also what has no destination here; absent if nothing is."`
	Next         string            `json:"next,omitempty" doc:"Where to go on: pass it as cursor. Absent at the end."`
}

// A DestinationDetail is the full state of one destination.
type DestinationDetail struct {
	Destination
	Remembered  bool               `json:"remembered,omitempty" doc:"It has no mail in core and no connections: this is what is remembered of its host."`
	Limit       int                `json:"window_limit,omitempty" doc:"Maximum of the window; absent if there is no limit."`
	Tables      []string           `json:"tables,omitempty" doc:"Tables [destination.NAME] of the configuration that match, the most specific first."`
	Rates       []RateUse          `json:"rates,omitempty" doc:"Rate limits."`
	HostList    []HostStatus       `json:"host_list" doc:"In order of preference; hosts in the same tier are equally preferred."`
	Connections []ConnectionStatus `json:"connection_list" doc:"Oldest first."`
	Ended       []EndedConnection  `json:"ended" doc:"The last connections that ended, as far as remembered, latest first."`
}

// A RateUse is a rate limit and its current use.
type RateUse struct {
	Key   string `json:"key" doc:"The configuration parameter."`
	Limit string `json:"limit" example:"30/min"`
	Used  int    `json:"used" doc:"Number of events that count against it now."`
}

// A HostStatus is what is known of one host.
type HostStatus struct {
	Name        string           `json:"name,omitempty" doc:"Absent for an address literal."`
	Address     string           `json:"address"`
	Source      string           `json:"source,omitempty" doc:"The source for whose connections this holds; absent without sources."`
	Security    string           `json:"security,omitempty" doc:"The security demand of its mail, as level or level=names; absent for TLS if the server offers it."`
	Tier        int              `json:"tier" doc:"From 1, the best."`
	State       string           `json:"state" enum:"active,idle,connecting,probing,closed,unused,retry" doc:"active: a connection is carrying mail; idle: all its connections are idle; connecting: its first connection is being opened; probing: it had failed, and one connection tests whether it is back; closed: it had connections recently; retry: it failed; unused: it was not used recently."`
	Until       *time.Time       `json:"until,omitempty" doc:"retry: earliest time of the next attempt."`
	BusyUntil   *time.Time       `json:"busy_until,omitempty" doc:"It refused further connections; no more are opened until then."`
	Connections int              `json:"connections" doc:"Connections for all destinations of the transport, including those being opened or closed."`
	Idle        int              `json:"idle" doc:"Number of these that are idle."`
	Limit       int              `json:"connection_limit,omitempty" doc:"Maximum number of connections; absent if there is no limit."`
	Failures    int              `json:"failures,omitempty" doc:"Number of consecutive failed attempts."`
	Failure     *Failure         `json:"last_failure,omitempty" doc:"The last of them."`
	Level       string           `json:"level" enum:"lockstep,group,overlap,stream" doc:"The highest level of pipelining that is used."`
	Configured  string           `json:"level_configured" enum:"lockstep,group,overlap,stream"`
	LevelUntil  *time.Time       `json:"level_until,omitempty" doc:"A lower level than configured is used until then at least."`
	LevelFixed  bool             `json:"level_fixed,omitempty" doc:"A lower level is used permanently: the host put content under another envelope, or executed refused content as commands."`
	Unproven    bool             `json:"stream_unproven,omitempty" doc:"Level stream is configured, but the host has not been shown to support it yet."`
	ProvedAt    *time.Time       `json:"stream_tried,omitempty" doc:"Time of the next probe for stream."`
	Fell        *EndedConnection `json:"level_fell,omitempty" doc:"The connection that lowered the level, if remembered."`
	RTT         float64          `json:"rtt,omitempty" doc:"Smoothed round-trip time in seconds; absent if unknown."`
	Service     float64          `json:"service,omitempty" doc:"Smoothed time from content to the final reply in seconds, without the round trip; absent if unknown."`
	Slow        bool             `json:"slow,omitempty" doc:"It currently takes several times as long as its best time."`
	Mails       int              `json:"mails_per_connection,omitempty" doc:"Messages after which the host closes a connection; absent if unknown."`
	Offers      []string         `json:"capabilities,omitempty" doc:"SMTP extensions in its last EHLO reply, if known."`
}

// A ConnectionStatus is one connection.
type ConnectionStatus struct {
	ID       uint64     `json:"id" doc:"As in traces."`
	Host     string     `json:"host" doc:"name[address]:port."`
	Source   string     `json:"source,omitempty" doc:"The source that it comes from; absent without sources."`
	Security string     `json:"security,omitempty" doc:"The security demand of its mail, as level or level=names; absent for TLS if the server offers it."`
	TLS      string     `json:"tls,omitempty" doc:"The version of TLS, the cipher suite, and untrusted, trusted (the certificate is valid, but not for this host) or verified; absent in plaintext."`
	State    string     `json:"state" enum:"connecting,ready,draining"`
	Level    string     `json:"level" enum:"lockstep,group,overlap,stream"`
	InFlight int        `json:"in_flight" doc:"Transactions under way or assigned."`
	Room     int        `json:"room" doc:"Number of further transactions that it can take now."`
	Carried  int        `json:"carried" doc:"Transactions so far."`
	Limit    int        `json:"carry_limit,omitempty" doc:"Maximum number of transactions; absent if there is no limit."`
	Made     time.Time  `json:"made" doc:"When dialling began."`
	Idle     *time.Time `json:"idle_since,omitempty"`
	RTT      float64    `json:"rtt,omitempty" doc:"Round-trip time in seconds; absent if unknown."`
	Service  float64    `json:"service,omitempty" doc:"Smoothed duration of a transaction in seconds; absent if unknown."`
}

// An EndedConnection is how a connection ended.
type EndedConnection struct {
	ID          uint64    `json:"id"`
	Host        string    `json:"host" doc:"name[address]:port."`
	Source      string    `json:"source,omitempty" doc:"The source that it came from; absent without sources."`
	Security    string    `json:"security,omitempty" doc:"The security demand of its mail, as level or level=names; absent for TLS if the server offers it."`
	Why         string    `json:"why" enum:"asked,idle,busy,lost,step,mixed,wrong" doc:"asked: this program closed it in good order; idle: the server closed it while idle; busy: the server replied 421; lost: the connection was lost; step: the server did not follow the level of pipelining; mixed: the server put content under another envelope; wrong: the server violated the protocol."`
	DrainReason string    `json:"drain_reason,omitempty" enum:"idle-time,age,count,room,better-host,limit,host-gone,stop,probe,outdated" doc:"asked: why this program closed it."`
	Text        string    `json:"text" doc:"Why, in words."`
	Reply       string    `json:"reply,omitempty" doc:"The server's reply, or this program's description of the event."`
	Level       string    `json:"level" enum:"lockstep,group,overlap,stream"`
	Carried     int       `json:"carried" doc:"Transactions."`
	Made        time.Time `json:"made"`
	At          time.Time `json:"at"`
}

// A MessageDestination is one destination of a message that is in core.
type MessageDestination struct {
	Name       string      `json:"name" doc:"Transport and nexthop, separated by a colon; for mail that is being deferred, the original ones."`
	Source     string      `json:"source,omitempty" doc:"The source that the mail leaves from; absent without sources."`
	Security   string      `json:"security,omitempty" doc:"The security demand of its mail, as level or level=names; absent for TLS if the server offers it."`
	Waiting    int         `json:"waiting" doc:"Recipients that wait."`
	Busy       int         `json:"busy" doc:"Transactions under way."`
	Deferral   bool        `json:"being_deferred,omitempty" doc:"The destination cannot take it, and it is being deferred."`
	WaitReason *WaitReason `json:"wait_reason,omitempty" doc:"Why its waiting recipients are not being sent now."`
	Sharing    *Sharing    `json:"sharing,omitempty" doc:"How its flow shares the destination, if other flows have mail waiting for it, too."`
}
