package trace

import (
	"fmt"
	"math/rand/v2"
	"net/netip"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/posthaste-mta/posthaste/mail"
	"github.com/posthaste-mta/posthaste/qmgr"
	"github.com/posthaste-mta/posthaste/qmgr/rate"
	"github.com/posthaste-mta/posthaste/qmgr/window"
)

// Lines are read by people as well, so what they look like is part of the
// format.
func TestLines(t *testing.T) {
	f := Format{Name: func(id mail.QueueID) string { return fmt.Sprintf("m%d", id) }, Epoch: 1000e9}
	later := mail.Reply{Code: 450, Status: mail.Status{Class: 4, Subject: 2, Detail: 1}, Text: "try again", By: "mx.test[192.0.2.1]"}
	for want, v := range map[string]any{
		`5s > arrived m1 from=s@x.test size=1000 rcpts=2 arrived=4s area=incoming to=u@a.test to=v@b.test notify=NEVER next=2`: qmgr.Arrived{Arrival: mail.Arrival{
			Envelope: mail.Envelope{ID: 1, Sender: "s@x.test", Size: 1000, Recipients: 2, Arrived: 1004e9}, Place: mail.Place{Area: mail.AreaIncoming},
			Batch: mail.RecipientBatch{Recipients: []mail.Recipient{{Address: "u@a.test"}, {Index: 1, Address: "v@b.test", Notify: mail.NotifyNever}}, Next: 2}}},
		`5s > routed m1 via=smtp nexthop=a.test via="" reply="550 5.1.2 no such domain"`: qmgr.Routed{ID: 1, Routes: []mail.Route{
			{Transport: "smtp", Nexthop: "a.test"}, {Reply: mail.Reply{Code: 550, Status: mail.Status{Class: 5, Subject: 1, Detail: 2}, Text: "no such domain"}}}},
		`5s > delivered 7 sent=0 deferred=1 reply="450 4.2.1 try again" reply-by=mx.test[192.0.2.1]`: qmgr.Delivered{Entry: 7, Result: mail.DeliveryResult{
			Outcomes: []mail.Outcome{{Result: mail.Delivered}, {Index: 1, Result: mail.Deferred, Reply: later}}}},
		`5s > select-transport transport=lmtp transport=smtp pending=2`: qmgr.SelectTransport{Pending: map[string]int{"smtp": 2, "lmtp": 0}},
		`5s > hold reason="looks odd" m1 m2`:                            qmgr.Hold{IDs: []mail.QueueID{1, 2}, Reason: "looks odd"},
		`5s > wake`:                                                     qmgr.Wake{},
		`5s fetch deferred from-at=2s from=m9 max=256`:                  qmgr.Fetch{Scan: qmgr.ScanDeferred, From: mail.Cursor{Due: 1002e9, ID: 9}, Max: 256},
		`5s deliver 7 m1 smtp a.test index=3 to="\"a b\"@a.test"`: qmgr.Deliver{Entry: 7, Delivery: mail.Delivery{Transport: "smtp", Nexthop: "a.test",
			Envelope: mail.Envelope{ID: 1}, Recipients: []mail.Recipient{{Index: 3, Address: `"a b"@a.test`}}}},
		`5s change defer m1 area=incoming until=305s deferred=1 reply="450 4.2.1 try again" reply-by=mx.test[192.0.2.1]`: qmgr.Change{Change: mail.Change{
			Op: mail.ChangeDefer, ID: 1, Place: mail.Place{Area: mail.AreaIncoming}, Due: 1305e9, At: 1005e9, Outcomes: []mail.Outcome{{Index: 1, Result: mail.Deferred, Reply: later, At: 1005e9}}}},
		`5s note deferred id=m1 sender=s@x.test at=305s`:                                qmgr.Note{Kind: qmgr.NoteDeferred, ID: 1, Sender: "s@x.test", At: 1305e9},
		`5s feedback smtp a.test cause=failure limit=20 window=3 failure=1 cohorts=0.2`: qmgr.Feedback{Transport: "smtp", Nexthop: "a.test", Cause: qmgr.CauseFailure, Limit: 20, Window: 3, Failure: 1, FailedCohorts: 0.2},
		`5s preempted m1 by=m2 transport=smtp level=1`:                                  qmgr.Preempted{Transport: "smtp", Current: 1, By: 2, Level: 1},
	} {
		if got := write(f, 1005e9, v); got != want {
			t.Errorf("got  %s\nwant %s", got, want)
		}
	}
}

func write(f Format, now mail.Instant, v any) string {
	if ev, ok := v.(qmgr.Event); ok {
		return string(f.AppendEvent(nil, now, ev))
	}
	return string(f.AppendAction(nil, now, v.(qmgr.Action)))
}

// Every event that the core knows can be written and read back, whatever is in
// it: a trace that loses something cannot be replayed.
func TestRoundTrip(t *testing.T) {
	seed := rand.Uint64()
	r := rand.New(rand.NewPCG(seed, 0))
	for range 300 {
		for _, zero := range everything() {
			v := reflect.New(reflect.TypeOf(zero)).Elem()
			fill(r, v)
			simplify(v)
			text := write(Format{}, mail.Instant(r.Int64N(1e15)), v.Interface())
			l, err := Format{}.Parse(text)
			var back any = l.Event
			if l.Event == nil {
				back = l.Action
			}
			if err != nil || !reflect.DeepEqual(back, v.Interface()) {
				t.Fatalf("seed %d: %s: %v\nwrote %+v\nread  %+v", seed, text, err, v.Interface(), back)
			}
			if again := write(Format{}, l.Now, back); again != text {
				t.Fatalf("seed %d: wrote %s\nthen %s", seed, text, again)
			}
		}
	}
}

// everything returns a value of each kind of event and action.
func everything() []any {
	var all []any
	for _, k := range eventKinds {
		all = append(all, k.zero)
	}
	for _, k := range actionKinds {
		all = append(all, k.zero)
	}
	return all
}

var odd = []string{"", "a", "u@a.test", "two words", `quo"te`, "x=y", ">", "-", "ümlaut", "line\nbreak", "\xff", "more", "4.4.1 x", "s"}

// fill puts random values into everything that v holds.
func fill(r *rand.Rand, v reflect.Value) {
	switch p := v.Addr().Interface().(type) {
	case *netip.Addr:
		*p = netip.AddrFrom4([4]byte{192, 0, 2, byte(r.IntN(256))})
		return
	case *netip.AddrPort:
		*p = netip.AddrPortFrom(netip.AddrFrom4([4]byte{192, 0, 2, byte(r.IntN(256))}), uint16(r.IntN(600)))
		return
	case *netip.Prefix:
		*p = netip.PrefixFrom(netip.AddrFrom4([4]byte{192, 0, 2}), r.IntN(33))
		return
	case *rate.Limits:
		*p, _ = rate.Of([]rate.Limit{{N: 1 + r.IntN(9), Per: time.Second}, {N: 9, Per: time.Hour}}[:r.IntN(3)]...)
		return
	case *window.Feedback:
		*p, _ = window.PerConcurrency(r.Float64())
		return
	case *mail.Doubts:
		d := (*mail.Doubts)(nil)
		for range 1 + r.IntN(6) {
			d = d.With(netip.AddrPortFrom(netip.AddrFrom4([4]byte{192, 0, 2, byte(r.IntN(9))}), 25))
		}
		*p = *d
		return
	case *mail.Notify:
		*p = mail.Notify(r.IntN(8))
		return
	case *mail.Status:
		*p = mail.Status{Class: uint16(4 + r.IntN(2)), Subject: uint16(r.IntN(9)), Detail: uint16(r.IntN(99))}
		return
	case *mail.Instant:
		*p = mail.Instant(r.Int64N(1e18))
		return
	}
	switch v.Kind() {
	case reflect.Struct:
		for i := range v.NumField() {
			if r.IntN(3) > 0 {
				fill(r, v.Field(i))
			}
		}
		if set := v.FieldByName("Set"); set.IsValid() && set.Kind() == reflect.Bool && !set.Bool() {
			v.SetZero() // a value that is not there has none
		}
	case reflect.Pointer:
		v.Set(reflect.New(v.Type().Elem()))
		fill(r, v.Elem())
	case reflect.Slice:
		v.Set(reflect.MakeSlice(v.Type(), r.IntN(4), 4))
		for i := range v.Len() {
			fill(r, v.Index(i))
		}
	case reflect.Map:
		v.Set(reflect.MakeMap(v.Type()))
		for range r.IntN(3) {
			e := reflect.New(v.Type().Elem()).Elem()
			fill(r, e)
			v.SetMapIndex(reflect.ValueOf(odd[r.IntN(len(odd))]), e)
		}
	case reflect.String:
		v.SetString(odd[r.IntN(len(odd))])
	case reflect.Bool:
		v.SetBool(r.IntN(2) == 0)
	case reflect.Uint8:
		if v.Type() == reflect.TypeFor[byte]() {
			v.SetUint(uint64(r.IntN(256)))
			return
		}
		v.SetUint(uint64(r.IntN(constants(v.Type()))))
	case reflect.Uint16, reflect.Uint32, reflect.Uint64:
		v.SetUint(uint64(r.IntN(600)))
	case reflect.Int, reflect.Int32, reflect.Int64:
		v.SetInt(r.Int64N(2000) - 1000)
	case reflect.Int8:
		v.SetInt(r.Int64N(200) - 100)
	case reflect.Float64:
		v.SetFloat(r.NormFloat64())
	default:
		panic(v.Type())
	}
}

// simplify makes a value one that can occur, and takes out what a line does not
// hold.
func simplify(v reflect.Value) {
	switch p := v.Addr().Interface().(type) {
	case *qmgr.Send:
		p.Delivery.Envelope = mail.Envelope{ID: p.Delivery.Envelope.ID}
	case *qmgr.Deliver:
		p.Delivery.Envelope = mail.Envelope{ID: p.Delivery.Envelope.ID}
	case *qmgr.Dial:
		if !p.Opening.Host.Addr.IsValid() {
			p.Opening.Host.Addr = netip.MustParseAddrPort("192.0.2.1:25")
		}
	case *qmgr.Hosts:
		for _, tier := range p.Set.Tiers {
			for i := range tier {
				if !tier[i].Addr.IsValid() {
					tier[i].Addr = netip.MustParseAddrPort("192.0.2.1:25")
				}
			}
		}
	case *qmgr.Found:
		for i := range p.Found.Cursors { // all are of one bucket
			p.Found.Cursors[i].Bucket = p.Found.Next.Bucket
		}
	case *qmgr.Change:
		p.Change.Op = max(p.Change.Op, 1)
	case *qmgr.Note:
		p.Kind, p.Flow, p.Refusers = max(p.Kind, 1), mail.Flow{}, qmgr.Refusers{} // which are no part of a trace
	}
	empty(v)
}

// empty makes nil of empty lists and maps, as reading does.
func empty(v reflect.Value) {
	switch v.Kind() {
	case reflect.Struct:
		if v.Type() == reflect.TypeFor[netip.Addr]() || v.Type() == reflect.TypeFor[netip.AddrPort]() || v.Type() == reflect.TypeFor[window.Feedback]() {
			return
		}
		for i := range v.NumField() {
			empty(v.Field(i))
		}
	case reflect.Slice:
		if v.Len() == 0 {
			v.SetZero()
		}
		for i := range v.Len() {
			empty(v.Index(i))
		}
	case reflect.Map:
		if v.Len() == 0 {
			v.SetZero()
		}
	case reflect.Pointer:
		if !v.IsNil() {
			empty(v.Elem())
		}
	}
}

// What is not a line of a trace is refused, with a reason.
func TestParseRefuses(t *testing.T) {
	for text, want := range map[string]string{
		"":                                     "want an instant and a name",
		"5s":                                   "want an instant and a name",
		"5 > wake":                             `"5" is not an instant`,
		"5.5s > wake":                          `"5.5s" is not an instant`,
		"5s > fly":                             `unknown event "fly"`,
		"5s fly":                               `unknown action "fly"`,
		"5s >":                                 "a word is missing",
		"5s > wake up":                         "up is not expected there",
		"5s > reported XYZ":                    "not a queue ID",
		"5s > reported":                        "a word is missing",
		"5s > found sideways":                  `"sideways" is not one of incoming`,
		"5s > delivered x":                     `"x" is not a number`,
		"5s > delivered 1 sent=x":              `"x" is not an index`,
		"5s > delivered 1 sent=0 at=noon":      `"noon" is not an instant`,
		"5s > delivered 1 connect=long":        "invalid duration",
		`5s > delivered 1 site="4x"`:           "has no code",
		`5s > delivered 1 site="450 bad x"`:    "has no status",
		`5s > hold reason="open`:               "bad quoting",
		`5s > hold reason="a"b`:                "no space after",
		"5s > agent-ready":                     "a word is missing",
		"5s > select-transport transport=a b":  "b is not expected there",
		"5s > found incoming at=1s":            "a message is missing",
		"5s route 0000000000001 index=5":       "a recipient is missing",
		"5s > configure debug jitter=abc":      "jitter=abc",
		"5s > configure positive=2":            "not within",
		"5s > changed 0000000000001 area=up":   `"up" is not one of`,
		"5s route 0000000000001 to=a notify=A": `"A" is not a NOTIFY word`,
	} {
		if _, err := (Format{}).Parse(text); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v, want %q", text, err, want)
		}
	}
}

// Anything is refused or means what it says when it is written again.
func FuzzParse(f *testing.F) {
	r := rand.New(rand.NewPCG(1, 2))
	for _, zero := range everything() {
		v := reflect.New(reflect.TypeOf(zero)).Elem()
		fill(r, v)
		simplify(v)
		f.Add(write(Format{}, 1e9, v.Interface()))
	}
	f.Fuzz(func(t *testing.T, text string) {
		l, err := Format{}.Parse(text)
		if err != nil {
			return
		}
		var v any = l.Event
		if l.Event == nil {
			v = l.Action
		}
		again := write(Format{}, l.Now, v)
		back, err := Format{}.Parse(again)
		if err != nil || !reflect.DeepEqual(back, l) {
			t.Fatalf("%q was read as %+v, written as %q, read as %+v, %v", text, l, again, back, err)
		}
	})
}

func BenchmarkAppendAction(b *testing.B) {
	a := qmgr.Deliver{Entry: 7, Delivery: mail.Delivery{Transport: "smtp", Nexthop: "a.test", Envelope: mail.Envelope{ID: mail.NewQueueID(mail.Instant(time.Hour), 1)},
		Recipients: []mail.Recipient{{Address: "u@a.test"}, {Index: 1, Address: "v@a.test"}}}}
	var line []byte
	b.ReportAllocs()
	for b.Loop() {
		line = Format{}.AppendAction(line[:0], 1005e9, a)
	}
}
