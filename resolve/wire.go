package resolve

import (
	"context"
	"errors"
	"net"
	"net/netip"
	"strings"
	"time"

	"github.com/miekg/dns"
)

// An Exchange sends a query to a server by "udp" or "tcp" and returns what comes
// back. It obeys ctx. It need not check the answer.
type Exchange func(ctx context.Context, network string, server netip.AddrPort, query *dns.Msg) (*dns.Msg, error)

const (
	// ednsSize is the UDP message size we ask for. It is what DNS flag day 2020
	// recommends: larger messages are fragmented, and fragments get lost.
	ednsSize = 1232
	// udpBuffer is larger than that, for servers that do not care.
	udpBuffer = 4096
	// junkMax is how many datagrams that are no answer one query puts up with.
	junkMax = 100
)

var errJunk = errors.New("too many datagrams that are not the answer")

// exchange uses a socket of its own for each query, so that the kernel draws a
// new random port each time (RFC 5452 9.2). What arrives from elsewhere or does
// not fit is not let in the way of the answer.
func exchange(ctx context.Context, network string, server netip.AddrPort, query *dns.Msg) (*dns.Msg, error) {
	var dialer net.Dialer
	conn, err := dialer.DialContext(ctx, network, server.String())
	if err != nil {
		return nil, err
	}
	defer conn.Close()
	stop := context.AfterFunc(ctx, func() { conn.SetDeadline(time.Unix(1, 0)) })
	defer stop()
	c := &dns.Conn{Conn: conn, UDPSize: udpBuffer}
	if err := c.WriteMsg(query); err != nil {
		return nil, err
	}
	for range junkMax {
		answer, err := c.ReadMsg()
		var failed net.Error
		switch {
		case answer != nil && answer.Truncated && fits(query, answer):
			return answer, nil // its last record may be cut, which is an error of its own
		case err == nil && fits(query, answer):
			return answer, nil
		case network == "tcp" || errors.As(err, &failed):
			return answer, err
		}
	}
	return nil, errJunk
}

// fits tells whether a message is an answer to a query (RFC 5452 9.1). Servers
// that could not read the query may leave the question out.
func fits(query, answer *dns.Msg) bool {
	if !answer.Response || answer.Id != query.Id || answer.Opcode != query.Opcode {
		return false
	}
	if len(answer.Question) == 0 {
		return answer.Rcode == dns.RcodeFormatError || answer.Rcode == dns.RcodeNotImplemented
	}
	q, a := query.Question[0], answer.Question[0]
	return len(answer.Question) == 1 && a.Qtype == q.Qtype && a.Qclass == q.Qclass && strings.EqualFold(a.Name, q.Name)
}
