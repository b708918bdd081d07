package verify

import (
	"fmt"
	"slices"
	"strconv"

	"github.com/posthaste-mta/posthaste/qmgr"
)

// runEvents replays a trace in which deliveries overlap.
func (o *oracle) runEvents() error {
	byID := make(map[string]*recordedMessage)
	for _, m := range o.arriveFirst() {
		byID[m.ID] = m
	}
	windows := slices.ContainsFunc(o.Events, func(e recordedEvent) bool { return e.After != nil })
	for n := range o.Events {
		e := &o.Events[n]
		o.after = nil
		if err := o.event(e, byID); err != nil {
			return err
		}
		if (e.E == "done" && e.Result != "deferred" || e.E == "revived") && windows && o.after.String() != e.After.String() {
			return &Difference{Where: fmt.Sprintf("events[%d]: %s", n, e.E), Got: o.after.String(), Want: e.After.String()}
		}
	}
	if o.decided < len(o.Order) {
		return fmt.Errorf("%d decisions have no event", len(o.Order)-o.decided)
	}
	return o.compareFacts()
}

func (o *oracle) event(e *recordedEvent, byID map[string]*recordedMessage) error {
	switch e.E {
	case "select":
		return o.decide(e.I)
	case "done":
		how, err := endingOf(e.Result)
		if err != nil {
			return err
		}
		if _, runs := o.running[e.I]; !runs {
			return fmt.Errorf("delivery %d ends, which is not under way", e.I)
		}
		o.complete(e.I, how)
	case "arrive":
		m := byID[e.Message]
		if m == nil {
			return fmt.Errorf("message %q arrives, which is not in the list or has arrived", e.Message)
		}
		delete(byID, e.Message)
		o.admit(m)
	case "idle":
		return o.idle()
	case "none":
		return o.none(o.transport(e.Transport))
	case "revived":
		wake, _ := o.host.core.NextWake()
		o.host.advance(max(o.host.now, wake))
		o.settle()
	default:
		return fmt.Errorf("unknown event %q", e.E)
	}
	return nil
}

func endingOf(result string) (ending, error) {
	switch result {
	case "ok":
		return endOK, nil
	case "deferred":
		return endSoft, nil
	case "unreachable":
		return endSite, nil
	}
	return 0, fmt.Errorf("unknown result %q", result)
}

// idle checks that the core has nothing for some agent that is free.
func (o *oracle) idle() error {
	for name := range o.Parameters.Transports { //archtest:anyorder any one will do
		if o.pending[name] == 0 {
			return nil
		}
	}
	return &Difference{Where: o.where(), Got: "something to select", Want: "nothing to select"}
}

// none offers an agent for which there is nothing any more.
func (o *oracle) none(transport string) error {
	if o.pending[transport] == 0 {
		return &Difference{Where: o.where(), Got: "nothing to select", Want: "an agent that is sent away"}
	}
	o.pending[transport]--
	if d, ok := o.host.offer(transport); ok {
		return &Difference{Where: o.where(), Got: o.host.name(d.Delivery.Envelope.ID) + " to " + d.Delivery.Nexthop, Want: "no entry"}
	}
	o.settle()
	return nil
}

// runCompletions replays a trace in which only completions are recorded: as
// many deliveries run as the core starts.
func (o *oracle) runCompletions() error {
	for i := range o.Messages {
		o.admit(&o.Messages[i])
	}
	var running []qmgr.Deliver
	sent := 0
	for n := range o.Events {
		e := &o.Events[n]
		if e.E != "done" {
			return fmt.Errorf("event %q where only completions are recorded", e.E)
		}
		how, err := endingOf(e.Result)
		if err != nil {
			return err
		}
		running = append(running, o.startAll()...)
		if len(running) == 0 {
			return &Difference{Where: fmt.Sprintf("events[%d]", n), Got: "nothing under way", Want: e.Result}
		}
		d := running[0]
		running = running[1:]
		if how == endOK {
			sent += len(d.Delivery.Recipients)
		}
		o.after = nil
		o.host.finish(d, how)
		o.settle()
		if o.after.String() != e.After.String() {
			return &Difference{Where: fmt.Sprintf("events[%d]: done", n), Got: o.after.String(), Want: e.After.String()}
		}
	}
	if sent != o.Sent {
		return &Difference{Where: "sent", Got: strconv.Itoa(sent), Want: strconv.Itoa(o.Sent)}
	}
	return nil
}

// startAll gives the core as many agents as it has something for.
func (o *oracle) startAll() (started []qmgr.Deliver) {
	for o.pending[o.only] > 0 {
		o.pending[o.only]--
		if d, ok := o.host.offer(o.only); ok {
			started = append(started, d)
		}
		o.settle()
	}
	return started
}
