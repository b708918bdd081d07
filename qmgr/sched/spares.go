package sched

import "github.com/posthaste-mta/posthaste/internal/stock"

// Spares are a queue manager's structures of lanes.
type Spares struct {
	jobs    stock.Of[Job]
	peers   stock.Of[Peer]
	entries stock.Of[Entry]
}

func (s *Spares) giveJob(j *Job) {
	*j = Job{}
	s.jobs.Give(j)
}

func (s *Spares) givePeer(p *Peer) {
	*p = Peer{}
	s.peers.Give(p)
}

func (s *Spares) giveEntry(e *Entry) {
	*e = Entry{Recipients: stock.Emptied(e.Recipients)}
	s.entries.Give(e)
}
