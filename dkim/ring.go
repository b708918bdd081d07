package dkim

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/posthaste-mta/posthaste/mail"
)

// A Ring is a set of keys. It does not change, so it may be used concurrently.
type Ring struct {
	keys  []Key
	exact map[string][]*Key // by domain
	below map[string][]*Key // by the domain that is above the one in question
	any   []*Key

	// BySender has mail that has no key for the domain of its author signed for the domain
	// of the envelope sender. Receivers find such a signature valid, but not aligned with
	// the From field (RFC 7489 3.1.1). Set it before the ring is used.
	BySender bool
}

// NewRing returns a ring; the error joins all that is wrong with the keys. Two keys with one
// selector in one domain would need two records of one name, which receivers refuse.
func NewRing(keys []Key) (*Ring, error) {
	r := &Ring{keys: keys, exact: make(map[string][]*Key), below: make(map[string][]*Key)}
	var wrong []error
	owners := make(map[string]*Key) // by the name of the record
	for i := range keys {
		k := &keys[i]
		if err := k.Validate(); err != nil {
			wrong = append(wrong, err)
			continue
		}
		if k.Private.signer == nil {
			wrong = append(wrong, fmt.Errorf("dkim key %s: there is no private key", k.Name))
			continue
		}
		r.add(k)
		for _, d := range k.SigningDomains() {
			name := RecordName(k.Selector, d)
			if other := owners[name]; other != nil && Record(other.Private) != Record(k.Private) {
				wrong = append(wrong, fmt.Errorf("dkim keys %s and %s are different and have one record, %s; give one of them another selector", other.Name, k.Name, name))
			}
			owners[name] = k
		}
	}
	return r, errors.Join(wrong...)
}

func (r *Ring) add(k *Key) {
	for _, d := range k.Domains {
		name, below := strings.CutPrefix(d, "*.")
		switch {
		case d == anyDomain:
			r.any = append(r.any, k)
		case below:
			r.below[name] = append(r.below[name], k)
		default:
			r.exact[d] = append(r.exact[d], k)
		}
	}
}

// Keys returns all keys. They must not be changed.
func (r *Ring) Keys() []Key { return r.keys }

// SignaturesMax is the maximum number of signatures of a message; together they have less
// than 16 KiB.
const SignaturesMax = 4

// A Choice is a key and the domain for which it signs.
type Choice struct {
	Key    *Key
	Domain string // of the d= tag
}

// Choose returns the keys that sign mail of a flow whose author is of a domain, which is in
// the form of asciiDomain: those for the domain itself, or else for the next domain above it
// that has a key with a star, or else those for all. Of several for the same signing domain
// it is one for each algorithm: that whose time began last, or the first of these. RSA comes
// first, and there are at most SignaturesMax. known reports whether some key is for the domain, if not now or for this flow.
func (r *Ring) Choose(domain string, f mail.Flow, at mail.Instant) (chosen []Choice, known bool) {
	try := func(keys []*Key, of string) bool {
		known = known || len(keys) > 0
		for _, k := range keys {
			if k.signs(f, at) {
				chosen = choose(chosen, k, of)
			}
		}
		return len(chosen) > 0
	}
	if try(r.exact[domain], domain) {
		return chosen, true
	}
	for rest := domain; ; {
		_, above, ok := strings.Cut(rest, ".")
		if !ok {
			break
		}
		if rest = above; try(r.below[above], above) {
			return chosen, true
		}
	}
	try(r.any, "")
	return chosen, known
}

// choose adds a key, or replaces one that it supersedes.
func choose(chosen []Choice, k *Key, domain string) []Choice {
	c := Choice{k, domain}
	if k.Domain != "" {
		c.Domain = k.Domain
	}
	at := len(chosen)
	for i, other := range chosen {
		if other.Domain == c.Domain && other.Key.Private.Algorithm() == k.Private.Algorithm() {
			if other.Key.From < k.From {
				chosen[i] = c
			}
			return chosen
		}
		if other.Key.Private.Algorithm() > k.Private.Algorithm() {
			at = min(at, i)
		}
	}
	chosen = slices.Insert(chosen, at, c)
	return chosen[:min(len(chosen), SignaturesMax)]
}

// covers reports whether some key may be for a domain.
func (r *Ring) covers(domain string) bool {
	if len(r.any) > 0 || len(r.exact[domain]) > 0 {
		return true
	}
	for rest := domain; len(r.below) > 0; {
		_, above, ok := strings.Cut(rest, ".")
		if !ok {
			return false
		}
		if rest = above; len(r.below[above]) > 0 {
			return true
		}
	}
	return false
}
