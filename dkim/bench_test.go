package dkim

import (
	"bytes"
	"io"
	"runtime"
	"strings"
	"testing"

	"github.com/emersion/go-msgauth/dkim"

	"github.com/posthaste-mta/posthaste/mail"
)

// benchHeader is the header of an ordinary message.
const benchHeader = "Received: from client.example (client.example [192.0.2.1])\r\n\tby mta.example (Posthaste) with ESMTP id 4XyZ;\r\n\tMon, 23 Nov 2026 10:00:00 +0000\r\n" +
	"From: Somebody <somebody@example.com>\r\nTo: Somebody Else <else@example.net>\r\nSubject: What we have talked about yesterday\r\n" +
	"Date: Mon, 23 Nov 2026 10:00:00 +0000\r\nMessage-ID: <123456789@client.example>\r\nMIME-Version: 1.0\r\nContent-Type: text/plain; charset=utf-8\r\n" +
	"Content-Transfer-Encoding: 7bit\r\nList-Unsubscribe: <https://example.com/u/123456789>\r\nList-Unsubscribe-Post: List-Unsubscribe=One-Click\r\n\r\n"

func benchContent(size int) []byte {
	return []byte(benchHeader + strings.Repeat("The quick brown fox jumps over the lazy dog, and then it has a rest.\r\n", size/70))
}

// What a session spends on a message while its content arrives, and at its end without the
// keys.
func BenchmarkMessage(b *testing.B) {
	r := twoKeys(b)
	for name, size := range map[string]int{"4KB": 4 << 10, "256KB": 256 << 10, "8MB": 8 << 20} {
		content := benchContent(size)
		b.Run(name, func(b *testing.B) {
			b.SetBytes(int64(len(content)))
			b.ReportAllocs()
			var m Message
			for b.Loop() {
				m.Begin(r)
				for rest := content; len(rest) > 0; {
					n := min(len(rest), 32<<10)
					m.Write(rest[:n])
					rest = rest[n:]
				}
				if p := m.Finish("", mail.Flow{}, now); p.Reason != Signed {
					b.Fatal(p.Reason)
				}
			}
		})
	}
}

// What a signature takes.
func BenchmarkSign(b *testing.B) {
	keys := testKeys()
	for _, private := range keys {
		r, err := NewRing([]Key{{Name: "k", Domains: []string{"example.com"}, Selector: "s", Private: private}})
		if err != nil {
			b.Fatal(err)
		}
		b.Run(private.Algorithm().String(), func(b *testing.B) {
			b.ReportAllocs()
			var m Message
			m.Begin(r)
			m.Write(benchContent(4 << 10))
			p := m.Finish("", mail.Flow{}, now)
			for b.Loop() {
				if _, err := p.Sign(); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

// The library's signer with the same work (doc.go has the reasons against it).
func BenchmarkLibrary(b *testing.B) {
	private := testKeys()[Ed25519]
	signer := func(b *testing.B) *dkim.Signer {
		s, err := dkim.NewSigner(&dkim.SignOptions{Domain: "example.com", Selector: "s", Signer: private.signer,
			HeaderCanonicalization: dkim.CanonicalizationRelaxed, BodyCanonicalization: dkim.CanonicalizationRelaxed, HeaderKeys: []string{"From", "From", "To", "Subject", "Date"}})
		if err != nil {
			b.Fatal(err)
		}
		return s
	}
	write := func(b *testing.B, w io.Writer, p []byte) {
		if _, err := w.Write(p); err != nil {
			b.Fatal(err)
		}
	}
	for _, c := range []struct {
		name string
		size int
	}{{"4KB", 4 << 10}, {"8MB", 8 << 20}} {
		content := benchContent(c.size)
		b.Run(c.name, func(b *testing.B) {
			b.SetBytes(int64(len(content)))
			b.ReportAllocs()
			for b.Loop() {
				s := signer(b)
				write(b, s, content)
				if err := s.Close(); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
	folded := func(size int) []byte {
		return []byte("From: a@example.com\r\nX: y\r\n" + strings.Repeat(" y\r\n", size/4) + "\r\nx\r\n")
	}
	for _, c := range []struct {
		name string
		size int
	}{{"64KB", 64 << 10}, {"256KB", 256 << 10}, {"1MB", 1 << 20}} {
		b.Run("folded field of "+c.name, func(b *testing.B) {
			content := folded(c.size)
			for b.Loop() {
				s := signer(b)
				write(b, s, content)
				if err := s.Close(); err != nil {
					b.Fatal(err)
				}
			}
		})
		b.Run("ours, folded field of "+c.name, func(b *testing.B) {
			r, content := twoKeys(b), folded(c.size)
			var m Message
			for b.Loop() {
				m.Begin(r)
				m.Write(content)
				m.Finish("", mail.Flow{}, now)
			}
		})
	}
	blank := bytes.Repeat([]byte("\r\n"), 16<<10)
	held := func(w io.Writer) int64 {
		var before, after runtime.MemStats
		runtime.GC()
		runtime.ReadMemStats(&before)
		write(b, w, []byte("From: a@example.com\r\n\r\nx\r\n"))
		for range 30 << 20 / len(blank) {
			write(b, w, blank)
		}
		runtime.GC()
		runtime.ReadMemStats(&after)
		return max(0, int64(after.HeapAlloc)-int64(before.HeapAlloc))
	}
	b.Run("30 MB of empty lines", func(b *testing.B) {
		for b.Loop() {
			s := signer(b)
			b.ReportMetric(float64(held(s)), "held-B")
			if err := s.Close(); err != nil {
				b.Fatal(err)
			}
		}
	})
	b.Run("ours, 30 MB of empty lines", func(b *testing.B) {
		r := twoKeys(b)
		for b.Loop() {
			m := new(Message)
			m.Begin(r)
			b.ReportMetric(float64(held(writer{m})), "held-B")
			m.Finish("", mail.Flow{}, now)
		}
	})
}

// writer is a Message as an io.Writer.
type writer struct{ *Message }

func (w writer) Write(p []byte) (int, error) {
	w.Message.Write(p)
	return len(p), nil
}
