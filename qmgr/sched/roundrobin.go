package sched

// Round robin is how Postfix's older queue manager selects: destinations take
// turns, whatever messages their entries belong to. There are no lists of jobs,
// so nothing is preempted and nothing blocked; jobs only group entries. It also
// reads recipients in another way, without pools: that follows the scheduler of
// the default transport, since what is read of a message is not known to be for
// one transport or another.

// nextInTurn returns the oldest entry of the next destination in turn that has
// room.
func (l *Lane) nextInTurn() *Entry {
	d := l.find.nextQueue(l)
	if d == nil {
		return nil
	}
	l.order.RotateAfter(&d.inOrder)
	return d.Todo.Front()
}

func (quick) nextQueue(l *Lane) *Destination {
	if l.servable.count == 0 {
		return nil
	}
	return nextInRing(&l.servable, l.order.Front().turn, (*Destination).ringNumber)
}

// openEntry returns the entry that one more recipient of a peer may join if it
// has room: the last one that waits, or in round robin only the one that the
// recipient before it has just joined.
func (l *Lane) openEntry(p *Peer, joined *Entry) *Entry {
	if l.Scheduler == RoundRobin {
		return joined
	}
	return p.Todo.Back()
}
