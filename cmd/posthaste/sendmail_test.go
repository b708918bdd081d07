package main

import (
	"context"
	"fmt"
	"io"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"

	gosmtp "github.com/emersion/go-smtp"

	"github.com/posthaste-mta/posthaste/internal/cli"
	"github.com/posthaste-mta/posthaste/internal/cli/command"
	"github.com/posthaste-mta/posthaste/internal/cli/exit"
)

// brokenReader stands for a bug somewhere below.
type brokenReader struct{}

func (brokenReader) Read([]byte) (int, error) { panic("out of range") }

// A bug must not look like success, or like something that the caller did: it
// has a code of its own, and leaves what is needed to fix it.
func TestSendmailSurvivesABug(t *testing.T) {
	var said strings.Builder
	code := cli.Run(context.Background(), "sendmail", []string{"jane@example.net"}, command.Streams{In: brokenReader{}, Out: io.Discard, Err: &said})
	if code != exit.Software || !strings.HasPrefix(said.String(), "sendmail: bug: out of range\n") || !strings.Contains(said.String(), "sendmail_test.go") {
		t.Errorf("%d, %s", code, said.String())
	}
}

// An endlessInput has lines and more lines. After reading most bytes of it the test has failed.
type endlessInput struct{ read, most int }

func (e *endlessInput) Read(p []byte) (int, error) {
	if e.read >= e.most {
		return 0, io.EOF
	}
	n := copy(p, fmt.Sprintf("Bcc: jane%d@example.net, joe%d@example.net\n", e.read, e.read))
	e.read += n
	return n, nil
}

// Input without an end, such as the output of a program in a loop, is read only until it is
// known that it cannot be sent: the rest would fill the disk. The same holds without a daemon.
//
// Seen failing: all of it was read, into a temporary file.
func TestEndlessInput(t *testing.T) {
	for _, c := range []struct {
		name, head, want string
		limit            int64 // of the daemon; 0: there is none
		code             exit.Code
	}{
		{"content", "\n", "sendmail: 552 5.3.4 the message has more than the 3000000 octets that the server takes\nThe message was not sent.\n", 3e6, exit.Data},
		{"recipients", "Subject: x\n", "sendmail: 552 5.3.4 the message has more than the 3000000 octets that the server takes\nThe message was not sent.\n", 3e6, exit.Data},
		{"no daemon", "\n", "no such file or directory\nPosthaste is not running", 0, exit.TempFail},
	} {
		queue := t.TempDir()
		t.Setenv("POSTHASTE_QUEUE_DIRECTORY", queue)
		t.Setenv("TMPDIR", t.TempDir())
		if c.limit > 0 {
			server := gosmtp.NewServer(&mailTaker{dir: queue})
			server.MaxMessageBytes, server.ErrorLog = c.limit, discardLog{}
			ln, err := net.Listen("unix", filepath.Join(queue, "submit.sock"))
			if err != nil {
				t.Fatal(err)
			}
			go server.Serve(ln)
			defer server.Close()
		}
		in := &endlessInput{most: 16 << 20}
		var said strings.Builder
		code := cli.Run(t.Context(), "sendmail", []string{"-t"}, command.Streams{In: io.MultiReader(strings.NewReader(c.head), in), Out: io.Discard, Err: &said})
		if code != c.code || !strings.Contains(said.String(), c.want) || in.read > 8<<20 {
			t.Errorf("%s: %d after %d bytes, %q", c.name, code, in.read, said.String())
		}
	}
}

// A stoppingInput is a message that takes its time: when it is read, the daemon stops.
type stoppingInput struct {
	io.Reader
	stop func()
}

func (s *stoppingInput) Read(p []byte) (int, error) {
	s.stop()
	return s.Reader.Read(p)
}

// A daemon that stops while a message is read, which was there when it was asked what it takes,
// finds the message in the maildrop later, as if it had not run at all.
func TestSendmailWhileTheDaemonStops(t *testing.T) {
	queue := t.TempDir()
	t.Setenv("POSTHASTE_QUEUE_DIRECTORY", queue)
	server := gosmtp.NewServer(&mailTaker{dir: queue})
	server.ErrorLog = discardLog{}
	ln, err := net.Listen("unix", filepath.Join(queue, "submit.sock"))
	if err != nil {
		t.Fatal(err)
	}
	go server.Serve(ln)
	defer server.Close()
	drop := filepath.Join(queue, "maildrop")
	if err := os.Mkdir(drop, 0o700); err != nil {
		t.Fatal(err)
	}
	in := &stoppingInput{strings.NewReader("Subject: x\n\nHello.\n"), func() { server.Close() }}
	var said strings.Builder
	code := cli.Run(t.Context(), "sendmail", []string{"jane@example.net"}, command.Streams{In: in, Out: io.Discard, Err: &said})
	if left, err := os.ReadDir(drop); code != exit.OK || err != nil || len(left) != 1 {
		t.Errorf("%d, %q; %d files, %v", code, said.String(), len(left), err)
	}
}
