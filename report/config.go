package report

import (
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"time"

	"github.com/posthaste-mta/posthaste/mail"
)

// Config says how reports are made. The zero value of a field means its
// default.
type Config struct {
	// Hostname is the name of this host in reports; required. Set it to the
	// name that the outside knows, which logs and Received fields show too.
	Hostname string
	// Postmaster is whom a report's reader may turn to; default "postmaster"
	// at Hostname. Change it if people should write to a help desk.
	Postmaster mail.Address
	// Footer is added to the text for people; default none. Use it for a
	// telephone number or a second language; lines are separated by "\n".
	Footer string
	// ReturnMax is the most of a message that a report gives back, in octets;
	// default 50 KiB (bounce_size_limit). A larger message is returned as its
	// header even if the sender asked for all of it (RET=FULL).
	ReturnMax int
	// RecipientsMax is the most recipients that one report is about, 1 to
	// 10,000; default 5,000. Lower it if senders' programs choke on long
	// reports.
	RecipientsMax int
	// Lifetime is how long mail is tried (maximal_queue_lifetime), which
	// reports of a delay announce; default 0: they announce nothing.
	Lifetime time.Duration
	// DoubleBounceTo is who gets a copy of undeliverable mail that has the
	// null sender; default "": nobody, the log tells. It takes effect when
	// the queue manager hands such mail to the reporter.
	DoubleBounceTo mail.Address
	// Logger gets a line about every report; default slog.Default().
	Logger *slog.Logger
}

// WithDefaults returns the configuration with defaults in place of zero
// values.
func (c Config) WithDefaults() Config {
	if c.Postmaster == "" && c.Hostname != "" {
		c.Postmaster = mail.Address("postmaster@" + c.Hostname)
	}
	if c.ReturnMax == 0 {
		c.ReturnMax = 50 << 10
	}
	if c.RecipientsMax == 0 {
		c.RecipientsMax = 5000
	}
	if c.Logger == nil {
		c.Logger = slog.Default()
	}
	return c
}

// Validate returns all complaints about a configuration with its defaults in
// place, joined; nil if there are none.
func (c Config) Validate() error {
	var errs []error
	complain := func(format string, args ...any) { errs = append(errs, fmt.Errorf(format, args...)) }
	if !isHostname(c.Hostname) {
		complain("hostname %q: want a domain name in ASCII", c.Hostname)
	}
	if !isAddress(c.Postmaster) {
		complain("postmaster %q: want an address with a domain", c.Postmaster)
	}
	if c.DoubleBounceTo != "" && !isAddress(c.DoubleBounceTo) {
		complain("double bounce address %q: want an address with a domain", c.DoubleBounceTo)
	}
	if c.ReturnMax < 1 || c.ReturnMax > 10<<20 {
		complain("returned octets %d: want 1 to 10 MiB", c.ReturnMax)
	}
	if c.RecipientsMax < 1 || c.RecipientsMax > 10_000 {
		complain("recipients in a report %d: want 1 to 10000", c.RecipientsMax)
	}
	if c.Lifetime < 0 {
		complain("lifetime %v: want none or more", c.Lifetime)
	}
	if strings.ContainsAny(c.Footer, "\r\x00") {
		complain("footer: want lines separated by LF alone")
	}
	return errors.Join(errs...)
}

func isHostname(s string) bool {
	for label := range strings.SplitSeq(s, ".") {
		if label == "" || len(label) > 63 || strings.Trim(label, "-") != label {
			return false
		}
		for _, c := range label {
			if (c < 'a' || c > 'z') && (c < 'A' || c > 'Z') && (c < '0' || c > '9') && c != '-' {
				return false
			}
		}
	}
	return len(s) <= 255
}

// isAddress looks for slips in a configuration file; it is no full grammar.
func isAddress(a mail.Address) bool {
	local, domain := a.Local(), a.Domain()
	return local != "" && domain != "" && len(a) <= 254 && mail.CleanText(string(a)) == string(a) &&
		!strings.ContainsAny(domain, " \n<>()@,;:\"\\") && !strings.ContainsAny(local, "\n<> ")
}
