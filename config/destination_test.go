package config

import (
	"net/netip"
	"reflect"
	"slices"
	"testing"
	"time"

	"github.com/posthaste-mta/posthaste/mail"
	"github.com/posthaste-mta/posthaste/qmgr/rate"
	"github.com/posthaste-mta/posthaste/qmgr/shape"
)

// The patterns of a destination are converted to the form in which they are
// compared: lower case, ASCII, no final dots. A limit that is not set is absent, and
// one that is set to 0 is present.
func TestShapes(t *testing.T) {
	c := mustParse(t, `
[destination.b]
domains = "Example.COM., .Bücher.example"
mx = ["MX1.example.net.", ".Example.NET", "a*b.example.org"]
networks = ["192.0.2.7", "[2001:db8::]/32"]
initial_destination_concurrency = 1
destination_concurrency_limit = 0
destination_host_concurrency_limit = 3
destination_recipient_limit = 10
destination_rate = "1000/h, 2/s"
destination_rate_delay = "1s"
connection_rate = ""
connection_reuse_time_limit = 0
connection_reuse_count_limit = 7
pipelining = "stream"
[destination.a]
domains = "a.example"
`)
	perSecond, err := rate.Parse("2/s, 1000/h")
	if err != nil {
		t.Fatal(err)
	}
	want := []shape.Destination{
		{Name: "a", Domains: []string{"a.example"}, MX: []string{}},
		{
			Name: "b", Domains: []string{"example.com", ".xn--bcher-kva.example"}, MX: []string{"mx1.example.net", "*.example.net", "a*b.example.org"},
			Networks: []netip.Prefix{netip.MustParsePrefix("192.0.2.7/32"), netip.MustParsePrefix("2001:db8::/32")},
			Limits: shape.Limits{
				InitialConcurrency: shape.Some(1), ConcurrencyLimit: shape.Some(0), HostConcurrencyLimit: shape.Some(3), RecipientLimit: shape.Some(10),
				Rate: shape.Some(perSecond), RateDelay: shape.Some(time.Second), ConnectionRate: shape.Some(rate.Limits{}),
				ReuseTimeLimit: shape.Some[time.Duration](0), ReuseCountLimit: shape.Some(7), Level: shape.Some(mail.LevelStream),
			},
		},
	}
	got := c.Shapes()
	if !reflect.DeepEqual(got, want) {
		t.Errorf("%+v\nwant\n%+v", got, want)
	}
	if !reflect.DeepEqual(c.Driver().Qmgr.Destinations, got) {
		t.Error("the core does not get them")
	}
	// This test must cover every limit.
	for i := range reflect.TypeFor[shape.Limits]().NumField() {
		if name := reflect.TypeFor[shape.Limits]().Field(i).Name; !reflect.ValueOf(got[1].Limits).Field(i).FieldByName("Set").Bool() {
			t.Errorf("%s cannot be set", name)
		}
	}
}

// A limit of a destination has the name, the range and the units of the
// transport's limit that it overrides.
func TestDestinationsAreLikeTransports(t *testing.T) {
	all := Parameters()
	for _, p := range destinationParameters {
		if p.global == "" {
			continue
		}
		i := slices.IndexFunc(all, func(q Parameter) bool { return q.Table == tableTransport && q.Name == p.name })
		if i < 0 {
			t.Errorf("%s: a transport has none", p.name)
			continue
		}
		of := all[i]
		if p.kind != of.Type || p.unit != of.Unit || p.limits != of.Range || p.allowed != of.Allowed {
			t.Errorf("%s: %s, a transport's is %s", p.name, p.allowed, of.Allowed)
		}
	}
}

// A reload reports which limits of which receivers change.
func TestDiffDestinations(t *testing.T) {
	before := mustParse(t, "[destination.a]\nmx = \".a.example\"\ndestination_rate = \"1/s\"\n[destination.old]\nmx = \".old.example\"\n")
	after := mustParse(t, "[destination.a]\nmx = \".a.example, .b.example\"\ndestination_rate_delay = 1\n[destination.new]\nmx = \".new.example\"\n")
	want := []Change{
		{Key: "destination.a.mx", Old: `[".a.example"]`, New: `[".a.example", ".b.example"]`},
		{Key: "destination.a.destination_rate", Old: `"1/s"`},
		{Key: "destination.a.destination_rate_delay", New: `"1s"`},
		{Key: "destination.new", New: present},
		{Key: "destination.old", Old: present},
	}
	if got := Diff(before, after); !slices.Equal(got, want) {
		t.Errorf("%+v\nwant\n%+v", got, want)
	}
}
