package replay

import (
	"bytes"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/posthaste-mta/posthaste/internal/prng"
	"github.com/posthaste-mta/posthaste/mail"
	"github.com/posthaste-mta/posthaste/qmgr"
	"github.com/posthaste-mta/posthaste/qmgr/backoff"
	"github.com/posthaste-mta/posthaste/qmgr/qmgrtest"
	"github.com/posthaste-mta/posthaste/trace"
)

// A recording is a world and the trace of its core.
type recording struct {
	*qmgrtest.World
	t    *testing.T
	text bytes.Buffer
	w    *trace.Writer
	ids  []mail.QueueID
}

func record(t *testing.T, cfg qmgr.Config, seed uint64) *recording {
	t.Helper()
	w, err := qmgrtest.New(cfg, seed)
	if err != nil {
		t.Fatal(err)
	}
	r := &recording{World: w, t: t}
	r.w = trace.NewWriter(&r.text, trace.Head{By: "test", Seed: seed, Epoch: w.Now, Config: cfg})
	r.w.Event(w.Now, qmgr.Wake{}) // the world has begun with it
	r.w.Actions(w.Now, w.Actions)
	w.Stepped = func(ev qmgr.Event, actions []qmgr.Action) {
		r.w.Event(w.Now, ev)
		r.w.Actions(w.Now, actions)
	}
	return r
}

// end returns the trace.
func (r *recording) end() string {
	r.t.Helper()
	if err := r.w.End(); err != nil {
		r.t.Fatal(err)
	}
	return r.text.String()
}

// arrive brings a message to addresses.
func (r *recording) arrive(to ...mail.Address) mail.QueueID {
	var list []mail.Recipient
	for _, a := range to {
		list = append(list, mail.Recipient{Address: a})
	}
	id := r.Arrive("s@x.test", list).Envelope.ID
	r.ids = append(r.ids, id)
	return id
}

// answerAll answers everything; deliveries end as how says.
func (r *recording) answerAll(how func(qmgr.Deliver) qmgrtest.Ending) {
	for len(r.Outstanding) > 0 {
		switch a := r.Take(0).(type) {
		case qmgr.Deliver:
			r.Deliver(a, how(a))
		default:
			r.Answer(a)
		}
	}
}

// pass lets time pass, with the wakes that the core wants.
func (r *recording) pass(d time.Duration, how func(qmgr.Deliver) qmgrtest.Ending) {
	end := r.Now.Add(d)
	for {
		wake, ok := r.Core.NextWake()
		if !ok || wake > end {
			break
		}
		r.Now = max(r.Now, wake)
		r.Step(qmgr.Wake{})
		r.answerAll(how)
	}
	r.Now = end
}

func accepted(qmgr.Deliver) qmgrtest.Ending { return qmgrtest.Accepted }

// busy is a world in which much happens at once, and not in order.
func busy(t *testing.T, seed uint64, steps int) string {
	t.Helper()
	rng := prng.New(seed)
	cfg := qmgr.Config{ActiveLimit: 2 + rng.IntN(20), RecipientLimit: 5 + rng.IntN(50), ActionsPerStep: 1 + rng.IntN(10),
		Backoff:          backoff.Config{MinimalBackoffTime: 10 * time.Second, MaximalBackoffTime: 100 * time.Second, MaximalQueueLifetime: time.Hour},
		DefaultTransport: qmgr.TransportConfig{ProcessLimit: 1 + rng.IntN(6), RecipientLimit: 1 + rng.IntN(4)}, Debug: rng.Permille(500)}
	if rng.Permille(500) {
		cfg.DefaultTransport.Agents = qmgr.AgentsConnections
		cfg.ConnectionLimit = 1 + rng.IntN(5)
	}
	r := record(t, cfg, seed)
	if rng.Permille(500) {
		r.Lookups["d1.test"] = mail.Route{Transport: "smtp", Nexthop: "d1.test", Site: "{mx.test}"}
	}
	for range steps {
		switch rng.IntN(12) {
		case 0, 1:
			var to []mail.Address
			for i := range 1 + rng.IntN(5) {
				to = append(to, mail.Address(fmt.Sprintf("u%d@d%d.test", i, rng.IntN(4))))
			}
			r.arrive(to...)
		case 2:
			to := r.Now.Add(time.Duration(rng.IntN(20)) * time.Second)
			if wake, ok := r.Core.NextWake(); ok {
				to = min(to, wake.Add(time.Millisecond)) // a daemon is late, but not much
			}
			r.Now = max(r.Now, to)
			r.Step(qmgr.Wake{})
		case 3:
			operate(r, &rng)
		case 4:
			cfg.DefaultTransport.ProcessLimit = 1 + rng.IntN(6)
			r.Step(qmgr.Configure{Config: cfg})
		case 5, 6:
			converse(r, &rng)
		default:
			answer(r, &rng)
		}
	}
	return r.end()
}

// answer answers something.
func answer(r *recording, rng *prng.Source) {
	if len(r.Outstanding) == 0 {
		return
	}
	switch a := r.Take(rng.IntN(len(r.Outstanding))).(type) {
	case qmgr.Deliver:
		r.Deliver(a, qmgrtest.Ending(rng.IntN(qmgrtest.Endings)))
	case qmgr.Dial:
		o := mail.OpenedConnection{Level: mail.Level(rng.IntN(4))}
		if rng.Permille(300) {
			o.Reply = mail.Reply{Code: 421, Text: "busy"}
		}
		r.Dialed(a, o)
	default:
		r.Answer(a)
	}
}

// converse has a connection take its next step.
func converse(r *recording, rng *prng.Source) {
	list := r.Connections()
	if len(list) == 0 {
		return
	}
	conn := list[rng.IntN(len(list))]
	switch {
	case rng.Permille(100):
		r.Close(conn, mail.CloseReason(1+rng.IntN(5)))
	case len(conn.Sends) > 0:
		r.Sent(conn, qmgrtest.Ending(rng.IntN(int(qmgrtest.SiteDown))))
	case conn.Hung:
		r.Close(conn, mail.CloseAsked)
	}
}

func operate(r *recording, rng *prng.Source) {
	if len(r.ids) == 0 {
		return
	}
	ids := []mail.QueueID{r.ids[rng.IntN(len(r.ids))]}
	switch rng.IntN(5) {
	case 0:
		r.Step(qmgr.Hold{IDs: ids, Reason: "a test"})
	case 1:
		r.Step(qmgr.Release{IDs: ids})
	case 2:
		r.Step(qmgr.Drop{IDs: ids})
	case 3:
		r.Step(qmgr.Retry{IDs: ids})
	case 4:
		r.Step(qmgr.RetryAll{})
	}
}

// open reads a trace from memory.
func open(t *testing.T, text string) *trace.Reader {
	t.Helper()
	r, err := trace.NewReader(strings.NewReader(text), "x.trace")
	if err != nil {
		t.Fatal(err)
	}
	return r
}

// replayed replays a trace and returns what came of it.
func replayed(t *testing.T, text string) Result {
	t.Helper()
	result, err := Run(open(t, text))
	if err != nil {
		t.Fatalf("%v in\n%s", err, text)
	}
	return result
}
