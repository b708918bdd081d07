package trace

import (
	"slices"

	"github.com/posthaste-mta/posthaste/mail"
	"github.com/posthaste-mta/posthaste/qmgr"
)

// A Subject is what a line is about: everything that it names, in the order in
// which it does, which may be more than once.
type Subject struct {
	Messages   []mail.QueueID
	Entries    []qmgr.EntryID
	Conns      []qmgr.ConnID
	Lookups    []qmgr.LookupID
	Transports []string
	Nexthops   []string
}

// note takes a field of a line.
func (s *Subject) note(name, value string) {
	switch name {
	case "transport", "via":
		s.Transports = append(s.Transports, value)
	case "nexthop":
		s.Nexthops = append(s.Nexthops, value)
	}
}

// add takes in what another line has named.
func (s *Subject) add(o Subject) {
	s.Messages = append(s.Messages, o.Messages...)
	s.Transports = append(s.Transports, o.Transports...)
	s.Nexthops = append(s.Nexthops, o.Nexthops...)
}

// Subject returns what the line itself names. An answer may name no more than
// an attempt or a connection: a Follower knows whose they are.
func (l Line) Subject() Subject {
	var s Subject
	c := codec{now: l.Now, writing: true, subject: &s}
	c.line(&l)
	return s
}

// A Follower finds the messages and destinations that lines are about. It must see
// all lines of a trace in order, because an answer names only the attempt or the
// connection that it is about. It remembers what is under way.
type Follower struct {
	entries map[qmgr.EntryID]Subject
	conns   map[qmgr.ConnID]Subject
	lookups map[qmgr.LookupID]Subject
	asked   map[qmgr.VerificationID]Subject // by clients; these are answered by actions
}

// NewFollower returns a follower for the lines of one trace.
func NewFollower() *Follower {
	return &Follower{entries: make(map[qmgr.EntryID]Subject), conns: make(map[qmgr.ConnID]Subject),
		lookups: make(map[qmgr.LookupID]Subject), asked: make(map[qmgr.VerificationID]Subject)}
}

// Subject returns what a line is about.
func (f *Follower) Subject(l Line) Subject {
	s := l.Subject()
	if verified, ok := l.Action.(qmgr.Verified); ok {
		s.add(f.asked[verified.Verification])
		delete(f.asked, verified.Verification)
	}
	if verify, ok := l.Event.(qmgr.Verify); ok {
		f.asked[verify.Verification] = s
	}
	if l.Action != nil {
		f.begins(l, s)
		return s
	}
	for _, e := range s.Entries {
		s.add(f.entries[e])
		delete(f.entries, e)
	}
	for _, n := range s.Lookups {
		s.add(f.lookups[n])
		delete(f.lookups, n)
	}
	for _, c := range s.Conns {
		s.add(f.conns[c])
		if f.ends(l.Event) {
			delete(f.conns, c)
		}
	}
	return s
}

// begins remembers what an action begins.
func (f *Follower) begins(l Line, s Subject) {
	own := Subject{Messages: slices.Clone(s.Messages), Transports: slices.Clone(s.Transports), Nexthops: slices.Clone(s.Nexthops)}
	for _, e := range s.Entries {
		f.entries[e] = own
	}
	for _, n := range s.Lookups {
		f.lookups[n] = own
	}
	if dial, ok := l.Action.(qmgr.Dial); ok {
		f.conns[dial.Conn] = own
	}
}

// ends reports whether an event is the last of its connection.
func (f *Follower) ends(ev qmgr.Event) bool {
	switch ev := ev.(type) {
	case qmgr.Closed:
		return true
	case qmgr.Dialed:
		return !ev.Opened.Reply.IsZero()
	}
	return false
}
