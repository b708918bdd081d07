package inbound

import (
	"bufio"
	"bytes"
	"crypto/tls"
	"fmt"
	"io"
	"net"
	"os"
	"runtime"
	"strconv"
	"strings"
	"testing"

	"github.com/posthaste-mta/posthaste/flow"
)

const benchClients = 20

// benchBody is 4 KB of text with a header.
func benchBody() string {
	return "From: a@a.example\r\nTo: b@b.example\r\nSubject: benchmark\r\n\r\n" + strings.Repeat(strings.Repeat("x", 70)+"\r\n", 56)
}

// sendGrouped returns a client that sends messages, their envelopes in one group.
func sendGrouped(envelope, body string) func(*testing.B, net.Conn, int) {
	return func(b *testing.B, conn net.Conn, n int) {
		group, content := []byte(envelope+"DATA\r\n"), []byte(body+".\r\n")
		lines := newLineReader(conn)
		for range n {
			conn.Write(group) // the replies show it
			lines.skip(b, 3)
			conn.Write(content) // the replies show it
			lines.skip(b, 1)
		}
	}
}

// BenchmarkLoopback measures messages through TCP on this machine, clients
// included, in three ways to pipeline.
func BenchmarkLoopback(b *testing.B) {
	envelope, body := "MAIL FROM:<a@a.example>\r\nRCPT TO:<b@b.example>\r\n", benchBody()
	for _, way := range []struct {
		name   string
		client func(*testing.B, net.Conn, int)
	}{
		{"grouped", sendGrouped(envelope, body)},
		{"overlapped", func(b *testing.B, conn net.Conn, n int) {
			group := []byte(body + ".\r\n" + envelope + "DATA\r\n")
			lines := newLineReader(conn)
			conn.Write([]byte(envelope + "DATA\r\n")) // the replies show it
			lines.skip(b, 3)
			for range n {
				conn.Write(group) // the replies show it
				lines.skip(b, 4)
			}
		}},
		{"streamed", func(b *testing.B, conn net.Conn, n int) {
			message := fmt.Appendf(nil, "%sBDAT %d LAST\r\n%s", envelope, len(body), body)
			lines := newLineReader(conn)
			inFlight := 0
			for range n {
				conn.Write(message) // the replies show it
				if inFlight++; inFlight == 4 {
					lines.skip(b, 3)
					inFlight--
				}
			}
			lines.skip(b, 3*inFlight)
		}},
	} {
		b.Run(way.name, func(b *testing.B) { benchLoopback(b, Config{}, way.client) })
	}
	// What the classification of messages costs.
	rules, err := flow.NewRules(flow.Config{})
	if err != nil {
		b.Fatal(err)
	}
	b.Run("classified", func(b *testing.B) { benchLoopback(b, Config{Flows: rules}, sendGrouped(envelope, body)) })
}

// BenchmarkTLS measures messages through TLS, grouped as above, and BenchmarkHandshake
// new connections with TLS: full handshakes, and resumed ones.
func BenchmarkTLS(b *testing.B) {
	benchConnections(b, Config{}, true, sendGrouped("MAIL FROM:<a@a.example>\r\nRCPT TO:<b@b.example>\r\n", benchBody()))
}

func BenchmarkHandshake(b *testing.B) {
	for _, resumed := range []bool{false, true} {
		b.Run(map[bool]string{false: "full", true: "resumed"}[resumed], func(b *testing.B) {
			l := listen(b, "tcp", "127.0.0.1:0")
			s := loopbackServer(b, l, Config{}, &nullSink{})
			s.SetListeners(Listener{Listener: l, Purpose: PurposeSubmissions, Use: TLSImplicit, TLS: serverTLS(b)})
			cfg := clientTLS()
			cfg.ServerName = "mx.example"
			if resumed {
				cfg.ClientSessionCache = tls.NewLRUClientSessionCache(1)
			}
			for b.Loop() {
				conn, err := tls.Dial("tcp", l.Addr().String(), cfg)
				if err != nil {
					b.Fatal(err)
				}
				if _, err := bufio.NewReaderSize(conn, 512).ReadString('\n'); err != nil {
					b.Fatal(err)
				}
				conn.Close()
			}
		})
	}
}

func benchLoopback(b *testing.B, cfg Config, client func(*testing.B, net.Conn, int)) {
	benchConnections(b, cfg, false, client)
}

func benchConnections(b *testing.B, cfg Config, encrypted bool, client func(*testing.B, net.Conn, int)) {
	l := listen(b, "tcp", "127.0.0.1:0")
	s := loopbackServer(b, l, cfg, &nullSink{})
	if encrypted {
		s.SetListeners(Listener{Listener: l, Use: TLSMay, TLS: serverTLS(b)})
	}
	var conns []net.Conn
	for range benchClients {
		conn, err := net.Dial("tcp", l.Addr().String())
		if err != nil {
			b.Fatal(err)
		}
		defer conn.Close()
		greet(b, conn)
		if encrypted {
			conn = secure(b, conn)
		}
		conns = append(conns, conn)
	}
	b.ReportAllocs()
	b.ResetTimer()
	done := make(chan struct{})
	for i, conn := range conns {
		n := b.N/benchClients + min(1, max(0, b.N%benchClients-i))
		go func() { client(b, conn, n); done <- struct{}{} }()
	}
	for range conns {
		<-done
	}
	b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "messages/s")
}

func greet(b testing.TB, conn net.Conn) {
	r := bufio.NewReaderSize(conn, 512)
	r.ReadString('\n')                 // the next shows it
	io.WriteString(conn, "EHLO x\r\n") // the replies show it
	for {
		line, err := r.ReadString('\n')
		if err != nil {
			b.Fatal(err)
		}
		if line[3] == ' ' {
			return
		}
	}
}

// secure begins TLS on a connection.
func secure(b testing.TB, conn net.Conn) net.Conn {
	io.WriteString(conn, "STARTTLS\r\n") // the reply shows it
	lines := lineReader{conn: conn, buffer: make([]byte, 512)}
	lines.skip(b, 1)
	sure := tls.Client(conn, clientTLS())
	io.WriteString(sure, "EHLO x\r\n") // the replies show it
	greetTLS(b, sure)
	return sure
}

type lineReader struct {
	conn   net.Conn
	buffer []byte
	have   int // lines read ahead
}

func newLineReader(conn net.Conn) *lineReader {
	return &lineReader{conn: conn, buffer: make([]byte, 4096)}
}

func (r *lineReader) skip(b testing.TB, n int) {
	for r.have < n {
		size, err := r.conn.Read(r.buffer)
		if err != nil {
			b.Error(err)
			return
		}
		if bytes.HasPrefix(r.buffer[:size], []byte("4")) || bytes.HasPrefix(r.buffer[:size], []byte("5")) {
			b.Errorf("%s", r.buffer[:size])
			return
		}
		r.have += bytes.Count(r.buffer[:size], []byte("\n"))
	}
	r.have -= n
}

// BenchmarkIdle reports what an idle connection costs.
func BenchmarkIdle(b *testing.B) {
	for _, encrypted := range []bool{false, true} {
		b.Run(map[bool]string{false: "plain", true: "TLS"}[encrypted], func(b *testing.B) {
			cost := idleCost(b, 1000, encrypted)
			for b.Loop() {
				// This does not measure time.
			}
			b.ReportMetric(float64(cost.heap), "heap-B/conn")
			b.ReportMetric(float64(cost.stack), "stack-B/conn")
			b.ReportMetric(float64(cost.resident), "rss-B/conn")
		})
	}
}

// idleCost opens connections that each submit a message and then wait. The small
// cost of the clients' ends is included: with TLS it is about as large as the server's.
func idleCost(t testing.TB, clients int, encrypted bool) memory {
	t.Helper()
	l := listen(t, "unix", t.TempDir()+"/smtp")
	s := loopbackServer(t, l, Config{}, &nullSink{})
	if encrypted {
		s.SetListeners(Listener{Listener: l, Use: TLSMay, TLS: serverTLS(t)})
	}
	before := memoryNow()
	for range clients {
		conn, err := net.Dial("unix", l.Addr().String())
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { conn.Close() })
		greet(t, conn)
		if encrypted {
			conn = secure(t, conn)
		}
		lines := lineReader{conn: conn, buffer: make([]byte, 512)}
		io.WriteString(conn, "MAIL FROM:<a@a.example>\r\nRCPT TO:<b@b.example>\r\nDATA\r\n") // the replies show it
		lines.skip(t, 3)
		io.WriteString(conn, "text\r\n.\r\n") // the replies show it
		lines.skip(t, 1)
	}
	after := memoryNow()
	if open := s.Snapshot().Open; open != int64(clients) {
		t.Fatalf("%d connections", open)
	}
	n := int64(clients)
	return memory{(after.heap - before.heap) / n, (after.stack - before.stack) / n, (after.resident - before.resident) / n}
}

type memory struct{ heap, stack, resident int64 }

func memoryNow() memory {
	runtime.GC()
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	mem := memory{heap: int64(m.HeapAlloc), stack: int64(m.StackInuse)}
	if text, err := os.ReadFile("/proc/self/statm"); err == nil {
		if fields := strings.Fields(string(text)); len(fields) > 1 {
			pages, _ := strconv.ParseInt(fields[1], 10, 64)
			mem.resident = pages * int64(os.Getpagesize())
		}
	}
	return mem
}
