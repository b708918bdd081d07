// Package mistakes collects what is wrong with a configuration, so that all of it is
// reported at once.
package mistakes

import (
	"errors"
	"fmt"
)

// A List is what is wrong, in the order in which it was found. The zero List is empty.
type List struct{ errs []error }

// Unless adds an error in the words of fmt.Errorf unless a condition holds.
func (l *List) Unless(holds bool, format string, args ...any) {
	if !holds {
		l.errs = append(l.errs, fmt.Errorf(format, args...))
	}
}

// Add adds errors; nil is none.
func (l *List) Add(errs ...error) { l.errs = append(l.errs, errs...) }

// AddOf adds the errors that are joined in err, each with the name of what it is about.
func (l *List) AddOf(what string, err error) {
	switch joined, ok := err.(interface{ Unwrap() []error }); {
	case err == nil:
	case ok:
		for _, err := range joined.Unwrap() {
			l.AddOf(what, err)
		}
	default:
		l.Add(fmt.Errorf("%s: %w", what, err))
	}
}

// Join returns the errors, joined as by errors.Join; nil if there are none.
func (l *List) Join() error { return errors.Join(l.errs...) }
