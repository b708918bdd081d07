package config

import (
	"time"

	"github.com/posthaste-mta/posthaste/inbound"
	"github.com/posthaste-mta/posthaste/qmgr/shape"
)

func etrnParameters() []parameter[Config] {
	return []parameter[Config]{
		define("fast_flush_domains", list(relayDomain(), "domains"), func(c *Config) *[]string { return &c.FastFlush.Domains }, []string{},
			"The domains whose deferred mail clients may have tried at once by ETRN (RFC 1985); \".example.com\" stands for all names below example.com; without domains, ETRN is not offered.",
			"Set it to the domains whose servers are not always connected, and that send ETRN when they are.").unlike("$relay_domains"),
		define("fast_flush_interval", period(time.Second, limit[time.Duration]{min: time.Second, max: 24 * time.Hour}), func(c *Config) *time.Duration { return &c.FastFlush.Interval }, time.Minute,
			"The shortest time between two attempts for the mail of one domain because of ETRN; a request that comes sooner is served when it has passed.",
			"Raise it if clients ask for the mail of a domain too often."),
	}
}

// etrnParameter is the parameter of a listener that says who may use ETRN.
func etrnParameter() parameter[Listener] {
	return define("etrn", opt(words(word[inbound.ETRNUse]{"off", inbound.ETRNOff}, word[inbound.ETRNUse]{"trusted", inbound.ETRNTrusted}, word[inbound.ETRNUse]{"all", inbound.ETRNAll})),
		func(l *Listener) *shape.Opt[inbound.ETRNUse] { return &l.ETRN }, shape.Opt[inbound.ETRNUse]{},
		"The clients that may use ETRN for fast_flush_domains: off does not offer it, trusted means those that may send anywhere, who also learn how many messages wait, and all means all; by default, all on listeners of purpose relay, and off on others.",
		"Set it to trusted if the servers of these domains have fixed addresses in mynetworks or log in, so that no stranger can make this host connect to them.")
}

// etrn returns which clients of a listener may use ETRN.
func (c *Config) etrn(l *Listener) inbound.ETRNUse {
	if len(c.FastFlush.Domains) == 0 || l.Purpose != inbound.PurposeRelay {
		return inbound.ETRNOff
	}
	return l.ETRN.Or(inbound.ETRNAll)
}

// checkETRN complains about ETRN where it must not be offered.
func (l *loader) checkETRN(one *Listener, about func(parameter, message, hint string)) {
	if one.ETRN.Or(inbound.ETRNOff) != inbound.ETRNOff && one.Purpose != inbound.PurposeRelay {
		about("etrn", "ETRN is for mail servers, not for submission (RFC 6409 7)", "remove it, or set it for a listener of purpose relay")
	}
}

// etrn warns of listeners for a command that has no domains.
func (w *warner) etrn(l *Listener) {
	if l.ETRN.Or(inbound.ETRNOff) != inbound.ETRNOff && len(w.c.FastFlush.Domains) == 0 {
		w.about(fullName(fullName(tableListener, l.Name), "etrn"), "it has no effect, because fast_flush_domains has no domain")
	}
}
