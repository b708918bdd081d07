package daemon

import (
	"os"
	"os/exec"
	"strings"
	"syscall"
	"testing"

	"github.com/posthaste-mta/posthaste/internal/sink"
	"github.com/posthaste-mta/posthaste/mail"
)

// inNamespace runs a test again in a process with a network of its own, where addresses can
// come and go, and reports whether this is that process. A machine that does not permit it
// skips the test.
func inNamespace(t *testing.T) bool {
	t.Helper()
	const mark = "POSTHASTE_TEST_NAMESPACE"
	if os.Getenv(mark) == t.Name() {
		if out, err := exec.CommandContext(t.Context(), "ip", "link", "set", "lo", "up").CombinedOutput(); err != nil {
			t.Skipf("the network cannot be changed: %s", out)
		}
		return true
	}
	if _, err := exec.LookPath("ip"); err != nil {
		t.Skip(err)
	}
	again := exec.CommandContext(t.Context(), os.Args[0], "-test.run=^"+t.Name()+"$", "-test.count=1")
	again.Env = append(os.Environ(), mark+"="+t.Name())
	again.SysProcAttr = &syscall.SysProcAttr{
		Cloneflags:  syscall.CLONE_NEWUSER | syscall.CLONE_NEWNET,
		UidMappings: []syscall.SysProcIDMap{{HostID: os.Getuid(), Size: 1}},
		GidMappings: []syscall.SysProcIDMap{{HostID: os.Getgid(), Size: 1}},
	}
	var out strings.Builder
	again.Stdout, again.Stderr = &out, &out
	if err := again.Start(); err != nil {
		t.Skip(err)
	}
	if err := again.Wait(); err != nil {
		t.Errorf("%v:\n%s", err, &out)
	}
	return false
}

// ip changes the network of the process.
func ip(t *testing.T, args string) {
	t.Helper()
	if out, err := exec.CommandContext(t.Context(), "ip", strings.Fields(args)...).CombinedOutput(); err != nil {
		t.Fatalf("ip %s: %v: %s", args, err, out)
	}
}

// An address goes away: its mail leaves from the other source, and no message suffers. It
// comes back and is used again by itself. If both are gone the mail waits; it leaves from no
// other address, and is sent as soon as one is back.
func TestAddressThatGoesAway(t *testing.T) {
	t.Parallel()
	if !inNamespace(t) {
		return
	}
	const a, b = "198.18.0.1", "198.18.0.2"
	ip(t, "addr add "+a+"/32 dev lo")
	ip(t, "addr add "+b+"/32 dev lo")
	box := receive(t, sink.Config{})
	sources := strings.NewReplacer(sourceA.String(), a, sourceB.String(), b).Replace(sourceTables())
	// On a busy machine both addresses may be tried before one is back, and what the core has tried again for
	// that is not tried for the next trial within ten minutes. So the mail has short pauses of its own.
	pauses := "minimal_backoff_time = \"2s\"\nmaximal_backoff_time = \"4s\"\n"
	r := start(t, t.TempDir(), pauses+"smtp_connection_cache_time_limit = \"10ms\"\n"+sources+routes("d.test", box.address))
	count := func(addr string) (n int) {
		for _, d := range box.deliveries() {
			if d.Client.Addr.String() == addr {
				n++
			}
		}
		return n
	}
	quiet := func() { r.until("no connections", func() bool { return box.Stats().Open == 0 }) }
	letters, want := bulk(70, "u@d.test")
	r.feed(letters[:20]...)
	r.settled()
	quiet()
	if count(a) != 10 || count(b) != 10 {
		t.Errorf("%d from a, %d from b", count(a), count(b))
	}

	ip(t, "addr del "+a+"/32 dev lo")
	r.feed(letters[20:40]...)
	r.settled()
	quiet()
	if count(a) != 10 || count(b) != 30 {
		t.Errorf("without a: %d from a, %d from b", count(a), count(b))
	}
	if n := r.log.count("level=WARN", "msg=withdrawn", "source=a", a+": cannot assign requested address"); n != 1 {
		t.Errorf("%d lines say that a is withdrawn", n)
	}

	ip(t, "addr add "+a+"/32 dev lo")
	r.until("a trial of a", func() bool {
		views, err := r.d.driver.Sources(t.Context(), 0)
		return err == nil && len(views) == 2 && views[0].Addresses[0].State == "tried"
	})
	r.feed(letters[40:60]...)
	r.settled()
	quiet()
	if count(a) != 20 || count(b) != 40 {
		t.Errorf("with a again: %d from a, %d from b", count(a), count(b))
	}
	if n := r.log.count("msg=restored", "source=a"); n != 1 {
		t.Errorf("%d lines say that a can be used again", n)
	}

	ip(t, "addr del "+a+"/32 dev lo")
	ip(t, "addr del "+b+"/32 dev lo")
	r.feed(letters[60:]...)
	r.waiting("deferred mail", census{mail.AreaDeferred: 10})
	if n := r.log.count("status=deferred", "no source of pool main can be used"); n < 10 {
		t.Errorf("%d recipients are deferred for lack of a source", n)
	}
	ip(t, "addr add "+b+"/32 dev lo")
	r.settled()
	for _, d := range box.deliveries() {
		if s := d.Client.Addr.String(); s != a && s != b {
			t.Errorf("%s came from %s", d.Key, s)
		}
	}
	box.copies().matches(t, want)
}
