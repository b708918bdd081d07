package rewrite

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/posthaste-mta/posthaste/internal/mistakes"
	"github.com/posthaste-mta/posthaste/mail"
	"github.com/posthaste-mta/posthaste/smtp"
)

// A Map says what to put in place of a key. It is called from many goroutines.
type Map interface {
	// Find returns the value of a key.
	Find(key string) (value string, ok bool)
	// Whole reports whether only whole addresses are keys.
	Whole() bool
}

// A Class is a set of places where addresses are (canonical_classes of Postfix).
type Class uint8

const (
	EnvelopeSender Class = 1 << iota
	EnvelopeRecipient
	HeaderSender    // fields such as From, Sender and Reply-To
	HeaderRecipient // fields such as To and Cc
)

// Config configures Rules. The names in parentheses are Postfix's. The zero value rewrites
// nothing.
type Config struct {
	// Canonical maps are applied in Classes (canonical_maps, canonical_classes), after those
	// of senders in EnvelopeSender and HeaderSender (sender_canonical_maps) and those of
	// recipients in EnvelopeRecipient and HeaderRecipient (recipient_canonical_maps).
	Canonical, CanonicalSenders, CanonicalRecipients []Map
	CanonicalClasses                                 Class // 0: all
	// Masquerade are domains that replace the names below them, in their order
	// (masquerade_domains): "example.com" makes of host.example.com example.com, and
	// "!sub.example.com" excepts a domain and those below it. MasqueradeExceptions are local
	// parts to which it does not apply (masquerade_exceptions).
	Masquerade           []string
	MasqueradeExceptions []string
	MasqueradeClasses    Class // 0: all but EnvelopeRecipient
	// Aliases put recipients in place of one (virtual_alias_maps).
	Aliases []Map
	// AliasLimit is the maximum number of recipients that one becomes
	// (virtual_alias_expansion_limit). Default 1000.
	AliasLimit int
	// AlwaysBcc gets a copy of every message (always_bcc); SenderBcc and RecipientBcc are maps
	// to addresses that get copies of the mail of a sender and to a recipient
	// (sender_bcc_maps, recipient_bcc_maps).
	AlwaysBcc               mail.Address
	SenderBcc, RecipientBcc []Map
	// Origin is the domain of results without one (myorigin). Required.
	Origin string
	// Domains are those whose users may be keys without a domain (mydestination). Origin is
	// always among them.
	Domains []string
	// Delimiter begins the extension of a local part (recipient_delimiter); "" for none. One
	// character.
	Delimiter string
}

// classesAll are all places.
const classesAll = EnvelopeSender | EnvelopeRecipient | HeaderSender | HeaderRecipient

// AliasLimitMax is the largest AliasLimit.
const AliasLimitMax = 100_000

// WithDefaults returns c with its zero values replaced.
func (c Config) WithDefaults() Config {
	if c.CanonicalClasses == 0 {
		c.CanonicalClasses = classesAll
	}
	if c.MasqueradeClasses == 0 {
		c.MasqueradeClasses = classesAll &^ EnvelopeRecipient
	}
	if c.AliasLimit == 0 {
		c.AliasLimit = 1000
	}
	return c
}

// Validate returns all mistakes of a Config with its defaults, joined.
func (c Config) Validate() error {
	var wrong mistakes.List
	wrong.Unless(smtp.ValidDomain(c.Origin), "origin %q is not a domain", c.Origin)
	wrong.Unless(c.AliasLimit > 0 && c.AliasLimit <= AliasLimitMax, "alias limit %d is not between 1 and %d", c.AliasLimit, AliasLimitMax)
	wrong.Unless(len(c.Delimiter) <= 1 && c.Delimiter != "@" && c.Delimiter != `"` && c.Delimiter != ".", "delimiter %q is not one character that can separate an extension", c.Delimiter)
	for _, d := range slices.Concat(c.Domains, c.Masquerade) {
		wrong.Unless(smtp.ValidDomain(strings.TrimPrefix(d, "!")), "%q is not a domain", d)
	}
	return wrong.Join()
}

// Rules are those of a Config. They do not change, and may be used concurrently.
type Rules struct {
	cfg     Config
	domains map[string]bool // in lower case
}

// New returns the rules of a Config. The error joins all its mistakes.
func New(cfg Config) (*Rules, error) {
	cfg = cfg.WithDefaults()
	if err := cfg.Validate(); err != nil {
		return nil, err
	}
	r := &Rules{cfg: cfg, domains: map[string]bool{strings.ToLower(cfg.Origin): true}}
	for _, d := range cfg.Domains {
		r.domains[strings.ToLower(d)] = true
	}
	r.cfg.Masquerade = lower(cfg.Masquerade)
	r.cfg.MasqueradeExceptions = lower(cfg.MasqueradeExceptions)
	return r, nil
}

func lower(all []string) []string {
	out := slices.Clone(all)
	for i := range out {
		out[i] = strings.ToLower(out[i])
	}
	return out
}

// Idle reports whether nothing is ever rewritten or copied.
func (r *Rules) Idle() bool {
	c := &r.cfg
	return !r.RewritesHeaders() && len(c.Canonical)+len(c.CanonicalSenders)+len(c.CanonicalRecipients)+len(c.Masquerade)+len(c.Aliases)+len(c.SenderBcc)+len(c.RecipientBcc) == 0 && c.AlwaysBcc == ""
}

// RewritesHeaders reports whether addresses in headers may change.
func (r *Rules) RewritesHeaders() bool {
	c := &r.cfg
	const header = HeaderSender | HeaderRecipient
	return len(c.Canonical) > 0 && c.CanonicalClasses&header != 0 || len(c.CanonicalSenders)+len(c.CanonicalRecipients) > 0 ||
		len(c.Masquerade) > 0 && c.MasqueradeClasses&header != 0
}

// ErrEndless means that the rewriting of an address does not end, because maps lead in a
// circle, or yields too many recipients.
var ErrEndless = errors.New("the rewriting of the address does not end")

// Sender returns what to put in place of an envelope sender. The null sender stays. The error
// is ErrEndless.
func (r *Rules) Sender(a mail.Address) (mail.Address, error) {
	if a == "" {
		return a, nil
	}
	return r.single(a, EnvelopeSender)
}

// Header returns what to put in place of an address in a header, of senders or of recipients.
// One whose rewriting does not end stays as it is.
func (r *Rules) Header(a mail.Address, senders bool) mail.Address {
	class := HeaderRecipient
	if senders {
		class = HeaderSender
	}
	after, err := r.single(a, class)
	if err != nil {
		return a
	}
	return after
}

// single applies canonical maps and masquerading.
func (r *Rules) single(a mail.Address, class Class) (mail.Address, error) {
	special := r.cfg.CanonicalRecipients
	if class&(EnvelopeSender|HeaderSender) != 0 {
		special = r.cfg.CanonicalSenders
	}
	a, err := r.canonical(a, special)
	if err == nil && r.cfg.CanonicalClasses&class != 0 {
		a, err = r.canonical(a, r.cfg.Canonical)
	}
	if err == nil && r.cfg.MasqueradeClasses&class != 0 {
		a = r.masquerade(a)
	}
	return a, err
}

// roundsMax is the number of times an address is looked up again (as in Postfix).
const roundsMax = 10

// canonical looks an address up until the result has no entry, or is itself.
func (r *Rules) canonical(a mail.Address, maps []Map) (mail.Address, error) {
	for range roundsMax {
		value, part, ok := r.find(a, maps)
		if !ok {
			return a, nil
		}
		after := r.result(firstAddress(value), a, part)
		if sameAddress(after, a) || after == "" {
			return a, nil
		}
		a = after
	}
	return a, fmt.Errorf("<%s>: %w: more than %d lookups", a, ErrEndless, roundsMax)
}

// masquerade replaces the names below a domain by the domain.
func (r *Rules) masquerade(a mail.Address) mail.Address {
	domain := strings.ToLower(a.Domain())
	if len(r.cfg.Masquerade) == 0 || domain == "" || slices.Contains(r.cfg.MasqueradeExceptions, strings.ToLower(a.Local())) {
		return a
	}
	for _, d := range r.cfg.Masquerade {
		parent, except := strings.CutPrefix(d, "!")
		switch {
		case domain != parent && !strings.HasSuffix(domain, "."+parent):
		case except || domain == parent:
			return a
		default:
			return mail.Address(a.Local() + "@" + parent)
		}
	}
	return a
}

// Expand returns the recipients to put in place of one, in their order and each of them once.
// The error is ErrEndless.
func (r *Rules) Expand(a mail.Address) ([]mail.Address, error) {
	a, err := r.single(a, EnvelopeRecipient)
	if err != nil {
		return nil, err
	}
	if len(r.cfg.Aliases) == 0 {
		return []mail.Address{a}, nil
	}
	e := expansion{rules: r, seen: make(map[mail.Address]state)}
	if err := e.add(a); err != nil {
		return nil, fmt.Errorf("<%s>: %w", a, err)
	}
	if len(e.all) == 0 {
		return nil, fmt.Errorf("<%s>: %w: nothing that it stands for is an address", a, ErrEndless)
	}
	return e.all, nil
}

// An expansion follows the aliases of one recipient.
type expansion struct {
	rules *Rules
	seen  map[mail.Address]state // by address in lower case
	all   []mail.Address
	depth int
}

// A state is the progress of the expansion of an address.
type state uint8

const (
	unseen  state = iota
	pending       // what it stands for is being followed
	done
)

// Limits of an expansion: how far aliases of aliases are followed, and how many addresses are
// looked up for each recipient that is allowed.
const (
	depthMax = 50
	effort   = 4
)

// add adds what an address stands for. An address that stands for itself, among others
// perhaps, is a recipient.
func (e *expansion) add(a mail.Address) error {
	switch e.seen[folded(a)] {
	case pending:
		return fmt.Errorf("%w: aliases lead from <%s> back to it", ErrEndless, a)
	case done:
		return nil
	}
	if e.depth == depthMax || len(e.seen) >= effort*e.rules.cfg.AliasLimit {
		return fmt.Errorf("%w: too many aliases of aliases", ErrEndless)
	}
	e.seen[folded(a)] = pending
	e.depth++
	err := e.follow(a)
	e.depth--
	e.seen[folded(a)] = done
	return err
}

func (e *expansion) follow(a mail.Address) error {
	value, part, ok := e.rules.find(a, e.rules.cfg.Aliases)
	if !ok {
		return e.take(a)
	}
	taken := false
	for field := range addresses(value) {
		after := e.rules.result(field, a, part)
		var err error
		switch {
		case after == "" || taken && sameAddress(after, a):
		case sameAddress(after, a):
			taken = true
			err = e.take(a)
		default:
			err = e.add(after)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

func (e *expansion) take(a mail.Address) error {
	if len(e.all) == e.rules.cfg.AliasLimit {
		return fmt.Errorf("%w: more than %d recipients", ErrEndless, e.rules.cfg.AliasLimit)
	}
	e.all = append(e.all, a)
	return nil
}

// SenderCopies returns the recipients that get copies because of the sender, as rewritten, or
// because all mail is copied.
func (r *Rules) SenderCopies(sender mail.Address) (all []mail.Address) {
	if r.cfg.AlwaysBcc != "" {
		all = append(all, r.cfg.AlwaysBcc)
	}
	if sender == "" {
		return all
	}
	return append(all, r.copies(sender, r.cfg.SenderBcc)...)
}

// RecipientCopies returns the recipients that get copies because of a recipient.
func (r *Rules) RecipientCopies(recipient mail.Address) []mail.Address {
	return r.copies(recipient, r.cfg.RecipientBcc)
}

// copies returns the addresses of a map of copies. If an address with an extension was found
// without it, the copies do not get the extension (as in Postfix): the mailbox that keeps the
// copies need not know extensions, and a refused copy would not be reported to any sender.
func (r *Rules) copies(a mail.Address, maps []Map) (all []mail.Address) {
	value, part, ok := r.find(a, maps)
	if !ok {
		return nil
	}
	if part == withoutExtension {
		part = wholeAddress
	}
	for field := range addresses(value) {
		if after := r.result(field, a, part); after != "" {
			all = append(all, after)
		}
	}
	return all
}
