package smtp

import (
	"strings"
	"testing"

	"github.com/posthaste-mta/posthaste/mail"
)

// Addresses as clients write them; rows are those of the catalogue of bad
// input. What is accepted shows what goes on to the next hop.
func TestParsePath(t *testing.T) {
	long := strings.Repeat("x", 64)
	domain63 := strings.Repeat("d", 63)
	for _, test := range []struct {
		name, text, address, rest string
		fault                     Fault
		rules                     PathRules
	}{
		{name: "plain", text: "<a@b.example> SIZE=1", address: "a@b.example", rest: " SIZE=1"},
		{name: "case is kept", text: "<Ab@B.Example>", address: "Ab@B.Example"},
		{name: "all of atext", text: "<!#$%&'*+-/=?^_`{|}~@b.example>", address: "!#$%&'*+-/=?^_`{|}~@b.example"},
		{name: "B-50 null", text: "<>", rules: PathRules{Null: true}},
		{name: "B-50 null where not allowed", text: "<>", fault: FaultNull},
		{name: "B-51 bare", text: "a@b.example X", fault: FaultBrackets},
		{name: "B-51 bare, lenient", text: "a@b.example X", address: "a@b.example", rest: " X", rules: PathRules{Bare: true}},
		{name: "B-51 nothing", text: "", fault: FaultBrackets, rules: PathRules{Bare: true}},
		{name: "B-52 local part of 64", text: "<" + long + "@b.example>", address: long + "@b.example"},
		{name: "B-52 local part of 65", text: "<" + long + "x@b.example>", fault: FaultLocalLong},
		{name: "B-52 65 where allowed", text: "<" + long + "x@b.example>", address: long + "x@b.example", rules: PathRules{LocalMax: 65}},
		{name: "B-52 66 where 65 is allowed", text: "<" + long + "xx@b.example>", fault: FaultLocalLong, rules: PathRules{LocalMax: 65}},
		{name: "B-52 domain of 256", text: "<a@" + strings.Repeat("d.", 127) + "ee>", fault: FaultDomainLong},
		{name: "B-52 path of 256", text: "<a@" + strings.Repeat("d.", 125) + "ee>", address: "a@" + strings.Repeat("d.", 125) + "ee"},
		{name: "B-52 path of 257", text: "<a@" + strings.Repeat("d.", 125) + "eee>", fault: FaultPathLong},
		{name: "completed", text: "<a>", address: "a@c.example", rules: PathRules{Domain: "c.example"}},
		{name: "completed after quotes", text: `<"a b"> X`, address: `"a b"@c.example`, rest: " X", rules: PathRules{Domain: "c.example"}},
		{name: "completed without brackets", text: "a X", address: "a@c.example", rest: " X", rules: PathRules{Domain: "c.example", Bare: true}},
		{name: "completed domain", text: "<a@b>", address: "a@b.c.example", rules: PathRules{Domain: "c.example"}},
		{name: "nothing to complete", text: "<a@b.d>", address: "a@b.d", rules: PathRules{Domain: "c.example"}},
		{name: "nothing to complete in a literal", text: "<a@[IPv6:2001:db8::1]>", address: "a@[IPv6:2001:db8::1]", rules: PathRules{Domain: "c.example"}},
		{name: "null is not completed", text: "<>", rules: PathRules{Domain: "c.example", Null: true}},
		{name: "postmaster is not completed", text: "<Postmaster>", address: "postmaster", rules: PathRules{Domain: "c.example", Postmaster: true}},
		{name: "no domain to complete", text: "<a@>", fault: FaultDomain, rules: PathRules{Domain: "c.example"}},
		{name: "completed domain too long", text: "<a@" + domain63 + ">", fault: FaultPathLong, rules: PathRules{Domain: strings.Repeat("d.", 100) + "ee"}},
		{name: "B-53 quoted", text: `<"a b\"c"@d.example>`, address: `"a b\"c"@d.example`},
		{name: "B-53 quoted without need", text: `<"a.b"@d.example>`, address: `a.b@d.example`},
		{name: "B-53 escaped without need", text: `<"\a\b c"@d.example>`, address: `"ab c"@d.example`},
		{name: "B-53 backslash", text: `<"a\\b"@d.example>`, address: `"a\\b"@d.example`},
		{name: "B-53 empty", text: `<""@d.example>`, address: `""@d.example`},
		{name: "B-53 brackets", text: `<"<>"@d.example>`, address: `"<>"@d.example`},
		{name: "B-53 not closed", text: `<"a@d.example>`, fault: FaultLocal},
		{name: "B-53 ends in escape", text: `<"a\`, fault: FaultLocal},
		{name: "B-53 control", text: "<\"a\tb\"@d.example>", fault: FaultLocal},
		{name: "B-53 escaped control", text: "<\"a\\\x07b\"@d.example>", fault: FaultLocal},
		{name: "B-54 IPv4 literal", text: "<a@[127.0.0.1]>", address: "a@[127.0.0.1]"},
		{name: "B-54 IPv6 literal", text: "<a@[IPv6:::1]>", address: "a@[IPv6:::1]"},
		{name: "B-54 mapped", text: "<a@[ipv6:::ffff:10.0.0.1]>", address: "a@[ipv6:::ffff:10.0.0.1]"},
		{name: "S-28 unknown tag", text: "<a@[X25:1]>", fault: FaultLiteral},
		{name: "S-28 IPv6 without tag", text: "<a@[::1]>", fault: FaultLiteral},
		{name: "S-28 zone", text: "<a@[IPv6:fe80::1%eth0]>", fault: FaultLiteral},
		{name: "S-28 IPv4 in IPv6", text: "<a@[IPv6:1.2.3.4]>", fault: FaultLiteral},
		{name: "S-28 leading zero", text: "<a@[127.0.0.01]>", fault: FaultLiteral},
		{name: "S-28 empty", text: "<a@[]>", fault: FaultLiteral},
		{name: "S-28 open", text: "<a@[127.0.0.1>", fault: FaultLiteral},
		{name: "S-28 more after it", text: "<a@[127.0.0.1].b>", fault: FaultBrackets},
		{name: "B-55 route", text: "<@a.example,@b.example:u@d.example>", address: "u@d.example"},
		{name: "B-55 route without mailbox", text: "<@a.example:>", fault: FaultNull},
		{name: "B-55 bad route", text: "<@a..example:u@d.example>", fault: FaultRoute},
		{name: "B-56 percent", text: "<user%evil@relay.example>", address: "user%evil@relay.example"},
		{name: "B-56 bang", text: "<evil!user@relay.example>", address: "evil!user@relay.example"},
		{name: "B-56 quoted at", text: `<"user@evil"@relay.example>`, address: `"user@evil"@relay.example`},
		{name: "B-56 two ats", text: "<user@evil@relay.example>", fault: FaultDomain},
		{name: "B-56 behind the bracket", text: "<user@relay.example>@evil", fault: FaultBrackets},
		{name: "B-57 trailing dot", text: "<a@b.example.>", fault: FaultDomain},
		{name: "B-57 single label", text: "<a@localhost>", address: "a@localhost"},
		{name: "B-58 label of 63", text: "<a@" + domain63 + ".example>", address: "a@" + domain63 + ".example"},
		{name: "B-58 label of 64", text: "<a@" + domain63 + "d.example>", fault: FaultDomain},
		{name: "B-58 hyphen first", text: "<a@-a.b>", fault: FaultDomain},
		{name: "B-58 hyphen last", text: "<a@a-.b>", fault: FaultDomain},
		{name: "B-58 underscore", text: "<a@a_b.c>", fault: FaultDomain},
		{name: "B-58 underscore, allowed", text: "<a@a_b.c>", address: "a@a_b.c", rules: PathRules{Underscore: true}},
		{name: "B-58 numeric TLD", text: "<a@a.123>", fault: FaultDomain},
		{name: "B-58 address without brackets", text: "<a@127.0.0.1>", fault: FaultDomain},
		{name: "B-58 A-label", text: "<a@xn--bcher-kva.example>", address: "a@xn--bcher-kva.example"},
		{name: "B-58 no A-label", text: "<a@xn--a-.example>", fault: FaultDomain},
		{name: "B-58 nor that", text: "<a@xn--.example>", fault: FaultDomain},
		{name: "B-58 overflow", text: "<a@xn--99999999.example>", fault: FaultDomain},
		{name: "B-59 not UTF-8", text: "<a\xff@b.example>", fault: FaultCharset},
		{name: "B-60 overlong", text: "<a\xc0\xaf@b.example>", fault: FaultCharset},
		{name: "B-60 surrogate", text: "<a\xed\xa0\x80@b.example>", fault: FaultCharset},
		{name: "B-60 bidi control", text: "<a\u202e@b.example>", fault: FaultCharset},
		{name: "B-60 C1 control", text: "<a\u0085@b.example>", fault: FaultCharset},
		{name: "B-60 in domain", text: "<a@\u2066b.example>", fault: FaultCharset},
		{name: "B-60 in quotes", text: "<\"a\u2028\"@b.example>", fault: FaultCharset},
		{name: "S-71 UTF-8", text: "<u\u00e9@b\u00fccher.example>", address: "u\u00e9@b\u00fccher.example"},
		{name: "S-30 postmaster", text: "<PostMaster>", address: "postmaster", rules: PathRules{Postmaster: true}},
		{name: "S-30 another", text: "<root>", fault: FaultDomain, rules: PathRules{Postmaster: true}},
		{name: "no local part", text: "<@>", fault: FaultRoute},
		{name: "no domain", text: "<a@>", fault: FaultDomain},
		{name: "dots", text: "<a..b@c.example>", fault: FaultLocal},
		{name: "dot first", text: "<.a@c.example>", fault: FaultLocal},
		{name: "dot last", text: "<a.@c.example>", fault: FaultLocal},
		{name: "space", text: "<a b@c.example>", fault: FaultDomain},
		{name: "space in domain", text: "<a@c .example>", fault: FaultDomain},
		{name: "not closed", text: "<a@c.example", fault: FaultBrackets},
		{name: "text behind", text: "<a@c.example>x", fault: FaultBrackets},
	} {
		t.Run(test.name, func(t *testing.T) {
			p, rest, f := ParsePath([]byte(test.text), test.rules)
			if f != test.fault {
				t.Fatalf("fault %d (%s), want %d", f, f.Reply(VerbRCPT).Text, test.fault)
			}
			if f == FaultNone && (string(p.Address) != test.address || string(rest) != test.rest) {
				t.Errorf("%q, rest %q; want %q, %q", p.Address, rest, test.address, test.rest)
			}
			if f == FaultNone && p.NonASCII != (strings.ToValidUTF8(test.address, "") != asciiOnly(test.address)) {
				t.Errorf("NonASCII is %t", p.NonASCII)
			}
		})
	}
}

func asciiOnly(s string) string {
	return strings.Map(func(r rune) rune {
		if r >= 0x80 {
			return -1
		}
		return r
	}, s)
}

// Labels from RFC 3492 7.1 and broken ones: a wrong answer would refuse mail
// to real domains.
func TestPunycode(t *testing.T) {
	for label, want := range map[string]bool{
		"egbpdaj6bu4bxfgehfvwxn":                        true,
		"ihqwcrb4cv8a8dqg056pqjye":                      true,
		"4dbcagdahymbxekheh6e0a7fei0b":                  true,
		"PorqunopuedensimplementehablarenEspaol-fmd56a": true,
		"3B-ww4c5e180e575a65lsy2b":                      true,
		"bcher-kva":                                     true,
		"maana-pta":                                     true,
		"kva":                                           true,
		"":                                              false,
		"abc-":                                          false,
		"-":                                             false,
		"a_b":                                           false,
		"zzzzzzzzzz99999":                               false,
		"bcher-kv":                                      false,
	} {
		if got := decodesAsPunycode([]byte(label)); got != want {
			t.Errorf("%q: %t, want %t", label, got, want)
		}
	}
}

func TestValidDomain(t *testing.T) {
	for domain, want := range map[string]bool{
		"mx.example": true, "localhost": true, "": false, "a.": false, "a b": false, "1.2": false, "é.example": false,
	} {
		if got := ValidDomain(domain); got != want {
			t.Errorf("%q: %t, want %t", domain, got, want)
		}
	}
}

// Whatever is accepted is accepted again in the form in which it is emitted,
// and then unchanged: the next hop reads the same address as we did.
func FuzzParsePath(f *testing.F) {
	for _, seed := range []string{
		"<a@b.example>", `<"a b\"c"@d>`, `<""@d>`, "<@a,@b:u@d>", "<a@[IPv6:::1]>", "<postmaster>", "<>", "<é@é>", "a@b", `<"\a"@d>`, "<a@xn--bcher-kva>",
	} {
		f.Add(seed, true)
	}
	f.Fuzz(func(t *testing.T, text string, lenient bool) {
		rules := PathRules{Bare: lenient, Underscore: lenient, Null: lenient, Postmaster: lenient}
		p, rest, fault := ParsePath([]byte(text), rules)
		if fault != FaultNone {
			return
		}
		if len(rest) > 0 && rest[0] != ' ' {
			t.Fatalf("%q: rest %q", text, rest)
		}
		if strings.ContainsAny(string(p.Address), "\r\n\x00") || len(p.Address) > PathMax-2 {
			t.Fatalf("%q gave %q", text, p.Address)
		}
		again, rest, fault := ParsePath([]byte("<"+string(p.Address)+">"), rules)
		if fault != FaultNone || len(rest) != 0 || again != p {
			t.Fatalf("%q gave %q, which gave %q and fault %d", text, p.Address, again.Address, fault)
		}
	})
}

func TestParseCommand(t *testing.T) {
	for _, test := range []struct {
		line string
		verb Verb
		arg  string
	}{
		{"MAIL FROM:<a>", VerbMAIL, "FROM:<a>"},
		{"mAiL from", VerbMAIL, "from"},
		{"DATA", VerbDATA, ""},
		{"data  \t", VerbDATA, ""},
		{"STARTTLS", VerbSTARTTLS, ""},
		{"STARTTLSX", VerbUnknown, ""},
		{"STARTTLX", VerbUnknown, ""},
		{"QUIT\t", VerbQUIT, ""},
		{"QUIT\tx", VerbUnknown, ""},
		{" QUIT", VerbUnknown, "QUIT"},
		{"", VerbUnknown, ""},
		{"X", VerbUnknown, ""},
		{"GET / HTTP/1.1", VerbForeign, "/ HTTP/1.1"},
		{"User-Agent: x", VerbForeign, "x"},
		{":", VerbUnknown, ""},
		{"ETRN x", VerbETRN, "x"}, {"TURN", VerbRare, ""}, {"ATRN x", VerbRare, "x"},
		{"help me", VerbHELP, "me"},
		{"expn x", VerbEXPN, "x"}, {"auth x", VerbAUTH, "x"}, {"noop", VerbNOOP, ""}, {"vrfy x", VerbVRFY, "x"},
		{"rset", VerbRSET, ""}, {"rcpt x", VerbRCPT, "x"}, {"helo x", VerbHELO, "x"}, {"ehlo x", VerbEHLO, "x"}, {"bdat 1", VerbBDAT, "1"},
	} {
		verb, arg := ParseCommand([]byte(test.line))
		if verb != test.verb || string(arg) != test.arg {
			t.Errorf("%q: %d %q, want %d %q", test.line, verb, arg, test.verb, test.arg)
		}
	}
}

// B-90: whatever is not exactly a number makes the place of the next command
// unknown.
func TestParseChunk(t *testing.T) {
	for _, test := range []struct {
		arg  string
		size int64
		last bool
		ok   bool
	}{
		{"0", 0, false, true}, {"5", 5, false, true}, {"5 LAST", 5, true, true}, {"5 last", 5, true, true},
		{"9223372036854775807", 1<<63 - 1, false, true}, {"0000000000000000005", 5, false, true},
		{"9223372036854775808", 0, false, false}, {"9999999999999999999", 0, false, false}, {"18446744073709551616", 0, false, false},
		{"", 0, false, false}, {"-1", 0, false, false}, {"+5", 0, false, false}, {"0x10", 0, false, false}, {"5LAST", 0, false, false},
		{"5 LAST X", 0, false, false}, {"5  LAST", 0, false, false}, {"LAST", 0, false, false}, {"5 ", 0, false, false}, {"٣", 0, false, false},
	} {
		size, last, ok := ParseChunk([]byte(test.arg))
		if ok != test.ok || ok && (size != test.size || last != test.last) {
			t.Errorf("%q: %d %t %t, want %d %t %t", test.arg, size, last, ok, test.size, test.last, test.ok)
		}
	}
}

// Every fault has a reply whose status fits its code (RFC 2034 4).
func TestFaultReplies(t *testing.T) {
	for f := FaultNone; f <= FaultSizeRange; f++ {
		for _, v := range []Verb{VerbMAIL, VerbRCPT} {
			r := f.Reply(v)
			if r.Text == "" || r.Status.Class != r.Code/100 || (f != FaultNone) != r.Permanent() {
				t.Errorf("fault %d: %s", f, r)
			}
		}
	}
	if got := FaultLocal.Reply(VerbMAIL).Status; got != (mail.Status{Class: 5, Subject: 1, Detail: 7}) {
		t.Errorf("a sender's status is %s", got)
	}
}

func TestXtext(t *testing.T) {
	for text, want := range map[string]string{"a": "a", "a+2Bb": "a+b", "+0D+0A": "\r\n", "": "", "+3D": "="} {
		if got, ok := DecodeXtext(text); !ok || got != want {
			t.Errorf("%q: %q %t, want %q", text, got, ok, want)
		}
	}
	for _, text := range []string{"+", "+2", "+2b", "+zz", "a=b", "a b", "é", "\x7f"} {
		if got, ok := DecodeXtext(text); ok {
			t.Errorf("%q became %q", text, got)
		}
	}
	for text, want := range map[string]bool{
		`a@b`: true, `\x{e9}@b`: true, `\x{E9}`: true, `\x{10FFFF}`: true, `a+2Bb`: true, `é`: true,
		`\x{110000}`: false, `\x{D800}`: false, `\x{}`: false, `\x{0}`: false, `\y{e9}`: false, `\x{e9`: false, `\`: false, `a=b`: false, "\xff": false, `a+2`: false,
	} {
		if got := ValidUTF8Address(text, true); got != want {
			t.Errorf("%q: %t, want %t", text, got, want)
		}
	}
	if ValidUTF8Address("é", false) {
		t.Error("raw characters were accepted without SMTPUTF8")
	}
}

func FuzzXtext(f *testing.F) {
	f.Add("a+b=c d\r\n\xff")
	f.Fuzz(func(t *testing.T, text string) {
		code := EncodeXtext(text)
		if back, ok := DecodeXtext(code); !ok || back != text {
			t.Fatalf("%q became %q became %q", text, code, back)
		}
		ValidUTF8Address(text, true)
	})
}

// Parameters are refused or understood, never ignored, and parsing them twice
// gives the same.
func FuzzParams(f *testing.F) {
	for _, seed := range []string{
		"FROM:<a@b.example> SIZE=1 BODY=8BITMIME SMTPUTF8 RET=HDRS ENVID=x+2B",
		"TO:<a@b.example> NOTIFY=SUCCESS,FAILURE,DELAY ORCPT=rfc822;a+40b",
		"FROM:<> SIZE=99999999999999999999", "TO:<a@b> ORCPT=utf-8;\\x{e9}", "FROM:<é@b> SMTPUTF8", "FROM:<a@b> X==",
		"FROM:<a@b> MT-PRIORITY=-9 BY=120;RT HOLDFOR=60 REQUIRETLS", "FROM:<> XVERP=-= HOLDUNTIL=2026-12-24T17:00:00Z AUTH=a+40b", "TO:<a@b> NOTIFY=",
	} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, arg string) {
		m, fault := ParseMail([]byte(arg), PathRules{})
		if fault == FaultNone {
			if m.Size < 0 || len(m.EnvID) > envidMax || m.NonASCII && !m.SMTPUTF8 || m.Priority < mail.PriorityMin || m.Priority > mail.PriorityMax || m.Priority != 0 && !m.Prioritized {
				t.Fatalf("%q gave %+v", arg, m)
			}
		} else if fault > FaultSizeRange {
			t.Fatalf("fault %d", fault)
		}
		for _, utf8 := range []bool{false, true} {
			r, fault := ParseRcpt([]byte(arg), PathRules{}, utf8)
			if fault == FaultNone && (r.Recipient.Address == "" || len(r.Recipient.ORcpt) > orcptMax || r.NonASCII && !utf8) {
				t.Fatalf("%q gave %+v", arg, r)
			}
		}
	})
}
