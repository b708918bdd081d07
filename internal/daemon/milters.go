package daemon

import (
	"context"
	"errors"
	"io/fs"
	"log/slog"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"

	"github.com/posthaste-mta/posthaste/admin"
	"github.com/posthaste-mta/posthaste/config"
	"github.com/posthaste-mta/posthaste/inbound"
	"github.com/posthaste-mta/posthaste/internal/daemon/metrics"
	"github.com/posthaste-mta/posthaste/milter"
)

// A milterSet is the milters in force.
type milterSet struct {
	known map[milter.Config]*milter.Milter
	list  atomic.Pointer[[]*milter.Milter] // the same, by name
}

// install puts milters in force.
func (s *milterSet) install(known map[milter.Config]*milter.Milter) {
	list := slices.SortedFunc(maps.Values(known), func(a, b *milter.Milter) int { return strings.Compare(a.Name(), b.Name()) })
	s.known = known
	s.list.Store(&list)
}

// status returns what they have done.
func (s *milterSet) status() (all []admin.MilterStatus) {
	list := s.list.Load()
	if list == nil {
		return nil
	}
	for _, m := range *list {
		c := m.Snapshot()
		all = append(all, admin.MilterStatus{Name: m.Name(), Connections: c.Connections, Messages: c.Messages, Refused: c.Refused,
			Deferred: c.Deferred, Discarded: c.Discarded, Held: c.Held, Changed: c.Changed, Failures: c.Failures})
	}
	return all
}

// facts returns the same for metrics.
func (s *milterSet) facts() (all []metrics.Milter) {
	list := s.list.Load()
	if list == nil {
		return nil
	}
	for _, m := range *list {
		all = append(all, metrics.Milter{Name: m.Name(), Counters: m.Snapshot()})
	}
	return all
}

// intakeStatus returns what clients have brought.
func (d *Daemon) intakeStatus() admin.IntakeStatus {
	c := d.inbound.Snapshot()
	s := admin.IntakeStatus{Open: c.Open, Sessions: c.Connections, Refused: c.Refused, Shed: c.Shed, Timeouts: c.Timeouts, Early: c.Early,
		ProxyFailed: c.ProxyFailed, Messages: c.Messages, Recipients: c.Recipients, Octets: c.Octets, Refusals: map[string]int64{},
		TLS: c.TLS, TLSFailed: c.TLSFailed, TLSRefused: c.TLSRefused, Logins: c.Logins, LoginFailed: c.LoginFailed, LoginLater: c.LoginLater,
		Failures: c.Failures, Panics: c.Panics, Milters: d.milters.status()}
	for reason, n := range c.Refusals {
		if n > 0 {
			s.Refusals[inbound.RefusalReason(reason).String()] = n
		}
	}
	return s
}

// host returns the functions of this program that milters need. Contents that are too large for memory are written to
// files without names in a directory of their own, on the disk whose room the spool watches.
func (*milterSet) host(d *Daemon, cfg *config.Config) *milter.Host {
	if len(cfg.Milters) == 0 {
		return nil
	}
	dir := filepath.Join(cfg.QueueDirectory, "milter")
	var err error
	if d.inbound == nil {
		err = clearDirectory(dir)
	} else if err = os.Mkdir(dir, 0o700); errors.Is(err, fs.ErrExist) {
		err = nil // a reload must not remove what has lost its name a moment later
	}
	if err != nil {
		d.log.Error("the directory for contents that milters look at cannot be used; large messages are refused for now", "directory", dir, "error", err)
	}
	return &milter.Host{Hostname: cfg.Hostname, Version: "Posthaste " + d.options.Version, Scratch: dir, Room: func(octets int64) error { return intakeError(d.spool.Room(octets)) },
		Note: func(level slog.Level, event, client, reason string, attributes ...any) {
			if milter.Fate(event) {
				d.log.Log(context.Background(), level, event, append([]any{"client", client}, attributes...)...)
				return
			}
			d.inbound.NoteMilter(level, event, client, reason, attributes...)
		}}
}

// clearDirectory makes a directory, and removes files that have kept their names because the machine
// failed before they could lose them.
func clearDirectory(dir string) error {
	err := os.Mkdir(dir, 0o700)
	if !errors.Is(err, fs.ErrExist) {
		return err
	}
	left, err := filepath.Glob(filepath.Join(dir, "posthaste-*"))
	for _, file := range left {
		err = errors.Join(err, os.Remove(file))
	}
	return err
}
