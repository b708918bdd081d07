package outbound

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"net"
	"net/netip"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/posthaste-mta/posthaste/mail"
)

// A drain takes all mail over TCP and does as little as a server can: one read
// and one write for each group of commands, and for each content.
type drain struct {
	listener net.Listener
	messages atomic.Int64
}

func newDrain(b *testing.B) *drain {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		b.Fatal(err)
	}
	s := &drain{listener: l}
	go func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			go s.serve(c)
		}
	}()
	b.Cleanup(func() { l.Close() })
	return s
}

func (s *drain) serve(c net.Conn) {
	defer c.Close()
	io.WriteString(c, "220 sink ESMTP\r\n")
	in, out := make([]byte, 0, 256<<10), make([]byte, 0, 64<<10)
	content, chunk := false, 0
	for {
		n, err := c.Read(in[len(in):cap(in)])
		if err != nil {
			return
		}
		in = in[:len(in)+n]
		rest := in
		for {
			if chunk > 0 {
				if len(rest) < chunk {
					break
				}
				rest, chunk = rest[chunk:], 0
				s.messages.Add(1)
				out = append(out, "250 2.0.0 Ok: queued as 4bCdEfGhIj\r\n"...)
				continue
			}
			if content {
				i := bytes.Index(rest, []byte("\r\n.\r\n"))
				if i < 0 {
					if len(rest) == cap(in) { // its end may be among the last octets
						rest = rest[len(rest)-5:]
					}
					break
				}
				rest, content = rest[i+5:], false
				s.messages.Add(1)
				out = append(out, "250 2.0.0 Ok: queued as 4bCdEfGhIj\r\n"...)
				continue
			}
			i := bytes.IndexByte(rest, '\n')
			if i < 0 {
				break
			}
			switch rest[0] {
			case 'E':
				out = append(out, "250-sink\r\n250-PIPELINING\r\n250-CHUNKING\r\n250-SIZE 10240000\r\n250 8BITMIME\r\n"...)
			case 'B':
				fmt.Sscanf(string(rest[:i]), "BDAT %d", &chunk)
			case 'D':
				out = append(out, "354 End data with <CR><LF>.<CR><LF>\r\n"...)
				content = true
			default:
				out = append(out, "250 2.1.0 Ok\r\n"...)
			}
			rest = rest[i+1:]
		}
		in = in[:copy(in, rest)]
		if len(out) > 0 {
			if _, err := c.Write(out); err != nil {
				return
			}
			out = out[:0]
		}
	}
}

// memory4K is a store of one content.
type memory4K struct{ data []byte }

func (m *memory4K) Body(context.Context, mail.QueueID) (Body, error) { return &memoryBody{m.data}, nil }

type memoryBody struct{ data []byte }

func (b *memoryBody) Size() int64              { return int64(len(b.data)) }
func (b *memoryBody) Bytes() []byte            { return b.data }
func (b *memoryBody) Read([]byte) (int, error) { return 0, io.EOF }
func (b *memoryBody) Close() error             { return nil }

// Messages over connections that a core decides on: one goroutine, as the
// driver is, sends to each connection what its depth allows and hears the
// results. The level is the most that a Conn may use.
func BenchmarkConn(b *testing.B) {
	for _, c := range []struct {
		level       mail.Level
		conns, size int
		depth       int
	}{
		{mail.LevelGroup, 1, 4096, 1}, {mail.LevelGroup, 20, 4096, 1},
		{mail.LevelOverlap, 1, 4096, 2}, {mail.LevelOverlap, 20, 4096, 2},
		{mail.LevelStream, 1, 4096, 5}, {mail.LevelStream, 20, 4096, 5},
		{mail.LevelOverlap, 1, 1 << 20, 2},
	} {
		b.Run(fmt.Sprintf("%v/conns=%d/size=%d", c.level, c.conns, c.size), func(b *testing.B) {
			benchmarkConns(b, c.level, c.conns, c.depth, c.size)
		})
	}
}

func benchmarkConns(b *testing.B, level mail.Level, conns, depth, size int) {
	s := newDrain(b)
	addr := netip.MustParseAddrPort(s.listener.Addr().String())
	bodies := &memory4K{[]byte(strings.Repeat(strings.Repeat("x", 62)+"\r\n", size/64))}
	c, err := New(Config{Hello: "me.example", Transports: map[string]TransportConfig{
		"smtp": {PermitPrivateHosts: true},
	}}, newFakeNet(), bodies, nil)
	if err != nil {
		b.Fatal(err)
	}
	type result struct {
		conn *Conn
		r    mail.DeliveryResult
	}
	results := make(chan result, conns*depth)
	var running sync.WaitGroup
	d := message(1, "b@example.net")
	d.Envelope.Size = int64(size)
	all := make([]*Conn, conns)
	for i := range all {
		k, opened := c.Dial(b.Context(), mail.Opening{Transport: "smtp", Host: mail.Host{Name: "sink", Addr: addr}, Level: level})
		if k == nil || opened.Level != level {
			b.Fatal(opened)
		}
		all[i] = k
		running.Go(func() {
			k.Run(b.Context(), func(_ uint64, r mail.DeliveryResult) { results <- result{k, r} })
		})
	}
	b.SetBytes(int64(size))
	b.ReportAllocs()
	b.ResetTimer()
	cpu := cpuTime(b)
	sent, told := 0, 0
	for range depth {
		for _, k := range all {
			if sent < b.N {
				sent++
				k.Send(uint64(sent), d)
			}
		}
	}
	for told < sent {
		r := <-results
		if told++; r.r.Outcomes[0].Result != mail.Delivered {
			b.Fatal(r.r)
		}
		if sent < b.N {
			sent++
			r.conn.Send(uint64(sent), d)
		}
	}
	b.StopTimer()
	b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "msgs/s")
	b.ReportMetric(float64(cpuTime(b)-cpu)/float64(b.N), "cpu-ns/op")
	for _, k := range all {
		k.Hangup()
	}
	running.Wait()
	if got := s.messages.Load(); got != int64(b.N) {
		b.Errorf("%d messages arrived, want %d", got, b.N)
	}
}

// cpuTime returns what this process has used, the sink included.
func cpuTime(b *testing.B) time.Duration {
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		b.Fatal(err)
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}
