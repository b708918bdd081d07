package qmgr

// Peek returns what the core holds of one destination, false if it holds
// nothing. Unlike View it takes constant time, so that a host can look at one
// window after every delivery.
func (q *Qmgr) Peek(transport, nexthop string) (QueueView, bool) {
	t := q.transports[transport]
	if t == nil {
		return QueueView{}, false
	}
	d := t.queues[nexthop]
	if d == nil {
		return QueueView{}, false
	}
	return d.view(), true
}
