package qmgr

import (
	"github.com/posthaste-mta/posthaste/mail"
	"github.com/posthaste-mta/posthaste/qmgr/flows"
	"github.com/posthaste-mta/posthaste/qmgr/sched"
)

// A JobList is what the scheduler of one transport works on.
type JobList struct {
	Transport string
	Lanes     []LaneView // those with most waiting first
	More      int        // lanes with jobs that are not among them
}

// A LaneView is the mail of one flow, in the order in which it is scheduled.
type LaneView struct {
	Flow          mail.Flow // zero: mail without a flow
	Waiting, Busy int       // entries
	SlotCost      int       // entries of a job that earn a delivery slot; below 2 there is no preemption
	Jobs          []JobView // the first of them
	Known         int       // jobs, including those that are not in the list
}

// A JobView is one message in a lane.
type JobView struct {
	sched.JobView
	ID         mail.QueueID
	Sender     mail.Address
	Recipients uint32 // of the message
	Arrived    mail.Instant
	Unread     int // recipients that are still in the spool, at most
}

// Jobs returns the jobs of a transport, at most lanes lanes and most jobs of each; false if there is no such
// transport. It takes time in proportion to the number of the transport's jobs.
func (q *Qmgr) Jobs(transport string, lanes, most int) (JobList, bool) {
	t := q.transports[transport]
	if t == nil {
		return JobList{}, false
	}
	list := JobList{Transport: transport}
	busiest, more := t.Busiest(lanes)
	for _, l := range busiest {
		list.Lanes = append(list.Lanes, laneView(l, most))
	}
	list.More = more
	return list, true
}

func laneView(l *flows.Lane, most int) LaneView {
	v := LaneView{Flow: l.Flow(), Waiting: l.Waiting, Busy: l.Busy, SlotCost: l.SlotCost()}
	var jobs []sched.JobView
	jobs, v.Known = l.Jobs(most)
	for _, j := range jobs {
		m := messageOf(j.Message)
		v.Jobs = append(v.Jobs, JobView{JobView: j, ID: m.ID, Sender: m.env.Sender, Recipients: m.env.Recipients, Arrived: m.env.Arrived, Unread: j.Message.Unread})
	}
	return v
}
