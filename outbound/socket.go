package outbound

import (
	"strings"
	"syscall"

	"github.com/posthaste-mta/posthaste/mail"
)

// socketHost returns the unix socket at a path as the only host of its nexthop.
func socketHost(path string) mail.HostSet {
	return mail.HostSet{Tiers: [][]mail.Host{{{Addr: mail.SocketAddr(path)}}}, Until: now().Add(lookupMax)}
}

// socketHint returns what an operator can do about an error of a connection to a unix
// socket; "" for other hosts.
func socketHint(host string, err syscall.Errno) string {
	if !strings.HasPrefix(host, mail.SocketPrefix) {
		return ""
	}
	switch err {
	case syscall.ENOENT:
		return " (is its server running?)"
	case syscall.ECONNREFUSED:
		return " (its server has ended)"
	case syscall.EACCES:
		return " (posthaste's user must be able to write to it)"
	}
	return ""
}
