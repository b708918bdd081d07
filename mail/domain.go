package mail

import (
	"iter"
	"strings"
)

// Above returns the endings of a domain that begin with a dot, the longest first: of
// "a.b.example" these are ".b.example" and ".example". In lists of domains, one with a leading
// dot stands for the names below it.
func Above(domain string) iter.Seq[string] {
	return func(yield func(string) bool) {
		for i := strings.IndexByte(domain, '.'); i >= 0; {
			if !yield(domain[i:]) {
				return
			}
			next := strings.IndexByte(domain[i+1:], '.')
			if next < 0 {
				return
			}
			i += 1 + next
		}
	}
}
