package mtasts

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"hash/crc32"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"time"
)

// fileHead is the first line of the file.
const fileHead = "Posthaste MTA-STS policies 1"

// A line is one policy in the file. After the checksum of its JSON there is a space,
// and the JSON.
type line struct {
	Domain  string   `json:"domain"`
	ID      string   `json:"id"`
	Mode    string   `json:"mode"`
	MX      []string `json:"mx"`
	MaxAge  int64    `json:"max_age"` // seconds
	Fetched int64    `json:"fetched"` // seconds since 1970
	Used    int64    `json:"used"`    // the same
}

func checksum(data []byte) uint32 { return crc32.Checksum(data, crc32.MakeTable(crc32.Castagnoli)) }

// encode returns the file's contents: what is in force, the least recently used first.
func (c *cache) encode(now time.Time) []byte {
	text := []byte(fileHead + "\n")
	c.all(func(e *entry) {
		if !e.inForce(now) {
			return
		}
		l := line{e.domain, e.policy.ID, e.policy.Mode.String(), e.policy.MX, int64(e.policy.MaxAge / time.Second), e.fetched.Unix(), e.used.Unix()}
		data, err := json.Marshal(l)
		if err != nil { // there is nothing in it that JSON cannot express
			return
		}
		text = fmt.Appendf(text, "%08x %s\n", checksum(data), data)
	})
	return text
}

// errLine is the error for a line that is not as encode wrote it.
var errLine = errors.New("mtasts: damaged line")

// decode parses a line. A time in the future, as after the clock was set back, counts as
// now.
func decode(text string, now time.Time) (*entry, error) {
	head, data, _ := strings.Cut(text, " ")
	if head != fmt.Sprintf("%08x", checksum([]byte(data))) {
		return nil, errLine
	}
	var l line
	if err := json.Unmarshal([]byte(data), &l); err != nil {
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

// lineMax is the maximum length of a line: a policy with what JSON adds to it.
const lineMax = 4 * SizeMax

// load reads the file. A policy that cannot be read is found anew with the next mail.
func (s *Store) load(now time.Time) {
	if s.cfg.File == "" {
		return
	}
	file, err := os.Open(s.cfg.File)
	if errors.Is(err, fs.ErrNotExist) {
		return
	}
	if err != nil {
		s.cfg.Logger.Warn("MTA-STS policies of the last run cannot be read; they will be found anew", "file", s.cfg.File, "error", err)
		return
	}
	defer file.Close()
	in := bufio.NewScanner(file)
	in.Buffer(nil, lineMax)
	damaged := 0
	if !in.Scan() || in.Text() != fileHead {
		damaged++
	}
	for in.Scan() {
		e, err := decode(in.Text(), now)
		switch {
		case err != nil:
			damaged++
		case e.inForce(now):
			s.entries.put(e)
		}
	}
	if in.Err() != nil || damaged > 0 {
		s.cfg.Logger.Warn("some MTA-STS policies of the last run are lost; they will be found anew", "file", s.cfg.File, "lines", damaged, "error", in.Err())
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

// replace replaces a file so that either its old or its new contents survive a crash.
func replace(path string, text []byte) error {
	fresh := path + ".new"
	file, err := os.OpenFile(fresh, os.O_WRONLY|os.O_CREATE|os.O_TRUNC, 0o600)
	if err != nil {
		return err
	}
	_, err = file.Write(text)
	if err = errors.Join(err, file.Sync(), file.Close()); err == nil {
		err = os.Rename(fresh, path)
	}
	if err != nil {
		return errors.Join(err, os.Remove(fresh))
	}
	dir, err := os.Open(filepath.Dir(path))
	if err != nil {
		return err
	}
	return errors.Join(dir.Sync(), dir.Close())
}
