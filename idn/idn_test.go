package idn

import "testing"

// All ways of writing a name have one key, and what is no name is left alone.
func TestKey(t *testing.T) {
	for domain, want := range map[string]string{
		"a.example": "a.example", "A.Example": "a.example", "": "", "[192.0.2.1]": "[192.0.2.1]", "[IPv6:2001:db8::A]": "[ipv6:2001:db8::a]",
		"bücher.example": "xn--bcher-kva.example", "BÜCHER.Example": "xn--bcher-kva.example", "bu\u0308cher.example": "xn--bcher-kva.example",
		"XN--bcher-KVA.example": "xn--bcher-kva.example", "bücher。example。": "xn--bcher-kva.example", "ｅｘａｍｐｌｅ.com": "example.com",
		"Ü\xffA.example": "Ü\xffa.example", "-Ü.example": "-ü.example", "Ü\ufffd.example": "Ü\ufffd.example",
	} {
		if got := Key(domain); got != want {
			t.Errorf("%q: %q, want %q", domain, got, want)
		}
	}
}

func TestOthers(t *testing.T) {
	for domain, want := range map[string][2]string{
		"a.example": {}, "x-n--a.example": {}, "": {}, "xn-": {},
		"Bücher.example":          {"xn--bcher-kva.example", "bücher.example"},
		"a.XN--bcher-kva.example": {"a.xn--bcher-kva.example", "a.bücher.example"},
		"xn--a\x00.example":       {"xn--a\x00.example", "xn--a\x00.example"},
		"Ü\xff.example":           {"Ü\xff.example", "Ü\xff.example"},
	} {
		if ascii, unicode := Others(domain); ascii != want[0] || unicode != want[1] {
			t.Errorf("%q: %q and %q, want %q", domain, ascii, unicode, want)
		}
	}
}

func TestNexthop(t *testing.T) {
	for text, want := range map[string]string{
		"A.example": "A.example", "bücher.example:587": "xn--bcher-kva.example:587", "[mx.bücher.example]": "[mx.xn--bcher-kva.example]",
		"{mx.bücher.example,mx2.a.example;ü.example}": "{mx.xn--bcher-kva.example,mx2.a.example;xn--tda.example}",
	} {
		if got := Nexthop(text); got != want {
			t.Errorf("%q: %q, want %q", text, got, want)
		}
	}
}

// The core asks for the key of each recipient's domain while a domain is suspended.
func TestKeyDoesNotAllocate(t *testing.T) {
	if n := testing.AllocsPerRun(100, func() { Key("mail.example.com"); Others("mail.example.com"); Nexthop("{a.example,b.example}") }); n != 0 {
		t.Errorf("%v allocations", n)
	}
}

func BenchmarkKey(b *testing.B) {
	b.ReportAllocs()
	for b.Loop() {
		Key("mail.example.com")
	}
}
