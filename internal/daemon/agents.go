package daemon

import (
	"context"
	"errors"
	"fmt"
	"sync"

	"github.com/posthaste-mta/posthaste/config"
	"github.com/posthaste-mta/posthaste/driver"
	"github.com/posthaste-mta/posthaste/mail"
	"github.com/posthaste-mta/posthaste/outbound"
	"github.com/posthaste-mta/posthaste/pipe"
	"github.com/posthaste-mta/posthaste/resolve"
	"github.com/posthaste-mta/posthaste/route"
)

// agents are the agents of all transports, and what finds their destinations,
// which a reload replaces. Deliveries and lookups that are under way end with
// those with which they began.
type agents struct {
	mu      sync.RWMutex   // held for reading while one joins the set in force
	inForce *agentSet      // nil before the first and after the last
	retired sync.WaitGroup // sets that are not in force any more and not closed yet
}

// An agentSet is the agents for which one configuration asks.
type agentSet struct {
	byTransport outbound.Agents
	client      *outbound.Client
	resolver    *resolve.Resolver
	router      *resolve.Router
	transports  map[string]config.Transport
	orders      func(text string) (string, error) // parses a route that an operator orders
	verifies    config.Verification               // what is found out before a recipient is accepted
	users       sync.WaitGroup                    // deliveries and lookups under way
}

func newAgentSet(cfg *config.Config, client *outbound.Client, programs *pipe.Agent, reports *desk, resolver *resolve.Resolver, router *resolve.Router) *agentSet {
	byTransport := make(outbound.Agents)
	for name, t := range cfg.Transports {
		switch t.Type {
		case config.TypeDiscard:
			byTransport[name] = outbound.Discard{}
		case config.TypePipe:
			byTransport[name] = programs
		case config.TypeFeedback:
			byTransport[name] = reports
		case config.TypeError:
			byTransport[name] = outbound.Error{}
		case config.TypeRetry:
			byTransport[name] = outbound.Retry{}
		}
	}
	return &agentSet{byTransport: byTransport, client: client, resolver: resolver, router: router, transports: cfg.Transports, orders: cfg.ParseOrderedRoute, verifies: cfg.SMTPD.Verify.Recipients}
}

// set puts agents into force, none if next is nil.
func (a *agents) set(next *agentSet) {
	a.mu.Lock()
	old := a.inForce
	a.inForce = next
	a.mu.Unlock()
	if old != nil {
		a.retired.Go(old.close)
	}
}

// Deliver calls the agent of the delivery's transport.
func (a *agents) Deliver(ctx context.Context, d mail.Delivery) mail.DeliveryResult {
	set := a.join()
	defer set.users.Done()
	return set.byTransport.Deliver(ctx, d)
}

// Hosts looks up the hosts of a nexthop.
func (a *agents) Hosts(ctx context.Context, transport, nexthop string) (mail.HostSet, mail.Reply) {
	set := a.join()
	defer set.users.Done()
	return set.client.Hosts(ctx, transport, nexthop)
}

// Dial opens a connection. It keeps the configuration with which it was opened, and
// what belongs to that, until it has been run.
func (a *agents) Dial(ctx context.Context, o mail.Opening) (driver.Connection, mail.OpenedConnection) {
	set := a.join()
	conn, opened := set.client.Dial(ctx, o)
	if conn == nil {
		set.users.Done()
		return nil, opened
	}
	return connection{conn, set}, opened
}

// A connection is one that was opened with a set.
type connection struct {
	*outbound.Conn
	set *agentSet
}

func (c connection) Run(ctx context.Context, done func(id uint64, r mail.DeliveryResult)) mail.Closing {
	defer c.set.users.Done()
	return c.Conn.Run(ctx, done)
}

// join returns the set in force, with one more user.
func (a *agents) join() *agentSet {
	a.mu.RLock()
	defer a.mu.RUnlock()
	a.inForce.users.Add(1)
	return a.inForce
}

// try is join, but returns nil before the first set and after the last.
func (a *agents) try() *agentSet {
	a.mu.RLock()
	defer a.mu.RUnlock()
	if a.inForce != nil {
		a.inForce.users.Add(1)
	}
	return a.inForce
}

// parseRoute returns the canonical text of a route that an operator orders, by the configuration in force.
func (d *Daemon) parseRoute(text string) (string, error) {
	set := d.agents.try()
	if set == nil {
		return "", errors.New("the program is stopping")
	}
	defer set.users.Done()
	target, err := set.orders(text)
	var wrong *route.SyntaxError
	if errors.As(err, &wrong) { // the caller has the text
		err = errors.New(wrong.Problem)
		if wrong.Hint != "" {
			err = fmt.Errorf("%s; %s", wrong.Problem, wrong.Hint)
		}
	}
	return target, err
}

// close waits for those who use the set before it closes what they ask for hosts: a
// lookup that was cut off would count as a failure of the destination, or defer
// mail for nothing.
func (s *agentSet) close() {
	s.users.Wait()
	s.resolver.Close()
}

// close is called when no delivery and no lookup will begin any more.
func (a *agents) close() {
	a.set(nil)
	a.retired.Wait()
}
