package mail

import "fmt"

// A Level is a level of pipelining: the amount that is written to a server before its replies are awaited.
// Each level includes those below it.
type Level uint8

const (
	// LevelLockStep waits for the reply to each command.
	LevelLockStep Level = iota
	// LevelGroup writes MAIL, the RCPTs and DATA together (RFC 2920).
	LevelGroup
	// LevelOverlap writes the content of one message and the envelope of the
	// next together (RFC 2920 3.1: content may be the first in a group).
	LevelOverlap
	// LevelStream writes whole transactions one after another, with their content
	// in BDAT (RFC 3030). No RFC promises that a server supports it.
	LevelStream
)

// String returns the level's name, as in the configuration.
func (l Level) String() string {
	switch l {
	case LevelLockStep:
		return "lockstep"
	case LevelGroup:
		return "group"
	case LevelOverlap:
		return "overlap"
	case LevelStream:
		return "stream"
	}
	return fmt.Sprintf("level %d", uint8(l))
}

// UnmarshalText parses a level's name.
func (l *Level) UnmarshalText(text []byte) error {
	for known := LevelLockStep; known <= LevelStream; known++ {
		if string(text) == known.String() {
			*l = known
			return nil
		}
	}
	return fmt.Errorf("pipelining level %q: want lockstep, group, overlap or stream", text)
}

// MarshalText returns the level's name.
func (l Level) MarshalText() ([]byte, error) { return []byte(l.String()), nil }

// A Proof is the result of a probe for LevelStream.
type Proof uint8

const (
	ProofNone     Proof = iota // not probed
	ProofPassed                // exactly the expected replies
	ProofFailed                // replies were missing or wrong
	ProofExecutes              // the server executed refused content as commands
)

// String returns the word that traces show.
func (p Proof) String() string { return [...]string{"none", "passed", "failed", "executes"}[p] }
