package feedback

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/posthaste-mta/posthaste/mail"
	"github.com/posthaste-mta/posthaste/verp"
)

// A Desk is a set of addresses for reports, and how mail to them is read.
type Desk struct {
	// Addresses are such as "bounces@example.com", which includes its forms with an encoded
	// recipient, and "@bounces.example.com" for a whole domain.
	Addresses []string
	// Codec decodes recipients. With secrets, addresses without a valid tag are not believed,
	// unless Untagged is set.
	Codec    verp.Codec
	Untagged bool
	// Tenant is the tenant for which reports are counted; "" if it is not configured.
	Tenant string
	// UnparsedTo is where messages are forwarded that cannot be parsed; "" if they are kept.
	UnparsedTo mail.Address
}

// A Mailbox is the addresses of one desk.
type Mailbox struct {
	Desk
	addresses map[mail.Address]bool // in lower case
	domains   map[string]bool       // in lower case
}

// NewMailbox returns the mailbox of a desk, nil without addresses. The error joins what is wrong with
// them.
func NewMailbox(d Desk) (*Mailbox, error) {
	m := &Mailbox{Desk: d, addresses: make(map[mail.Address]bool), domains: make(map[string]bool)}
	var wrong []error
	for _, name := range d.Addresses {
		domain, whole := strings.CutPrefix(name, "@")
		switch a := address(name); {
		case whole && address("x@"+domain) != "":
			m.domains[strings.ToLower(domain)] = true
		case a != "" && a == mail.Address(name):
			m.addresses[mail.Address(strings.ToLower(name))] = true
		default:
			wrong = append(wrong, fmt.Errorf("feedback: %q is neither an address nor a domain after an @", name))
		}
	}
	if err := errors.Join(wrong...); err != nil {
		return nil, err
	}
	if len(d.Addresses) == 0 {
		return nil, nil
	}
	return m, nil
}

// Mailboxes are all addresses for reports. They do not change, and are safe for concurrent use.
type Mailboxes []*Mailbox

// A Match is the information in the address to which a report came.
type Match struct {
	Box       *Mailbox     // that has the address
	Sender    mail.Address // of the message that the report is about; "" if the address has none
	Recipient mail.Address // likewise
	Verified  bool         // it has a tag that only this program could write
}

// Match reports whether mail for an address is taken in, and returns the information in the address. A
// mailbox with the address, or with the sender in it, takes precedence over one with the whole domain.
func (all Mailboxes) Match(to mail.Address) (found Match, ok bool) {
	for _, m := range all {
		if sender, ok := m.holds(to); ok {
			return m.read(sender, to), true
		}
	}
	domain := strings.ToLower(to.Domain())
	for _, m := range all {
		if m.domains[domain] {
			return m.read("", to), true
		}
	}
	return found, false
}

// Distinct returns the addresses of recipients whose reports differ: each one with a recipient in it, and one of
// those of each mailbox that have none. A report that names a thousand recipients and came to a thousand addresses
// is a thousand events, not a million.
func (all Mailboxes) Distinct(recipients []mail.Recipient) (to []mail.Address) {
	seen := make(map[*Mailbox]bool)
	for i := range recipients {
		a := recipients[i].Address
		found, _ := all.Match(a)
		if found.Recipient == "" && seen[found.Box] {
			continue
		}
		seen[found.Box] = seen[found.Box] || found.Recipient == ""
		to = append(to, a)
	}
	return to
}

// holds reports whether the mailbox has an address, or the sender that is encoded in it, which it returns;
// "" if the address itself is the mailbox's.
func (m *Mailbox) holds(to mail.Address) (sender mail.Address, ok bool) {
	if len(m.addresses) == 0 || to == "" {
		return "", false
	}
	if m.addresses[mail.Address(strings.ToLower(string(to)))] {
		return "", true
	}
	local, before := to.Local(), m.Codec.Delimiters.String()[0]
	for i := len(local) - 1; i > 0; i-- {
		if local[i] != before {
			continue
		}
		sender := mail.Address(local[:i] + "@" + to.Domain())
		if local[0] == '"' {
			sender = mail.Address(local[1:i] + "@" + to.Domain()) // the quotes are around all of it
		}
		if m.addresses[mail.Address(strings.ToLower(string(sender)))] {
			return sender, true
		}
	}
	return "", false
}

// read decodes an address of the mailbox. The sender is "" if it is not known.
func (m *Mailbox) read(sender, to mail.Address) Match {
	found := Match{Box: m}
	if sender == "" && m.addresses[mail.Address(strings.ToLower(string(to)))] {
		return found
	}
	codec := m.Codec
	tagged := len(codec.Secrets) > 0
	s, r, err := decode(&codec, sender, to)
	if err != nil && tagged && m.Untagged {
		codec.Secrets, tagged = nil, false
		s, r, err = decode(&codec, sender, to)
	}
	if err == nil {
		found.Sender, found.Recipient, found.Verified = s, r, tagged
	}
	return found
}

// decode decodes an address. The sender is "" if it is not known.
func decode(c *verp.Codec, sender, to mail.Address) (s, recipient mail.Address, err error) {
	if sender == "" {
		return c.Split(to)
	}
	recipient, err = c.Decode(sender, to)
	return sender, recipient, err
}

// Names returns the addresses and domains in lower case and in order, as NewMailbox takes them.
func (all Mailboxes) Names() (names []string) {
	for _, m := range all {
		for a := range m.addresses {
			names = append(names, string(a))
		}
		for domain := range m.domains {
			names = append(names, "@"+domain)
		}
	}
	slices.Sort(names)
	return names
}
