package acme

import (
	"context"
	"log/slog"
	"os"
	"time"
)

// A Keeper sees to it that there is a certificate. Its methods may be called by any goroutine.
type Keeper struct {
	cfg     Config
	log     *slog.Logger
	renewed func() // is called after the certificate's file was replaced

	// Tests have others.
	now   func() time.Time
	first time.Duration

	wake chan struct{} // an attempt is wanted now
}

// New returns a keeper that does nothing until it is run. Renewed is called, if it is not nil, by
// Run after each new certificate.
func New(cfg Config, log *slog.Logger, renewed func()) *Keeper {
	return &Keeper{cfg: cfg, log: log, renewed: renewed, now: time.Now, first: firstPause, wake: make(chan struct{}, 1)}
}

// Hurry makes the next attempt now instead of at the end of the pause, for example after an operator
// has fixed the cause of a failure.
func (k *Keeper) Hurry() {
	select {
	case k.wake <- struct{}{}:
	default:
	}
}

// Run obtains and renews the certificate until ctx ends.
func (k *Keeper) Run(ctx context.Context) {
	pause := time.Duration(0) // after a failure
	for {
		wait := max(readState(Path(k.cfg.Dir)).due(&k.cfg, k.now()).Sub(k.now()), pause)
		if wait > 0 && !k.sleep(ctx, wait) {
			return
		}
		if readState(Path(k.cfg.Dir)).due(&k.cfg, k.now()).After(k.now()) {
			pause = 0
			continue // it was hurried, and there is nothing to do
		}
		err := k.attempt(ctx)
		switch {
		case ctx.Err() != nil:
			return
		case err == nil:
			pause = 0
			end := readState(Path(k.cfg.Dir)).end
			k.log.Info("a certificate was obtained", "names", k.cfg.Names, "until", end.UTC().Format(time.RFC3339), "authority", k.cfg.Directory)
			if k.renewed != nil {
				k.renewed()
			}
		default:
			pause = min(max(2*pause, k.first), lastPause)
			k.log.Error("no certificate was obtained", "names", k.cfg.Names, "error", err, "next", k.now().Add(pause).UTC().Format(time.RFC3339))
		}
	}
}

// longestSleep is after which time the clock is looked at again, should the machine have slept.
const longestSleep = time.Hour

// sleep waits until the time is over or Hurry is called. It returns false if ctx has ended.
func (k *Keeper) sleep(ctx context.Context, wait time.Duration) bool {
	for end := deadline(k.now(), wait); k.now().Before(end); {
		t := time.NewTimer(min(end.Sub(k.now()), longestSleep))
		select {
		case <-t.C:
		case <-k.wake:
			t.Stop()
			return true
		case <-ctx.Done():
			t.Stop()
			return false
		}
	}
	return true
}

// deadline is an instant of the clock on the wall: the other one of this machine stands still
// while it sleeps, and certificates grow older.
func deadline(now time.Time, wait time.Duration) time.Time { return now.Round(0).Add(wait) }

func (k *Keeper) attempt(ctx context.Context) error {
	if err := os.MkdirAll(k.cfg.Dir, 0o700); err != nil {
		return err
	}
	return k.obtain(ctx)
}
