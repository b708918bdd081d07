package mail_test

import (
	"net/netip"
	"testing"

	"github.com/posthaste-mta/posthaste/mail"
)

// C-09: what the DNS must not make us connect to, in all its disguises.
func TestPublic(t *testing.T) {
	for _, a := range []string{
		"0.0.0.0", "0.1.2.3", "127.0.0.1", "127.255.0.1", "10.0.0.1", "172.16.0.1", "192.168.1.1", "169.254.169.254",
		"100.64.0.1", "2002:7f00:1::", "::127.0.0.1",
		"224.0.0.1", "255.255.255.255", "240.0.0.1", "::", "::1", "fe80::1", "fe80::1%eth0", "fc00::1", "fd12::1", "ff02::1",
		"::ffff:127.0.0.1", "::ffff:10.0.0.1", "64:ff9b::7f00:1", "64:ff9b::a9fe:a9fe",
	} {
		if mail.ClassOf(netip.MustParseAddr(a)) == mail.AddrPublic {
			t.Errorf("%s is taken for public", a)
		}
	}
	for _, a := range []string{"192.0.2.1", "8.8.8.8", "172.32.0.1", "2001:db8::1", "::ffff:192.0.2.1", "64:ff9b::c000:201"} {
		if mail.ClassOf(netip.MustParseAddr(a)) != mail.AddrPublic {
			t.Errorf("%s is not taken for public", a)
		}
	}
	if mail.ClassOf(netip.Addr{}) != mail.AddrSpecial {
		t.Error("no address is not special")
	}
}
