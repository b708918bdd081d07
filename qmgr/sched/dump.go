package sched

import (
	"fmt"
	"strings"

	"github.com/posthaste-mta/posthaste/mail"
)

// A Dump writes every counter of a lane that decides what is selected, in the
// columns of the recordings that package verify compares with: a line for the lane,
// its destinations in the order in which they came about, the jobs that are listed in
// the order in which they are scheduled, and their order by time.
type Dump struct {
	Name   func(mail.QueueID) string // writes a message
	State  string                    // what the lane does not know of its transport
	Window func(*Destination) string // writes a destination's window
}

// Dump writes a lane. It takes linear time.
func (l *Lane) Dump(to *strings.Builder, o Dump) {
	if l.Scheduler == RoundRobin {
		l.dumpTurns(to, o)
		return
	}
	candidate := (*Job)(nil)
	if l.cache.current != nil {
		candidate = l.cache.candidate
	}
	fmt.Fprintf(to, "  xport %s %s unused=%d cur=%s unread=%s btag=%d cache=%s/%s@%d\n", l.Name, o.State,
		l.pool.unused, o.job(l.current), o.job(l.pool.unread), l.tag, o.job(l.cache.current), o.job(candidate), l.cache.second)
	for d := range l.order.All() {
		fmt.Fprintf(to, "    queue %s todo=%d busy=%d %s btag=%d\n", d.Name, d.Todo.Len(), d.Busy, o.Window(d), d.dumpedTag())
	}
	for j := range l.jobs.All() {
		o.listed(to, j)
	}
	to.WriteString("    bytime:")
	for p := l.jobsByTime.first; p != nil; p = p.next() {
		to.WriteString(" " + o.job(p.elem))
	}
	to.WriteString("\n")
}

// dumpTurns writes a lane without lists of jobs: its destinations in turn, and what
// waits for each.
func (l *Lane) dumpTurns(to *strings.Builder, o Dump) {
	fmt.Fprintf(to, "  xport %s %s\n", l.Name, o.State)
	for d := range l.order.All() {
		fmt.Fprintf(to, "    queue %s todo=%d busy=%d %s next:", d.Name, d.Todo.Len(), d.Busy, o.Window(d))
		for e := range d.Todo.All() {
			fmt.Fprintf(to, " %s/%d", o.Name(e.Message.ID), len(e.Recipients))
		}
		to.WriteString("\n")
	}
}

// job names a job by its message; "-" is none.
func (o *Dump) job(j *Job) string {
	if j == nil {
		return "-"
	}
	return o.Name(j.message.ID)
}

func (o *Dump) listed(to *strings.Builder, j *Job) {
	s, m, more := &j.stack, j.message, 0
	if m.More {
		more = 1
	}
	fmt.Fprintf(to, "    job %s lvl=%d par=%s blk=%d used=%d avail=%d sel=%d read=%d rcnt=%d rlim=%d", o.job(j), s.level, o.job(s.parent),
		j.dumpedTag(), s.used, s.available, j.selected, j.read, j.slots.count, j.slots.limit)
	fmt.Fprintf(to, " | msg cnt=%d lim=%d unread=%d off=%d ref=%d peers:", m.InCore, m.Limit, m.Unread, more, m.Entries)
	for p := range j.peers.All() {
		fmt.Fprintf(to, " %s(%d/%d)", p.Destination.Name, p.Todo.Len(), p.entries)
	}
	to.WriteString("\n")
}

// dumpedTag is the job's mark: the lane's if it is blocked. Marks that are void are
// known to Config.AsPostfix only.
func (j *Job) dumpedTag() uint64 {
	switch l := j.lane; {
	case l.exact:
		return j.blocking.tag
	case l.blocked(j):
		return l.tag
	}
	return 0
}

func (d *Destination) dumpedTag() uint64 {
	switch l := d.Lane; {
	case l.exact:
		return d.marking.tag
	case l.marked(d):
		return l.tag
	}
	return 0
}
