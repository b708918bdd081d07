package record

import (
	"errors"
	"fmt"
	"io"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"github.com/posthaste-mta/posthaste/mail"
	"github.com/posthaste-mta/posthaste/qmgr"
	"github.com/posthaste-mta/posthaste/trace"
)

// Config is how a trace is recorded.
type Config struct {
	// By is the program's name and version, for people.
	By string
	// Limit is the number of octets the file may have; the trace ends before it has
	// more. 0 means no limit. Set it wherever the disk is not monitored.
	Limit int64
	// Log gets a line if the trace ends early; nil discards it.
	Log *slog.Logger
}

const (
	// flushEvery is how old a line becomes in memory: what a killed process has
	// not written is lost.
	flushEvery = time.Second
	// flushAt is the number of octets that are gathered before that.
	flushAt = 256 << 10
	// gatheredMax is the number of octets that wait for a disk that is slow, a second of the
	// fastest daemon or several, before the trace is given up.
	gatheredMax = 64 << 20
	// spareMax is the largest buffer that is kept for the next lines.
	spareMax = 4 << 20
	// endPatience is the time for which the end of a trace waits for the disk.
	endPatience = 10 * time.Second
)

// ErrUnwritable is what Begin fails with.
var ErrUnwritable = errors.New("the trace cannot be written")

// Errors that end a trace.
var (
	ErrLimit = errors.New("the file has reached its largest size")
	ErrSlow  = errors.New("the disk is too slow")
)

// A Recorder writes one trace to one file. It is a driver.Tracer: Begin, Event,
// Actions and End are for one goroutine.
type Recorder struct {
	open func() (io.WriteCloser, error)
	cfg  Config
	log  *slog.Logger

	to io.WriteCloser // from Begin on the writer's

	// Below: Begin's goroutine alone.
	lines *trace.Encoder // nil before Begin
	line  []byte         // of the call that is under way
	size  int64          // octets of the file and in memory

	over    atomic.Bool // nothing is taken any more
	wakeup  chan struct{}
	written chan struct{} // closed when the writer has ended

	mu       sync.Mutex // guards what is below
	gathered []byte
	ended    bool
}

// New returns a recorder whose Begin opens its file; it closes it at the end.
func New(open func() (io.WriteCloser, error), cfg Config) *Recorder {
	if cfg.Log == nil {
		cfg.Log = slog.New(slog.DiscardHandler)
	}
	return &Recorder{open: open, cfg: cfg, log: cfg.Log, wakeup: make(chan struct{}, 1), written: make(chan struct{})}
}

// Begin opens the file and writes the head, so that a file that cannot be written
// is known before anything else begins.
func (r *Recorder) Begin(now mail.Instant, seed uint64, cfg qmgr.Config) (err error) {
	if r.to, err = r.open(); err != nil {
		return fmt.Errorf("%w: %w", ErrUnwritable, err)
	}
	head := trace.Head{By: r.cfg.By, Seed: seed, Epoch: mail.Instant(now.Seconds() * int64(time.Second)), Config: cfg}
	text := head.Append(nil)
	if _, err := r.to.Write(text); err != nil {
		return fmt.Errorf("%w: %w", ErrUnwritable, errors.Join(err, r.to.Close()))
	}
	r.lines, r.size = head.Format().Encoder(), int64(len(text))
	go r.write()
	return nil
}

// Event records an event.
func (r *Recorder) Event(now mail.Instant, ev qmgr.Event) {
	if r.over.Load() {
		return
	}
	r.line = append(r.lines.AppendEvent(r.line[:0], now, ev), '\n')
	r.gather()
}

// Actions records what a Step has returned.
func (r *Recorder) Actions(now mail.Instant, actions []qmgr.Action) {
	if r.over.Load() || len(actions) == 0 {
		return
	}
	r.line = r.line[:0]
	for _, a := range actions {
		r.line = append(r.lines.AppendAction(r.line, now, a), '\n')
	}
	r.gather()
}

// End writes what is left and closes the file. A trace that is not clean lacks
// the last line. It waits for the disk for at most 10 s.
func (r *Recorder) End(clean bool) {
	if r.lines == nil {
		return
	}
	r.line = r.line[:0]
	if clean && !r.over.Load() {
		r.line = trace.AppendEnd(r.line)
	}
	r.mu.Lock()
	r.gathered = append(r.gathered, r.line...)
	r.ended = true
	r.mu.Unlock()
	r.wake()
	select {
	case <-r.written:
	case <-time.After(endPatience):
		r.giveUp(ErrSlow)
	}
}

// gather hands a line over, unless there is no room for it.
func (r *Recorder) gather() {
	if r.cfg.Limit > 0 && r.size+int64(len(r.line)) > r.cfg.Limit {
		r.giveUp(ErrLimit)
		return
	}
	r.size += int64(len(r.line))
	r.mu.Lock()
	r.gathered = append(r.gathered, r.line...)
	n := len(r.gathered)
	r.mu.Unlock()
	switch {
	case n > gatheredMax:
		r.giveUp(ErrSlow)
	case n >= flushAt:
		r.wake()
	}
}

func (r *Recorder) wake() {
	select {
	case r.wakeup <- struct{}{}:
	default:
	}
}

// giveUp ends the trace before its time, and says so once.
func (r *Recorder) giveUp(why error) {
	if r.over.CompareAndSwap(false, true) {
		r.log.Error("the trace ends here", "error", why)
	}
}

// write is the writer's goroutine.
func (r *Recorder) write() {
	defer close(r.written)
	tick := time.NewTicker(flushEvery)
	defer tick.Stop()
	var spare []byte
	for ended := false; !ended; {
		select {
		case <-r.wakeup:
		case <-tick.C:
		}
		r.mu.Lock()
		text := r.gathered
		r.gathered, ended = spare[:0], r.ended
		r.mu.Unlock()
		if spare = text; cap(spare) > spareMax {
			spare = nil
		}
		if len(text) == 0 {
			continue
		}
		if _, err := r.to.Write(text); err != nil {
			r.giveUp(err)
			break
		}
	}
	if err := r.to.Close(); err != nil {
		r.giveUp(err)
	}
}
