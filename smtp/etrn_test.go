package smtp

import (
	"strings"
	"testing"
)

// RFC 1985 5: a domain, one with those below it, or a queue.
func TestParseETRN(t *testing.T) {
	for text, want := range map[string]ETRN{
		"a.example": {Domain: "a.example"}, "A.Example.": {Domain: "a.example"}, "@a.example": {Domain: "a.example", Below: true}, "#slow": {Queue: "slow"}, "#@": {Queue: "@"},
	} {
		if got, ok := ParseETRN([]byte(text)); !ok || got != want {
			t.Errorf("%s: %+v, %t", text, got, ok)
		}
	}
	for _, text := range []string{"", "@", "#", "#a b", "#\u00fc", "#\x7f", "#" + strings.Repeat("a", DomainMax+1), "a b", "a..example", "a.example..", "@@a.example", ".a.example", "@.a.example", "*.example",
		"[192.0.2.1]", "b\u00fccher.example", "a.example\x00", "a.example\t", strings.Repeat("a", 64) + ".example", strings.Repeat("a.", 200)} {
		if got, ok := ParseETRN([]byte(text)); ok || got != (ETRN{}) {
			t.Errorf("%q: %+v", text, got)
		}
	}
}

// Whatever a client sends is a domain that a recipient could have, the name of a queue that can be shown in a
// reply, or nothing.
func FuzzETRN(f *testing.F) {
	for _, s := range []string{"a.example", "@a.example.", "#q", "@#", "A_B.example"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, text string) {
		e, ok := ParseETRN([]byte(text))
		if !ok {
			if e != (ETRN{}) {
				t.Fatalf("%q: %+v", text, e)
			}
			return
		}
		if (e.Queue == "") == (e.Domain == "") || e.Domain != "" && (!ValidDomain(e.Domain) || e.Domain != strings.ToLower(e.Domain)) || strings.ContainsAny(e.String(), " \r\n\x00") {
			t.Fatalf("%q: %+v", text, e)
		}
		if again, ok := ParseETRN([]byte(e.String())); !ok || again != e {
			t.Fatalf("%q: %+v, and again %+v, %t", text, e, again, ok)
		}
	})
}
