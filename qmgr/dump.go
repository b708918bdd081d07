package qmgr

import (
	"fmt"
	"strconv"
	"strings"

	"github.com/posthaste-mta/posthaste/mail"
	"github.com/posthaste-mta/posthaste/qmgr/window"
)

// DumpOptions says how Dump writes what the core does not know.
type DumpOptions struct {
	// Name writes a message; nil means its ID.
	Name func(mail.QueueID) string
	// Pending holds the offers of agents that are under way, by transport: the
	// host counts them.
	Pending map[string]int
}

// Dump returns every counter that decides what is selected, as text: a line for
// the core; then for each transport, in turn, its state, its destinations in
// the order in which they came about, the jobs that are listed in the order in
// which they are scheduled, and their order by time.
//
// The columns are those of the recordings that package verify compares with.
// It takes linear time; traces and tests use it.
func (q *Qmgr) Dump(o DumpOptions) string {
	if o.Name == nil {
		o.Name = mail.QueueID.String
	}
	d := dumper{DumpOptions: o}
	d.line("  [now %d msgs=%d rcpts=%d queues=%d]", q.now.Seconds(), len(q.messages), q.recipients, q.queues)
	for t := range q.ring.All() {
		d.transport(t)
	}
	return d.String()
}

type dumper struct {
	DumpOptions
	strings.Builder
}

func (d *dumper) line(format string, args ...any) {
	fmt.Fprintf(d, format+"\n", args...)
}

// job names a job by its message; "-" is none.
func (d *dumper) job(j *job) string {
	if j == nil {
		return "-"
	}
	return d.Name(j.message.id)
}

func (d *dumper) transport(t *transport) {
	if t.scheduler == RoundRobin {
		d.turns(t)
		return
	}
	candidate := (*job)(nil)
	if t.cache.current != nil {
		candidate = t.cache.candidate
	}
	d.line("  xport %s flags=%d pend=%d unused=%d cur=%s unread=%s btag=%d cache=%s/%s@%d", t.name, t.flags(), d.Pending[t.name],
		t.pool.unused, d.job(t.current), d.job(t.pool.unread), t.tag,
		d.job(t.cache.current), d.job(candidate), t.cache.second)
	for q := range t.order.All() {
		d.queue(q.owner)
	}
	for j := range t.jobs.All() {
		d.listed(j)
	}
	d.WriteString("    bytime:")
	for p := t.jobsByTime.first; p != nil; p = p.next() {
		d.WriteString(" " + d.job(p.elem))
	}
	d.WriteString("\n")
}

// flags writes a transport's state as Postfix keeps it.
func (t *transport) flags() int {
	flags := 0
	if t.dead() {
		flags |= 2
	}
	if t.lull.state != lullFree {
		flags |= 4
	}
	return flags
}

func (d *dumper) queue(q *queue) {
	success, failure, cohorts := q.window.Counters()
	d.line("    queue %s todo=%d busy=%d win=%d succ=%s fail=%s coh=%s btag=%d", q.name, q.todo.Len(), q.busy,
		signedWindow(q), short(success), short(failure), short(cohorts), q.tag())
}

// signedWindow writes a window's state as Postfix keeps it: in its size.
func signedWindow(q *queue) int {
	switch q.window.State() {
	case window.Dead:
		return 0
	case window.Suspended:
		return -1
	}
	return q.window.Size()
}

// short writes a number with six significant digits.
func short(v float64) string { return strconv.FormatFloat(v, 'g', 6, 64) }

func (d *dumper) listed(j *job) {
	s, m := &j.stack, j.message
	fmt.Fprintf(d, "    job %s lvl=%d par=%s blk=%d used=%d avail=%d sel=%d read=%d rcnt=%d rlim=%d", d.job(j), s.level, d.job(s.parent),
		j.tag(), s.used, s.available, j.selected, j.read, j.slots.count, j.slots.limit)
	fmt.Fprintf(d, " | msg cnt=%d lim=%d unread=%d off=%d ref=%d peers:", m.inCore, m.limit, m.unread, digit(m.more), m.entries)
	for p := range j.peers.All() {
		fmt.Fprintf(d, " %s(%d/%d)", p.queue.name, p.todo.Len(), p.entries)
	}
	d.WriteString("\n")
}

func digit(b bool) int {
	if b {
		return 1
	}
	return 0
}

// tag is the job's mark: the transport's if it is blocked. Marks that are void
// are known to Config.AsPostfix only.
func (j *job) tag() uint64 {
	switch t := j.lane; {
	case t.exact:
		return j.blocking.tag
	case t.blocked(j):
		return t.tag
	}
	return 0
}

func (q *queue) tag() uint64 {
	switch t := q.transport; {
	case t.exact:
		return q.marking.tag
	case t.marked(&q.dest):
		return t.tag
	}
	return 0
}
