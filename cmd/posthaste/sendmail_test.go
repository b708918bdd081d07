package main

import (
	"context"
	"io"
	"strings"
	"testing"
)

// brokenReader stands for a bug somewhere below.
type brokenReader struct{}

func (brokenReader) Read([]byte) (int, error) { panic("out of range") }

// A bug must not look like success, or like something that the caller did: it
// has a code of its own, and leaves what is needed to mend it.
func TestSendmailSurvivesABug(t *testing.T) {
	var said strings.Builder
	code := run(context.Background(), "sendmail", []string{"jane@example.net"}, streams{brokenReader{}, io.Discard, &said})
	if code != exitSoftware || !strings.HasPrefix(said.String(), "sendmail: bug: out of range\n") || !strings.Contains(said.String(), "sendmail_test.go") {
		t.Errorf("%d, %s", code, said.String())
	}
}
