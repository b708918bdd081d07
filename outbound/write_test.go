//go:build unix

package outbound

import (
	"fmt"
	"io"
	"net"
	"os"
	"runtime"
	"strings"
	"sync"
	"syscall"
	"testing"

	"github.com/posthaste-mta/posthaste/internal/golden"
	"github.com/posthaste-mta/posthaste/mail"
)

// socketPair returns two ends of a connection that has a descriptor, which
// net.Pipe has not.
func socketPair(t *testing.T) (a, b net.Conn) {
	t.Helper()
	fds, err := syscall.Socketpair(syscall.AF_UNIX, syscall.SOCK_STREAM, 0)
	if err != nil {
		t.Fatal(err)
	}
	var ends [2]net.Conn
	for i, fd := range fds {
		f := os.NewFile(uintptr(fd), "socketpair")
		if ends[i], err = net.FileConn(f); err != nil {
			t.Fatal(err)
		}
		f.Close()
		t.Cleanup(func() { ends[i].Close() })
	}
	return ends[0], ends[1]
}

// narrowPair returns a connection that holds as little as the system permits,
// so that what is written is taken in parts.
func narrowPair(t *testing.T) func() (a, b net.Conn) {
	return func() (a, b net.Conn) {
		a, b = socketPair(t)
		for _, c := range []net.Conn{a, b} {
			raw, err := c.(syscall.Conn).SyscallConn()
			if err == nil {
				err = raw.Control(func(fd uintptr) {
					syscall.SetsockoptInt(int(fd), syscall.SOL_SOCKET, syscall.SO_SNDBUF, 1)
				})
			}
			if err != nil {
				t.Fatal(err)
			}
		}
		return a, b
	}
}

// With both buffers of a real connection full all the time, nothing is lost,
// nothing comes twice, and neither end waits for ever.
func TestNarrowConnection(t *testing.T) {
	for _, level := range levels {
		for _, size := range []int{30000, 300000} {
			t.Run(fmt.Sprintf("%v/%d", level, size), func(t *testing.T) { lazily(t, level, size, narrowPair(t)) })
		}
	}
}

// Output that the system does not accept at once is reported as a short count, without
// waiting; a lost connection is reported as an error.
func TestDirectWriter(t *testing.T) {
	ours, theirs := narrowPair(t)()
	w := newDirectWriter(ours)
	data := []byte(strings.Repeat("x", 1<<20))
	n, err := w.write(data)
	if n == 0 || n == len(data) || err != nil {
		t.Fatalf("wrote %d, %v", n, err)
	}
	if again, err := w.write(data); again != 0 || err != nil {
		t.Errorf("wrote %d more, %v", again, err)
	}
	theirs.Close()
	if _, err := w.write(data); err == nil {
		t.Error("no error after the peer has closed the connection")
	}
	pipe, _ := net.Pipe()
	if newDirectWriter(pipe) != nil {
		t.Error("a connection without a descriptor has a direct writer")
	}
}

// A connection that is idle takes at most 16 KiB, its goroutine included: there
// may be thousands. The server's end is in this process, too.
func TestIdleConnectionIsSmall(t *testing.T) {
	if golden.Race {
		t.Skip("the race detector takes memory of its own; the test runs without it, too")
	}
	const count = 200
	var theirs []net.Conn
	buf := make([]byte, 4096)
	serve := func(say string) {
		last := theirs[len(theirs)-1]
		last.Read(buf)
		io.WriteString(last, say)
	}
	c, err := New(Config{Hello: "me.example", Transports: map[string]TransportConfig{"smtp": {}}}, newFakeNet(), store{1: {data: "x\r\n"}},
		dialFunc(func() (net.Conn, error) {
			a, b := socketPair(t)
			theirs = append(theirs, b)
			io.WriteString(b, "220 mx\r\n")
			go serve("250-mx\r\n250 PIPELINING\r\n")
			return a, nil
		}))
	if err != nil {
		t.Fatal(err)
	}
	before := memoryInUse()
	done := make(chan mail.DeliveryResult)
	var running sync.WaitGroup
	for range count {
		k, _ := c.Dial(t.Context(), mail.Opening{Transport: "smtp", Host: mail.Host{Name: "mx", Addr: address("1")}, Level: mail.LevelOverlap})
		defer k.Hangup()
		running.Go(func() { k.Run(t.Context(), func(_ uint64, r mail.DeliveryResult) { done <- r }) })
		k.Send(1, message(1, "b@example.net"))
		serve("250 ok\r\n250 ok\r\n354 go\r\n")
		serve("250 taken\r\n")
		if r := <-done; r.Outcomes[0].Result != mail.Delivered {
			t.Fatal(r)
		}
	}
	each := (memoryInUse() - before) / count
	t.Logf("%d octets for each connection", each)
	if each > 16<<10 {
		t.Errorf("an idle connection takes %d octets", each)
	}
}

// memoryInUse returns what the heap and the stacks take.
func memoryInUse() int {
	runtime.GC()
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return int(m.HeapAlloc + m.StackInuse)
}
