package flow

import (
	"math/rand/v2"
	"net/netip"
	"strings"
	"testing"

	"github.com/posthaste-mta/posthaste/mail"
)

// Senders as they are seen in the wild: of people, of mailing lists, of bulk mail
// services and of forwarders.
func TestSender(t *testing.T) {
	for _, test := range []struct{ address, want string }{
		// What must stay apart: ordinary addresses.
		{"", "<>"},
		{"otp@shop.example", "otp@shop.example"},
		{"news@shop.example", "news@shop.example"},
		{"News@Shop.EXAMPLE", "news@shop.example"},
		{"first.last@example.com", "first.last@example.com"},
		{"first-last@example.com", "first-last@example.com"},
		{"web1@example.com", "web1@example.com"},
		{"web12@example.com", "web12@example.com"},
		{"12@example.com", "12@example.com"},
		{"cafe@example.com", "cafe@example.com"},
		{"list-bounces@lists.example.com", "list-bounces@lists.example.com"},
		{"owner-list@lists.example.com", "owner-list@lists.example.com"},
		{"postmaster", "postmaster"},
		{"root@localhost", "root@localhost"},
		{"user@[192.0.2.1]", "user@[192.0.2.1]"},
		{"user@mx-12345.example.com", "user@mx-12345.example.com"},
		{`"odd+quoted 1234"@example.com`, `"odd+quoted?1234"@example.com`},
		{"jos\xc3\xa9@ex\xc3\xa4mple.com", "jos\xc3\xa9@ex\xc3\xa4mple.com"},
		{"+x@example.com", "+x@example.com"},

		// Plus addresses.
		{"me+shopping@example.com", "me@example.com"},
		{"me+a+b@example.com", "me@example.com"},

		// VERP: Postfix (verp_delimiters), qmail and ezmlm, mailman 2 and 3, sympa, Google groups.
		{"owner-list+jane=example.net@lists.example.com", "owner-list@lists.example.com"},
		{"list-owner+jane.doe=example.net@lists.example.com", "list-owner@lists.example.com"},
		{"a-x=y@example.com", "a@example.com"},
		{"news-jane=example.net@example.com", "news@example.com"},
		{"news-jane-doe=mail-1.example.net@example.com", "news@example.com"},
		{"list-return-12-jane=example.net@lists.example.com", "list-return@lists.example.com"},
		{"my-list-return-12345-jane-doe=example.net@lists.example.com", "my-list-return@lists.example.com"},
		{"list-return-7-@lists.example.com-@[]", "list-return-*-@lists.example.com-@[]"},
		{"list-bounces+jane=example.net@lists.example.com", "list-bounces@lists.example.com"},
		{"list-bounces+jane_doe=example.net@lists.example.com", "list-bounces@lists.example.com"},
		{"bounce-list-jane=example.net@lists.example.com", "bounce@lists.example.com"},
		{"jane=example.net@bounces.shop.example", "*@bounces.shop.example"},
		{"group+bncBCX2S7HGXQKBB3UGZ6XQMGQEABCDEFG@googlegroups.com", "group@googlegroups.com"},
		{"list+owner@sympa.example.com", "list@sympa.example.com"},

		// VERP to recipients that have a plus, which is one flow with that to others.
		{"bounces-x-y+z=example.net@shop.example", "bounces@shop.example"},
		{"bounces-jane+news=example.net@shop.example", "bounces@shop.example"},
		{"bounces-mzxw6ytb-jane+news=example.net@shop.example", "bounces@shop.example"},
		{"bounces+mzxw6ytb+jane+news=example.net@shop.example", "bounces@shop.example"},
		{"list-return-12-jane+news=example.net@lists.example.com", "list-return@lists.example.com"},
		{"list-bounces-jane+news=example.net@lists.example.com", "list-bounces@lists.example.com"},
		{"list-bounces+jane+news=example.net@lists.example.com", "list-bounces@lists.example.com"},
		{"owner-list-jane=example.net@lists.example.com", "owner-list@lists.example.com"},
		{"owner-list-jane+news=example.net@lists.example.com", "owner-list@lists.example.com"},
		{"list+jane+news=example.net@lists.example.com", "list@lists.example.com"},
		{"list=jane+news=example.net@lists.example.com", "*@lists.example.com"},
		{"list=jane=example.net@lists.example.com", "*@lists.example.com"},
		// The plus is the delimiter where nothing says otherwise.
		{"shop-news+jane=example.net@shop.example", "shop-news@shop.example"},
		{"shop-otp+jane=example.net@shop.example", "shop-otp@shop.example"},
		{"bounce.news+jane=example.net@shop.example", "bounce.news@shop.example"},
		{"owner-a+b=@shop.example", "owner-a@shop.example"},
		{"owner-+b=c@shop.example", "owner-@shop.example"},

		// BATV, alone and around other forms.
		{"prvs=1234abcdef=jane@example.com", "jane@example.com"},
		{"prvs=0671abcdef=list+x@example.com", "list@example.com"},
		{"PRVS=1234ABCDEF=Jane@example.com", "jane@example.com"},
		{"btv1==678fa1b2c3d==jane@example.com", "jane@example.com"},
		{"msprvs1=17436RmyJzUBm=bounces-244083-1@bounces.shop.example", "bounces-*@bounces.shop.example"},
		{"prvs=x@example.com", "*@example.com"},
		{"prvs==@example.com", "*@example.com"},

		// SRS, once and twice forwarded, with each separator.
		{"SRS0=HHHH=TT=shop.example=news@forwarder.example", "news@shop.example"},
		{"srs0+hhhh=tt=shop.example=news@forwarder.example", "news@shop.example"},
		{"SRS0-HHHH=TT=Shop.Example=otp@forwarder.example", "otp@shop.example"},
		{"SRS1=HHHH=first.example==AAAA=TT=shop.example=news@second.example", "news@shop.example"},
		{"SRS1-HHHH=first.example=+AAAA=TT=shop.example=news@second.example", "news@shop.example"},
		{"SRS0=HHHH=TT=shop.example=bounces+jane=example.net@forwarder.example", "bounces@shop.example"},
		{"SRS0=HHHH=TT=shop.example=prvs=1234abcdef=jane@forwarder.example", "jane@shop.example"},
		{"prvs=1234abcdef=srs0=HHHH=TT=shop.example=news@forwarder.example", "news@shop.example"},
		{"SRS0=broken@forwarder.example", "*@forwarder.example"},

		// Services. Mailchimp, Mandrill, Amazon SES, SendGrid, Mailgun, Postmark, SparkPost, Salesforce,
		// Brevo, HubSpot, Mailjet, Constant Contact, Campaign Monitor, Klaviyo, Zendesk, GitHub, LinkedIn, X, Facebook.
		{"bounce-mc.us12_12345678.987654-abcdef1234@mail12.atl11.rsgsv.net", "bounce-mc.us12_*@mail12.atl11.rsgsv.net"},
		{"bounce-mc.us12_12345678.987655-0123abcdef@mail12.atl11.rsgsv.net", "bounce-mc.us12_*@mail12.atl11.rsgsv.net"},
		{"bounce-md_30012345.5f1c2d3e.v1-0123456789abcdef0123456789abcdef@mandrillapp.com", "bounce-md_*.v1-*@mandrillapp.com"},
		{"0100017f1c2d3e4f-12345678-90ab-cdef-1234-567890abcdef-000000@amazonses.com", "*@amazonses.com"},
		{"01020190abcdef12-fedcba98-7654-3210-abcd-ef0123456789-000000@eu-west-1.amazonses.com", "*@eu-west-1.amazonses.com"},
		{"bounces+1234567-ab12-jane=example.net@em1234.shop.example", "bounces@em1234.shop.example"},
		{"bounce+ab12cd.3ef456-jane=example.net@mg.shop.example", "bounce@mg.shop.example"},
		{"pm_bounces@pm-bounces.shop.example", "pm_bounces@pm-bounces.shop.example"},
		{"bounces-244083-12@bounces.shop.example", "bounces-*@bounces.shop.example"},
		{"bounce-123_HTML-456789-1234-567890-0@bounce.shop.example", "bounce-*_html-*@bounce.shop.example"},
		{"bounces-123456789-jane=example.net@brevo.example", "bounces@brevo.example"},
		{"1axbc2dy3efgz4hij5klmn6opqr@bf01.hubspotemail.net", "*@bf01.hubspotemail.net"},
		{"a1b2c3d4.aaaabbbbcccc0000dddd@bnc3.mailjet.com", "*@bnc3.mailjet.com"},
		{"AZyXwVuTsRqPoNmLkJiHgF12==_1101234567890_abc@in.constantcontact.com", "*@in.constantcontact.com"},
		{"bounce_01hzy3k8m2n4p6q8r0s1t2v3w4@send.klaviyo.example", "bounce_*@send.klaviyo.example"},
		{"support+id123ABC-4567@zendesk.example", "support@zendesk.example"},
		{"noreply@github.com", "noreply@github.com"},
		{"m-rv0pxyz12abc345def67@bounce.linkedin.com", "m-*@bounce.linkedin.com"},
		{"b04ec1f2f3notify-jane=example.net@bounce.twitter.com", "*@bounce.twitter.com"},
		{"notification+kjdhf8s9@facebookmail.com", "notification@facebookmail.com"},

		// Numbers.
		{"bounce123456@shop.example", "bounce*@shop.example"},
		{"12345678@shop.example", "*@shop.example"},
		{"ticket-4711@shop.example", "ticket-*@shop.example"},
		{"ticket-1@shop.example", "ticket-*@shop.example"},
		{"a-1-2-3-b@shop.example", "a-*-b@shop.example"},
		{"550e8400-e29b-41d4-a716-446655440000@shop.example", "*@shop.example"},
		{"job.5f1c2d3e.x@shop.example", "job.*.x@shop.example"},

		// Made up.
		{"@example.com", "@example.com"},
		{"a@b@example.com", "a@b@example.com"},
		{"=@example.com", "*@example.com"},
		{"a\x00b\nc@example.com", "a?b?c@example.com"},
		{"\xff\xfe@example.com", "??@example.com"},
		{"a\u202eb\u200bc@example.com", "a?b?c@example.com"},
		{"srs0=@x", "*@x"}, {"srs1====@x", "*@x"}, {"prvs=@x", "*@x"}, {"srs0=a=b=@c@x", "*@x"},
	} {
		if got := Sender(mail.Address(test.address)); got != test.want {
			t.Errorf("%q is %q, want %q", test.address, got, test.want)
		}
		checkSender(t, test.address)
	}
}

// With delimiters by which recipients follow a "-" there is one flow for those with a "+", too; words of list
// software go before what is said.
func TestDash(t *testing.T) {
	for address, want := range map[mail.Address]string{
		"news-jane@shop.example":                          "news-jane@shop.example",
		"news-jane=example.net@shop.example":              "news@shop.example",
		"news-jane+promo=example.net@shop.example":        "news@shop.example",
		"news-jane-doe+promo=example.net@shop.example":    "news@shop.example",
		"news+jane=example.net@shop.example":              "news@shop.example",
		"list-bounces+jane=example.net@lists.example":     "list-bounces@lists.example",
		"list-return-7-jane+x=example.net@lists.example":  "list-return@lists.example",
		"owner-list+jane=example.net@lists.example":       "owner-list@lists.example",
		"prvs=1234abcdef=news-jane+x=e.example@a.example": "news@a.example",
		"news-jane+promo@shop.example":                    "news-jane@shop.example",
	} {
		r, err := NewRules(Config{Dash: true})
		if err != nil {
			t.Fatal(err)
		}
		f, _ := r.Classify(&Message{Client: NewClient(netip.Addr{}, Listener{}, ""), Sender: address})
		if again := senderOf(mail.Address(f.Flow), true); f.Flow != want || again != want {
			t.Errorf("%s is %q, want %q; that is %q", address, f.Flow, want, again)
		}
	}
}

// A mailing of any of these services is one flow, whatever the recipients, the numbers
// of messages and the random words are.
func TestMailingIsOneFlow(t *testing.T) {
	seed := rand.Uint64()
	rng := rand.New(rand.NewPCG(seed, 0))
	of := func(letters string, n int) string {
		b := make([]byte, n)
		for i := range b {
			b[i] = letters[rng.IntN(len(letters))]
		}
		return string(b)
	}
	// At least two digits, as there are in nearly every random word of that length.
	hex := func(n int) string { return "7" + of("0123456789abcdef", n-2) + "3" }
	digits := func(n int) string { return of("0123456789", n) }
	user := func() string {
		return of("abcdefghij", 1+rng.IntN(8)) + of("-._0123456789", rng.IntN(3)) + of("abcdefghij", 1+rng.IntN(8))
	}
	for name, sender := range map[string]func() string{
		"postfix":   func() string { return "owner-list+" + user() + "=example.net" },
		"tagged":    func() string { return "bounces-" + user() + "+" + user() + "=example.net" },
		"qmail":     func() string { return "list-" + user() + "=example.net" },
		"ezmlm":     func() string { return "my-list-return-" + digits(1+rng.IntN(5)) + "-" + user() + "=example.net" },
		"mailman":   func() string { return "list-bounces+" + user() + "=example.net" },
		"mailchimp": func() string { return "bounce-mc.us12_" + digits(8) + "." + digits(7) + "-" + hex(10) },
		"mandrill":  func() string { return "bounce-md_" + digits(8) + "." + hex(8) + ".v1-" + hex(32) },
		"ses": func() string {
			return hex(16) + "-" + hex(8) + "-" + hex(4) + "-" + hex(4) + "-" + hex(4) + "-" + hex(12) + "-000000"
		},
		"sendgrid": func() string { return "bounces+" + digits(7) + "-" + hex(4) + "-" + user() + "=example.net" },
		"exact":    func() string { return "bounce-" + digits(3) + "_HTML-" + digits(9) + "-" + digits(6) + "-" + digits(1) },
		"batv":     func() string { return "prvs=" + digits(4) + hex(6) + "=news" },
		"counted":  func() string { return "bounce" + digits(6) },
	} {
		want := Sender(mail.Address(sender() + "@shop.example"))
		for range 500 {
			if address := mail.Address(sender() + "@shop.example"); Sender(address) != want {
				t.Errorf("%s, seed %d: %q is %q, another one %q", name, seed, address, Sender(address), want)
				break
			}
		}
	}
}

// checkSender checks what holds for all addresses.
func checkSender(t *testing.T, address string) {
	t.Helper()
	got := Sender(mail.Address(address))
	if again := Sender(mail.Address(got)); again != got && got != null {
		t.Errorf("%q is %q, and that is %q", address, got, again)
	}
	if got == "" || len(got) > mail.FlowMax || clean(got, mail.FlowMax) != got {
		t.Errorf("%q is %q of %d bytes", address, got, len(got))
	}
	if i := strings.LastIndexByte(address, '@'); i >= 0 {
		if upper := address[:i] + strings.ToUpper(address[i:]); isASCII(address) && Sender(mail.Address(upper)) != got {
			t.Errorf("%q is %q, and %q is %q", address, got, upper, Sender(mail.Address(upper)))
		}
	}
	if domain := Domain(mail.Address(address)); domain == "" || len(domain) > mail.FlowMax || clean(domain, mail.FlowMax) != domain {
		t.Errorf("the domain of %q is %q", address, domain)
	}
}

func isASCII(text string) bool {
	return !strings.ContainsFunc(text, func(r rune) bool { return r > 127 })
}

func FuzzSender(f *testing.F) {
	for _, address := range []string{"list-return-12-jane=example.net@x", "SRS1=a=b==c=d=e=prvs=1=f+g@x", "a-1_22.333-4444444f@x",
		strings.Repeat("prvs=1=", 100) + "a@x", strings.Repeat("é", 300) + "@" + strings.Repeat("b", 300)} {
		f.Add(address)
	}
	f.Fuzz(checkSender)
}

func TestSenderRandom(t *testing.T) {
	seed := rand.Uint64()
	rng := rand.New(rand.NewPCG(seed, 0))
	parts := []string{"a", "bounces", "return", "-", "-", ".", "_", "+", "=", "=", "@", "@", "1", "22", "333", "abcdef12", "*", "srs0=", "srs1=", "prvs=", "btv1==", "é", "?", "\x01", "X", `"`,
		"550e8400-e29b-41d4-a716-446655440000", strings.Repeat("long", 40)}
	for range 20_000 {
		var address strings.Builder
		for range 1 + rng.IntN(14) {
			address.WriteString(parts[rng.IntN(len(parts))])
		}
		checkSender(t, address.String())
		if t.Failed() {
			t.Fatalf("seed %d", seed)
		}
	}
}

// Long texts are cut, and stay different.
func TestBound(t *testing.T) {
	long := strings.Repeat("é", 200)
	a, b := clean(long+"a", mail.FlowMax), clean(long+"b", mail.FlowMax)
	if a == b || len(a) > mail.FlowMax || clean(a, mail.FlowMax) != a || !strings.HasPrefix(a, "éé") {
		t.Errorf("%q, %q", a, b)
	}
}

func BenchmarkSender(b *testing.B) {
	for _, address := range []mail.Address{"news@shop.example", "web1@shop.example", "list-return-12-jane=example.net@lists.example.com",
		"0100017f1c2d3e4f-12345678-90ab-cdef-1234-567890abcdef-000000@amazonses.com"} {
		b.Run(string(address[:4]), func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				Sender(address)
			}
		})
	}
}
