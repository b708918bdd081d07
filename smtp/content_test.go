package smtp

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
)

// unstuffAll feeds an Unstuffer in pieces and returns the content, what came
// behind its end, and whether that was seen.
func unstuffAll(pieces [][]byte) (content, rest []byte, end bool) {
	var u Unstuffer
	for _, p := range pieces {
		p = bytes.Clone(p)
		for len(p) > 0 && !end {
			var out []byte
			var n int
			out, n, end = u.Next(p)
			content = append(content, out...)
			p = p[n:]
		}
		rest = append(rest, p...)
	}
	return content, rest, end
}

// naiveUnstuff is RFC 5321 4.5.2, octet by octet: a twin that is slow and
// easy to believe.
func naiveUnstuff(in []byte) (content, rest []byte, end bool) {
	text := "\r\n" + string(in) // the CRLF of DATA
	at := 2
	for at < len(text) {
		if text[at] == '.' && text[at-2:at] == "\r\n" {
			if strings.HasPrefix(text[at:], ".\r\n") {
				return content, []byte(text[at+3:]), true
			}
			at++
			if text[at:] == "\r" || text[at:] == "" {
				return content, nil, false // what is withheld
			}
			content = append(content, text[at])
			at++
			continue
		}
		content = append(content, text[at])
		at++
	}
	return content, nil, false
}

// cut divides text at random.
func cut(r *rand.Rand, text []byte) (pieces [][]byte) {
	for len(text) > 0 {
		n := 1 + r.IntN(min(len(text), 1+r.IntN(8)))
		pieces = append(pieces, text[:n])
		text = text[n:]
	}
	return pieces
}

// randomText draws from the octets that matter, so that all their
// combinations occur (B-15, B-80, B-82).
func randomText(r *rand.Rand, n int) []byte {
	const letters = "\r\n..\r\nab"
	b := make([]byte, n)
	for i := range b {
		b[i] = letters[r.IntN(len(letters))]
	}
	return b
}

func TestUnstufferIsItsTwin(t *testing.T) {
	seed := rand.Uint64()
	r := rand.New(rand.NewPCG(seed, 0))
	for i := range 200_000 {
		in := randomText(r, r.IntN(14))
		wantContent, wantRest, wantEnd := naiveUnstuff(in)
		content, rest, end := unstuffAll(cut(r, in))
		if end != wantEnd || !bytes.Equal(content, wantContent) || !bytes.Equal(rest, wantRest) {
			t.Fatalf("seed %d, round %d: %q gave %q %q %t, want %q %q %t", seed, i, in, content, rest, end, wantContent, wantRest, wantEnd)
		}
	}
}

// What our own client would send of any content comes back unchanged (B-82).
func TestStuffAndUnstuff(t *testing.T) {
	seed := rand.Uint64()
	r := rand.New(rand.NewPCG(seed, 0))
	for range 2000 {
		text := bytes.ReplaceAll(randomText(r, r.IntN(200)), []byte("\r"), nil)
		text = append(bytes.ReplaceAll(text, []byte("\n"), []byte("\r\n")), "\r\n"...)
		var s Stuffer
		s.Reset()
		wire := append(bytes.Clone(s.Encode(text)), s.End()...)
		content, rest, end := unstuffAll(cut(r, wire))
		if !end || len(rest) > 0 || !bytes.Equal(content, text) {
			t.Fatalf("seed %d: %q went as %q and came as %q (end %t)", seed, text, wire, content, end)
		}
	}
}

// B-80: nothing but CRLF . CRLF ends content.
func TestOnlyTheTrueEnd(t *testing.T) {
	for _, lure := range []string{
		"\n.\n", "\n.\r\n", "\r\n.\n", "\r.\r", "\r.\r\n", "\r\n.\r", "\r\r\n.\r\r\n", "\n.\r", "\x00\r\n.\x00\r\n", "\r\n\x00.\r\n", "\r\n.\x00\r\n", "\r\n..\r\n", "\r\n .\r\n",
	} {
		_, rest, end := unstuffAll([][]byte{[]byte("text" + lure + "MAIL")})
		if end {
			t.Errorf("%q ended the content; rest %q", lure, rest)
		}
	}
}

func FuzzUnstuffer(f *testing.F) {
	f.Add([]byte(".\r\n"), uint64(1))
	f.Add([]byte("..a\r\n.\r\r\n.\r\nQUIT\r\n"), uint64(2))
	f.Fuzz(func(t *testing.T, in []byte, seed uint64) {
		wantContent, wantRest, wantEnd := naiveUnstuff(in)
		content, rest, end := unstuffAll(cut(rand.New(rand.NewPCG(seed, 0)), in))
		if end != wantEnd || !bytes.Equal(content, wantContent) || !bytes.Equal(rest, wantRest) {
			t.Fatalf("%q gave %q %q %t, want %q %q %t", in, content, rest, end, wantContent, wantRest, wantEnd)
		}
	})
}

// naiveFlaws looks at the whole content at once.
func naiveFlaws(in []byte, limit int) (found Flaw) {
	text := string(in)
	if strings.Contains(text, "\x00") {
		found |= FlawNUL
	}
	if strings.ContainsAny(strings.ReplaceAll(text, "\r\n", ""), "\r\n") {
		found |= FlawNewline
	}
	for _, line := range strings.SplitAfter(text, "\n") {
		if len(line) > limit {
			found |= FlawLongLine
		}
	}
	return found
}

func TestLineScanIsItsTwin(t *testing.T) {
	seed := rand.Uint64()
	r := rand.New(rand.NewPCG(seed, 0))
	for i := range 100_000 {
		in := randomText(r, r.IntN(12))
		if r.IntN(4) == 0 {
			in = bytes.ReplaceAll(bytes.ReplaceAll(in, []byte("\r"), nil), []byte("\n"), []byte("\r\n"))
		}
		if r.IntN(8) == 0 {
			in = append(in, 0)
		}
		l := LineScan{Max: 6}
		var found Flaw
		for _, p := range cut(r, in) {
			found |= l.Scan(p)
		}
		found |= l.End()
		// ReplaceAll can join the halves of a removed pair's neighbours, as in
		// CR CRLF LF, which the twin then takes for good: look at those apart.
		want := naiveFlaws(in, 6)
		if strings.Contains(string(in), "\r\r\n") || strings.Contains(string(in), "\r\n\n") {
			want |= FlawNewline
		}
		if found != want {
			t.Fatalf("seed %d, round %d: %q has %b, want %b", seed, i, in, found, want)
		}
	}
}

// The normal form has no flaws of line ends, keeps what had none, and does
// not depend on how the content is cut.
func TestNormalizer(t *testing.T) {
	seed := rand.Uint64()
	r := rand.New(rand.NewPCG(seed, 0))
	for range 50_000 {
		in := randomText(r, r.IntN(12))
		var whole, parts Normalizer
		want := whole.End(whole.Append(nil, in))
		var got []byte
		for _, p := range cut(r, in) {
			got = parts.Append(got, p)
		}
		got = parts.End(got)
		if !bytes.Equal(got, want) {
			t.Fatalf("seed %d: %q became %q and %q", seed, in, want, got)
		}
		if naiveFlaws(got, 100) != 0 {
			t.Fatalf("seed %d: %q became %q", seed, in, got)
		}
		l := LineScan{Max: 100}
		if l.Scan(in)|l.End() == 0 && !bytes.Equal(got, in) {
			t.Fatalf("seed %d: %q became %q without need", seed, in, got)
		}
	}
}

// A header is counted up to its end and no further, wherever it is cut.
func TestHeaderScan(t *testing.T) {
	limits := HeaderLimits{Octets: 400, Fields: 8, Received: 3, Own: 2, Host: "mx.example"}
	received := "Received: from x by other.example; date\r\n"
	own := "Received: from x\r\n\tby MX.example (Posthaste) with ESMTP id 1; date\r\n"
	for _, test := range []struct {
		name, text string
		want       Flaw
	}{
		{"nothing", "", 0},
		{"no header", "\r\n" + strings.Repeat(received, 5), 0},
		{"text at once", "hello world\r\n" + strings.Repeat(received, 5), 0},
		{"three hops", strings.Repeat(received, 3) + "\r\n", 0},
		{"four hops", strings.Repeat(received, 4) + "\r\n", FlawHops},
		{"in capitals", strings.Repeat("RECEIVED : x\r\n", 4), FlawHops},
		{"one of ours", own + "\r\n", 0},
		{"two of ours", own + own + "\r\n", FlawHops},
		{"counted once", "Received: by mx.example\r\n\tby mx.example\r\n\r\n", 0},
		{"semicolon", strings.Repeat("Received: by mx.example; x\r\n", 2), FlawHops},
		{"not ours", strings.Repeat("Received: by mx.example.org x\r\n\tfor mx.example\r\n", 3), 0},
		{"another field", strings.Repeat("X-Trace: by mx.example\r\n", 3), 0},
		{"fields", strings.Repeat("A: b\r\n", 9), FlawHeaderFields},
		{"folds are no fields", strings.Repeat("A: b\r\n c\r\n", 8), 0},
		{"octets", "A: " + strings.Repeat("x", 398) + "\r\n", FlawHeaderSize},
		{"a long body", "A: b\r\n\r\n" + strings.Repeat("x", 4000), 0},
	} {
		t.Run(test.name, func(t *testing.T) {
			for _, size := range []int{1, 3, 64, 10000} {
				h := HeaderScan{Limits: limits}
				var found Flaw
				for at := 0; at < len(test.text); at += size {
					found |= h.Scan([]byte(test.text[at:min(at+size, len(test.text))]))
				}
				if found != test.want {
					t.Errorf("pieces of %d: %b, want %b", size, found, test.want)
				}
			}
		})
	}
}

func BenchmarkContent(b *testing.B) {
	line := strings.Repeat("x", 70) + "\r\n"
	for _, size := range []int{4 << 10, 32 << 10} {
		wire := []byte(strings.Repeat(line, size/len(line)) + ".\r\n")
		b.Run(fmt.Sprint(size), func(b *testing.B) {
			b.SetBytes(int64(len(wire)))
			b.ReportAllocs()
			for b.Loop() {
				var u Unstuffer
				l := LineScan{Max: 1000}
				content, _, end := u.Next(wire)
				if !end || l.Scan(content) != 0 {
					b.Fatal("not what it should be")
				}
			}
		})
	}
}

func BenchmarkParseMail(b *testing.B) {
	arg := []byte("FROM:<sender@a.example> SIZE=4096 BODY=8BITMIME")
	b.ReportAllocs()
	for b.Loop() {
		if _, f := ParseMail(arg, PathRules{}); f != FaultNone {
			b.Fatal(f)
		}
	}
}
