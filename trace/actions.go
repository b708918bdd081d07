package trace

import (
	"strconv"

	"github.com/posthaste-mta/posthaste/mail"
	"github.com/posthaste-mta/posthaste/qmgr"
)

var (
	noteWords  = []string{"", "expired", "deferred", "removed", "held", "dropped", "corrupt", "dead", "alive", "duplicate", "unknown", "mixed"}
	causeWords = []string{"", "success", "failure", "revival"}
)

// actionKinds has the most frequent ones first.
var actionKinds = []kind[qmgr.Action]{
	actionKind("deliver", func(c *codec, a *qmgr.Deliver) {
		c.entry(&a.Entry)
		c.id("id", &a.Delivery.Envelope.ID)
		c.word("transport", &a.Delivery.Transport)
		c.word("nexthop", &a.Delivery.Nexthop)
		c.flag("callout", &a.Delivery.Callout)
		c.origin(&a.Delivery.Origin)
		c.reply("said", &a.Delivery.Said)
		c.recipients(&a.Delivery.Recipients)
	}),
	actionKind("send", func(c *codec, a *qmgr.Send) {
		conn(c, &a.Conn)
		c.entry(&a.Entry)
		c.id("id", &a.Delivery.Envelope.ID)
		c.word("transport", &a.Delivery.Transport)
		c.word("nexthop", &a.Delivery.Nexthop)
		c.flag("callout", &a.Delivery.Callout)
		c.origin(&a.Delivery.Origin)
		c.reply("said", &a.Delivery.Said)
		c.recipients(&a.Delivery.Recipients)
	}),
	actionKind("change", func(c *codec, a *qmgr.Change) { c.change(&a.Change) }),
	actionKind("route", func(c *codec, a *qmgr.Route) {
		c.id("id", &a.ID)
		c.recipients(&a.Recipients)
	}),
	actionKind("lookup", func(c *codec, a *qmgr.Lookup) {
		lookup(c, &a.Lookup)
		c.idPair("for", &a.For)
		c.word("transport", &a.Transport)
		c.word("nexthop", &a.Nexthop)
	}),
	actionKind("verified", func(c *codec, a *qmgr.Verified) {
		verification(c, &a.Verification)
		c.reply("reply", &a.Reply)
	}),
	actionKind("note", func(c *codec, a *qmgr.Note) { c.note(a) }),
	actionKind("fetch", func(c *codec, a *qmgr.Fetch) {
		choice(c, "scan", scanWords, &a.Scan)
		c.instant("from-at", &a.From.Due)
		c.idPair("from", &a.From.ID)
		number(c, "max", &a.Max)
	}),
	actionKind("open", func(c *codec, a *qmgr.Open) {
		c.id("id", &a.ID)
		number(c, "max", &a.Max)
	}),
	actionKind("read", func(c *codec, a *qmgr.Read) {
		c.id("id", &a.ID)
		number(c, "from", &a.From)
		number(c, "max", &a.Max)
	}),
	actionKind("resolve", func(c *codec, a *qmgr.Resolve) {
		c.word("transport", &a.Transport)
		c.word("nexthop", &a.Nexthop)
	}),
	actionKind("dial", func(c *codec, a *qmgr.Dial) {
		conn(c, &a.Conn)
		c.word("transport", &a.Opening.Transport)
		c.word("nexthop", &a.Opening.Nexthop)
		c.host(&a.Opening.Host)
		option(c, "level", levels, &a.Opening.Level)
		number(c, "in-flight", &a.Opening.InFlight)
		c.flag("probe", &a.Opening.Probe)
	}),
	actionKind("hangup", func(c *codec, a *qmgr.Hangup) { conn(c, &a.Conn) }),
	actionKind("report", func(c *codec, a *qmgr.Report) { c.id("id", &a.ID) }),
	actionKind("selected", func(c *codec, a *qmgr.Selected) { c.text("transport", &a.Transport) }),
	actionKind("feedback", func(c *codec, a *qmgr.Feedback) { c.feedback(a) }),
	actionKind("preempted", func(c *codec, a *qmgr.Preempted) {
		c.id("current", &a.Current)
		c.idPair("by", &a.By)
		c.text("transport", &a.Transport)
		number(c, "level", &a.Level)
	}),
}

func (c *codec) origin(o *mail.Origin) {
	c.text("origin", &o.Transport)
	c.text("origin-nexthop", &o.Nexthop)
}

func (c *codec) change(m *mail.Change) {
	choice(c, "op", changeOps, &m.Op)
	c.id("id", &m.ID)
	c.place(&m.Place)
	c.instant("until", &m.Due)
	c.text("reason", &m.Reason)
	c.usually("on", &m.At, c.now)
	c.outcomes(&m.Outcomes, m.At)
	list(c, "splits", []string{"into"}, &m.Splits, func(s *mail.Split, _ int) { c.split(s) })
}

func (c *codec) split(s *mail.Split) {
	into := ""
	if c.writing {
		into = s.Into.String()
	}
	c.always("into", &into)
	if !c.writing {
		id, err := mail.ParseQueueID(into)
		if err != nil {
			c.fail("into %q: %v", into, err)
		}
		s.Into = id
	}
	list(c, "moved", []string{"recipient"}, &s.Recipients, func(index *uint32, _ int) {
		if c.writing {
			c.putNumber("recipient", int64(*index))
		} else {
			*index = c.uint32(c.take())
		}
	})
	c.text("why", &s.Reason)
}

func (c *codec) note(n *qmgr.Note) {
	choice(c, "note", noteWords, &n.Kind)
	c.idPair("id", &n.ID)
	c.text("transport", &n.Transport)
	c.text("nexthop", &n.Nexthop)
	c.address("sender", &n.Sender)
	c.instant("at", &n.At)
	c.text("text", &n.Text)
}

func (c *codec) feedback(f *qmgr.Feedback) {
	c.word("transport", &f.Transport)
	c.word("nexthop", &f.Nexthop)
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
