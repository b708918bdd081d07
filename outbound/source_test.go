package outbound

import (
	"context"
	"errors"
	"net"
	"net/netip"
	"os"
	"strings"
	"syscall"
	"testing"

	"github.com/posthaste-mta/posthaste/internal/sink"
	"github.com/posthaste-mta/posthaste/mail"
)

// dialerFunc is a Dialer.
type dialerFunc func(from netip.Addr, to netip.AddrPort) (net.Conn, error)

func (f dialerFunc) Dial(_ context.Context, from netip.Addr, to netip.AddrPort) (net.Conn, error) {
	return f(from, to)
}

func sourcesConfig() Config {
	return Config{Hello: "mta.test", Transports: map[string]TransportConfig{"smtp": {BindAddress: netip.MustParseAddr("127.0.0.9")}}, Sources: map[string]SourceConfig{
		"a": {IPv4: netip.MustParseAddr("127.0.0.2"), Hello: "a.test"}, "b": {IPv4: netip.MustParseAddr("127.0.0.3")},
		"six": {IPv6: netip.MustParseAddr("2001:db8::1"), Hello: "six.test"}}}
}

// Connections come from the addresses of their sources, and say their names; without a
// source, from that of the transport.
func TestDialFromASource(t *testing.T) {
	cfg := sourcesConfig()
	delete(cfg.Sources, "six")
	if err := cfg.CheckSources(); err != nil {
		t.Skip(err)
	}
	taken := make(chan mail.Client, 3)
	server, err := sink.New(sink.Config{Taken: func(d sink.Delivery) { taken <- d.Client }})
	if err != nil {
		t.Fatal(err)
	}
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(t.Context())
	ended := make(chan error)
	go func() { ended <- server.Serve(ctx, ln) }()
	c, err := New(cfg, nil, oneBody{}, nil)
	if err != nil {
		t.Fatal(err)
	}
	host := mail.Host{Addr: ln.Addr().(*net.TCPAddr).AddrPort()}
	for _, want := range []struct{ source, addr, name string }{{"a", "127.0.0.2", "a.test"}, {"b", "127.0.0.3", "mta.test"}, {"", "127.0.0.9", "mta.test"}} {
		conn, opened := c.Dial(ctx, mail.Opening{Transport: "smtp", Source: want.source, Host: host})
		if conn == nil {
			t.Fatalf("from %q: %+v", want.source, opened)
		}
		conn.Send(1, mail.Delivery{Recipients: []mail.Recipient{{Address: "u@d.test"}}})
		conn.Hangup()
		conn.Run(ctx, func(_ uint64, r mail.DeliveryResult) {
			if r.Outcomes[0].Result != mail.Delivered {
				t.Errorf("from %q: %+v", want.source, r)
			}
		})
		if got := <-taken; got.Addr.String() != want.addr || got.Helo != want.name {
			t.Errorf("from %q: the receiver saw %+v", want.source, got)
		}
	}
	stop()
	if err := <-ended; err != nil {
		t.Error(err)
	}
}

// Which errors of a dial count against the local address, and which against the host.
func TestDialBlamesTheAddress(t *testing.T) {
	four, six := netip.MustParseAddrPort("127.0.0.1:1"), netip.MustParseAddrPort("[2001:db8::25]:25")
	failed := func(call string, sys syscall.Errno) error {
		return &net.OpError{Op: "dial", Err: os.NewSyscallError(call, sys)}
	}
	for _, test := range []struct {
		what, source string
		to           netip.AddrPort
		err          error
		unbound      bool
	}{
		{"the address is gone", "a", four, failed("bind", syscall.EADDRNOTAVAIL), true},
		{"it is gone, without a source", "", four, failed("bind", syscall.EADDRNOTAVAIL), false},
		{"all ports are in use", "a", four, failed("connect", syscall.EADDRNOTAVAIL), false},
		{"the host refuses", "a", four, failed("connect", syscall.ECONNREFUSED), false},
		{"there is no way, and there is from all addresses", "a", four, failed("connect", syscall.ENETUNREACH), false},
		{"it has no address of the family", "a", six, nil, true},
		{"it is not configured any more", "gone", four, nil, true},
		{"time is over", "a", four, os.ErrDeadlineExceeded, false},
	} {
		c, err := New(sourcesConfig(), nil, oneBody{}, dialerFunc(func(from netip.Addr, to netip.AddrPort) (net.Conn, error) {
			if test.err == nil {
				t.Errorf("%s: %s is dialed", test.what, to)
				return nil, errors.New("unexpected")
			}
			return nil, test.err
		}))
		if err != nil {
			t.Fatal(err)
		}
		conn, opened := c.Dial(t.Context(), mail.Opening{Transport: "smtp", Source: test.source, Host: mail.Host{Addr: test.to}})
		if conn != nil || opened.Reply.IsZero() || opened.Reply.Permanent() || opened.Unbound != test.unbound || opened.Unavailable {
			t.Errorf("%s: %+v", test.what, opened)
		}
		if strings.Contains(opened.Reply.Text, "127.0.0.2") {
			t.Errorf("%s: senders would see our address: %s", test.what, opened.Reply)
		}
	}
}

func TestCheckSources(t *testing.T) {
	cfg := sourcesConfig()
	err := cfg.CheckSources()
	for _, want := range []string{"source six: address 2001:db8::1 cannot be used: ", "network interface", "[source.six]"} {
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v does not say %q", err, want)
		}
	}
	cfg.Sources["bad"] = SourceConfig{IPv4: netip.MustParseAddr("127.0.0.2"), Hello: "a b"}
	if err := cfg.Validate(); err == nil || !strings.Contains(err.Error(), "source bad: hello") {
		t.Errorf("%v", err)
	}
}

// oneBody is the content of every message.
type oneBody struct{}

func (oneBody) Body(context.Context, mail.QueueID) (Body, error) { return &textBody{}, nil }

type textBody struct{ strings.Reader }

const oneText = "Subject: x\r\n\r\nx\r\n"

func (b *textBody) Size() int64   { return int64(len(oneText)) }
func (b *textBody) Bytes() []byte { return []byte(oneText) }
func (b *textBody) Close() error  { return nil }
