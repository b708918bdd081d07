//go:build unix

package pipe

import (
	"bytes"
	"context"
	"errors"
	"io"
	"log/slog"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/posthaste-mta/posthaste/mail"
)

// contents are messages by their queue IDs.
type contents map[mail.QueueID]string

func (c contents) Open(_ context.Context, id mail.QueueID) (io.ReadCloser, error) {
	text, ok := c[id]
	if !ok {
		return nil, errors.New("damaged")
	}
	if whole, changed := strings.CutSuffix(text, "CHANGED"); changed {
		return io.NopCloser(io.MultiReader(strings.NewReader(whole), failing{})), nil
	}
	return io.NopCloser(strings.NewReader(text)), nil
}

// failing is content that has changed since it was opened.
type failing struct{}

func (failing) Read([]byte) (int, error) { return 0, errors.New("changed") }

// shell returns a transport that runs a script of the shell. The arguments behind it are $1
// and so on.
func shell(script string, arguments ...string) TransportConfig {
	t := TransportConfig{Command: append([]string{"/bin/sh", "-c", strings.ReplaceAll(script, "$", "$$"), "sh"}, arguments...)}
	if os.Geteuid() == 0 {
		t.User = "nobody:nogroup"
	}
	return t
}

// newAgent returns an agent whose only transport is p.
func newAgent(t *testing.T, c TransportConfig, bodies Bodies) *Agent {
	t.Helper()
	a, err := New(Config{Dir: filepath.Join(t.TempDir(), "programs"), Transports: map[string]TransportConfig{"p": c}}, bodies)
	if err != nil {
		t.Fatal(err)
	}
	return a
}

func delivery(to ...mail.Address) mail.Delivery {
	d := mail.Delivery{Transport: "p", Nexthop: "Example.com", Envelope: mail.Envelope{ID: 1, Sender: "a@example.org", Size: 42}}
	for i, address := range to {
		d.Recipients = append(d.Recipients, mail.Recipient{Index: uint32(7 + i), Address: address})
	}
	return d
}

// give has a program write its standard input and its arguments back as its output, which
// is the text of a refusal.
func give(t *testing.T, c TransportConfig, content string, d mail.Delivery) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "out")
	file, err := os.OpenFile(path, os.O_CREATE|os.O_WRONLY, 0o666)
	if err != nil {
		t.Fatal(err)
	}
	file.Close()
	if err := errors.Join(os.Chmod(path, 0o666), os.Chmod(filepath.Dir(path), 0o777), os.Chmod(filepath.Dir(filepath.Dir(path)), 0o777)); err != nil {
		t.Fatal(err)
	}
	c.Environment = append(c.Environment, "OUT="+path)
	r := newAgent(t, c, contents{1: content}).Deliver(t.Context(), d)
	for i, o := range r.Outcomes {
		if o.Result != mail.Delivered || o.Reply.String() != "250 2.0.0 delivered to a program" || o.Index != d.Recipients[i].Index || o.At == 0 {
			t.Errorf("outcome %+v", o)
		}
	}
	got, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return string(got)
}

// What a program gets: its arguments, once for each recipient where they are different, and
// the message with the line ends of this system.
func TestProgram(t *testing.T) {
	d := delivery("b+x@Example.COM", "c@example.com")
	got := give(t, shell(`printf '<%s>' "$@" >$OUT; cat >>$OUT`, "-f", "${sender}", "--to=${recipient}", "$$5", "${size} ${queue_id}"), "Subject: x\r\n\r\n.\r\nFrom me\r\n", d)
	want := "<-f><a@example.org><--to=b+x@Example.COM><--to=c@example.com><$5><42 " + mail.QueueID(1).String() + ">Subject: x\n\n.\nFrom me\n"
	if got != want {
		t.Errorf("got  %q\nwant %q", got, want)
	}
}

// The environment has nothing of this process, the directory is what is configured, and no
// file is open but the three that every program has.
func TestSurroundings(t *testing.T) {
	t.Setenv("SECRET", "1")
	t.Setenv("TZ", "UTC")
	t.Setenv("LANG", "C")
	open, err := syscall.Open(os.DevNull, syscall.O_RDONLY, 0) // as if this process had inherited it
	if err != nil {
		t.Fatal(err)
	}
	defer syscall.Close(open)
	c := shell(`env | grep -v '^PWD\|^OUT\|^_=\|^SHLVL\|^OLDPWD' | sed 's/^\(POSTHASTE_DELIVERY=\)[A-Z2-7]\{26\}$/\1x/' | sort >$OUT; pwd >>$OUT; ls /dev/fd/ | wc -l >>$OUT`)
	c.Environment = []string{"NAME=a b", "PATH=/bin:/usr/bin"}
	c.Directory = "/tmp"
	got := strings.Fields(strings.ReplaceAll(give(t, c, "x\r\n", delivery("b@x")), "a b", "a_b"))
	want := []string{"LANG=C", "NAME=a_b", "PATH=/bin:/usr/bin", "POSTHASTE_DELIVERY=x", "TZ=UTC", "/tmp"}
	if len(got) != 7 || !slices.Equal(got[:6], want) {
		t.Fatalf("got %q, want %q", got, want)
	}
	if n, err := strconv.Atoi(got[6]); err != nil || n > 4 { // ls has opened the directory
		t.Errorf("%s files are open", got[6])
	}
}

// How a program ends decides the outcome, as with Postfix.
func TestVerdicts(t *testing.T) {
	for _, c := range []struct {
		script string
		want   string
	}{
		{"exit 0", "sent 250 2.0.0 delivered to a program"},
		{"echo one; echo two; echo", "sent 250 2.0.0 delivered to a program: two"},
		{"exit 67", "bounced 554 5.1.1 user unknown"},
		{"echo nobody here >&2; exit 67", "bounced 554 5.1.1 user unknown: nobody here"},
		{"exit 75", "deferred 451 4.3.0 temporary failure"},
		{"exit 74", "bounced 554 5.3.0 input/output error"},
		{"exit 71", "deferred 451 4.3.0 system resource problem"},
		{"exit 78", "bounced 554 5.3.5 local configuration error"},
		{"exit 1", "bounced 554 5.3.0 program ended with status 1"},
		{"exit 79", "bounced 554 5.3.0 program ended with status 79"},
		{"echo 4.2.2 mailbox full; exit 67", "deferred 451 4.2.2 mailbox full"},
		{"echo trace; echo 5.7.1 not you; exit 75", "bounced 554 5.7.1 not you"},
		{"echo 2.0.0 fine; exit 75", "deferred 451 4.3.0 temporary failure: 2.0.0 fine"},
		{"echo 5.7.1 not you; exit 0", "sent 250 2.0.0 delivered to a program: 5.7.1 not you"},
		{"kill -TERM $$", "deferred 451 4.3.0 program was killed by signal 15 (terminated) unknown"},
		{"exec 0<&-; exit 0", "sent 250 2.0.0 delivered to a program"}, // it has read nothing
		{"printf 'a\\001b'; exit 69", "bounced 554 5.3.0 service unavailable: a?b"},
		{"echo 4.2.2 mailbox full; echo see the log; exit 67", "deferred 451 4.2.2 mailbox full"}, // Postfix looks at the beginning
		{"echo 4.2.2 mailbox full; seq 5000; exit 67", "deferred 451 4.2.2 mailbox full"},
		{"echo 4.2.2 mailbox full; echo 5.1.1 nobody; exit 1", "deferred 451 4.2.2 mailbox full"},
		{"echo 4.2.2; exit 67", "deferred 451 4.2.2 user unknown"},
		{"echo; echo 5.7.1 not you; echo more; exit 75", "bounced 554 5.7.1 not you"},
	} {
		a := newAgent(t, shell(c.script), contents{1: strings.Repeat("x\r\n", 50000)})
		r := a.Deliver(t.Context(), delivery("b@x", "c@x"))
		for i, o := range r.Outcomes {
			got := o.Result.String() + " " + o.Reply.String()
			if o.Unknown {
				got += " unknown"
			}
			if got != c.want || o.Index != uint32(7+i) || r.Crashed || !r.Site.IsZero() {
				t.Errorf("%s: %s, want %s; %+v", c.script, got, c.want, r)
			}
		}
	}
}

// A program that takes too long is killed with all that it has started, and the delivery
// ends, even if a process that has left its group keeps the output open.
func TestTimeLimit(t *testing.T) {
	c := shell(`(sleep 1000; echo alive) & echo working; sleep 1000`)
	began := time.Now()
	a := newAgent(t, c, contents{1: "x\r\n"})
	a.programs["p"].TimeLimit = 100 * time.Millisecond
	r := a.Deliver(t.Context(), delivery("b@x"))
	o := r.Outcomes[0]
	if text := strings.TrimSuffix(o.Reply.String(), ": working"); o.Result != mail.Deferred || !o.Unknown || text != "451 4.3.0 program was killed after 100ms" || r.Crashed {
		t.Errorf("result %+v", r)
	}
	if took := time.Since(began); took > 30*time.Second {
		t.Errorf("it took %v", took)
	}
}

// fifo returns the path of a FIFO to which programs can write.
func fifo(t *testing.T) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "fifo")
	if err := errors.Join(syscall.Mkfifo(path, 0o600), os.Chmod(path, 0o666), os.Chmod(filepath.Dir(path), 0o777), os.Chmod(filepath.Dir(filepath.Dir(path)), 0o777)); err != nil {
		t.Fatal(err)
	}
	return path
}

// What a program has started is killed with it. A process that has left its group is not, and
// holds the delivery up for no longer than closeTime.
func TestDescendants(t *testing.T) {
	const long = 60 // s, after which what is not killed ends by itself
	path := fifo(t)
	c := shell(`(echo >&3; exec sleep $LONG) 3>$F & exec sleep $LONG`)
	c.Environment = []string{"F=" + path, "LONG=" + strconv.Itoa(long)}
	a := newAgent(t, c, contents{1: "x\r\n"})
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	began := time.Now()
	done := make(chan mail.DeliveryResult)
	go func() { done <- a.Deliver(ctx, delivery("b@x")) }()
	in, err := os.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer in.Close()
	if _, err := in.Read(make([]byte, 1)); err != nil { // both run
		t.Fatal(err)
	}
	cancel()
	<-done
	if _, err := io.Copy(io.Discard, in); err != nil || time.Since(began) > long*time.Second/2 { // until no process can write any more
		t.Errorf("what a program has started ended after %v, %v", time.Since(began), err)
	}
	if _, err := exec.LookPath("setsid"); err != nil {
		return
	}
	c = shell(`setsid sleep $LONG & exit 0`)
	c.Environment = []string{"LONG=" + strconv.Itoa(long)}
	began = time.Now()
	r := newAgent(t, c, contents{1: "x\r\n"}).Deliver(t.Context(), delivery("b@x"))
	if r.Outcomes[0].Result != mail.Delivered || time.Since(began) > long*time.Second/2 {
		t.Errorf("%+v after %v", r, time.Since(began))
	}
}

// Files that a process has left with their names when it was killed are removed, and not those
// of another agent, which may be about to remove them itself.
func TestLeft(t *testing.T) {
	dir := t.TempDir()
	long := time.Now().Add(-2 * leftAfter)
	for _, name := range []string{"message-old", "message-new", "other"} {
		if err := os.WriteFile(filepath.Join(dir, name), nil, 0o600); err != nil {
			t.Fatal(err)
		}
		if name != "message-new" {
			if err := os.Chtimes(filepath.Join(dir, name), long, long); err != nil {
				t.Fatal(err)
			}
		}
	}
	if _, err := New(Config{Dir: dir, Transports: map[string]TransportConfig{"p": shell("exit 0")}}, contents{}); err != nil {
		t.Fatal(err)
	}
	left, err := filepath.Glob(filepath.Join(dir, "*"))
	for i := range left {
		left[i] = filepath.Base(left[i])
	}
	if err != nil || !slices.Equal(left, []string{"message-new", "other"}) {
		t.Errorf("left: %q, %v", left, err)
	}
}

// When this process gives up, the program is ended too, and what it has done is unknown.
func TestInterrupted(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	path := fifo(t)
	c := shell(`echo >$F; sleep 1000`)
	c.Environment = []string{"F=" + path}
	a := newAgent(t, c, contents{1: "x\r\n"})
	done := make(chan mail.DeliveryResult)
	go func() { done <- a.Deliver(ctx, delivery("b@x")) }()
	if _, err := os.ReadFile(path); err != nil { // which waits for the program
		t.Fatal(err)
	}
	cancel()
	r := <-done
	if o := r.Outcomes[0]; o.Result != mail.Deferred || !o.Unknown || r.Crashed {
		t.Errorf("result %+v", r)
	}
	r = a.Deliver(ctx, delivery("b@x"))
	if o := r.Outcomes[0]; o.Result != mail.Deferred || o.Unknown || !r.Crashed {
		t.Errorf("result of one that was never started: %+v", r)
	}
}

// No program is started with a message that is damaged, or is found to be while it is read,
// and none with one that it has delivered before.
func TestNotStarted(t *testing.T) {
	path := filepath.Join(t.TempDir(), "started")
	for _, c := range []struct {
		content string
		to      mail.Address
		want    string
		crashed bool
	}{
		{strings.Repeat("x\r\n", 100000) + "CHANGED", "b@x", "deferred 451 4.3.0 the message cannot be read from the queue", true},
		{"", "b@x", "deferred 451 4.3.0 the message cannot be read from the queue", true},
		{"Subject: x\r\ndelivered-to:  B@X \r\n\r\n", "b@x", "bounced 554 5.4.6 mail forwarding loop for b@x", false},
		{"Subject: x\r\n\r\nDelivered-To: b@x\r\n", "-oX@x", "bounced 554 5.1.3 an address begins with a dash, and would be an option of the program", false},
	} {
		p := shell("touch $F", "${recipient}")
		p.Flags, p.Environment = FlagDeliveredTo, []string{"F=" + path}
		bodies := contents{1: c.content}
		if c.content == "" {
			bodies = contents{}
		}
		a := newAgent(t, p, bodies)
		r := a.Deliver(t.Context(), delivery(c.to))
		if got := r.Outcomes[0].Result.String() + " " + r.Outcomes[0].Reply.String(); got != c.want || r.Crashed != c.crashed {
			t.Errorf("%q: %s, want %s; %+v", c.content[:min(len(c.content), 40)], got, c.want, r)
		}
		if left, err := os.ReadDir(a.cfg.Dir); err != nil || len(left) > 0 {
			t.Errorf("files are left: %v, %v", left, err)
		}
	}
	if _, err := os.Stat(path); err == nil {
		t.Error("a program was started")
	}
}

// A program that cannot be started is a local fault. It delays all mail of its transport, and does
// not count against the message. It is noticed at the start.
func TestMissingProgram(t *testing.T) {
	c := shell("")
	c.Command = []string{"/nonexistent/program"}
	var log bytes.Buffer
	a, err := New(Config{Dir: t.TempDir(), Transports: map[string]TransportConfig{"p": c}, Log: slog.New(slog.NewTextHandler(&log, nil))}, contents{1: "x\r\n"})
	if err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(log.String(), "command=/nonexistent/program") {
		t.Errorf("the log says %s", log.String())
	}
	plain := filepath.Join(t.TempDir(), "plain")
	if err := os.WriteFile(plain, []byte("#!/bin/sh\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	c.Command = []string{plain}
	if _, err := New(Config{Dir: t.TempDir(), Transports: map[string]TransportConfig{"p": c}, Log: slog.New(slog.NewTextHandler(&log, nil))}, contents{}); err != nil || !strings.Contains(log.String(), "not executable; its mail waits\" transport=p command="+plain) {
		t.Errorf("%v; the log says %s", err, log.String())
	}
	r := a.Deliver(t.Context(), delivery("b@x"))
	if want := "451 4.3.5 the program cannot be started: no such file or directory"; !r.Crashed || r.Unavailable.String() != want || r.Outcomes[0].Result != mail.Deferred {
		t.Errorf("result %+v", r)
	}
	if r := a.Deliver(t.Context(), mail.Delivery{Transport: "other", Recipients: delivery("b@x").Recipients}); r.Unavailable.IsZero() {
		t.Errorf("an unknown transport: %+v", r)
	}
}

// A directory that is missing is not taken for a missing program, which is there.
func TestMissingDirectory(t *testing.T) {
	c := shell("exit 0")
	c.Directory = "/nonexistent/directory"
	var log bytes.Buffer
	a, err := New(Config{Dir: t.TempDir(), Transports: map[string]TransportConfig{"p": c}, Log: slog.New(slog.NewTextHandler(&log, nil))}, contents{1: "x\r\n"})
	if err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(log.String(), "directory=/nonexistent/directory") {
		t.Errorf("the log says %s", log.String())
	}
	r := a.Deliver(t.Context(), delivery("b@x"))
	if want := "451 4.3.5 the program cannot be started in /nonexistent/directory: no such file or directory"; r.Unavailable.String() != want {
		t.Errorf("result %+v", r)
	}
}

// More recipients than the system takes on one command line are a fault neither of the
// transport, whose other mail would wait, nor of the message: there are several programs.
func TestManyRecipients(t *testing.T) {
	var to []mail.Address
	long := strings.Repeat("x", 60_000)
	for i := range 150 { // 9 MB; Linux takes 6 MB at most
		to = append(to, mail.Address(strconv.Itoa(i)+long+"@x"))
	}
	c := shell(`read line; [ "$line" = x ] || exit 65; shift $(($#-1)); case $1 in 149x*) exit 67;; esac`, "${recipient}")
	r := newAgent(t, c, contents{1: "x\r\n"}).Deliver(t.Context(), delivery(to...))
	if len(r.Outcomes) != len(to) || !r.Unavailable.IsZero() {
		t.Fatalf("%d outcomes, %v", len(r.Outcomes), r.Unavailable)
	}
	for i, o := range r.Outcomes {
		if o.Index != uint32(7+i) {
			t.Errorf("outcome %d is of recipient %d", i, o.Index)
		}
	}
	if first, last := r.Outcomes[0], r.Outcomes[149]; first.Result != mail.Delivered || last.Reply.Status.Detail != 1 {
		t.Errorf("%v, %v", first, last)
	}
}

// A call-out starts no program.
func TestCallout(t *testing.T) {
	a := newAgent(t, shell("exit 67"), contents{})
	d := delivery("b@x")
	d.Callout = true
	if r := a.Deliver(t.Context(), d); r.Outcomes[0].Result != mail.Delivered {
		t.Errorf("result %+v", r)
	}
}

// Senders who have asked for a report of success get one: "relayed", or, if the program is
// configured as the final destination, "delivered".
func TestReports(t *testing.T) {
	for flags, want := range map[Flags]mail.ReportKind{0: mail.ReportRelayed, FlagFinal: mail.ReportDelivered} {
		c := shell("exit 0")
		c.Flags = flags
		d := delivery("b@x", "c@x")
		d.Recipients[1].Notify = mail.NotifySuccess
		r := newAgent(t, c, contents{1: "x\r\n"}).Deliver(t.Context(), d)
		if r.Outcomes[0].Report != mail.ReportNone || r.Outcomes[1].Report != want {
			t.Errorf("%v: %+v", flags, r.Outcomes)
		}
		d.Envelope.Sender = ""
		if r := newAgent(t, c, contents{1: "x\r\n"}).Deliver(t.Context(), d); r.Outcomes[1].Report != mail.ReportNone {
			t.Errorf("%v: a report to the null sender: %+v", flags, r.Outcomes)
		}
	}
}

// A program that is not the end passes mail on, and knows no deadlines (RFC 2852 4.1.5).
func TestReportsOfDeadlines(t *testing.T) {
	future, past := mail.Instant(time.Now().Add(time.Hour).UnixNano()), mail.Instant(1)
	for _, test := range []struct {
		flags  Flags
		by     mail.DeliverBy
		notify mail.Notify
		want   mail.ReportKind
	}{
		{0, mail.DeliverBy{At: future, Mode: mail.ByNotify}, 0, mail.ReportRelayed}, {0, mail.DeliverBy{At: future, Mode: mail.ByNotify}, mail.NotifyNever, mail.ReportNone},
		{0, mail.DeliverBy{At: past, Mode: mail.ByNotify}, 0, mail.ReportNone}, {0, mail.DeliverBy{At: past, Mode: mail.ByNotify, Trace: true}, 0, mail.ReportRelayed},
		{0, mail.DeliverBy{At: future, Mode: mail.ByReturn}, 0, mail.ReportNone}, {FlagFinal, mail.DeliverBy{At: future, Mode: mail.ByNotify, Trace: true}, 0, mail.ReportNone},
	} {
		c := shell("exit 0")
		c.Flags = test.flags
		d := delivery("b@x")
		d.Recipients[0].Notify, d.Envelope.By = test.notify, test.by
		if r := newAgent(t, c, contents{1: "x\r\n"}).Deliver(t.Context(), d); r.Outcomes[0].Report != test.want {
			t.Errorf("%+v: %v", test, r.Outcomes)
		}
	}
}

// Only root can run programs as other users, and no program is run as root.
func TestUsers(t *testing.T) {
	root := os.Geteuid() == 0
	for _, c := range []struct {
		user string
		want string // part of the error; "" for none
	}{
		{"root", "must not run as user or group root"},
		{"nobody:root", "must not run as user or group root"},
		{"no-such-user", "unknown user no-such-user"},
		{"nobody:no-such-group", "unknown group no-such-group"},
		{"nobody", map[bool]string{false: "only root can run programs as \"nobody\""}[root]},
		{"", map[bool]string{true: "set command_user"}[root]},
	} {
		_, err := identify(c.user)
		if c.want == "" && err != nil || c.want != "" && (err == nil || !strings.Contains(err.Error(), c.want)) {
			t.Errorf("%q: %v, want %q", c.user, err, c.want)
		}
	}
}

// A program gets the sender that is for this recipient, wherever it is shown a sender.
func TestVERP(t *testing.T) {
	d := delivery("b@example.com")
	d.Envelope.VERP = mail.VERP{Before: '+', At: '='}
	c := shell(`printf '<%s>' "$@" >$OUT; grep -E '^(From |Return)' | cut -d' ' -f2 >>$OUT`, "${sender}")
	c.Flags = FlagFrom | FlagReturnPath
	want := "<a+b=example.com@example.org>a+b=example.com@example.org\n<a+b=example.com@example.org>\n"
	if got := give(t, c, "Subject: x\r\n\r\n", d); got != want {
		t.Errorf("got  %q\nwant %q", got, want)
	}
}
