package sim

import (
	"fmt"
	"github.com/posthaste-mta/posthaste/mail"
	"net/netip"
	"os"
	"path/filepath"
	"reflect"
	"regexp"
	"slices"
	"testing"
	"time"

	"github.com/posthaste-mta/posthaste/qmgr"
	"github.com/posthaste-mta/posthaste/qmgr/rate"
	"github.com/posthaste-mta/posthaste/qmgr/window"
)

// taken are the types of everything that a fingerprint is taken of.
var taken = []any{
	qmgr.Arrived{}, qmgr.Found{}, qmgr.Opened{}, qmgr.Broken{}, qmgr.Recipients{}, qmgr.Routed{}, qmgr.LookedUp{}, qmgr.Hosts{}, qmgr.Dialed{},
	qmgr.Closed{}, qmgr.Learned{}, qmgr.Heard{}, qmgr.Verify{}, qmgr.Delivered{}, qmgr.Changed{}, qmgr.Reported{}, qmgr.Kept{}, qmgr.Wake{}, qmgr.Hold{}, qmgr.Release{},
	qmgr.Drop{}, qmgr.Settle{}, qmgr.Split{}, qmgr.SetRoute{}, qmgr.Retry{}, qmgr.RetryAll{}, qmgr.AgentReady{}, qmgr.AgentUnavailable{}, qmgr.SelectTransport{}, qmgr.Configure{}, qmgr.Rules{}, qmgr.Reroute{}, qmgr.AdjustWarmup{}, qmgr.Suspend{}, qmgr.Resume{}, qmgr.Halt{},
	qmgr.Fetch{}, qmgr.Open{}, qmgr.Read{}, qmgr.Route{}, qmgr.Lookup{}, qmgr.Verified{}, qmgr.Deliver{}, qmgr.Resolve{}, qmgr.Dial{}, qmgr.Send{},
	qmgr.Hangup{}, qmgr.Change{}, qmgr.Report{}, qmgr.Note{}, qmgr.Selected{}, qmgr.Feedback{}, qmgr.Preempted{},
}

// The core's source says which events and actions there are.
func TestEverythingIsTaken(t *testing.T) {
	paths, err := filepath.Glob("../qmgr/*.go")
	if err != nil || len(paths) == 0 {
		t.Fatal(paths, err)
	}
	var declared, known []string
	for _, path := range paths {
		text, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		for _, m := range regexp.MustCompile(`(?m)^func \((?:\w+ )?(\w+)\) (?:event|action)\(\)`).FindAllSubmatch(text, -1) {
			declared = append(declared, string(m[1]))
		}
	}
	for _, v := range taken {
		known = append(known, reflect.TypeOf(v).Name())
	}
	slices.Sort(declared)
	slices.Sort(known)
	if !slices.Equal(declared, known) {
		t.Errorf("the core has %q; taken has %q", declared, known)
	}
}

func fingerprintOfOne(v reflect.Value) fingerprint {
	f := newFingerprint()
	if a := v.Interface(); !f.common(a) {
		f.rare(a)
	}
	return f
}

// Whatever changes in an event or an action changes its fingerprint: here each field
// is changed by itself, wherever it is. A field that the core's vocabulary gets, and
// that common does not know, is found out here.
func TestEveryFieldCounts(t *testing.T) {
	seen := make(map[fingerprint]string)
	for _, zero := range taken {
		v := reflect.New(reflect.TypeOf(zero)).Elem()
		fill(v)
		for _, of := range []struct {
			what  string
			value reflect.Value
		}{{"zero", reflect.ValueOf(zero)}, {"filled", v}} {
			if of.value.NumField() == 0 && of.what == "filled" {
				continue
			}
			f, what := fingerprintOfOne(of.value), fmt.Sprintf("%T, %s", zero, of.what)
			if other, there := seen[f]; there {
				t.Errorf("%s has the fingerprint of %s", what, other)
			}
			seen[f] = what
		}
		whole := fingerprintOfOne(v)
		changes := 0
		alter(v, reflect.TypeOf(zero).Name(), func(where string) {
			changes++
			if fingerprintOfOne(v) == whole {
				t.Errorf("%s does not count", where)
			}
		})
		if changes < v.NumField() {
			t.Errorf("%T has %d fields, and %d changes were made", zero, v.NumField(), changes)
		}
		if fingerprintOfOne(v) != whole {
			t.Fatalf("%T: the changes were not taken back", zero)
		}
	}
}

// opaque returns two values of a type that cannot be filled field by field.
func opaque(v reflect.Value) []any {
	switch v.Interface().(type) {
	case netip.Addr:
		return []any{netip.MustParseAddr("192.0.2.1"), netip.MustParseAddr("::ffff:192.0.2.1"), netip.MustParseAddr("fe80::1"), netip.MustParseAddr("fe80::1%eth0")}
	case netip.AddrPort:
		return []any{netip.MustParseAddrPort("192.0.2.1:25"), netip.MustParseAddrPort("192.0.2.1:26"), netip.MustParseAddrPort("[fe80::1%eth0]:25")}
	case mail.Doubts:
		one := (*mail.Doubts)(nil).With(netip.MustParseAddrPort("192.0.2.1:25"))
		return []any{*one, *one.With(netip.MustParseAddrPort("192.0.2.1:25")), *one.With(netip.MustParseAddrPort("192.0.2.2:25"))}
	case netip.Prefix:
		return []any{netip.MustParsePrefix("192.0.2.0/24"), netip.MustParsePrefix("192.0.2.0/25")}
	case rate.Limits:
		one, _ := rate.Of(rate.Limit{N: 1, Per: time.Second})
		two, _ := rate.Of(rate.Limit{N: 1, Per: time.Second}, rate.Limit{N: 9, Per: time.Hour})
		return []any{one, two}
	case window.Feedback:
		one, _ := window.ParseFeedback("1/2")
		two, _ := window.ParseFeedback("0.5/concurrency")
		return []any{one, two}
	}
	return nil
}

// fill puts something into everything that a value consists of.
func fill(v reflect.Value) {
	if values := opaque(v); values != nil {
		v.Set(reflect.ValueOf(values[0]))
		return
	}
	switch v.Kind() {
	case reflect.Struct:
		for i := range v.NumField() {
			fill(v.Field(i))
		}
	case reflect.Pointer:
		v.Set(reflect.New(v.Type().Elem()))
		fill(v.Elem())
	case reflect.Slice:
		v.Set(reflect.MakeSlice(v.Type(), 2, 2))
		fill(v.Index(0))
		fill(v.Index(1))
	case reflect.Map:
		v.Set(reflect.MakeMap(v.Type()))
		key, elem := reflect.New(v.Type().Key()).Elem(), reflect.New(v.Type().Elem()).Elem()
		fill(key)
		fill(elem)
		v.SetMapIndex(key, elem)
	case reflect.Bool:
		v.SetBool(true)
	case reflect.String:
		v.SetString("some words")
	case reflect.Float64:
		v.SetFloat(0.5)
	default:
		v.Set(reflect.ValueOf(3).Convert(v.Type()))
	}
}

// alter changes each thing that a value consists of, one after the other, and takes
// the change back when changed has returned.
func alter(v reflect.Value, where string, changed func(where string)) {
	old := reflect.New(v.Type()).Elem()
	old.Set(v)
	try := func(what string, other reflect.Value) {
		v.Set(other.Convert(v.Type()))
		changed(where + what)
		v.Set(old)
	}
	if values := opaque(v); values != nil {
		for _, other := range values[1:] {
			try(fmt.Sprint("=", other), reflect.ValueOf(other))
		}
		return
	}
	switch v.Kind() {
	case reflect.Struct:
		for i := range v.NumField() {
			alter(v.Field(i), where+"."+v.Type().Field(i).Name, changed)
		}
	case reflect.Pointer:
		alter(v.Elem(), where, changed)
		try(" nil", reflect.Zero(v.Type()))
	case reflect.Slice:
		for i := range v.Len() {
			alter(v.Index(i), fmt.Sprintf("%s[%d]", where, i), changed)
		}
		try(" shorter", v.Slice(0, 1))
		try(" empty", reflect.Zero(v.Type()))
	case reflect.Map:
		key := v.MapKeys()[0]
		elem := reflect.New(v.Type().Elem()).Elem()
		elem.Set(v.MapIndex(key))
		alter(elem, where+"[]", func(where string) {
			v.SetMapIndex(key, elem)
			changed(where)
		})
		v.SetMapIndex(key, elem)
		another := reflect.New(v.Type().Key()).Elem()
		v.SetMapIndex(another, elem)
		changed(where + " longer")
		v.SetMapIndex(another, reflect.Value{})
		try(" empty", reflect.Zero(v.Type()))
	case reflect.Bool:
		try("", reflect.ValueOf(false))
	case reflect.String:
		for _, other := range []string{"", "same", "some", "some word", "some words more"} {
			try("="+other, reflect.ValueOf(other))
		}
	case reflect.Float64:
		try("", reflect.ValueOf(0.25))
	default:
		try("", reflect.ValueOf(2))
		try("=0", reflect.ValueOf(0))
	}
}
