package config

import (
	"slices"
	"strings"
	"time"

	"github.com/posthaste-mta/posthaste/inbound"
	"github.com/posthaste-mta/posthaste/internal/tomlfile"
	"github.com/posthaste-mta/posthaste/internal/users"
	"github.com/posthaste-mta/posthaste/qmgr/shape"
	"github.com/posthaste-mta/posthaste/sasl/guesses"
	"github.com/posthaste-mta/posthaste/smtp"
)

// Logins configures the logins of clients.
type Logins struct {
	Users        string // a path; "": none can log in
	SenderLogins []string
	ShowUser     bool
	Concurrency  int // 0: by the number of processors
	FailureLimit int // 0: none
	FailureTime  time.Duration
}

// ListenerAuth is the logins of a listener.
type ListenerAuth struct {
	Use        shape.Opt[inbound.AuthUse] // unset: by purpose
	Mechanisms []smtp.Mechanisms          // each is one
}

func loginParameters() []parameter[Config] {
	return []parameter[Config]{
		define("users", optional(filePath("/etc/posthaste/users"), "for none"), func(c *Config) *string { return &c.Logins.Users }, "",
			"The file of the users who may log in, which \"posthaste user\" makes and changes; it is read again when it has changed.",
			"Set it to let mail programs log in on listeners of purpose submission and submissions."),
		define("smtpd_sender_login_maps", list(senderLogin(), "senders with their users"), func(c *Config) *[]string { return &c.Logins.SenderLogins }, []string{},
			"The envelope senders that users who have logged in may use. An entry is a sender, followed by the users who may use it. The sender is an address, in which * stands for any text, a domain, or .domain for the domains below it. A user is a name, * for all users, or {sender} for the user whose name is the address. An entry for the exact address takes precedence; otherwise the first match decides. Without entries, all users may use all senders.",
			"Set it if users must not write in each other's name, such as [\"*@example.com {sender}\", \"info@example.com alice bob\"]."),
		define("smtpd_sasl_authenticated_header", flag(), func(c *Config) *bool { return &c.Logins.ShowUser }, false,
			"Whether the Received field of a message names the user who has logged in; all recipients can read the field.",
			"Set it to true if complaints that reach you include only the header of the mail.").onRestart(),
		define("smtpd_auth_concurrency", integer(limit[int]{min: 1, max: 1024, zero: "one fewer than there are processors, but at least one"}), func(c *Config) *int { return &c.Logins.Concurrency }, 0,
			"The number of passwords of PLAIN and LOGIN that are checked at once. A check keeps a processor busy for some 25 ms and takes 19 MiB of memory, unless the hash in the file of users demands another amount, up to 64 MiB.",
			"Lower it if memory is short.").onRestart(),
		define("smtpd_auth_failure_limit", integer(limit[int]{min: 1, max: 10_000, zero: "no limit"}), func(c *Config) *int { return &c.Logins.FailureLimit }, 20,
			"The number of failed logins, from one IPv4 address or IPv6 network or for one user, at which further logins are refused until one failure is forgotten; the limit for a user does not apply to networks from which that user has logged in before.",
			"Raise it if many people behind one address mistype their passwords.").onRestart(),
		define("smtpd_auth_failure_time", period(time.Second, limit[time.Duration]{min: time.Second, max: 24 * time.Hour}), func(c *Config) *time.Duration { return &c.Logins.FailureTime }, time.Minute,
			"The time after which one failed login is forgotten.",
			"Raise it against patient attackers.").onRestart(),
	}
}

func authParameters() []parameter[Listener] {
	return []parameter[Listener]{
		define("auth", opt(words(word[inbound.AuthUse]{"off", inbound.AuthOff}, word[inbound.AuthUse]{"optional", inbound.AuthOptional}, word[inbound.AuthUse]{"required", inbound.AuthRequired})),
			func(l *Listener) *shape.Opt[inbound.AuthUse] { return &l.Auth.Use }, shape.Opt[inbound.AuthUse]{},
			"The use of AUTH: off does not offer it, optional lets clients that have logged in send anywhere, and required serves only these clients and those in mynetworks and relay_clientcerts. By default, listeners of purpose submission and submissions require it if there are users, and those of purpose relay do not offer it.",
			"Set it to optional for port 25 only if there are mail programs that cannot use another port."),
		define("auth_mechanisms", list(words(mechanismWords()...), "mechanisms"), func(l *Listener) *[]smtp.Mechanisms { return &l.Auth.Mechanisms }, standardMechanisms(),
			"The mechanisms of AUTH; PLAIN, LOGIN and SCRAM-SHA-256-PLUS are offered with TLS only, whatever the list says.",
			"Leave out PLAIN and LOGIN if all mail programs know SCRAM, so that no password ever reaches this host."),
	}
}

func standardMechanisms() []smtp.Mechanisms {
	return []smtp.Mechanisms{smtp.MechScramPlus, smtp.MechScram, smtp.MechPlain, smtp.MechLogin}
}

func mechanismWords() []word[smtp.Mechanisms] {
	var all []word[smtp.Mechanisms]
	for _, m := range standardMechanisms() {
		all = append(all, word[smtp.Mechanisms]{m.String(), m})
	}
	return all
}

// senderLogin is a sender, and users behind it.
func senderLogin() kind[string] {
	return text("sender with users", `such as ["*@example.com {sender}", "info@example.com alice bob"]`, func(s string) (string, string) {
		fields := strings.Fields(s)
		switch {
		case len(fields) < 2:
			return tomlfile.QuoteText(s) + " is not a sender with users", `write the sender, a space and the names of its users, as in "info@example.com alice bob"`
		case strings.HasPrefix(fields[0], "@"):
			return tomlfile.QuoteText(fields[0]) + " is not a sender", "write " + tomlfile.QuoteText(fields[0][1:]) + " for all addresses of the domain"
		}
		for _, user := range fields[1:] {
			if user == inbound.AnyUser || user == inbound.SameUser {
				continue
			}
			if name, err := users.CheckName(user); err != nil {
				return err.Error(), ""
			} else if name != user {
				return tomlfile.QuoteText(user) + " is not how the user is named", "write " + tomlfile.QuoteText(name)
			}
		}
		return "", ""
	})
}

// senderLogins returns smtpd_sender_login_maps for package inbound.
func (c *Config) senderLogins() []inbound.SenderLogin {
	var all []inbound.SenderLogin
	for _, one := range c.Logins.SenderLogins {
		fields := strings.Fields(one)
		all = append(all, inbound.SenderLogin{Sender: fields[0], Users: fields[1:]})
	}
	return all
}

// logins returns the configuration of inbound's logins.
func (c *Config) logins() inbound.AuthConfig {
	return inbound.AuthConfig{Concurrency: c.Logins.Concurrency, Guesses: guesses.Config{Limit: orNone(c.Logins.FailureLimit), Forget: c.Logins.FailureTime}}
}

// OpenUsers reads the file of users; nil if there is none.
func (c *Config) OpenUsers() (*users.File, error) {
	if c.Logins.Users == "" {
		return nil, nil
	}
	return users.Open(c.Logins.Users)
}

// UseOfAuth returns how a listener uses AUTH.
func (c *Config) UseOfAuth(l *Listener) inbound.AuthUse {
	switch {
	case l.Auth.Use.Set:
		return l.Auth.Use.Value
	case c.Logins.Users != "" && l.Purpose != inbound.PurposeRelay && l.Address.Unix == "":
		return inbound.AuthRequired
	}
	return inbound.AuthOff
}

// mechanisms returns the mechanisms of a listener as a set.
func (l *Listener) mechanisms() (all smtp.Mechanisms) {
	for _, m := range l.Auth.Mechanisms {
		all |= m
	}
	return all
}

// checkAuth complains about logins that cannot be.
func (l *loader) checkAuth(one *Listener, about func(parameter, message, hint string)) {
	use := l.c.UseOfAuth(one)
	const revealing = smtp.Revealing | smtp.Bound
	switch {
	case use == inbound.AuthOff:
	case l.c.Logins.Users == "":
		about("auth", "there are no users who could log in", `set users = "/etc/posthaste/users", and add users with "posthaste user add"`)
	case one.Address.Unix != "":
		about("auth", "clients of a unix socket may send anywhere without logging in", "remove it")
	case len(one.Auth.Mechanisms) == 0:
		about("auth_mechanisms", "there is no mechanism by which clients could log in", "name one, or remove it for all")
	case l.c.UseOfTLS(one) == inbound.TLSNone && one.mechanisms()&^revealing == 0:
		about("auth_mechanisms", "none of these is offered without TLS, and this listener has none", "add SCRAM-SHA-256, or let the listener use TLS")
	}
	if i := slices.IndexFunc(one.Auth.Mechanisms, func(m smtp.Mechanisms) bool { return countOf(one.Auth.Mechanisms, m) > 1 }); i >= 0 {
		about("auth_mechanisms", one.Auth.Mechanisms[i].String()+" is there twice", "remove one of them")
	}
}

func countOf(all []smtp.Mechanisms, m smtp.Mechanisms) (n int) {
	for _, other := range all {
		if other == m {
			n++
		}
	}
	return n
}
