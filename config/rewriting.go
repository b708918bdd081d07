package config

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/posthaste-mta/posthaste/internal/tomlfile"
	"github.com/posthaste-mta/posthaste/mail"
	"github.com/posthaste-mta/posthaste/qmgr/shape"
	"github.com/posthaste-mta/posthaste/rewrite"
	"github.com/posthaste-mta/posthaste/smtp"
	"github.com/posthaste-mta/posthaste/textmap"
)

// Rewriting is what is put in place of addresses. Maps are as written: a path, or expressions
// and a path.
type Rewriting struct {
	Canonical, CanonicalSenders, CanonicalRecipients []string
	CanonicalClasses                                 []rewrite.Class
	Masquerade, MasqueradeExceptions                 []string
	MasqueradeClasses                                []rewrite.Class
	Aliases                                          []string
	AliasLimit                                       int
	AlwaysBcc                                        string
	SenderBcc, RecipientBcc                          []string
	Origin                                           string // "" for myhostname
	Domains                                          []string
	Delimiter                                        string
}

// A RewriteScope is which addresses of the mail of a listener are rewritten.
type RewriteScope uint8

const (
	RewriteAll      RewriteScope = iota // of envelopes and headers
	RewriteEnvelope                     // of envelopes
	RewriteNone
)

func rewritingParameters() []parameter[Config] {
	maps := list(mapFile(), "maps")
	classes := list(words(word[rewrite.Class]{"envelope_sender", rewrite.EnvelopeSender}, word[rewrite.Class]{"envelope_recipient", rewrite.EnvelopeRecipient},
		word[rewrite.Class]{"header_sender", rewrite.HeaderSender}, word[rewrite.Class]{"header_recipient", rewrite.HeaderRecipient}), "classes")
	all := []rewrite.Class{rewrite.EnvelopeSender, rewrite.EnvelopeRecipient, rewrite.HeaderSender, rewrite.HeaderRecipient}
	return []parameter[Config]{
		define("canonical_maps", maps, func(c *Config) *[]string { return &c.Rewriting.Canonical }, []string{},
			"Files that map addresses to the addresses that replace them, in the places listed in canonical_classes.",
			"Set it if people or programs should have other addresses in outgoing mail than on this host."),
		define("canonical_classes", classes, func(c *Config) *[]rewrite.Class { return &c.Rewriting.CanonicalClasses }, all,
			"The places in which canonical_maps are applied.",
			"Set it to [\"envelope_sender\", \"header_sender\"] if recipients must stay as they are."),
		define("sender_canonical_maps", maps, func(c *Config) *[]string { return &c.Rewriting.CanonicalSenders }, []string{},
			"Files like those of canonical_maps, but only for senders in envelopes and headers; they are applied first.",
			"Set it to replace an address where it is a sender, but not where it is a recipient."),
		define("recipient_canonical_maps", maps, func(c *Config) *[]string { return &c.Rewriting.CanonicalRecipients }, []string{},
			"Files like those of canonical_maps, but only for recipients in envelopes and headers; they are applied first.",
			"Set it to replace an address where it is a recipient, but not where it is a sender."),
		define("masquerade_domains", list(masqueradeDomain(), "domains"), func(c *Config) *[]string { return &c.Rewriting.Masquerade }, []string{},
			"Domains that replace the names of hosts below them; the first match decides, and a name after \"!\" is not replaced.",
			"Set it to your domain if hosts within it write their own names into addresses."),
		define("masquerade_exceptions", list(text("user", `such as ["root"]`, checkUser), "users"), func(c *Config) *[]string { return &c.Rewriting.MasqueradeExceptions }, []string{},
			"Users whose addresses masquerade_domains leaves alone.",
			"Set it to users whose host must remain visible, such as root."),
		define("masquerade_classes", classes, func(c *Config) *[]rewrite.Class { return &c.Rewriting.MasqueradeClasses }, slices.Delete(slices.Clone(all), 1, 2),
			"The places in which masquerade_domains are applied.",
			"Add envelope_recipient if mail for hosts within the domain should go to the domain itself."),
		define("virtual_alias_maps", maps, func(c *Config) *[]string { return &c.Rewriting.Aliases }, []string{},
			"Files that map a recipient to the addresses, one or several, that get the mail instead; headers stay as they are.",
			"Set it for addresses of groups, and to redirect mail."),
		define("virtual_alias_expansion_limit", integer(limit[int]{min: 1, max: rewrite.AliasLimitMax}), func(c *Config) *int { return &c.Rewriting.AliasLimit }, 1000,
			"The number of recipients to which virtual_alias_maps may expand one recipient; a recipient that expands to more is refused.",
			"Raise it for larger groups."),
		define("always_bcc", optional(mailbox(), "for none"), func(c *Config) *string { return &c.Rewriting.AlwaysBcc }, "",
			"The address that gets a copy of every message that arrives; if a copy cannot be delivered, the log says so, but no sender gets a report.",
			"Set it to an archive."),
		define("sender_bcc_maps", maps, func(c *Config) *[]string { return &c.Rewriting.SenderBcc }, []string{},
			"Files with senders, as canonical_maps leave them, and the addresses that get copies of their mail.",
			"Set it to archive what some people send."),
		define("recipient_bcc_maps", maps, func(c *Config) *[]string { return &c.Rewriting.RecipientBcc }, []string{},
			"Files with recipients, as virtual_alias_maps leave them, and the addresses that get copies of mail to them.",
			"Set it to archive what some people receive."),
		define("myorigin", optional(domain(), "for myhostname"), func(c *Config) *string { return &c.Rewriting.Origin }, "",
			"The domain that completes map results without a domain, and whose addresses match keys without a domain.",
			"Set it to the domain of your users' addresses.").unlike("$myhostname"),
		define("user_domains", list(domain(), "domains"), func(c *Config) *[]string { return &c.Rewriting.Domains }, []string{},
			"Further domains whose addresses match keys without a domain, as those of mydestination do in Postfix.",
			"Set it if entries of maps are meant for the same user in several domains."),
		define("recipient_delimiter", optional(text("character", `such as "+"`, checkDelimiter), "for none"), func(c *Config) *string { return &c.Rewriting.Delimiter }, "",
			"The character that begins the extension of a user name. Maps are searched with the extension and without it; if the key that matches does not contain the extension, it is added to the result.",
			"Set it to \"+\" if users have addresses such as user+list@example.com."),
	}
}

func rewriteScopeParameter() parameter[Listener] {
	return define("rewrite_addresses", opt(words(word[RewriteScope]{"all", RewriteAll}, word[RewriteScope]{"envelope", RewriteEnvelope}, word[RewriteScope]{"none", RewriteNone})),
		func(l *Listener) *shape.Opt[RewriteScope] { return &l.Submission.Rewrite }, shape.Opt[RewriteScope]{},
		"Which addresses canonical_maps, masquerade_domains, virtual_alias_maps and the bcc parameters apply to: those of envelopes and headers, only those of envelopes, or none; without it, all on listeners of purpose submission and submissions, and envelope on others.",
		"Set it to all on a listener of purpose relay for machines of your own, and to none for mail that a content filter gives back.")
}

// expressionsPrefix precedes the path of a file with regular expressions.
const expressionsPrefix = "regexp:"

// databases are types of maps of Postfix that are made of the text files read here.
var databases = []string{"hash", "btree", "lmdb", "cdb", "dbm", "texthash"}

// mapFile is the path of a map, with expressionsPrefix if it has regular expressions.
func mapFile() kind[string] {
	return text("map", `the path of a text file, such as ["/etc/posthaste/canonical"], with "`+expressionsPrefix+`" in front of one with regular expressions`, func(s string) (string, string) {
		kind, path, typed := strings.Cut(s, ":")
		switch {
		case filepath.IsAbs(s) || typed && kind+":" == expressionsPrefix && filepath.IsAbs(path):
			return "", ""
		case typed && slices.Contains(databases, kind):
			return tomlfile.QuoteText(s) + " is the type of a database, and the text that it is made of is read here", "write " + tomlfile.QuoteText(path)
		case typed && kind == "pcre":
			return tomlfile.QuoteText(s) + " has the expressions of another library; those here are RE2, which has no lookarounds and references", "write " + tomlfile.QuoteText(expressionsPrefix+path)
		case typed && !strings.Contains(kind, "/") && kind+":" != expressionsPrefix:
			return tomlfile.QuoteText(s) + " is a type of map that does not exist here", ""
		}
		return tomlfile.QuoteText(s) + " is not an absolute path", "write it from the root: the program may be started in any directory"
	})
}

func masqueradeDomain() kind[string] {
	return text("domain", `such as ["!lab.example.com", "example.com"]`, func(s string) (string, string) {
		if !smtp.ValidDomain(strings.TrimPrefix(s, "!")) {
			return tomlfile.QuoteText(s) + " is not a domain", ""
		}
		return "", ""
	})
}

func checkUser(s string) (string, string) {
	if s == "" || strings.Contains(s, "@") {
		return tomlfile.QuoteText(s) + " is not the name of a user", ""
	}
	return "", ""
}

func checkDelimiter(s string) (string, string) {
	if err := (rewrite.Config{Origin: "localhost", Delimiter: s}).WithDefaults().Validate(); err != nil {
		return tomlfile.QuoteText(s) + " is not one character that can separate an extension", ""
	}
	return "", ""
}

// rewriting returns the configuration of package rewrite, without its maps.
func (c *Config) rewriting() rewrite.Config {
	r := &c.Rewriting
	origin := r.Origin
	if origin == "" {
		origin = c.Hostname
	}
	return rewrite.Config{
		CanonicalClasses: union(r.CanonicalClasses), Masquerade: r.Masquerade, MasqueradeExceptions: r.MasqueradeExceptions, MasqueradeClasses: union(r.MasqueradeClasses),
		AliasLimit: r.AliasLimit, AlwaysBcc: mail.Address(r.AlwaysBcc), Origin: origin, Domains: r.Domains, Delimiter: r.Delimiter,
	}
}

func union(all []rewrite.Class) (set rewrite.Class) {
	for _, c := range all {
		set |= c
	}
	return set
}

// LoadRewriting reads the files of maps and returns the rules for addresses. The error joins
// the mistakes of all files.
func (c *Config) LoadRewriting() (*rewrite.Rules, error) {
	cfg, r := c.rewriting(), &c.Rewriting
	l := mapLoader{read: make(map[string]rewrite.Map)}
	for _, one := range []struct {
		parameter string
		files     []string
		several   bool
		to        *[]rewrite.Map
	}{
		{"canonical_maps", r.Canonical, false, &cfg.Canonical}, {"sender_canonical_maps", r.CanonicalSenders, false, &cfg.CanonicalSenders},
		{"recipient_canonical_maps", r.CanonicalRecipients, false, &cfg.CanonicalRecipients}, {"virtual_alias_maps", r.Aliases, true, &cfg.Aliases},
		{"sender_bcc_maps", r.SenderBcc, true, &cfg.SenderBcc}, {"recipient_bcc_maps", r.RecipientBcc, true, &cfg.RecipientBcc},
	} {
		for _, file := range one.files {
			m, err := l.load(file, one.several)
			if err != nil {
				l.wrong = append(l.wrong, fmt.Errorf("%s: %w", one.parameter, err))
				continue
			}
			*one.to = append(*one.to, m)
		}
	}
	if err := errors.Join(l.wrong...); err != nil {
		return nil, err
	}
	return rewrite.New(cfg)
}

// A mapLoader reads files of maps, each of them once.
type mapLoader struct {
	read  map[string]rewrite.Map // by their names in the configuration, and whether there are several addresses
	wrong []error
}

func (l *mapLoader) load(file string, several bool) (rewrite.Map, error) {
	key := fmt.Sprint(file, several)
	if m, ok := l.read[key]; ok {
		return m, nil
	}
	m, err := openMap(file, func(_, value string) error { return rewrite.CheckValue(value, several) })
	if err != nil {
		return nil, err
	}
	l.read[key] = m
	return m, nil
}

// openMap reads a file.
func openMap(file string, check textmap.Check) (*textmap.Map, error) {
	path, expressions := strings.CutPrefix(file, expressionsPrefix)
	f, err := os.Open(path)
	if err != nil {
		return nil, err // it names the operation and the path
	}
	defer f.Close()
	about, err := f.Stat()
	if err != nil {
		return nil, err
	}
	if !about.Mode().IsRegular() {
		return nil, fmt.Errorf("%s is not a file", path)
	}
	r := io.LimitReader(f, mapSizeMax+1)
	if about.Size() > mapSizeMax {
		return nil, fmt.Errorf("%s is larger than %s", path, FormatSize(mapSizeMax))
	}
	if expressions {
		return textmap.ReadExpressions(path, r, check)
	}
	return textmap.Read(path, r, about.Size(), check)
}

// mapSizeMax is the size of the largest file of a map; ten million lines fit.
const mapSizeMax = 1 << 30

// rewrites returns which addresses are rewritten in the mail of a listener.
func (l *Listener) rewrites() RewriteScope {
	standard := RewriteEnvelope
	if l.fixesHeader() {
		standard = RewriteAll
	}
	return l.Submission.Rewrite.Or(standard)
}
