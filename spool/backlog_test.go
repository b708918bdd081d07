package spool

import (
	"bufio"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime/debug"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/posthaste-mta/posthaste/mail"
)

var backlogFlag = flag.Int("spool.backlog", 0, "messages in the backlog test, 1000000 for the budget; 0 skips it")

// A backlog of a million deferred messages must cost neither memory nor time: the
// process that has built it is killed, and the next one must be ready at once, in
// the memory that an empty spool uses.
//
//	go test ./spool -run TestBacklog -v -timeout 30m -spool.backlog 1000000
func TestBacklog(t *testing.T) {
	if dir := os.Getenv("SPOOL_TEST_BACKLOG"); dir != "" {
		backlogChild(t, dir)
		return
	}
	if *backlogFlag == 0 {
		t.Skip("takes minutes; see the flag spool.backlog")
	}
	dir := t.TempDir()
	buildBacklog(t, dir, *backlogFlag)

	start := time.Now()
	s, err := Open(Config{Settings: Settings{Dir: dir}})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	reopened := time.Since(start)
	start, steps := time.Now(), s.Health().Steps
	f, err := s.Find(ctxTest, mail.AreaDeferred, mail.Cursor{}, 1)
	if err != nil || len(f.Cursors) != 1 {
		t.Fatal(f, err)
	}
	first := time.Since(start)
	steps = s.Health().Steps - steps
	start = time.Now()
	st, err := s.Stats(ctxTest)
	if err != nil {
		t.Fatal(err)
	}
	counted := time.Since(start)
	start = time.Now()
	popped := popBacklog(t, s, 50_000)
	perSecond := float64(popped) / time.Since(start).Seconds()
	debug.FreeOSMemory()
	rss := memory(t, os.Getpid(), "VmRSS")
	t.Logf("reopen after kill -9 %v; first due %v, %d keys; count %v; defer with cursor %.0f/s; RSS %d MB", reopened, first, steps, counted, perSecond, rss>>20)
	t.Logf("store %d MB, %+v", st.StoreOctets>>20, st.Health)
	if got := st.Messages[mail.AreaDeferred]; got != uint64(*backlogFlag) {
		t.Errorf("%d deferred messages, want %d", got, *backlogFlag)
	}
	if steps > 100 || rss > 200<<20 {
		t.Errorf("over budget: %d keys were read for the first due, 200 MB", steps)
	}
	if *backlogFlag >= 1_000_000 && (reopened > 2*time.Second || first > time.Millisecond) { // by hand, on a quiet machine
		t.Error("over budget: 2 s to reopen, 1 ms to the first due")
	}
}

// One message to a million recipients is accepted, read, expired, reported on and
// removed in the memory that any other message uses.
func TestMillionRecipients(t *testing.T) {
	if *backlogFlag == 0 {
		t.Skip("takes some seconds; see the flag spool.backlog")
	}
	s, err := Open(Config{Settings: Settings{Dir: t.TempDir()}})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	lap := func(what string, since time.Time) {
		t.Logf("%s: %v, peak RSS %d MB", what, time.Since(since), memory(t, os.Getpid(), "VmHWM")>>20)
	}
	start := time.Now()
	d := draft(t, s, nil, text(4000))
	for i := range 1_000_000 {
		if err := d.AddRecipient(mail.Recipient{Address: mail.Address("user" + strconv.Itoa(i) + "@example.org")}); err != nil {
			t.Fatal(err)
		}
	}
	if err := d.Commit(ctxTest, mail.Envelope{Sender: "bob@example.com"}); err != nil {
		t.Fatal(err)
	}
	lap("accept", start)
	id, place := d.ID(), d.Arrival().Place
	start = time.Now()
	if batch, err := s.Read(ctxTest, id, 999_000, 100); err != nil || batch.Recipients[99].Address != "user999099@example.org" {
		t.Fatal(batch, err)
	}
	lap("read 100 near the end", start)
	start = time.Now()
	got := apply(t, s, mail.Change{Op: mail.ChangeExpire, ID: id, Place: place, At: 5})[0]
	lap("expire", start)
	start = time.Now()
	payBacklog(t, s, id)
	lap("report", start)
	start = time.Now()
	apply(t, s, mail.Change{Op: mail.ChangeRemove, ID: id, Place: got.Place})
	lap("remove", start)
	checkNoRemains(t, s)
	if peak := memory(t, os.Getpid(), "VmHWM"); peak > 300<<20 {
		t.Errorf("peak RSS %d MB", peak>>20)
	}
}

// payBacklog clears all owed reports of a message, 1,000 at a time.
func payBacklog(t *testing.T, s *Spool, id mail.QueueID) {
	t.Helper()
	for from, more, paid := uint32(0), true, 0; more; {
		debts, left, err := s.Debts(ctxTest, id, from, 1000)
		if err != nil {
			t.Fatal(err)
		}
		outs := make([]mail.Outcome, len(debts))
		for i := range debts {
			outs[i].Index = debts[i].Recipient.Index
			from = outs[i].Index + 1
		}
		more = left
		paid += len(debts)
		changed := apply(t, s, mail.Change{Op: mail.ChangeReported, ID: id, Outcomes: outs})[0]
		if changed.Reports != more {
			t.Fatalf("after %d debts were paid: more %v, reports owed %v", paid, more, changed.Reports)
		}
	}
}

// buildBacklog lets another process fill the spool, and kills it.
func buildBacklog(t *testing.T, dir string, n int) {
	t.Helper()
	cmd := exec.Command(os.Args[0], "-test.run=^TestBacklog$", "-test.timeout=1h")
	cmd.Env = append(os.Environ(), "SPOOL_TEST_BACKLOG="+dir, "SPOOL_TEST_BACKLOG_N="+strconv.Itoa(n))
	cmd.Stderr = os.Stderr
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if _, err := cmd.StdinPipe(); err != nil { // it ends when we do
		t.Fatal(err)
	}
	start := time.Now()
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	line, err := bufio.NewReader(out).ReadString('\n')
	if err != nil || line != "filled\n" {
		t.Fatal(line, err)
	}
	took := time.Since(start)
	peak, now := memory(t, cmd.Process.Pid, "VmHWM"), memory(t, cmd.Process.Pid, "VmRSS")
	t.Logf("%d messages accepted and deferred in %v (%.0f/s); RSS %d MB, peak %d MB", n, took, float64(n)/took.Seconds(), now>>20, peak>>20)
	if err := cmd.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	_ = cmd.Wait() // it was killed
}

func backlogChild(t *testing.T, dir string) {
	n, err := strconv.Atoi(os.Getenv("SPOOL_TEST_BACKLOG_N"))
	if err != nil {
		t.Fatal(err)
	}
	s, err := Open(Config{Settings: Settings{Dir: dir}})
	if err != nil {
		t.Fatal(err)
	}
	fill(t, s, n, 1_000_000_007)
	fmt.Println("filled")
	_, _ = os.Stdin.Read(make([]byte, 1))
}

// popBacklog defers n messages again, 100 to a commit.
func popBacklog(t *testing.T, s *Spool, n int) (popped int) {
	t.Helper()
	cursor := mail.Cursor{Bucket: benchFlow.Bucket(), ID: 1}
	for popped < n {
		f, err := s.Fetch(ctxTest, mail.AreaDeferred, cursor, mail.Never, 100)
		if err != nil {
			t.Fatal(err)
		}
		if len(f.Cursors) == 0 {
			break
		}
		cursor = f.Next
		var changes []mail.Change
		for _, c := range f.Cursors {
			changes = append(changes, mail.Change{
				Op: mail.ChangeDefer, ID: c.ID, Place: mail.Place{Area: mail.AreaDeferred, Due: c.Due, Touched: true, Bucket: c.Bucket},
				Due: c.Due.Add(time.Hour), At: 7, Outcomes: []mail.Outcome{busy(0, 7)},
			})
		}
		apply(t, s, changes...)
		popped += len(changes)
	}
	return popped
}

// memory returns the value of a line of a process's status, in bytes.
func memory(t *testing.T, pid int, what string) int64 {
	t.Helper()
	status, err := os.ReadFile(filepath.Join("/proc", strconv.Itoa(pid), "status"))
	if err != nil {
		t.Skip("no /proc: ", err)
	}
	for line := range strings.Lines(string(status)) {
		if rest, ok := strings.CutPrefix(line, what+":"); ok {
			kb, err := strconv.ParseInt(strings.TrimSuffix(strings.TrimSpace(rest), " kB"), 10, 64)
			if err != nil {
				t.Fatal(err)
			}
			return kb << 10
		}
	}
	t.Fatal("no line ", what)
	return 0
}
