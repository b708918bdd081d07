package inbound

import (
	"errors"
	"fmt"
	"net/netip"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/posthaste-mta/posthaste/flow"
	"github.com/posthaste-mta/posthaste/qmgr/rate"
	"github.com/posthaste-mta/posthaste/quota"
)

func perTime(t *testing.T, text string) rate.Limits {
	t.Helper()
	l, err := rate.Parse(text)
	if err != nil {
		t.Fatal(err)
	}
	return l
}

// limited starts a server with quotas, whose clients on 127.0.0.1 may name their tenant.
func limited(t *testing.T, cfg quota.Config) (*testServer, *Quotas) {
	q := NewQuotas(cfg)
	return start(t, Config{Quotas: q, Flows: flowRules(t, flow.Config{})}, nil, EarlyLog), q
}

// transact sends a message and returns the number of the reply that refuses it: of MAIL,
// the recipients, or the content.
func (c *client) transact(recipients int, header string, want ...string) {
	c.t.Helper()
	c.say("MAIL FROM:<a@a.example>")
	for i := range recipients + 1 {
		reply := c.hear("")
		if i+1 == len(want) {
			if !strings.HasPrefix(reply, want[i]) {
				c.t.Fatalf("reply %d is %q, want %q", i, reply, want[i])
			}
			c.say("RSET")
			c.hear("250 ")
			return
		}
		if !strings.HasPrefix(reply, want[i]) {
			c.t.Fatalf("reply %d is %q, want %q", i, reply, want[i])
		}
		if i < recipients {
			c.say(fmt.Sprintf("RCPT TO:<b%d@b.example>", i))
		}
	}
	c.say("DATA")
	c.hear("354")
	c.say(header, "", "text", ".")
	c.hear(want[len(want)-1])
}

// What is certain is refused at MAIL, before any content: the tenant of a client that may
// not name another one. Where the header decides, it is refused at the end of the content,
// and the message is not kept.
func TestQuotaOfMessages(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ts, q := limited(t, quota.Config{EachTenant: quota.Limits{Messages: 2}, Tenants: map[string]quota.Limits{"big": {Messages: 3}}})
		stranger, local := ts.dial(t, "192.0.2.1"), ts.dial(t, "127.0.0.1")
		stranger.hello()
		local.hello()
		for range 2 {
			stranger.transact(1, "A: b", "250", "250", "250 2.0.0")
		}
		const full = "452 4.3.1 Too much mail of tenant "
		stranger.transact(1, "A: b", full+"192.0.2.0/24 waits here: 2 of 2 messages; try again later")
		for range 2 {
			local.transact(1, "A: b", "250", "250", "250 2.0.0")
		}
		local.transact(1, "A: b", "250", "250", full+"local waits here: 2 of 2 messages")
		for range 3 {
			local.transact(1, "X-Posthaste-Tenant: big", "250", "250", "250 2.0.0")
		}
		local.transact(1, "X-Posthaste-Tenant: big", "250", "250", full+"big waits here: 3 of 3 messages")
		if n, aborted := len(ts.sink.taken()), ts.sink.abortions(); n != 7 || aborted != 2 {
			t.Errorf("%d messages, %d aborted", n, aborted)
		}
		if n := q.Refused(quota.Tenant, quota.Messages); n != 3 {
			t.Errorf("%d refused", n)
		}

		// New limits are in force at once, in connections that are open.
		q.Configure(quota.Config{EachTenant: quota.Limits{Messages: 3}})
		stranger.transact(1, "A: b", "250", "250", "250 2.0.0")
		stranger.transact(1, "A: b", full)
		q.Configure(quota.Config{})
		stranger.transact(1, "A: b", "250", "250", "250 2.0.0")

		// As long as what waits is being counted, it limits nothing.
		q.Configure(quota.Config{EachTenant: quota.Limits{Messages: 1}})
		stranger.transact(1, "A: b", full)
		ts.sink.mu.Lock()
		ts.sink.counting = true
		ts.sink.mu.Unlock()
		stranger.transact(1, "A: b", "250", "250", "250 2.0.0")
		stranger.Close()
		local.Close()
		ts.end(t)
		if log := ts.log.String(); strings.Count(log, "msg=rejected") != 5 || !strings.Contains(log, "Too much mail of tenant big") {
			t.Errorf("log:\n%s", log)
		}
	})
}

// The first limits may come with a reload.
func TestFirstQuota(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ts, q := limited(t, quota.Config{})
		c := ts.dial(t, "192.0.2.1")
		c.hello()
		c.transact(1, "A: b", "250", "250", "250 2.0.0")
		q.Configure(quota.Config{EachTenant: quota.Limits{Messages: 1}})
		c.transact(1, "A: b", "452 4.3.1")
		c.Close()
		ts.end(t)
	})
}

// Messages per time are counted when they are accepted. The refusal says when to try again, and at
// that time the client's message is accepted.
func TestQuotaOfRate(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ts, _ := limited(t, quota.Config{EachFlow: quota.Limits{MessageRate: perTime(t, "2/min")}})
		c := ts.dial(t, "192.0.2.1")
		c.hello()
		c.transact(1, "A: b", "250", "250", "250")
		c.transact(1, "A: b", "250", "250", "250")
		c.transact(1, "A: b", "450 4.7.1 Too many messages from flow a@a.example: 2 in the last minute, the limit is 2; try again in ")
		time.Sleep(65 * time.Second)
		c.transact(1, "A: b", "250", "250", "250")
		c.Close()
		ts.end(t)
	})
}

// Recipients beyond the limit are refused one by one, and the others get the message.
// Where the tenant is known too late, the message is refused for good.
func TestQuotaOfRecipients(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ts, _ := limited(t, quota.Config{EachTenant: quota.Limits{Recipients: 2, RecipientRate: perTime(t, "3/h")}})
		stranger, local := ts.dial(t, "192.0.2.1"), ts.dial(t, "127.0.0.1")
		stranger.hello()
		local.hello()
		stranger.transact(3, "A: b", "250", "250", "250", "452 4.5.3 Too many recipients for one message of tenant 192.0.2.0/24: the limit is 2")
		stranger.transact(2, "A: b", "250", "250", "250", "250 2.0.0")
		stranger.transact(2, "A: b", "250", "250", "450 4.7.1 Too many recipients from tenant 192.0.2.0/24: 2 in the last hour and 2 in this message, the limit is 3; try again in ")
		stranger.transact(1, "A: b", "250", "250", "250 2.0.0")
		stranger.transact(1, "A: b", "450 4.7.1 Too many recipients from tenant 192.0.2.0/24: 3 in the last hour")
		local.transact(3, "A: b", "250", "250", "250", "250", "554 5.5.3 Too many recipients for one message of tenant local: the limit is 2")
		// A refused recipient does not count.
		local.transact(2, "A: b", "250", "250", "250", "250 2.0.0")
		stranger.Close()
		local.Close()
		ts.end(t)
	})
}

// The announced size decides at MAIL, and the real one at the end.
func TestQuotaOfSize(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ts, _ := limited(t, quota.Config{EachTenant: quota.Limits{Octets: 2000}})
		c := ts.dial(t, "192.0.2.1")
		c.hello()
		c.say("MAIL FROM:<a@a.example> SIZE=2001")
		c.hear("552 5.3.4 Message too large for the quota of tenant 192.0.2.0/24: the limit is 2000 bytes")
		long := "A: " + strings.Repeat("x", 900)
		c.transact(1, long, "250", "250", "250 2.0.0")
		c.transact(1, long, "250", "250", "452 4.3.1 Too much mail of tenant 192.0.2.0/24 waits here: ")
		c.say("MAIL FROM:<a@a.example> SIZE=1000")
		c.hear("452 4.3.1")
		c.say("MAIL FROM:<a@a.example> SIZE=100")
		c.hear("250")
		c.Close()
		ts.end(t)
	})
}

// A sink that fails to count refuses as it does otherwise, and the draft is gone.
func TestClaimFails(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ts, _ := limited(t, quota.Config{EachTenant: quota.Limits{Messages: 2}})
		ts.sink.claimErr = errors.New("the disk is gone")
		c := ts.dial(t, "192.0.2.1")
		c.hello()
		c.transact(1, "A: b", "250", "250", "451 4.3.0 Error: local error in processing")
		if n := ts.sink.abortions(); n != 1 {
			t.Errorf("%d aborted", n)
		}
		c.Close()
		ts.end(t)
	})
}

// A message that could not be stored does not count as sent.
func TestWhatIsNotStoredIsNotCounted(t *testing.T) {
	for _, limits := range []quota.Limits{{RecipientRate: perTime(t, "3/h")}, {RecipientRate: perTime(t, "3/h"), Messages: 9}} {
		synctest.Test(t, func(t *testing.T) {
			ts, _ := limited(t, quota.Config{EachTenant: limits})
			c := ts.dial(t, "192.0.2.1")
			c.hello()
			c.transact(1, "A: b", "250", "250", "250 2.0.0")
			ts.sink.commitErr = fmt.Errorf("commit: %w", ErrFull)
			for range 5 {
				c.transact(2, "A: b", "250", "250", "250", "452 4.3.1 Error: insufficient system storage")
			}
			ts.sink.commitErr = nil
			c.transact(2, "A: b", "250", "250", "250", "250 2.0.0")
			c.transact(1, "A: b", "450 4.7.1 Too many recipients from tenant 192.0.2.0/24: 3 in the last hour")
			c.Close()
			ts.end(t)
		})
	}
}

// A sink that puts a signature in front of the content says how large the message has
// become: the limits of what may wait, the log and the counters have the size of what is
// stored.
func TestSizeOfWhatIsStored(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ts, _ := limited(t, quota.Config{EachTenant: quota.Limits{Octets: 2000}})
		ts.sink.adds = "Signature: " + strings.Repeat("x", 987) + "\r\n" // 1000 bytes
		c := ts.dial(t, "192.0.2.1")
		c.hello()
		c.transact(1, "A: b", "250", "250", "250 2.0.0")
		c.transact(1, "A: b", "250", "250", "452 4.3.1 Too much mail of tenant 192.0.2.0/24 waits here")
		c.Close()
		ts.end(t)
		taken := ts.sink.taken()
		if len(taken) != 1 || taken[0].envelope.Size != int64(len(taken[0].content)) || !strings.Contains(ts.log.String(), fmt.Sprintf("size=%d ", len(taken[0].content))) {
			t.Errorf("%d messages; log:\n%s", len(taken), ts.log.String())
		}
		if got := ts.Snapshot().Octets; got != taken[0].envelope.Size {
			t.Errorf("%d bytes are counted", got)
		}
	})
}

// A name of a tenant with odd bytes does not get into replies or logs as it is.
func TestOddNamesOfTenants(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q := NewQuotas(quota.Config{EachTenant: quota.Limits{MessageRate: perTime(t, "1/d")}})
		ts := start(t, Config{Quotas: q, Flows: flowRules(t, flow.Config{HeaderClients: []netip.Prefix{netip.MustParsePrefix("192.0.2.0/24")}})}, nil, EarlyLog)
		c := ts.dial(t, "192.0.2.1")
		c.hello()
		for _, name := range []string{"\x1b[31mred\x07", "b\xfccher", "250 ok", strings.Repeat("\u00fc", 200)} {
			c.transact(1, "X-Posthaste-Tenant: "+name, "250", "250", "250 2.0.0")
			c.transact(1, "X-Posthaste-Tenant: "+name, "250", "250", "450 4.7.1 Too many messages from tenant ")
		}
		c.Close()
		ts.end(t)
		for _, line := range strings.Split(ts.log.String(), "\n") {
			if strings.Contains(line, "msg=rejected") && strings.ContainsFunc(line, func(r rune) bool { return r < ' ' || r > '~' }) {
				t.Errorf("%q", line)
			}
		}
	})
}
