package smtp

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
)

func watched() *FieldWatch {
	return NewFieldWatch([]WatchedField{{Name: "List-Id"}, {Name: "Precedence"}, {Name: "X-Class", Remove: true}, {Name: "X-Tenant", Remove: true}})
}

// scan passes content through a FieldScan in pieces of at most n octets, and
// returns what is passed on, and what was found as "number=value".
func scan(s *FieldScan, w *FieldWatch, content string, n int) (passed, found string) {
	s.Begin(w)
	var out []byte
	for rest := []byte(content); len(rest) > 0; {
		piece := bytes.Clone(rest[:min(n, len(rest))])
		rest = rest[len(piece):]
		out = append(out, s.Next(piece)...)
	}
	out = append(out, s.End()...)
	for _, f := range s.Found() {
		found += fmt.Sprintf("%d=%s\n", f.Watched, f.Value)
	}
	return string(out), found
}

// What clients write, from tidy to broken. A field that is removed takes its
// continuation lines with it, and nothing after the header is touched.
func TestFieldScan(t *testing.T) {
	const crlf = "\r\n"
	for _, test := range []struct{ name, content, passed, found string }{
		{"no content", "", "", ""},
		{"nothing watched", "Subject: x\r\n\r\nList-Id: y\r\n", "Subject: x\r\n\r\nList-Id: y\r\n", ""},
		{"kept", "Subject: x\r\nList-Id: News <news.example.com>\r\n\r\nHi\r\n", "Subject: x\r\nList-Id: News <news.example.com>\r\n\r\nHi\r\n", "0=News <news.example.com>\n"},
		{"removed", "A: b\r\nX-Class: bulk\r\nC: d\r\n\r\nHi\r\n", "A: b\r\nC: d\r\n\r\nHi\r\n", "2=bulk\n"},
		{"removed first and last", "X-Class: bulk\r\nA: b\r\nX-Tenant: t\r\n\r\nHi\r\n", "A: b\r\n\r\nHi\r\n", "2=bulk\n3=t\n"},
		{"case, and blanks before the colon", "x-CLASS \t: bulk \t\r\n\r\n", crlf, "2=bulk\n"},
		{"folded", "List-Id: News\r\n\t<news.example\r\n .com>\r\nX-Class:\r\n bulk\r\n \r\nA: b\r\n\r\n", "List-Id: News\r\n\t<news.example\r\n .com>\r\nA: b\r\n\r\n", "0=News\t<news.example .com>\n2=bulk\n"},
		{"value with a colon", "Precedence: a: b\r\n\r\n", "Precedence: a: b\r\n\r\n", "1=a: b\n"},
		{"no value", "List-Id:\r\n\r\n", "List-Id:\r\n\r\n", "0=\n"},
		{"similar names", "List-Idx: 1\r\nList-I: 2\r\nXX-Class: 3\r\nX-Clas: 4\r\n\r\n", "List-Idx: 1\r\nList-I: 2\r\nXX-Class: 3\r\nX-Clas: 4\r\n\r\n", ""},
		{"repeated", strings.Repeat("Precedence: x\r\n", 6) + crlf, strings.Repeat("Precedence: x\r\n", 6) + crlf, strings.Repeat("1=x\n", FieldRepeatMax)},
		{"repeated and removed", strings.Repeat("X-Class: x\r\n", 6) + crlf, crlf, strings.Repeat("2=x\n", FieldRepeatMax)},
		{"long value", "Precedence: " + strings.Repeat("y", 1000) + "\r\n\r\n", "Precedence: " + strings.Repeat("y", 1000) + "\r\n\r\n", "1=" + strings.Repeat("y", FieldValueMax) + "\n"},
		{"eight bits", "List-Id: \xe9\xc3\xa9\r\n\r\n", "List-Id: \xe9\xc3\xa9\r\n\r\n", "0=\xe9\xc3\xa9\n"},
		{"header without a body", "A: b\r\nX-Class: bulk\r\n", "A: b\r\n", "2=bulk\n"},
		{"cut in a name", "A: b\r\nX-Clas", "A: b\r\nX-Clas", ""},
		{"cut in a removed field", "A: b\r\nX-Class: bu", "A: b\r\n", "2=bu\n"},
		{"a line that is no field ends the header", "A: b\r\nHello there\r\nX-Class: bulk\r\n", "A: b\r\nHello there\r\nX-Class: bulk\r\n", ""},
		{"a name with a blank in it, too", "A: b\r\nX Class: x\r\nX-Class: bulk\r\n", "A: b\r\nX Class: x\r\nX-Class: bulk\r\n", ""},
		{"and one with eight bits", "X-Cl\xe9ss: x\r\nX-Class: bulk\r\n", "X-Cl\xe9ss: x\r\nX-Class: bulk\r\n", ""},
		{"a folded line at first", " X: y\r\nX-Class: bulk\r\n\r\n", " X: y\r\nX-Class: bulk\r\n\r\n", ""},
		{"an empty header", "\r\nX-Class: bulk\r\n", "\r\nX-Class: bulk\r\n", ""},
		{"mailbox files", "From a@b Mon Jan  1 10:00:00\r\nX-Class: bulk\r\n\r\n", "From a@b Mon Jan  1 10:00:00\r\n\r\n", "2=bulk\n"},
		{"bare line ends, of clients that are let do so", "A: b\nX-Class: bulk\nC: d\n\nX-Class: x\n", "A: b\nC: d\n\nX-Class: x\n", "2=bulk\n"},
		{"a name without end", strings.Repeat("n", 2*fieldNameMax) + ": x\r\nX-Class: bulk\r\n\r\n", strings.Repeat("n", 2*fieldNameMax) + ": x\r\n\r\n", "2=bulk\n"},
		{"within the limit", filler(FieldScanMax) + "X-Class: bulk\r\n\r\n", filler(FieldScanMax) + "\r\n", "2=bulk\n"},
		{"beyond the limit", filler(FieldScanMax+1) + "X-Class: bulk\r\n\r\n", filler(FieldScanMax+1) + "X-Class: bulk\r\n\r\n", ""},
	} {
		t.Run(test.name, func(t *testing.T) {
			var s FieldScan
			for _, n := range []int{1, 2, 3, 7, 100, len(test.content) + 1} {
				if passed, found := scan(&s, watched(), test.content, n); passed != test.passed || found != test.found {
					t.Errorf("in pieces of %d:\n%.300q\n%.300q\nwant\n%.300q\n%.300q", n, passed, found, test.passed, test.found)
				}
			}
			if passed, found := scan(&s, nil, test.content, 5); passed != test.content || found != "" {
				t.Errorf("without a watch: %.300q\n%q", passed, found)
			}
		})
	}
}

// filler returns a header of n octets.
func filler(n int) string {
	const field = "Filler: 1234567890123456789012345678901234567890\r\n"
	s := strings.Repeat(field, n/len(field)-1)
	return s + "Filler: " + strings.Repeat("x", n-len(s)-len("Filler: \r\n")) + "\r\n"
}

// plainScan is the same, written for a content that is there as a whole and whose
// header is short.
func plainScan(w *FieldWatch, content string) (passed, found string) {
	var out strings.Builder
	counts := map[int]int{}
	field, header, first := -1, true, true
	var value string
	finish := func() {
		if field >= 0 {
			if counts[field]++; counts[field] <= FieldRepeatMax {
				found += fmt.Sprintf("%d=%s\n", field, bytes.TrimSpace([]byte(strings.NewReplacer("\r", "", "\n", "").Replace(value))))
			}
		}
		field = -1
	}
	for _, line := range strings.SplitAfter(content, "\n") {
		name, rest, colon := strings.Cut(line, ":")
		name = strings.TrimRight(name, " \t")
		plain := name != "" && !strings.ContainsFunc(name, func(r rune) bool { return r <= ' ' || r > '~' })
		switch folded := strings.HasPrefix(line, " ") || strings.HasPrefix(line, "\t"); {
		case !header || line == "":
		case folded && !first:
			value += line
		case first && (strings.HasPrefix(line, "From ") || strings.HasPrefix(line, ">From ")):
		case folded || !plain || !colon && strings.HasSuffix(line, "\n"):
			finish()
			header = false
		case colon:
			finish()
			field, value = w.find([]byte(name)), rest
		default:
			finish()
		}
		first = false
		if field < 0 || !w.fields[field].Remove {
			out.WriteString(line)
		}
	}
	finish()
	return out.String(), found
}

// The scan agrees with the plain version, whatever the content and the pieces are.
func FuzzFieldScan(f *testing.F) {
	f.Add("X-Class: a\r\n b\r\nList-Id: c\r\n\r\nx", uint8(3))
	f.Add("From x y\r\nX-Class : a\nX-Class\r\n", uint8(1))
	f.Fuzz(func(t *testing.T, content string, n uint8) {
		if len(content) > fieldNameMax || n == 0 {
			return
		}
		compareScans(t, content, int(n))
	})
}

func compareScans(t *testing.T, content string, n int) {
	t.Helper()
	var s FieldScan
	passed, found := scan(&s, watched(), content, n)
	if wantPassed, wantFound := plainScan(watched(), content); passed != wantPassed || found != wantFound {
		t.Fatalf("%q in pieces of %d:\n%q\n%q\nwant\n%q\n%q", content, n, passed, found, wantPassed, wantFound)
	}
}

func TestFieldScanPieces(t *testing.T) {
	seed := rand.Uint64()
	rng := rand.New(rand.NewPCG(seed, 0))
	words := []string{"X-Class", "x-tenant", "List-Id", "Subject", "From", ":", ":", " ", "\t", "\r\n", "\r\n", "\n", "\r", "a", "X-C", "\xe9", "\r\n\r\n"}
	for range 20_000 {
		var content strings.Builder
		for range rng.IntN(16) {
			content.WriteString(words[rng.IntN(len(words))])
		}
		if content.Len() <= fieldNameMax {
			compareScans(t, content.String(), 1+rng.IntN(20))
		}
	}
}

// An ordinary message costs nothing but the time to look at its lines.
func BenchmarkFieldScan(b *testing.B) {
	header := []byte("Received: from client.example.org ([192.0.2.1])\r\n\tby mx.example.com with ESMTP id 123\r\n\tfor <x@example.net>; Mon, 23 Nov 2026 00:00:00 +0000\r\n" +
		"Date: Mon, 23 Nov 2026 00:00:00 +0000\r\nFrom: Shop <news@shop.example>\r\nTo: Jane <jane@example.net>\r\nSubject: Your order\r\nMessage-ID: <1@shop.example>\r\n" +
		"MIME-Version: 1.0\r\nContent-Type: text/plain; charset=utf-8\r\nContent-Transfer-Encoding: 8bit\r\nReply-To: <help@shop.example>\r\nX-Mailer: shop 1.0\r\n" +
		"DKIM-Signature: v=1; a=rsa-sha256; c=relaxed/relaxed; d=shop.example; s=a;\r\n\th=from:to:subject; bh=47DEQpj8HBSa+/TImW+5JCeuQeRkm5NMpJWZG3hSuFU=;\r\n\tb=MEUCIQDO\r\n\r\n")
	for _, test := range []struct {
		name    string
		content []byte
	}{
		{"ordinary", header},
		{"bulk", append([]byte("List-Id: <news.shop.example>\r\nPrecedence: bulk\r\nList-Unsubscribe: <https://shop.example/u>\r\n"), header...)},
	} {
		b.Run(test.name, func(b *testing.B) {
			b.ReportAllocs()
			var s FieldScan
			w := watched()
			for b.Loop() {
				s.Begin(w)
				s.Next(test.content)
				s.End()
				s.Found()
			}
		})
	}
}
