package main

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"strings"
	"syscall"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/google/go-cmp/cmp"

	"github.com/posthaste-mta/posthaste/admin"
	"github.com/posthaste-mta/posthaste/admin/client"
	"github.com/posthaste-mta/posthaste/internal/submit"
	"github.com/posthaste-mta/posthaste/internal/tomlfile"
	"github.com/posthaste-mta/posthaste/mail"
)

// Numbers are read by people in a hurry: they must be short and never wrong by
// more than what is left out.
func TestTexts(t *testing.T) {
	for n, want := range map[int64]string{0: "0", 999: "999", 1000: "1.0k", 9949: "9.9k", 9950: "10k", 99_949: "100k", 999_499: "999k",
		999_500: "1.0M", 1_500_000: "1.5M", 2_000_000_000: "2.0G", 3e15: "3.0P", 5e18: "5000P"} {
		if got := sizeText(n); got != want {
			t.Errorf("size %d: %s, want %s", n, got, want)
		}
	}
	for n, want := range map[int64]string{0: "0 octets", 999: "999 octets", 4200: "4.2 kB"} {
		if got := octetsText(n); got != want {
			t.Errorf("octets %d: %s, want %s", n, got, want)
		}
	}
	for n, want := range map[int64]string{0: "0", 12: "12", 123: "123", 1234: "1,234", 123456: "123,456", 1234567: "1,234,567", -1234: "-1,234", -123: "-123"} {
		if got := number(n); got != want {
			t.Errorf("number %d: %s, want %s", n, got, want)
		}
	}
	for d, want := range map[time.Duration]string{-time.Hour: "0s", 0: "0s", 59 * time.Second: "59s", time.Minute: "1m", 59 * time.Minute: "59m",
		time.Hour: "1h", 200 * time.Minute: "3h20m", 24 * time.Hour: "1d", 50 * time.Hour: "2d2h", 24*time.Hour + 59*time.Minute: "1d"} {
		if got := span(d); got != want {
			t.Errorf("span %v: %s, want %s", d, got, want)
		}
		if short := age(d); !strings.HasPrefix(want, short) || short == "" {
			t.Errorf("age %v: %s", d, short)
		}
	}
	if got := plain("a\x1b[31mb\r\n\u202ec\xff\u0085é"); got != "a?[31mb???c??é" {
		t.Errorf("plain: %q", got)
	}
	now := time.Date(2026, 1, 2, 3, 4, 5, 0, time.Local)
	for at, want := range map[time.Time]string{now.Add(-90 * time.Minute): "1h30m ago, 2 Jan 01:34:05", now.Add(time.Minute): "in 1m, 2 Jan 03:05:05",
		now.Add(-72 * time.Hour): "3d ago, 30 Dec 2025 03:04"} {
		if got := when(at, now); got != want {
			t.Errorf("%v: %s, want %s", at, got, want)
		}
	}
}

// On a terminal no line is wider than it, whatever the addresses are; in a
// pipe nothing is cut off, since a program may read it.
func TestTableWidths(t *testing.T) {
	long := strings.Repeat("ä", 300) + "@example.com"
	for _, width := range []int{0, 40, 80, 200} {
		var b bytes.Buffer
		l := tableLister{out: bufio.NewWriter(&b), width: width, now: time.Now()}
		for i := range tableLook + 10 {
			sender := "a@b"
			if i%3 == 0 {
				sender = long
			}
			m := admin.Summary{ID: fmt.Sprintf("%013d", i), State: admin.StateDeferred, Sender: sender, Total: 1, Waiting: 1,
				Recipients: []admin.Recipient{{Address: long}}, Reason: long}
			if err := l.message(&m); err != nil {
				t.Fatal(err)
			}
		}
		if err := l.end(); err != nil {
			t.Fatal(err)
		}
		lines := strings.Split(strings.TrimRight(b.String(), "\n"), "\n")
		want := tableLook + 10 + 3
		if l.twoLines() {
			want += tableLook + 10
		}
		if len(lines) != want {
			t.Errorf("width %d: %d lines, want %d", width, len(lines), want)
		}
		for _, line := range lines {
			if width > 0 && utf8.RuneCountInString(line) > width {
				t.Fatalf("width %d: %d columns in %q", width, utf8.RuneCountInString(line), line)
			}
		}
		if width == 0 && !strings.Contains(b.String(), long+"  "+long) {
			t.Error("an address was cut off in a pipe")
		}
	}
}

// Programs decide by the exit code whether to try again, to give up or to wake
// somebody, so each kind of trouble needs its own.
func TestExitCodes(t *testing.T) {
	refusal := func(code uint16, subject, detail uint16, recipient mail.Address) error {
		return &submit.Refusal{Reply: mail.Reply{Code: code, Status: mail.Status{Class: code / 100, Subject: subject, Detail: detail}}, Recipient: recipient}
	}
	for _, c := range []struct {
		err  error
		want exitCode
	}{
		{errors.New("disk full"), exitOS},
		{&submit.InputError{Err: fs.ErrClosed}, exitIO},
		{fmt.Errorf("sender: %w", &submit.AddressError{}), exitData},
		{&submit.HeaderError{}, exitData},
		{&submit.ConnectionError{Err: syscall.EPIPE}, exitTempFail},
		{refusal(451, 3, 0, ""), exitTempFail},
		{refusal(452, 4, 5, "a@b"), exitTempFail},
		{refusal(550, 1, 1, "a@b"), exitNoUser},
		{refusal(550, 0, 0, "a@b"), exitNoUser},
		{refusal(550, 1, 2, "a@b"), exitNoHost},
		{refusal(501, 1, 3, "a@b"), exitData},
		{refusal(552, 3, 4, ""), exitData},
		{refusal(554, 6, 9, ""), exitData},
		{refusal(550, 7, 1, "a@b"), exitNoPerm},
		{refusal(530, 0, 0, ""), exitNoPerm},
		{refusal(554, 0, 0, ""), exitUnavailable},
		{usageError("x"), exitUsage},
	} {
		if got := codeOfSubmission(c.err); got != c.want {
			t.Errorf("%T %v: %d, want %d", c.err, c.err, got, c.want)
		}
	}
	for _, c := range []struct {
		err  error
		want exitCode
	}{
		{nil, exitOK},
		{errors.New("x"), exitUnavailable},
		{&client.Unreachable{Err: fs.ErrNotExist}, exitUnavailable},
		{&client.Unreachable{Err: fs.ErrPermission}, exitNoPerm},
		{&client.Unreachable{Err: syscall.EINVAL}, exitConfig},
		{&client.Unreachable{Err: syscall.EMFILE}, exitUnavailable},
		{fmt.Errorf("x: %w", &client.Problem{Status: 404}), exitNoInput},
		{&client.Problem{Status: 422}, exitUsage},
		{&client.Problem{Status: 429}, exitTempFail},
		{&client.Problem{Status: 503}, exitTempFail},
		{&client.Problem{Status: 500}, exitUnavailable},
		{&fs.PathError{Op: "write", Path: "/dev/stdout", Err: syscall.ENOSPC}, exitIO},
		{fmt.Errorf("not in the queue: x; %w", &client.Partial{}), exitIO},
		{&tomlfile.Problems{}, exitConfig},
	} {
		if got, _ := codeOf(c.err); got != c.want {
			t.Errorf("%T %v: %d, want %d", c.err, c.err, got, c.want)
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

// A domain's row counts by age in columns that double; beyond a bound on
// memory domains are added up.
func TestShape(t *testing.T) {
	s := shape{now: time.Unix(1e9, 0), domains: map[string]*shapeRow{}}
	for _, ago := range []time.Duration{0, 4 * time.Minute, 5 * time.Minute, 19 * time.Minute, 1279 * time.Minute, 1280 * time.Minute, 1e6 * time.Minute} {
		s.add("a.example", s.now.Add(-ago))
	}
	s.add("b.example", s.now)
	want := [shapeColumns]int{2, 1, 1, 0, 0, 0, 0, 0, 1, 2}
	if got := s.domains["a.example"].byAge; got != want {
		t.Errorf("%v, want %v", got, want)
	}
	var b strings.Builder
	s.write(&b, 1)
	if lines := strings.Split(b.String(), "\n"); len(lines) != 4 || !strings.HasSuffix(lines[0], "1280  1280+") || !strings.HasPrefix(lines[1], "    TOTAL      8      3") ||
		!strings.HasPrefix(lines[2], "a.example      7      2") {
		t.Errorf("\n%s", b.String())
	}
	for i := range shapeDomains + 10 {
		s.add(fmt.Sprintf("%d.example", i), s.now)
	}
	if len(s.domains) != shapeDomains+1 || s.domains[shapeOthers].all != 12 {
		t.Errorf("%d domains", len(s.domains))
	}
}

// A report that could not be delivered is held after its first attempt, which
// is not counted as one that deferred it. "None yet" would be a lie beside the
// reply that put it there.
func TestShowAttempts(t *testing.T) {
	for _, test := range []struct {
		waiting uint32
		want    bool
	}{{1, true}, {0, false}} {
		var out bytes.Buffer
		d := admin.Detail{Summary: admin.Summary{ID: "00AX7VVSG0003", State: admin.StateHold, Total: 1, Waiting: test.waiting}}
		(&shower{out: &out}).head(&d, time.Now())
		if got := strings.Contains(out.String(), "Attempts    none yet"); got != test.want {
			t.Errorf("%d of 1 recipients waiting:\n%s", test.waiting, out.String())
		}
	}
}

// An order that waits for deliveries is shown, since nothing else tells of it.
func TestShowOrdered(t *testing.T) {
	for ordered, want := range map[string]string{"hold": "Ordered     to be held when", "some": "Ordered     some recipients are to be given up or held when", "": "\nSender"} {
		var out bytes.Buffer
		d := admin.Detail{Summary: admin.Summary{ID: "00AX7VVSG0003", State: admin.StateActive, Total: 1, Waiting: 1}, Ordered: ordered}
		if (&shower{out: &out}).head(&d, time.Now()); !strings.Contains(out.String(), want) || strings.Contains(out.String(), "Ordered") != (ordered != "") {
			t.Errorf("%s:\n%s", ordered, out.String())
		}
	}
}

// What a host has said is shown line by line, or on one line where there is only one;
// nothing in it reaches the terminal that could act on it.
func TestLinesOfAReply(t *testing.T) {
	r := admin.Recipient{Address: "a@b.test", Result: "deferred", Reply: "550 5.7.1 blocked\nsee \x1b[31m\u202ehttps://b.test/", By: "mx[192.0.2.1]"}
	var out bytes.Buffer
	(&shower{out: &out}).recipient(&r, 8, time.Now())
	if want := "  a@b.test  deferred\n      550 5.7.1 blocked\n      see ?[31m?https://b.test/\n      said by mx[192.0.2.1]\n"; out.String() != want {
		t.Errorf("shown as\n%s\nwant\n%s", out.String(), want)
	}
	if got, want := plain(reasonOf(&r)), "host mx[192.0.2.1] said: 550 5.7.1 blocked / see ?[31m?https://b.test/"; got != want {
		t.Errorf("%q, want %q", got, want)
	}
}
