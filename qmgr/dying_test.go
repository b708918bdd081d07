package qmgr_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/posthaste-mta/posthaste/mail"
	"github.com/posthaste-mta/posthaste/qmgr"
	"github.com/posthaste-mta/posthaste/qmgr/qmgrtest"
)

// A dying is a host that takes no mail, whatever is tried, and its way of not
// doing so.
type dying struct {
	name string
	// greeting is what dialling ends with; zero lets the session begin.
	greeting mail.Reply
	// why and words are how a connection ends at the first message, and what that
	// comes to.
	why   mail.CloseReason
	words qmgrtest.Ending
	// simple means that in lock-step the host refuses the message and stays.
	simple bool
}

var dyings = []dying{
	{name: "drops at the greeting", greeting: mail.Reply{Code: 450, Text: "connection lost"}},
	{name: "drops at MAIL", why: mail.CloseLost, words: qmgrtest.Lost},
	{name: "drops before the final reply", why: mail.CloseLost, words: qmgrtest.Unknown},
	{name: "421 at MAIL", why: mail.CloseBusy, words: qmgrtest.Lost},
	{name: "makes no sense", why: mail.CloseStep, words: qmgrtest.Lost},
	{name: "554 to a group, then to all", why: mail.CloseStep, words: qmgrtest.Unsent, simple: true},
}

// A deathbed is mail on its way to a site with such a host.
type deathbed struct {
	t     *testing.T
	w     *qmgrtest.World
	how   dying
	dials []mail.Instant // of the host that is dying
}

const dyingName = "mx-dying.test"

// settle lets everything happen that happens at once.
func (d *deathbed) settle() {
	for range 100_000 {
		switch list := d.w.Connections(); {
		case len(d.w.Outstanding) > 0:
			d.answer(d.w.Take(0))
		case !d.converse(list):
			return
		}
	}
	d.t.Fatalf("%s: it never comes to rest", d.how.name)
}

func (d *deathbed) answer(a qmgr.Action) {
	switch a := a.(type) {
	case qmgr.Deliver:
		d.w.Deliver(a, qmgrtest.Later)
	case qmgr.Dial:
		o := mail.OpenedConnection{Level: a.Opening.Level}
		if a.Opening.Host.Name == dyingName {
			d.dials = append(d.dials, d.w.Now)
			o.Reply = d.how.greeting
		}
		d.w.Dialed(a, o)
	default:
		d.w.Answer(a)
	}
}

// converse moves one connection on, and reports whether there was any to move.
func (d *deathbed) converse(list []*qmgrtest.Connection) bool {
	for _, c := range list {
		bad := c.Opening.Host.Name == dyingName
		switch {
		case len(c.Sends) == 0 && c.Hung:
			d.w.Close(c, mail.CloseAsked)
		case len(c.Sends) == 0:
			continue
		case bad && d.how.simple && c.Opening.Level == mail.LevelLockStep:
			d.w.Sent(c, qmgrtest.Rejected)
		case bad:
			d.w.Close(c, d.how.why, d.how.words)
		default:
			d.w.Sent(c, qmgrtest.Accepted)
		}
		return true
	}
	return false
}

// pass lets time pass.
func (d *deathbed) pass(until mail.Instant) {
	for {
		at, ok := d.w.Core.NextWake()
		if !ok || at > until {
			d.w.Now = until
			return
		}
		d.w.Now = max(d.w.Now, at)
		d.w.Step(qmgr.Wake{})
		d.settle()
	}
}

// last brings mail for ten minutes, one message each second and 200 to begin with,
// to a site of so many hosts of which one is dying.
func last(t *testing.T, how dying, hosts int) *deathbed {
	smtp := qmgr.TransportConfig{Agents: qmgr.AgentsConnections}
	smtp.Connections.Level = mail.LevelOverlap
	w, err := qmgrtest.New(qmgr.Config{Transports: map[string]qmgr.TransportConfig{"smtp": smtp}}, 1)
	if err != nil {
		t.Fatal(err)
	}
	w.CheckEvery = checkOfMany()
	d := &deathbed{t: t, w: w, how: how}
	tier := []mail.Host{qmgrtest.HostAt(dyingName, 1)}
	for i := 1; i < hosts; i++ {
		tier = append(tier, qmgrtest.HostAt(fmt.Sprintf("mx%d.test", i), byte(i+1)))
	}
	w.Zones["d.test"] = qmgrtest.Zone{Tiers: [][]mail.Host{tier}}
	began := w.Now
	for second := range 600 {
		for range 1 + 199*max(1-second, 0) {
			w.Arrive("s@x.test", []mail.Recipient{{Address: "u@d.test"}})
		}
		d.settle()
		d.pass(began.Add(time.Duration(second+1) * time.Second))
	}
	if len(w.Violations) > 0 {
		t.Fatalf("%s: %s", how.name, w.Violations[0])
	}
	return d
}

// contacts returns at how many instants the dying host was dialled.
func (d *deathbed) contacts() (n int) {
	for i, at := range d.dials {
		if i == 0 || at != d.dials[i-1] {
			n++
		}
	}
	return n
}

// count returns how many messages were delivered, refused, and wait deferred.
func (d *deathbed) count() (delivered, refused, deferred int) {
	for _, m := range d.w.Gone {
		delivered += m.Accepted[0]
		if m.Refused[0] {
			refused++
		}
	}
	for _, m := range d.w.Messages {
		if m.Place.Area == mail.AreaDeferred {
			deferred++
		}
	}
	return delivered, refused, deferred
}

// arrivals is how many messages there are.
const arrivals = 799

// A host that takes connections and no mail is not called again and again, however
// much mail there is for it, in whichever way it fails: it counts as failed when several
// messages have failed, one after the other, and is left alone for a minute,
// then for two, and so on, with two messages each time. The first time a whole window of
// connections may have been opened before it shows (here nothing takes any time, so that
// all are), and once more at a lower level if the host's words asked for that. Mail waits
// in the spool.
func TestDyingHost(t *testing.T) {
	t.Parallel()
	const window = 20
	for _, how := range dyings {
		d := last(t, how, 1)
		_, refused, deferred := d.count()
		t.Logf("%s: %d connections at %d instants, %d messages deferred, %d refused", how.name, len(d.dials), d.contacts(), deferred, refused)
		if len(d.dials) > 2*window+10 || d.contacts() > 7 {
			t.Errorf("%s: %d connections in ten minutes, at %d instants", how.name, len(d.dials), d.contacts())
		}
		if want := map[bool]int{true: arrivals}[how.simple]; refused != want || refused+deferred != arrivals {
			t.Errorf("%s: %d messages deferred, %d refused of %d", how.name, deferred, refused, arrivals)
		}
	}
}

// Where another host of the tier works, it gets the mail. An attempt that breaks off
// costs the message under way its turn, and no other one.
func TestDyingHostAmongOthers(t *testing.T) {
	t.Parallel()
	for _, how := range dyings {
		d := last(t, how, 2)
		delivered, refused, deferred := d.count()
		t.Logf("%s: %d connections at %d instants, %d messages delivered, %d deferred, %d refused", how.name, len(d.dials), d.contacts(), delivered, deferred, refused)
		if len(d.dials) > 12 || deferred > len(d.dials) || delivered+refused+deferred != arrivals || !how.simple && refused > 0 {
			t.Errorf("%s: %d connections in ten minutes; %d messages delivered, %d refused, %d deferred of %d",
				how.name, len(d.dials), delivered, refused, deferred, arrivals)
		}
	}
}
