package verify

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/posthaste-mta/posthaste/mail"
	"github.com/posthaste-mta/posthaste/qmgr"
)

// Oracle replays a decision trace of a real queue manager. It returns a
// *Difference where the core decides otherwise, and another error if the trace
// cannot be understood.
func Oracle(trace []byte) error {
	var r recording
	if err := json.Unmarshal(trace, &r); err != nil {
		return fmt.Errorf("%w: %w", ErrNoRecording, err)
	}
	if len(r.Messages) == 0 || len(r.Order) == 0 && len(r.Events) == 0 && len(r.Deferrals) == 0 && len(r.Ends) == 0 {
		return fmt.Errorf("%w: it has no messages, or nothing that was decided about them", ErrNoRecording)
	}
	o, err := newOracle(&r)
	if err != nil {
		return fmt.Errorf("%w: %w", ErrNoRecording, err)
	}
	return o.run()
}

// An oracle is the state of one replay.
type oracle struct {
	*recording
	host     *host
	only     string // the transport, if there is just one
	routes   map[mail.QueueID]map[string]recordedRecipient
	admitted int
	running  map[int]qmgr.Deliver // by index into Order
	pending  map[string]int

	decided     int
	after       *windowState
	preemptions []recordedPreempted
	reads       []recordedRead
	allocations []string
	suspended   map[string][]string
}

func newOracle(r *recording) (*oracle, error) {
	o := &oracle{recording: r, routes: make(map[mail.QueueID]map[string]recordedRecipient), running: make(map[int]qmgr.Deliver),
		pending: make(map[string]int), suspended: make(map[string][]string)}
	if err := o.readRecipients(); err != nil {
		return nil, err
	}
	s, err := o.settings()
	if err != nil {
		return nil, err
	}
	if len(r.Parameters.Transports) == 1 {
		for name := range r.Parameters.Transports { //archtest:anyorder there is one
			o.only = name
		}
	}
	cfg := s.config()
	cfg.Debug = true
	cfg.RecipientLimit = max(cfg.RecipientLimit, cfg.WithDefaults().ActiveLimit) // Postfix raises it, with a warning
	o.host, err = newHost(cfg, seconds(epoch), o.route)
	if err == nil {
		o.host.seen = o.see
	}
	return o, err
}

// oracleSuffixes are the names that the traces have for some parameters.
var oracleSuffixes = map[string]string{
	"positive_feedback":   "destination_concurrency_positive_feedback",
	"negative_feedback":   "destination_concurrency_negative_feedback",
	"failed_cohort_limit": "destination_concurrency_failed_cohort_limit",
}

func (o *oracle) settings() (*settings, error) {
	s := newSettings(qmgr.TransportConfig{Agents: qmgr.AgentsOffered, PerRecipientQueues: true})
	for _, name := range slices.Sorted(maps.Keys(o.Parameters.QueueManager)) {
		if name == "queue_run_delay" {
			continue // the trace says when the queue was run
		}
		if err := s.set(name, o.Parameters.QueueManager[name].String()); err != nil {
			return nil, err
		}
	}
	for _, transport := range slices.Sorted(maps.Keys(o.Parameters.Transports)) {
		s.transport(transport)
		for name, raw := range o.Parameters.Transports[transport] { //archtest:anyorder each parameter is for itself
			if name == "process_limit" {
				continue // the trace says which agents are ready
			}
			if long, ok := oracleSuffixes[name]; ok {
				name = long
			}
			value, err := text(raw)
			if err == nil {
				err = s.set(transport+"_"+name, value)
			}
			if err != nil {
				return nil, err
			}
		}
	}
	return s, nil
}

// text reads a JSON string or number.
func text(raw json.RawMessage) (string, error) {
	if len(raw) == 0 || raw[0] != '"' {
		return string(raw), nil
	}
	var s string
	err := json.Unmarshal(raw, &s)
	return s, err
}

// readRecipients reads the lists of recipients; where a trace has only their
// number they are made up.
func (o *oracle) readRecipients() error {
	for i := range o.Messages {
		m := &o.Messages[i]
		var n int
		if json.Unmarshal(m.Recipients, &n) == nil {
			for k := range n {
				m.recipients = append(m.recipients, recordedRecipient{Address: fmt.Sprintf("x@r%06d.d1.test", k), Destination: "d1"})
			}
			continue
		}
		if err := json.Unmarshal(m.Recipients, &m.recipients); err != nil {
			return fmt.Errorf("recipients of %s: %w", m.ID, err)
		}
	}
	return nil
}

func (o *oracle) route(id mail.QueueID, r mail.Recipient) mail.Route {
	to := o.routes[id][string(r.Address)]
	return mail.Route{Transport: o.transport(to.Transport), Nexthop: to.Destination}
}

func (o *oracle) transport(name string) string {
	if name == "" {
		return o.only
	}
	return name
}

// admit lets the core pick a message up, as soon as it has room.
func (o *oracle) admit(m *recordedMessage) {
	routes := make(map[string]recordedRecipient, len(m.recipients))
	list := make([]string, len(m.recipients))
	for i, r := range m.recipients {
		list[i] = r.Address
		routes[r.Address] = r
	}
	o.admitted++
	o.routes[mail.QueueID(o.admitted)] = routes
	o.host.store(m.ID, list, seconds(epoch+m.EnqueueTime))
	o.settle()
}

// clock sets the clock to a second of the trace.
func (o *oracle) clock(t int64) { o.host.now = max(o.host.now, seconds(epoch+t)) }

// see notes what the traces have recorded apart from deliveries.
func (o *oracle) see(a qmgr.Action) {
	switch a := a.(type) {
	case qmgr.Open:
		o.reads = append(o.reads, recordedRead{Decision: o.decided, Message: o.host.name(a.ID), First: true, Limit: a.Max})
	case qmgr.Read:
		o.reads = append(o.reads, recordedRead{Decision: o.decided, Message: o.host.name(a.ID), Limit: a.Max})
	case qmgr.Preempted:
		o.preemptions = append(o.preemptions, recordedPreempted{o.decided, o.host.name(a.Current), o.host.name(a.By), a.Level})
	case qmgr.Feedback:
		if a.Transport == qmgr.TransportRetry {
			return // its deliveries are not recorded
		}
		o.after = &windowState{a.Limit, a.Window, a.Success, a.Failure, a.FailedCohorts}
	}
}

// settle does what the queue manager did by itself before the next step was
// taken: it asked for agents as long as it had something for them, recipients of
// dead destinations were deferred, and mail was admitted, one message after the
// other.
func (o *oracle) settle() {
	for o.askForAgents(); o.host.take(); o.askForAgents() {
	}
}

func (o *oracle) askForAgents() {
	for {
		o.host.step(qmgr.SelectTransport{Pending: o.pending})
		if t := o.host.selected; t != "" {
			o.pending[t]++
			o.allocations = append(o.allocations, t)
			continue
		}
		if o.pending[qmgr.TransportRetry] == 0 {
			return
		}
		o.pending[qmgr.TransportRetry]--
		if d, ok := o.host.offer(qmgr.TransportRetry); ok {
			name := o.host.name(d.Delivery.Envelope.ID)
			o.suspended[name] = append(o.suspended[name], addresses(d)...)
			o.host.finish(d, endSoft)
		}
	}
}

func (o *oracle) run() error {
	switch {
	case o.QueueRuns != nil:
		return o.runRetries()
	case len(o.Order) == 0 && len(o.Events) > 0:
		return o.runCompletions()
	case o.Events != nil:
		return o.runEvents()
	}
	return o.runSerially()
}

// runSerially replays a trace without events: one agent, every delivery is
// completed before the next decision, and messages arrive in between.
func (o *oracle) runSerially() error {
	messages := o.arriveFirst()
	for o.decided < len(o.Order) || len(messages) > 0 {
		n := o.decided
		if o.pending[o.serialTransport()] == 0 {
			if len(messages) == 0 {
				return &Difference{Where: o.where(), Got: "nothing to select", Want: o.Order[n].String()}
			}
			o.admit(messages[0])
			messages = messages[1:]
			continue
		}
		if n == len(o.Order) {
			break
		}
		if err := o.decide(n); err != nil {
			return err
		}
		for len(messages) > 0 && messages[0].Arrives.After != nil && *messages[0].Arrives.After <= o.decided {
			o.admit(messages[0])
			messages = messages[1:]
		}
		o.complete(n, endOK)
	}
	return o.compareFacts()
}

func (o *oracle) serialTransport() string {
	if o.decided < len(o.Order) {
		return o.transport(o.Order[o.decided].Transport)
	}
	return o.only
}

// arriveFirst admits what was there before the first decision and returns the
// rest.
func (o *oracle) arriveFirst() (rest []*recordedMessage) {
	for i := range o.Messages {
		m := &o.Messages[i]
		if m.Arrives.First {
			o.admit(m)
		} else {
			rest = append(rest, m)
		}
	}
	return rest
}

func (o *oracle) where() string { return fmt.Sprintf("order[%d]", o.decided) }

// decide offers an agent and compares what it gets with a recorded decision.
func (o *oracle) decide(i int) error {
	if i != o.decided || i >= len(o.Order) {
		return fmt.Errorf("decision %d comes after %d", i, o.decided)
	}
	want := &o.Order[i]
	transport := o.transport(want.Transport)
	o.clock(want.T)
	if o.pending[transport] == 0 {
		return &Difference{Where: o.where(), Got: "nothing to select", Want: want.String()}
	}
	o.pending[transport]--
	d, ok := o.host.offer(transport)
	if !ok {
		return &Difference{Where: o.where(), Got: "no entry", Want: want.String()}
	}
	got := decision{Message: o.host.name(d.Delivery.Envelope.ID), Destination: d.Delivery.Nexthop, Transport: want.Transport,
		Recipients: addresses(d), T: want.T}
	if got.String() != want.String() {
		return &Difference{Where: o.where(), Got: got.String(), Want: want.String()}
	}
	o.running[i] = d
	o.decided++
	o.settle()
	return nil
}

func (d *decision) String() string {
	s := fmt.Sprintf("t=%d %s to %s: %s", d.T, d.Message, strings.ToLower(d.Destination), strings.Join(d.Recipients, " "))
	if d.Transport != "" {
		s = d.Transport + " " + s
	}
	return s
}

func (o *oracle) complete(i int, how ending) {
	o.after = nil
	o.host.finish(o.running[i], how)
	delete(o.running, i)
	o.settle()
}
