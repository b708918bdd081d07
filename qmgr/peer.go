package qmgr

import (
	"github.com/posthaste-mta/posthaste/internal/ilist"
)

// A peer is one destination within one job: the part of a queue that belongs
// to one message. It exists as long as it has entries.
type peer struct {
	job     *job
	queue   *dest
	inJob   ilist.Link[peer]
	turn    uint64            // its number in the ring of its job's
	served  place[peer]       // in job.servable
	todo    ilist.List[entry] // those that wait, oldest first
	waiting place[peer]       // in dest.marking.waiting, while todo is not empty
	entries int               // all of them, busy ones too
}

func newPeer(j *job, d *dest) *peer {
	p := j.lane.spares.peers.Take()
	p.job, p.queue = j, d
	return p
}

// wait tells the destination that the peer is going to have an entry to select.
func (p *peer) wait() {
	if p.job.blocking.openIn.Listed() {
		p.job.lane.keepMark(p.queue)
	}
	p.queue.await(p)
}
