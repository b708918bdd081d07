package sim

import (
	"cmp"
	"fmt"
	"math/rand/v2"
	"time"
)

// A feedbackWorld is a receiver that feedback has to cope with.
type feedbackWorld struct {
	name     string
	receiver Behaviour
	changes  []Change
	arrivals []Arrivals // none: more than the receiver takes
	client   Client
	limit    int // the client's own
	initial  int
	length   time.Duration

	// chance is the share of attempts that fails whatever the concurrency: what no
	// style can avoid.
	chance  float64
	ideal   int           // the window chosen with knowledge of the receiver; 0: its limit
	doubled time.Duration // when the limit doubles, if it does
	bound   string        // why the aim is not reached
	sample  bool          // it is one of those that are always simulated
}

// A segment is a time in which the receiver does not change.
type segment struct {
	behaviour Behaviour
	length    time.Duration
}

func (f *feedbackWorld) segments() []segment {
	all := []segment{{f.receiver, f.length}}
	for _, c := range f.changes {
		if c.At < f.length {
			all[len(all)-1].length -= f.length - c.At
			all = append(all, segment{c.Behaviour, f.length - c.At})
		}
	}
	return all
}

func (f *feedbackWorld) idealWindow(b Behaviour) int {
	size := cmp.Or(f.ideal, b.ConnectionLimit, f.limit)
	return min(size, f.limit)
}

// limited is a receiver that takes so many connections and answers after about
// so long.
func limited(connections int, service time.Duration) Behaviour {
	return Behaviour{Connect: Uniform(10*time.Millisecond, 30*time.Millisecond),
		Recipient: Uniform(service*9/10, service*11/10), ConnectionLimit: connections}
}

// limitedWorld is one with a constant limit; others are made of it.
func limitedWorld(name string, connections int, service time.Duration) feedbackWorld {
	return feedbackWorld{name: name, receiver: limited(connections, service), client: DefaultClient(), limit: 40, initial: 5, length: 10 * time.Minute}
}

func (f feedbackWorld) upTo(limit int) feedbackWorld {
	f.limit = limit
	return f
}

func (f feedbackWorld) lasting(d time.Duration) feedbackWorld {
	f.length = d
	return f
}

// becoming changes the limit of connections at some time.
func (f feedbackWorld) becoming(at time.Duration, connections int) feedbackWorld {
	b := f.receiver
	b.ConnectionLimit = connections
	f.changes = append(f.changes[:len(f.changes):len(f.changes)], Change{At: at, Behaviour: b})
	return f
}

// doubling doubles the limit after five minutes.
func (f feedbackWorld) doubling() feedbackWorld {
	f.doubled = 5 * time.Minute
	return f.becoming(f.doubled, 2*f.receiver.ConnectionLimit)
}

// failing puts so many servers behind the address, some of which fail.
func (f feedbackWorld) failing(bad, servers int, random bool) feedbackWorld {
	f.receiver.Servers, f.receiver.BadServers, f.receiver.Random, f.receiver.Bad = servers, bad, random, FaultBusy
	f.chance = float64(bad) / float64(servers)
	return f
}

// because says why the aim is out of reach.
func (f feedbackWorld) because(bound string) feedbackWorld {
	f.bound = bound
	return f
}

func (f feedbackWorld) sampled() feedbackWorld {
	f.sample = true
	return f
}

func (f feedbackWorld) cached() feedbackWorld {
	f.name += ", cached"
	f.client.CacheTime = 2 * time.Second
	return f
}

// The bounds that docs/scheduler.md derives, and the weak point that it describes.
const (
	boundContact = "bound 1" // what is not known has to be found out, by a failure at least
	boundRise    = "bound 2" // a limit that has risen is found at the next trial
	boundChange  = "bound 3" // a limit that changes all the time costs a failure each time
	weakChance   = "chance"  // a level that was closed by chance stays closed for a while
)

// feedbackWorlds are those of the matrix.
func feedbackWorlds() []feedbackWorld {
	all := append(limitWorlds(), changingWorlds()...)
	all = append(all, failingWorlds()...)
	return append(append(all, burstWorlds()...), waitingWorlds()...)
}

// limitWorlds have a limit that stays.
func limitWorlds() []feedbackWorld {
	readme := limitedWorld("421 at 5 (README)", 5, 2*time.Second).upTo(20)
	mixed := limitedWorld("421 at 10, mixed times", 10, time.Second).lasting(30 * time.Minute)
	mixed.receiver.Recipient = LogNormal(700*time.Millisecond, 1)
	return []feedbackWorld{
		readme,
		readme.cached(),
		limitedWorld("421 at 1", 1, time.Second).because(boundContact),
		limitedWorld("421 at 2", 2, time.Second).because(boundContact),
		limitedWorld("421 at 20", 20, time.Second).sampled(),
		limitedWorld("421 at 200", 200, 2*time.Second).upTo(400),
		limitedWorld("no limit", 0, time.Second),
		limitedWorld("421 at 10, 5 s a delivery", 10, 5*time.Second).lasting(20 * time.Minute),
		mixed,
	}
}

// changingWorlds have one that changes.
func changingWorlds() []feedbackWorld {
	var all []feedbackWorld
	for _, c := range []struct{ from, to int }{{15, 5}, {20, 3}, {20, 10}, {10, 5}, {100, 50}} {
		f := limitedWorld(fmt.Sprintf("%d falls to %d", c.from, c.to), c.from, time.Second).upTo(200)
		all = append(all, f.becoming(5*time.Minute, c.to))
	}
	for _, c := range []struct {
		connections int
		rate        float64
		bound       string
	}{{2, 1, boundRise}, {2, 2, boundRise}, {5, 2, boundRise}, {10, 3, boundRise}, {6, 6, ""}, {20, 20, ""}, {50, 100, ""}, {100, 100, ""}} {
		service := time.Duration(float64(c.connections) / c.rate * float64(time.Second))
		all = append(all, limitedWorld(fmt.Sprintf("%d doubles at %.0f/s", c.connections, c.rate), c.connections, service).upTo(8*c.connections).doubling().because(c.bound))
	}
	saw := limitedWorld("20 down to 5, and again", 20, time.Second).lasting(12 * time.Minute).because(boundChange)
	turns := limitedWorld("20 and 10 by turns", 20, time.Second).lasting(12 * time.Minute).because(boundRise)
	for n := 1; n < 48; n++ {
		saw = saw.becoming(time.Duration(n)*time.Minute/4, 20-n%16)
	}
	for n := 1; n < 6; n++ {
		turns = turns.becoming(time.Duration(n)*2*time.Minute, 20-10*(n%2))
	}
	return append(all, saw, turns)
}

// failingWorlds are those in which attempts fail whatever the concurrency.
func failingWorlds() []feedbackWorld {
	drop := limitedWorld("30 % break off, 421 at 20", 20, time.Second)
	drop.receiver.DropPercent, drop.chance, drop.bound = 30, 0.3, weakChance
	soft := limitedWorld("30 % of recipients deferred, 421 at 20", 20, time.Second)
	soft.receiver.SoftPercent = 30
	noise := limitedWorld("1 of 4 goes bad", 0, time.Second)
	noise.changes = []Change{{At: 3 * time.Minute, Behaviour: noise.failing(1, 4, true).receiver}}
	noise.chance = 7 * (1.0 / 3) / (3 + 7*(4.0/3)) // three minutes with one attempt for each success, seven with 4/3
	return []feedbackWorld{
		limitedWorld("1 of 4 bad", 0, time.Second).failing(1, 4, true).sampled(),
		limitedWorld("1 of 4 bad, in turn", 0, time.Second).failing(1, 4, false),
		limitedWorld("1 of 10 bad", 0, time.Second).failing(1, 10, true).because(weakChance),
		limitedWorld("3 of 10 bad", 0, time.Second).failing(3, 10, true),
		limitedWorld("1 of 4 bad, 421 at 20", 20, time.Second).failing(1, 4, true),
		limitedWorld("1 of 10 bad, 421 at 5", 5, time.Second).failing(1, 10, true),
		drop, soft, noise,
	}
}

// burstWorlds have not always something to deliver.
func burstWorlds() []feedbackWorld {
	var all []feedbackWorld
	for _, burst := range []int{30, 200} {
		f := limitedWorld(fmt.Sprintf("%d each minute, 421 at 10", burst), 10, time.Second).lasting(20 * time.Minute)
		f.arrivals = []Arrivals{{Class: "bursts", Min: burst, Max: burst, To: []string{"site"}, Pattern: PatternBursts, Burst: 1, Every: time.Minute}}
		all = append(all, f.because(boundContact))
	}
	poisson := limitedWorld("5/s arrive, 421 at 10", 10, time.Second).lasting(20 * time.Minute)
	poisson.arrivals = []Arrivals{{Class: "mail", To: []string{"site"}, Pattern: PatternPoisson, Rate: 5}}
	return append(all, poisson)
}

// waitingWorlds are the README's first and second: a receiver with five processes,
// and with a queue of six that wait for one. Others hang.
func waitingWorlds() []feedbackWorld {
	greeting := limitedWorld("greeting timeout at 5+6", 0, time.Second).upTo(20).lasting(30 * time.Minute)
	each := Uniform(950*time.Millisecond, 1050*time.Millisecond)
	greeting.receiver = Behaviour{Connect: Uniform(1*time.Millisecond, 3*time.Millisecond), Transaction: each, Recipient: each,
		Processes: 5, Backlog: 6, Overflow: OverflowDropACK,
		Retransmit: []time.Duration{3 * time.Second, 6 * time.Second, 12 * time.Second, 24 * time.Second, 48 * time.Second}}
	greeting.initial, greeting.ideal = 20, 11
	connect := greeting
	connect.name, connect.receiver.Overflow = "connect timeout at 5+6", OverflowDropSYN
	return []feedbackWorld{greeting, greeting.cached(), connect.sampled(), connect.cached()}
}

// randomFeedbackWorld draws a world; no parameters were tuned for it.
func randomFeedbackWorld(r *rand.Rand) feedbackWorld {
	connections := 1 + int(60*r.Float64()*r.Float64())
	service := time.Duration((0.1 + 4*r.Float64()*r.Float64()) * float64(time.Second))
	f := limitedWorld("", connections, service).upTo(connections + 1 + r.IntN(2*connections+10))
	f.initial = 1 + r.IntN(10)
	connect := time.Duration(r.IntN(100)) * time.Millisecond
	f.receiver.Connect = Uniform(time.Millisecond, time.Millisecond+connect)
	f.name = fmt.Sprintf("%d (may %d), %.1f s+%.0f ms", connections, f.limit, service.Seconds(), connect.Seconds()*500)
	if r.IntN(3) == 0 {
		f.receiver.Recipient = LogNormal(service, 1.2*r.Float64())
		f.name += " mixed"
	}
	if r.IntN(3) == 0 {
		servers := 3 + r.IntN(20)
		f = f.failing(1, servers, r.IntN(2) == 0)
		f.name += fmt.Sprintf(", 1 of %d bad", servers)
	} else if r.IntN(4) == 0 {
		f = f.cached()
	}
	if r.IntN(2) == 0 {
		for at := time.Minute + time.Duration(r.IntN(300))*time.Second; at < f.length-2*time.Minute; at += time.Minute + time.Duration(r.IntN(300))*time.Second {
			to := max(1, int(float64(connections)*(0.2+1.8*r.Float64())))
			f = f.becoming(at, to)
			f.name += fmt.Sprintf(", %d", to)
		}
	}
	return f
}
