//go:build unix

package milter

import (
	"errors"
	"net"
	"os"
	"path/filepath"
	"syscall"
	"testing"
	"time"
)

// A milter that listens on a unix socket, and accepts a connection only now and then, has a queue of
// them, which is full when many clients begin a message at once. The system does not wait for room
// there, as it does with TCP: that is no failure of the milter as long as its time limit is not over.
func TestFullQueueOfSocket(t *testing.T) {
	path := filepath.Join(t.TempDir(), "socket")
	fd, err := syscall.Socket(syscall.AF_UNIX, syscall.SOCK_STREAM, 0)
	if err != nil {
		t.Fatal(err)
	}
	file := os.NewFile(uintptr(fd), path)
	if err := errors.Join(syscall.Bind(fd, &syscall.SockaddrUnix{Name: path}), syscall.Listen(fd, 0)); err != nil {
		t.Fatal(err)
	}
	ln, err := net.FileListener(file)
	file.Close()
	if err != nil {
		t.Fatal(err)
	}
	var waiting []net.Conn
	for len(waiting) < 100 {
		conn, err := net.Dial("unix", path)
		if err != nil {
			if !errors.Is(err, syscall.EAGAIN) {
				t.Fatal(err)
			}
			break
		}
		waiting = append(waiting, conn)
	}
	if len(waiting) == 100 {
		t.Skip("on this system the queue of a socket is not limited")
	}
	hasty, err := New(Config{Name: "hasty", Network: "unix", Address: path, ConnectTimeout: 20 * time.Millisecond})
	if err != nil {
		t.Fatal(err)
	}
	began := time.Now()
	if _, err := hasty.open(t.Context()); !errors.Is(err, syscall.EAGAIN) || time.Since(began) < 20*time.Millisecond {
		t.Errorf("%v after %v", err, time.Since(began))
	}
	m, err := New(Config{Name: "m", Network: "unix", Address: path})
	if err != nil {
		t.Fatal(err)
	}
	done := make(chan struct{})
	go func() {
		defer close(done)
		for _, conn := range waiting {
			conn.Close()
		}
		for {
			conn, err := ln.Accept()
			if err != nil {
				return
			}
			new(fake).serve(conn)
		}
	}()
	talk, err := m.open(t.Context())
	if err != nil {
		t.Error(err)
	} else {
		talk.quit()
	}
	ln.Close()
	<-done
}
