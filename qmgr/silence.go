package qmgr

import (
	"strings"
	"time"

	"github.com/posthaste-mta/posthaste/internal/ilist"
	"github.com/posthaste-mta/posthaste/mail"
)

// A name whose look-up took long and ended without an answer is silent until a look-up
// of it is answered, or an hour has passed. For a minute its mail is deferred with what
// was said then, and nobody asks. After that it is asked about again, but what is
// looked up for silent names may take only half of the places of LookupLimit, and be
// only half of the slow look-ups that there may be (slow.go): others find a place however
// many of them are tried again. Where no other name was answered meanwhile it may as well
// be our resolver, or our network, that nothing was heard of, and no name is blamed.
//
// Names of one zone mostly have the same name servers, and somebody may send to as many
// of them as he likes. So three of them in a row that are silent make the others wait
// among the silent ones, though not be deferred; one that is answered shows that it is
// not the zone. What a zone is only the DNS knows: here it is two labels. Where that is
// too much (co.uk), some name is answered often enough.

const (
	silenceReplies = time.Minute
	silenceMemory  = time.Hour
	// silentZone is how many names in a row make a zone silent.
	silentZone = 3
	// silencesMost bounds how many names are remembered, zones included.
	silencesMost = 20_000
)

// silences is what is known of silent names and zones.
type silences struct {
	known     map[string]*silence
	byAge     ilist.List[silence]
	heardLast mail.Instant // when there was an answer about some name
}

// A silence is one name or zone of which nothing was heard.
type silence struct {
	name  string
	since mail.Instant // the last time, of the name or of one in the zone
	row   int          // names of the zone that were silent, one after the other; 0: it is only a name
	reply mail.Reply   // what was said of the name; zero if it is only a zone
	said  mail.Instant // when
	inAge ilist.Link[silence]
}

// zone returns the last two labels of a name.
func zone(name string) string {
	if last := strings.LastIndexByte(name, '.'); last > 0 {
		return name[strings.LastIndexByte(name[:last], '.')+1:]
	}
	return name
}

// heardNothing notes that a name is silent, unless nobody has been heard of meanwhile.
func (s *silences) heardNothing(l *lookup, why mail.Reply, now mail.Instant) {
	if s.heardLast < l.begun {
		return
	}
	name := l.key.nexthop
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

// silent tells whether a name, or its zone, was silent lately.
func (s *silences) silent(name string, now mail.Instant) bool {
	lately := func(e *silence) bool { return e != nil && now < e.since.Add(silenceMemory) }
	e, z := s.known[name], s.known[zone(name)]
	return lately(e) && !e.reply.IsZero() || lately(z) && z.row >= silentZone
}

// reply returns what is said of a name that was silent a moment ago; zero if it was not.
func (s *silences) reply(name string, now mail.Instant) mail.Reply {
	if e := s.known[name]; e != nil && now < e.said.Add(silenceReplies) {
		return e.reply
	}
	return mail.Reply{}
}
