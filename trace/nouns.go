package trace

import (
	"encoding/hex"
	"fmt"
	"net/netip"
	"strconv"
	"strings"

	"github.com/posthaste-mta/posthaste/mail"
)

// wordsUpTo returns the words for the values of an enumeration, as its String method
// prints them: trace files have these.
func wordsUpTo[T interface {
	~uint8
	String() string
}](last T) (words []string) {
	for v := range last + 1 {
		words = append(words, v.String())
	}
	return words
}

var (
	areas     = wordsUpTo(mail.AreaCorrupt)
	retWords  = wordsUpTo(mail.RetHeaders)
	tlsWords  = wordsUpTo(mail.TLSWanted)
	byWords   = wordsUpTo(mail.ByReturn)
	bodyWords = []string{"7BIT", "8BITMIME"}
	results   = wordsUpTo(mail.Moved)
	reports   = wordsUpTo(mail.ReportRelayed)
	stages    = wordsUpTo(mail.StageContent)
	changeOps = wordsUpTo(mail.ChangeLate)
)

func (c *codec) address(key string, v *mail.Address) { c.text(key, (*string)(v)) }

func (c *codec) envelope(e *mail.Envelope) {
	c.id("id", &e.ID)
	c.address("from", &e.Sender)
	c.text("envid", &e.EnvID)
	option(c, "ret", retWords, &e.Ret)
	option(c, "body", bodyWords, &e.Body)
	c.flag("utf8", &e.SMTPUTF8)
	number(c, "priority", &e.Priority)
	option(c, "tls", tlsWords, &e.TLS)
	c.instant("release", &e.Release)
	value(c, "verp", &e.VERP, mail.VERP.String, mail.ParseVERP)
	option(c, "by", byWords, &e.By.Mode)
	c.instant("deadline", &e.By.At)
	c.flag("trace", &e.By.Trace)
	number(c, "size", &e.Size)
	number(c, "rcpts", &e.Recipients)
	c.instant("arrived", &e.Arrived)
	value(c, "client", &e.Client.Addr, netip.Addr.String, netip.ParseAddr)
	c.text("helo", &e.Client.Helo)
	c.text("proto", &e.Client.Proto)
	number(c, "attempts", &e.Attempts)
	c.instant("last", &e.LastAttempt)
	c.flag("warned", &e.Warned)
	c.flag("late", &e.Late)
	c.text("class", &e.Flow.Class)
	c.text("tenant", &e.Flow.Tenant)
	c.text("flow", &e.Flow.Flow)
	c.idPair("in-place-of", &e.Requeued)
}

func (c *codec) place(p *mail.Place) {
	option(c, "area", areas, &p.Area)
	c.instant("due", &p.Due)
	number(c, "chunks", &p.Chunks)
	c.flag("file", &p.File)
	c.flag("touched", &p.Touched)
	c.flag("owes", &p.Owes)
	number(c, "bucket", &p.Bucket)
}

// recipients is a list of recipients; the index is written where it is not one
// more than that of the one before.
func (c *codec) recipients(v *[]mail.Recipient) {
	expected := uint32(0)
	list(c, "recipients", []string{"index", "to"}, v, func(r *mail.Recipient, _ int) {
		switch {
		case c.writing && r.Index != expected:
			c.putNumber("index", int64(r.Index))
		case c.writing:
		case c.next("index"):
			r.Index = c.uint32(c.take())
		default:
			r.Index = expected
		}
		expected = r.Index + 1
		c.to(&r.Address)
		c.text("orcpt", &r.ORcpt)
		value(c, "notify", &r.Notify, mail.Notify.String, parseNotify)
		c.ordered(&r.Ordered)
		c.doubts(&r.Doubts)
	})
}

// to is an address that is always there, as it begins a list's element.
func (c *codec) to(v *mail.Address) {
	switch {
	case c.writing:
		c.put("to", string(*v))
	case c.next("to"):
		*v = mail.Address(c.take())
	default:
		c.fail("a recipient is missing")
	}
}

func (c *codec) uint32(text string) uint32 {
	n, err := strconv.ParseUint(text, 10, 32)
	if err != nil {
		c.fail("%q is not an index", text)
	}
	return uint32(n)
}

func parseNotify(text string) (n mail.Notify, err error) {
	for _, w := range strings.Split(text, ",") {
		switch w {
		case "SUCCESS":
			n |= mail.NotifySuccess
		case "FAILURE":
			n |= mail.NotifyFailure
		case "DELAY":
			n |= mail.NotifyDelay
		case "NEVER":
			n |= mail.NotifyNever
		default:
			return 0, fmt.Errorf("%q is not a NOTIFY word", w)
		}
	}
	return n, nil
}

func (c *codec) batch(b *mail.RecipientBatch) {
	c.recipients(&b.Recipients)
	number(c, "next", &b.Next)
	c.flag("more", &b.More)
}

// noStatus stands for a status code that is not there.
const noStatus = "-"

// reply is code, status and text in one pair, and who said so.
func (c *codec) reply(key string, r *mail.Reply) {
	text := ""
	if c.writing && (r.Code != 0 || r.Status != mail.Status{} || r.Text != "") {
		status := r.Status.String()
		if status == "" {
			status = noStatus
		}
		text = strconv.Itoa(int(r.Code)) + " " + status + " " + r.Text
	}
	c.text(key, &text)
	if !c.writing && text != "" {
		c.parseReply(text, r)
	}
	c.text(key+"-by", &r.By)
}

// measure is a measure, if there is one: it begins with its rule.
func (c *codec) measure(v **mail.Measure) {
	switch {
	case c.writing && *v == nil:
		return
	case c.writing:
		c.put("rule", (*v).Rule)
	case c.next("rule"):
		*v = &mail.Measure{Rule: c.take()}
	default:
		return
	}
	m := *v
	c.reply("because", &m.Reply)
	number(c, "times", &m.Times)
	c.duration("within", &m.Within)
	c.flag("in-a-row", &m.InARow)
	number(c, "senders", &m.Senders)
	number(c, "tenants", &m.Tenants)
	number(c, "recipients", &m.Recipients)
	number(c, "domains", &m.Domains)
	c.text("sender", &m.Refused.Sender)
	c.text("tenant", &m.Refused.Tenant)
	c.text("recipient", &m.Refused.Recipient)
	c.text("domain", &m.Refused.Domain)
	c.idPair("message", &m.Refused.Message)
	c.duration("rest", &m.Rest)
	c.duration("suspend", &m.Suspend)
	c.duration("first", &m.SuspendFirst)
	number(c, "concurrency", &m.Concurrency)
	number(c, "rate", &m.RateCount)
	c.duration("per", &m.RatePer)
	c.duration("for", &m.For)
}

// doubts are written as "192.0.2.1:25=3 [2001:db8::1]:25=1".
func (c *codec) doubts(v **mail.Doubts) {
	text := ""
	if c.writing {
		text = (*v).String()
	}
	c.text("doubts", &text)
	if c.writing || text == "" {
		return
	}
	all, i := mail.Doubts{}, 0
	for one := range strings.SplitSeq(text, " ") {
		host, times, _ := strings.Cut(one, "=")
		addr, err := netip.ParseAddrPort(host)
		n, bad := strconv.ParseUint(times, 10, 8)
		if err != nil || bad != nil || n == 0 || i == len(all) {
			c.fail("doubts %q", text)
			return
		}
		all[i] = mail.Doubt{Host: addr, Times: uint8(n)}
		i++
	}
	*v = &all
}

func (c *codec) parseReply(text string, r *mail.Reply) {
	code, rest, _ := strings.Cut(text, " ")
	n, err := strconv.ParseUint(code, 10, 16)
	if err != nil {
		c.fail("reply %q has no code", text)
	}
	r.Code = uint16(n)
	if after, none := strings.CutPrefix(rest, noStatus+" "); none {
		r.Text = after
		return
	}
	status, after, ok := strings.Cut(rest, " ")
	s, parsed := parseStatus(status)
	if !parsed || !ok {
		c.fail("reply %q has no status", text)
	}
	r.Status, r.Text = s, after
}

// parseStatus reads what mail.Status's String returns, whatever the numbers are.
func parseStatus(text string) (s mail.Status, ok bool) {
	for i, part := range []*uint16{&s.Class, &s.Subject, &s.Detail} {
		digits, rest, more := strings.Cut(text, ".")
		n, err := strconv.ParseUint(digits, 10, 16)
		if err != nil || more != (i < 2) {
			return mail.Status{}, false
		}
		*part, text = uint16(n), rest
	}
	return s, true
}

// outcomes is a list of outcomes: each begins with its result, whose value is
// the recipient's index. at is the usual instant.
func (c *codec) outcomes(v *[]mail.Outcome, at mail.Instant) {
	list(c, "outcomes", results, v, func(o *mail.Outcome, _ int) {
		if c.writing {
			c.putNumber(wordFor(results, o.Result), int64(o.Index))
		} else {
			o.Result = mail.Result(c.index(results, c.in[0].key))
			o.Index = c.uint32(c.take())
		}
		option(c, "report", reports, &o.Report)
		c.reply("reply", &o.Reply)
		c.flag("unknown", &o.Unknown)
		c.flag("expired", &o.Expired)
		c.usually("at", &o.At, at)
		c.text("via", &o.Via.Transport)
		c.text("via-nexthop", &o.Via.Nexthop)
		c.text("via-source", &o.Via.Source)
		c.ordered(&o.Ordered)
		c.doubts(&o.Doubts)
		option(c, "stage", stages, &o.Stage)
	})
}

// hostRecords are what is known of hosts, each as its key and its value in hexadecimal digits.
func (c *codec) hostRecords(all *[]mail.HostRecord) {
	list(c, "hosts", []string{"host"}, all, func(r *mail.HostRecord, _ int) {
		if c.writing {
			c.put("host", hex.EncodeToString(r.Key)+":"+hex.EncodeToString(r.Value))
			return
		}
		key, value, _ := strings.Cut(c.take(), ":")
		r.Key, r.Value = c.octets(key), c.octets(value)
	})
}
