package admin

import (
	"context"
	"net"
	"os/user"
	"strconv"

	"github.com/posthaste-mta/posthaste/internal/peercred"
)

// peerKey is the context key for the identity of a connection's peer.
type peerKey struct{}

// withPeer records the peer of a connection: its user for a unix socket, where the
// system reports it, else its address.
func withPeer(ctx context.Context, conn net.Conn) context.Context {
	if s, ok := conn.(*slotted); ok {
		conn = s.Conn
	}
	by := conn.RemoteAddr().String()
	if local, ok := conn.(*net.UnixConn); ok {
		if uid, ok := peercred.User(local); ok {
			by = "uid " + strconv.FormatUint(uint64(uid), 10)
			if u, err := user.LookupId(strconv.FormatUint(uint64(uid), 10)); err == nil {
				by = u.Username
			}
		}
	}
	return context.WithValue(ctx, peerKey{}, by)
}

// orderedBy returns the peer that gave an order, as shown in the log.
func orderedBy(ctx context.Context) string {
	if by, ok := ctx.Value(peerKey{}).(string); ok && by != "" && by != "@" {
		return by
	}
	return "unknown"
}
