package trace

import (
	"fmt"
	"strconv"
	"strings"

	"github.com/posthaste-mta/posthaste/mail"
	"github.com/posthaste-mta/posthaste/qmgr"
)

// Sentence returns a line in words, without its instant. A type without a sentence
// here is returned in the words of the line itself.
func (f Format) Sentence(l Line) string {
	text := ""
	if l.Event != nil {
		text = f.eventSentence(l.Event)
	} else {
		text = f.actionSentence(l.Action)
	}
	if text != "" {
		return text
	}
	c := codec{format: f, now: l.Now, writing: true}
	c.line(&l)
	return strings.TrimSpace(string(c.out))
}

func (f Format) eventSentence(ev qmgr.Event) string {
	switch ev := ev.(type) {
	case qmgr.Arrived:
		return f.brought("arrived", ev.Arrival.Envelope, ev.Arrival.Batch)
	case qmgr.Opened:
		return f.brought("been opened", ev.Envelope, ev.Batch) + ", in " + ev.Place.Area.String()
	case qmgr.Found:
		return f.foundSentence(ev)
	case qmgr.Broken:
		return fmt.Sprintf("%s could not be read (%s): %s", f.name(ev.ID), wordFor(troubleWords, ev.Why), ev.Text)
	case qmgr.Recipients:
		return f.name(ev.ID) + " has further recipients: " + addresses(ev.Batch.Recipients)
	case qmgr.Routed:
		return f.name(ev.ID) + " goes to " + routesSentence(ev.Routes)
	case qmgr.LookedUp:
		return fmt.Sprintf("lookup %d has ended: %s", ev.Lookup, routesSentence([]mail.Route{ev.Route}))
	case qmgr.Verify:
		if ev.Recipient != "" {
			return fmt.Sprintf("would %s by %s take mail for <%s>? asks %v", ev.Nexthop, ev.Transport, ev.Recipient, ev.Client)
		}
		return fmt.Sprintf("can mail be sent to %s by %s? asks %v", ev.Nexthop, ev.Transport, ev.Client)
	case qmgr.Delivered:
		return fmt.Sprintf("attempt %d has ended: %s", ev.Entry, resultSentence(ev.Result))
	case qmgr.Changed:
		where := "in " + wordFor(areas, ev.Changed.Place.Area)
		if ev.Changed.Place.Area == mail.AreaNone {
			where = "gone"
		}
		return f.name(ev.Changed.ID) + " is " + where + ", durably"
	case qmgr.Reported:
		return f.name(ev.ID) + " has been reported on"
	case qmgr.Hosts:
		return hostsSentence(ev)
	case qmgr.Dialed:
		if !ev.Opened.Reply.IsZero() {
			return fmt.Sprintf("there is no connection %d: %s", ev.Conn, ev.Opened.Reply)
		}
		return fmt.Sprintf("connection %d is ready, %s", ev.Conn, ev.Opened.Level)
	case qmgr.Closed:
		return strings.TrimSpace(fmt.Sprintf("connection %d has ended (%s) %s", ev.Conn, wordFor(closeReasons, ev.Closing.Why), ev.Closing.Reply))
	case qmgr.Wake:
		return "time has passed"
	}
	return ""
}

func (f Format) actionSentence(a qmgr.Action) string {
	switch a := a.(type) {
	case qmgr.Fetch:
		return fmt.Sprintf("scan %s%s, at most %d messages", wordFor(scanWords, a.Scan), ofBucket(a.From.Bucket), a.Max)
	case qmgr.Open:
		return "open " + f.name(a.ID)
	case qmgr.Read:
		return fmt.Sprintf("read further recipients of %s, from number %d on", f.name(a.ID), a.From)
	case qmgr.Route:
		return "where does " + f.name(a.ID) + " go? " + addresses(a.Recipients)
	case qmgr.Lookup:
		return fmt.Sprintf("lookup %d: where is %s, by %s?", a.Lookup, a.Nexthop, a.Transport)
	case qmgr.Verified:
		if a.Reply.IsZero() {
			return fmt.Sprintf("verification %d: it can", a.Verification)
		}
		return fmt.Sprintf("verification %d: %v", a.Verification, a.Reply)
	case qmgr.Deliver:
		return f.deliverySentence(a.Entry, a.Delivery)
	case qmgr.Send:
		return f.deliverySentence(a.Entry, a.Delivery) + ", over connection " + formatUint(uint64(a.Conn))
	case qmgr.Change:
		return f.changeSentence(a.Change)
	case qmgr.Report:
		return "report on " + f.name(a.ID)
	case qmgr.Resolve:
		return fmt.Sprintf("which hosts serve %s, by %s?", a.Nexthop, a.Transport)
	case qmgr.Dial:
		return fmt.Sprintf("connection %d: dial %s for %s, by %s", a.Conn, hostName(a.Opening.Host), a.Opening.Nexthop, a.Opening.Transport)
	case qmgr.Hangup:
		return fmt.Sprintf("connection %d: hang up", a.Conn)
	case qmgr.Note:
		return f.noteSentence(a)
	}
	return ""
}

func (f Format) name(id mail.QueueID) string {
	c := codec{format: f}
	return c.idText(id)
}

func (f Format) brought(how string, e mail.Envelope, b mail.RecipientBatch) string {
	text := fmt.Sprintf("%s has %s from <%s>, %d octets, to %s", f.name(e.ID), how, e.Sender, e.Size, addresses(b.Recipients))
	if b.More {
		text += " …"
	}
	return text
}

func (f Format) foundSentence(ev qmgr.Found) string {
	names := make([]string, 0, shown+1)
	for i, k := range ev.Found.Cursors {
		if i == shown {
			names = append(names, "and "+strconv.Itoa(len(ev.Found.Cursors)-shown)+" more")
			break
		}
		names = append(names, f.name(k.ID))
	}
	text := "nothing"
	if len(names) > 0 {
		text = strings.Join(names, " ")
	}
	if ev.Found.More {
		text += ", and there is more"
	}
	if due := ev.Found.NextDue; due != 0 && due != mail.Never {
		text += ", the next is due at " + f.instant(due)
	}
	if n := len(ev.Found.Buckets); n > 0 {
		text += fmt.Sprintf(", %d buckets follow", n)
	}
	return "in " + wordFor(scanWords, ev.Scan) + ofBucket(ev.Found.Next.Bucket) + ": " + text
}

func ofBucket(b mail.Bucket) string {
	if b == 0 {
		return ""
	}
	return fmt.Sprintf(" bucket %d", b)
}

// shown is how many of a list a sentence names.
const shown = 3

func addresses(list []mail.Recipient) string {
	var b strings.Builder
	for i := range list {
		if i == shown {
			fmt.Fprintf(&b, " and %d more", len(list)-shown)
			break
		}
		if i > 0 {
			b.WriteByte(' ')
		}
		b.WriteString(string(list[i].Address))
	}
	return b.String()
}

// routesSentence names each place once.
func routesSentence(routes []mail.Route) string {
	var b strings.Builder
	places := 0
	for i, r := range routes {
		if i > 0 && routes[i-1] == r {
			continue
		}
		if places++; places > shown {
			b.WriteString(" …")
			break
		}
		if places > 1 {
			b.WriteString(", ")
		}
		switch {
		case !r.Reply.IsZero():
			b.WriteString("nowhere: " + r.Reply.String())
			continue
		case r.Site != "":
			b.WriteString(r.Site + ", for ")
		}
		b.WriteString(r.Nexthop + " by " + r.Transport)
		if r.NeedsLookup {
			b.WriteString(" once it is looked up")
		}
	}
	return b.String()
}

func (f Format) deliverySentence(entry qmgr.EntryID, d mail.Delivery) string {
	if d.Callout {
		return fmt.Sprintf("attempt %d: would %s by %s take mail for %s?", entry, d.Nexthop, d.Transport, addresses(d.Recipients))
	}
	return fmt.Sprintf("attempt %d: deliver %s by %s at %s to %s", entry, f.name(d.Envelope.ID), d.Transport, d.Nexthop, addresses(d.Recipients))
}

// resultSentence counts outcomes, and shows the first reply that is not good.
func resultSentence(r mail.DeliveryResult) string {
	var parts []string
	for result := range results {
		n := 0
		for i := range r.Outcomes {
			if int(r.Outcomes[i].Result) == result {
				n++
			}
		}
		if n > 0 {
			parts = append(parts, fmt.Sprintf("%d %s", n, results[result]))
		}
	}
	if r.Crashed {
		parts = append(parts, "crashed")
	}
	if !r.Site.IsZero() {
		return strings.Join(append(parts, "the site failed: "+r.Site.String()), ", ")
	}
	for i := range r.Outcomes {
		if o := &r.Outcomes[i]; o.Result != mail.Delivered && !o.Reply.IsZero() {
			return strings.Join(append(parts, o.Reply.String()), ", ")
		}
	}
	return strings.Join(parts, ", ")
}

func (f Format) changeSentence(c mail.Change) string {
	text := wordFor(changeOps, c.Op) + " " + f.name(c.ID)
	if c.Due != 0 {
		text += " until " + f.instant(c.Due)
	}
	if n := len(c.Outcomes); n > 0 {
		text += fmt.Sprintf(", outcomes of %d", n)
	}
	for i := range c.Reroutes {
		text += ", " + rerouteSentence(&c.Reroutes[i])
	}
	for i := range c.Splits {
		how := "moved into"
		if c.Splits[i].Requeue != nil {
			how = "requeued as"
		}
		text += fmt.Sprintf(", %d %s %s", len(c.Splits[i].Recipients), how, f.name(c.Splits[i].Into))
	}
	if n := len(c.Except); n > 0 {
		text += fmt.Sprintf(", except %d under way", n)
	}
	if c.Reason != "" {
		text += ": " + c.Reason
	}
	return text
}

func rerouteSentence(r *mail.Reroute) string {
	if r.To == nil {
		return fmt.Sprintf("%d go again where the configuration says", len(r.Recipients))
	}
	return fmt.Sprintf("%d go to %s", len(r.Recipients), r.To.Target)
}

// hostName is a host as replies name it.
func hostName(h mail.Host) string {
	return h.Name + "[" + h.Addr.Addr().String() + "]:" + strconv.Itoa(int(h.Addr.Port()))
}

func hostsSentence(ev qmgr.Hosts) string {
	if !ev.Reply.IsZero() {
		return fmt.Sprintf("nothing serves %s, by %s: %s", ev.Nexthop, ev.Transport, ev.Reply)
	}
	var names []string
	for _, tier := range ev.Set.Tiers {
		for _, h := range tier {
			names = append(names, hostName(h))
		}
	}
	if len(names) > shown {
		names = append(names[:shown], "…")
	}
	return fmt.Sprintf("%s is served, by %s, by %s", ev.Nexthop, ev.Transport, strings.Join(names, " "))
}

func (f Format) noteSentence(n qmgr.Note) string {
	text := "noted: "
	if n.ID != 0 {
		text += f.name(n.ID) + " "
	}
	if n.Nexthop != "" {
		text += n.Nexthop + " by " + n.Transport + " "
	}
	text += wordFor(noteWords, n.Kind)
	if n.At != 0 {
		text += " until " + f.instant(n.At)
	}
	if n.Text != "" {
		text += ": " + n.Text
	}
	return text
}
