package config

import (
	"errors"
	"fmt"
	"net/netip"
	"strings"

	"github.com/posthaste-mta/posthaste/internal/tomlfile"
	"github.com/posthaste-mta/posthaste/mail"
	"github.com/posthaste-mta/posthaste/qmgr/rate"
	"github.com/posthaste-mta/posthaste/qmgr/shape"
	"github.com/posthaste-mta/posthaste/route"
)

// rates are rate limits, all of which apply together.
func rates() kind[rate.Limits] {
	return kind[rate.Limits]{
		name:   "rate",
		limits: `or "" for no limit`,
		form:   `such as "10/s", "600/min" or "10/s, 5000/h, 50000/d"`,
		plain:  func(l rate.Limits) any { return l.String() },
		read: func(n *tomlfile.Node) (rate.Limits, *flaw) {
			if n.Kind == tomlfile.KindList {
				return joinRates(n)
			}
			s, f := readText(n, "a rate")
			if f != nil {
				if n.Kind == tomlfile.KindInteger {
					f.hint = "give the span of time: " + tomlfile.QuoteText(n.Text+"/s")
				}
				return rate.Limits{}, f
			}
			return readRates(n, s)
		},
	}
}

func readRates(n *tomlfile.Node, s string) (rate.Limits, *flaw) {
	limits, err := rate.Parse(s)
	var wrong *rate.ParseError
	switch {
	case err == nil:
		return limits, nil
	case !errors.As(err, &wrong):
		return limits, &flaw{message: err.Error()}
	}
	f := &flaw{message: wrong.Why}
	if n.At.End-n.At.Start == len(s)+len(`""`) { // no escapes: offsets are those of the file
		f.at.Start = n.At.Start + 1 + wrong.At
		f.at.End = f.at.Start + max(1, strings.IndexByte(s[wrong.At:]+",", ','))
	}
	return limits, f
}

// joinRates reads rates that are written as a TOML list.
func joinRates(n *tomlfile.Node) (rate.Limits, *flaw) {
	var texts []string
	var flaws *flaw
	for _, item := range n.Items {
		s, f := readText(item, "a rate")
		if f == nil {
			_, f = readRates(item, s)
		}
		if f != nil {
			if f.at == (tomlfile.Span{}) {
				f.at = item.At
			}
			f.next, flaws = flaws, f
		}
		texts = append(texts, s)
	}
	if flaws != nil {
		return rate.Limits{}, flaws
	}
	return readRates(n, strings.Join(texts, ", "))
}

// levels are the levels of pipelining.
func levels() kind[mail.Level] {
	var all []word[mail.Level]
	for l := mail.LevelLockStep; l <= mail.LevelStream; l++ {
		all = append(all, word[mail.Level]{l.String(), l})
	}
	return words(all...)
}

// opt is k for a parameter that has no value unless it is set.
func opt[T any](k kind[T]) kind[shape.Opt[T]] {
	return kind[shape.Opt[T]]{
		name: k.name, unit: k.unit, limits: k.limits, form: k.form, closed: k.closed,
		plain: func(o shape.Opt[T]) any {
			if !o.Set {
				return nil
			}
			return k.plain(o.Value)
		},
		read: func(n *tomlfile.Node) (shape.Opt[T], *flaw) {
			v, f := k.read(n)
			return shape.Opt[T]{Value: v, Set: f == nil}, f
		},
	}
}

// receiverDomain is a domain, or all domains below one.
func receiverDomain() kind[string] {
	return text("domain", `such as ["example.com", ".example.net"]`, func(s string) (string, string) {
		if rest, found := strings.CutPrefix(s, "*."); found {
			return tomlfile.QuoteText(s) + " is not a domain", "write " + tomlfile.QuoteText("."+rest) + " for all names below " + rest
		}
		_, err := canonicalDomain(s)
		message, hint := explainRoute(strings.TrimPrefix(s, "."), err)
		if _, ok := parsePrefix(s); ok {
			hint = "write it into networks"
		}
		return message, hint
	})
}

// canonicalDomain returns a domain, or a dot and a domain, in the form that package
// shape requires.
func canonicalDomain(s string) (string, error) {
	bare := strings.TrimPrefix(s, ".")
	name, err := route.ParseDomain(bare)
	if err != nil {
		return "", err
	}
	return s[:len(s)-len(bare)] + name, nil
}

// mxPattern is the name of a host, or a pattern for such names.
func mxPattern() kind[string] {
	return text("pattern", `such as ["mx.example.com", ".example.net", "mx*.example.org"]`, func(s string) (string, string) {
		if err := shape.CheckMX(canonicalMX(s)); err != nil {
			return err.Error(), ""
		}
		return "", ""
	})
}

func canonicalMX(s string) string { return strings.ToLower(strings.TrimSuffix(s, ".")) }

// receiverNetwork is a network that mail can be sent to.
func receiverNetwork() kind[netip.Prefix] {
	k := network()
	inner := k.read
	k.form = `such as ["192.0.2.0/24", "198.51.100.7", "2001:db8::/32"]`
	k.read = func(n *tomlfile.Node) (netip.Prefix, *flaw) {
		p, f := inner(n)
		if f != nil {
			return p, f
		}
		if err := shape.CheckNetwork(p); err != nil {
			return p, &flaw{message: fmt.Sprintf("%q cannot be used: %v", n.Text, err)}
		}
		return p, nil
	}
	return k
}
