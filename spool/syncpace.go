package spool

import (
	"sync/atomic"
	"time"
)

// A syncPace decides how long the log waits after one sync before the next one. When many
// clients send at the same time, the commits that come within a fifth of a millisecond
// share a sync, which costs a third of the processor time of a small message. With few
// clients such a wait would only delay them: a single client would take twice the time.
//
// The two conditions are both needed. Drafts may be open for as long as their clients
// are silent, so many of them do not mean that there are many commits; and on a fast
// disk a single client makes many commits, one after the other.
type syncPace struct {
	interval time.Duration // Config.SyncInterval; not positive: never wait
	start    time.Time
	drafts   atomic.Int32 // open
	// commits are when the last drafts were committed, counted from start. The latest is
	// at index n-1 modulo the length.
	commits [paceCommits]atomic.Int64
	n       atomic.Uint64
}

// There is a crowd as long as paceDrafts are open and the last paceCommits took no longer
// than paceSpan. Below 12 clients the pauses cost more of the rate than they save; 16
// commits in 8 ms are 2,000 messages per second.
const (
	paceDrafts  = 12
	paceCommits = 16
	paceSpan    = 8 * time.Millisecond
)

func (p *syncPace) begin(interval time.Duration) { p.interval, p.start = interval, time.Now() }

// opened notes that a draft was opened.
func (p *syncPace) opened() { p.drafts.Add(1) }

// ended notes that a draft was aborted or committed.
func (p *syncPace) ended() { p.drafts.Add(-1) }

// committed notes that a draft becomes durable with the next sync.
func (p *syncPace) committed() { p.committedAt(time.Since(p.start)) }

func (p *syncPace) committedAt(now time.Duration) {
	p.commits[(p.n.Add(1)-1)%paceCommits].Store(int64(now))
}

// pause returns for how long to wait before the next sync.
func (p *syncPace) pause() time.Duration { return p.pauseAt(time.Since(p.start)) }

func (p *syncPace) pauseAt(now time.Duration) time.Duration {
	n := p.n.Load()
	if p.interval <= 0 || p.drafts.Load() < paceDrafts || n < paceCommits {
		return 0
	}
	oldest := time.Duration(p.commits[n%paceCommits].Load())
	if now-oldest > paceSpan {
		return 0
	}
	return p.interval
}
