package daemon

import (
	"context"
	"fmt"
	"net"
	"os"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/posthaste-mta/posthaste/internal/feed"
	"github.com/posthaste-mta/posthaste/internal/sink"
	"github.com/posthaste-mta/posthaste/mail"
)

// closedPorts are the sockets that closed has bound, by their addresses.
var closedPorts sync.Map

// closed returns an address at which no server listens. A socket is bound to it, so that
// no daemon of another test, which listens anywhere, takes it meanwhile.
func closed(t *testing.T) string {
	t.Helper()
	fd, err := syscall.Socket(syscall.AF_INET, syscall.SOCK_STREAM, 0)
	if err != nil {
		t.Fatal(err)
	}
	syscall.CloseOnExec(fd)
	file := os.NewFile(uintptr(fd), "bound")
	if err := syscall.Bind(fd, &syscall.SockaddrInet4{Addr: [4]byte{127, 0, 0, 1}}); err != nil {
		t.Fatal(err)
	}
	name, err := syscall.Getsockname(fd)
	if err != nil {
		t.Fatal(err)
	}
	address := fmt.Sprintf("127.0.0.1:%d", name.(*syscall.SockaddrInet4).Port)
	closedPorts.Store(address, file)
	t.Cleanup(func() {
		closedPorts.Delete(address)
		file.Close()
	})
	return address
}

// open starts a receiver at an address that was closed so far.
func open(t *testing.T, address string) *mailbox {
	t.Helper()
	bound, found := closedPorts.Load(address)
	if !found {
		t.Fatalf("%s is not from closed", address)
	}
	file := bound.(*os.File)
	if err := syscall.Listen(int(file.Fd()), 128); err != nil {
		t.Fatal(err)
	}
	ln, err := net.FileListener(file)
	if err != nil {
		t.Fatal(err)
	}
	file.Close() // ln has a descriptor of its own
	return receive(t, sink.Config{}, ln)
}

// A greylisting server refuses strangers at first. The message waits for the
// shortest time, is tried again and arrives, and its sender never knows.
func TestGreylisting(t *testing.T) {
	t.Parallel()
	origin := receive(t, sink.Config{})
	var box *mailbox
	refused := make(chan time.Time, 10)
	box = receive(t, sink.Config{Refused: func(f sink.Refusal) { refused <- f.At; box.accept() }})
	box.refuse(sink.AtRecipient, sink.RefuseForNow)
	r := start(t, t.TempDir(), "minimal_backoff_time = \"1s\"\n"+routes("d.test", box.address, "origin.test", origin.address))
	r.feed(letter("<1>", "a@d.test"))
	r.settled()
	box.copies().matches(t, copies{"<1> a@d.test": 1})
	if waited := box.deliveries()[0].At.Sub(<-refused); waited < time.Second || len(refused) > 0 {
		t.Errorf("it was tried again after %v and refused %d times more", waited, len(refused))
	}
	if n := len(origin.deliveries()); n != 0 {
		t.Errorf("the sender got %d messages", n)
	}
}

// unconnected waits until no connection is being opened: the last one may be when
// all mail has been deferred already.
func (r *rig) unconnected() {
	r.t.Helper()
	r.until("no connection under way", func() bool {
		view, err := r.d.driver.View(context.Background(), 10)
		if err != nil {
			r.t.Fatal(err)
		}
		for _, t := range view.Transports {
			for _, q := range t.Queues {
				if q.Connections.Connecting > 0 {
					return false
				}
			}
		}
		return true
	})
}

// A destination that greets no client becomes dead: mail for it waits without
// being tried, and does not hold up other mail. When an operator says that it
// is alive again, all of it goes out.
func TestDeadDestinationAndFlush(t *testing.T) {
	t.Parallel()
	dead, good := receive(t, sink.Config{GreetingDelay: 200 * time.Millisecond}), receive(t, sink.Config{})
	dead.refuse(sink.AtGreeting, sink.Drop) // one that gives a reason is asked again after 1, 2 and 4 s
	r := start(t, t.TempDir(), routes("dead.test", dead.address, "good.test", good.address))
	const n = 200
	wantGood, wantDead := make(copies), make(copies)
	var letters []feed.Message
	for i := range n {
		letters = append(letters, letter(key(i), "a@dead.test"), letter(key(i), "a@good.test"))
		wantDead.add(key(i), "a@dead.test")
		wantGood.add(key(i), "a@good.test")
	}
	r.feed(letters...)
	r.waiting("all mail for it deferred", census{mail.AreaDeferred: n})
	good.copies().matches(t, wantGood)
	// The initial concurrency is 5, and fails; others may be on their way then. How
	// many depends on how fast the machine is: that it is not one for each message is
	// what matters.
	r.unconnected()
	tried := dead.Stats().Connections
	if tried < 1 || tried > n/4 {
		t.Errorf("%d connections to it, want a few", tried)
	}
	wantDead.add(key(n), "a@dead.test")
	r.feed(letter(key(n), "a@dead.test"))
	r.waiting("one more deferred", census{mail.AreaDeferred: n + 1})
	r.unconnected()
	if again := dead.Stats().Connections; again != tried {
		t.Errorf("%d further connections when it was dead", again-tried)
	}
	dead.accept()
	r.d.driver.RetryAll()
	r.settled()
	dead.copies().matches(t, wantDead)
}

// One of a message's recipients is taken, the other has to wait. The one that
// was taken must not get the message again.
func TestPartialSuccess(t *testing.T) {
	t.Parallel()
	for _, restart := range []bool{false, true} {
		t.Run(map[bool]string{false: "running", true: "restarted"}[restart], func(t *testing.T) {
			t.Parallel()
			gone, box := closed(t), receive(t, sink.Config{})
			dir, text := t.TempDir(), routes("dead.test", gone, "good.test", box.address)
			r := start(t, dir, text)
			r.feed(letter("<1>", "a@good.test", "b@dead.test", "c@good.test"))
			r.waiting("a deferred message", census{mail.AreaDeferred: 1})
			if restart {
				r.end()
				r = start(t, dir, text)
			}
			revived := open(t, gone)
			r.d.driver.RetryAll()
			r.settled()
			box.copies().matches(t, copies{"<1> a@good.test": 1, "<1> c@good.test": 1})
			revived.copies().matches(t, copies{"<1> b@dead.test": 1})
		})
	}
}
