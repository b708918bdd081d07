package spool

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/cockroachdb/errors/oserror"
)

// noteExt is the suffix of a note that a table is damaged.
const noteExt = ".hurt"

// notedTables returns the names of tables that were found damaged in earlier runs.
func (s *Spool) notedTables() (map[string]bool, error) {
	names, err := s.disk.List(s.path(damagedDir))
	if err != nil && !oserror.IsNotExist(err) {
		return nil, fmt.Errorf("spool: list notes of damaged tables: %w", err)
	}
	noted := make(map[string]bool)
	for _, name := range names {
		if table, ok := strings.CutSuffix(name, noteExt); ok {
			noted[table] = true
		}
	}
	return noted, nil
}

func (s *Spool) forgetTables(noted map[string]bool) error {
	for table := range noted {
		if err := s.disk.Remove(s.disk.PathJoin(s.path(damagedDir), table+noteExt)); err != nil {
			return fmt.Errorf("spool: remove the note that %s is damaged: %w", table, err)
		}
	}
	return nil
}

// hurtTables are the tables in which Pebble has found damage since the spool was opened.
type hurtTables struct {
	poke  chan struct{} // buffer of one
	mu    sync.Mutex
	files map[string]hurt
	stall *time.Timer // set while writers are blocked
}

// A hurt is the state of such a table.
type hurt uint8

const (
	hurtReported hurt = iota + 1 // by Pebble
	hurtSure                     // confirmed by a second read, and noted
)

// report records a table in which Pebble has found damage.
func (h *hurtTables) report(file string) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.files[file] != 0 {
		return
	}
	if h.files == nil {
		h.files = make(map[string]hurt)
	}
	h.files[file] = hurtReported
	select {
	case h.poke <- struct{}{}:
	default:
	}
}

func (h *hurtTables) reported() (files []string) {
	h.mu.Lock()
	defer h.mu.Unlock()
	for file, how := range h.files {
		if how == hurtReported {
			files = append(files, file)
		}
	}
	return files
}

// looked records the result of a second read of a table. A damaged one has been noted.
func (h *hurtTables) looked(file string, damaged bool) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if damaged {
		h.files[file] = hurtSure
	} else {
		delete(h.files, file)
	}
}

// noteTables rereads tables in which Pebble has found damage, and leaves a note for the
// next start about those that are indeed damaged. A note that cannot be made is left to
// the next call: without it the next start would not repair the table.
func (s *Spool) noteTables() (failed error) {
	for _, file := range s.hurt.reported() {
		problem := s.tableProblem(file, true)
		if !isWrong(problem) { // compacted meanwhile, or a single bad read
			s.hurt.looked(file, false)
			continue
		}
		f, err := s.makeNote(s.disk.PathJoin(s.path(damagedDir), s.disk.PathBase(file)+noteExt))
		if err == nil {
			err = f.Close()
		}
		if err != nil {
			failed = errors.Join(failed, fmt.Errorf("spool: record that %s is damaged: %w", file, err))
			continue
		}
		s.hurt.looked(file, true)
		s.raise(Alarm{Kind: AlarmCorrupt, Text: "a table of the store is damaged and will be repaired at the next start; restart soon, since the store cannot compact until then and may stop accepting writes",
			Err: fmt.Errorf("%s: %w", file, problem)})
	}
	return failed
}

// stalled is called when writers are blocked and when they are not any more. If a
// damaged table blocks them, that never ends, and only a restart helps.
func (s *Spool) stalled(now bool) {
	s.hurt.mu.Lock()
	defer s.hurt.mu.Unlock()
	if s.hurt.stall != nil {
		s.hurt.stall.Stop()
		s.hurt.stall = nil
	}
	if now {
		s.hurt.stall = time.AfterFunc(s.cfg.stall, s.endStall)
	}
}

func (s *Spool) endStall() {
	s.hurt.mu.Lock()
	defer s.hurt.mu.Unlock()
	if s.hurt.stall == nil {
		return
	}
	if slices.Contains(slices.Collect(maps.Values(s.hurt.files)), hurtSure) {
		s.die(fmt.Errorf("spool: writers have waited for %v because a table of the store is damaged; it will be repaired at the next start: %w", s.cfg.stall, ErrCorrupt))
	}
	s.hurt.stall.Reset(s.cfg.stall)
}
