package feedback

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/posthaste-mta/posthaste/mail"
	"github.com/posthaste-mta/posthaste/verp"
)

// Mailboxes are the addresses at which reports are taken in. They do not change, and are safe for
// concurrent use. A nil *Mailboxes has none.
type Mailboxes struct {
	addresses map[mail.Address]bool // in lower case
	domains   map[string]bool       // in lower case
	codec     verp.Codec
}

// NewMailboxes returns mailboxes: an address such as "bounces@example.com" stands also for all that
// have a recipient in them, and "@bounces.example.com" for all of a domain. It returns nil for
// none. The error joins what is wrong with them.
func NewMailboxes(names []string, codec verp.Codec) (*Mailboxes, error) {
	m := &Mailboxes{addresses: make(map[mail.Address]bool), domains: make(map[string]bool), codec: codec}
	var wrong []error
	for _, name := range names {
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
	if len(names) == 0 {
		return nil, nil
	}
	return m, nil
}

// A Match is the information in the address to which a report came.
type Match struct {
	Sender    mail.Address // of the message that the report is about; "" if the address has none
	Recipient mail.Address // likewise
	Wrong     bool         // it lacks a tag that it should have (verp.ErrWrong)
}

// Match reports whether mail for an address is taken in, and what the address says.
func (m *Mailboxes) Match(to mail.Address) (found Match, ok bool) {
	if m == nil {
		return found, false
	}
	folded := mail.Address(strings.ToLower(string(to)))
	if m.addresses[folded] {
		return found, true
	}
	if local := to.Local(); local != "" && len(m.addresses) > 0 {
		before := m.codec.Delimiters.String()[0]
		for i := len(local) - 1; i > 0; i-- {
			if local[i] != before {
				continue
			}
			sender := mail.Address(local[:i] + "@" + to.Domain())
			if local[0] == '"' {
				sender = mail.Address(local[1:i] + "@" + to.Domain()) // the quotes are around all of it
			}
			if m.addresses[mail.Address(strings.ToLower(string(sender)))] {
				return m.decode(sender, to), true
			}
		}
	}
	if !m.domains[folded.Domain()] {
		return found, false
	}
	sender, recipient, err := m.codec.Split(to)
	return Match{sender, recipient, errors.Is(err, verp.ErrWrong)}, true
}

func (m *Mailboxes) decode(sender, to mail.Address) Match {
	recipient, err := m.codec.Decode(sender, to)
	if err != nil {
		return Match{Wrong: errors.Is(err, verp.ErrWrong)}
	}
	return Match{Sender: sender, Recipient: recipient}
}

// Names returns the addresses and domains in lower case and in order, as NewMailboxes takes them.
func (m *Mailboxes) Names() (names []string) {
	if m == nil {
		return nil
	}
	for a := range m.addresses {
		names = append(names, string(a))
	}
	for domain := range m.domains {
		names = append(names, "@"+domain)
	}
	slices.Sort(names)
	return names
}
