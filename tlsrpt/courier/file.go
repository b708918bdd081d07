package courier

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

	"github.com/posthaste-mta/posthaste/smtp"
	"github.com/posthaste-mta/posthaste/tlsrpt"
)

// fileHead is the first line of the file.
const fileHead = "Posthaste TLS reports 1"

// lineMax is the maximum length of a line, in octets: that of a domain with as many policies as a
// book counts, and failures under all of them. A domain with more loses its counts at a restart.
const lineMax = 4 << 20

// A line is what the file has of one domain on one day. After the checksum of its JSON there
// is a space, and the JSON. Without sections it is a claim: a report goes to the destinations.
type line struct {
	Day      tlsrpt.Day      `json:"day"`
	Domain   string          `json:"domain"`
	Sections json.RawMessage `json:"sections,omitempty"`
	Done     []string        `json:"done,omitempty"` // destinations that have had the report
}

func checksum(data []byte) uint32 { return crc32.Checksum(data, crc32.MakeTable(crc32.Castagnoli)) }

func (l *line) encode() []byte {
	data, err := json.Marshal(l)
	if err != nil || len(data) > lineMax-16 {
		return nil
	}
	return fmt.Appendf(nil, "%08x %s\n", checksum(data), data)
}

// errLine is the error for a line that is not as encode wrote it.
var errLine = errors.New("courier: damaged line")

// decode parses a line.
func decode(text string) (l line, sections []tlsrpt.Section, err error) {
	head, data, _ := strings.Cut(text, " ")
	if head != fmt.Sprintf("%08x", checksum([]byte(data))) || json.Unmarshal([]byte(data), &l) != nil || l.Day < 0 || !smtp.ValidDomain(l.Domain) {
		return line{}, nil, errLine
	}
	if len(l.Sections) > 0 {
		if sections, err = tlsrpt.ParseSections(l.Sections); err != nil {
			return line{}, nil, fmt.Errorf("%w: %w", errLine, err)
		}
	}
	return l, sections, nil
}

// load reads the file.
func (c *Courier) load() {
	if c.cfg.File == "" {
		return
	}
	file, err := os.Open(c.cfg.File)
	if errors.Is(err, fs.ErrNotExist) {
		return
	}
	if err != nil {
		c.cfg.Logger.Warn("the counts for TLS reports of the last run cannot be read; the reports will lack them", "file", c.cfg.File, "error", err)
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
		l, sections, err := decode(in.Text())
		if err != nil {
			damaged++
			continue
		}
		c.book.Merge(l.Day, l.Domain, sections)
		if len(l.Done) > 0 {
			e := c.taskOf(taskKey{l.Day, l.Domain})
			for _, to := range l.Done {
				e.done[to] = true
			}
		}
	}
	if in.Err() != nil || damaged > 0 {
		c.cfg.Logger.Warn("some counts for TLS reports of the last run are lost; the reports will lack them", "file", c.cfg.File, "lines", damaged, "error", in.Err())
	}
}

// encode returns the file's contents. The mutex must be held.
func (c *Courier) encode() []byte {
	text := []byte(fileHead + "\n")
	for _, day := range c.book.Days() {
		for _, domain := range c.book.Domains(day) {
			sections, err := json.Marshal(c.book.Sections(day, domain))
			if err != nil { // there is nothing in it that JSON cannot express
				continue
			}
			l := line{Day: day, Domain: domain, Sections: sections}
			if e := c.tasks[taskKey{day, domain}]; e != nil {
				l.Done = e.finished()
			}
			text = append(text, l.encode()...)
		}
	}
	return text
}

// save replaces the file if there is something new. What cannot be saved is tried again.
func (c *Courier) save() {
	c.files.Lock()
	defer c.files.Unlock()
	c.mu.Lock()
	if c.cfg.File == "" || !c.changed {
		c.mu.Unlock()
		return
	}
	c.changed = false
	text := c.encode()
	c.mu.Unlock()
	if err := replace(c.cfg.File, text); err != nil {
		c.mu.Lock()
		c.changed = true
		c.mu.Unlock()
		c.cfg.Logger.Warn("the counts for TLS reports cannot be saved; a restart would lose them", "error", err)
	}
}

// claim makes it durable that a report goes to a destination.
func (c *Courier) claim(key taskKey, to string) error {
	c.files.Lock()
	defer c.files.Unlock()
	if c.cfg.File == "" {
		return nil
	}
	l := line{Day: key.day, Domain: key.domain, Done: []string{to}}
	file, err := os.OpenFile(c.cfg.File, os.O_WRONLY|os.O_APPEND, 0o600)
	if err != nil {
		return err
	}
	_, err = file.Write(l.encode())
	return errors.Join(err, file.Sync(), file.Close())
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
