//go:build unix

package main

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"strings"
	"syscall"
	"time"

	"github.com/miekg/dns"

	"github.com/posthaste-mta/posthaste/test/daemon"
)

// A graveyard is a name server, and hosts that cannot be reached: those of domains
// with an even number refuse connections, the others never answer.
type graveyard struct {
	address string            // of the name server
	routes  map[string]string // by domain: each has its own port, and is looked up
	hosts   map[string]net.IP // by the name of a domain's only MX host
	server  *dns.Server
	sockets []int
	callers []net.Conn
}

// bury makes n dead domains, d0.test and so on, each with a host of its own.
func bury(n int) (g *graveyard, err error) {
	g = &graveyard{routes: make(map[string]string), hosts: make(map[string]net.IP)}
	defer func() {
		if err != nil {
			g.close()
		}
	}()
	refusing, err := daemon.QuietAddress(sitePort)
	if err != nil {
		return nil, err
	}
	_, port, err := net.SplitHostPort(refusing)
	if err != nil {
		return nil, err
	}
	for i := range n {
		address := fmt.Sprintf("127.64.%d.%d:%s", i/200, i%200+1, port)
		if i%2 == 1 {
			if address, err = g.silent(net.IPv4(127, 65, byte(i/200), byte(i%200+1))); err != nil {
				return nil, err
			}
		}
		if err := g.host(fmt.Sprintf("d%d.test", i), address); err != nil {
			return nil, err
		}
	}
	return g, g.answer()
}

// host adds a domain whose only MX host is at an address. It is not called any more
// once mail is sent.
func (g *graveyard) host(domain, address string) error {
	host, port, err := net.SplitHostPort(address)
	if err != nil {
		return err
	}
	g.hosts["mx."+domain+"."] = net.ParseIP(host)
	g.routes[domain] = "smtp:" + domain + ":" + port
	return nil
}

// silent makes a host that never answers. Its queue has room for one connection, which
// is made here.
func (g *graveyard) silent(ip net.IP) (address string, err error) {
	socket, err := syscall.Socket(syscall.AF_INET, syscall.SOCK_STREAM, 0)
	if err != nil {
		return "", os.NewSyscallError("socket", err)
	}
	syscall.CloseOnExec(socket)
	g.sockets = append(g.sockets, socket)
	if err := syscall.Bind(socket, &syscall.SockaddrInet4{Addr: [4]byte(ip.To4())}); err != nil {
		return "", os.NewSyscallError("bind", err)
	}
	if err := syscall.Listen(socket, 0); err != nil {
		return "", os.NewSyscallError("listen", err)
	}
	name, err := syscall.Getsockname(socket)
	if err != nil {
		return "", os.NewSyscallError("getsockname", err)
	}
	address = net.JoinHostPort(ip.String(), fmt.Sprint(name.(*syscall.SockaddrInet4).Port))
	caller, err := net.DialTimeout("tcp", address, time.Second)
	if err != nil {
		return "", err
	}
	g.callers = append(g.callers, caller)
	if len(g.callers) > 1 {
		return address, nil
	}
	// One is enough to know that this kernel does what is wanted.
	second, err := net.DialTimeout("tcp", address, 200*time.Millisecond)
	if err == nil {
		second.Close() //nolint:errcheck // it is one too many
		return "", errors.New("a listening socket whose queue is full takes connections on this system: no silent hosts can be had")
	}
	return address, nil
}

// answer starts the name server.
func (g *graveyard) answer() error {
	conn, err := net.ListenPacket("udp", "127.0.0.1:0")
	if err != nil {
		return err
	}
	g.address = conn.LocalAddr().String()
	g.server = &dns.Server{PacketConn: conn, Handler: dns.HandlerFunc(func(w dns.ResponseWriter, q *dns.Msg) {
		m := new(dns.Msg).SetReply(q)
		name := strings.ToLower(q.Question[0].Name)
		header := dns.RR_Header{Name: name, Rrtype: q.Question[0].Qtype, Class: dns.ClassINET, Ttl: 60}
		switch q.Question[0].Qtype {
		case dns.TypeMX:
			if g.hosts["mx."+name] != nil {
				m.Answer = []dns.RR{&dns.MX{Hdr: header, Preference: 10, Mx: "mx." + name}}
			}
		case dns.TypeA:
			if ip := g.hosts[name]; ip != nil {
				m.Answer = []dns.RR{&dns.A{Hdr: header, A: ip}}
			}
		}
		w.WriteMsg(m) //nolint:errcheck // then the client asks again
	})}
	go g.server.ActivateAndServe() //nolint:errcheck // it ends with close
	return nil
}

// settings are lines for the top of a configuration file.
func (g *graveyard) settings(o options) string {
	return fmt.Sprintf("dns.servers = [%q]\nsmtp_permit_private_hosts = true\nsmtp_connect_timeout = \"%s\"\n", g.address, o.connect)
}

func (g *graveyard) close() {
	if g.server != nil {
		g.server.ShutdownContext(context.Background()) //nolint:errcheck // the process ends soon
	}
	for _, c := range g.callers {
		c.Close() //nolint:errcheck // it has done its work
	}
	for _, socket := range g.sockets {
		syscall.Close(socket) //nolint:errcheck // it has done its work
	}
}
