package intake

import (
	"strings"
	"time"

	"github.com/posthaste-mta/posthaste/internal/ilist"
	"github.com/posthaste-mta/posthaste/mail"
)

// A name whose lookup took long and ended without an answer is silent until a lookup of
// it is answered, or an hour has passed. For a minute its mail is deferred with the reply
// of that lookup, and the name is not looked up. After that it is looked up again, but lookups of
// silent names may take only half of the slots of Limits.Lookups, and be only half of the
// slow lookups that there may be (slow.go): others find a slot however many silent names
// are tried again. If no other name was answered meanwhile, the cause may as well be our
// resolver or our network, and no name is taken for silent.
//
// Names of one zone mostly have the same name servers, and a sender may use as many of
// them as he likes. So three names in a row that are silent make the other names of the
// zone wait among the silent ones, though they are not deferred; one that is answered
// shows that the cause is not the zone. Only the DNS knows zone cuts: here a zone is the
// last two labels. Where that is too much (co.uk), some name is answered often enough.

const (
	silenceReplies = time.Minute
	silenceMemory  = time.Hour
	// silentZone is the number of names in a row that make a zone silent.
	silentZone = 3
	// silencesMost bounds how many names are remembered, zones included.
	silencesMost = 20_000
)

// silences is what is known of silent names and zones.
type silences struct {
	known     map[string]*silence
	byAge     ilist.List[silence] // by since, oldest first
	heardLast mail.Instant        // when there was an answer about some name; 0: never
}

// A silence is one name or zone of which nothing was heard.
type silence struct {
	name  string
	since mail.Instant // the last time, of the name or of one in the zone
	row   int          // names of the zone that were silent, one after the other; 0: it is only a name
	reply mail.Reply   // of the name's last lookup; zero if it is only a zone
	said  mail.Instant // when that was; reply is not zero
	inAge ilist.Link[silence]
}

// zone returns the last two labels of a name.
func zone(name string) string {
	if last := strings.LastIndexByte(name, '.'); last > 0 {
		return name[strings.LastIndexByte(name[:last], '.')+1:]
	}
	return name
}

// heardNothing notes that a name is silent, unless no other was answered while it was
// looked up.
func (s *silences) heardNothing(l *Lookup, why mail.Reply, now mail.Instant) {
	if s.heardLast < l.begun {
		return
	}
	name := l.Nexthop
	e := s.entry(name, now)
	if e.reply.IsZero() { // it shows nothing of its zone that it is silent still
		s.entry(zone(name), now).row++
	}
	e.reply, e.said = why, now
}

// heard notes that there was an answer about a name.
func (s *silences) heard(name string, now mail.Instant) {
	s.heardLast = now
	s.forget(s.known[name])
	s.forget(s.known[zone(name)])
}

// entry returns what is known of a name, as of now, and forgets what is too old or too much.
func (s *silences) entry(name string, now mail.Instant) *silence {
	e := s.known[name]
	if e == nil {
		e = &silence{name: name}
		s.known[name] = e
		s.byAge.PushBack(&e.inAge, e)
	}
	e.since = now
	s.byAge.MoveToBack(&e.inAge)
	for oldest := s.byAge.Front(); now >= oldest.since.Add(silenceMemory) || s.byAge.Len() > silencesMost; oldest = s.byAge.Front() {
		s.forget(oldest)
	}
	return e
}

func (s *silences) forget(e *silence) {
	if e != nil {
		delete(s.known, e.name)
		s.byAge.Remove(&e.inAge)
	}
}

// is reports whether a name, or its zone, was silent lately.
func (s *silences) is(name string, now mail.Instant) bool {
	lately := func(e *silence) bool { return e != nil && now < e.since.Add(silenceMemory) }
	e, z := s.known[name], s.known[zone(name)]
	return lately(e) && !e.reply.IsZero() || lately(z) && z.row >= silentZone
}

// reply returns the reply for a name that was silent less than silenceReplies ago; zero
// if it was not.
func (s *silences) reply(name string, now mail.Instant) mail.Reply {
	if e := s.known[name]; e != nil && now < e.said.Add(silenceReplies) {
		return e.reply
	}
	return mail.Reply{}
}
