package flow

import (
	"net/netip"
	"strings"
	"testing"

	"github.com/posthaste-mta/posthaste/mail"
	"github.com/posthaste-mta/posthaste/smtp"
)

// A given is a message in the tests.
type given struct {
	client     string // address, or "user@" for the submission socket
	listener   string
	name       string // of the listener
	sender     mail.Address
	recipients int
	header     string
}

func compiled(t *testing.T, cfg Config) *Rules {
	t.Helper()
	r, err := NewRules(cfg)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

// classify sends a message's header through a scan, as a session does.
func classify(r *Rules, g given) (mail.Flow, string) {
	var addr netip.Addr
	user, local := strings.CutSuffix(g.client, "@")
	if !local {
		addr, user = netip.MustParseAddr(g.client), ""
	}
	var listener netip.AddrPort
	if g.listener != "" {
		listener = netip.MustParseAddrPort(g.listener)
	}
	var scan smtp.FieldScan
	scan.Begin(r.Watch())
	scan.Next([]byte(g.header + "\r\n"))
	scan.End()
	return r.Classify(&Message{Client: NewClient(addr, Listener{listener, g.name}, user), Sender: g.sender, Recipients: max(g.recipients, 1), Fields: scan.Found()})
}

func check(t *testing.T, r *Rules, g given, want mail.Flow) {
	t.Helper()
	if got, unknown := classify(r, g); got != want || unknown != "" {
		t.Errorf("%+v is %+v (unknown class %q), want %+v", g, got, unknown, want)
	}
}

// Without configuration, what says that it is bulk mail is, and the network of the
// client is the tenant.
func TestDefaults(t *testing.T) {
	r := compiled(t, Config{})
	for header, class := range map[string]string{
		"":                                           ClassNormal,
		"Subject: bulk\r\n":                          ClassNormal,
		"List-Unsubscribe: <mailto:x@y>\r\n":         ClassBulk,
		"list-id: <l.example.com>\r\n":               ClassBulk,
		"List-Post: <mailto:x@y>\r\n":                ClassNormal,
		"Precedence: bulk\r\n":                       ClassBulk,
		"PRECEDENCE:\r\n LIST\r\n":                   ClassBulk,
		"Precedence: first-class\r\n":                ClassNormal,
		"Precedence: junk\r\n":                       ClassNormal,
		"Precedence: urgent\r\nPrecedence: bulk\r\n": ClassBulk,
	} {
		check(t, r, given{client: "192.0.2.1", sender: "a@b", header: header}, mail.Flow{Class: class, Tenant: "192.0.2.0/24", Flow: "a@b"})
	}
	check(t, r, given{client: "192.0.2.1", sender: "a@b", recipients: 100}, mail.Flow{Class: ClassNormal, Tenant: "192.0.2.0/24", Flow: "a@b"})
	check(t, r, given{client: "192.0.2.1", sender: "a@b", recipients: 101}, mail.Flow{Class: ClassBulk, Tenant: "192.0.2.0/24", Flow: "a@b"})
	for client, tenant := range map[string]string{
		"192.0.2.255": "192.0.2.0/24", "::ffff:192.0.2.7": "192.0.2.0/24", "2001:db8:1:2:3::4": "2001:db8:1:2::/64", "fe80::1%eth0": "fe80::/64",
		"127.0.0.1": "local", "::1": "local", "@": "local", "uid:33@": "uid:33", "10.1.2.3": "10.1.2.0/24",
	} {
		check(t, r, given{client: client}, mail.Flow{Class: ClassNormal, Tenant: tenant, Flow: "<>"})
	}
}

// A permitted client names class and tenant itself. Other clients cannot, and a class that does
// not exist is no reason to refuse a message.
func TestHeaders(t *testing.T) {
	r := compiled(t, Config{Classes: []Class{{Name: "otp", Weight: 50}}})
	const header = "X-Posthaste-Class: otp\r\nX-Posthaste-Tenant:  Big Shop\r\nList-Id: x\r\n"
	for _, client := range []string{"127.0.0.1", "::1", "uid:0@"} {
		check(t, r, given{client: client, header: header}, mail.Flow{Class: "otp", Tenant: "Big?Shop", Flow: "<>"})
	}
	check(t, r, given{client: "192.0.2.1", header: header}, mail.Flow{Class: ClassBulk, Tenant: "192.0.2.0/24", Flow: "<>"})
	check(t, r, given{client: "::1", header: "X-Posthaste-Class:\r\nX-Posthaste-Tenant:\r\n"}, mail.Flow{Class: ClassNormal, Tenant: "local", Flow: "<>"})
	check(t, r, given{client: "::1", header: "X-Posthaste-Class: otp\r\nX-Posthaste-Class: normal\r\n"}, mail.Flow{Class: "otp", Tenant: "local", Flow: "<>"})
	f, unknown := classify(r, given{client: "::1", header: "X-Posthaste-Class: OTP\r\nList-Id: x\r\n"})
	if unknown != "OTP" || f.Class != ClassBulk {
		t.Errorf("%+v, unknown %q", f, unknown)
	}
	if f, unknown = classify(r, given{client: "192.0.2.1", header: "X-Posthaste-Class: OTP\r\n"}); unknown != "" || f.Class != ClassNormal {
		t.Errorf("a stranger: %+v, unknown %q", f, unknown)
	}
	long := strings.Repeat("t", 200)
	if f, _ = classify(r, given{client: "::1", header: "X-Posthaste-Tenant: " + long + "\r\n"}); len(f.Tenant) > mail.TenantMax {
		t.Errorf("a tenant of %d bytes", len(f.Tenant))
	}
	narrow := compiled(t, Config{HeaderClients: []netip.Prefix{netip.MustParsePrefix("192.0.2.1/32")}, Classes: []Class{{Name: "otp", Weight: 50}}})
	check(t, narrow, given{client: "192.0.2.1", header: header}, mail.Flow{Class: "otp", Tenant: "Big?Shop", Flow: "<>"})
	check(t, narrow, given{client: "127.0.0.1", header: header}, mail.Flow{Class: ClassBulk, Tenant: "local", Flow: "<>"})
}

// Of each kind of condition one must be met, and the first rule wins.
func TestRules(t *testing.T) {
	r := compiled(t, Config{
		Tenants: []Tenant{
			{Name: "shop", Weight: 1, Match: Match{Senders: []string{"shop.example", ".shop.example", "boss@other.example"}}},
			{Name: "lan", Weight: 1, Match: Match{Clients: []netip.Prefix{netip.MustParsePrefix("10.0.0.0/8")}, Senders: []string{"*@lan.example"}}},
			{Name: "www", Weight: 1, Match: Match{Users: []string{"uid:33"}}},
		},
		Classes: []Class{
			{Name: "otp", Weight: 100, Strict: true, MaxShare: 20, Match: Match{Senders: []string{"otp@*", "*-code@shop.example"}, Tenants: []string{"sh*"}}},
			{Name: "reports", Weight: 1, Match: Match{Senders: []string{"<>"}}},
			{Name: "campaign", Weight: 2, Match: Match{Headers: []string{"X-Campaign", "Feedback-ID: *:shop"}}},
			{Name: "submission", Weight: 9, Match: Match{Listeners: []Listener{{Addr: netip.MustParseAddrPort("[::]:587")}, {Name: "vpn"}, {}}}},
			{Name: "many", Weight: 1, Match: Match{MinRecipients: 10, Clients: []netip.Prefix{netip.MustParsePrefix("10.0.0.0/8")}}},
			{Name: ClassBulk, Weight: 2},
		},
	})
	const lan, far = "10.1.2.3", "192.0.2.1"
	for _, test := range []struct {
		given
		class, tenant string
	}{
		{given{client: far, listener: "192.0.2.9:25", sender: "otp@shop.example"}, "otp", "shop"},
		{given{client: far, listener: "192.0.2.9:25", sender: "OTP@eu.Shop.Example"}, "otp", "shop"},
		{given{client: far, listener: "192.0.2.9:25", sender: "login-code@shop.example", header: "X-Campaign: 1\r\n"}, "otp", "shop"},
		{given{client: far, listener: "192.0.2.9:25", sender: "otp@bookshop.example"}, ClassNormal, "192.0.2.0/24"},
		{given{client: far, listener: "192.0.2.9:25", sender: "boss@other.example"}, ClassNormal, "shop"},
		{given{client: far, listener: "192.0.2.9:25"}, "reports", "192.0.2.0/24"},
		{given{client: lan, listener: "192.0.2.9:25", sender: "a@lan.example"}, ClassNormal, "lan"},
		{given{client: far, listener: "192.0.2.9:25", sender: "a@lan.example"}, ClassNormal, "192.0.2.0/24"},
		{given{client: lan, listener: "192.0.2.9:25", sender: "a@b", header: "x-campaign:\r\n"}, "campaign", "10.1.2.0/24"},
		{given{client: lan, listener: "192.0.2.9:25", sender: "a@b", header: "Feedback-ID: 1:2:Shop\r\n"}, "campaign", "10.1.2.0/24"},
		{given{client: lan, listener: "192.0.2.9:25", sender: "a@b", header: "Feedback-ID: 1:2:shopping\r\n"}, ClassNormal, "10.1.2.0/24"},
		{given{client: far, listener: "192.0.2.9:587", sender: "a@b", header: "List-Id: x\r\n"}, "submission", "192.0.2.0/24"},
		{given{client: far, listener: "192.0.2.9:26", name: "vpn", sender: "a@b"}, "submission", "192.0.2.0/24"},
		{given{client: far, listener: "192.0.2.9:26", name: "other", sender: "a@b"}, ClassNormal, "192.0.2.0/24"},
		{given{client: "uid:35@", name: "other", sender: "a@b"}, ClassNormal, "uid:35"}, // another unix socket
		{given{client: "uid:33@", sender: "a@b"}, "submission", "www"},
		{given{client: "uid:34@", sender: "a@b"}, "submission", "uid:34"},
		{given{client: lan, listener: "192.0.2.9:25", sender: "a@b", recipients: 10}, "many", "10.1.2.0/24"},
		{given{client: lan, listener: "192.0.2.9:25", sender: "a@b", recipients: 9}, ClassNormal, "10.1.2.0/24"},
		{given{client: far, listener: "192.0.2.9:25", sender: "a@b", recipients: 10}, ClassNormal, "192.0.2.0/24"},
		{given{client: far, listener: "192.0.2.9:25", sender: "a@b", recipients: 101}, ClassBulk, "192.0.2.0/24"},
	} {
		check(t, r, test.given, mail.Flow{Class: test.class, Tenant: test.tenant, Flow: Sender(test.sender)})
	}
}

// Conditions of its own replace the standard ones of the class bulk.
func TestBulkRedefined(t *testing.T) {
	r := compiled(t, Config{Classes: []Class{{Name: ClassBulk, Weight: 1, Match: Match{Headers: []string{"X-Bulk"}}}, {Name: ClassNormal, Weight: 8}}})
	check(t, r, given{client: "::1", recipients: 1000, header: "List-Id: x\r\n"}, mail.Flow{Class: ClassNormal, Tenant: "local", Flow: "<>"})
	check(t, r, given{client: "::1", header: "X-Bulk: x\r\n"}, mail.Flow{Class: ClassBulk, Tenant: "local", Flow: "<>"})
}

func TestKey(t *testing.T) {
	const header = "Feedback-ID: c1:cust:mail type:shop\r\n"
	for text, want := range map[string][2]string{ // with the field, and without it
		"sender":             {"news@shop.example", "news@shop.example"},
		"sender-domain":      {"shop.example", "shop.example"},
		"none":               {"*", "*"},
		"header:Feedback-ID": {"c1:cust:mail?type:shop", "news@shop.example"},
	} {
		key, err := ParseKey(text)
		if err != nil || key.String() != text {
			t.Errorf("%q is %v: %v", text, key, err)
		}
		r := compiled(t, Config{Key: key})
		for i, h := range []string{header, ""} {
			check(t, r, given{client: "::1", sender: "news+7@Shop.example", header: h}, mail.Flow{Class: ClassNormal, Tenant: "local", Flow: want[i]})
		}
	}
	r := compiled(t, Config{Key: Key{Kind: KeyHeader, Header: "x-posthaste-tenant"}}) // a field that is watched anyway
	check(t, r, given{client: "::1", header: "X-Posthaste-Tenant: t\r\n"}, mail.Flow{Class: ClassNormal, Tenant: "t", Flow: "t"})
	for _, text := range []string{"", "Sender", "header:", "header:a b", "header:a:b", "header:" + strings.Repeat("x", 77)} {
		if _, err := ParseKey(text); err == nil {
			t.Errorf("%q is accepted", text)
		}
	}
}

// Every mistake is found, and what is found is a mistake.
func TestValidate(t *testing.T) {
	if err := (Config{}).Validate(); err != nil {
		t.Error(err)
	}
	sender := Match{Senders: []string{"x"}}
	for want, cfg := range map[string]Config{
		"not a name":             {Classes: []Class{{Name: "a b", Weight: 1}}},
		"there twice":            {Classes: []Class{{Name: "a", Weight: 1}, {Name: "a", Weight: 1}}},
		"weight 0":               {Classes: []Class{{Name: "a"}}},
		"weight 1001":            {Tenants: []Tenant{{Name: "a", Weight: 1001, Match: sender}}},
		"maximum share 0":        {Classes: []Class{{Name: "a", Weight: 1, Strict: true}}},
		"the sum is 91 %":        {Classes: []Class{{Name: "a", Weight: 1, Strict: true, MaxShare: 45}, {Name: "b", Weight: 1, Strict: true, MaxShare: 46}}},
		"maximum share 91":       {Classes: []Class{{Name: "a", Weight: 1, Strict: true, MaxShare: 91}}},
		"without strict":         {Classes: []Class{{Name: "a", Weight: 1, MaxShare: 1}}},
		"not the name of a":      {Classes: []Class{{Name: "a", Weight: 1, Match: Match{Headers: []string{": x"}}}}},
		"is negative":            {Classes: []Class{{Name: "a", Weight: 1, Match: Match{MinRecipients: -1}}}},
		"is empty":               {Classes: []Class{{Name: "a", Weight: 1, Match: Match{Senders: []string{""}}}}},
		"no conditions":          {Tenants: []Tenant{{Name: "a", Weight: 1}}},
		"sender, client or user": {Tenants: []Tenant{{Name: "a", Weight: 1, Match: Match{Headers: []string{"X"}}}}},
		"network is not valid":   {Tenants: []Tenant{{Name: "a", Weight: 1, Match: Match{Clients: []netip.Prefix{{}}}}}},
		"header clients":         {HeaderClients: []netip.Prefix{{}}},
	} {
		if err := cfg.Validate(); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("want %q, got %v", want, err)
		}
	}
}

// A stupid pattern must not take long.
// Nothing is allocated for an ordinary message.
func BenchmarkClassify(b *testing.B) {
	r, err := NewRules(Config{})
	if err != nil {
		b.Fatal(err)
	}
	m := Message{Client: NewClient(netip.MustParseAddr("192.0.2.1"), Listener{}, ""), Sender: "news@shop.example", Recipients: 1}
	b.ReportAllocs()
	for b.Loop() {
		r.Classify(&m)
	}
}

func TestClassifyAllocates(t *testing.T) {
	r := compiled(t, Config{})
	m := Message{Client: NewClient(netip.MustParseAddr("192.0.2.1"), Listener{}, ""), Sender: "news@shop.example", Recipients: 1}
	header := []byte("Received: x\r\nFrom: a@b\r\nSubject: x\r\nList-Id: <x.example.com>\r\nPrecedence: bulk\r\n\r\nHi\r\n")
	var scan smtp.FieldScan
	if n := testing.AllocsPerRun(100, func() {
		scan.Begin(r.Watch())
		scan.Next(header)
		scan.End()
		m.Fields = scan.Found()
		r.Classify(&m)
	}); n != 0 {
		t.Errorf("%v allocations per message", n)
	}
}
