package mtasts

import (
	"encoding/json"
	"errors"
	"time"

	"github.com/posthaste-mta/posthaste/internal/linefile"
)

// format is that of the file; a line holds a policy with what JSON adds to it.
var format = linefile.Format{Head: "Posthaste MTA-STS policies 1", LineMax: 4 * SizeMax}

// A line is one policy in the file.
type line struct {
	Domain  string   `json:"domain"`
	ID      string   `json:"id"`
	Mode    string   `json:"mode"`
	MX      []string `json:"mx"`
	MaxAge  int64    `json:"max_age"` // seconds
	Fetched int64    `json:"fetched"` // seconds since 1970
	Used    int64    `json:"used"`    // the same
}

// encode returns the file's contents: what is in force, the least recently used first.
func (c *cache) encode(now time.Time) []byte {
	text := format.New()
	c.all(func(e *entry) {
		if !e.inForce(now) {
			return
		}
		l := line{e.domain, e.policy.ID, e.policy.Mode.String(), e.policy.MX, int64(e.policy.MaxAge / time.Second), e.fetched.Unix(), e.used.Unix()}
		text = format.Append(text, l)
	})
	return text
}

// errLine is the error for a line that is not as encode wrote it.
var errLine = errors.New("mtasts: damaged line")

// decode parses the JSON of a line. A time in the future, as after the clock was set back, counts as
// now.
func decode(data []byte, now time.Time) (*entry, error) {
	var l line
	if err := json.Unmarshal(data, &l); err != nil {
		return nil, errLine
	}
	// What is written in a file can also be published, so it must satisfy the same rules.
	p := Policy{ID: l.ID, MX: l.MX, MaxAge: time.Duration(l.MaxAge) * time.Second}
	err := p.set("mode", l.Mode)
	if len(p.MX) == 0 && p.Mode != None {
		err = errLine
	}
	for _, mx := range p.MX {
		if !isPattern(mx) {
			err = errLine
		}
	}
	name, ok := canonical(l.Domain)
	if err != nil || !ok || name != l.Domain || !isID(l.ID) || l.MaxAge < 0 || p.MaxAge > MaxAgeMax || l.MaxAge > int64(MaxAgeMax/time.Second) {
		return nil, errLine
	}
	e := &entry{domain: name, policy: p, fetched: time.Unix(l.Fetched, 0), used: time.Unix(l.Used, 0)}
	if e.fetched.After(now) {
		e.fetched = now
	}
	if e.used.After(now) {
		e.used = now
	}
	return e, nil
}

// load reads the file. A policy that cannot be read is found anew with the next mail.
func (s *Store) load(now time.Time) {
	if s.cfg.File == "" {
		return
	}
	damaged, err := format.Load(s.cfg.File, func(data []byte) error {
		e, err := decode(data, now)
		if err == nil && e.inForce(now) {
			s.entries.put(e)
		}
		return err
	})
	if err != nil || damaged > 0 {
		s.cfg.Logger.Warn("some MTA-STS policies of the last run are lost; they will be found anew", "file", s.cfg.File, "lines", damaged, "error", err)
	}
}

// save replaces the file if there is something new. What cannot be saved is tried
// again at the next time.
func (s *Store) save() {
	s.mu.Lock()
	if s.cfg.File == "" || !s.changed {
		s.mu.Unlock()
		return
	}
	s.changed = false
	text := s.entries.encode(time.Now())
	s.mu.Unlock()
	if err := s.write(s.cfg.File, text); err != nil {
		s.mu.Lock()
		s.changed = true
		s.mu.Unlock()
		s.cfg.Logger.Warn("MTA-STS policies cannot be saved; after a restart they would have to be found anew", "error", err)
	}
}
