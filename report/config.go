package report

import (
	"cmp"
	"log/slog"
	"strings"
	"time"

	"github.com/posthaste-mta/posthaste/internal/mistakes"
	"github.com/posthaste-mta/posthaste/mail"
)

// Config configures the reports. The zero value of a field means its default.
type Config struct {
	// Hostname is the name of this host in reports; required. Set it to the
	// public name of the host, which logs and Received fields show too.
	Hostname string
	// Postmaster is the contact address for readers of a report; default
	// "postmaster" at Hostname. Change it if people should write to a help desk.
	Postmaster mail.Address
	// Footer is text added to the human-readable part; default none. Use it for a
	// telephone number or a second language; lines are separated by "\n".
	Footer string
	// ReturnMax is the maximum size of a returned message, in octets; default
	// 50 KiB (bounce_size_limit). Of a larger message only the header is returned,
	// even if the sender asked for all of it (RET=FULL).
	ReturnMax int
	// RecipientsMax is the maximum number of recipients in one report, 1 to
	// 10,000; default 5,000. Lower it if senders' programs cannot handle long
	// reports.
	RecipientsMax int
	// Lifetime is the time after which mail is given up (maximal_queue_lifetime),
	// which delay reports announce; default 0: they announce no time.
	Lifetime time.Duration
	// DoubleBounceTo is the address that gets a copy of undeliverable mail with
	// the null sender; default "": no copy, only a line in the log. It takes effect
	// when the queue manager passes such mail to the reporter.
	DoubleBounceTo mail.Address
	// VERP returns how failures of messages with VERP senders are reported, which a reload may
	// change; nil: as by the zero VERP. It must be safe for concurrent use and not return nil.
	VERP func() *VERP
	// Logger gets a line about every report; default slog.Default().
	Logger *slog.Logger
}

// A VERP says how failures of messages with VERP senders (package verp) are reported.
type VERP struct {
	// OneReport makes one report on all recipients, to the message's own sender, as for other
	// messages (disable_verp_bounces). Otherwise there is a report for each recipient to its VERP
	// sender, which is what list software expects.
	OneReport bool
	Secrets   [][]byte // the keys of tags in VERP senders
}

// WithDefaults returns the configuration with zero values replaced by defaults.
func (c Config) WithDefaults() Config {
	if c.Postmaster == "" && c.Hostname != "" {
		c.Postmaster = mail.Address("postmaster@" + c.Hostname)
	}
	c.ReturnMax = cmp.Or(c.ReturnMax, 50<<10)
	c.RecipientsMax = cmp.Or(c.RecipientsMax, 5000)
	if c.VERP == nil {
		none := new(VERP)
		c.VERP = func() *VERP { return none }
	}
	if c.Logger == nil {
		c.Logger = slog.Default()
	}
	return c
}

// Validate returns all errors of a configuration with its defaults in place,
// joined; nil if there are none.
func (c Config) Validate() error {
	var wrong mistakes.List
	wrong.Unless(isHostname(c.Hostname), "hostname %q: want a domain name in ASCII", c.Hostname)
	wrong.Unless(isAddress(c.Postmaster), "postmaster %q: want an address with a domain", c.Postmaster)
	wrong.Unless(c.DoubleBounceTo == "" || isAddress(c.DoubleBounceTo), "double bounce address %q: want an address with a domain", c.DoubleBounceTo)
	wrong.Unless(c.ReturnMax >= 1 && c.ReturnMax <= 10<<20, "returned octets %d: want 1 to 10 MiB", c.ReturnMax)
	wrong.Unless(c.RecipientsMax >= 1 && c.RecipientsMax <= 10_000, "recipients in a report %d: want 1 to 10000", c.RecipientsMax)
	wrong.Unless(c.Lifetime >= 0, "lifetime %v: must not be negative", c.Lifetime)
	wrong.Unless(!strings.ContainsAny(c.Footer, "\r\x00"), "footer: want lines separated by LF alone")
	return wrong.Join()
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

// isAddress detects slips in a configuration file; it is not a full grammar.
func isAddress(a mail.Address) bool {
	local, domain := a.Local(), a.Domain()
	return local != "" && domain != "" && len(a) <= 254 && mail.CleanText(string(a)) == string(a) &&
		!strings.ContainsAny(domain, " \n<>()@,;:\"\\") && !strings.ContainsAny(local, "\n<> ")
}
