package outbound

import (
	"crypto/sha256"
	"crypto/tls"
	"fmt"
	"net/netip"
	"reflect"
	"testing"
	"time"

	"github.com/posthaste-mta/posthaste/dane"
	"github.com/posthaste-mta/posthaste/mail"
)

// Each session with a host is reported once with the fault of its TLS, whether or not mail was sent
// nevertheless. Sessions at levels that depend on the operator alone are not reported.
func TestSessionsAreTold(t *testing.T) {
	ca, other := newAuthority(t), newAuthority(t)
	valid := ca.certificate(t, "mx.test", time.Hour)
	with := func(c tls.Certificate) *ability {
		return &ability{offers: true, reply: "220 go ahead", config: &tls.Config{Certificates: []tls.Certificate{c}}}
	}
	servers := map[string]*ability{
		"none": {}, "refuses": {offers: true, reply: "454 4.7.0 not now"}, "closes": {offers: true, reply: "220 go ahead"},
		"unknown": with(other.certificate(t, "mx.test", time.Hour)), "expired": with(ca.certificate(t, "mx.test", -time.Hour)),
		"wrong": with(ca.certificate(t, "elsewhere.test", time.Hour)), "valid": with(valid),
	}
	addrs := make(map[string]netip.AddrPort)
	for name, s := range servers {
		addrs[name] = s.listen(t)
	}
	digest := sha256.Sum256(valid.Leaf.RawSubjectPublicKeyInfo)
	none, failed, unusable := dane.Answer{State: dane.None}, dane.Answer{State: dane.Failed, Why: "SERVFAIL"}, dane.Answer{State: dane.Unusable, Base: "mx.test"}
	match := dane.Answer{State: dane.Usable, Base: "mx.test", Records: dane.Records{{Usage: 3, Selector: 1, Matching: 1, Data: digest[:]}}}
	file := ca.file(t)
	for _, c := range []struct {
		demand, server string
		answer         dane.Answer
		told           []Fault
		failed         bool
	}{
		{"", "wrong", none, nil, false},
		{"encrypt", "none", none, nil, true},
		{"mta-sts", "none", none, []Fault{FaultPlaintext}, false},
		{"mta-sts", "refuses", none, []Fault{FaultPlaintext}, false},
		{"mta-sts", "closes", none, []Fault{FaultHandshake}, false},
		{"mta-sts", "unknown", none, []Fault{FaultUntrusted}, false},
		{"mta-sts", "expired", none, []Fault{FaultExpired}, false},
		{"mta-sts", "wrong", none, []Fault{FaultName}, false},
		{"mta-sts", "valid", none, []Fault{FaultNone}, false},
		{"sts", "none", none, []Fault{FaultPlaintext}, true},
		{"sts", "refuses", none, []Fault{FaultPlaintext}, true},
		{"sts", "closes", none, []Fault{FaultHandshake}, true},
		{"sts", "expired", none, []Fault{FaultExpired}, true},
		{"sts", "wrong", none, []Fault{FaultName}, true},
		{"sts", "valid", none, []Fault{FaultNone}, false},
		{"sts=mx.other.test", "valid", none, []Fault{FaultNotPermitted}, true},
		{"dane", "valid", match, []Fault{FaultNone}, false},
		{"dane", "wrong", match, []Fault{FaultMismatch}, true},
		{"dane", "none", match, []Fault{FaultPlaintext}, true},
		{"dane", "valid", unusable, []Fault{FaultRecords}, false},
		{"dane", "valid", failed, []Fault{FaultDNSSEC}, true},
		{"dane-only", "valid", none, []Fault{FaultNoRecords}, true},
		{"dane-only", "valid", unusable, []Fault{FaultRecords}, true},
	} {
		var told []Session
		client, err := New(Config{Hello: "me.test", Transports: map[string]TransportConfig{"smtp": {TLS: TLSConfig{CAFile: file}}}, TLSA: records{answer: c.answer},
			Sessions: func(s Session) { told = append(told, s) }}, nil, nil, nil)
		if err != nil {
			t.Fatal(err)
		}
		for round := range 2 { // the second finds a host that is known to be broken
			told = nil
			k, _ := client.Dial(t.Context(), mail.Opening{Transport: "smtp", Nexthop: "example.test", Security: c.demand, Host: mail.Host{Name: "mx.test", Addr: addrs[c.server]}})
			if k != nil {
				k.telling.carries(&mail.Delivery{Nexthop: "example.test", Callout: true})
				for range 2 {
					k.telling.carries(&mail.Delivery{Nexthop: "example.test"})
				}
				k.Hangup()
				k.Run(t.Context(), func(uint64, mail.DeliveryResult) {})
			}
			var faults []Fault
			for _, s := range told {
				faults = append(faults, s.Fault)
				local := s.From.IsValid() || s.Fault == FaultNotPermitted || s.Fault == FaultDNSSEC || s.Fault == FaultNoRecords || s.Fault == FaultRecords
				if s.Failed != c.failed || s.Nexthop != "example.test" || s.Security != c.demand || !local {
					t.Errorf("%q, %s: %+v", c.demand, c.server, s)
				}
			}
			if !reflect.DeepEqual(faults, c.told) || (k == nil) != c.failed {
				t.Errorf("%q, %s, round %d: told %v, want %v; connected %v", c.demand, c.server, round, faults, c.told, k != nil)
			}
		}
	}
}

// A session that carries mail for several domains or nexthops is reported once for each.
func TestSessionsOfSites(t *testing.T) {
	var told []string
	tell := telling{session: Session{Nexthop: "{mx.test}"}, sink: func(s Session) { told = append(told, s.Nexthop+" "+s.Domain) }}
	tell.ready(&protection{}, mail.Security{})
	tell.carries(&mail.Delivery{Nexthop: "{mx.test}", Recipients: []mail.Recipient{{Address: "a@a.test"}, {Address: "b@A.test"}, {Address: "c@b.test"}}})
	tell.carries(&mail.Delivery{Nexthop: "{mx.test}", Recipients: []mail.Recipient{{Address: "c@b.test"}, {Address: "nobody"}, {Address: "d@c.test"}}})
	tell.carries(&mail.Delivery{Nexthop: "d.test", Recipients: []mail.Recipient{{Address: "c@b.test"}}})
	if want := []string{"{mx.test} a.test", "{mx.test} b.test", "{mx.test} c.test", "d.test "}; !reflect.DeepEqual(told, want) {
		t.Errorf("%v, want %v", told, want)
	}
	for i := range 2 * toldMax {
		tell.carries(&mail.Delivery{Nexthop: fmt.Sprint("d", i, ".test")})
	}
	if len(told) != toldMax {
		t.Errorf("%d nexthops", len(told))
	}
}
