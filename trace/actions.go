package trace

import (
	"strconv"

	"github.com/posthaste-mta/posthaste/mail"
	"github.com/posthaste-mta/posthaste/qmgr"
)

var (
	noteWords  = wordsUpTo(qmgr.NoteResumed)
	causeWords = wordsUpTo(qmgr.CauseRevival)
)

// actionKinds has the most frequent ones first.
var actionKinds = []kind[qmgr.Action]{
	kindOf[qmgr.Action]("deliver", func(c *codec, a *qmgr.Deliver) {
		c.delivery(&a.Entry, &a.Delivery)
	}),
	kindOf[qmgr.Action]("send", func(c *codec, a *qmgr.Send) {
		c.conn(&a.Conn)
		c.delivery(&a.Entry, &a.Delivery)
	}),
	kindOf[qmgr.Action]("change", func(c *codec, a *qmgr.Change) { c.change(&a.Change) }),
	kindOf[qmgr.Action]("route", func(c *codec, a *qmgr.Route) {
		c.id("id", &a.ID)
		c.recipients(&a.Recipients)
		c.address("sender", &a.Sender)
		option(c, "tls", tlsWords, &a.TLS)
	}),
	kindOf[qmgr.Action]("lookup", func(c *codec, a *qmgr.Lookup) {
		c.lookup(&a.Lookup)
		c.idPair("for", &a.For)
		c.queue(&a.Transport, &a.Nexthop)
		c.text("credential", &a.Credential)
		option(c, "tls", tlsWords, &a.TLS)
	}),
	kindOf[qmgr.Action]("verified", func(c *codec, a *qmgr.Verified) {
		serial(c, "verification", "", &a.Verification)
		c.reply("reply", &a.Reply)
	}),
	kindOf[qmgr.Action]("note", func(c *codec, a *qmgr.Note) { c.note(a) }),
	kindOf[qmgr.Action]("fetch", func(c *codec, a *qmgr.Fetch) {
		choice(c, "scan", scanWords, &a.Scan)
		number(c, "bucket", &a.From.Bucket)
		c.instant("from-at", &a.From.Due)
		c.idPair("from", &a.From.ID)
		number(c, "max", &a.Max)
	}),
	kindOf[qmgr.Action]("open", func(c *codec, a *qmgr.Open) {
		c.id("id", &a.ID)
		number(c, "max", &a.Max)
	}),
	kindOf[qmgr.Action]("read", func(c *codec, a *qmgr.Read) {
		c.id("id", &a.ID)
		number(c, "from", &a.From)
		number(c, "max", &a.Max)
	}),
	kindOf[qmgr.Action]("resolve", func(c *codec, a *qmgr.Resolve) {
		c.queue(&a.Transport, &a.Nexthop)
	}),
	kindOf[qmgr.Action]("dial", func(c *codec, a *qmgr.Dial) {
		c.conn(&a.Conn)
		c.queue(&a.Opening.Transport, &a.Opening.Nexthop)
		c.host(&a.Opening.Host)
		option(c, "level", levels, &a.Opening.Level)
		number(c, "in-flight", &a.Opening.InFlight)
		c.flag("probe", &a.Opening.Probe)
		c.text("source", &a.Opening.Source)
		c.text("security", &a.Opening.Security)
	}),
	kindOf[qmgr.Action]("hangup", func(c *codec, a *qmgr.Hangup) { c.conn(&a.Conn) }),
	kindOf[qmgr.Action]("report", func(c *codec, a *qmgr.Report) { c.id("id", &a.ID) }),
	kindOf[qmgr.Action]("selected", func(c *codec, a *qmgr.Selected) { c.text("transport", &a.Transport) }),
	kindOf[qmgr.Action]("feedback", func(c *codec, a *qmgr.Feedback) { c.feedback(a) }),
	kindOf[qmgr.Action]("preempted", func(c *codec, a *qmgr.Preempted) {
		c.id("current", &a.Current)
		c.idPair("by", &a.By)
		c.text("transport", &a.Transport)
		number(c, "level", &a.Level)
	}),
}

func (c *codec) delivery(entry *qmgr.EntryID, d *mail.Delivery) {
	c.entry(entry)
	c.id("id", &d.Envelope.ID)
	c.queue(&d.Transport, &d.Nexthop)
	c.text("source", &d.Source)
	c.text("security", &d.Security)
	c.flag("callout", &d.Callout)
	c.text("origin", &d.Origin.Transport)
	c.text("origin-nexthop", &d.Origin.Nexthop)
	c.text("origin-security", &d.Origin.Security)
	c.reply("said", &d.Said)
	c.recipients(&d.Recipients)
}

// queue is the name of a transport and that of a nexthop.
func (c *codec) queue(transport, nexthop *string) {
	c.word("transport", transport)
	c.word("nexthop", nexthop)
}

func (c *codec) change(m *mail.Change) {
	choice(c, "op", changeOps, &m.Op)
	c.id("id", &m.ID)
	c.place(&m.Place)
	c.instant("until", &m.Due)
	c.text("reason", &m.Reason)
	c.usually("on", &m.At, c.now)
	c.outcomes(&m.Outcomes, m.At)
	list(c, "reroutes", []string{rerouteTo, rerouteClear}, &m.Reroutes, func(r *mail.Reroute, _ int) { c.reroute(r) })
	list(c, "splits", []string{"into"}, &m.Splits, func(s *mail.Split, _ int) { c.split(s) })
	c.indexes("except", "except", &m.Except)
}

func (c *codec) split(s *mail.Split) {
	c.beginID("into", &s.Into)
	c.indexes("moved", "recipient", &s.Recipients)
	c.text("why", &s.Reason)
	c.requeue(&s.Requeue)
}

// beginID is the ID with which an element of a list begins.
func (c *codec) beginID(key string, v *mail.QueueID) {
	text := ""
	if c.writing {
		text = v.String()
	}
	c.always(key, &text)
	if !c.writing {
		id, err := mail.ParseQueueID(text)
		if err != nil {
			c.fail("%s %q: %v", key, text, err)
		}
		*v = id
	}
}

// requeue is what is decided anew, if anything is: it begins with the sender.
func (c *codec) requeue(v **mail.Requeue) {
	switch {
	case c.writing && *v == nil:
		return
	case c.writing:
		c.put("requeue", string((*v).Sender))
	case c.next("requeue"):
		*v = &mail.Requeue{Sender: mail.Address(c.take())}
	default:
		return
	}
	r := *v
	c.text("class", &r.Flow.Class)
	c.text("tenant", &r.Flow.Tenant)
	c.text("flow", &r.Flow.Flow)
	c.flag("keep-route", &r.KeepRoute)
	list(c, "instead", []string{"instead-of"}, &r.To, func(one *mail.Replacement, _ int) {
		if c.writing {
			c.putNumber("instead-of", int64(one.Of))
		} else {
			one.Of = c.uint32(c.take())
		}
		c.to(&one.Address)
		c.text("orcpt", &one.ORcpt)
		value(c, "notify", &one.Notify, mail.Notify.String, parseNotify)
	})
}

// Keys with which a reroute begins: an operator's route, or that there is none any more.
const (
	rerouteTo    = "reroute"
	rerouteClear = "reroute-clear"
)

func (c *codec) reroute(r *mail.Reroute) {
	switch {
	case c.writing && r.To == nil:
		c.put(rerouteClear, "yes")
	case c.writing:
		c.put(rerouteTo, r.To.Target)
	case c.next(rerouteClear):
		c.take()
	case c.next(rerouteTo):
		r.To = &mail.OrderedRoute{Target: c.take()}
	default:
		c.fail("where recipients go is missing")
	}
	c.orderedBy(r.To)
	c.indexes("rerouted", "of", &r.Recipients)
}

// orderedBy is what an operator's route has beside where it leads.
func (c *codec) orderedBy(to *mail.OrderedRoute) {
	if to == nil {
		return
	}
	c.text("ordered-by", &to.By)
	c.text("ordered-because", &to.Reason)
	c.instant("ordered-at", &to.At)
}

// ordered is an operator's route, if there is one.
func (c *codec) ordered(v **mail.OrderedRoute) {
	switch {
	case c.writing && *v == nil:
		return
	case c.writing:
		c.put("ordered", (*v).Target)
	case c.next("ordered"):
		*v = &mail.OrderedRoute{Target: c.take()}
	default:
		return
	}
	c.orderedBy(*v)
}

// indexes is a list of recipients' indexes. The key must not be that of a list before it.
func (c *codec) indexes(name, key string, v *[]uint32) {
	list(c, name, []string{key}, v, func(index *uint32, _ int) {
		if c.writing {
			c.putNumber(key, int64(*index))
		} else {
			*index = c.uint32(c.take())
		}
	})
}

func (c *codec) note(n *qmgr.Note) {
	choice(c, "note", noteWords, &n.Kind)
	c.idPair("id", &n.ID)
	c.text("transport", &n.Transport)
	c.text("nexthop", &n.Nexthop)
	c.text("domain", &n.Domain)
	c.text("source", &n.Source)
	c.text("security", &n.Security)
	c.address("sender", &n.Sender)
	c.instant("at", &n.At)
	c.text("text", &n.Text)
}

func (c *codec) feedback(f *qmgr.Feedback) {
	c.queue(&f.Transport, &f.Nexthop)
	c.text("source", &f.Source)
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
