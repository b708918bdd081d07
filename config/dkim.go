package config

import (
	"fmt"
	"log/slog"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/posthaste-mta/posthaste/dkim"
	"github.com/posthaste-mta/posthaste/dkim/keyring"
	"github.com/posthaste-mta/posthaste/internal/tomlfile"
	"github.com/posthaste-mta/posthaste/mail"
	"github.com/posthaste-mta/posthaste/qmgr/warmup"
)

// A DKIM is the signing of mail; the dkim_ parameters.
type DKIM struct {
	Directory   string // as written; see DKIMKeyPath
	Concurrency int    // 0: one fewer than there are processors
	BySender    bool
	Unsigned    UnsignedLog
}

// An UnsignedLog is the way in which messages that are not signed are logged.
type UnsignedLog uint8

const (
	UnsignedInfo UnsignedLog = iota // at level info
	UnsignedWarn                    // at level warn
	UnsignedNone                    // not at all
)

// Level returns the level of the log lines; ok is false if there are none.
func (u UnsignedLog) Level() (level slog.Level, ok bool) {
	if u == UnsignedWarn {
		return slog.LevelWarn, true
	}
	return slog.LevelInfo, u == UnsignedInfo
}

// A DKIMKey is a table [dkim.NAME].
type DKIMKey struct {
	Name          string
	Domains       []string
	SigningDomain string // "" for that in Domains
	Selector      string
	File          string // as written; see DKIMKeyPath
	ValidFrom     warmup.Day
	ValidUntil    warmup.Day // the last day
	Classes       []string
	Tenants       []string
}

func dkimKeyName(k *DKIMKey) string { return k.Name }

func standardDKIMKey(name string) DKIMKey { return DKIMKey{Name: name} }

// dkimParameters are those of all keys; a key has a table of its own.
func dkimParameters() []parameter[Config] {
	return []parameter[Config]{
		define("dkim_directory", text("path", "relative to queue_directory unless it begins with /", checkPath), func(c *Config) *string { return &c.DKIM.Directory }, "dkim",
			"The directory of the private keys in [dkim.NAME], and of those that \"posthaste dkim keygen\" writes.",
			"Set it to keep keys apart from the queue, such as /etc/posthaste/dkim."),
		define("dkim_concurrency", integer(limit[int]{min: 1, max: 1024, zero: "one fewer than there are processors, but at least one"}), func(c *Config) *int { return &c.DKIM.Concurrency }, 0,
			"The number of signatures that are computed at once; an RSA signature keeps a processor busy for about a millisecond.",
			"Set it to the number of processors if all mail gets RSA signatures and throughput matters more than the response time of other clients.").onRestart(),
		define("dkim_sign_by_sender", flag(), func(c *Config) *bool { return &c.DKIM.BySender }, false,
			"Whether mail without a key for the domain of its From field is signed for the domain of its envelope sender, if that has a key; receivers do not count such a signature for the DMARC policy of the From field's domain.",
			"Set it to true if you send for domains whose keys you do not have, so that receivers can see who is responsible for the mail."),
		define("dkim_log_unsigned", words(word[UnsignedLog]{"info", UnsignedInfo}, word[UnsignedLog]{"warn", UnsignedWarn}, word[UnsignedLog]{"no", UnsignedNone}),
			func(c *Config) *UnsignedLog { return &c.DKIM.Unsigned }, UnsignedInfo,
			"The log level of the line that reports, with the reason, that a message was not signed although keys are configured.",
			"Set it to warn if all mail should be signed, or to no if much of it is for domains without keys."),
	}
}

// dkimKeyParameters is the table of the parameters of [dkim.NAME].
var dkimKeyParameters = []parameter[DKIMKey]{
	define("domain", list(dkimPattern(), "domains"), func(k *DKIMKey) *[]string { return &k.Domains }, nil,
		"The domains of From fields whose mail the key signs: a domain, \"*.example.com\" for the domains below example.com, or \"*\" for all domains without another key; a key for the domain itself takes precedence over one with a star.",
		"Set it for every key, with a star if there is mail from names below the domain."),
	define("signing_domain", optional(dkimDomain(), "for the domain above, without its star"), func(k *DKIMKey) *string { return &k.SigningDomain }, "",
		"The domain in the signature (d=), under which the key is published.",
		"Set it for a key with the domain \"*\", or if another domain vouches for the mail."),
	define("selector", text("selector", `such as "2026-11"`, checkSelector), func(k *DKIMKey) *string { return &k.Selector }, "",
		"The selector (s=), which together with the domain is the name of the record that publishes the key: SELECTOR._domainkey.DOMAIN.",
		"Set it to a new name for every new key, and never use one again."),
	define("key", text("path", "relative to dkim_directory unless it begins with /", checkPath), func(k *DKIMKey) *string { return &k.File }, "",
		"The file with the private key in PEM, RSA or Ed25519, which only its owner or the service's group may read; it is read again at a reload.",
		"Set it for every key; two tables, one with an RSA and one with an Ed25519 key, give mail two signatures."),
	define("valid_from", dkimDay("always"), func(k *DKIMKey) *warmup.Day { return &k.ValidFrom }, 0,
		"The first day, in UTC, on which the key signs; of several keys of one kind for a domain, the one with the latest such day signs.",
		"Set it for a new key, to a day on which its record has been published for longer than its TTL."),
	define("valid_until", dkimDay("without end"), func(k *DKIMKey) *warmup.Day { return &k.ValidUntil }, 0,
		"The last day, in UTC, on which the key signs.",
		"Set it for a key that must not be used longer; its record must stay for as long as mail that it has signed may be on its way."),
	define("class", list(flowName("normal", "bulk"), "classes"), func(k *DKIMKey) *[]string { return &k.Classes }, nil,
		"The classes of mail that the key signs, such as a class for the mail of one listener; none means all.",
		"Set it if kinds of mail have keys of their own."),
	define("tenant", list(oneTenant(), "tenants"), func(k *DKIMKey) *[]string { return &k.Tenants }, nil,
		"The tenants whose mail the key signs; none means all.",
		"Set it on a host with several tenants, so that no tenant's mail is signed in the name of another."),
}

// DKIMDirectory returns the directory of private keys.
func (c *Config) DKIMDirectory() string { return c.inQueueDirectory(c.DKIM.Directory) }

// DKIMKeyPath returns the path of a file with a private key.
func (c *Config) DKIMKeyPath(file string) string {
	if filepath.IsAbs(file) {
		return file
	}
	return filepath.Join(c.DKIMDirectory(), file)
}

// Keyring returns the configuration of package keyring.
func (c *Config) Keyring() keyring.Config {
	all := keyring.Config{BySender: c.DKIM.BySender}
	for i := range c.DKIMKeys {
		k := &c.DKIMKeys[i]
		all.Keys = append(all.Keys, keyring.Key{Key: k.key(), File: c.DKIMKeyPath(k.File)})
	}
	return all
}

// key returns the key for package dkim, without the private part.
func (k *DKIMKey) key() dkim.Key {
	one := dkim.Key{Name: k.Name, Domains: k.Domains, Domain: k.SigningDomain, Selector: k.Selector, From: midnight(k.ValidFrom), Classes: k.Classes, Tenants: k.Tenants}
	if k.ValidUntil != 0 {
		one.Until = midnight(k.ValidUntil + 1)
	}
	return one
}

// midnight returns the beginning of a day.
func midnight(d warmup.Day) mail.Instant { return mail.Instant(d) * mail.Instant(24*time.Hour) }

// validateKeys returns what package dkim refuses in the keys, without reading them.
func (c *Config) validateKeys() (wrong []error) {
	for i := range c.DKIMKeys {
		one := c.DKIMKeys[i].key()
		if err := one.Validate(); err != nil {
			wrong = append(wrong, err)
		}
	}
	return wrong
}

// dkimKeys creates the keys that the file defines, in its order.
func (l *loader) dkimKeys(all *tomlfile.Entry) {
	loadNamed(l, tableDKIM, all, dkimKeyParameters, standardDKIMKey, func(t *tomlfile.Table, k DKIMKey, whole bool) {
		l.c.DKIMKeys = append(l.c.DKIMKeys, k)
		if whole {
			l.checkDKIMKey(t, &k)
		}
	})
}

func (l *loader) checkDKIMKey(t *tomlfile.Table, k *DKIMKey) {
	table := fullName(tableDKIM, k.Name)
	about := func(name, message, hint string) {
		key := fullName(table, name)
		at, ok := l.places[key]
		if !ok {
			at = t.At
		}
		l.src.Complain(at, tomlfile.Problem{Key: key, Message: message, Hint: hint})
	}
	if len(k.Domains) == 0 {
		about("domain", "this key signs for no domain", `add such as domain = ["example.com", "*.example.com"]`)
	}
	if k.Selector == "" {
		about("selector", "this key has no selector", `add such as selector = "2026-11"`)
	}
	if k.File == "" {
		about("key", "this key has no file", "\"posthaste dkim keygen\" makes one, and prints what to add")
	}
	if slices.Contains(k.Domains, "*") && k.SigningDomain == "" {
		about("signing_domain", "a key for all domains signs in the name of one domain, which is not set", `add such as signing_domain = "example.com"`)
	}
	if k.ValidUntil != 0 && k.ValidUntil < k.ValidFrom {
		about("valid_until", fmt.Sprintf("the key ends on %v, before it begins on %v", k.ValidUntil, k.ValidFrom), "")
	}
	for _, name := range k.Classes {
		if classes := l.classNames(); !slices.Contains(classes, name) {
			about("class", fmt.Sprintf("there is no class %q", name), didYouMean(name, classes))
		}
	}
	l.checkDKIMRecord(k, about)
}

// checkDKIMRecord complains about a second key for the same record.
func (l *loader) checkDKIMRecord(k *DKIMKey, about func(name, message, hint string)) {
	one := k.key()
	for i := range l.c.DKIMKeys[:len(l.c.DKIMKeys)-1] {
		other := l.c.DKIMKeys[i].key()
		for _, d := range one.SigningDomains() {
			if other.Selector == one.Selector && slices.Contains(other.SigningDomains(), d) && l.c.DKIMKeys[i].File != k.File {
				about("selector", fmt.Sprintf("[dkim.%s] has another key with the same record, %s", other.Name, dkim.RecordName(one.Selector, d)), "every key needs a selector of its own")
				return
			}
		}
	}
}

// dkimDomain is a domain in one form.
func dkimDomain() kind[string] {
	k := domain()
	k.read = func(n *tomlfile.Node) (string, *flaw) {
		s, f := readText(n, "a domain name")
		if f != nil {
			return "", f
		}
		d, ok := dkim.ParseDomain(s)
		if !ok {
			return "", &flaw{message: tomlfile.QuoteText(s) + " is not a domain name"}
		}
		return d, nil
	}
	return k
}

// dkimPattern is a domain, or those below one.
func dkimPattern() kind[string] {
	return kind[string]{
		name: "domain", form: `such as ["example.com", "*.example.com"]`,
		plain: func(s string) any { return s },
		read: func(n *tomlfile.Node) (string, *flaw) {
			s, f := readText(n, "a domain")
			if f != nil {
				return "", f
			}
			d, ok := dkim.ParsePattern(s)
			if !ok {
				hint := ""
				if at := strings.LastIndexByte(s, '@'); at >= 0 {
					hint = "write the domain alone: " + tomlfile.QuoteText(s[at+1:])
				}
				return "", &flaw{message: tomlfile.QuoteText(s) + " is not a domain", hint: hint}
			}
			return d, nil
		},
	}
}

func checkSelector(s string) (string, string) {
	if !dkim.ValidSelector(s) {
		return tomlfile.QuoteText(s) + " is not a selector: it becomes a part of a name in the DNS, of letters, digits and -", ""
	}
	return "", ""
}

// dkimDay is a date, or "".
func dkimDay(empty string) kind[warmup.Day] {
	k := warmupStart()
	k.form = `such as 2026-11-23, or "" for ` + empty
	return k
}

func oneTenant() kind[string] {
	return text("tenant", `such as ["shop", "192.0.2.0/24", "uid:33"]`, func(s string) (string, string) {
		if s == "" || len(s) > patternMax {
			return "the name is empty or longer than a tenant's name", ""
		}
		return "", ""
	})
}

// dkimTables shows keys in their order.
func (s *shower) dkimTables() []shownTable {
	return showNamed(s, tableDKIM, s.c.DKIMKeys, dkimKeyName, standardDKIMKey, dkimKeyParameters)
}
