package mtasts

import (
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"
)

// A Mode determines how a sender treats a host that does not satisfy the policy
// (RFC 8461 5).
type Mode uint8

const (
	None    Mode = iota // nothing: the domain no longer has a policy
	Testing             // it reports it, and delivers
	Enforce             // it does not deliver to the host
)

var modes = [...]string{"none", "testing", "enforce"}

// String returns the mode as in a policy.
func (m Mode) String() string { return modes[m] }

// A Policy contains a domain's demands on the servers for its mail (RFC 8461 3.2).
type Policy struct {
	ID     string        // of the TXT record when the policy was fetched
	Mode   Mode          // whether the demand is enforced
	MX     []string      // names of hosts, in lower case; "*." at the beginning stands for one label
	MaxAge time.Duration // how long the policy is in force after it was fetched
}

// Matches reports whether the policy permits a host, by its name in the MX record
// (RFC 8461 4.1). Letter case and a final dot do not matter.
func (p Policy) Matches(mx string) bool {
	mx = strings.ToLower(strings.TrimSuffix(mx, "."))
	if mx == "" {
		return false
	}
	label, parent, _ := strings.Cut(mx, ".")
	for _, pattern := range p.MX {
		if pattern == mx {
			return true
		}
		if zone, wild := strings.CutPrefix(pattern, "*."); wild && label != "" && zone == parent {
			return true
		}
	}
	return false
}

// Lines returns the policy as lines of a file, for reports (RFC 8460 4.4,
// "policy-string").
func (p Policy) Lines() []string {
	lines := []string{"version: STSv1", "mode: " + p.Mode.String()}
	for _, mx := range p.MX {
		lines = append(lines, "mx: "+mx)
	}
	return append(lines, "max_age: "+strconv.FormatInt(int64(p.MaxAge/time.Second), 10))
}

const (
	// SizeMax is the maximum number of octets of a policy (RFC 8461 3.3).
	SizeMax = 64 << 10
	// MaxAgeMax is the longest time that a policy may be in force (RFC 8461 3.2).
	MaxAgeMax = 31557600 * time.Second
	// maxAgeDigits is the maximum number of digits of max_age.
	maxAgeDigits = 10
)

// ErrPolicy is the error of ParsePolicy, with a reason.
var ErrPolicy = errors.New("mtasts: the policy is invalid")

// ParsePolicy parses a policy as web servers send it (RFC 8461 3.2). Its ID is
// empty. Unknown fields are ignored, and so are further ones of a kind that may appear
// once. A policy with an error is no policy.
func ParsePolicy(body []byte) (Policy, error) {
	if len(body) > SizeMax {
		return Policy{}, fmt.Errorf("%w: it has more than %d octets", ErrPolicy, SizeMax)
	}
	var p Policy
	seen := make(map[string]bool)
	for line := range strings.SplitSeq(string(body), "\n") {
		line = strings.TrimRight(strings.TrimSuffix(line, "\r"), " \t")
		if line == "" {
			continue
		}
		name, value, found := strings.Cut(line, ":")
		value = trim(value)
		switch {
		case !found || !isName(name) || !isText(value):
			return Policy{}, fmt.Errorf("%w: %.60q is not a field", ErrPolicy, line)
		case name != "mx" && seen[name]:
			continue
		}
		if known(name) {
			seen[name] = true
		}
		if err := p.set(name, value); err != nil {
			return Policy{}, err
		}
	}
	for _, name := range [...]string{"version", "mode", "max_age"} {
		if !seen[name] {
			return Policy{}, fmt.Errorf("%w: it has no %s", ErrPolicy, name)
		}
	}
	if len(p.MX) == 0 && p.Mode != None {
		return Policy{}, fmt.Errorf("%w: it has no mx", ErrPolicy)
	}
	return p, nil
}

func known(name string) bool {
	switch name {
	case "version", "mode", "max_age", "mx":
		return true
	}
	return false
}

// set stores a field.
func (p *Policy) set(name, value string) error {
	ok := true
	switch name {
	case "version":
		ok = value == "STSv1"
	case "mode":
		ok = false
		for m, word := range modes {
			if value == word {
				p.Mode, ok = Mode(m), true
			}
		}
	case "max_age":
		p.MaxAge, ok = parseMaxAge(value)
	case "mx":
		pattern := strings.ToLower(value)
		ok = isPattern(pattern)
		p.MX = append(p.MX, pattern)
	}
	if !ok {
		return fmt.Errorf("%w: %s cannot be %.60q", ErrPolicy, name, value)
	}
	return nil
}

func parseMaxAge(s string) (time.Duration, bool) {
	if s == "" || len(s) > maxAgeDigits || !all(s, func(c byte) bool { return c >= '0' && c <= '9' }) {
		return 0, false
	}
	n, err := strconv.ParseInt(s, 10, 64)
	if err != nil || n > int64(MaxAgeMax/time.Second) {
		return 0, false
	}
	return time.Duration(n) * time.Second, true
}

// isPattern reports whether a text in lower case is the name of a host, or "*." and one.
// A star alone, which would permit every host, is not.
func isPattern(s string) bool {
	s = strings.TrimPrefix(s, "*.")
	if len(s) > domainMax {
		return false
	}
	for label := range strings.SplitSeq(s, ".") {
		if label == "" || len(label) > labelMax || label[0] == '-' || label[len(label)-1] == '-' {
			return false
		}
		// An underscore is no letter of a host's name, but there are such hosts.
		if !all(label, func(c byte) bool { return isAlphanumeric(c) || c == '-' || c == '_' }) {
			return false
		}
	}
	return true
}

// Limits of names (RFC 1035 2.3.4).
const (
	domainMax = 253
	labelMax  = 63
)

// isText reports whether a text is the value of a field: no control characters.
func isText(s string) bool {
	return s != "" && all(s, func(c byte) bool { return c >= ' ' && c != 0x7f || c == '\t' })
}
