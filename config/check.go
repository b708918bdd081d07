package config

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/posthaste-mta/posthaste/internal/tomlfile"
	"github.com/posthaste-mta/posthaste/qmgr"
)

// check complains about combinations of values that are each valid alone.
func (l *loader) check() {
	c := l.c
	atMost(l, "minimal_backoff_time", "maximal_backoff_time", c.Retry.MinimalBackoff, c.Retry.MaximalBackoff)
	atMost(l, "smtpd_soft_error_limit", "smtpd_hard_error_limit", c.SMTPD.SoftErrorLimit, c.SMTPD.HardErrorLimit)
	atMost(l, "dns.positive_ttl_min", "dns.positive_ttl_max", c.DNS.PositiveMin, c.DNS.PositiveMax)
	atMost(l, "dns.negative_ttl_min", "dns.negative_ttl_max", c.DNS.NegativeMin, c.DNS.NegativeMax)
	atMost(l, "dns.failure_time_min", "dns.failure_time_max", c.DNS.FailureMin, c.DNS.FailureMax)
	if c.Retry.DelayWarningTime > 0 && c.Retry.DelayWarningTime >= c.Retry.MaximalLifetime {
		l.complain("mail never reaches this age: maximal_queue_lifetime is "+l.shown("maximal_queue_lifetime", show(c.Retry.MaximalLifetime)), "set it to 0 for no warnings",
			"delay_warning_time", "maximal_queue_lifetime")
	}
	if c.Reports.DoubleBounceTo != "" && c.Reports.DoubleBounce != qmgr.DoubleBounceReport {
		l.complain(`no mail is sent to this address unless double_bounce is "report"`, `set double_bounce = "report" too`, "2bounce_notice_recipient", "double_bounce")
	}
	if c.SMTPD.GreetPause > 0 && !c.SMTPD.ForbidEarly {
		l.complain("the pause has no effect while smtpd_forbid_unauth_pipelining is false", "set smtpd_forbid_unauth_pipelining = true too",
			"smtpd_greet_pause", "smtpd_forbid_unauth_pipelining")
	}
	l.checkSockets()
	l.checkTransports()
	l.checkNexthops()
	l.checkPrograms()
	l.checkSecurity()
	l.checkTLSReports()
	l.checkFeedback()
	l.checkDelimiters("default_verp_delimiters", l.c.VERP.Delimiters)
	l.checkHostname()
	if !l.src.Wrong() {
		l.checkPackages()
	}
}

// complain records a problem of the first of several parameters that conflict, at
// the position of the first of them that the file sets.
func (l *loader) complain(message, hint string, keys ...string) {
	var at tomlfile.Span
	for _, key := range slices.Backward(keys) {
		if l.failed[key] {
			return
		}
		if place, ok := l.places[key]; ok {
			at = place
		}
	}
	l.src.Complain(at, tomlfile.Problem{Key: keys[0], Message: message, Hint: hint})
}

// atMost complains unless low is at most high.
func atMost[T int | time.Duration](l *loader, lowKey, highKey string, low, high T) {
	if low <= high {
		return
	}
	if _, set := l.places[lowKey]; set {
		l.complain(fmt.Sprintf("%s is more than %s, which is %s", show(low), highKey, l.shown(highKey, show(high))), "", lowKey, highKey)
		return
	}
	l.complain(fmt.Sprintf("%s is less than %s, which is %s", show(high), lowKey, l.shown(lowKey, show(low))), "", highKey, lowKey)
}

func show(v any) string {
	if d, ok := v.(time.Duration); ok {
		return FormatDuration(d)
	}
	return fmt.Sprint(v)
}

// shown returns a value and its origin, for a message.
func (l *loader) shown(key, value string) string {
	if at, ok := l.places[key]; ok {
		return fmt.Sprintf("%s (line %d)", value, l.src.Line(at))
	}
	return value + " (the default)"
}

func (l *loader) checkSockets() {
	c := l.c
	if c.AdminSocket != "" && c.AdminSocketPath() == c.SubmissionSocketPath() {
		l.complain("this is the same path as admin_socket", "", "submission_socket", "admin_socket")
	}
	for _, socket := range []struct{ key, set, path string }{
		{"admin_socket", c.AdminSocket, c.AdminSocketPath()},
		{"submission_socket", c.SubmissionSocket, c.SubmissionSocketPath()},
	} {
		if n := len(socket.path); socket.set != "" && n > socketPathMax {
			l.complain(fmt.Sprintf("in this queue_directory its path has %d bytes; that of a unix socket cannot be longer than %d", n, socketPathMax),
				"set it to a shorter, absolute path", socket.key, "queue_directory")
		}
	}
	for i, a := range c.Listen {
		if slices.Contains(c.Listen[:i], a) && a.Port() != 0 {
			l.complain(fmt.Sprintf("%s is in the list twice", a), "", "listen")
			return
		}
	}
}

// checkTransports complains about routes to transports that do not exist.
func (l *loader) checkTransports() {
	if l.broken {
		return // the transport may be defined in the part that could not be read
	}
	names := slices.Sorted(maps.Keys(l.c.Transports))
	check := func(key string, at tomlfile.Span, name string) {
		if _, ok := l.c.Transports[name]; !ok && !l.failed[key] {
			hint := didYouMean(name, names)
			if hint == "" {
				hint = fmt.Sprintf("add a table [%s]", transportTable(name))
			}
			l.src.Complain(at, tomlfile.Problem{Key: key, Message: fmt.Sprintf("there is no transport %q", name), Allowed: "one of " + strings.Join(names, ", "), Hint: hint})
		}
	}
	for _, r := range l.rules {
		if r.Route.Transport != "" {
			check(r.key, r.at, r.Route.Transport)
		}
	}
	name, _, _ := strings.Cut(l.c.DefaultTransport, ":")
	check("default_transport", l.places["default_transport"], name)
}

// checkHostname complains about the machine's own name if it cannot be used; a name
// in the file has been checked already.
func (l *loader) checkHostname() {
	if l.c.explicit[nameHostname] || l.failed[nameHostname] {
		return
	}
	k := domain()
	if _, f := k.read(&tomlfile.Node{Kind: tomlfile.KindText, Text: l.c.Hostname}); f != nil {
		l.complain("it is not set, and the machine's own name cannot be used: "+f.message, `write myhostname = "mail.example.com"`, nameHostname)
	}
}

// checkPackages has every package validate its configuration. It finds nothing
// unless a check above is missing; but a program that starts and then rejects its
// own configuration would be worse than a message without a position.
func (l *loader) checkPackages() {
	for _, err := range l.c.validateAll() {
		l.src.Complain(tomlfile.Span{}, tomlfile.Problem{Message: strings.ReplaceAll(err.Error(), "\n", "; ")})
	}
}
