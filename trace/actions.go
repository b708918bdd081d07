package trace

import (
	"strconv"

	"github.com/posthaste-mta/posthaste/mail"
	"github.com/posthaste-mta/posthaste/qmgr"
)

var (
	noteWords  = []string{"", "expired", "deferred", "removed", "held", "dropped", "corrupt", "dead", "alive", "duplicate"}
	causeWords = []string{"", "success", "failure", "revival"}
)

// An actionCodec knows one kind of action, as eventCodec does one of events.
type actionCodec struct {
	name  string
	visit func(*codec, *qmgr.Action) bool
}

// action writes or reads an action.
func (c *codec) action(a *qmgr.Action) {
	if !c.writing {
		name := ""
		c.word(&name)
		for _, k := range actionCodecs {
			if k.name == name {
				k.visit(c, a)
				return
			}
		}
		c.fail("unknown action %q", name)
		return
	}
	start := len(c.out)
	for _, k := range actionCodecs {
		c.out = append(append(c.out[:start], ' '), k.name...)
		if k.visit(c, a) {
			return
		}
	}
	c.out = append(c.out[:start], " unknown"...)
}

func actionKind[A qmgr.Action](name string, fields func(*codec, *A)) actionCodec {
	return actionCodec{name, func(c *codec, ac *qmgr.Action) bool {
		var a A
		if c.writing {
			var is bool
			if a, is = (*ac).(A); !is {
				return false
			}
		}
		fields(c, &a)
		*ac = a
		return true
	}}
}

// actionCodecs has the most frequent ones first.
var actionCodecs = []actionCodec{
	actionKind("deliver", func(c *codec, a *qmgr.Deliver) {
		c.entry(&a.Entry)
		c.id(&a.Delivery.Envelope.ID)
		c.word(&a.Delivery.Transport)
		c.word(&a.Delivery.Nexthop)
		c.recipients(&a.Delivery.Recipients)
	}),
	actionKind("send", func(c *codec, a *qmgr.Send) {
		conn(c, &a.Conn)
		c.entry(&a.Entry)
		c.id(&a.Delivery.Envelope.ID)
		c.word(&a.Delivery.Transport)
		c.word(&a.Delivery.Nexthop)
		c.recipients(&a.Delivery.Recipients)
	}),
	actionKind("change", func(c *codec, a *qmgr.Change) { c.change(&a.Change) }),
	actionKind("route", func(c *codec, a *qmgr.Route) {
		c.id(&a.ID)
		c.recipients(&a.Recipients)
	}),
	actionKind("lookup", func(c *codec, a *qmgr.Lookup) {
		lookup(c, &a.Lookup)
		c.idPair("for", &a.For)
		c.word(&a.Transport)
		c.word(&a.Nexthop)
	}),
	actionKind("note", func(c *codec, a *qmgr.Note) { c.note(a) }),
	actionKind("fetch", func(c *codec, a *qmgr.Fetch) {
		choice(c, scanWords, &a.Scan)
		c.instant("from-at", &a.From.Due)
		c.idPair("from", &a.From.ID)
		number(c, "max", &a.Max)
	}),
	actionKind("open", func(c *codec, a *qmgr.Open) {
		c.id(&a.ID)
		number(c, "max", &a.Max)
	}),
	actionKind("read", func(c *codec, a *qmgr.Read) {
		c.id(&a.ID)
		number(c, "from", &a.From)
		number(c, "max", &a.Max)
	}),
	actionKind("resolve", func(c *codec, a *qmgr.Resolve) {
		c.word(&a.Transport)
		c.word(&a.Nexthop)
	}),
	actionKind("dial", func(c *codec, a *qmgr.Dial) {
		conn(c, &a.Conn)
		c.word(&a.Opening.Transport)
		c.word(&a.Opening.Nexthop)
		c.host(&a.Opening.Host)
		option(c, "level", levels, &a.Opening.Level)
		number(c, "in-flight", &a.Opening.InFlight)
	}),
	actionKind("hangup", func(c *codec, a *qmgr.Hangup) { conn(c, &a.Conn) }),
	actionKind("report", func(c *codec, a *qmgr.Report) { c.id(&a.ID) }),
	actionKind("selected", func(c *codec, a *qmgr.Selected) { c.text("transport", &a.Transport) }),
	actionKind("feedback", func(c *codec, a *qmgr.Feedback) { c.feedback(a) }),
	actionKind("preempted", func(c *codec, a *qmgr.Preempted) {
		c.id(&a.Current)
		c.idPair("by", &a.By)
		c.text("transport", &a.Transport)
		number(c, "level", &a.Level)
	}),
}

func (c *codec) change(m *mail.Change) {
	choice(c, changeOps, &m.Op)
	c.id(&m.ID)
	c.place(&m.Place)
	c.instant("until", &m.Due)
	c.text("reason", &m.Reason)
	c.usually("on", &m.At, c.now)
	c.outcomes(&m.Outcomes, m.At)
}

func (c *codec) note(n *qmgr.Note) {
	choice(c, noteWords, &n.Kind)
	c.idPair("id", &n.ID)
	c.text("transport", &n.Transport)
	c.text("nexthop", &n.Nexthop)
	c.address("sender", &n.Sender)
	c.instant("at", &n.At)
	c.text("text", &n.Text)
}

func (c *codec) feedback(f *qmgr.Feedback) {
	c.word(&f.Transport)
	c.word(&f.Nexthop)
	option(c, "cause", causeWords, &f.Cause)
	number(c, "limit", &f.Limit)
	number(c, "window", &f.Window)
	c.float("success", &f.Success)
	c.float("failure", &f.Failure)
	c.float("cohorts", &f.FailedCohorts)
}

func formatUint(n uint64) string { return strconv.FormatUint(n, 10) }

func (c *codec) uint64(text string) uint64 {
	n, err := strconv.ParseUint(text, 10, 64)
	if err != nil {
		c.fail("%q is not a number", text)
	}
	return n
}
