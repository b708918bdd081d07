package inbound

import (
	"slices"
	"strings"

	"golang.org/x/net/idna"

	"github.com/posthaste-mta/posthaste/idn"
	"github.com/posthaste-mta/posthaste/internal/glob"
)

// A SenderLogin lists the users that may use a sender.
type SenderLogin struct {
	// Sender is an address, in which * stands for any text; a domain; or .domain for the
	// domains below it.
	Sender string
	// Users are names. AnyUser stands for all who have logged in, and SameUser for one
	// whose name is the address itself.
	Users []string
}

// Users of a SenderLogin that are not names.
const (
	AnyUser  = "*"
	SameUser = "{sender}"
)

// senderLogins are compiled. An address without * is looked up before any pattern is
// tried, and patterns are tried in their order: the first that fits decides.
type senderLogins struct {
	any      bool // there are none
	exact    map[string][]string
	patterns []senderPattern
}

type senderPattern struct {
	sender glob.Senders
	users  []string
}

func newSenderLogins(all []SenderLogin) senderLogins {
	s := senderLogins{any: len(all) == 0, exact: make(map[string][]string)}
	for _, one := range all {
		if strings.Contains(one.Sender, "@") && !strings.Contains(one.Sender, "*") {
			key := spellings(one.Sender)[0]
			s.exact[key] = append(s.exact[key], one.Users...)
			continue
		}
		s.patterns = append(s.patterns, senderPattern{glob.NewSenders([]string{one.Sender}), one.Users})
	}
	return s
}

// own reports whether a user may use a sender. An entry applies to all spellings of its domain:
// otherwise other users could use a reserved sender by writing its domain as A-labels, or in
// full-width letters, which become plain ones on the way.
func (s *senderLogins) own(user, sender string) bool {
	if s.any {
		return true
	}
	forms := spellings(sender)
	users, found := s.exact[forms[0]]
	for i := range s.patterns {
		if found {
			break
		}
		if found = slices.ContainsFunc(forms, s.patterns[i].sender.Match); found {
			users = s.patterns[i].users
		}
	}
	return slices.ContainsFunc(users, func(u string) bool {
		return u == user || u == AnyUser || u == SameUser && slices.ContainsFunc(forms, func(f string) bool { return strings.EqualFold(user, f) })
	})
}

// spellings returns the forms of an address in which it is compared, in lower case: with
// A-labels, and with U-labels if that differs. What is no domain name (RFC 5891) is in no
// other form than its own.
func spellings(address string) []string {
	address = strings.ToLower(address)
	at := strings.LastIndexByte(address, '@') + 1
	ascii, err := idn.ASCII(address[at:])
	if err != nil {
		return []string{address}
	}
	forms := []string{address[:at] + ascii}
	if strings.Contains(ascii, "xn--") {
		if u, err := idna.Lookup.ToUnicode(ascii); err == nil {
			forms = append(forms, address[:at]+u)
		}
	}
	return forms
}
