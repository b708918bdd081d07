package inbound

import (
	"slices"
	"strings"

	"github.com/posthaste-mta/posthaste/internal/glob"
)

// A SenderLogin is who may use a sender.
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
			key := strings.ToLower(one.Sender)
			s.exact[key] = append(s.exact[key], one.Users...)
			continue
		}
		s.patterns = append(s.patterns, senderPattern{glob.NewSenders([]string{one.Sender}), one.Users})
	}
	return s
}

// own reports whether a user may use a sender.
func (s *senderLogins) own(user, sender string) bool {
	if s.any {
		return true
	}
	users, found := s.exact[strings.ToLower(sender)]
	for i := range s.patterns {
		if found {
			break
		}
		if found = s.patterns[i].sender.Match(sender); found {
			users = s.patterns[i].users
		}
	}
	return slices.ContainsFunc(users, func(u string) bool {
		return u == user || u == AnyUser || u == SameUser && strings.EqualFold(user, sender)
	})
}
