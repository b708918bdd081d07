package trace

import (
	"encoding/hex"
	"maps"
	"net/netip"
	"slices"
	"strconv"
	"strings"

	"github.com/posthaste-mta/posthaste/mail"
	"github.com/posthaste-mta/posthaste/qmgr"
	"github.com/posthaste-mta/posthaste/qmgr/measure"
)

var (
	scanWords    = wordsUpTo(qmgr.ScanHeld)
	levels       = wordsUpTo(mail.LevelStream)
	trusts       = wordsUpTo(mail.TrustVerified)
	closeReasons = wordsUpTo(mail.CloseWrong)
	proofs       = wordsUpTo(mail.ProofExecutes)
	troubleWords = wordsUpTo(qmgr.TroubleTemporary)
	scopeWords   = wordsUpTo(measure.Destination)
)

// eventKinds has the most frequent ones first.
var eventKinds = []kind[qmgr.Event]{
	kindOf[qmgr.Event]("arrived", func(c *codec, e *qmgr.Arrived) {
		c.envelope(&e.Arrival.Envelope)
		c.place(&e.Arrival.Place)
		c.batch(&e.Arrival.Batch)
	}),
	kindOf[qmgr.Event]("found", func(c *codec, e *qmgr.Found) {
		choice(c, "scan", scanWords, &e.Scan)
		c.found(&e.Found)
	}),
	kindOf[qmgr.Event]("opened", func(c *codec, e *qmgr.Opened) {
		c.envelope(&e.Envelope)
		c.place(&e.Place)
		c.batch(&e.Batch)
	}),
	kindOf[qmgr.Event]("broken", func(c *codec, e *qmgr.Broken) {
		c.id("id", &e.ID)
		option(c, "why", troubleWords, &e.Why)
		c.text("text", &e.Text)
	}),
	kindOf[qmgr.Event]("recipients", func(c *codec, e *qmgr.Recipients) {
		c.id("id", &e.ID)
		c.batch(&e.Batch)
	}),
	kindOf[qmgr.Event]("routed", func(c *codec, e *qmgr.Routed) {
		c.id("id", &e.ID)
		c.routes(&e.Routes)
	}),
	kindOf[qmgr.Event]("looked-up", func(c *codec, e *qmgr.LookedUp) {
		c.lookup(&e.Lookup)
		c.route(&e.Route)
	}),
	kindOf[qmgr.Event]("verify", func(c *codec, e *qmgr.Verify) {
		serial(c, "verification", "", &e.Verification)
		c.queue(&e.Transport, &e.Nexthop)
		value(c, "client", &e.Client, netip.Addr.String, netip.ParseAddr)
		c.flag("routed", &e.Routed)
		c.text("site", &e.Site)
		c.text("security", &e.Security)
		c.text("credential", &e.Credential)
		c.address("recipient", &e.Recipient)
	}),
	kindOf[qmgr.Event]("delivered", func(c *codec, e *qmgr.Delivered) {
		c.entry(&e.Entry)
		c.result(&e.Result)
	}),
	kindOf[qmgr.Event]("hosts", func(c *codec, e *qmgr.Hosts) {
		c.queue(&e.Transport, &e.Nexthop)
		c.instant("until", &e.Set.Until)
		c.reply("reply", &e.Reply)
		c.tiers(&e.Set.Tiers)
	}),
	kindOf[qmgr.Event]("dialed", func(c *codec, e *qmgr.Dialed) {
		c.conn(&e.Conn)
		option(c, "level", levels, &e.Opened.Level)
		number(c, "mails", &e.Opened.Mails)
		number(c, "extensions", &e.Opened.Extensions)
		number(c, "size-max", &e.Opened.SizeMax)
		c.flag("probes", &e.Opened.Probes)
		c.duration("rtt", &e.Opened.RTT)
		c.duration("connect", &e.Opened.Connect)
		c.reply("reply", &e.Opened.Reply)
		option(c, "stage", stages, &e.Opened.Stage)
		c.flag("unavailable", &e.Opened.Unavailable)
		c.flag("unbound", &e.Opened.Unbound)
		c.flag("insecure", &e.Opened.Insecure)
		c.measure(&e.Opened.Measure)
		c.security(&e.Opened.Security)
	}),
	kindOf[qmgr.Event]("closed", func(c *codec, e *qmgr.Closed) {
		c.conn(&e.Conn)
		choice(c, "why", closeReasons, &e.Closing.Why)
		option(c, "level", levels, &e.Closing.Level)
		option(c, "proof", proofs, &e.Closing.Proof)
		c.reply("reply", &e.Closing.Reply)
		option(c, "stage", stages, &e.Closing.Stage)
		c.measure(&e.Closing.Measure)
	}),
	kindOf[qmgr.Event]("learned", func(c *codec, e *qmgr.Learned) { c.hostRecords(&e.Hosts) }),
	kindOf[qmgr.Event]("heard", func(c *codec, e *qmgr.Heard) { c.hostRecords(&e.Hosts) }),
	kindOf[qmgr.Event]("changed", func(c *codec, e *qmgr.Changed) {
		c.id("id", &e.Changed.ID)
		c.place(&e.Changed.Place)
		c.flag("reports", &e.Changed.Reports)
		list(c, "requeued", []string{"requeued"}, &e.Changed.Requeued, func(r *mail.Requeued, _ int) {
			c.beginID("requeued", &r.ID)
			c.place(&r.Place)
		})
	}),
	kindOf[qmgr.Event]("reported", func(c *codec, e *qmgr.Reported) { c.id("id", &e.ID) }),
	kindOf[qmgr.Event]("kept", func(c *codec, e *qmgr.Kept) { c.instant("due", &e.Due) }),
	kindOf[qmgr.Event]("wake", func(*codec, *qmgr.Wake) {}),
	kindOf[qmgr.Event]("warmup", func(c *codec, e *qmgr.AdjustWarmup) {
		o := &e.Order
		choice(c, "order", warmupOrders, &o.Kind)
		c.text("source", &o.Key.Source)
		c.text("site", &o.Key.Site)
		number(c, "day", &o.Day)
	}),
	kindOf[qmgr.Event]("suspend", func(c *codec, e *qmgr.Suspend) {
		option(c, "scope", scopeWords, &e.Scope)
		c.text("value", &e.Value)
		c.duration("for", &e.For)
		c.text("by", &e.By)
		c.text("reason", &e.Reason)
	}),
	kindOf[qmgr.Event]("resume", func(c *codec, e *qmgr.Resume) {
		option(c, "scope", scopeWords, &e.Scope)
		c.text("value", &e.Value)
		c.text("by", &e.By)
		c.text("reason", &e.Reason)
	}),
	kindOf[qmgr.Event]("hold", func(c *codec, e *qmgr.Hold) {
		c.text("reason", &e.Reason)
		c.ids(&e.IDs)
	}),
	kindOf[qmgr.Event]("release", func(c *codec, e *qmgr.Release) { c.ids(&e.IDs) }),
	kindOf[qmgr.Event]("drop", func(c *codec, e *qmgr.Drop) { c.ids(&e.IDs) }),
	kindOf[qmgr.Event]("settle", func(c *codec, e *qmgr.Settle) {
		c.id("id", &e.ID)
		c.outcomes(&e.Outcomes, 0)
		c.flag("last", &e.Last)
	}),
	kindOf[qmgr.Event]("split", func(c *codec, e *qmgr.Split) {
		c.id("id", &e.ID)
		c.split(&e.Split)
		c.flag("last", &e.Last)
	}),
	kindOf[qmgr.Event]("set-route", func(c *codec, e *qmgr.SetRoute) {
		c.id("id", &e.ID)
		c.reroute(&e.Reroute)
	}),
	kindOf[qmgr.Event]("retry", func(c *codec, e *qmgr.Retry) { c.ids(&e.IDs) }),
	kindOf[qmgr.Event]("retry-all", func(*codec, *qmgr.RetryAll) {}),
	kindOf[qmgr.Event]("agent-ready", func(c *codec, e *qmgr.AgentReady) { c.word("transport", &e.Transport) }),
	kindOf[qmgr.Event]("agent-unavailable", func(c *codec, e *qmgr.AgentUnavailable) {
		c.word("transport", &e.Transport)
		c.reply("reply", &e.Reply)
	}),
	kindOf[qmgr.Event]("select-transport", func(c *codec, e *qmgr.SelectTransport) { c.pending(e) }),
	kindOf[qmgr.Event]("reroute", func(*codec, *qmgr.Reroute) {}),
	kindOf[qmgr.Event]("rules", func(c *codec, e *qmgr.Rules) {
		list(c, "rules", []string{"rule"}, &e.Names, func(name *string, _ int) {
			if c.writing {
				c.put("rule", *name)
				return
			}
			*name = c.take()
		})
	}),
	kindOf[qmgr.Event]("configure", func(c *codec, e *qmgr.Configure) { c.config(&e.Config) }),
	kindOf[qmgr.Event]("halt", func(*codec, *qmgr.Halt) {}),
}

// octets reads hexadecimal digits.
func (c *codec) octets(text string) []byte {
	if text == "" {
		return nil
	}
	b, err := hex.DecodeString(text)
	if err != nil {
		c.fail("%q is not hexadecimal", text)
	}
	return b
}

func (c *codec) found(f *mail.Found) {
	list(c, "messages", []string{"at", "id"}, &f.Cursors, func(k *mail.Cursor, _ int) { c.position(k) })
	number(c, "bucket", &f.Next.Bucket)
	for i := range f.Cursors {
		f.Cursors[i].Bucket = f.Next.Bucket
	}
	list(c, "buckets", []string{"follows"}, &f.Buckets, func(k *mail.Cursor, _ int) {
		c.bucket("follows", &k.Bucket)
		c.position(k)
	})
	c.instant("next-at", &f.Next.Due)
	c.idPair("next", &f.Next.ID)
	c.flag("more", &f.More)
	c.instant("due", &f.NextDue)
}

// bucket is a bucket that begins a list's element, so it is always there.
func (c *codec) bucket(key string, v *mail.Bucket) {
	if c.writing {
		c.putNumber(key, int64(*v))
		return
	}
	number(c, key, v)
}

// position is where a message is in its bucket.
func (c *codec) position(k *mail.Cursor) {
	c.instant("at", &k.Due)
	if c.writing {
		c.put("id", c.idText(k.ID))
	} else if c.next("id") {
		k.ID = c.parseID(c.take())
	} else {
		c.fail("a message is missing")
	}
}

// serial is a number that the core or its host assigns, behind a prefix that names its kind.
func serial[T ~uint64](c *codec, name, prefix string, v *T) {
	text := prefix + formatUint(uint64(*v))
	c.word(name, &text)
	if c.writing || c.err != nil {
		return
	}
	digits, ok := strings.CutPrefix(text, prefix)
	if !ok {
		c.fail("%q is not a %s", text, name)
		return
	}
	*v = T(c.uint64(digits))
}

// entry is the number of an attempt.
func (c *codec) entry(v *qmgr.EntryID) {
	serial(c, "entry", "", v)
	if c.subject != nil {
		c.subject.Entries = append(c.subject.Entries, *v)
	}
}

// conn is the number of a connection.
func (c *codec) conn(v *qmgr.ConnID) {
	serial(c, "conn", "c", v)
	if c.subject != nil {
		c.subject.Conns = append(c.subject.Conns, *v)
	}
}

// lookup is the number of a lookup.
func (c *codec) lookup(v *qmgr.LookupID) {
	serial(c, "lookup", "", v)
	if c.subject != nil {
		c.subject.Lookups = append(c.subject.Lookups, *v)
	}
}

// tiers is a list of tiers, each a list of hosts behind a pair that says how many
// there are.
func (c *codec) tiers(v *[][]mail.Host) {
	list(c, "tiers", []string{"tier"}, v, func(tier *[]mail.Host, _ int) {
		if c.writing {
			c.put("tier", strconv.Itoa(len(*tier)))
			c.elements("hosts", len(*tier), func(i int) { c.host(&(*tier)[i]) })
			return
		}
		for n := c.uint32(c.take()); n > 0 && c.err == nil; n-- {
			*tier = append(*tier, mail.Host{})
			c.host(&(*tier)[len(*tier)-1])
		}
	})
}

// host is an address, then its name and preference.
func (c *codec) host(h *mail.Host) {
	text := h.Addr.String()
	c.word("host", &text)
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
	list(c, "routes", []string{"via"}, v, func(r *mail.Route, _ int) { c.route(r) })
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
	c.text("security", &r.Security)
	if c.subject != nil && r.Site != "" {
		c.subject.Nexthops = append(c.subject.Nexthops, r.Site) // its queue's name
	}
	c.flag("needs-lookup", &r.NeedsLookup)
	c.text("credential", &r.Credential)
	c.reply("reply", &r.Reply)
}

func (c *codec) result(r *mail.DeliveryResult) {
	c.flag("crashed", &r.Crashed)
	c.reply("site", &r.Site)
	c.reply("unavailable", &r.Unavailable)
	c.measure(&r.Measure)
	c.text("host", &r.Host)
	c.security(&r.Security)
	c.duration("connect", &r.Connect)
	c.duration("send", &r.Send)
	number(c, "reused", &r.Reused)
	c.outcomes(&r.Outcomes, 0)
}

// security is what was negotiated; nothing in plaintext.
func (c *codec) security(s *mail.Security) {
	c.text("tls", &s.Version)
	c.text("cipher", &s.Cipher)
	option(c, "trust", trusts, &s.Trust)
}

func (c *codec) ids(v *[]mail.QueueID) {
	list(c, "messages", []string{""}, v, func(id *mail.QueueID, _ int) { c.id("id", id) })
}

func (c *codec) pending(e *qmgr.SelectTransport) {
	names := slices.Sorted(maps.Keys(e.Pending))
	list(c, "transports", []string{"transport"}, &names, func(name *string, _ int) {
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
