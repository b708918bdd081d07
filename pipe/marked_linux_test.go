package pipe

import (
	"io"
	"os"
	"os/exec"
	"strconv"
	"testing"
	"time"

	"github.com/posthaste-mta/posthaste/mail"
)

// A program starts a process that leaves its group and its session, and one that becomes a daemon: its parent
// has ended, and only its environment shows to which program it belongs. When the time is over, both are
// killed, and no process of another delivery is.
//
// Seen failing: with the group killed alone, both lived on.
func TestDaemonsAreKilled(t *testing.T) {
	if _, err := exec.LookPath("setsid"); err != nil {
		t.Skip("setsid is not installed")
	}
	const long = 60 // s, after which what is not killed ends by itself
	path, otherPath := fifo(t), fifo(t)
	c := shell(`exec 3>$F; setsid sh -c 'echo >&3; sleep $LONG' & setsid sh -c 'setsid sh -c "echo >&3; sleep $LONG" &' ; exec 3>&-; exec sleep $LONG`)
	c.Environment = []string{"F=" + path, "LONG=" + strconv.Itoa(long)}
	a := newAgent(t, c, contents{1: "x\r\n"})
	a.programs["p"].TimeLimit = 2 * time.Second
	other := shell(`setsid sh -c 'echo >$F; exec sleep $LONG' >/dev/null 2>&1 & exit 0`)
	other.Environment = []string{"F=" + otherPath, "LONG=" + strconv.Itoa(long)}
	done := make(chan mail.DeliveryResult)
	go func() { done <- newAgent(t, other, contents{1: "x\r\n"}).Deliver(t.Context(), delivery("b@x")) }()
	if _, err := os.ReadFile(otherPath); err != nil {
		t.Fatal(err)
	}
	if r := <-done; r.Outcomes[0].Result != mail.Delivered {
		t.Fatalf("%+v", r)
	}
	neighbors := daemons(t, otherPath)
	defer killAll(neighbors)
	if len(neighbors) != 1 {
		t.Fatalf("the other program has left %d processes", len(neighbors))
	}

	began := time.Now()
	go func() { done <- a.Deliver(t.Context(), delivery("b@x")) }()
	in, err := os.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer in.Close()
	if _, err := io.ReadFull(in, make([]byte, 2)); err != nil { // both run
		t.Fatal(err)
	}
	if r := <-done; !r.Outcomes[0].Unknown {
		t.Errorf("%+v", r)
	}
	if _, err := io.Copy(io.Discard, in); err != nil || time.Since(began) > long*time.Second/2 { // until no process can write any more
		t.Errorf("what the program has started ended after %v, %v", time.Since(began), err)
	}
	if left := daemons(t, otherPath); len(left) != 1 {
		t.Errorf("of the other program %d processes are left", len(left))
	}
}

// daemons returns the processes that were started with a FIFO's path as their variable F.
func daemons(t *testing.T, path string) (all []int) {
	t.Helper()
	names, err := os.ReadDir("/proc")
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range names {
		if pid, err := strconv.Atoi(e.Name()); err == nil && marked(e.Name(), []byte("F="+path)) {
			all = append(all, pid)
		}
	}
	return all
}

// killAll ends processes that this test has started.
func killAll(pids []int) {
	for _, pid := range pids {
		if p, err := os.FindProcess(pid); err == nil {
			p.Kill() // it may have ended
		}
	}
}
