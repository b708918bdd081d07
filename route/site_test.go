package route

import (
	"slices"
	"strings"
	"testing"
)

func TestKeepHosts(t *testing.T) {
	for _, c := range [][3]string{
		{"{a.example,b.example;c.example}", "a.example c.example", "{a.example;c.example}"},
		{"{a.example,b.example;c.example}:26", "c.example", "{c.example}:26"},
		{"{a.example,b.example}", "b.example a.example", "{a.example,b.example}"},
		{"{a.example}", "b.example", ""}, {"a.example", "a.example", ""}, {"", "", ""},
	} {
		got := KeepHosts(c[0], func(host string) bool { return slices.Contains(strings.Fields(c[1]), host) })
		if got != c[2] {
			t.Errorf("of %s keep %s: %s, want %s", c[0], c[1], got, c[2])
		}
	}
}
