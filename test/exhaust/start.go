package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/posthaste-mta/posthaste/test/daemon"
)

// The disk is full at a start, except for a few pages: none, then startStep more for
// each further start, until one succeeds.
const (
	page      = 4 << 10
	startStep = 3
	startMost = 1000
)

// giveUpMax is the longest time that a start may take to find out that there is no room. Each write
// is tried for 5 s.
const giveUpMax = 15 * time.Second

// tryStarts starts the program on a full file system, with a queue that was killed. A
// start must either succeed, or say what is missing and end within giveUpMax; with room
// again, the next one must have all messages.
func (o options) tryStarts(ctx context.Context, d *daemon.Daemon, _ string) error {
	if err := (&load{options: o, address: d.Address}).run(ctx); err != nil {
		return err
	}
	failed, pages := 0, 0
	for ; ; pages += startStep {
		if pages > startMost {
			return fmt.Errorf("no start has succeeded with up to %d octets of room", startMost*page)
		}
		if _, err := d.Kill(); err != nil {
			return err
		}
		started, err := o.startOnFull(ctx, d, pages)
		if err != nil {
			return fmt.Errorf("start with %d octets of room: %w", pages*page, err)
		}
		if started {
			break
		}
		failed++
		if _, err := d.Start(); err != nil {
			return err
		}
		if err := o.allThere(ctx, d); err != nil {
			return fmt.Errorf("with room again, after a start with %d octets of it: %w", pages*page, err)
		}
	}
	if err := o.allThere(ctx, d); err != nil {
		return err
	}
	fmt.Printf("start: %d starts on a full file system ended and said why, one with %d octets of room succeeded; %d messages\n",
		failed, pages*page, o.clients*o.messages)
	return d.Stop()
}

// startOnFull leaves so many pages of the file system, starts the program, and gives
// back the room. It reports whether the start succeeded.
func (o options) startOnFull(ctx context.Context, d *daemon.Daemon, pages int) (started bool, err error) {
	queue := d.Queue()
	eaten, hole := filepath.Join(queue, "eaten"), filepath.Join(queue, "hole")
	if err := os.RemoveAll(filepath.Join(queue, "ballast")); err != nil { // it would be given up
		return false, err
	}
	if err := os.WriteFile(hole, make([]byte, pages*page), 0o600); err != nil {
		return false, err
	}
	if err := os.Mkdir(eaten, 0o700); err != nil {
		return false, err
	}
	if _, err := eatSpace(eaten, 0); err != nil {
		return false, err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(eaten)) }()
	if err := os.Remove(hole); err != nil {
		return false, err
	}
	before, err := d.Log()
	if err != nil {
		return false, err
	}
	if _, err := d.Start(); err != nil {
		return false, err
	}
	ctx, cancel := context.WithTimeout(ctx, giveUpMax)
	defer cancel()
	_, failure := d.Answered(ctx)
	switch {
	case failure == nil:
		return true, nil
	case d.Alive() == nil:
		return false, fmt.Errorf("it neither works nor ends: %w", failure)
	}
	after, err := d.Log()
	if err != nil {
		return false, err
	}
	if said := after[len(before):]; !strings.Contains(said, "no room in the spool") || !strings.Contains(said, queue) {
		return false, fmt.Errorf("it does not say where there is no room: %s", said)
	}
	return false, nil
}

// allThere makes sure that all messages are in the queue.
func (o options) allThere(ctx context.Context, d *daemon.Daemon) error {
	if _, err := d.Answered(ctx); err != nil {
		return err
	}
	s, err := d.Admin.Status(ctx, 0)
	if err != nil {
		return err
	}
	if got, want := s.Spool.Incoming+s.Spool.Deferred, int64(o.clients*o.messages); got != want {
		return fmt.Errorf("%d messages are in the queue, want %d", got, want)
	}
	return nil
}
