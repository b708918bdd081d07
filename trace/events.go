package trace

import (
	"maps"
	"net/netip"
	"slices"
	"strconv"
	"strings"

	"github.com/posthaste-mta/posthaste/mail"
	"github.com/posthaste-mta/posthaste/qmgr"
)

var (
	scanWords    = []string{"incoming", "deferred", "flush"}
	levels       = []string{"lockstep", "group", "overlap", "stream"}
	closeReasons = []string{"asked", "idle", "busy", "lost", "step", "wrong"}
	troubleWords = []string{"", "gone", "corrupt", "temporary"}
)

// An eventCodec knows one kind of event: it tells whether it is ev's kind, and
// writes or reads its fields.
type eventCodec struct {
	name  string
	visit func(*codec, *qmgr.Event) bool
}

// event writes or reads an event.
func (c *codec) event(ev *qmgr.Event) {
	if !c.writing {
		name := ""
		c.word(&name)
		for _, k := range eventCodecs {
			if k.name == name {
				k.visit(c, ev)
				return
			}
		}
		c.fail("unknown event %q", name)
		return
	}
	start := len(c.out)
	for _, k := range eventCodecs {
		c.out = append(append(c.out[:start], ' '), k.name...)
		if k.visit(c, ev) {
			return
		}
	}
	c.out = append(c.out[:start], " unknown"...)
}

// kind makes a codec for one type out of a function that visits its fields.
func kind[E qmgr.Event](name string, fields func(*codec, *E)) eventCodec {
	return eventCodec{name, func(c *codec, ev *qmgr.Event) bool {
		var e E
		if c.writing {
			var is bool
			if e, is = (*ev).(E); !is {
				return false
			}
		}
		fields(c, &e)
		*ev = e
		return true
	}}
}

var eventCodecs = []eventCodec{
	kind("arrived", func(c *codec, e *qmgr.Arrived) {
		c.envelope(&e.Arrival.Envelope)
		c.place(&e.Arrival.Place)
		c.batch(&e.Arrival.Batch)
	}),
	kind("found", func(c *codec, e *qmgr.Found) {
		choice(c, scanWords, &e.Scan)
		c.found(&e.Found)
	}),
	kind("opened", func(c *codec, e *qmgr.Opened) {
		c.envelope(&e.Envelope)
		c.place(&e.Place)
		c.batch(&e.Batch)
	}),
	kind("broken", func(c *codec, e *qmgr.Broken) {
		c.id(&e.ID)
		option(c, "why", troubleWords, &e.Why)
		c.text("text", &e.Text)
	}),
	kind("recipients", func(c *codec, e *qmgr.Recipients) {
		c.id(&e.ID)
		c.batch(&e.Batch)
	}),
	kind("routed", func(c *codec, e *qmgr.Routed) {
		c.id(&e.ID)
		c.routes(&e.Routes)
	}),
	kind("looked-up", func(c *codec, e *qmgr.LookedUp) {
		lookup(c, &e.Lookup)
		c.route(&e.Route)
	}),
	kind("delivered", func(c *codec, e *qmgr.Delivered) {
		c.entry(&e.Entry)
		c.result(&e.Result)
	}),
	kind("hosts", func(c *codec, e *qmgr.Hosts) {
		c.word(&e.Transport)
		c.word(&e.Nexthop)
		c.instant("until", &e.Set.Until)
		c.reply("reply", &e.Reply)
		c.tiers(&e.Set.Tiers)
	}),
	kind("dialed", func(c *codec, e *qmgr.Dialed) {
		conn(c, &e.Conn)
		option(c, "level", levels, &e.Opened.Level)
		number(c, "mails", &e.Opened.Mails)
		c.duration("rtt", &e.Opened.RTT)
		c.duration("connect", &e.Opened.Connect)
		c.reply("reply", &e.Opened.Reply)
	}),
	kind("closed", func(c *codec, e *qmgr.Closed) {
		conn(c, &e.Conn)
		choice(c, closeReasons, &e.Closing.Why)
		option(c, "level", levels, &e.Closing.Level)
		c.reply("reply", &e.Closing.Reply)
	}),
	kind("changed", func(c *codec, e *qmgr.Changed) {
		c.id(&e.Changed.ID)
		c.place(&e.Changed.Place)
		c.flag("reports", &e.Changed.Reports)
	}),
	kind("reported", func(c *codec, e *qmgr.Reported) { c.id(&e.ID) }),
	kind("wake", func(*codec, *qmgr.Wake) {}),
	kind("hold", func(c *codec, e *qmgr.Hold) {
		c.text("reason", &e.Reason)
		c.ids(&e.IDs)
	}),
	kind("release", func(c *codec, e *qmgr.Release) { c.ids(&e.IDs) }),
	kind("drop", func(c *codec, e *qmgr.Drop) { c.ids(&e.IDs) }),
	kind("retry", func(c *codec, e *qmgr.Retry) { c.ids(&e.IDs) }),
	kind("retry-all", func(*codec, *qmgr.RetryAll) {}),
	kind("agent-ready", func(c *codec, e *qmgr.AgentReady) { c.word(&e.Transport) }),
	kind("select-transport", func(c *codec, e *qmgr.SelectTransport) { c.pending(e) }),
	kind("configure", func(c *codec, e *qmgr.Configure) { c.config(&e.Config) }),
	kind("halt", func(*codec, *qmgr.Halt) {}),
}

func (c *codec) found(f *mail.Found) {
	list(c, []string{"at", "id"}, &f.Cursors, func(k *mail.Cursor, _ int) {
		c.instant("at", &k.Due)
		if c.writing {
			c.put("id", c.idText(k.ID))
		} else if c.next("id") {
			k.ID = c.parseID(c.take())
		} else {
			c.fail("a message is missing")
		}
	})
	c.instant("next-at", &f.Next.Due)
	c.idPair("next", &f.Next.ID)
	c.flag("more", &f.More)
	c.instant("due", &f.NextDue)
}

// entry is the number of an attempt.
func (c *codec) entry(v *qmgr.EntryID) {
	text := formatUint(uint64(*v))
	c.word(&text)
	if !c.writing && c.err == nil {
		*v = qmgr.EntryID(c.uint64(text))
	}
}

// conn is the number of a connection, with a letter that tells it from an entry.
func conn(c *codec, v *qmgr.ConnID) {
	text := "c" + formatUint(uint64(*v))
	c.word(&text)
	if c.writing || c.err != nil {
		return
	}
	digits, ok := strings.CutPrefix(text, "c")
	if !ok {
		c.fail("%q is not a connection", text)
		return
	}
	*v = qmgr.ConnID(c.uint64(digits))
}

// tiers is a list of tiers, each a list of hosts behind a pair that says how many
// there are.
func (c *codec) tiers(v *[][]mail.Host) {
	list(c, []string{"tier"}, v, func(tier *[]mail.Host, _ int) {
		n := len(*tier)
		if c.writing {
			c.put("tier", strconv.Itoa(n))
		} else {
			n = int(c.uint32(c.take()))
		}
		for i := 0; i < n && c.err == nil; i++ {
			if !c.writing {
				*tier = append(*tier, mail.Host{})
			}
			c.host(&(*tier)[i])
		}
	})
}

// host is an address, then its name and preference.
func (c *codec) host(h *mail.Host) {
	text := h.Addr.String()
	c.word(&text)
	if !c.writing && c.err == nil {
		var err error
		if h.Addr, err = netip.ParseAddrPort(text); err != nil {
			c.fail("host %q: %w", text, err)
		}
	}
	c.text("name", &h.Name)
	number(c, "preference", &h.Preference)
}

func (c *codec) routes(v *[]mail.Route) {
	list(c, []string{"via"}, v, func(r *mail.Route, _ int) { c.route(r) })
}

// route begins with a pair that is always there, as it begins a list's element.
func (c *codec) route(r *mail.Route) {
	switch {
	case c.writing:
		c.put("via", r.Transport)
	case c.next("via"):
		r.Transport = c.take()
	default:
		c.fail("a route is missing")
	}
	c.text("nexthop", &r.Nexthop)
	c.text("site", &r.Site)
	c.flag("needs-lookup", &r.NeedsLookup)
	c.reply("reply", &r.Reply)
}

// lookup is the number of a look-up.
func lookup(c *codec, v *qmgr.LookupID) {
	text := formatUint(uint64(*v))
	c.word(&text)
	if !c.writing && c.err == nil {
		*v = qmgr.LookupID(c.uint64(text))
	}
}

func (c *codec) result(r *mail.DeliveryResult) {
	c.flag("crashed", &r.Crashed)
	c.reply("site", &r.Site)
	c.text("host", &r.Host)
	c.duration("connect", &r.Connect)
	c.duration("send", &r.Send)
	number(c, "reused", &r.Reused)
	c.outcomes(&r.Outcomes, 0)
}

func (c *codec) ids(v *[]mail.QueueID) {
	list(c, []string{""}, v, func(id *mail.QueueID, _ int) { c.id(id) })
}

func (c *codec) pending(e *qmgr.SelectTransport) {
	names := slices.Sorted(maps.Keys(e.Pending))
	list(c, []string{"transport"}, &names, func(name *string, _ int) {
		n := 0
		if c.writing {
			n = e.Pending[*name]
			c.put("transport", *name)
		} else {
			*name = c.take()
		}
		number(c, "pending", &n)
		if !c.writing {
			if e.Pending == nil {
				e.Pending = make(map[string]int)
			}
			e.Pending[*name] = n
		}
	})
}
