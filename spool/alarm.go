package spool

import (
	"context"
	"fmt"
	"log/slog"
	"runtime/debug"
	"sync"
	"time"

	"github.com/posthaste-mta/posthaste/mail"
)

// An AlarmKind says what sort of trouble an Alarm is about.
type AlarmKind uint8

const (
	AlarmCorrupt AlarmKind = iota + 1 // a message was put aside, or the store found damage
	AlarmLow                          // little disk space is left
	AlarmFull                         // no mail is taken in for want of disk space
	AlarmRoom                         // there is enough space again (the end of AlarmLow and AlarmFull)
	AlarmSlow                         // a disk operation takes very long
	AlarmStall                        // writers have to wait until the store has caught up
	AlarmStore                        // the store could not do its work in the background and tries again
	AlarmFatal                        // the spool can no longer be relied on; the process ends
)

// String returns the word that logs and metrics show.
func (k AlarmKind) String() string {
	return [...]string{"", "corrupt", "low", "full", "room", "slow", "stall", "store", "fatal"}[k]
}

// An Alarm is something that somebody should look at.
type Alarm struct {
	Kind AlarmKind
	ID   mail.QueueID // the message it is about, zero if none
	Text string       // one sentence for people
	Err  error        // the cause, nil if there is none
}

// raise logs an alarm and passes it on.
func (s *Spool) raise(a Alarm) {
	level := slog.LevelError
	switch a.Kind {
	case AlarmRoom:
		level = slog.LevelInfo
	case AlarmLow, AlarmSlow, AlarmStall:
		level = slog.LevelWarn
	}
	attrs := []slog.Attr{slog.String("alarm", a.Kind.String())}
	if a.ID != 0 {
		attrs = append(attrs, slog.String("id", a.ID.String()))
	}
	if a.Err != nil {
		attrs = append(attrs, slog.String("error", a.Err.Error()))
	}
	s.cfg.Logger.LogAttrs(context.Background(), level, a.Text, attrs...)
	s.cfg.OnAlarm(a)
}

// die ends the process, for reasons that forbid returning to the caller.
func (s *Spool) die(err error) {
	err = s.wantsRoom(err)
	s.dead.Store(true)
	s.raise(Alarm{Kind: AlarmFatal, Text: "the spool's store failed and cannot go on", Err: err})
	s.cfg.Fatal(err)
	panic(err) // Fatal returned, which its contract forbids
}

// dieOfPanic is to be deferred by whoever enters the store on a goroutine whose
// panics may be recovered, such as that of a client: what panicked in
// the store holds its locks for ever, and a program that went on would hang.
func (s *Spool) dieOfPanic() {
	if bug := recover(); bug != nil {
		if s.dead.Load() {
			panic(bug) // die has been called
		}
		s.die(fmt.Errorf("spool: panic in the store: %v\n%s", bug, debug.Stack()))
	}
}

// A damper limits how often the same trouble is reported or acted upon: per
// times in every period.
type damper struct {
	per    int
	period time.Duration

	mu    sync.Mutex
	since time.Time
	n     int
}

func (d *damper) allow() bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	now := time.Now()
	if d.since.IsZero() || now.Sub(d.since) >= d.period {
		d.since, d.n = now, 0
	}
	d.n++
	return d.n <= d.per
}
