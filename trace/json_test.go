package trace

import (
	"bytes"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"reflect"
	"slices"
	"testing"

	"github.com/posthaste-mta/posthaste/mail"
	"github.com/posthaste-mta/posthaste/qmgr"
)

// Programs read what "posthaste trace show --json" prints: names do not change,
// numbers are numbers, and lists are lists.
func TestFields(t *testing.T) {
	f := Format{Name: func(id mail.QueueID) string { return fmt.Sprintf("m%d", id) }, Instant: func(i mail.Instant) string { return fmt.Sprint("at ", int64(i)/1e9) }}
	for want, l := range map[string]Line{
		`{"id":"m1","recipients":[{"to":"u@a.test"},{"index":5,"to":"\"v\"@a.test","notify":"NEVER"}]}`: {Action: qmgr.Route{ID: 1,
			Recipients: []mail.Recipient{{Address: "u@a.test"}, {Index: 5, Address: `"v"@a.test`, Notify: mail.NotifyNever}}}},
		`{"entry":"7","reused":3,"outcomes":[{"sent":0},{"deferred":1,"reply":"450 - later","at":"at 9"}]}`: {Event: qmgr.Delivered{Entry: 7, Result: mail.DeliveryResult{
			Reused: 3, Outcomes: []mail.Outcome{{Result: mail.Delivered}, {Index: 1, Result: mail.Deferred, Reply: mail.Reply{Code: 450, Text: "later"}, At: 9e9}}}}},
		`{"scan":"incoming","messages":[{"id":"m1"},{"id":"m2"}],"next":"m3","more":true}`: {Event: qmgr.Found{
			Found: mail.Found{Cursors: []mail.Cursor{{ID: 1}, {ID: 2}}, Next: mail.Cursor{ID: 3}, More: true}}},
		`{}`: {Event: qmgr.Wake{}},
	} {
		if got := string(f.AppendFields(nil, l)); got != want {
			t.Errorf("got  %s\nwant %s", got, want)
		}
	}
}

// Whatever is in an event or action, its fields are an object of JSON in which
// no name comes twice: what comes first would be lost.
func TestFieldsAreJSON(t *testing.T) {
	seed := rand.Uint64()
	r := rand.New(rand.NewPCG(seed, 0))
	for range 100 {
		for _, zero := range everything() {
			v := reflect.New(reflect.TypeOf(zero)).Elem()
			fill(r, v)
			simplify(v)
			text := Format{}.AppendFields(nil, lineOf(v.Interface()))
			if !json.Valid(text) {
				t.Fatalf("seed %d: %T: %s", seed, zero, text)
			}
			d := json.NewDecoder(bytes.NewReader(text))
			if _, err := d.Token(); err != nil {
				t.Fatal(err)
			}
			if name := twice(t, d); name != "" {
				t.Fatalf("seed %d: %T: %q comes twice in %s", seed, zero, name, text)
			}
		}
	}
}

func lineOf(v any) Line {
	if ev, ok := v.(qmgr.Event); ok {
		return Line{Event: ev}
	}
	return Line{Action: v.(qmgr.Action)}
}

// twice returns a name that comes twice in the object or array that d is in.
func twice(t *testing.T, d *json.Decoder) string {
	t.Helper()
	var names []string
	for isName := true; d.More(); isName = !isName {
		token, err := d.Token()
		if err != nil {
			t.Fatal(err)
		}
		switch token := token.(type) {
		case json.Delim:
			if name := twice(t, d); name != "" {
				return name
			}
		case string:
			if isName && slices.Contains(names, token) {
				return token
			} else if isName {
				names = append(names, token)
			}
		}
	}
	if _, err := d.Token(); err != nil {
		t.Fatal(err)
	}
	return ""
}

// An answer names no more than its attempt or its connection, and a person who
// asks for a message wants to see it nevertheless.
func TestFollower(t *testing.T) {
	f := NewFollower()
	show := func(l Line) string {
		s := f.Subject(l)
		return fmt.Sprint(s.Messages, s.Transports, s.Nexthops)
	}
	to := mail.Delivery{Transport: "smtp", Nexthop: "a.test", Envelope: mail.Envelope{ID: 5}}
	for i, step := range []struct {
		line Line
		want string
	}{
		{Line{Event: qmgr.Routed{ID: 5, Routes: []mail.Route{{Transport: "smtp", Nexthop: "a.test"}}}}, "[0000000000005] [smtp] [a.test]"},
		{Line{Action: qmgr.Deliver{Entry: 1, Delivery: to}}, "[0000000000005] [smtp] [a.test]"},
		{Line{Event: qmgr.Delivered{Entry: 1}}, "[0000000000005] [smtp] [a.test]"},
		{Line{Event: qmgr.Delivered{Entry: 1}}, "[] [] []"}, // it was answered already
		{Line{Action: qmgr.Dial{Conn: 2, Opening: mail.Opening{Transport: "smtp", Nexthop: "b.test"}}}, "[] [smtp] [b.test]"},
		{Line{Event: qmgr.Dialed{Conn: 2}}, "[] [smtp] [b.test]"},
		{Line{Action: qmgr.Send{Conn: 2, Entry: 9, Delivery: to}}, "[0000000000005] [smtp] [a.test]"},
		{Line{Event: qmgr.Closed{Conn: 2}}, "[] [smtp] [b.test]"},
		{Line{Event: qmgr.Closed{Conn: 2}}, "[] [] []"},
		{Line{Action: qmgr.Lookup{Lookup: 4, For: 5, Transport: "smtp", Nexthop: "c.test"}}, "[0000000000005] [smtp] [c.test]"},
		{Line{Event: qmgr.LookedUp{Lookup: 4, Route: mail.Route{Transport: "smtp", Nexthop: "c.test", Site: "mx.test"}}},
			"[0000000000005] [smtp smtp] [c.test mx.test c.test]"},
		{Line{Event: qmgr.Verify{Verification: 3, Transport: "smtp", Nexthop: "d.test"}}, "[] [smtp] [d.test]"},
		{Line{Action: qmgr.Verified{Verification: 3}}, "[] [smtp] [d.test]"},
		{Line{Event: qmgr.Hold{IDs: []mail.QueueID{1, 2}}}, "[0000000000001 0000000000002] [] []"},
	} {
		if got := show(step.line); got != step.want {
			t.Errorf("line %d: %s, want %s", i+1, got, step.want)
		}
	}
}
