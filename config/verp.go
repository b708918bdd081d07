package config

import (
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"strings"

	"github.com/posthaste-mta/posthaste/flow"
	"github.com/posthaste-mta/posthaste/inbound"
	"github.com/posthaste-mta/posthaste/internal/secretfile"
	"github.com/posthaste-mta/posthaste/internal/tomlfile"
	"github.com/posthaste-mta/posthaste/mail"
	"github.com/posthaste-mta/posthaste/qmgr/shape"
	"github.com/posthaste-mta/posthaste/smtp"
	"github.com/posthaste-mta/posthaste/verp"
)

// A VERP is what all senders with a recipient in them have in common.
type VERP struct {
	Delimiters verp.Delimiters // default_verp_delimiters
	Filter     string          // verp_delimiter_filter
	Clients    []netip.Prefix  // smtpd_authorized_verp_clients
	OneReport  bool            // disable_verp_bounces
	SecretFile string          // path; see LoadVERPSecrets
}

// A VERPRule is a table [verp.NAME]: mail whose recipients are put into its sender.
type VERPRule struct {
	Name       string
	Delimiters shape.Opt[verp.Delimiters] // unset: default_verp_delimiters; zero: none of this
	Tags       shape.Opt[bool]            // unset: if there are secrets
	Classes    []string
	Tenants    []string
	Flows      []string
	Senders    []string
}

func verpRuleName(r *VERPRule) string { return r.Name }

func standardVERPRule(name string) VERPRule { return VERPRule{Name: name} }

// verpParameters are those of all mail; rules have tables of their own.
func verpParameters() []parameter[Config] {
	return []parameter[Config]{
		define("default_verp_delimiters", delimiters(), func(c *Config) *verp.Delimiters { return &c.VERP.Delimiters }, mustDelimiters(),
			"The two characters with which a recipient is encoded in an envelope sender, unless [verp.NAME] or XVERP sets others: the first precedes the recipient, and the second replaces its @. The first one also matters for flows: if a sender contains both \"+\" and \"-\", it decides which of the two precedes the recipient.",
			"Set it to \"-=\" if the mailbox server of the senders uses \"-\" as its recipient delimiter."),
		define("verp_delimiter_filter", text("characters", "of those that a local part may have without quotes, such as \"-=+\"", checkVERPFilter), func(c *Config) *string { return &c.VERP.Filter }, smtp.VERPFilter,
			"The characters that are allowed as VERP delimiters, in this file and in XVERP.",
			"Add a character if your list software uses it."),
		define("smtpd_authorized_verp_clients", list(network(), "networks"), func(c *Config) *[]netip.Prefix { return &c.VERP.Clients }, []netip.Prefix{},
			"The clients that may request a separate envelope sender for each recipient, with the MAIL parameter XVERP; local programs always may, for example with sendmail -XV.",
			"Set it to the hosts of list software that sends XVERP and parses the addresses of the bounces."),
		define("disable_verp_bounces", flag(), func(c *Config) *bool { return &c.VERP.OneReport }, false,
			"Whether failures of a message with VERP senders are reported to the original sender, in one report on all recipients. Otherwise, each recipient is reported separately, to its VERP sender. Reports on delays and successes always go to the original sender.",
			"Set it to true if the program that reads the reports parses them, and a report for each recipient is too many."),
		define("verp_secret_file", optional(secretPath("/etc/posthaste/verp.secret"), "for none"), func(c *Config) *string { return &c.VERP.SecretFile }, "",
			"The file with the secrets for the tags in VERP senders, one on each line, with at least 16 characters each. New tags are made with the first secret, and tags of all secrets are valid. Only the file's owner or the service's group may be able to read it. A reload reads it again.",
			"Set it to recognize forged bounces (docs/verp.md); to replace a secret, add the new one above it, and remove the old one after some weeks."),
	}
}

// verpRuleParameters is the table of the parameters of [verp.NAME].
var verpRuleParameters = []parameter[VERPRule]{
	define("delimiters", opt(delimitersOrNone()), func(r *VERPRule) *shape.Opt[verp.Delimiters] { return &r.Delimiters }, shape.Opt[verp.Delimiters]{},
		"The delimiters of the recipient in the envelope sender; without it, default_verp_delimiters; \"\" turns VERP off for this mail, whatever the tables below say.",
		"Set it to \"\" in a table for exceptions, above the others."),
	define("tags", opt(flag()), func(r *VERPRule) *shape.Opt[bool] { return &r.Tags }, shape.Opt[bool]{},
		"Whether the envelope sender contains a tag, by which forged reports are recognized; without it, true if verp_secret_file is set.",
		"Set it to false if other programs parse the addresses of the bounces, since they do not know tags."),
	define("class", list(flowName(flow.ClassNormal, flow.ClassBulk), "classes"), func(r *VERPRule) *[]string { return &r.Classes }, nil,
		"The classes of mail to which the table applies; none means all.",
		"Set it to bulk for mailings."),
	define("tenant", list(tenantPattern(), "patterns"), func(r *VERPRule) *[]string { return &r.Tenants }, nil,
		"The tenants to whose mail the table applies, by the name in [tenant.NAME], in a header field or as shown by the queue commands; a star stands for any text; none means all.",
		"Set it if only some tenants have senders whose mailboxes accept address extensions."),
	define("flow", list(flowPattern(), "patterns"), func(r *VERPRule) *[]string { return &r.Flows }, nil,
		"The flows to which the table applies, as shown by the queue commands; a star stands for any text; none means all.",
		"Set it if flow_key names a header field with the kind of mail."),
	define("sender", list(senderPattern(), "patterns"), func(r *VERPRule) *[]string { return &r.Senders }, nil,
		"The envelope senders to which the table applies: an address in which a star stands for any text, a domain, or \".example.com\" for the domains below example.com; none means all.",
		"Set it in every table, to senders whose mailboxes accept address extensions."),
}

// delimitersOrNone is two characters of an address, or none.
func delimitersOrNone() kind[verp.Delimiters] {
	k := delimiters()
	inner := k.read
	k.form += `, or "" for none`
	k.plain = func(d verp.Delimiters) any {
		if d == (verp.Delimiters{}) {
			return ""
		}
		return d.String()
	}
	k.read = func(n *tomlfile.Node) (verp.Delimiters, *flaw) {
		if n.Kind == tomlfile.KindText && n.Text == "" {
			return verp.Delimiters{}, nil
		}
		return inner(n)
	}
	return k
}

func flowPattern() kind[string] {
	return text("pattern", `such as ["news@shop.example", "campaign-*"]`, func(s string) (string, string) {
		if s == "" || len(s) > patternMax {
			return "the pattern is empty or longer than a flow", ""
		}
		return "", ""
	})
}

// checkVERPFilter refuses characters that no local part may have without quotes.
func checkVERPFilter(s string) (string, string) {
	if s == "" {
		return "no character may be a delimiter then", `"-=+" are Postfix's`
	}
	if i := strings.IndexFunc(s, func(r rune) bool { return !strings.ContainsRune(smtp.VERPPossible, r) }); i >= 0 {
		return tomlfile.QuoteText(s) + " has a character that cannot be a delimiter", "they are " + smtp.VERPPossible
	}
	return "", ""
}

// authorizedVERP is the parameter of a listener that replaces smtpd_authorized_verp_clients.
func authorizedVERP() parameter[Listener] {
	const global = "smtpd_authorized_verp_clients"
	all := verpParameters()
	as := all[slices.IndexFunc(all, func(p parameter[Config]) bool { return p.name == global })]
	return define("authorized_verp_clients", opt(list(network(), "networks")), func(l *Listener) *shape.Opt[[]netip.Prefix] { return &l.VERPClients }, shape.Opt[[]netip.Prefix]{}, as.meaning, as.change).from(global)
}

// verpTerms returns which clients of a listener may use XVERP.
func (c *Config) verpTerms(l *Listener) inbound.VERP {
	v := c.XVERP()
	v.Unix = l.Address.Unix != ""
	if l.VERPClients.Set {
		v.Clients = l.VERPClients.Value
	}
	return v
}

// XVERP returns the terms of XVERP for listeners that do not set their own.
func (c *Config) XVERP() inbound.VERP {
	v := inbound.VERP{Filter: c.VERP.Filter}
	if len(c.VERP.Clients) > 0 {
		v.Clients = c.VERP.Clients
	}
	if d := c.VERP.Delimiters; d != mustDelimiters() {
		v.Delimiters = mail.VERP{Before: d.Before, At: d.At}
	}
	if v.Filter == smtp.VERPFilter {
		v.Filter = ""
	}
	return v
}

// VERPRules returns for which mail recipients are put into senders; nil if for none.
func (c *Config) VERPRules() *verp.Rules {
	var all []verp.Rule
	for i := range c.VERPTables {
		r := &c.VERPTables[i]
		one := verp.Rule{Classes: r.Classes, Tenants: r.Tenants, Flows: r.Flows, Senders: r.Senders}
		if d := r.Delimiters.Or(c.VERP.Delimiters); d != (verp.Delimiters{}) {
			one.VERP = mail.VERP{Before: d.Before, At: d.At, Tagged: r.Tags.Or(c.VERP.SecretFile != "")}
		}
		all = append(all, one)
	}
	return verp.NewRules(all)
}

// Bounds of the file of secrets.
const (
	verpFileMax    = 64 << 10
	verpSecretMin  = 16
	verpSecretsMax = 16
)

// LoadVERPSecrets reads the secrets; nil without a file. The error names file and line, and has
// nothing of any secret.
func (c *Config) LoadVERPSecrets() ([][]byte, error) {
	if c.VERP.SecretFile == "" {
		return nil, nil
	}
	text, err := secretfile.Read(c.VERP.SecretFile, verpFileMax)
	if err != nil {
		return nil, fmt.Errorf("verp_secret_file: %w", err)
	}
	var secrets [][]byte
	var wrong []error
	number := 0
	for line := range strings.Lines(string(text)) {
		number++
		line = strings.TrimSpace(line)
		if line == "" || line[0] == '#' {
			continue
		}
		if len(line) < verpSecretMin {
			wrong = append(wrong, fmt.Errorf("verp_secret_file: %s:%d: the secret has fewer than %d characters, and could be guessed", c.VERP.SecretFile, number, verpSecretMin))
		}
		secrets = append(secrets, []byte(line))
	}
	switch {
	case len(wrong) > 0:
		return nil, errors.Join(wrong...)
	case len(secrets) == 0:
		return nil, fmt.Errorf("verp_secret_file: %s has no secret: write one with \"openssl rand -base64 32\"", c.VERP.SecretFile)
	case len(secrets) > verpSecretsMax:
		return nil, fmt.Errorf("verp_secret_file: %s has %d secrets, of which each address would be tried with all: remove old ones until there are %d", c.VERP.SecretFile, len(secrets), verpSecretsMax)
	}
	return secrets, nil
}

// verpRules creates the rules that the file defines, in its order.
func (l *loader) verpRules(all *tomlfile.Entry) {
	loadNamed(l, tableVERP, all, verpRuleParameters, standardVERPRule, func(t *tomlfile.Table, r VERPRule, whole bool) {
		l.c.VERPTables = append(l.c.VERPTables, r)
		if whole {
			l.checkVERPRule(t, &r)
		}
	})
}

func (l *loader) checkVERPRule(t *tomlfile.Table, r *VERPRule) {
	about := l.complainer(tableVERP, r.Name, t)
	for _, name := range r.Classes {
		if classes := l.classNames(); !slices.Contains(classes, name) {
			about("class", fmt.Sprintf("there is no class %q", name), didYouMean(name, classes))
		}
	}
	if r.Tags.Or(false) && l.c.VERP.SecretFile == "" && !l.failed["verp_secret_file"] {
		about("tags", "a tag needs a secret, and verp_secret_file is not set", `set verp_secret_file, which is above the first [table]`)
	}
	for i := range l.c.VERPTables[:len(l.c.VERPTables)-1] {
		if other := &l.c.VERPTables[i]; len(other.Classes)+len(other.Tenants)+len(other.Flows)+len(other.Senders) == 0 {
			about("sender", fmt.Sprintf("this table has no effect: [verp.%s] before it has no conditions and takes all mail", other.Name), "move it before that one")
			return
		}
	}
	if d := r.Delimiters; d.Set && d.Value != (verp.Delimiters{}) {
		l.checkDelimiters(fullName(fullName(tableVERP, r.Name), "delimiters"), d.Value)
	}
}

// checkDelimiters complains about delimiters that verp_delimiter_filter does not permit.
func (l *loader) checkDelimiters(key string, d verp.Delimiters) {
	if _, err := verp.ParseDelimitersOf(d.String(), l.c.VERP.Filter); err != nil && !l.failed["verp_delimiter_filter"] {
		l.complain(err.Error()+", which verp_delimiter_filter permits", "add the character to verp_delimiter_filter", key, "verp_delimiter_filter")
	}
}

// verp warns of senders to which reports might not come back.
func (w *warner) verp() {
	for i := range w.c.VERPTables {
		r := &w.c.VERPTables[i]
		table := fullName(tableVERP, r.Name)
		if r.Delimiters.Set && r.Delimiters.Value == (verp.Delimiters{}) {
			continue
		}
		if r.Delimiters.Or(w.c.VERP.Delimiters).Ambiguous() {
			w.about(fullName(table, "delimiters"), "domains may contain the second character, so that jane@my-shop.example is read as jane-my@shop.example")
		}
		if len(r.Senders) == 0 {
			w.about(table, "it applies to mail of any sender, and bounces are lost where the sender's mailbox does not accept addresses with an extension; set sender")
		}
	}
}

// verpTables shows rules in their order.
func (s *shower) verpTables() []shownTable {
	return showNamed(s, tableVERP, s.c.VERPTables, verpRuleName, standardVERPRule, verpRuleParameters)
}
