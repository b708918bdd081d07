package qmgr

import (
	"github.com/posthaste-mta/posthaste/internal/ilist"
)

// A peer is one destination within one job: the part of a queue that belongs
// to one message. It exists as long as it has entries.
type peer struct {
	job     *job
	queue   *queue
	inJob   ilist.Link[peer]
	todo    ilist.List[entry] // those that wait, oldest first
	entries int               // all of them, busy ones too
}

func newPeer(j *job, q *queue) *peer {
	return &peer{job: j, queue: q}
}
