package mistakes_test

import (
	"errors"
	"io/fs"
	"testing"

	"github.com/posthaste-mta/posthaste/internal/mistakes"
)

// What is right is no mistake, and neither is a part in which nothing is wrong.
func TestNone(t *testing.T) {
	var l mistakes.List
	l.Unless(true, "limit %d: want more", 1)
	l.Add(nil, nil)
	l.AddOf("transport smtp", nil)
	l.AddOf("transport smtp", errors.Join(nil, nil))
	if err := l.Join(); err != nil {
		t.Errorf("a mistake in nothing: %v", err)
	}
}

// An administrator corrects all mistakes at once: each has a line, in the order in which
// they were found, and each line names the part that it is about, however often the
// mistakes of that part were joined before.
func TestAllAtOnce(t *testing.T) {
	var l mistakes.List
	l.Unless(false, "limit %d: want at least %d", 0, 1)
	l.AddOf("transport smtp", errors.Join(errors.New("no hosts"), errors.Join(fs.ErrNotExist, nil)))
	l.Add(nil, errors.New("no name"))
	l.AddOf("transport lmtp", errors.New("no socket"))
	err := l.Join()
	const want = "limit 0: want at least 1\ntransport smtp: no hosts\ntransport smtp: file does not exist\nno name\ntransport lmtp: no socket"
	if err == nil || err.Error() != want {
		t.Errorf("%v, want %s", err, want)
	}
	if !errors.Is(err, fs.ErrNotExist) {
		t.Error("the cause of a mistake is lost")
	}
}
