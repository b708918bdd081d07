package daemon

import (
	"fmt"
	"net/textproto"
	"strings"
	"testing"

	"github.com/posthaste-mta/posthaste/internal/sink"
	"github.com/posthaste-mta/posthaste/mail"
)

// say speaks SMTP: it sends each line, and returns the last reply. A line "." ends a message, and
// the lines before it back to DATA have no reply.
func say(t *testing.T, address string, lines ...string) string {
	t.Helper()
	c, err := textproto.Dial("tcp", address)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	reply := func() (string, error) {
		code, text, err := c.ReadResponse(0)
		return fmt.Sprintf("%d %s", code, text), err
	}
	said, err := reply()
	content := false
	for _, line := range append([]string{"EHLO client.test"}, lines...) {
		if err != nil {
			t.Fatalf("before %q: %v", line, err)
		}
		if err = c.PrintfLine("%s", line); err != nil || content && line != "." {
			continue
		}
		content = false
		said, err = reply()
		content = line == "DATA" && strings.HasPrefix(said, "354")
	}
	if err != nil {
		t.Fatal(err)
	}
	return said
}

// mailWith sends one message, whose MAIL has parameters.
func mailWith(t *testing.T, address, parameters, key, to string) string {
	t.Helper()
	return say(t, address, "MAIL FROM:<sender@origin.test>"+parameters, "RCPT TO:<"+to+">", "DATA", "From: <sender@origin.test>", "Message-ID: "+key, "", "Hello.", ".")
}

// A client has mail kept for a time, and until a date: it is sent when its time has come, after a
// restart too, and not before, whatever is flushed; an operator sends it sooner.
func TestFutureRelease(t *testing.T) {
	t.Parallel()
	box := receive(t, sink.Config{})
	dir, text := t.TempDir(), "listen = []\n"+routes("d.test", box.address)+"[[listener]]\naddress = \"127.0.0.1:0\"\npurpose = \"submission\"\ntls = \"none\"\n"
	text = strings.Replace(text, "listen = []\n", "", 1)
	r := start(t, dir, text)
	submission := r.d.addresses()[1]
	if got := say(t, submission); !strings.Contains(got, "FUTURERELEASE 2592000 20") {
		t.Errorf("EHLO is answered with %q", got)
	}
	if got := mailWith(t, submission, " HOLDFOR=1", "<soon>", "a@d.test"); !strings.HasPrefix(got, "250") {
		t.Fatal(got)
	}
	if got := mailWith(t, submission, " HOLDFOR=3600", "<later>", "a@d.test"); !strings.HasPrefix(got, "250") {
		t.Fatal(got)
	}
	if got := say(t, submission, "MAIL FROM:<sender@origin.test> HOLDFOR=2592001"); !strings.HasPrefix(got, "501 5.5.4 Error: mail is kept for at most 2592000 seconds, now until 20") {
		t.Error(got)
	}
	if got := say(t, r.address(), "MAIL FROM:<sender@origin.test> HOLDFOR=1"); !strings.HasPrefix(got, "555 ") {
		t.Errorf("a listener for relaying answers %q", got)
	}
	r.end()
	r = start(t, dir, text)
	r.waiting("the later message only", census{mail.AreaHold: 1})
	r.d.driver.RetryAll()
	r.waiting("it is still there", census{mail.AreaHold: 1})
	box.copies().matches(t, copies{"<soon> a@d.test": 1})
	held := r.ids(mail.AreaHold)
	if m, err := r.d.spool.Lookup(t.Context(), held[0]); err != nil || m.Envelope.Release.Sub(m.Envelope.Arrived).Hours() > 1.01 || m.Place.Due != m.Envelope.Release {
		t.Errorf("it is %+v, %v", m, err)
	}
	r.d.driver.Release(held)
	r.settled()
	box.copies().matches(t, copies{"<soon> a@d.test": 1, "<later> a@d.test": 1})
}
