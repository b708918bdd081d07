package sched

import (
	"github.com/posthaste-mta/posthaste/internal/ilist"
)

// A Peer is one destination within one job: the part of a queue that belongs
// to one message. It exists as long as it has entries.
type Peer struct {
	job         *Job
	Destination *Destination
	inJob       ilist.Link[Peer]
	turn        uint64            // its number in the ring of its job's
	served      place[Peer]       // in job.servable
	Todo        ilist.List[Entry] // those that wait, oldest first
	waiting     place[Peer]       // in dest.marking.waiting, while todo is not empty
	entries     int               // all of them, busy ones too
}

func newPeer(j *Job, d *Destination) *Peer {
	p := j.lane.spares.peers.Take()
	p.job, p.Destination = j, d
	return p
}

// wait announces to the destination that the peer will have an entry to select.
func (p *Peer) wait() {
	if p.job.blocking.openIn.Listed() {
		p.job.lane.keepMark(p.Destination)
	}
	p.Destination.addWaiting(p)
}

// Busy is how many of its entries are under way.
func (p *Peer) Busy() int { return p.entries - p.Todo.Len() }
