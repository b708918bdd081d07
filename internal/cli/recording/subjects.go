package recording

import (
	"github.com/spf13/pflag"

	"github.com/posthaste-mta/posthaste/internal/cli/exit"
	"github.com/posthaste-mta/posthaste/internal/human"
	"github.com/posthaste-mta/posthaste/mail"
)

// subjects are the messages and destinations that flags select.
type subjects struct {
	messages, transports, nexthops []string
}

// addFlags adds the flags. The usages of those for destinations begin with what is
// selected of one.
func (s *subjects) addFlags(f *pflag.FlagSet, message, destination string) {
	f.StringSliceVar(&s.messages, "message", nil, message)
	f.StringSliceVar(&s.transports, "transport", nil, destination+" the transport of this `name`")
	f.StringSliceVar(&s.nexthops, "nexthop", nil, destination+" the nexthop of this `name`")
}

// any reports whether there are any.
func (s *subjects) any() bool { return len(s.messages)+len(s.transports)+len(s.nexthops) > 0 }

func (s *subjects) ids() ([]mail.QueueID, error) {
	var ids []mail.QueueID
	for _, text := range s.messages {
		id, err := mail.ParseQueueID(text)
		if err != nil {
			return nil, exit.Usagef("--message %s: %w", human.Plain(text), err)
		}
		ids = append(ids, id)
	}
	return ids, nil
}
