package qmgr

import (
	"fmt"
	"strconv"
	"strings"

	"github.com/posthaste-mta/posthaste/mail"
	"github.com/posthaste-mta/posthaste/qmgr/sched"
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
	d.line("  [now %d msgs=%d rcpts=%d queues=%d]", q.now.Seconds(), len(q.messages), q.room.Recipients.InCore(), q.queues)
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

func (d *dumper) transport(t *transport) {
	state := fmt.Sprintf("flags=%d pend=%d", t.flags(), d.Pending[t.Name])
	t.First().Dump(&d.Builder, sched.Dump{Name: d.Name, State: state, Window: dumpWindow})
}

// flags writes a transport's state as Postfix keeps it.
func (t *transport) flags() int {
	flags := 0
	if t.dead() {
		flags |= 2
	}
	if t.delay.Holds() {
		flags |= 4
	}
	return flags
}

// dumpWindow writes the counters of a destination's window.
func dumpWindow(d *sched.Destination) string {
	w := &queueOf(d).window
	success, failure, cohorts := w.Counters()
	return fmt.Sprintf("win=%d succ=%s fail=%s coh=%s", signedWindow(w), short(success), short(failure), short(cohorts))
}

// signedWindow writes a window's state as Postfix keeps it: in its size.
func signedWindow(w *window.Window) int {
	switch w.State() {
	case window.Dead:
		return 0
	case window.Suspended:
		return -1
	}
	return w.Size()
}

// short writes a number with six significant digits.
func short(v float64) string { return strconv.FormatFloat(v, 'g', 6, 64) }
