package postfix

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"strings"
	"syscall"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/posthaste-mta/posthaste/header"
	"github.com/posthaste-mta/posthaste/internal/cli/exit"
	"github.com/posthaste-mta/posthaste/internal/submit"
	"github.com/posthaste-mta/posthaste/mail"
)

// Programs decide by the exit code whether to try again, to give up or to alert
// an operator, so each kind of trouble needs its own.
func TestExitCodesOfSubmission(t *testing.T) {
	refusal := func(code uint16, subject, detail uint16, recipient mail.Address) error {
		return &submit.Refusal{Reply: mail.Reply{Code: code, Status: mail.Status{Class: code / 100, Subject: subject, Detail: detail}}, Recipient: recipient}
	}
	for _, c := range []struct {
		err  error
		want exit.Code
	}{
		{errors.New("disk full"), exit.OS},
		{&submit.InputError{Err: fs.ErrClosed}, exit.IO},
		{fmt.Errorf("sender: %w", &header.AddressError{}), exit.Data},
		{&submit.HeaderError{}, exit.Data},
		{&submit.ConnectionError{Err: syscall.EPIPE}, exit.TempFail},
		{refusal(451, 3, 0, ""), exit.TempFail},
		{refusal(452, 4, 5, "a@b"), exit.TempFail},
		{refusal(550, 1, 1, "a@b"), exit.NoUser},
		{refusal(550, 0, 0, "a@b"), exit.NoUser},
		{refusal(550, 1, 2, "a@b"), exit.NoHost},
		{refusal(501, 1, 3, "a@b"), exit.Data},
		{refusal(552, 3, 4, ""), exit.Data},
		{refusal(554, 6, 9, ""), exit.Data},
		{refusal(550, 7, 1, "a@b"), exit.NoPerm},
		{refusal(530, 0, 0, ""), exit.NoPerm},
		{refusal(554, 0, 0, ""), exit.Unavailable},
		{exit.Usagef("x"), exit.Usage},
	} {
		if got := codeOfSubmission(c.err); got != c.want {
			t.Errorf("%T %v: %d, want %d", c.err, c.err, got, c.want)
		}
	}
}

// The mail for an address without a name is found by its site, as Postfix's manual says it must be written.
//
// Seen failing: the brackets were taken off, and no message was for that domain.
func TestSite(t *testing.T) {
	for value, want := range map[string]string{"example.net": "example.net", "[mail.example.net]": "mail.example.net", "[192.0.2.1]": "[192.0.2.1]", "[IPv6:2001:db8::1]": "[IPv6:2001:db8::1]",
		"192.0.2.1": "[192.0.2.1]", "": "", "[]": "", ".example.net": ".example.net"} {
		if got := siteOf(value); got != want {
			t.Errorf("%s: %q, want %q", value, got, want)
		}
	}
}

// The options of the classic programs, in all the ways in which getopt(3) takes
// them.
func TestGetopt(t *testing.T) {
	set := optionSet{flags: "ti", valued: "fN", attached: "bo"}
	for _, c := range []struct {
		args string
		want options
		bad  bool
	}{
		{"-t -i a b", options{[]option{{'t', ""}, {'i', ""}}, []string{"a", "b"}}, false},
		{"-ti a", options{[]option{{'t', ""}, {'i', ""}}, []string{"a"}}, false},
		{"-f x@y a", options{[]option{{'f', "x@y"}}, []string{"a"}}, false},
		{"-fx@y a", options{[]option{{'f', "x@y"}}, []string{"a"}}, false},
		{"-tfx -bs", options{[]option{{'t', ""}, {'f', "x"}, {'b', "s"}}, nil}, false},
		{"-oi -o -oem", options{[]option{{'o', "i"}, {'o', ""}, {'o', "em"}}, nil}, false},
		{"-t -- -i", options{[]option{{'t', ""}}, []string{"-i"}}, false},
		{"a -t", options{nil, []string{"a", "-t"}}, false},
		{"- -t", options{nil, []string{"-", "-t"}}, false},
		{"-f", options{}, true},
		{"-tz", options{}, true},
	} {
		got, err := getopt(strings.Fields(c.args), set)
		if (err != nil) != c.bad {
			t.Errorf("%q: %v", c.args, err)
			continue
		}
		if len(got.rest) == 0 {
			got.rest = nil
		}
		if diff := cmp.Diff(c.want, got, cmp.AllowUnexported(options{}, option{})); !c.bad && diff != "" {
			t.Errorf("%q: %s", c.args, diff)
		}
	}
}

// Wherever the network cuts a message, its header and its body are separated, and lines
// end as a terminal expects; a carriage return of its own stays.
func TestSections(t *testing.T) {
	const content = "A: b\r\n c\rd\r\n\r\nx\r\n\r\ny\r"
	for _, c := range []struct {
		header, body bool
		content      string
		want         string
	}{
		{true, false, content, "A: b\n c\rd\n"}, {false, true, content, "\nx\n\ny"}, {true, true, content, "A: b\n c\rd\n\nx\n\ny"},
		{true, false, "A: b", "A: b"}, {false, true, "A: b", ""}, {true, false, "\r\nx", ""}, {false, true, "\r\nx", "\nx"},
	} {
		for cut := range len(c.content) {
			var out bytes.Buffer
			s := &sections{out: bufio.NewWriter(&out), header: c.header, body: c.body}
			s.Write([]byte(c.content[:cut]))
			s.Write([]byte(c.content[cut:]))
			s.out.Flush()
			if got := out.String(); got != c.want {
				t.Errorf("%q cut at %d, header %v, body %v: %q, want %q", c.content, cut, c.header, c.body, got, c.want)
			}
		}
	}
}
