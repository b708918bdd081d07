package daemon

import (
	"context"
	"net"
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/miekg/dns"

	"github.com/posthaste-mta/posthaste/mail"
	"github.com/posthaste-mta/posthaste/outbound"
	"github.com/posthaste-mta/posthaste/resolve"
	"github.com/posthaste-mta/posthaste/route"
)

// agentFunc is an agent that is a function.
type agentFunc func(context.Context, mail.Delivery) mail.DeliveryResult

func (f agentFunc) Deliver(ctx context.Context, d mail.Delivery) mail.DeliveryResult {
	return f(ctx, d)
}

// agentsFor makes a set with one agent, a client that is not used, and a resolver
// that asks as exchange does; nil asks no server.
func agentsFor(t *testing.T, agent outbound.Agent, exchange resolve.Exchange) *agentSet {
	t.Helper()
	resolver, err := resolve.New(resolve.Config{Servers: []string{"127.0.0.1:1"}, Exchange: exchange})
	if err != nil {
		t.Fatal(err)
	}
	client, err := outbound.New(outbound.Config{Hello: "mta.test", Transports: map[string]outbound.TransportConfig{"smtp": {}}}, resolver, nil, nil)
	if err != nil {
		t.Fatal(err)
	}
	table, err := route.NewTable(route.Config{})
	if err != nil {
		t.Fatal(err)
	}
	router := resolve.NewRouter(table, resolver, resolve.RouterConfig{Transports: map[string]resolve.Lookups{"smtp": {Sites: true}}})
	return &agentSet{byTransport: outbound.Agents{"smtp": agent}, client: client, resolver: resolver, router: router}
}

// A reload while a delivery is under way must not take its resolver away: the
// mail would be deferred, and its destination blamed, for a SIGHUP of ours.
func TestReloadDuringDelivery(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		goOn := make(chan struct{})
		var old *agentSet
		old = agentsFor(t, agentFunc(func(ctx context.Context, _ mail.Delivery) mail.DeliveryResult {
			<-goOn
			_, reply := old.resolver.Hosts(ctx, "[192.0.2.1]")
			return mail.DeliveryResult{Site: reply}
		}), nil)
		a := &agents{}
		a.set(old)
		done := make(chan mail.DeliveryResult)
		go func() { done <- a.Deliver(t.Context(), mail.Delivery{Transport: "smtp"}) }()
		synctest.Wait()
		a.set(agentsFor(t, agentFunc(func(context.Context, mail.Delivery) mail.DeliveryResult {
			return mail.DeliveryResult{Host: "new"}
		}), nil))
		synctest.Wait()
		if r := a.Deliver(t.Context(), mail.Delivery{Transport: "smtp"}); r.Host != "new" {
			t.Errorf("a delivery after the reload had the old agents")
		}
		close(goOn)
		if r := <-done; !r.Site.IsZero() {
			t.Errorf("the lookup of a delivery under way failed: %v", r.Site)
		}
		a.close()
		if _, reply := old.resolver.Hosts(t.Context(), "[192.0.2.2]"); reply.IsZero() {
			t.Error("the old resolver was never closed")
		}
	})
}

// The same for a lookup: a reload must not make an answer of the DNS that comes a
// moment later into a failure.
func TestReloadDuringLookup(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		goOn := make(chan struct{})
		a := &agents{}
		a.set(agentsFor(t, nil, func(ctx context.Context, _ string, _ netip.AddrPort, q *dns.Msg) (*dns.Msg, error) {
			select {
			case <-goOn:
				return new(dns.Msg).SetRcode(q, dns.RcodeNameError), nil
			case <-ctx.Done():
				return nil, ctx.Err()
			}
		}))
		r := router{agents: a}
		if to := r.Route("", mail.TLSUnset, []mail.Recipient{{Address: "u@gone.test"}})[0]; !to.NeedsLookup {
			t.Fatalf("the route is known: %+v", to)
		}
		done := make(chan mail.Route)
		go func() {
			done <- r.Lookup(t.Context(), mail.Route{Transport: "smtp", Nexthop: "gone.test"}, mail.TLSUnset)
		}()
		synctest.Wait()
		a.set(agentsFor(t, nil, nil))
		synctest.Wait()
		close(goOn)
		if to := <-done; to.Reply.Status != (mail.Status{Class: 5, Subject: 1, Detail: 2}) {
			t.Errorf("the lookup returned %+v", to)
		}
		a.close()
	})
}

// A socket that a dead process left is replaced. Any other file at that place
// is a mistake in the configuration and must not be deleted.
func TestListenUnix(t *testing.T) {
	path := filepath.Join(t.TempDir(), "s")
	left, err := net.Listen("unix", path)
	if err != nil {
		t.Fatal(err)
	}
	left.(*net.UnixListener).SetUnlinkOnClose(false)
	left.Close()
	ln, err := listenUnix(path, "", "")
	if err != nil {
		t.Fatalf("over a socket that is left: %v", err)
	}
	if info, err := os.Stat(path); err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("socket: %v, %v; want mode 0600", info, err)
	}
	ln.Close()
	if _, err := os.Lstat(path); !os.IsNotExist(err) {
		t.Errorf("after Close the name is still there: %v", err)
	}

	if err := os.WriteFile(path, []byte("precious"), 0o600); err != nil {
		t.Fatal(err)
	}
	if ln, err := listenUnix(path, "", ""); err == nil {
		ln.Close()
		t.Error("a file was replaced by a socket")
	}
	if text, err := os.ReadFile(path); string(text) != "precious" {
		t.Errorf("the file is %q, %v", text, err)
	}
}

// The name under which a socket is made must not be longer than the longest
// path that the configuration lets a socket have, or the daemon would not start
// in a directory that "config check" finds good.
func TestListenUnixLongPath(t *testing.T) {
	const longest = 103 // what config permits
	dir := t.TempDir()
	dir = filepath.Join(dir, strings.Repeat("d", longest-len(dir)-len("//admin.sock")))
	if err := os.Mkdir(dir, 0o700); err != nil {
		t.Fatal(err)
	}
	ln, err := listenUnix(filepath.Join(dir, "admin.sock"), "", "")
	if err != nil {
		t.Fatal(err)
	}
	ln.Close()
}
