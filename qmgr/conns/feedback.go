package conns

import (
	"time"

	"github.com/posthaste-mta/posthaste/mail"
)

// A Feedback is what an event of a connection means for the window of its site's queue.
type Feedback uint8

const (
	feedbackNone     Feedback = iota // nothing: the connection ended as connections do, or its transaction is at fault
	feedbackHost                     // nothing: the host alone is at fault, and others of its tier can do its work
	FeedbackNegative                 // fewer connections
	FeedbackLoop                     // the host is this one, and none is better: mail for the site comes back here
	FeedbackAlive                    // a host does its work, and that is no reason to open more connections
	FeedbackPositive                 // more connections
)

// isSlow reports whether the host of a connection takes several times as long over a
// message as it can. It has more to do than it can handle, or wants to be left alone: its
// success is no reason to open more connections to it.
func (p *Pool) isSlow(c *Conn, now mail.Instant) bool { return p.db.View(c.host.key, now).Slow }

// feedbackOf returns the feedback of a failure that others can make good. A server that
// says that it is too busy means all of us.
func feedbackOf(why mail.Reply) Feedback {
	if why.Code == 421 {
		return FeedbackNegative
	}
	return feedbackHost
}

// judged notes that the host has given a verdict on an entry. The feedback is positive
// at most once each second and round trip for each connection, or a pipelined one would
// outweigh all others.
func (p *Pool) judged(c *Conn, l Load, took time.Duration, now mail.Instant) Feedback {
	p.connWorks(c)
	p.hostJudged(c.host)
	if l.Callout {
		c.callouts++
		c.site.calloutPause = pause{}
		return feedbackNone
	}
	c.service = smoothed(c.service, took)
	if c.mails() > 1 && now < c.positiveAt.Add(max(time.Second, c.rtt)) {
		return FeedbackAlive
	}
	c.positiveAt = now
	p.learn(c, l, took, now)
	if p.isSlow(c, now) {
		return FeedbackAlive
	}
	return FeedbackPositive
}

// small is the cost of a message with one recipient and at most 8 KiB. Only these
// are compared with each other: a newsletter takes longer than a letter on a server
// that is quite well.
const small = unit + unit/8

// learn has destdb remember what transactions on the connection are like.
func (p *Pool) learn(c *Conn, l Load, took time.Duration, now mail.Instant) {
	key := c.host.key
	if c.mails() == 1 {
		p.db.Succeeded(key, now) // it takes mail, and not only connections
		p.db.ObserveRTT(key, c.rtt, now)
	}
	p.db.Supports(key, c.level, now)
	if l.Cost <= small {
		p.db.ObserveService(key, max(took-c.rtt, 0), now)
	}
}

// smoothed returns the exponentially weighted mean of durations.
func smoothed(mean, next time.Duration) time.Duration {
	if mean == 0 {
		return next
	}
	return mean + (next-mean)/4
}
