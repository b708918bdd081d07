package config

import (
	"net/netip"
	"reflect"
	"slices"
	"testing"
	"time"

	"github.com/posthaste-mta/posthaste/inbound"
	"github.com/posthaste-mta/posthaste/mail"
	"github.com/posthaste-mta/posthaste/outbound"
	"github.com/posthaste-mta/posthaste/qmgr"
	"github.com/posthaste-mta/posthaste/qmgr/fair"
	"github.com/posthaste-mta/posthaste/report"
	"github.com/posthaste-mta/posthaste/resolve"
	"github.com/posthaste-mta/posthaste/route"
	"github.com/posthaste-mta/posthaste/smtp/server"
	"github.com/posthaste-mta/posthaste/spool/settings"
)

// checkMapped asserts that every package accepts its configuration.
func checkMapped(t testing.TB, c *Config) {
	t.Helper()
	for _, err := range c.validateAll() {
		t.Error(err)
	}
}

// same compares two structures field by field, except for functions, interfaces and
// pointers, which the caller fills in.
func same(t *testing.T, what string, got, want any) {
	t.Helper()
	g, w := reflect.ValueOf(got), reflect.ValueOf(want)
	for i := range g.NumField() {
		if !g.Type().Field(i).IsExported() {
			continue // no setting
		}
		name := what + "." + g.Type().Field(i).Name
		switch f := g.Field(i); f.Kind() {
		case reflect.Func, reflect.Interface, reflect.Pointer:
		case reflect.Struct:
			if f.Type().PkgPath() != "net/netip" && f.NumField() > 0 && f.Type().Field(0).IsExported() {
				same(t, name, f.Interface(), w.Field(i).Interface())
				continue
			}
			fallthrough
		default:
			if empty(f) && empty(w.Field(i)) {
				continue
			}
			if !reflect.DeepEqual(f.Interface(), w.Field(i).Interface()) {
				t.Errorf("%s: the default is %v here and %v there", name, f.Interface(), w.Field(i).Interface())
			}
		}
	}
}

func empty(v reflect.Value) bool {
	return (v.Kind() == reflect.Slice || v.Kind() == reflect.Map) && v.Len() == 0
}

// A program with an empty file and a library with a zero Config must behave alike:
// every default of a package is stated twice, here and there, and this test keeps
// them equal.
func TestDefaultsAreThoseOfThePackages(t *testing.T) {
	c := Default(testEnvironment)
	checkMapped(t, c)

	same(t, "spool", c.Spool().WithDefaults(), settings.Settings{Dir: "./posthaste-data"}.WithDefaults())

	d := c.Driver().WithDefaults()
	core := qmgr.Config{}.WithDefaults()
	core.DefaultTransport.Connections.Level = mail.LevelOverlap
	core.Shares.Classes = []fair.Class{{Name: "normal", Weight: 4}}
	same(t, "qmgr", qmgrLess(d.Qmgr), qmgrLess(core))
	if d.Grace != 30*time.Second || d.FlowDelay != time.Second || d.Readers != 4 {
		t.Errorf("driver: %v %v %v", d.Grace, d.FlowDelay, d.Readers)
	}
	for name, limits := range d.Qmgr.Transports {
		want := core.DefaultTransport
		if c.Transports[name].Type.connects() {
			want.Agents = qmgr.AgentsConnections
		}
		same(t, "qmgr transport "+name, limits, want)
	}

	same(t, "inbound", c.Inbound().WithDefaults(), inbound.Config{Session: server.Config{Hostname: testEnvironment.Hostname}}.WithDefaults())
	same(t, "fast flush", c.FastFlush, inbound.FlushConfig{}.WithDefaults())
	policy, err := inbound.NewRelayPolicy(c.RelayPolicy())
	if err != nil {
		t.Fatal(err)
	}
	standard, err := inbound.NewRelayPolicy(inbound.RelayConfig{RelayDomains: []string{}})
	if err != nil {
		t.Fatal(err)
	}
	if !reflect.DeepEqual(policy, standard) {
		t.Errorf("relay policy: %+v, want %+v", policy, standard)
	}

	out := outbound.Config{Hello: testEnvironment.Hostname}.WithDefaults()
	out.Transports = map[string]outbound.TransportConfig{"smtp": {}, "relay": {}, "lmtp": {LMTP: true}}
	out = out.WithDefaults()
	got := c.Outbound().WithDefaults()
	for name := range got.Transports {
		same(t, "outbound "+name, got.Transports[name], out.Transports[name])
	}
	if !slices.Equal(sortedKeys(got.Transports), sortedKeys(out.Transports)) || got.AllowSelf || got.Self != out.Self {
		t.Errorf("outbound: %+v, want %+v", got, out)
	}

	routing := route.Config{Hostname: testEnvironment.Hostname}.WithDefaults()
	same(t, "route", c.Route().WithDefaults(), routing)

	resolving := resolve.Config{}.WithDefaults()
	resolving.Policy.HostsMax, resolving.Policy.AddressesMax = route.DefaultHostsMax, route.DefaultAddressesMax
	resolving.Policy.Self = c.Resolve().Policy.Self // the environment's
	same(t, "resolve", c.Resolve().WithDefaults(), resolving)

	reporting := report.Config{Hostname: testEnvironment.Hostname}.WithDefaults()
	reporting.Lifetime = 5 * 24 * time.Hour
	reporting.DoubleBounceTo = reporting.Postmaster // the core's default hands it nothing
	same(t, "report", c.Report().WithDefaults(), reporting)
}

func sortedKeys[V any](m map[string]V) []string { return bothKeys(m, nil) }

// qmgrLess removes the map of transports, which is compared separately.
func qmgrLess(c qmgr.Config) qmgr.Config {
	c.Transports = nil
	return c
}

// The values in a file reach the packages, and 0 becomes their value for none.
func TestMapping(t *testing.T) {
	c, err := Parse("test.toml", []byte(`
myhostname = "mail.example.com"
smtp_helo_name = "OUT.example.com"
listen = [":25", "192.0.2.1:2525", "127.0.0.1:0"]
proxy_interfaces = "198.51.100.1"
message_size_limit = 0
smtpd_recipient_limit = 0
smtpd_client_connection_count_limit = 0
smtpd_forbid_unauth_pipelining = true
strict_rfc821_envelopes = false
in_flow_delay = 0
shutdown_time = 0
backoff_jitter = 0
maximal_queue_lifetime = 0
default_destination_concurrency_limit = 0
default_destination_concurrency_failed_cohort_limit = 0
default_destination_recipient_limit = 0
default_delivery_slot_cost = 0
smtp_mx_address_limit = 7
smtp_loop_check = false
double_bounce = "report"
relayhost = "[relay.example.net]"
dns.stale_max = 0
[transport.bulk]
destination_concurrency_limit = 3
mx_address_limit = 0
connection_cache_time_limit = 0
pipelining = "group"
pipelining_in_flight = 8
destination_host_concurrency_limit = 3
fallback_relay = "[Last.example.net]:26, other.example.net"
permit_private_hosts = true
nexthop = "[bulk.example.net]"
[transport.sink]
type = "discard"
[routes]
"a.example" = "bulk:"
"b.example" = "bulk:[b.example.net]"
"c.example" = "smtp:"
`), Environment{Hostname: "h", Addresses: []netip.Addr{netip.MustParseAddr("203.0.113.5")}})
	if err != nil {
		t.Fatal(err)
	}
	check := func(what string, got, want any) {
		t.Helper()
		if !reflect.DeepEqual(got, want) {
			t.Errorf("%s: %v, want %v", what, got, want)
		}
	}
	in := c.Inbound()
	check("size", in.Session.SizeLimit, int64(server.Unlimited))
	check("recipients", in.Session.RecipientLimit, server.Unlimited)
	check("connections of a client", in.ClientConnectionLimit, inbound.Unlimited)
	check("lenient", in.Session.LenientPaths, true)
	check("early", terms(c)[0].EarlyTalkers, inbound.EarlyReject)

	d := c.Driver()
	check("flow delay", d.FlowDelay < 0, true)
	check("grace", d.Grace < 0, true)
	check("jitter", d.Qmgr.Backoff.JitterPercent < 0, true)
	check("lifetime", d.Qmgr.Backoff.MaximalQueueLifetime < 0, true)
	limits := d.WithDefaults().Qmgr
	check("smtp's window", limits.Transports["smtp"].Window.Limit, -1)
	check("smtp's cohorts", limits.Transports["smtp"].Window.FailedCohortLimit, -1)
	check("bulk's window", limits.Transports["bulk"].Window.Limit, 3)
	check("bulk's pipelining", limits.Transports["bulk"].Connections.Level, mail.LevelGroup)
	check("bulk's messages in flight", limits.Transports["bulk"].Connections.InFlight, 8)
	check("bulk's connections to a host", limits.Transports["bulk"].Connections.HostLimit, 3)
	check("bulk's idle time", limits.Transports["bulk"].Connections.IdleTime < 0, true)
	check("recipients of an entry", limits.Transports["bulk"].RecipientLimit, -1)
	check("preemption", limits.DefaultTransport.SlotCost, -1)

	out := c.Outbound()
	check("transports", sortedKeys(out.Transports), []string{"bulk", "lmtp", "relay", "smtp"})
	check("hello", out.Hello, "OUT.example.com")
	check("self", out.AllowSelf, true)
	own := []netip.AddrPort{
		netip.MustParseAddrPort("203.0.113.5:25"), netip.MustParseAddrPort("198.51.100.1:25"),
		netip.MustParseAddrPort("192.0.2.1:2525"), netip.MustParseAddrPort("198.51.100.1:2525"),
	}
	check("own", out.Own, own)
	check("trusted to dial", out.Trusted, c.Resolve().Trusted)
	bulk := out.Transports["bulk"]
	check("fallback", bulk.FallbackRelays, []string{"[last.example.net]:26", "other.example.net"})
	check("addresses", []int{bulk.MXAddressLimit, out.Transports["smtp"].MXAddressLimit}, []int{-1, 7})

	res := c.Resolve()
	check("names", res.Policy.Self.Names, []string{"mail.example.com", "out.example.com"})
	check("reach", res.Policy.Reach, route.ReachPrivate)
	check("address limit", res.Policy.AddressesMax > 1000, true)
	check("stale", res.NoStale, true)
	check("trusted", res.Trusted, []string{"[b.example.net]", "[bulk.example.net]", "[last.example.net]:26", "[relay.example.net]", "other.example.net"})
	check("double bounce", c.Report().WithDefaults().DoubleBounceTo, c.Report().WithDefaults().Postmaster)

	table, err := route.NewTable(c.Route())
	if err != nil {
		t.Fatal(err)
	}
	for address, want := range map[string]string{
		"x@a.example": "bulk [bulk.example.net]", "x@b.example": "bulk [b.example.net]", "x@c.example": "smtp c.example", "x@d.example": "smtp [relay.example.net]",
	} {
		r := table.Route(mail.Address(address))
		check(address, r.Transport+" "+r.Nexthop, want)
	}
	checkMapped(t, c)
}
