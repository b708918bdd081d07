package sched

// Not all recipients of all messages are in core. Each lane has a pool of
// recipient slots, an equal part of its transport's if several lanes have unread
// recipients (flows/pools.go); a job that holds slots allows its message to have as many
// recipients in core, whichever of its jobs they fall to. Every message has
// Config.RecipientMinimum of its own on top.
//
// Slots are handed out along the list by time: the first job whose message has
// unread recipients gets all that are free, keeps them until its message is
// read, and then passes on what it does not need. So the jobs near the head of
// the list, which are scheduled first, are those whose size is known best. A job
// that preempts another before its message is read gets half of what is left of
// an extra pool, so that it need not go in steps of the minimum.
//
// Always: the unused slots of the pool and the limits of all jobs add up to
// Rules.RecipientPool (CheckSlots asserts it); the limit of a message is the minimum
// and the limits of its jobs (Message.Check). How many recipients that makes in core
// is bounded by package intake.

// A recipientPool is a lane's part in this.
type recipientPool struct {
	unused int  // negative when extra slots are lent
	unread *Job // the first by time that should own the free slots; nil if none
}

// recipientSlots is a job's part in this.
type recipientSlots struct {
	count int // recipients of the job in core
	limit int // slots held
}

// enlist gives a job that has just been listed the free slots. If it comes before
// the job that owned them so far, that one gives up what it does not use.
func (p *recipientPool) enlist(l *Lane, j *Job, first bool) {
	if old := p.unread; first || old == nil {
		p.unread = j
		if old != nil {
			p.moveSlots(l, old)
		}
	}
	if p.unused > 0 {
		p.give(j)
	}
}

// give hands all free slots to a job.
func (p *recipientPool) give(j *Job) {
	j.slots.limit += p.unused
	j.message.Limit += p.unused
	p.unused = 0
	if j.message.More {
		j.message.Touch()
	}
}

// moveSlots takes back the slots of a job that neither it nor its message uses,
// and gives what is free then to the first job whose message has unread
// recipients.
func (p *recipientPool) moveSlots(l *Lane, j *Job) {
	next := p.unread
	if next == j {
		next = l.find.nextUnread(j)
		p.unread = next
	}
	m := j.message
	spare := min(j.slots.limit-j.slots.count, m.Limit-m.InCore-m.Reserved)
	if spare <= 0 {
		return
	}
	j.slots.limit -= spare
	m.Limit -= spare
	p.unused += spare
	if m.More {
		m.Touch()
	}
	if next != nil && p.unused > 0 {
		p.give(next)
	}
}

// nextUnread returns the first job behind another, by time, whose message has
// unread recipients.
func (quick) nextUnread(j *Job) *Job {
	return j.lane.unread.find(func(k *Job) bool { return older(j, k) }).element()
}

// grantExtra gives a job that has preempted another half of the extra slots, if
// its message is not read. There are none where a reload has made one of the pools smaller
// than what is lent.
func (p *recipientPool) grantExtra(l *Lane, j *Job) {
	if !j.message.More {
		return
	}
	extra := max((l.rules.ExtraRecipients+p.unused+1)/2, 0)
	j.slots.limit += extra
	j.message.Limit += extra
	p.unused -= extra
	j.message.Touch()
}

// releaseSlots gives back the slots that are not needed after an entry of j has
// ended.
func (j *Job) releaseSlots() {
	for _, s := range j.message.jobs {
		if s != j && s.slots.count < s.slots.limit && (!s.listed || !j.message.More) {
			s.lane.pool.moveSlots(s.lane, s)
		}
	}
	if !j.message.More {
		j.lane.pool.moveSlots(j.lane, j)
	}
}
