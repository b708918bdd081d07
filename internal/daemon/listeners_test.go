package daemon

import (
	"context"
	"log/slog"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/posthaste-mta/posthaste/internal/feed"
	"github.com/posthaste-mta/posthaste/internal/sink"
)

// An operator adds and removes listeners by reloading. A session on a listener that is
// gone ends in its own time, and one that stays is not even closed for a moment: its port,
// which the system chose, is the same.
func TestReloadOfListeners(t *testing.T) {
	t.Parallel()
	box := receive(t, sink.Config{})
	route := routes("good.test", box.address)
	dir := t.TempDir()
	path := filepath.Join(dir, "in.sock")
	r := start(t, dir, route)
	stays := r.address()
	reload := func(text string) error {
		restart, err := r.d.reload(configure(t, dir, text+route))
		if err == nil && len(restart) > 0 {
			t.Errorf("%q need a restart", restart)
		}
		return err
	}
	if err := reload("[[listener]]\naddress = \"127.0.0.1:0\"\nname = \"second\"\nmessage_size_limit = \"64K\"\n[[listener]]\naddress = \"unix:" + path + "\"\n"); err != nil {
		t.Fatal(err)
	}
	all := r.d.addresses()
	if len(all) != 2 || all[0] != stays {
		t.Fatalf("listeners at %q, the first was at %s", all, stays)
	}
	second, local := sendOn(t, "tcp", all[1]), sendOn(t, "unix", path)
	if reply := second("<1>", 100_000); !strings.Contains(reply, "Message size") {
		t.Errorf("a message beyond the listener's limit: %q", reply)
	}
	if reply := local("<2>", 100_000); reply != "" {
		t.Error(reply)
	}
	if err := reload(""); err != nil {
		t.Fatal(err)
	}
	if all := r.d.addresses(); len(all) != 1 || all[0] != stays {
		t.Errorf("listeners at %q, the first was at %s", all, stays)
	}
	if _, err := os.Stat(path); !os.IsNotExist(err) {
		t.Errorf("the socket is left: %v", err)
	}
	if c, err := net.Dial("tcp", all[1]); err == nil {
		c.Close()
		t.Error("the listener that is gone accepts connections")
	}
	if reply := local("<3>", 100); reply != "" {
		t.Errorf("the session on a listener that is gone: %s", reply)
	}
	r.feed(letter("<4>", "a@good.test"))
	r.settled()
	box.copies().matches(t, copies{"<2> a@good.test": 1, "<3> a@good.test": 1, "<4> a@good.test": 1})
}

// A listener that cannot be opened leaves everything as it was.
func TestReloadOfListenersFails(t *testing.T) {
	t.Parallel()
	used := listen(t)
	defer used.Close()
	dir := t.TempDir()
	r := start(t, dir, "")
	path := filepath.Join(dir, "in.sock")
	_, err := r.d.reload(configure(t, dir, "[[listener]]\naddress = \"unix:"+path+"\"\n[[listener]]\naddress = \""+used.Addr().String()+"\"\nname = \"taken\"\n"))
	if err == nil || !strings.Contains(err.Error(), "listener taken: listen tcp "+used.Addr().String()) || !strings.Contains(err.Error(), "address already in use") {
		t.Errorf("error %v", err)
	}
	if _, err := os.Stat(path); !os.IsNotExist(err) {
		t.Errorf("the socket is left: %v", err)
	}
	if all := r.d.addresses(); len(all) != 1 {
		t.Errorf("listeners at %q", all)
	}
	r.dial().Abort()
}

// A unix socket is given to another group under the same path, and the new one stays there
// when the old one closes.
func TestReloadReplacesSocket(t *testing.T) {
	t.Parallel()
	if os.Geteuid() != 0 {
		t.Skip("only root may give a socket to any group")
	}
	dir := t.TempDir()
	path := filepath.Join(dir, "in.sock")
	table := "[[listener]]\naddress = \"unix:" + path + "\"\n"
	r := start(t, dir, table)
	if _, err := r.d.reload(configure(t, dir, table+"group = \"1\"\n")); err != nil {
		t.Fatal(err)
	}
	info, err := os.Stat(path)
	if err != nil || info.Mode().Perm() != 0o660 {
		t.Fatalf("%v %v", info, err)
	}
	sendOn(t, "unix", path)
}

// Sockets that systemd hands over have the terms of the listeners at their addresses, stay
// open whatever a reload says, and replace listen; a listener that was not handed over is
// opened.
func TestHandedOverSockets(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	handed, other := listen(t), listen(t)
	text := "[[listener]]\naddress = \"" + handed.Addr().String() + "\"\nname = \"handed\"\nrecipient_limit = 100\n[[listener]]\naddress = \"unix:" + filepath.Join(dir, "in.sock") + "\"\n"
	d, err := New(configure(t, dir, text), Options{Log: slog.New(slog.DiscardHandler), Listeners: []net.Listener{handed, other}})
	if err != nil {
		t.Fatal(err)
	}
	defer d.Close()
	got := map[string]int{}
	for _, l := range d.listeners(d.current) {
		got[l.Name] = l.Limits.Recipients
	}
	want := map[string]int{"handed": 100, other.Addr().String(): 0, "unix:" + filepath.Join(dir, "in.sock"): 0, "": 0}
	if len(got) != len(want) || got["handed"] != 100 {
		t.Errorf("%v, want %v", got, want)
	}
	for name := range want {
		if _, ok := got[name]; !ok {
			t.Errorf("no listener %q in %v", name, got)
		}
	}
	again, err := d.intake.open(configure(t, dir, ""))
	if err != nil || len(again) != 2 || !again[0].handed || !again[1].handed {
		t.Errorf("after a reload without them: %v, %v", again, err)
	}
}

// sendOn connects, and returns a function that sends a message on the connection and
// returns the refusal, or "".
func sendOn(t *testing.T, network, address string) func(key string, size int) string {
	t.Helper()
	c, err := feed.Dial(context.Background(), network, address)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.Abort)
	return func(key string, size int) string {
		t.Helper()
		m := letter(key, "a@good.test")
		m.Content = text(key, strings.Repeat(strings.Repeat("x", 70)+"\r\n", size/72))
		if got := c.Send(m); got.Fate != feed.Accepted {
			return got.Reply.Text
		}
		return ""
	}
}
