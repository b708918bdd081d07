package sim

import (
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/posthaste-mta/posthaste/internal/mistakes"
	"github.com/posthaste-mta/posthaste/mail"
	"github.com/posthaste-mta/posthaste/qmgr"
	"github.com/posthaste-mta/posthaste/qmgr/warmup"
)

// A Scenario is a world, the mail that comes to it, and the runs that will be
// compared in it.
type Scenario struct {
	Name        string
	Description string
	Seed        uint64 // decides everything that is random

	Until    Until
	Duration time.Duration // virtual time after which a run ends whatever is left; 0 means 30 days
	// Patience is the time for which a message that is due may wait for an attempt before
	// the checker of progress complains; 0 means a day. What waits because of
	// a dead destination is not due.
	Patience time.Duration

	Sites    []Site
	Arrivals []Arrivals
	Agents   []AgentOutage
	// Outages are of our own network: they hold for every site.
	Outages []Outage
	Disk    Disk
	DNS     DNS
	Runs    []Run
	Orders  []WarmupOrder

	// Sabotage makes the model do what no world may do, to see that the
	// checkers find it.
	Sabotage Sabotage
}

// Until says when a run is over.
type Until uint8

const (
	UntilSettled    Until = iota // every recipient is delivered or has failed for good
	UntilFirstRound              // every recipient has been tried once
)

// An AgentOutage is a time during which no agent of a transport can be started,
// whatever the sites are like.
type AgentOutage struct {
	Transport   string
	From, Until time.Duration
}

// A Run is a configuration to be tried.
type Run struct {
	Name       string
	Parameters []Parameter // what distinguishes it, for reports
	Core       qmgr.Config
	// Unclassified means that no mail belongs to a flow, whatever Arrivals.Flow says.
	Unclassified bool
	Without      []string          // classes of arrivals of which none come
	Clients      map[string]Client // by transport; others have DefaultClient
	// Fallbacks are nexthops, by transport, whose hosts are tried behind those of
	// every other one. They are domains of the scenario's sites.
	Fallbacks  map[string][]string
	References []Reference
}

// A Parameter is one setting of a run, as it is written.
type Parameter struct{ Name, Value string }

// A Reference is an external measurement or computation for the same case, to be
// printed beside a run. Negative fields are not known.
type Reference struct {
	Source       string
	DeferredPct  float64
	WindowMean   float64
	WindowStddev float64
	Sequence     string
}

// A Client is how a transport's connections behave. CacheTime, ReuseTime and
// ReuseCount are of agents; elsewhere they are the core's affair.
type Client struct {
	ConnectTimeout  time.Duration // for the TCP handshake
	GreetingTimeout time.Duration // from then on until the greeting
	CacheTime       time.Duration // how long a connection waits idle for the next delivery; 0: it is closed after each
	ReuseTime       time.Duration // how old a connection may become; 0: no limit
	ReuseCount      int           // how many deliveries it carries; 0: no limit
	ReplyTimeout    time.Duration // for a transaction over a connection that the core has asked for; 0: no limit
}

// DefaultClient has Postfix's times; its agents do not reuse connections.
func DefaultClient() Client {
	return Client{ConnectTimeout: 30 * time.Second, GreetingTimeout: 300 * time.Second, ReuseTime: 300 * time.Second,
		ReplyTimeout: 300 * time.Second}
}

// Disk is how long the spool takes.
type Disk struct {
	// Commit is one synced batch of changes. There is one at a time; changes
	// that come meanwhile go with the next one, all of them together.
	Commit Spread
	// Read is finding messages, opening one, or reading more recipients. Reads
	// do not wait for each other.
	Read Spread
}

// leastTTL is how long the hosts of a nexthop are good for at least.
const leastTTL = time.Minute

// DNS is what looking a site up takes, once in TTL for each nexthop.
type DNS struct {
	Delay          Spread
	TTL            time.Duration // 0: every message, or delivery, looks up anew
	FailurePercent float64       // of the lookups, for now
	// ByDelivery lets each delivery look its site up, as Postfix's do. Otherwise the
	// core asks for lookups before it schedules anything.
	ByDelivery bool
}

// A Site is one or several domains that behave alike.
type Site struct {
	Name      string
	Transport string // that its mail takes; "" means smtp
	// Copies is how many domains there are, each a destination of its own with
	// its own hosts, limits and state; 0 means 1. One alone has the domain NAME.test,
	// several have NAME-1.test, NAME-2.test and so on.
	Copies    int
	Behaviour Behaviour // at the start
	Changes   []Change  // by time
	Outages   []Outage
	// Hosts take the mail of each of the site's domains; none means one, which
	// behaves as the site does. If there are some, Behaviour and Changes are theirs
	// alone, and Outages are added to their own.
	Hosts []Host
	// SharedHosts means that the copies have these hosts in common.
	SharedHosts bool
	// Nameless says that its name servers do not answer: a lookup of one of its domains
	// takes most of a minute, and fails.
	Nameless bool
	// Within is how soon after its arrival mail for the site must be delivered, whatever
	// other sites are like; 0 means that nothing is promised.
	Within time.Duration
}

// A Host is one of the hosts of a site, or several that behave alike.
type Host struct {
	Name       string
	Copies     int // 0 means 1
	Preference int // those with the lowest are tried first, others if none of them can be reached
	Behaviour  Behaviour
	Changes    []Change
	Outages    []Outage
}

// A Behaviour is how a receiver treats connections and mail. The zero Behaviour
// takes everything in no time.
type Behaviour struct {
	Connect     Spread // the handshake and the greeting
	Transaction Spread // one transaction, without its recipients
	Recipient   Spread // what each recipient adds

	// RTT is the round trip, drawn once for each connection. It adds to the times
	// above: three before the first transaction, and to each transaction as many as
	// Pipelining leaves over.
	RTT        Spread
	Pipelining mail.Level // the most that it understands
	// MailsPerConnection is the number of transactions it takes on one connection before
	// it closes it; 0: any number. AnnounceMails means that it announces this in
	// its greeting (RFC 9422).
	MailsPerConnection int
	AnnounceMails      bool
	// IdleLimit is after which time without a command it closes a connection; 0:
	// never. Agents are spared.
	IdleLimit time.Duration

	// ConnectionLimit is the number of connections that may be open; those beyond are
	// greeted with 421 and closed. 0: no limit.
	ConnectionLimit int

	// Processes is the number of connections that are served at once; 0: any number.
	// Others wait in the kernel, Backlog of them, before they are greeted.
	// What becomes of those beyond that says Overflow.
	Processes  int
	Backlog    int
	Overflow   Overflow
	Retransmit []time.Duration // waits between the packets of a handshake that gets no answer; nil: 1, 2, 4, 8, 16 s

	// Servers stand behind the one address, 0 means 1; each new connection goes
	// to one of them, in turn or at random. BadServers of them fail as Bad says.
	Servers    int
	BadServers int
	Random     bool
	Bad        Fault

	// Greylist refuses, for now, what comes earlier than so long after the
	// first attempt of the message at this site.
	Greylist time.Duration

	// Tolerance is the number of messages it takes on the first day (UTC) from a source that it
	// does not know; 0: any number. On later days it takes ToleranceGrowth times the most that
	// it took on a day before; what exceeds that is refused for now. It knows KnownSource,
	// and takes everything from there.
	Tolerance       int
	ToleranceGrowth float64
	KnownSource     string

	// RefusedSource is a source whose connections it greets with 421 and closes, as a
	// receiver does that has our address on a block list; "" is none.
	RefusedSource string

	SoftPercent float64 // of the recipients are refused for now
	HardPercent float64 // of the recipients are refused for good
	DropPercent float64 // of the transactions end with the connection lost
}

// A Change puts another behavior into force.
type Change struct {
	At        time.Duration // after the start
	Behaviour Behaviour
}

// An Outage is a time in which new connections fail.
type Outage struct {
	From, Until time.Duration // after the start
	Fault       Fault
	// Open is what becomes of connections that are open, those of agents excepted:
	// they go on.
	Open Open
	// Names says that names cannot be looked up meanwhile. It counts only for
	// outages of our own network.
	Names bool
}

// Open is what an outage does to connections that exist.
type Open uint8

const (
	OpenStays  Open = iota // nothing
	OpenBreaks             // they are lost at once
	OpenHangs              // nothing comes through until it is over, or until the client gives up
)

// A Fault is a way in which a connection fails.
type Fault uint8

const (
	FaultRefuse  Fault = iota // the connection is refused at once
	FaultTimeout              // nothing answers: the client waits for its connect timeout
	FaultSilent               // it connects, but there is no greeting: the client waits for its greeting timeout
	FaultBusy                 // the greeting is 421
	FaultDrop                 // the connection is lost in the middle of the first transaction
	FaultClose                // it connects, and is closed before the greeting
)

// Overflow is what a receiver's kernel does when its queue of connections that
// wait to be accepted is full.
type Overflow uint8

const (
	// OverflowRefuse answers at once that nothing listens.
	OverflowRefuse Overflow = iota
	// OverflowDropSYN drops the first packet of the handshake. The client sends
	// it again, and gives up after its connect timeout (BSD).
	OverflowDropSYN
	// OverflowDropACK drops the last packet of the handshake. The client
	// believes that it is connected and waits for the greeting, which comes
	// only if the queue has room when the server repeats its packet (Linux).
	OverflowDropACK
)

// Arrivals are the messages of one class.
type Arrivals struct {
	Class      string // what the delays are listed under
	NullSender bool
	// Poison means that every transaction with one of these messages ends with the
	// connection lost, after the content.
	Poison   bool
	Size     int64 // octets; 0 means 4096
	Min, Max int   // recipients of a message; 0 means 1

	// To names sites. The recipients of a message go to their receivers in turn;
	// with Random each message begins anywhere, else where the one before
	// ended. A site that is named twice gets twice as much.
	To     []string
	Random bool

	Pattern  Pattern
	From     time.Duration // after the start
	Until    time.Duration // 0: as long as the run
	Messages int           // at most; 0: no limit
	Rate     float64       // PatternRegular, PatternPoisson: messages per second
	Curve    []float64     // factors of Rate, for so many equal parts of each day after the start; nil: 1
	Burst    int           // PatternBursts: messages at once
	Every    time.Duration // PatternBursts: from one to the next
	Age      Spread        // PatternBacklog: how long ago the message came
	Due      Spread        // PatternBacklog: when it is due, relative to the start
	Records  []Record      // PatternRecorded

	// Flow is the flow of the mail; the zero value means none. With several Flows or
	// Tenants, its messages belong to that many in turn, whose names end with a number.
	Flow           mail.Flow
	Flows, Tenants int
}

// Pattern is when messages come.
type Pattern uint8

const (
	PatternOnce     Pattern = iota // all Messages at From
	PatternRegular                 // at Rate, one after the other
	PatternPoisson                 // at Rate on average, independent of each other
	PatternBursts                  // Burst messages Every so often
	PatternBacklog                 // Messages lie in the deferred area at the start
	PatternRecorded                // as Records says
)

// A Record is an arrival that happened.
type Record struct {
	At         time.Duration // after the start
	Recipients int
	To         string // a site; "" means as the class's
}

// Sabotage is a way to break the model.
type Sabotage uint8

const (
	SabotageNone   Sabotage = iota
	SabotageLose            // the spool loses every hundredth message: a checker of safety must report it
	SabotageHang            // every hundredth delivery never ends: a checker of progress must report it
	SabotageRandom          // the seed does not decide everything: two runs must differ
)

// horizon ends runs that have no duration of their own: longer than mail lives.
const horizon = 30 * 24 * time.Hour

// Validate returns all errors that make a scenario impossible to run.
func (s *Scenario) Validate() error {
	var wrong mistakes.List
	sites := make(map[string]bool)
	for i := range s.Sites {
		wrong.Unless(!sites[s.Sites[i].Name], "there are two sites %q", s.Sites[i].Name)
		sites[s.Sites[i].Name] = true
	}
	wrong.Unless(len(s.Runs) != 0, "there is no run")
	for _, o := range s.Orders {
		warms := slices.ContainsFunc(s.Runs, func(r Run) bool {
			return slices.ContainsFunc(r.Core.Warmup.Sources, func(w warmup.Source) bool { return w.Name == o.Source })
		})
		wrong.Unless(warms && o.Day >= 1 && o.At >= 0, "warm-up order for %q at %v: day %d, or no run warms that source up", o.Source, o.At, o.Day)
	}
	wrong.Unless(len(s.Arrivals) != 0, "there are no arrivals")
	for i := range s.Arrivals {
		a := &s.Arrivals[i]
		wrong.AddOf(fmt.Sprintf("arrivals %q", a.Class), a.validate(sites))
	}
	domains := make(map[string]bool)
	for i := range s.Sites {
		for _, name := range s.Sites[i].Domains() {
			domains[name] = true
		}
	}
	for i := range s.Runs {
		for transport, names := range s.Runs[i].Fallbacks { //archtest:anyorder only complaints
			for _, name := range names {
				wrong.Unless(domains[name], "run %q: the fallback relay %q of transport %s is no site's domain", s.Runs[i].Name, name, transport)
			}
		}
		for _, class := range s.Runs[i].Without {
			known := slices.ContainsFunc(s.Arrivals, func(a Arrivals) bool { return a.Class == class })
			wrong.Unless(known, "run %q: there are no arrivals %q to be without", s.Runs[i].Name, class)
		}
		if err := s.Runs[i].Core.WithDefaults().Validate(); err != nil {
			wrong.Add(fmt.Errorf("run %q: %w", s.Runs[i].Name, err))
		}
	}
	return wrong.Join()
}

func (a *Arrivals) validate(sites map[string]bool) error {
	var wrong mistakes.List
	wrong.Unless(len(a.To) != 0, "they go nowhere")
	for _, name := range a.To {
		wrong.Unless(sites[name], "there is no site %q", name)
	}
	wrong.Unless(a.Max >= a.Min && a.Min >= 0, "from %d to %d recipients", a.Min, a.Max)
	wrong.Add(a.validateCurve())
	switch a.Pattern {
	case PatternOnce, PatternBacklog:
		wrong.Unless(a.Messages >= 1, "the number of messages is missing")
	case PatternRegular, PatternPoisson:
		wrong.Unless(a.Rate > 0, "the rate is missing")
	case PatternBursts:
		wrong.Unless(a.Burst >= 1 && a.Every > 0, "bursts need a number of messages and an interval")
	case PatternRecorded:
		for i, r := range a.Records {
			wrong.Unless(r.To == "" || sites[r.To], "record %d: there is no site %q", i+1, r.To)
			wrong.Unless(r.Recipients >= 1 && (i <= 0 || r.At >= a.Records[i-1].At), "record %d: want at least one recipient, and the records in the order of time", i+1)
		}
	}
	return wrong.Join()
}

// hasFlows reports whether some mail belongs to a flow.
func (s *Scenario) hasFlows() bool {
	return slices.ContainsFunc(s.Arrivals, func(a Arrivals) bool { return a.Flow != mail.Flow{} || a.Flows > 1 || a.Tenants > 1 })
}

// validateCurve complains about a curve by which nothing would ever come.
func (a *Arrivals) validateCurve() error {
	for _, factor := range a.Curve {
		if !(factor >= 0 && factor <= curveMax) {
			return fmt.Errorf("%v in the curve is not from 0 to %d", factor, curveMax)
		}
	}
	switch {
	case a.Curve == nil:
	case a.Pattern != PatternRegular && a.Pattern != PatternPoisson:
		return errors.New("a curve needs a pattern that has a rate")
	case len(a.Curve) > curveParts:
		return fmt.Errorf("a curve has at most %d parts", curveParts)
	case slices.Max(append(a.Curve, 0)) == 0:
		return errors.New("a curve needs a part in which mail comes")
	}
	return nil
}

const (
	curveMax   = 1000
	curveParts = 24 * 60 // minutes of a day
)

// defaultSender is who sends all mail that is not from the null sender.
const defaultSender mail.Address = "sender@origin.test"
