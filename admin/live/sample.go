package live

import "time"

// A Sample is what the core and the spool hold at one moment, with rates.
type Sample struct {
	At         time.Time         `json:"at" doc:"When it was taken: once a second."`
	Number     uint64            `json:"number" doc:"Of the sample since the start."`
	SitesAt    time.Time         `json:"sites_at" doc:"When transports, sites and flows were looked at: each second unless there are tens of thousands of them."`
	Unready    string            `json:"unready,omitempty" doc:"Why no mail is accepted now; absent if it is."`
	Totals     Totals            `json:"totals"`
	Transports []TransportSample `json:"transports" doc:"By name."`
	Sites      []SiteSample      `json:"sites" doc:"Destinations in core, those with the most waiting first."`
	SitesKnown int               `json:"sites_known" doc:"Number of destinations in core, including those that are not in the answer."`
	// States counts all destinations in core.
	States     map[string]int `json:"states" doc:"Number of all destinations in core, by state."`
	Flows      []FlowSample   `json:"flows" doc:"Those with the most waiting first."`
	FlowsKnown int            `json:"flows_known" doc:"Number of flows, including those that are not in the answer."`
}

// Rates are recipients per second by the result of an attempt, smoothed over about five seconds.
type Rates struct {
	Sent     float64 `json:"sent"`
	Deferred float64 `json:"deferred"`
	Bounced  float64 `json:"bounced"`
}

// Totals are figures of the whole daemon. Counters begin at its start; rates are per second, smoothed
// over about five seconds.
type Totals struct {
	Arrived     uint64 `json:"arrived" doc:"Messages that came into the queue, reports included."`
	Attempts    uint64 `json:"attempts" doc:"Delivery attempts that were started."`
	Sent        uint64 `json:"sent" doc:"Recipients."`
	Deferred    uint64 `json:"deferred" doc:"Recipients, once for each attempt."`
	Bounced     uint64 `json:"bounced" doc:"Recipients."`
	Expired     uint64 `json:"expired" doc:"Messages given up because of their age."`
	Preemptions uint64 `json:"preemptions" doc:"Times that a message went first at the expense of a larger one."`

	ArrivedRate  float64 `json:"arrived_rate"`
	AttemptsRate float64 `json:"attempts_rate"`
	Rates        Rates   `json:"rates"`

	CoreMessages   int  `json:"core_messages" doc:"Messages in core."`
	CoreRecipients int  `json:"core_recipients"`
	Busy           int  `json:"busy" doc:"Deliveries under way."`
	Waiting        int  `json:"waiting" doc:"Transactions in core that wait."`
	Connections    int  `json:"connections" doc:"Open connections to receivers."`
	Connecting     int  `json:"connecting" doc:"Connections that are being opened."`
	Lookups        int  `json:"lookups" doc:"Route lookups under way or waiting."`
	Behind         bool `json:"behind,omitempty" doc:"New mail waits in the spool because the core is full."`

	Spool *SpoolTotals `json:"spool,omitempty" doc:"Absent until it is counted after a start."`

	Free     int64 `json:"free_bytes" doc:"Free disk space of the spool."`
	Headroom int64 `json:"headroom_bytes" doc:"Free disk space above queue_minfree; negative while mail is refused."`

	Sessions int64      `json:"inbound_sessions" doc:"Sessions of clients that are open."`
	Offline  *time.Time `json:"offline_since,omitempty" doc:"The time since which hardly any host can be reached, so that our own network is considered down."`
}

// A SpoolTotals is how much the spool has.
type SpoolTotals struct {
	Incoming int64      `json:"incoming"`
	Deferred int64      `json:"deferred"`
	Hold     int64      `json:"hold"`
	Corrupt  int64      `json:"corrupt"`
	Oldest   *time.Time `json:"oldest,omitempty" doc:"Arrival of the oldest message that waits for delivery (incoming or deferred); it may be a minute too early, and up to an hour where there is mail of a month or more."`
}

// A TransportSample is what the core has of one transport.
type TransportSample struct {
	Name         string     `json:"name"`
	State        string     `json:"state" enum:"alive,dead"`
	Reason       string     `json:"reason,omitempty" doc:"Why it is dead."`
	Until        *time.Time `json:"until,omitempty" doc:"When it is tried again."`
	Jobs         int        `json:"jobs" doc:"Messages with something to deliver by it."`
	Busy         int        `json:"busy" doc:"Deliveries under way."`
	Waiting      int        `json:"waiting" doc:"Transactions that wait."`
	Destinations int        `json:"destinations"`
	Dead         int        `json:"dead" doc:"Of these: dead ones."`
	Window       int        `json:"window" doc:"Sum of the windows of its destinations."`
	Connections  int        `json:"connections"`
	Connecting   int        `json:"connecting"`
	Sent         uint64     `json:"sent" doc:"Recipients since the start."`
	Deferred     uint64     `json:"deferred" doc:"Recipients since the start."`
	Bounced      uint64     `json:"bounced" doc:"Recipients since the start."`
	Rates        Rates      `json:"rates"`
}

// A SiteSample is what the core has of one destination, from all sources together.
type SiteSample struct {
	Name        string     `json:"name" doc:"Transport and nexthop, separated by a colon."`
	Transport   string     `json:"transport"`
	Nexthop     string     `json:"nexthop"`
	State       string     `json:"state" enum:"ready,opening,full,rate-limited,paused,dead,suspended" doc:"As for destinations."`
	Reason      string     `json:"reason,omitempty" doc:"Why it is dead."`
	Until       *time.Time `json:"until,omitempty" doc:"Dead: when it is tried again."`
	Window      int        `json:"window" doc:"Current limit of concurrent connections, or of deliveries. 0 while it is dead."`
	Busy        int        `json:"busy" doc:"Transactions under way."`
	Waiting     int        `json:"waiting" doc:"Transactions that wait."`
	Messages    int        `json:"messages" doc:"Messages with waiting recipients."`
	Recipients  int        `json:"recipients" doc:"Recipients that wait."`
	Oldest      *time.Time `json:"oldest,omitempty" doc:"Arrival time of the oldest waiting message."`
	Connections int        `json:"connections"`
	Connecting  int        `json:"connecting"`
	Sent        uint64     `json:"sent" doc:"Recipients since the destination came into core."`
	Deferred    uint64     `json:"deferred" doc:"Recipients, likewise."`
	Bounced     uint64     `json:"bounced" doc:"Recipients, likewise."`
	Rates       Rates      `json:"rates"`
	Moved       *Move      `json:"moved,omitempty" doc:"The last change of its window."`
	Trend       []int      `json:"trend,omitempty" doc:"If asked for: its window in the last five minutes, one value in five seconds at most, the oldest first."`
}

// A FlowSample is what the core has of one flow.
type FlowSample struct {
	Class    string  `json:"class"`
	Tenant   string  `json:"tenant"`
	Flow     string  `json:"flow"`
	Messages int     `json:"messages" doc:"In core."`
	Waiting  int     `json:"waiting" doc:"Deliveries that wait for their turn."`
	Busy     int     `json:"busy" doc:"Deliveries under way."`
	Started  uint64  `json:"started" doc:"Deliveries started, as for flows."`
	Rate     float64 `json:"rate" doc:"Deliveries started per second, smoothed over about five seconds."`
}

// A Cause is why a window has moved.
type Cause string

const (
	CauseNew     Cause = "new"     // the destination came into core
	CauseGrew    Cause = "grew"    // deliveries succeeded
	CauseShrank  Cause = "shrank"  // a connection was refused or lost
	CauseDied    Cause = "died"    // too many failures in a row: it is not tried for a while
	CauseRevived Cause = "revived" // it is tried again
	CauseRule    Cause = "rule"    // a rule on replies
)

// A Move is a change of a destination's window with the event behind it. Steps upward that follow
// each other within ten seconds are one Move.
type Move struct {
	At    time.Time `json:"at"`
	From  int       `json:"from"`
	To    int       `json:"to"`
	Cause Cause     `json:"cause" enum:"new,grew,shrank,died,revived,rule"`
	Text  string    `json:"text,omitempty" doc:"The reply or the rule behind it, as far as known. Replies are shown as they came, up to 160 bytes."`
}

// A History is the totals of some time, in columns of equal length.
type History struct {
	Step     int       `json:"step" doc:"1 or 10: seconds between two values."`
	At       []int64   `json:"at" doc:"Unix time of each value, in seconds. There are gaps where the core did not answer in time."`
	Arrived  []float64 `json:"arrived" doc:"Messages per second."`
	Sent     []float64 `json:"sent" doc:"Recipients per second, and so in the next columns."`
	Deferred []float64 `json:"deferred"`
	Bounced  []float64 `json:"bounced"`
	Busy     []int     `json:"busy" doc:"Deliveries under way."`
	Core     []int     `json:"core" doc:"Messages in core."`
	Waiting  []int64   `json:"queued" doc:"Messages in the spool that wait for delivery: incoming or deferred; -1 if not known."`
	Oldest   []int64   `json:"oldest" doc:"Age of the oldest of these, in seconds."`
	Free     []int64   `json:"free_bytes" doc:"Free disk space of the spool."`
}

// A SiteHistory is the window of one destination over some time, in columns of equal length.
type SiteHistory struct {
	Name    string  `json:"name"`
	Step    int     `json:"step" doc:"1 or 10: seconds between two values."`
	At      []int64 `json:"at" doc:"Unix time of each value, in seconds. There are gaps while the destination was not in core."`
	Window  []int   `json:"window"`
	Busy    []int   `json:"busy"`
	Waiting []int   `json:"waiting"`
	Moves   []Move  `json:"moves" doc:"The last changes of the window with the events behind them, at most 64, the oldest first."`
}
