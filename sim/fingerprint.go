package sim

import (
	"fmt"
	"math"
	"math/bits"
	"reflect"
	"strconv"

	"github.com/posthaste-mta/posthaste/internal/assert"
	"github.com/posthaste-mta/posthaste/mail"
	"github.com/posthaste-mta/posthaste/qmgr"
)

// A fingerprint is a hash over all events and actions of a run, and over everything
// that they consist of. Two runs of the same seed have the same one.
//
// The fields to include are found by reflection, so that what is added cannot be
// forgotten. As that would take a third of the time of a run, the fields of what
// every delivery consists of are listed here as well (common); a test finds out
// whether one is missing.
type fingerprint uint64

func newFingerprint() fingerprint { return 0x9e3779b97f4a7c15 }

// mix takes one number in: a multiplication of 64 by 64 bits, folded.
func (f *fingerprint) mix(v uint64) {
	hi, lo := bits.Mul64(uint64(*f)^v, 0x9fb21c651e98df25)
	*f = fingerprint(hi ^ lo ^ v<<1)
}

// takeEvent takes in an event and when it happened. It is generic so that what is
// common need not be allocated.
func takeEvent[E qmgr.Event](f *fingerprint, now mail.Instant, ev E) {
	f.mix(uint64(now))
	if !f.common(ev) {
		f.rare(ev)
	}
}

func (f *fingerprint) action(a qmgr.Action) {
	if !f.common(a) {
		f.rare(a)
	}
}

func (f *fingerprint) rare(a any) {
	v := reflect.ValueOf(a)
	f.text(v.Type().Name())
	f.value(v)
}

// common takes in what every delivery consists of, and reports whether a is that.
func (f *fingerprint) common(a any) bool {
	switch a := a.(type) {
	case qmgr.Arrived:
		f.mix(1)
		f.envelope(&a.Arrival.Envelope)
		f.place(&a.Arrival.Place)
		f.batch(&a.Arrival.Batch)
	case qmgr.Routed:
		f.mix(2)
		f.mix(uint64(a.ID))
		f.mix(uint64(len(a.Routes)))
		for i := range a.Routes {
			f.route(&a.Routes[i])
		}
	case qmgr.Delivered:
		f.mix(3)
		f.mix(uint64(a.Entry))
		f.result(&a.Result)
	case qmgr.Changed:
		f.mix(4)
		f.mix(uint64(a.Changed.ID))
		f.place(&a.Changed.Place)
		f.flag(a.Changed.Reports)
		if len(a.Changed.Requeued) > 0 {
			f.text("requeued")
			f.value(reflect.ValueOf(a.Changed.Requeued))
		}
	case qmgr.Route:
		f.mix(5)
		f.mix(uint64(a.ID))
		f.recipients(a.Recipients)
		f.unless("sender", string(a.Sender))
		f.unless("tls", a.TLS.String())
	case qmgr.Deliver:
		f.mix(6)
		f.mix(uint64(a.Entry))
		f.delivery(&a.Delivery)
	case qmgr.Send:
		f.mix(7)
		f.mix(uint64(a.Conn))
		f.mix(uint64(a.Entry))
		f.delivery(&a.Delivery)
	case qmgr.Change:
		f.mix(8)
		f.change(&a.Change)
	case qmgr.Note:
		f.mix(9)
		f.mix(uint64(a.Kind))
		f.mix(uint64(a.ID))
		f.text(a.Transport)
		f.text(a.Nexthop)
		f.text(a.Text)
		f.text(string(a.Sender))
		f.mix(uint64(a.At))
		f.unless("source", a.Source)
		f.unless("security", a.Security)
		f.unless("domain", a.Domain)
		f.unless("class", a.Flow.Class)
		f.unless("tenant", a.Flow.Tenant)
		f.unless("flow", a.Flow.Flow)
		f.unless("senders", a.Refusers.Senders)
		f.unless("tenants", a.Refusers.Tenants)
		f.unless("domains", a.Refusers.Domains)
	default:
		return false
	}
	return true
}

func (f *fingerprint) envelope(e *mail.Envelope) {
	f.mix(uint64(e.ID))
	f.text(string(e.Sender))
	f.text(e.EnvID)
	f.mix(uint64(e.Ret))
	f.mix(uint64(e.Body))
	f.flag(e.SMTPUTF8)
	f.mix(uint64(e.Size))
	f.mix(uint64(e.Recipients))
	f.mix(uint64(e.Arrived))
	known := e.Client != (mail.Client{}) // which the simulator's are not
	if f.flag(known); known {
		f.value(reflect.ValueOf(e.Client))
	}
	f.text(e.Flow.Class)
	f.text(e.Flow.Tenant)
	f.text(e.Flow.Flow)
	f.mix(uint64(e.Attempts))
	f.mix(uint64(e.LastAttempt))
	f.flag(e.Warned)
	if e.Priority != 0 {
		f.unless("priority", strconv.Itoa(int(e.Priority)))
	}
	f.unless("tls", e.TLS.String())
	f.unless("verp", e.VERP.String())
	if e.Release != 0 {
		f.unless("release", strconv.FormatInt(int64(e.Release), 10))
	}
	if e.By != (mail.DeliverBy{}) {
		f.text("by")
		f.value(reflect.ValueOf(e.By))
	}
	if e.Late {
		f.text("late")
	}
	if e.Requeued != 0 {
		f.unless("requeued", e.Requeued.String())
	}
}

func (f *fingerprint) recipients(list []mail.Recipient) {
	f.mix(uint64(len(list)))
	for i := range list {
		r := &list[i]
		f.mix(uint64(r.Index))
		f.text(string(r.Address))
		f.text(r.ORcpt)
		f.mix(uint64(r.Notify))
		f.ordered(r.Ordered)
		f.doubts(r.Doubts)
	}
}

func (f *fingerprint) batch(b *mail.RecipientBatch) {
	f.recipients(b.Recipients)
	f.mix(uint64(b.Next))
	f.flag(b.More)
}

func (f *fingerprint) place(p *mail.Place) {
	f.mix(uint64(p.Area))
	f.mix(uint64(p.Due))
	f.mix(uint64(p.Chunks))
	f.flag(p.File)
	f.flag(p.Touched)
	f.flag(p.Owes)
	f.mix(uint64(p.Bucket))
}

func (f *fingerprint) route(r *mail.Route) {
	f.text(r.Transport)
	f.text(r.Nexthop)
	f.text(r.Site)
	f.unless("security", r.Security)
	f.unless("credential", r.Credential)
	f.flag(r.NeedsLookup)
	f.reply(&r.Reply)
}

func (f *fingerprint) reply(r *mail.Reply) {
	f.mix(uint64(r.Code) | uint64(r.Status.Class)<<16 | uint64(r.Status.Subject)<<32 | uint64(r.Status.Detail)<<48)
	f.text(r.Text)
	f.text(r.By)
}

func (f *fingerprint) outcomes(list []mail.Outcome) {
	f.mix(uint64(len(list)))
	for i := range list {
		o := &list[i]
		f.mix(uint64(o.Index))
		f.mix(uint64(o.Result))
		f.mix(uint64(o.Report))
		f.reply(&o.Reply)
		f.flag(o.Unknown)
		f.flag(o.Expired)
		f.mix(uint64(o.At))
		if o.Via != (mail.Via{}) {
			f.value(reflect.ValueOf(o.Via))
		}
		f.ordered(o.Ordered)
		f.doubts(o.Doubts)
		if o.Stage != mail.StageUnknown {
			f.text("stage")
			f.mix(uint64(o.Stage))
		}
	}
}

func (f *fingerprint) doubts(d *mail.Doubts) {
	if d != nil {
		f.text("doubts")
		for i := range d {
			f.text(d[i].Host.String())
			f.mix(uint64(d[i].Times))
		}
	}
}

func (f *fingerprint) ordered(to *mail.OrderedRoute) {
	if to != nil {
		f.text("ordered")
		f.value(reflect.ValueOf(*to))
	}
}

func (f *fingerprint) delivery(d *mail.Delivery) {
	f.text(d.Transport)
	f.text(d.Nexthop)
	f.envelope(&d.Envelope)
	f.recipients(d.Recipients)
	f.text(d.Origin.Transport)
	f.text(d.Origin.Nexthop)
	f.reply(&d.Said)
	f.flag(d.Callout)
	f.unless("source", d.Source)
	f.unless("security", d.Security)
	f.unless("origin-security", d.Origin.Security)
}

// unless takes in a text unless it is empty: without sources, runs have the fingerprints that
// they had before there were any, and so on.
func (f *fingerprint) unless(name, text string) {
	if text != "" {
		f.text(name)
		f.text(text)
	}
}

// unlessZero are the fields for which the same holds.
var unlessZero = map[reflect.Type]map[int]string{
	reflect.TypeFor[mail.Opening]():          fieldsOf[mail.Opening]("Source", "Security"),
	reflect.TypeFor[mail.OpenedConnection](): fieldsOf[mail.OpenedConnection]("Unbound", "Insecure", "Security", "Measure", "Stage"),
	reflect.TypeFor[mail.Closing]():          fieldsOf[mail.Closing]("Measure", "Stage"),
	reflect.TypeFor[qmgr.Feedback]():         fieldsOf[qmgr.Feedback]("Source"),
	reflect.TypeFor[qmgr.Config]():           fieldsOf[qmgr.Config]("Sources"),
	reflect.TypeFor[mail.Recipient]():        fieldsOf[mail.Recipient]("Ordered", "Doubts"),
	reflect.TypeFor[mail.Outcome]():          fieldsOf[mail.Outcome]("Ordered", "Doubts", "Stage"),
	reflect.TypeFor[mail.Envelope]():         fieldsOf[mail.Envelope]("Priority", "TLS", "Release", "VERP", "By", "Late", "Requeued"),
	reflect.TypeFor[mail.Split]():            fieldsOf[mail.Split]("Requeue"),
	reflect.TypeFor[qmgr.Split]():            fieldsOf[qmgr.Split]("Last"),
	reflect.TypeFor[mail.Route]():            fieldsOf[mail.Route]("Security", "Credential"),
	reflect.TypeFor[qmgr.Route]():            fieldsOf[qmgr.Route]("TLS"),
	reflect.TypeFor[qmgr.Lookup]():           fieldsOf[qmgr.Lookup]("TLS", "Credential"),
	reflect.TypeFor[qmgr.Verify]():           fieldsOf[qmgr.Verify]("Security", "Credential"),
}

// fieldsOf returns fields by their numbers: to ask for the name of each takes long.
func fieldsOf[T any](names ...string) map[int]string {
	fields := make(map[int]string)
	for _, name := range names {
		f, ok := reflect.TypeFor[T]().FieldByName(name)
		assert.That(ok && len(f.Index) == 1, "%T has no field %s", *new(T), name)
		fields[f.Index[0]] = name
	}
	return fields
}

func (f *fingerprint) fields(v reflect.Value) {
	later := unlessZero[v.Type()]
	for i := range v.NumField() {
		name, is := later[i]
		switch {
		case !is:
			f.value(v.Field(i))
		case !v.Field(i).IsZero():
			f.text(name)
			f.value(v.Field(i))
		}
	}
}

func (f *fingerprint) change(c *mail.Change) {
	f.mix(uint64(c.Op))
	f.mix(uint64(c.ID))
	f.place(&c.Place)
	f.outcomes(c.Outcomes)
	f.mix(uint64(c.Due))
	f.mix(uint64(c.At))
	f.text(c.Reason)
	if len(c.Reroutes) > 0 {
		f.text("reroutes")
		f.value(reflect.ValueOf(c.Reroutes))
	}
	if len(c.Splits) > 0 {
		f.value(reflect.ValueOf(c.Splits))
	}
	if len(c.Except) > 0 {
		f.text("except")
		f.value(reflect.ValueOf(c.Except))
	}
}

func (f *fingerprint) result(r *mail.DeliveryResult) {
	f.outcomes(r.Outcomes)
	f.reply(&r.Site)
	f.flag(r.Crashed)
	f.reply(&r.Unavailable)
	f.text(r.Host)
	f.mix(uint64(r.Connect))
	f.mix(uint64(r.Send))
	f.mix(uint64(r.Reused))
	if r.Security != (mail.Security{}) {
		f.value(reflect.ValueOf(r.Security))
	}
	if r.Measure != nil {
		f.value(reflect.ValueOf(r.Measure))
	}
}

// text takes in a text: a short one as a single number.
func (f *fingerprint) text(s string) {
	if len(s) >= 8 {
		f.mix(1<<63 | uint64(len(s)))
	}
	for len(s) >= 8 {
		f.mix(uint64(s[0]) | uint64(s[1])<<8 | uint64(s[2])<<16 | uint64(s[3])<<24 | uint64(s[4])<<32 | uint64(s[5])<<40 | uint64(s[6])<<48 | uint64(s[7])<<56)
		s = s[8:]
	}
	rest := uint64(len(s) + 1) // which is in front of the octets: at most 8
	for i := range len(s) {
		rest = rest<<8 | uint64(s[i])
	}
	f.mix(rest)
}

// value takes in a value with all that it consists of. What a value of one kind is
// followed by is fixed by its type and by the lengths that are taken in, so that
// different values cannot be spelt alike.
func (f *fingerprint) value(v reflect.Value) {
	switch v.Kind() {
	case reflect.Bool:
		f.flag(v.Bool())
	case reflect.Int, reflect.Int8, reflect.Int16, reflect.Int32, reflect.Int64:
		f.mix(uint64(v.Int()))
	case reflect.Uint, reflect.Uint8, reflect.Uint16, reflect.Uint32, reflect.Uint64:
		f.mix(v.Uint())
	case reflect.Float32, reflect.Float64:
		f.mix(math.Float64bits(v.Float()))
	case reflect.String:
		f.text(v.String())
	case reflect.Struct:
		f.fields(v)
	case reflect.Array:
		f.elements(v)
	case reflect.Slice:
		f.mix(uint64(v.Len()))
		f.elements(v)
	case reflect.Map:
		f.mapping(v)
	case reflect.Pointer, reflect.Interface:
		if f.flag(!v.IsNil()); v.IsNil() {
			return
		}
		if v.Kind() == reflect.Interface {
			f.text(v.Elem().Type().String())
		}
		f.value(v.Elem())
	default:
		panic(fmt.Sprintf("a value of type %v has no fingerprint", v.Type()))
	}
}

func (f *fingerprint) flag(b bool) {
	n := uint64(0)
	if b {
		n = 1
	}
	f.mix(n)
}

func (f *fingerprint) elements(v reflect.Value) {
	for i := range v.Len() {
		f.value(v.Index(i))
	}
}

// mapping takes in what a map holds, in no order.
func (f *fingerprint) mapping(v reflect.Value) {
	f.mix(uint64(v.Len()))
	sum := uint64(0)
	for it := v.MapRange(); it.Next(); {
		each := newFingerprint()
		each.value(it.Key())
		each.value(it.Value())
		sum += uint64(each)
	}
	f.mix(sum)
}
