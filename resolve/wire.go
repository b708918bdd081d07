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

// An Exchange sends a query to a server by "udp" or "tcp" and returns the answer.
// It must return when ctx ends. It need not check the answer.
type Exchange func(ctx context.Context, network string, server netip.AddrPort, query *dns.Msg) (*dns.Msg, error)

const (
	// ednsSize is the UDP message size we ask for, as recommended by DNS flag day
	// 2020: larger messages are fragmented, and fragments get lost.
	ednsSize = 1232
	// udpBuffer is larger than that, for servers that ignore the limit.
	udpBuffer = 4096
	// junkMax is the number of datagrams other than the answer that end a query.
	junkMax = 100
)

var errJunk = errors.New("too many datagrams that are not the answer")

// exchange uses a separate socket for each query, so that the kernel chooses a
// new random port each time (RFC 5452 9.2). Datagrams from other addresses and
// those that do not match the query are ignored.
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
			return answer, nil // in spite of err: its last record may be cut off
		case err == nil && fits(query, answer):
			return answer, nil
		case network == "tcp" || errors.As(err, &failed):
			return answer, err
		}
	}
	return nil, errJunk
}

// fits reports whether a message is an answer to a query (RFC 5452 9.1). Servers
// that could not parse the query may omit the question.
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
