package mail

import (
	"slices"
	"testing"
)

func TestAbove(t *testing.T) {
	for domain, want := range map[string][]string{
		"": nil, "example": nil, "b.example": {".example"}, "a.b.example": {".b.example", ".example"}, ".b": {".b"}, "a.": {"."}, "a..b": {"..b", ".b"},
	} {
		if got := slices.Collect(Above(domain)); !slices.Equal(got, want) {
			t.Errorf("%q: %q, want %q", domain, got, want)
		}
	}
	for above := range Above("a.b.c") {
		if above != ".b.c" {
			t.Errorf("%q after the end", above)
		}
		break
	}
}
