package replay

import (
	"fmt"
	"strconv"
	"strings"

	"github.com/posthaste-mta/posthaste/mail"
	"github.com/posthaste-mta/posthaste/qmgr"
)

// A name names a question, within one run (handle) or in every run (key).
type name struct {
	kind string
	id   uint64
	text string
}

// A question is an action that wants an answer.
type question struct {
	handle name // how an answer in the same run calls it
	key    name // what it is called in any run: it has no numbers that the core counts, and no instants
	entry  qmgr.EntryID
	conn   qmgr.ConnID
	lookup qmgr.LookupID
}

// ask returns the question that an action asks, false if it wants no answer.
// The set of actions is closed, and a test walks through it.
func ask(a qmgr.Action) (question, bool) {
	switch a := a.(type) {
	case qmgr.Fetch:
		return same(fetch(a.Scan, a.From.Bucket)), true
	case qmgr.Open:
		return same(name{kind: "open", id: uint64(a.ID)}), true
	case qmgr.Read:
		q := same(name{kind: "read", id: uint64(a.ID)})
		q.key.text = strconv.Itoa(int(a.From))
		return q, true
	case qmgr.Route:
		q := same(name{kind: "route", id: uint64(a.ID)})
		q.key.text = indexes(a.Recipients)
		return q, true
	case qmgr.Lookup:
		return question{handle: name{kind: "lookup", id: uint64(a.Lookup)}, key: name{kind: "lookup", text: a.Transport + " " + a.Nexthop},
			lookup: a.Lookup}, true
	case qmgr.Deliver:
		return delivery(a.Entry, &a.Delivery), true
	case qmgr.Send:
		q := delivery(a.Entry, &a.Delivery)
		q.conn = a.Conn
		return q, true
	case qmgr.Resolve:
		return same(name{kind: "resolve", text: a.Transport + " " + a.Nexthop}), true
	case qmgr.Dial:
		o := &a.Opening
		return question{handle: name{kind: "dial", id: uint64(a.Conn)}, conn: a.Conn,
			key: name{kind: "dial", text: o.Transport + " " + o.Host.Addr.String() + " " + o.Host.Name}}, true
	case qmgr.Change:
		q := same(name{kind: "change", id: uint64(a.Change.ID)})
		q.key.text = a.Change.Op.String()
		return q, true
	case qmgr.Report:
		return same(name{kind: "report", id: uint64(a.ID)}), true
	case qmgr.Hangup: // Closed is the connection's end, and may come unasked
		return question{}, false
	case qmgr.Note, qmgr.Selected, qmgr.Verified, qmgr.Feedback, qmgr.Preempted:
		return question{}, false
	}
	panic(fmt.Sprintf("package replay has not been told whether a %T wants an answer", a))
}

// fetch names the question what is in a bucket.
func fetch(s qmgr.Scan, b mail.Bucket) name {
	return name{kind: "fetch", id: uint64(s)<<32 | uint64(b)}
}

func same(n name) question { return question{handle: n, key: n} }

// entryKind is the kind of the questions how a delivery ends.
const entryKind = "entry"

func delivery(entry qmgr.EntryID, d *mail.Delivery) question {
	return question{handle: name{kind: entryKind, id: uint64(entry)}, entry: entry,
		key: name{entryKind, uint64(d.Envelope.ID), d.Transport + " " + d.Nexthop + indexes(d.Recipients)}}
}

func indexes(list []mail.Recipient) string {
	var b strings.Builder
	for i := range list {
		b.WriteByte(' ')
		b.WriteString(strconv.FormatUint(uint64(list[i].Index), 10))
	}
	return b.String()
}

// handles returns how the question is called that an event answers: there may
// be several, of which one has been asked. There is none for what comes unasked.
func handles(ev qmgr.Event) []name {
	switch ev := ev.(type) {
	case qmgr.Found:
		return []name{fetch(ev.Scan, ev.Found.Next.Bucket)}
	case qmgr.Opened:
		return []name{{kind: "open", id: uint64(ev.Envelope.ID)}}
	case qmgr.Broken:
		return []name{{kind: "open", id: uint64(ev.ID)}, {kind: "read", id: uint64(ev.ID)}, {kind: "report", id: uint64(ev.ID)}}
	case qmgr.Recipients:
		return []name{{kind: "read", id: uint64(ev.ID)}}
	case qmgr.Routed:
		return []name{{kind: "route", id: uint64(ev.ID)}}
	case qmgr.LookedUp:
		return []name{{kind: "lookup", id: uint64(ev.Lookup)}}
	case qmgr.Delivered:
		return []name{{kind: entryKind, id: uint64(ev.Entry)}}
	case qmgr.Hosts:
		return []name{{kind: "resolve", text: ev.Transport + " " + ev.Nexthop}}
	case qmgr.Dialed:
		return []name{{kind: "dial", id: uint64(ev.Conn)}}
	case qmgr.Changed:
		return []name{{kind: "change", id: uint64(ev.Changed.ID)}}
	case qmgr.Reported:
		return []name{{kind: "report", id: uint64(ev.ID)}}
	case qmgr.Closed:
		return nil
	case qmgr.Arrived, qmgr.Kept, qmgr.Wake, qmgr.Hold, qmgr.Release, qmgr.Drop, qmgr.Settle, qmgr.Split, qmgr.SetRoute, qmgr.Retry, qmgr.RetryAll, qmgr.AgentReady, qmgr.AgentUnavailable, qmgr.SelectTransport,
		qmgr.Configure, qmgr.Rules, qmgr.Reroute, qmgr.AdjustWarmup, qmgr.Suspend, qmgr.Resume, qmgr.Learned, qmgr.Heard, qmgr.Verify, qmgr.Halt:
		return nil
	}
	panic(fmt.Sprintf("package replay has not been told what a %T answers", ev))
}

// addressed returns an answer with the numbers that the core has given to the
// question.
func addressed(ev qmgr.Event, q question) qmgr.Event {
	switch ev := ev.(type) {
	case qmgr.Delivered:
		ev.Entry = q.entry
		return ev
	case qmgr.Dialed:
		ev.Conn = q.conn
		return ev
	case qmgr.LookedUp:
		ev.Lookup = q.lookup
		return ev
	}
	return ev
}
