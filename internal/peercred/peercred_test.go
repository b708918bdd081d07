package peercred

import (
	"net"
	"os"
	"path/filepath"
	"runtime"
	"testing"
)

// The other end of a connection that this process made is this process.
func TestUser(t *testing.T) {
	ln, err := net.Listen("unix", filepath.Join(t.TempDir(), "s"))
	if err != nil {
		t.Fatal(err)
	}
	defer ln.Close()
	client, err := net.Dial("unix", ln.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	defer client.Close()
	conn, err := ln.Accept()
	if err != nil {
		t.Fatal(err)
	}
	uid, ok := User(conn.(*net.UnixConn))
	if want := runtime.GOOS == "linux"; ok != want || ok && int(uid) != os.Getuid() {
		t.Errorf("user %d, %t; want %d, %t", uid, ok, os.Getuid(), want)
	}
	conn.Close()
	if _, ok := User(conn.(*net.UnixConn)); ok {
		t.Error("a closed connection has a user")
	}
}
