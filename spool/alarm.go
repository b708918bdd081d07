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

// An AlarmKind is the kind of an Alarm.
type AlarmKind uint8

const (
	AlarmCorrupt AlarmKind = iota + 1 // a message was moved to the corrupt area, or the store is damaged
	AlarmLow                          // disk space is low
	AlarmFull                         // new mail is refused because of too little disk space
	AlarmRoom                         // there is enough space again (ends AlarmLow and AlarmFull)
	AlarmSlow                         // a disk operation takes very long
	AlarmStall                        // writers wait for the store to catch up
	AlarmStore                        // background work of the store failed and is retried
	AlarmFatal                        // the spool can no longer be relied on; the process ends
)

// String returns the name used in logs and metrics.
func (k AlarmKind) String() string {
	return [...]string{"", "corrupt", "low", "full", "room", "slow", "stall", "store", "fatal"}[k]
}

// An Alarm is a condition that needs an operator's attention.
type Alarm struct {
	Kind AlarmKind
	ID   mail.QueueID // the message it is about, zero if none
	Text string       // one sentence for operators
	Err  error        // the cause, nil if there is none
}

// raise logs an alarm and passes it to Config.OnAlarm.
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

// die ends the process, for errors after which the caller must not continue.
func (s *Spool) die(err error) {
	err = s.wantsRoom(err)
	s.dead.Store(true)
	s.raise(Alarm{Kind: AlarmFatal, Text: "the spool's store failed and cannot continue", Err: err})
	s.cfg.Fatal(err)
	panic(err) // Fatal returned, which its contract forbids
}

// dieOfPanic must be deferred before a call of the store on a goroutine whose
// panics may be recovered, such as a client's: after a panic the store holds its
// locks forever, and a program that continued would hang.
func (s *Spool) dieOfPanic() {
	if bug := recover(); bug != nil {
		if s.dead.Load() {
			panic(bug) // die has been called
		}
		s.die(fmt.Errorf("spool: panic in the store: %v\n%s", bug, debug.Stack()))
	}
}

// A damper limits how often the same problem is reported or acted upon: per times
// in every period.
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
