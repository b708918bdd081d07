package courier

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"

	"github.com/posthaste-mta/posthaste/internal/atomicfile"
	"github.com/posthaste-mta/posthaste/internal/linefile"
	"github.com/posthaste-mta/posthaste/smtp"
	"github.com/posthaste-mta/posthaste/tlsrpt"
)

// format is that of the file. A line is long enough for a domain with as many policies as a book
// counts, and failures under all of them. A domain with more loses its counts at a restart.
var format = linefile.Format{Head: "Posthaste TLS reports 1", LineMax: 4 << 20}

// A line has the counts of one domain on one day, or without sections a claim: a
// report goes to the destinations.
type line struct {
	Day      tlsrpt.Day      `json:"day"`
	Domain   string          `json:"domain"`
	Sections json.RawMessage `json:"sections,omitempty"`
	Done     []string        `json:"done,omitempty"` // destinations that have had the report
}

// errLine is the error for a line that is not as save or claim wrote it.
var errLine = errors.New("courier: damaged line")

// decode parses the JSON of a line.
func decode(data []byte) (l line, sections []tlsrpt.Section, err error) {
	if json.Unmarshal(data, &l) != nil || l.Day < 0 || !smtp.ValidDomain(l.Domain) {
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
	damaged, err := format.Load(c.cfg.File, func(data []byte) error {
		l, sections, err := decode(data)
		if err != nil {
			return err
		}
		c.book.Merge(l.Day, l.Domain, sections)
		if len(l.Done) > 0 {
			e := c.taskOf(taskKey{l.Day, l.Domain})
			for _, to := range l.Done {
				e.to[to] = sent
			}
		}
		return nil
	})
	if err != nil || damaged > 0 {
		c.cfg.Logger.Warn("some counts for TLS reports of the last run are lost; the reports will lack them", "file", c.cfg.File, "lines", damaged, "error", err)
	}
}

// encode returns the file's contents. The mutex must be held.
func (c *Courier) encode() []byte {
	text := format.New()
	for _, day := range c.book.Days() {
		for _, domain := range c.book.Domains(day) {
			sections, err := json.Marshal(c.book.Sections(day, domain))
			if err != nil { // there is nothing in it that JSON cannot express
				continue
			}
			l := line{Day: day, Domain: domain, Sections: sections}
			if e := c.tasks[taskKey{day, domain}]; e != nil {
				l.Done = e.taken()
			}
			text = format.Append(text, l)
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
	if err := atomicfile.Replace(c.cfg.File, text, nil); err != nil {
		c.mu.Lock()
		c.changed = true
		c.mu.Unlock()
		c.cfg.Logger.Warn("the counts for TLS reports cannot be saved; a restart would lose them", "error", err)
	}
}

// claim makes it durable that a report goes to a destination. The file may be replaced while that is under way:
// the claim is in what replaces it, too.
func (c *Courier) claim(key taskKey, to string) error {
	c.files.Lock()
	defer c.files.Unlock()
	c.advance(key, to, claimed)
	if c.cfg.File == "" {
		return nil
	}
	l := line{Day: key.day, Domain: key.domain, Done: []string{to}}
	file, err := os.OpenFile(c.cfg.File, os.O_WRONLY|os.O_APPEND, 0o600)
	if err != nil {
		return err
	}
	_, err = file.Write(format.Append(nil, l))
	return errors.Join(err, file.Sync(), file.Close())
}
