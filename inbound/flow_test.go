package inbound

import (
	"net"
	"net/netip"
	"os"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/posthaste-mta/posthaste/flow"
	"github.com/posthaste-mta/posthaste/internal/peercred"
	"github.com/posthaste-mta/posthaste/mail"
)

func flowRules(t *testing.T, cfg flow.Config) *flow.Rules {
	t.Helper()
	r, err := flow.NewRules(cfg)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

// A message is classified when its content is complete, by the rules that were in force
// at its MAIL. The fields in which a client names class and tenant are in no stored
// message, and only a permitted client's count.
func TestMessageIsClassified(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ts := start(t, Config{Flows: flowRules(t, flow.Config{Classes: []flow.Class{{Name: "otp", Weight: 9}}})}, nil, EarlyLog)
		for _, c := range []struct {
			client string
			header []string
			want   mail.Flow
		}{
			{"192.0.2.1", nil, mail.Flow{Class: "normal", Tenant: "192.0.2.0/24", Flow: "a@a.example"}},
			{"192.0.2.1", []string{"List-Id: x"}, mail.Flow{Class: "bulk", Tenant: "192.0.2.0/24", Flow: "a@a.example"}},
			{"192.0.2.1", []string{"X-Posthaste-Class: otp", "X-Posthaste-Tenant: shop"}, mail.Flow{Class: "normal", Tenant: "192.0.2.0/24", Flow: "a@a.example"}},
			{"127.0.0.1", []string{"X-Posthaste-Class: otp", "X-Posthaste-Tenant: shop"}, mail.Flow{Class: "otp", Tenant: "shop", Flow: "a@a.example"}},
			{"127.0.0.1", []string{"X-Posthaste-Class: none such", "Precedence: bulk"}, mail.Flow{Class: "bulk", Tenant: "local", Flow: "a@a.example"}},
		} {
			c1 := ts.dial(t, c.client)
			c1.hello()
			c1.envelope()
			c1.say(append(append([]string{"Subject: x"}, c.header...), "", "text", ".", "QUIT")...)
			c1.hear("250 2.0.0 Ok: queued as ")
			c1.hear("221 ")
			c1.hearEnd()
			taken := ts.sink.taken()
			m := taken[len(taken)-1]
			if m.envelope.Flow != c.want {
				t.Errorf("%s with %q: %+v, want %+v", c.client, c.header, m.envelope.Flow, c.want)
			}
			if strings.Contains(string(m.content), "X-Posthaste") || m.envelope.Size != int64(len(m.content)) {
				t.Errorf("size %d of %q", m.envelope.Size, m.content)
			}
		}
		ts.end(t)
		for _, want := range []string{"class=otp tenant=shop flow=a@a.example", `msg="no such class" client=127.0.0.1`, `named=none?such class=bulk`} {
			if !strings.Contains(ts.log.String(), want) {
				t.Errorf("the log lacks %q:\n%s", want, ts.log)
			}
		}
	})
}

// New rules apply to the next message of a connection that is open; one that has begun
// ends with those that it began with. Without rules nothing is classified or removed.
func TestSetFlows(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ts := start(t, Config{}, nil, EarlyLog)
		c := ts.dial(t, "127.0.0.1")
		c.hello()
		send := func(class string) {
			t.Helper()
			c.say("X-Posthaste-Class: "+class, "", "text", ".")
			c.hear("250 2.0.0 Ok: queued as ")
		}
		c.envelope()
		ts.SetFlows(flowRules(t, flow.Config{Classes: []flow.Class{{Name: "a", Weight: 1}}}))
		send("a")
		c.envelope()
		ts.SetFlows(flowRules(t, flow.Config{Classes: []flow.Class{{Name: "b", Weight: 1}}}))
		send("a")
		c.envelope()
		send("b")
		c.envelope()
		ts.SetFlows(nil)
		send("b")
		c.envelope()
		send("b")
		c.say("QUIT")
		c.hear("221 ")
		c.hearEnd()
		ts.end(t)
		want := []string{"", "a", "b", "b", ""}
		for i, m := range ts.sink.taken() {
			if m.envelope.Flow.Class != want[i] || strings.Contains(string(m.content), "X-Posthaste") != (want[i] == "") {
				t.Errorf("message %d: %+v, %q", i, m.envelope.Flow, m.content)
			}
		}
	})
}

// The program at the other end of a unix socket is known by its user, and the address
// that a TCP client has connected to is the listener.
func TestOriginOfClients(t *testing.T) {
	path := t.TempDir() + "/s"
	ln, err := net.Listen("unix", path)
	if err != nil {
		t.Fatal(err)
	}
	defer ln.Close()
	there, err := net.Dial("unix", path)
	if err != nil {
		t.Fatal(err)
	}
	defer there.Close()
	here, err := ln.Accept()
	if err != nil {
		t.Fatal(err)
	}
	defer here.Close()
	if uid, ok := peercred.User(here.(*net.UnixConn)); ok && int(uid) != os.Getuid() {
		t.Errorf("user %d, want %d", uid, os.Getuid())
	} else if user := userOf(here); ok != strings.HasPrefix(user, "uid:") {
		t.Errorf("user %q", user)
	}
	if a := localAddr(Listener{Listener: ln}, here); a.IsValid() {
		t.Errorf("a unix socket is at %v", a)
	}
	pipe, other := net.Pipe()
	defer pipe.Close()
	defer other.Close()
	if a := localAddr(Listener{Listener: newPipeListener()}, pipe); a != netip.MustParseAddrPort("[::ffff:127.0.0.1]:25") {
		t.Errorf("the listener is at %v", a)
	}
	if user := userOf(pipe); user != "" {
		t.Errorf("user %q", user)
	}
}
