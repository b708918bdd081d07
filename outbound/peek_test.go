//go:build unix

package outbound

import (
	"errors"
	"io"
	"net"
	"os"
	"syscall"
	"testing"
	"time"

	"github.com/posthaste-mta/posthaste/smtp/client"
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

// Looking at an idle connection takes no time, and tells nothing, octets and the
// end apart, even if the time for the last reply is long over.
func TestReadNow(t *testing.T) {
	ours, theirs := socketPair(t)
	k := &conn{sock: ours, raw: rawConn(ours), in: make([]byte, 100)}
	if k.raw == nil {
		t.Fatal("the connection has no descriptor")
	}
	ours.SetReadDeadline(longAgo())
	if n, err := k.peek(); n != 0 || err != nil {
		t.Errorf("nothing there: %d, %v", n, err)
	}
	io.WriteString(theirs, "421 bye")
	if n, err := k.peek(); string(k.in[:n]) != "421 bye" || err != nil {
		t.Errorf("octets there: %q, %v", k.in[:n], err)
	}
	theirs.Close()
	if n, err := k.peek(); n != 0 || !errors.Is(err, io.EOF) {
		t.Errorf("closed: %d, %v", n, err)
	}
	ours.Close()
	if _, err := k.peek(); err == nil {
		t.Error("our end closed: no error")
	}
}

// An idle session that was closed meanwhile is not alive; one that just fell
// idle is taken at its word.
func TestAlive(t *testing.T) {
	ours, theirs := socketPair(t)
	k := &conn{sock: ours, raw: rawConn(ours), in: make([]byte, 100), session: client.New(client.Config{Hello: "me"})}
	for _, say := range []string{"220 mx\r\n", "250 mx\r\n"} {
		k.session.Feed([]byte(say))
		n := 0
		for _, piece := range k.session.Out(nil) {
			n += len(piece)
		}
		k.session.Written(n)
	}
	k.idleSince = time.Now()
	later := k.idleSince.Add(freshFor)
	if !k.alive(later) {
		t.Error("a good session is not alive")
	}
	theirs.Close()
	if !k.alive(k.idleSince) {
		t.Error("a session was looked at that just fell idle")
	}
	if k.alive(later) || !k.session.Over() {
		t.Error("a closed session is alive")
	}
}
