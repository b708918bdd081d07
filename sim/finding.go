package sim

import (
	"fmt"

	"github.com/posthaste-mta/posthaste/mail"
)

// A finding is the first violation that a checker has found, and how many there
// were. The zero finding is none.
type finding struct {
	text string
	more int
}

// found notes a violation at an instant.
func (f *finding) found(now mail.Instant, format string, args ...any) {
	if f.text == "" {
		f.text = fmt.Sprintf("%.3fs: ", now.Sub(epoch).Seconds()) + fmt.Sprintf(format, args...)
		return
	}
	f.more++
}

// violation returns the first violation in words.
func (f *finding) violation() string {
	if f.more == 0 {
		return f.text
	}
	return fmt.Sprintf("%s (and %d more)", f.text, f.more)
}

// A safety is a finding of something that must not happen.
type safety struct{ finding }

func (safety) progress() bool { return false }
