package client

import (
	"strings"
	"testing"
)

// A benchPeer is a session and the replies it gets, for benchmarks.
type benchPeer struct {
	s       *Session
	content []byte
	out     [][]byte
	spare   []*Transaction
	octets  int
}

const (
	benchEnvelope = "250 2.1.0 Ok\r\n250 2.1.5 Ok\r\n"
	benchGo       = "354 End data with <CR><LF>.<CR><LF>\r\n"
	benchReset    = "250 2.0.0 Ok\r\n"
	benchFinal    = "250 2.0.0 Ok: queued as 4bCdEfGhIj\r\n"
)

func newBenchPeer(b *testing.B, level Level) *benchPeer {
	p := &benchPeer{s: ready(b, level, "250-PIPELINING", "250-CHUNKING", "250-SIZE", "250-8BITMIME")}
	p.content = []byte(strings.Repeat(strings.Repeat("x", 70)+"\r\n", 57))
	for range InFlightMax {
		tx := &Transaction{Recipients: recipients(1)}
		tx.Envelope.Sender = "sender@example.org"
		tx.Envelope.Size = int64(len(p.content))
		p.spare = append(p.spare, tx)
	}
	b.ReportAllocs()
	return p
}

func (p *benchPeer) start() {
	last := len(p.spare) - 1
	p.s.Start(p.spare[last])
	p.spare = p.spare[:last]
}

func (p *benchPeer) write() {
	p.out = p.s.Out(p.out[:0])
	n := octets(p.out)
	p.s.Written(n)
	p.octets += n
}

// next takes finished transactions and returns their number.
func (p *benchPeer) next(b *testing.B) (n int) {
	for t := p.s.Next(); t != nil; t = p.s.Next() {
		if t.Results[0].Verdict != Delivered {
			b.Fatal(t.Results)
		}
		p.spare = append(p.spare, t)
		n++
	}
	return n
}

// report checks that one message was sent in each iteration, and says what it
// took on the wire beside its content.
func (p *benchPeer) report(b *testing.B, sent int) {
	if sent != b.N {
		b.Fatalf("%d messages in %d iterations", sent, b.N)
	}
	b.ReportMetric(float64(p.octets)/float64(b.N)-float64(len(p.content)), "octets/op")
}

// A session sends one message after another without allocating more than the
// text of the final reply needs, at each level.
func BenchmarkGroup(b *testing.B) {
	p := newBenchPeer(b, Group)
	group, final := []byte(benchEnvelope+benchGo), []byte(benchFinal)
	sent := 0
	for b.Loop() {
		p.start()
		p.write()
		p.s.Feed(group)
		p.s.Supply(p.content, true)
		p.write()
		p.s.Feed(final)
		sent += p.next(b)
	}
	p.report(b, sent)
}

func BenchmarkOverlap(b *testing.B) {
	p := newBenchPeer(b, Overlap)
	first, group := []byte(benchEnvelope+benchGo), []byte(benchFinal+benchEnvelope+benchGo)
	p.start()
	p.write()
	p.s.Feed(first)
	sent := 0
	for b.Loop() {
		p.start()
		p.s.Supply(p.content, true)
		p.write()
		p.s.Feed(group)
		sent += p.next(b)
	}
	p.report(b, sent)
}

func BenchmarkStream(b *testing.B) {
	p := newBenchPeer(b, Stream)
	first, each := []byte(benchEnvelope+benchGo), []byte(benchReset+benchEnvelope+benchFinal)
	p.start()
	p.write()
	p.s.Feed(first)
	p.s.Supply(p.content, true)
	p.write()
	p.s.Feed([]byte(benchFinal))
	p.next(b)
	for range InFlightDefault - 1 {
		p.start()
		p.s.Supply(p.content, true)
		p.write()
	}
	p.octets = 0
	sent := 0
	for b.Loop() {
		p.start()
		p.s.Supply(p.content, true)
		p.write()
		p.s.Feed(each)
		sent += p.next(b)
	}
	p.report(b, sent)
}
