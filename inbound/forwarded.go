package inbound

import (
	"cmp"
	"fmt"
	"log/slog"
	"net"
	"net/netip"
	"os"
	"time"

	"github.com/posthaste-mta/posthaste/flow"
	"github.com/posthaste-mta/posthaste/internal/users"
	"github.com/posthaste-mta/posthaste/mail"
	"github.com/posthaste-mta/posthaste/smtp"
	"github.com/posthaste-mta/posthaste/smtp/proxy"
	"github.com/posthaste-mta/posthaste/smtp/server"
)

// Forwarders are the networks of those who connect for others, and are believed when they
// say for whom. Others who try are garbage, or refused.
type Forwarders struct {
	Proxy    []netip.Prefix // begins every connection with a header of the PROXY protocol
	XClient  []netip.Prefix // may send XCLIENT
	XForward []netip.Prefix // may send XFORWARD
}

// proxyTime limits the time until a proxy's header is complete: a proxy sends it at once.
const proxyTime = 10 * time.Second

// forOthers reports whether who has connected will say for whom, and so does not count as a
// client itself.
func (c *connection) forOthers() bool {
	return c.from.IsValid() && (c.behindProxy() || contains(c.terms.Forwarders.XClient, c.from))
}

// behindProxy reports whether the connection begins with a proxy's header.
func (c *connection) behindProxy() bool { return contains(c.terms.Forwarders.Proxy, c.from) }

// readProxy reads the header of the PROXY protocol, no byte more, and takes the client
// for the one that it names. A proxy that speaks for itself, as in a health check, is the
// client.
func (c *connection) readProxy() (ok bool) {
	c.conn.SetReadDeadline(time.Now().Add(proxyTime)) // then the read fails too
	if !c.dismissal(server.ForCommand).IsZero() {
		return false
	}
	header, err := readHeader(c.conn)
	if err != nil {
		if !c.dismissal(server.ForCommand).IsZero() { // which ends the wait, too
			return false
		}
		c.server.counters.proxyFailed.Add(1)
		why := err.Error()
		if isTimeout(err) {
			why = os.ErrDeadlineExceeded.Error()
		}
		c.server.refusals.note(slog.LevelWarn, "no header of the PROXY protocol", c.name(), why, "listener", c.terms.Name, "error", why)
		return false
	}
	if !header.Source.IsValid() {
		return true
	}
	if v := c.rename(header.Source.Addr()); v != admitted {
		c.server.turnAway(c, v)
		return false
	}
	return true
}

func readHeader(conn net.Conn) (proxy.Header, error) {
	var buffer [proxy.Header2Max]byte
	n := 0
	for {
		header, more, err := proxy.Parse(buffer[:n])
		if err != nil || more == 0 {
			return header, err
		}
		read, err := conn.Read(buffer[n : n+more])
		if n += read; err != nil {
			return proxy.Header{}, fmt.Errorf("after %d bytes: %w", n, err)
		}
	}
}

// rename takes the client for one at another address, which is counted from now on.
func (c *connection) rename(addr netip.Addr) verdict {
	if v := c.server.admission.rename(c, addr); v != admitted {
		return v
	}
	c.client.Addr = addr
	return admitted
}

// open makes the session, once it is known who the client is.
func (c *connection) open() {
	c.session = server.New(&c.terms.cfg.Session, c.peer())
	c.origin = c.newFlow()
	c.attend()
}

// newFlow describes the client to the rules that classify messages.
func (c *connection) newFlow() *flow.Client {
	return flow.NewClient(c.client.Addr, flow.Listener{Addr: localAddr(c.socket, c.conn), Name: c.terms.Name}, cmp.Or(c.client.User, userOf(c.conn)))
}

// peer returns the rules for the client. What it may say of others depends on who has
// connected.
func (c *connection) peer() server.Peer {
	p := c.terms.peer(c.client.Addr)
	if c.from.IsValid() {
		p.XClient = contains(c.terms.Forwarders.XClient, c.from)
		p.XForward = contains(c.terms.Forwarders.XForward, c.from)
	}
	return p
}

// unknownClient is the address of a client of which XCLIENT says that its address is not
// known. It must be one: a client without is a program of this machine, which may send
// anywhere.
var unknownClient = netip.IPv4Unspecified()

// identify takes the client for the one that XCLIENT names.
func (c *connection) identify(f *smtp.Forwarded) {
	addr := c.client.Addr
	if f.Given&smtp.AttrAddr != 0 {
		if addr = f.Addr; !addr.IsValid() {
			addr = unknownClient
		}
	}
	if v := c.rename(addr); v != admitted {
		c.server.counters.refused.Add(1)
		c.server.refusals.note(slog.LevelInfo, "connection refused", c.name(), v.String(), "reason", v.String(), "listener", c.terms.Name, "for", addr.String())
		c.session.Answer(c.goodbye(7, 0, "Error: "+v.String()))
		return
	}
	c.client.Certificates = Client{}.Certificates // it was the proxy's
	c.forgetClient(f.Name)
	c.logOut()
	if f.Login != "" {
		user, err := users.CheckName(f.Login)
		if err != nil {
			c.session.Answer(c.goodbye(7, 0, "Error: LOGIN is not the name of a user"))
			return
		}
		c.logIn(user, "XCLIENT")
	}
	c.origin = c.newFlow()
	c.debug("client named by XCLIENT", "by", c.from.String(), "name", f.Name, "helo", f.Helo, "proto", f.Proto)
	c.session.Identified(c.peer())
	c.note("XCLIENT: the client is " + c.name())
	c.visitors = -1 // they are asked again, by the new address
}

// forwarded returns what XFORWARD said of the client, for the log; nothing without.
func forwarded(f *smtp.Forwarded) slog.Attr {
	if f.Given == 0 {
		return slog.Attr{}
	}
	addr := ""
	if f.Addr.IsValid() {
		addr = f.Addr.String()
	}
	return slog.Group("", slog.String("orig_client", addr), slog.String("orig_name", mail.CleanText(f.Name)), slog.String("orig_helo", mail.CleanText(f.Helo)), slog.String("orig_id", mail.CleanText(f.Ident)))
}
