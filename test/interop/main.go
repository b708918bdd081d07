package main

import (
	"bytes"
	"context"
	"errors"
	"flag"
	"fmt"
	"net"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/posthaste-mta/posthaste/admin/client"
)

// A trial is one run of the tests.
type trial struct {
	binary  string   // the program under test
	dir     string   // for everything that is written
	scripts string   // where the Python scripts are
	peers   string   // where the servers made of go-smtp are
	count   int      // letters for each lane
	levels  []string // of pipelining, for the lanes
	abreast bool     // the servers that refuse at random are tested side by side
	absent  map[program]bool

	receiver *receiver
	lanes    []*lane
	printing sync.Mutex
}

// print has the output to itself while it prints.
func (t *trial) print(what func()) {
	t.printing.Lock()
	defer t.printing.Unlock()
	what()
}

// A program is one that takes part, by the name by which it is left out.
type program string

const (
	progPostfix   program = "postfix"
	progExim      program = "exim"
	progSendmail  program = "sendmail"
	progOpenSMTPD program = "opensmtpd"
	progSwaks     program = "swaks"
	progCurl      program = "curl"
	progPython    program = "python3"
	progGoSMTP    program = "gosmtp-go"
	progGoSMTP24  program = "gosmtp-v0.24.0"
	progGoSMTP21  program = "gosmtp-v0.21.3"
	progDovecot   program = "dovecot"
)

func main() {
	if len(os.Args) == 2 && os.Args[1] == filterCommand {
		if err := filter(os.Stdin, os.Stdout); err != nil {
			os.Exit(1)
		}
		return
	}
	t := &trial{}
	flag.StringVar(&t.binary, "binary", "", "the program under test")
	flag.StringVar(&t.dir, "dir", "", "an empty directory, which is left there")
	flag.StringVar(&t.scripts, "scripts", "", "where the Python scripts are")
	flag.StringVar(&t.peers, "peers", "", "where the servers made of go-smtp are")
	flag.IntVar(&t.count, "count", countFull, "letters for each server that refuses at random, for each level and fate of connections")
	levels := flag.String("levels", strings.Join(wayNames[:], ","), "levels of pipelining for these")
	flag.BoolVar(&t.abreast, "abreast", false, "test them side by side")
	without := flag.String("without", "", "programs that there are not, with commas between; what needs them is left out")
	flag.Parse()
	t.levels = strings.Split(*levels, ",")
	t.absent = make(map[program]bool)
	for name := range strings.SplitSeq(*without, ",") {
		t.absent[program(name)] = name != ""
	}
	if t.binary == "" || t.dir == "" || t.scripts == "" {
		flag.Usage()
		os.Exit(2)
	}
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGINT, syscall.SIGTERM)
	defer stop()
	if err := t.run(ctx, flag.Args()); err != nil {
		fmt.Fprintln(os.Stderr, "interop:", err)
		os.Exit(1)
	}
}

// run starts everything, runs the tests that have one of the words in their
// name, or all, and stops everything.
func (t *trial) run(ctx context.Context, words []string) error {
	if err := t.versions(ctx); err != nil {
		return err
	}
	var err error
	if t.receiver, err = newReceiver(); err != nil {
		return err
	}
	ln, err := net.Listen("tcp", receiverAddr)
	if err != nil {
		return err
	}
	policy, err := net.Listen("tcp", policyAddr)
	if err != nil {
		return errors.Join(err, ln.Close())
	}
	serving, stopServing := context.WithCancel(context.Background())
	defer stopServing()
	if err := t.openLanes(serving); err != nil {
		return err
	}
	served := make(chan error, 3)
	go func() { served <- t.receiver.Serve(serving, ln) }()
	go func() { served <- servePolicy(serving, policy) }()
	go func() { served <- t.serveTaps(serving) }()
	err = t.withServers(ctx, words)
	stopServing()
	return errors.Join(err, <-served, <-served, <-served)
}

// versions prints the versions of the programs that are needed. A program that is
// missing is a failure, unless it is known to be.
func (t *trial) versions(ctx context.Context) error {
	var errs []error
	for _, ask := range []struct {
		program program
		command []string
	}{
		{progPostfix, []string{"/usr/sbin/postconf", "-d", "mail_version"}},
		{progPostfix, []string{"/usr/sbin/smtp-source"}},
		{progPostfix, []string{"/usr/sbin/smtp-sink"}},
		{progExim, []string{"/usr/sbin/exim4", "-C", "/dev/null", "-bV"}},
		{progSendmail, []string{"/usr/libexec/sendmail/sendmail"}},
		{progOpenSMTPD, []string{"/usr/sbin/smtpd"}},
		{progDovecot, []string{"/usr/sbin/dovecot", "--version"}},
		{progSwaks, []string{"swaks", "--version"}},
		{progCurl, []string{"curl", "--version"}},
		{progPython, []string{"python3", "--version"}},
	} {
		if t.absent[ask.program] {
			continue
		}
		ask := ask.command
		out, err := exec.CommandContext(ctx, ask[0], ask[1:]...).Output()
		if len(ask) == 1 { // these have no version of their own and exit with an error
			_, err = exec.LookPath(ask[0])
		}
		errs = append(errs, err)
		line, _, _ := bytes.Cut(out, []byte("\n"))
		if len(ask) > 1 {
			fmt.Printf("  %.70s\n", line)
		}
	}
	return errors.Join(errs...)
}

// withServers starts the servers, runs the tests and stops the servers.
func (t *trial) withServers(ctx context.Context, words []string) (err error) {
	for _, server := range []struct {
		program program
		start   func(context.Context) (*process, error)
	}{
		{"", func(ctx context.Context) (*process, error) { return startPosthaste(ctx, t) }},
		{progPostfix, func(ctx context.Context) (*process, error) { return startPostfix(ctx, t.dir) }},
		{progExim, func(ctx context.Context) (*process, error) { return startExim(ctx, t.dir) }},
		{progExim, func(ctx context.Context) (*process, error) { return startNarrowExim(ctx, t.dir) }},
		{progSendmail, func(ctx context.Context) (*process, error) { return startSendmail(ctx, t.dir) }},
		{progOpenSMTPD, func(ctx context.Context) (*process, error) { return startOpenSMTPD(ctx, t.dir) }},
		{progGoSMTP, func(ctx context.Context) (*process, error) { return startGoSMTP(ctx, t, progGoSMTP, gosmtpAddr) }},
		{progGoSMTP24, func(ctx context.Context) (*process, error) { return startGoSMTP(ctx, t, progGoSMTP24, gosmtp24Addr) }},
		{progGoSMTP21, func(ctx context.Context) (*process, error) { return startGoSMTP(ctx, t, progGoSMTP21, gosmtp21Addr) }},
		{progDovecot, func(ctx context.Context) (*process, error) { return startDovecot(ctx, t.dir) }},
	} {
		if t.absent[server.program] {
			continue
		}
		p, failed := server.start(ctx)
		if p != nil {
			defer func() { err = errors.Join(err, p.stop()) }()
		}
		if failed != nil {
			return failed
		}
	}
	if err := t.runTests(ctx, words); err != nil {
		return err
	}
	return errors.Join(t.spoolEmpty(ctx), t.logClean())
}

// runTests runs the tests that have one of the words in their name, or all.
func (t *trial) runTests(ctx context.Context, words []string) error {
	var ran, failed, left int
	var abreast sync.WaitGroup
	for i, test := range append(tests(), refusalTests()...) {
		wanted := len(words) == 0 || slices.ContainsFunc(words, func(w string) bool { return strings.Contains(test.name, w) })
		if !wanted || ctx.Err() != nil {
			continue
		}
		if missing := slices.IndexFunc(test.needs, func(p program) bool { return t.absent[p] }); missing >= 0 {
			left++
			t.print(func() { fmt.Printf("skipped %-24s there is no %s\n", test.name, test.needs[missing]) })
			continue
		}
		ran++
		run := func() {
			if !t.runTest(ctx, test) {
				t.print(func() { failed++ })
			}
		}
		if t.abreast && i >= len(tests()) {
			abreast.Go(run)
		} else {
			run()
		}
	}
	abreast.Wait()
	switch {
	case ctx.Err() != nil:
		return errors.New("interrupted")
	case ran+left == 0:
		return errors.New("no test has such a name")
	case failed > 0:
		return fmt.Errorf("%d of %d tests failed; everything is in %s", failed, ran, t.dir)
	}
	return nil
}

// runTest runs one test, prints how it went, and reports whether it was passed.
func (t *trial) runTest(ctx context.Context, test test) bool {
	begin := time.Now()
	messages, recipients, err := test.run(ctx, t)
	took := time.Since(begin).Seconds()
	t.print(func() {
		if err != nil {
			fmt.Printf("FAILED  %-24s after %.1f s: %v\n", test.name, took, err)
			return
		}
		fmt.Printf("ok      %-24s %5d messages %6d recipients %6.1f s   %s\n", test.name, messages, recipients, took, test.what)
	})
	return err == nil
}

// emptyMax is the longest time that the spool may take to become empty: deferred mail waits
// for two seconds at most.
const emptyMax = 2 * time.Minute

// spoolEmpty waits until the daemon holds no mail.
func (t *trial) spoolEmpty(ctx context.Context) error {
	c := client.New(filepath.Join(posthasteQueue(t.dir), "admin.sock"))
	defer c.Close()
	for deadline := time.Now().Add(emptyMax); ; {
		s, err := c.Status(ctx, 0)
		if err != nil {
			return err
		}
		n := s.Spool
		if n.Incoming+n.Deferred+n.Hold+n.Corrupt == 0 && s.Core.Messages == 0 {
			return nil
		}
		if time.Now().After(deadline) {
			return fmt.Errorf("the spool is not empty: %+v", n)
		}
		time.Sleep(50 * time.Millisecond)
	}
}

// status is what the daemon says of itself, for a person to look at.
func (t *trial) status(ctx context.Context) string {
	text, err := command(ctx, "", t.binary, "queue", "status", "--queue-directory", posthasteQueue(t.dir))
	if err != nil {
		return err.Error()
	}
	return text
}

// logClean reports whether the daemon had reason to log an error.
func (t *trial) logClean() error {
	text, err := os.ReadFile(filepath.Join(t.dir, "posthaste.out"))
	if err != nil {
		return err
	}
	var wrong complaints
	for line := range bytes.Lines(text) {
		if bytes.Contains(line, []byte("level=ERROR")) || bytes.HasPrefix(line, []byte("panic")) {
			wrong.add("%s", bytes.TrimSpace(line))
		}
	}
	return wrong.error("errors in the daemon's log")
}
