package config

import (
	"github.com/posthaste-mta/posthaste/mail"
	"github.com/posthaste-mta/posthaste/tlspolicy"
)

// A TLSReports is the reports on TLS to domains that ask for them; the table [tls_reports].
type TLSReports struct {
	Organization string // "": none are made
	Contact      string // "" for From
	From         string // "" for tls-reports at myhostname
	Exclude      []string
}

func tlsReportParameters() []parameter[Config] {
	line := func(s string) (string, string) {
		if len(s) > 200 {
			return "it has more than 200 characters", ""
		}
		return "", ""
	}
	return []parameter[Config]{
		define("organization", optional(text("name", "", line), "for no reports"), func(c *Config) *string { return &c.TLSReports.Organization }, "",
			"The name of the organization in reports on TLS; without it, sessions are not counted and no reports are sent (docs/tls-reports.md).",
			"Set it, together with contact, if you send enough mail for your reports to be useful to receivers."),
		define("contact", optional(text("contact", "", line), "for the address in from"), func(c *Config) *string { return &c.TLSReports.Contact }, "",
			"The contact for readers of a report: a mail address, a URL or a telephone number.",
			"Set it to an address that people read."),
		define("from", optional(mailbox(), "for tls-reports at myhostname"), func(c *Config) *string { return &c.TLSReports.From }, "",
			"The sender of reports by mail; its domain must have a key in [dkim.NAME], since without a key reports are sent by HTTPS only.",
			"Set it to an address at a domain whose mail you sign."),
		define("exclude", list(domain(), "domains"), func(c *Config) *[]string { return &c.TLSReports.Exclude }, []string{},
			"Domains about which nothing is counted or reported.",
			"Set it to your own domains, and to domains that have asked for no reports."),
	}
}

// TLSReportsFrom returns the sender of reports on TLS.
func (c *Config) TLSReportsFrom() mail.Address {
	if c.TLSReports.From != "" {
		return mail.Address(c.TLSReports.From)
	}
	return mail.Address("tls-reports@" + c.Hostname)
}

// checkTLSReports complains about parameters of reports that are not made.
func (l *loader) checkTLSReports() {
	if l.c.TLSReports.Organization != "" || l.failed[fullName(tableTLSReports, "organization")] {
		return
	}
	r, name := &l.c.TLSReports, ""
	switch {
	case r.Contact != "":
		name = "contact"
	case r.From != "":
		name = "from"
	case len(r.Exclude) > 0:
		name = "exclude"
	default:
		return
	}
	l.complain("no reports on TLS are made without organization", `add such as organization = "Example Company"`, fullName(tableTLSReports, name))
}

// tlsReports warns of reports that would be empty, or could not be mailed.
func (w *warner) tlsReports() {
	if w.c.TLSReports.Organization == "" {
		return
	}
	key := fullName(tableTLSReports, "organization")
	looks := func(level tlspolicy.Level) bool {
		return tlspolicy.Demand{Level: level}.WantsRecords()
	}
	counted := false
	for _, t := range w.c.Transports {
		counted = counted || t.Type == TypeSMTP && looks(t.SMTP.Policy.Level)
	}
	for _, d := range w.c.Destinations {
		counted = counted || d.Security.Set && looks(d.Security.Value)
	}
	if !counted {
		w.about(key, "no mail has a TLS level of dane, dane-only or mta-sts, so no policies are looked for, and there is nothing to report on")
	}
	if len(w.c.DKIMKeys) == 0 {
		w.about(key, "there is no [dkim.NAME], and reports that are not signed must not be mailed (RFC 8460 3), so they go by HTTPS only")
	}
}
