package admin

import "time"

// DestinationsMax is how many destinations one answer may tell of.
const DestinationsMax = 1000

// A Destination is one line of a list of destinations. The counts are of what is in
// core: mail that was deferred and is not due does not count.
type Destination struct {
	Name       string      `json:"name" doc:"Transport and nexthop, with a colon between them."`
	Transport  string      `json:"transport"`
	Nexthop    string      `json:"nexthop" doc:"Domain, [host]:port, or {host,host;host}: MX hosts that several domains share."`
	State      string      `json:"state" enum:"ready,opening,full,rate-limited,paused,dead" doc:"ready: it takes mail; opening: its hosts are being looked up or connected to; full: it has as much as it may have at once; rate-limited: it has had what it may have by now; paused: a pause between two deliveries; dead: it cannot be reached."`
	Messages   int         `json:"messages" doc:"Messages that have something waiting."`
	Recipients int         `json:"recipients" doc:"Recipients that wait."`
	Todo       int         `json:"todo" doc:"Transactions that wait."`
	Oldest     *time.Time  `json:"oldest,omitempty" doc:"When the oldest message that waits arrived."`
	Busy       int         `json:"busy" doc:"Transactions under way; with several messages pipelined, more than the window."`
	Window     int         `json:"window" doc:"Connections that it may have at the same time; deliveries, where an agent makes them. 0 while it is dead."`
	Open       int         `json:"connections" doc:"Connections that are ready."`
	Opening    int         `json:"connecting" doc:"Connections that are being opened."`
	Hosts      *HostCounts `json:"hosts,omitempty" doc:"Absent where an agent makes the deliveries, or hosts are not known."`
	Obstacle   *Obstacle   `json:"obstacle,omitempty" doc:"What keeps that which waits from going now; absent if nothing waits."`
	Reason     string      `json:"reason,omitempty" doc:"Why it is dead."`
	Until      *time.Time  `json:"until,omitempty" doc:"When it is tried again."`
	Failure    *Failure    `json:"last_failure,omitempty" doc:"Why a connection to one of its hosts failed last."`
}

// HostCounts is a destination's hosts in numbers.
type HostCounts struct {
	Up    int `json:"up" doc:"Have connections, or are not known to have failed."`
	Busy  int `json:"busy" doc:"Of these: have said that they take no more connections."`
	Retry int `json:"retry" doc:"Have failed, and are left alone or about to be tried again."`
}

// A Failure is why something failed, and when.
type Failure struct {
	Reply string    `json:"reply" doc:"Code, status and text; our own if the host said nothing."`
	At    time.Time `json:"at"`
}

// A DestinationPage is a part of a list of destinations.
type DestinationPage struct {
	Destinations []Destination  `json:"destinations" doc:"Those with the most waiting first."`
	Matched      int            `json:"matched" doc:"Destinations that match, whatever their state, on all pages."`
	States       map[string]int `json:"states" doc:"How many of these are in each state."`
	Next         string         `json:"next,omitempty" doc:"Where to go on: pass it as cursor. Absent at the end."`
}

// A DestinationDetail is all that is known of one destination.
type DestinationDetail struct {
	Destination
	Remembered  bool               `json:"remembered,omitempty" doc:"It has no mail in core and no connections now: this is what is remembered of its host."`
	Limit       int                `json:"window_limit,omitempty" doc:"The most that the window may be; absent if there is no limit."`
	Tables      []string           `json:"tables,omitempty" doc:"Tables [destination.NAME] of the configuration that match, the most specific first."`
	Rates       []RateUse          `json:"rates,omitempty" doc:"Limits by time."`
	HostList    []HostStatus       `json:"host_list" doc:"The best first; those in the same tier are as good as each other."`
	Connections []ConnectionStatus `json:"connection_list" doc:"The oldest first."`
	Ended       []EndedConnection  `json:"ended" doc:"The last connections that have ended, as far as they are remembered, the last one first."`
}

// A RateUse is a limit by time and what of it is used.
type RateUse struct {
	Key   string `json:"key" doc:"The configuration parameter."`
	Limit string `json:"limit" example:"30/min"`
	Used  int    `json:"used" doc:"What counts against it now."`
}

// A HostStatus is what is known of one host.
type HostStatus struct {
	Name        string           `json:"name,omitempty" doc:"Absent for an address literal."`
	Address     string           `json:"address"`
	Tier        int              `json:"tier" doc:"From 1, the best."`
	State       string           `json:"state" enum:"active,idle,connecting,probing,closed,unused,retry" doc:"active: a connection carries something; idle: none does; connecting: the first is being opened; probing: it had failed, and one connection shows whether it is back; closed: it had connections lately; retry: it has failed; unused: it was not used lately."`
	Until       *time.Time       `json:"until,omitempty" doc:"retry: when it is tried again at the earliest."`
	BusyUntil   *time.Time       `json:"busy_until,omitempty" doc:"It has said that it takes no more connections than it has, and is asked again then."`
	Connections int              `json:"connections" doc:"Of all destinations of the transport, those included that are being opened or are about to end."`
	Idle        int              `json:"idle" doc:"Of these, with nothing to carry."`
	Limit       int              `json:"connection_limit,omitempty" doc:"As many as it may have; absent if there is no limit."`
	Failures    int              `json:"failures,omitempty" doc:"Attempts in a row that failed."`
	Failure     *Failure         `json:"last_failure,omitempty" doc:"Why the last one did."`
	Level       string           `json:"level" enum:"lockstep,group,overlap,stream" doc:"The highest level of pipelining that is used."`
	Configured  string           `json:"level_configured" enum:"lockstep,group,overlap,stream"`
	LevelUntil  *time.Time       `json:"level_until,omitempty" doc:"It is spoken to more simply than configured, until then at least."`
	LevelFixed  bool             `json:"level_fixed,omitempty" doc:"It is spoken to more simply for good: it has put what was sent under another envelope, or taken refused content for commands."`
	Unproven    bool             `json:"stream_unproven,omitempty" doc:"stream is configured, and it has not shown yet that it bears it."`
	ProvedAt    *time.Time       `json:"stream_tried,omitempty" doc:"It is tried again from then on."`
	Fell        *EndedConnection `json:"level_fell,omitempty" doc:"The connection since which that is so, if it is remembered."`
	RTT         float64          `json:"rtt,omitempty" doc:"Round trip in seconds, smoothed; absent if unknown."`
	Service     float64          `json:"service,omitempty" doc:"From content to the final reply in seconds, smoothed, without the round trip; absent if unknown."`
	Slow        bool             `json:"slow,omitempty" doc:"It takes several times as long as it can."`
	Mails       int              `json:"mails_per_connection,omitempty" doc:"After how many it closes a connection; absent if no number is known."`
	Offers      []string         `json:"capabilities,omitempty" doc:"SMTP extensions that it offered last, if known."`
}

// A ConnectionStatus is one connection.
type ConnectionStatus struct {
	ID       uint64     `json:"id" doc:"As in traces."`
	Host     string     `json:"host" doc:"name[address]:port."`
	State    string     `json:"state" enum:"connecting,ready,draining"`
	Level    string     `json:"level" enum:"lockstep,group,overlap,stream"`
	InFlight int        `json:"in_flight" doc:"Transactions under way or lined up."`
	Room     int        `json:"room" doc:"How many more it takes now."`
	Carried  int        `json:"carried" doc:"Transactions so far."`
	Limit    int        `json:"carry_limit,omitempty" doc:"As many as it may carry; absent if there is no limit."`
	Made     time.Time  `json:"made" doc:"When dialling began."`
	Idle     *time.Time `json:"idle_since,omitempty"`
	RTT      float64    `json:"rtt,omitempty" doc:"In seconds; absent if unknown."`
	Service  float64    `json:"service,omitempty" doc:"What a transaction takes, in seconds, smoothed; absent if unknown."`
}

// An EndedConnection is how a connection ended.
type EndedConnection struct {
	ID      uint64    `json:"id"`
	Host    string    `json:"host" doc:"name[address]:port."`
	Why     string    `json:"why" enum:"asked,idle,busy,lost,step,mixed,wrong" doc:"asked: we ended it, in good order; idle: the server did while nothing was under way; busy: the server said 421; lost: it broke; step: the server did not follow the level of pipelining; mixed: the server put what was sent under another envelope; wrong: it does not keep to the protocol."`
	Parting string    `json:"parting,omitempty" enum:"idle-time,age,count,room,better-host,host-gone,stop,probe,outdated" doc:"asked: why we ended it."`
	Text    string    `json:"text" doc:"Why, in words."`
	Reply   string    `json:"reply,omitempty" doc:"What the server said, or our own words for what happened."`
	Level   string    `json:"level" enum:"lockstep,group,overlap,stream"`
	Carried int       `json:"carried" doc:"Transactions."`
	Made    time.Time `json:"made"`
	At      time.Time `json:"at"`
}

// A MessageDestination is one destination of a message that is in core.
type MessageDestination struct {
	Name     string    `json:"name" doc:"Transport and nexthop, with a colon between them; of mail that is only deferred, those that it was to take."`
	Waiting  int       `json:"waiting" doc:"Recipients that wait."`
	Busy     int       `json:"busy" doc:"Transactions under way."`
	Deferral bool      `json:"being_deferred,omitempty" doc:"It cannot go there, and is on its way to be deferred."`
	Obstacle *Obstacle `json:"obstacle,omitempty" doc:"What keeps those that wait from going now."`
}
