package near

import (
	"math/rand/v2"
	"slices"
	"testing"
)

// A guess must help a user who mistyped a letter or two, and must not be made for a
// name that is simply another one.
func TestNames(t *testing.T) {
	names := []string{"example.com", "example.net", "sample.net", "mail.test", "listen"}
	for _, c := range []struct {
		name string
		most int
		want []string
	}{
		{"example.nte", 9, []string{"example.net", "example.com", "sample.net"}},
		{"EXAMPLE.NET", 1, []string{"example.net"}},
		{"lsiten", 9, []string{"listen"}},
		{"elsewhere.org", 9, nil},
		{"", 9, nil},
		{"x", 9, nil},
	} {
		if got := Names(c.name, names, c.most); !slices.Equal(got, c.want) {
			t.Errorf("%q: %v, want %v", c.name, got, c.want)
		}
	}
	if got := Name("mial.test", names); got != "mail.test" {
		t.Errorf("got %q", got)
	}
}

// The distance counts swapped neighbours once; a naive twin over all ways.
func TestDistance(t *testing.T) {
	rng := rand.New(rand.NewPCG(5, 6))
	word := func() string {
		b := make([]byte, rng.IntN(7))
		for i := range b {
			b[i] = "abc"[rng.IntN(3)]
		}
		return string(b)
	}
	for range 3000 {
		a, b, limit := word(), word(), 1+rng.IntN(8)
		if got, want := distance(a, b, limit), min(limit, naiveDistance(a, b)); got != want {
			t.Fatalf("%q to %q: %d, want %d", a, b, got, want)
		}
	}
}

func naiveDistance(a, b string) int {
	switch {
	case a == "" || b == "":
		return len(a) + len(b)
	case a[0] == b[0]:
		return naiveDistance(a[1:], b[1:])
	}
	best := 1 + min(naiveDistance(a[1:], b), naiveDistance(a, b[1:]), naiveDistance(a[1:], b[1:]))
	if len(a) > 1 && len(b) > 1 && a[0] == b[1] && a[1] == b[0] {
		best = min(best, 1+naiveDistance(a[2:], b[2:]))
	}
	return best
}
