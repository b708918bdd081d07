package main

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"net/smtp"
	"strings"
	"testing"

	"github.com/posthaste-mta/posthaste/internal/cli"
	"github.com/posthaste-mta/posthaste/internal/cli/command"
	"github.com/posthaste-mta/posthaste/internal/cli/exit"
)

// An operator tries limits against a receiver that refuses every recipient or none.
// The address that it prints must be the one it listens at, and the end, which is
// Ctrl-C, must be status 0 with what was counted. It needs a real socket, since the
// command opens one.
func TestSink(t *testing.T) {
	for _, c := range []struct {
		flags, refusal string
		want           []string
	}{
		{"", "", []string{"1 connection, at most 1 at once\n", "1 message taken, for 1 recipient, "}},
		{"--refuse-recipients 100%", "550", []string{"0 messages taken", "recipients refused with 550: 1\n"}},
		{"--tempfail 100 --drop 3", "450", []string{"0 messages taken", "messages refused with 450: 1\n", "connections closed within a message: 0\n"}},
	} {
		ctx, interrupt := context.WithCancel(t.Context())
		read, write := io.Pipe()
		var complaints strings.Builder
		ended := make(chan exit.Code, 1)
		go func() {
			args := append([]string{"sink", "--listen", "127.0.0.1:0"}, strings.Fields(c.flags)...)
			code := cli.Run(ctx, "posthaste", args, command.Streams{In: strings.NewReader(""), Out: write, Err: &complaints})
			write.Close()
			ended <- code
		}()
		out := bufio.NewReader(read)
		first, err := out.ReadString('\n')
		address, found := strings.CutPrefix(strings.TrimSpace(first), "listening on ")
		if err != nil || !found {
			t.Fatalf("%s: it began with %q, %v", c.flags, first, err)
		}
		err = smtp.SendMail(address, nil, "a@example.com", []string{"b@example.net"}, []byte("Subject: one\r\n\r\nText\r\n"))
		if got := fmt.Sprint(err); (err != nil || c.refusal != "") && !strings.HasPrefix(got, c.refusal+" ") {
			t.Errorf("%s: the client received %v, want %q", c.flags, err, c.refusal)
		}
		interrupt()
		rest, err := io.ReadAll(out)
		if err != nil {
			t.Fatal(err)
		}
		if code := <-ended; code != exit.OK || complaints.Len() > 0 {
			t.Errorf("%s: status %d, %s", c.flags, code, complaints.String())
		}
		for _, want := range c.want {
			if !strings.Contains(string(rest), want) {
				t.Errorf("%s: the summary lacks %q:\n%s", c.flags, want, rest)
			}
		}
	}
}
