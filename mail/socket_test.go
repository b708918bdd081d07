package mail

import (
	"net/netip"
	"testing"
)

// A unix socket goes wherever a host's address goes: through traces, and the records of
// hosts. It must come back as it was, and no host's address may be taken for one.
func TestSocketAddr(t *testing.T) {
	for _, path := range []string{"/run/dovecot/lmtp", "/", "/a b", "/100%::]:25", "/é", "/run/x:24"} {
		addr := SocketAddr(path)
		again, err := netip.ParseAddrPort(addr.String())
		if err != nil || again != addr {
			t.Errorf("%q: %v was read as %v, %v", path, addr, again, err)
		}
		if got, ok := SocketPath(addr); !ok || got != path {
			t.Errorf("%q: the path is %q, %v", path, got, ok)
		}
		if ClassOf(addr.Addr()) == AddrPublic {
			t.Errorf("%q: the address is public", path)
		}
	}
	if SocketAddr("/a") == SocketAddr("/b") {
		t.Error("two paths have the same address")
	}
	for _, text := range []string{"192.0.2.1:25", "[100::1]:25", "[fe80::1%/tmp/x]:25", "[100::1%eth0]:0", "[2001:db8::1]:24"} {
		if path, ok := SocketPath(netip.MustParseAddrPort(text)); ok {
			t.Errorf("%s is taken for the socket %q", text, path)
		}
	}
}

func TestHostLabel(t *testing.T) {
	for _, c := range []struct {
		host Host
		want string
	}{
		{Host{Name: "mx.example.com", Addr: netip.MustParseAddrPort("192.0.2.1:25")}, "mx.example.com[192.0.2.1]"},
		{Host{Addr: netip.MustParseAddrPort("[2001:db8::1]:25")}, "[2001:db8::1]"},
		{Host{Name: "a\nb", Addr: netip.MustParseAddrPort("192.0.2.1:25")}, "a?b[192.0.2.1]"},
		{Host{Addr: SocketAddr("/run/dovecot/lmtp")}, "unix:/run/dovecot/lmtp"},
	} {
		if got := c.host.Label(); got != c.want {
			t.Errorf("%+v: %q, want %q", c.host, got, c.want)
		}
	}
}
