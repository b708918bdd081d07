package sched

import "github.com/posthaste-mta/posthaste/mail"

// A JobView is one job as it stands on the scheduler list of its lane.
type JobView struct {
	Message *Message
	Level   int          // on the preemption stack; 0: it has preempted no other
	Parent  mail.QueueID // the message at whose expense it goes first; 0 if there is none
	Current bool         // selection starts with it
	Blocked bool         // none of its destinations has room
	// Selected and Read are the entries that were ever selected and ever created.
	Selected, Read int
	// Available is what it has earned for others and not spent, in selected entries: as many as the
	// slot cost make a delivery slot. It is negative after a loan.
	Available int
}

// Jobs returns the first jobs of the scheduler list, at most most of them, and how many there are. Of the
// schedulers that keep no such list there are none.
func (l *Lane) Jobs(most int) (views []JobView, all int) {
	for j := range l.jobs.All() {
		if all++; all > most {
			continue
		}
		v := JobView{Message: j.message, Level: j.stack.level, Current: j == l.current, Blocked: l.blocked(j),
			Selected: j.selected, Read: j.read, Available: j.stack.available}
		if j.stack.parent != nil {
			v.Parent = j.stack.parent.message.ID
		}
		views = append(views, v)
	}
	return views, all
}

// SlotCost is how many entries of a job earn a delivery slot; below 2 there is no preemption.
func (l *Lane) SlotCost() int { return l.rules.SlotCost }
