package main

import (
	"bufio"
	"bytes"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"

	"github.com/posthaste-mta/posthaste/mail"
	"github.com/posthaste-mta/posthaste/qmgr"
)

// sayings are what the daemon's log says of the letters of some lanes.
type sayings struct {
	counts map[string]sayingCounts // by the domain of the lane
	// doubts are how often the daemon could not know of a recipient's letter
	// whether it was taken: so often it may come again.
	doubts map[mail.Address]int
	// unjust are failures for another reason than that the server has refused the
	// letter: something that went before has made it refuse.
	unjust complaints
}

func newSayings(lanes []*lane) *sayings {
	s := &sayings{counts: make(map[string]sayingCounts), doubts: make(map[mail.Address]int)}
	for _, l := range lanes {
		s.counts[l.domain()] = make(sayingCounts)
	}
	return s
}

// sayingCounts are how often letters were refused, by stage, put off for another
// reason, or left in doubt.
type sayingCounts map[string]int

const (
	countSuspended = "suspended"
	countOther     = "other"
	countDoubt     = "doubt"
)

func (c sayingCounts) String() string {
	var words []string
	for _, stage := range []string{stageMail, stageRcpt, stageData, stageEnd} {
		words = append(words, fmt.Sprintf("%s %d", stage, c[stage]))
	}
	return fmt.Sprintf("recipients refused at %s; put off untried %d, for other reasons %d, in doubt %d", strings.Join(words, ", "),
		c[countSuspended], c[countOther], c[countDoubt])
}

func (t *trial) log() string { return filepath.Join(t.dir, "posthaste.out") }

// logSize is where the daemon's log ends now.
func (t *trial) logSize() int64 {
	info, err := os.Stat(t.log())
	if err != nil {
		return 0
	}
	return info.Size()
}

// readRefusals reads the daemon's log from an offset on.
func (t *trial) readRefusals(from int64, lanes []*lane) (*sayings, error) {
	file, err := os.Open(t.log())
	if err != nil {
		return nil, err
	}
	defer file.Close()
	if _, err := file.Seek(from, io.SeekStart); err != nil {
		return nil, err
	}
	said := newSayings(lanes)
	for lines := bufio.NewReader(file); ; {
		line, err := lines.ReadBytes('\n')
		if err == io.EOF {
			return said, nil
		}
		if err != nil {
			return nil, err
		}
		said.note(line)
	}
}

// note books one line of the log.
func (s *sayings) note(line []byte) {
	to := mail.Address(field(line, " to="))
	status := field(line, " status=")
	n := s.counts[laneOf(to)]
	if n == nil || status == mail.Delivered.String() {
		return
	}
	_, stage, refused := bytes.Cut(line, []byte("refused at "))
	switch {
	case field(line, " unknown=") == "true":
		n[countDoubt]++
		s.doubts[to]++
	case bytes.Contains(line, []byte(qmgr.SuspendedPrefix)): // not even tried
		n[countSuspended]++
	case refused:
		n[capitals(stage)]++
	case status == mail.Failed.String():
		_, reply, _ := bytes.Cut(line, []byte(" reply="))
		s.unjust.add("%s: %s", to, bytes.TrimSpace(reply))
	default:
		n[countOther]++
	}
}

// field returns the word that follows a key in a line of the log.
func field(line []byte, key string) string {
	_, rest, found := bytes.Cut(line, []byte(key))
	if !found {
		return ""
	}
	word, _, _ := bytes.Cut(rest, []byte(" "))
	return string(bytes.TrimSpace(word))
}

// capitals returns the capital letters with which text begins.
func capitals(text []byte) string {
	n := 0
	for n < len(text) && text[n] >= 'A' && text[n] <= 'Z' {
		n++
	}
	return string(text[:n])
}
