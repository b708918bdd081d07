package tlspolicy

import (
	"reflect"
	"strings"
	"testing"

	"github.com/posthaste-mta/posthaste/mail"
)

var digest = strings.Repeat("0f", 32)

// What a policy demands for a nexthop, as text, or why that can never be met.
func TestDemands(t *testing.T) {
	enforced := Nexthop{Domain: "a.example", Enforced: true}
	for _, c := range []struct {
		policy Policy
		to     Nexthop
		want   string
	}{
		{Policy{Level: None}, Nexthop{Domain: "a.example"}, "none"},
		{Policy{Level: May}, enforced, ""},
		{Policy{Level: Encrypt}, Nexthop{}, "encrypt"},
		{Policy{Level: Fingerprint, Fingerprints: []string{"b" + digest[1:], digest}}, Nexthop{}, "fingerprint=" + digest + ",b" + digest[1:]},
		{Policy{Level: Verify}, Nexthop{Domain: "a.example"}, "verify"},
		{Policy{Level: Verify, Match: []string{"nexthop", "MX.b.example"}}, Nexthop{Domain: "a.example"}, "verify=a.example,mx.b.example"},
		{Policy{Level: Verify, Match: []string{"nexthop"}}, Nexthop{}, "verify"},
		{Policy{Level: Secure}, Nexthop{Domain: "a.example"}, "secure=.a.example,a.example"},
		{Policy{Level: Secure, Match: []string{"hostname", "hostname"}}, Nexthop{Domain: "a.example"}, "secure=hostname"},
		{Policy{Level: Secure}, Nexthop{Domain: "A.Example."}, "secure=.a.example,a.example"},
		{Policy{Level: Secure}, Nexthop{}, "! level secure needs a domain"},
		{Policy{Level: Secure, Match: []string{"mx.example"}}, Nexthop{}, "secure=mx.example"},
		{Policy{Level: DANE}, Nexthop{Domain: "a.example"}, "dane"},
		{Policy{Level: DANEOnly}, Nexthop{Domain: "a.example", SecureMX: true}, "dane-only"},
		{Policy{Level: DANEOnly}, Nexthop{Domain: "a.example"}, "! level dane-only needs MX records that are protected"},
		{Policy{Level: STS}, Nexthop{Domain: "a.example"}, "mta-sts"},
		{Policy{Level: STS}, enforced, "sts"},
		{Policy{Level: Encrypt, Implicit: true}, Nexthop{}, "encrypt+implicit"},
		{Policy{Level: Secure, Implicit: true}, Nexthop{Domain: "a.example"}, "secure=.a.example,a.example+implicit"},
		{Policy{Level: DANE, Implicit: true}, Nexthop{Domain: "a.example"}, "dane+implicit"},
		{Policy{Level: STS, Implicit: true}, enforced, "sts+implicit"},
		{Policy{Level: None, Implicit: true}, Nexthop{Domain: "a.example"}, "encrypt+implicit"},
		{Policy{Level: May, Implicit: true}, Nexthop{Domain: "a.example"}, "encrypt+implicit"},
		{Policy{Level: STS}, Nexthop{Domain: "a.example", Enforced: true, MX: []string{"mx.a.example", "*.b.example"}}, "sts=*.b.example,mx.a.example"},
	} {
		d, why := c.policy.For(c.to)
		got := d.String()
		if !why.IsZero() {
			got = "! " + why.Text
		}
		if got != c.want && !(strings.HasPrefix(c.want, "! ") && strings.HasPrefix(got, c.want)) {
			t.Errorf("%+v for %+v: %q, want %q", c.policy, c.to, got, c.want)
		}
		if !why.IsZero() {
			if !why.Temporary() {
				t.Errorf("%v: mail would be returned", why)
			}
			continue
		}
		for d.Keyword = range Keyword(keywords) {
			for _, d.Credential = range []string{"", "office.1"} {
				if again, err := ParseDemand(d.String()); err != nil || !reflect.DeepEqual(again, d) {
					t.Errorf("%q is read as %+v, %v", d.String(), again, err)
				}
			}
		}
	}
}

// A text that String has not made is refused, whatever it resembles: mail must not go by a
// weaker demand than its own.
func TestWrongDemands(t *testing.T) {
	for _, text := range []string{"may", "None", "encrypt=", "sts+requiretls ", "+requiretls+requiretls", "secure=,", "mta-sts=", "=", "=a", "level 9", "fingerprint", "x", "+auth=", "may+auth=x", "+requiretls+auth=x", "+wants-requiretls+requiretls", "+requiretls+wants-requiretls", "secure+auth=x",
		"+implicit", "none+implicit", "may+implicit", "+implicit+auth=x", "+implicit+requiretls", "encrypt+implicit+implicit", "encrypt+auth=x+implicit", "encrypt+requiretls+implicit", "encrypt+implicit ", "secure+implicit"} {
		d, err := ParseDemand(text)
		if err == nil {
			t.Errorf("%q is read as %+v", text, d)
		}
	}
}

func FuzzParseDemand(f *testing.F) {
	for _, text := range []string{"", "none", "sts=*.a,b", "secure=.a.example,a.example+requiretls", "fingerprint=" + digest, "dane-only", "+requiretls", "dane+wants-requiretls", "+auth=a.b-c", "dane+auth=a.b-c~01ab+requiretls", "verify=a.example+auth=x+requiretls", "sts+auth=x", "encrypt+implicit", "verify=a.example+implicit+auth=x+requiretls", "dane-only+implicit+wants-requiretls"} {
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text string) {
		d, err := ParseDemand(text)
		if err == nil && d.String() != text {
			t.Errorf("%q becomes %q", text, d.String())
		}
		for records := RecordsNone; records < recordsStates; records++ {
			r, why := d.For(records)
			if err == nil && why.IsZero() && r.Check != CheckNothing && r.Use != UseAlways {
				t.Errorf("%q, records %d: a certificate is demanded, and TLS is not", text, records)
			}
			if err == nil && why.IsZero() && r.Implicit && r.Use != UseAlways {
				t.Errorf("%q, records %d: plaintext is left where TLS comes first", text, records)
			}
		}
	})
}

func TestValidate(t *testing.T) {
	many := strings.Split(strings.Repeat("a.example ", 9), " ")[:9]
	for _, c := range []struct {
		policy Policy
		want   string
	}{
		{Policy{Level: May}, ""},
		{Policy{Level: Secure, Match: []string{"a.example", ".b.example", "nexthop"}}, ""},
		{Policy{Level: Fingerprint, Fingerprints: []string{strings.ToUpper(digest)}}, ""},
		{Policy{Level: Encrypt, Implicit: true}, ""},
		{Policy{Level: STS, Implicit: true}, ""},
		{Policy{Level: May, Implicit: true}, "at least encrypt, not may"},
		{Policy{Level: None, Implicit: true}, "at least encrypt, not none"},
		{Policy{Level: Encrypt, Match: []string{"a.example"}}, "for the levels verify and secure"},
		{Policy{Level: Fingerprint}, "at least one fingerprint"},
		{Policy{Level: Verify, Fingerprints: []string{digest}}, "for the level fingerprint"},
		{Policy{Level: Fingerprint, Fingerprints: []string{"00:11"}}, "no SHA-256 digest"},
		{Policy{Level: Verify, Match: []string{"a,b"}}, "no name of a certificate"},
		{Policy{Level: Verify, Match: []string{"."}}, "no name of a certificate"},
		{Policy{Level: Verify, Match: many}, "more than 8"},
		{Policy{Level: levels}, "no TLS level 9"},
	} {
		err := c.policy.Validate()
		if (err == nil) != (c.want == "") || err != nil && !strings.Contains(err.Error(), c.want) {
			t.Errorf("%+v: %v, want %q", c.policy, err, c.want)
		}
	}
}

// RFC 6125 6.4.3 and RFC 8461 4.1: a star is one whole label, the first.
func TestMatchName(t *testing.T) {
	for _, c := range []struct {
		want, has string
		match     bool
	}{
		{"mx.example", "mx.example", true}, {"MX.example.", "mx.EXAMPLE", true}, {"mx.example", "*.example", true},
		{"a.mx.example", "*.example", false}, {"example", "*.example", false}, {"mx.example", "m*.example", false}, {"mx.example", "*", false},
		{".example", "mx.example", true}, {".example", "a.mx.example", true}, {".example", "example", false}, {".example", "*.example", true},
		{".example", ".example", false}, {"mxexample", ".example", false}, {".example", "badexample", false},
		{"", "", false}, {"", "mx.example", false}, {"mx.example", "", false}, {"*.example", "*.example", true},
	} {
		if MatchName(c.want, c.has) != c.match {
			t.Errorf("want %q, has %q: %t", c.want, c.has, !c.match)
		}
	}
}

func TestTable(t *testing.T) {
	table, err := NewTable(map[string]Policy{"smtp": {Level: DANE}, "first": {Level: Verify, Implicit: true}}, []Rule{
		{[]string{"a.example", ".b.example"}, Policy{Level: Encrypt}}, {[]string{".C.b.example"}, Policy{Level: None}}, {[]string{".example"}, Policy{Level: Verify}},
	})
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		transport, domain string
		want              Level
	}{
		{"smtp", "a.example", Encrypt}, {"smtp", "x.a.example", Verify}, {"smtp", "b.example", Verify}, {"smtp", "x.b.example", Encrypt},
		{"smtp", "x.y.b.example", Encrypt}, {"smtp", "x.c.b.example", None}, {"smtp", "c.b.example", Encrypt}, {"smtp", "example", DANE},
		{"smtp", "a.test", DANE}, {"smtp", "", DANE}, {"relay", "a.test", May}, {"relay", "a.example", Encrypt},
		{"smtp", "A.Example", Encrypt}, {"smtp", "a.example.", Encrypt}, {"smtp", "X.C.B.Example.", None},
		{"first", "a.test", Verify}, {"first", "a.example", Encrypt}, {"first", "x.c.b.example", None},
	} {
		got := table.Policy(c.transport, c.domain)
		if got.Level != c.want {
			t.Errorf("%s %s: %v, want %v", c.transport, c.domain, got.Level, c.want)
		}
		if got.Implicit != (c.transport == "first") { // which no rule for a domain changes
			t.Errorf("%s %s: TLS comes first: %v", c.transport, c.domain, got.Implicit)
		}
	}
	if _, err := NewTable(nil, []Rule{{[]string{"a.example", "A.example"}, Policy{}}}); err == nil {
		t.Error("two policies for a.example")
	}
	if p := (*Table)(nil).Policy("smtp", "a.example"); p.Level != May {
		t.Errorf("no table: %v", p)
	}
}

// What a demand comes to for a host, by its TLSA records; "!" if the host must not be used.
func TestRequirements(t *testing.T) {
	show := func(r Requirement) string {
		text := [...]string{"never", "offered", "always"}[r.Use] + " " + [...]string{"nothing", "name", "fingerprint", "tlsa"}[r.Check]
		if len(r.Names) > 0 {
			text += "=" + strings.Join(r.Names, ",")
		}
		text += [...]string{"", " wanted", " keyword"}[r.Keyword]
		if r.Implicit {
			text += " first"
		}
		return text
	}
	for _, c := range []struct {
		demand string
		want   [recordsStates]string // none, usable, unusable, failed; one for all if the others are empty
	}{
		{"none", [...]string{"never nothing", "", "", ""}},
		{"", [...]string{"offered nothing", "", "", ""}},
		{"encrypt", [...]string{"always nothing", "", "", ""}},
		{"verify", [...]string{"always name", "", "", ""}},
		{"verify=a.test", [...]string{"always name=a.test", "", "", ""}},
		{"secure=a.test", [...]string{"always name=a.test", "", "", ""}},
		{"fingerprint=" + digest, [...]string{"always fingerprint=" + digest, "", "", ""}},
		{"dane", [...]string{"offered nothing", "always tlsa", "always nothing", "!"}},
		{"dane-only", [...]string{"!", "always tlsa", "!", "!"}},
		{"mta-sts", [...]string{"offered nothing", "always tlsa", "always nothing", "!"}},
		{"sts=*.a.test", [...]string{"always name", "always tlsa", "always name", "!"}},
		{"+wants-requiretls", [...]string{"offered nothing wanted", "", "", ""}},
		{"sts=*.a.test+wants-requiretls", [...]string{"always name wanted", "always tlsa wanted", "always name wanted", "!"}},
		{"+requiretls", [...]string{"always name keyword", "", "", ""}},
		{"none+requiretls", [...]string{"always name keyword", "", "", ""}},
		{"encrypt+requiretls", [...]string{"always name keyword", "", "", ""}},
		{"secure=a.test+requiretls", [...]string{"always name=a.test keyword", "", "", ""}},
		{"dane+requiretls", [...]string{"always name keyword", "always tlsa keyword", "always name keyword", "!"}},
		{"encrypt+implicit", [...]string{"always nothing first", "", "", ""}},
		{"secure=a.test+implicit", [...]string{"always name=a.test first", "", "", ""}},
		{"dane+implicit", [...]string{"always nothing first", "always tlsa first", "always nothing first", "!"}},
		{"dane-only+implicit", [...]string{"!", "always tlsa first", "!", "!"}},
		{"mta-sts+implicit+requiretls", [...]string{"always name keyword first", "always tlsa keyword first", "always name keyword first", "!"}},
		{"dane-only+requiretls", [...]string{"!", "always tlsa keyword", "!", "!"}},
	} {
		d, err := ParseDemand(c.demand)
		if err != nil {
			t.Fatal(err)
		}
		for records := RecordsNone; records < recordsStates; records++ {
			want := c.want[records]
			if c.want[1] == "" {
				want = c.want[0]
			}
			r, why := d.For(records)
			got := show(r)
			if !why.IsZero() {
				got = "!"
			}
			if got != want || !why.IsZero() && !why.Temporary() {
				t.Errorf("%q, records %d: %s %v, want %s", c.demand, records, got, why, want)
			}
		}
		if wants := c.want[1] != ""; d.WantsRecords() != wants {
			t.Errorf("%q: records matter: %v", c.demand, !wants)
		}
	}
}

// Only an enforced policy names hosts.
func TestAllows(t *testing.T) {
	for _, c := range []struct {
		demand, host string
		want         bool
	}{
		{"", "mx.a.test", true}, {"verify=b.test", "mx.a.test", true}, {"mta-sts", "mx.a.test", true},
		{"sts=mx.a.test", "mx.a.test", true}, {"sts=mx.a.test", "MX.A.test.", true}, {"sts=mx.a.test", "mx.b.test", false},
		{"sts=*.a.test,b.test", "mx.a.test", true}, {"sts=*.a.test,b.test", "b.test", true}, {"sts=*.a.test,b.test", "a.test", false},
		{"sts=*.a.test", "x.mx.a.test", false}, {"sts=mx.a.test", "", false},
	} {
		d, err := ParseDemand(c.demand)
		if err != nil {
			t.Fatal(err)
		}
		if d.Allows(c.host) != c.want {
			t.Errorf("%q allows %q: %v", c.demand, c.host, !c.want)
		}
	}
}

// What mail demands whose sender asks for REQUIRETLS, or for no TLS, by the operator's policy and by what
// is known of the domain; "!" if it can never be sent.
func TestAsked(t *testing.T) {
	insecure, secure := Nexthop{Domain: "a.test"}, Nexthop{Domain: "a.test", SecureMX: true}
	enforced := Nexthop{Domain: "a.test", Enforced: true, MX: []string{"mx.a.test"}}
	fixed := Policy{Level: Fingerprint, Fingerprints: []string{digest}}
	for _, c := range []struct {
		policy                     Policy
		insecure, secure, enforced string // with REQUIRETLS
		optional                   Level
	}{
		{Policy{Level: None}, "!", "mta-sts", "sts=mx.a.test", None},
		{Policy{Level: May}, "!", "mta-sts", "sts=mx.a.test", May},
		{Policy{Level: Encrypt}, "!", "mta-sts", "sts=mx.a.test", Encrypt},
		{Policy{Level: DANE}, "!", "mta-sts", "sts=mx.a.test", May},
		{Policy{Level: STS}, "!", "mta-sts", "sts=mx.a.test", May},
		{Policy{Level: DANEOnly}, "?", "dane-only", "?", DANEOnly},
		{Policy{Level: Verify}, "!", "verify", "sts=mx.a.test", Verify},
		{Policy{Level: Verify, Match: []string{"hostname", "x.test"}}, "!", "verify=hostname,x.test", "sts=mx.a.test", Verify},
		{Policy{Level: Verify, Match: []string{"x.test"}}, "verify=x.test", "verify=x.test", "verify=x.test", Verify},
		{Policy{Level: Secure}, "secure=.a.test,a.test", "secure=.a.test,a.test", "secure=.a.test,a.test", Secure},
		{Policy{Level: Secure, Match: []string{"hostname"}}, "!", "secure=hostname", "sts=mx.a.test", Secure},
		{fixed, "fingerprint=" + digest, "fingerprint=" + digest, "fingerprint=" + digest, Fingerprint},
	} {
		for i, want := range []string{c.insecure, c.secure, c.enforced} {
			d, why := c.policy.Asked(mail.TLSRequired).Required([]Nexthop{insecure, secure, enforced}[i])
			got, ok := strings.CutSuffix(d.String(), "+requiretls")
			switch {
			case why.Permanent() && why.Status == mail.Status{Class: 5, Subject: 7, Detail: 10}:
				got = "!"
			case why.Temporary():
				got = "?"
			}
			if got != want || !ok {
				t.Errorf("%+v, nexthop %d: %q %v, want %q", c.policy, i, d, why, want)
			}
		}
		if got := c.policy.Asked(mail.TLSOptional); got.Level != c.optional {
			t.Errorf("%+v with TLS-Required: No: %v, want %v", c.policy, got.Level, c.optional)
		}
		if got := c.policy.Asked(mail.TLSUnset); !reflect.DeepEqual(got, c.policy) {
			t.Errorf("%+v becomes %+v", c.policy, got)
		}
		c.policy.Implicit = true // which no message changes
		for _, r := range []mail.TLSRequest{mail.TLSUnset, mail.TLSRequired, mail.TLSOptional} {
			for _, to := range []Nexthop{insecure, secure, enforced} {
				if d, why := c.policy.Asked(r).Required(to); why.IsZero() && (!d.Implicit || !d.Level.Encrypts()) {
					t.Errorf("%+v, %v: %q", c.policy, r, d)
				}
			}
		}
	}
}
