package daemon

import (
	"encoding/json"
	"fmt"
	"net"
	"strings"
	"testing"

	"github.com/posthaste-mta/posthaste/admin"
	"github.com/posthaste-mta/posthaste/internal/sink"
	"github.com/posthaste-mta/posthaste/mail"
)

// B-130: the best host of a domain takes all of a message and hangs up instead of replying, for ever. After three attempts,
// between which the daemon is stopped, the message goes to the other host, once. Nothing is returned meanwhile, and an operator sees
// where it may be.
func TestOtherHostAfterDoubtfulAttempts(t *testing.T) {
	t.Parallel()
	ln, err := net.Listen("tcp", "127.0.0.2:0")
	if err != nil {
		t.Skipf("this machine has only one loopback address: %v", err)
	}
	deaf := receive(t, sink.Config{Faults: []sink.Fault{{Stage: sink.AtCommit, Kind: sink.Drop, Share: 1}}}, ln)
	_, port, _ := net.SplitHostPort(deaf.address)
	ln, err = net.Listen("tcp", "127.0.0.3:"+port)
	if err != nil {
		t.Skipf("the port is in use at the other address: %v", err)
	}
	well := receive(t, sink.Config{}, ln)
	server := zone(t, `
d.test.        60 IN MX 10 deaf.d.test.
d.test.        60 IN MX 20 well.d.test.
deaf.d.test.   60 IN A 127.0.0.2
well.d.test.   60 IN A 127.0.0.3
`)
	dir := t.TempDir()
	config := fmt.Sprintf("dns.servers = [%q]\nsmtp_permit_private_hosts = true\n", server) + routes("d.test", "smtp:d.test:"+port)
	r := start(t, dir, config)
	r.feed(letter("<1>", "a@d.test"))
	attempts := func() int { return r.log.count("msg=delivery", "status=deferred", "unknown=true") }
	for i := 1; i <= 3; i++ {
		r.until(fmt.Sprintf("attempt %d", i), func() bool { return attempts() == 1 })
		r.waiting("it waits", census{mail.AreaDeferred: 1})
		var page struct{ Messages []admin.Summary }
		if err := json.Unmarshal([]byte(r.asks("/v1/messages?recipients=1")), &page); err != nil {
			t.Fatal(err)
		}
		if got := page.Messages[0].Recipients[0].Doubtful; len(got) != 1 || got[0] != (admin.Doubtful{Host: "127.0.0.2:" + port, Times: i}) {
			t.Errorf("after attempt %d: %+v", i, got)
		}
		text := queueCommand(t, dir, "show", page.Messages[0].ID)
		if shown := "127.0.0.2:" + port + " may have the message: no reply to its content, "; !strings.Contains(text, shown) || strings.Contains(text, "other hosts come first") != (i == 3) {
			t.Errorf("after attempt %d, shown is\n%s", i, text)
		}
		why := explain(t, dir, page.Messages[0].ID)
		if next := "  Next      other hosts of the destination come first for this message"; !strings.Contains(why, "  Doubt     127.0.0.2:"+port+" may have the message: no reply to its content, "+[]string{"", "once", "2 times", "3 times"}[i]+"; for a@d.test\n") || strings.Contains(why, next) != (i == 3) {
			t.Errorf("after attempt %d, explained is\n%s", i, why)
		}
		if logged := fmt.Sprintf("doubtful=\"127.0.0.2:%s=%d\"", port, i); r.log.count("msg=delivery", logged) != 1 && r.log.count("msg=delivery", strings.ReplaceAll(logged, "\"", "")) != 1 {
			t.Errorf("the log does not have %s", logged)
		}
		r.end()
		r = start(t, dir, config)
		queueCommand(t, dir, "flush")
	}
	r.settled()
	well.copies().matches(t, copies{"<1> a@d.test": 1})
	if st := deaf.Stats(); st.Connections != 3 || r.log.count("status=bounced") > 0 {
		t.Errorf("the first host was asked %d times", st.Connections)
	}
}
