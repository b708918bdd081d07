package smtp

import (
	"bytes"
	"math/rand/v2"
	"strings"
	"testing"
)

// stuffAll encodes a content in portions.
func stuffAll(content []byte, portion func(left int) int) []byte {
	var s Stuffer
	var out []byte
	for len(content) > 0 {
		n := portion(len(content))
		out = append(out, s.Encode(content[:n])...)
		content = content[n:]
	}
	return append(out, s.End()...)
}

// naiveStuff encodes the slow way: make the line ends right, then look at each
// line.
func naiveStuff(content string) string {
	content = strings.ReplaceAll(content, "\r\n", "\n")
	if rest, ok := strings.CutSuffix(content, "\r"); ok {
		content = rest + "\n" // half a line end at the end is completed
	}
	content = strings.ReplaceAll(content, "\r", " ")
	var out strings.Builder
	for line := range strings.Lines(content) {
		if line[0] == '.' {
			out.WriteByte('.')
		}
		out.WriteString(strings.TrimSuffix(line, "\n") + "\r\n")
	}
	return out.String() + ".\r\n"
}

// Content in all shapes, whole and octet by octet.
func TestStuffer(t *testing.T) {
	for _, c := range []struct{ content, want string }{
		{"", ".\r\n"},
		{"a\r\n", "a\r\n.\r\n"},
		{"a", "a\r\n.\r\n"},
		{".\r\n", "..\r\n.\r\n"},
		{"..\r\n.a\r\n", "...\r\n..a\r\n.\r\n"},
		{"a\r\n.\r\nb\r\n", "a\r\n..\r\nb\r\n.\r\n"},
		{"a\n.\nb\n", "a\r\n..\r\nb\r\n.\r\n"},      // the ways in which a second message
		{"a\r\n.\nb", "a\r\n..\r\nb\r\n.\r\n"},      // could be smuggled in
		{"a\n.\r\nb", "a\r\n..\r\nb\r\n.\r\n"},      //
		{"a\r.\r\nb", "a .\r\nb\r\n.\r\n"},          //
		{"a\r\n.\rb", "a\r\n.. b\r\n.\r\n"},         //
		{"a\r\r\n.\r\r\n", "a \r\n.. \r\n.\r\n"},    //
		{"a\r", "a\r\n.\r\n"},                       //
		{"a\r\n\r", "a\r\n\r\n.\r\n"},               //
		{"a\x00b\xff\r\n", "a\x00b\xff\r\n.\r\n"},   // not our business
		{"\r\n.\r\n.\r\n", "\r\n..\r\n..\r\n.\r\n"}, //
	} {
		for name, portion := range map[string]func(int) int{"whole": whole, "single": single} {
			if got := string(stuffAll([]byte(c.content), portion)); got != c.want {
				t.Errorf("%s: %q became %q, want %q", name, c.content, got, c.want)
			}
		}
	}
}

// Content that needs no change is not copied: that is what makes sending cheap.
func TestStufferCopiesNothing(t *testing.T) {
	content := []byte("Subject: x\r\n\r\na.b\r\n c\r\n")
	var s Stuffer
	if out := s.Encode(content); &out[0] != &content[0] || len(out) != len(content) {
		t.Error("content was copied")
	}
}

// Random content made of the octets that matter, in random portions, must come
// out as the slow encoder has it, with CR and LF in pairs only, and a lone dot
// at the very end only.
func FuzzStuffer(f *testing.F) {
	for _, s := range []string{"", ".", "\r\n.\r\n", "a\n.b\r\n", "\r\r\n.\r"} {
		f.Add([]byte(s), uint64(7))
	}
	f.Fuzz(func(t *testing.T, content []byte, seed uint64) {
		rng := rand.New(rand.NewPCG(seed, 0))
		checkStuffed(t, content, stuffAll(content, func(left int) int { return 1 + rng.IntN(left) }))
	})
}

func TestStufferRandom(t *testing.T) {
	seed := rand.Uint64()
	rng := rand.New(rand.NewPCG(seed, 0))
	for range 20000 {
		content := make([]byte, rng.IntN(24))
		for i := range content {
			content[i] = "\r\n.\r\n.a"[rng.IntN(7)]
		}
		checkStuffed(t, content, stuffAll(content, func(left int) int { return 1 + rng.IntN(left) }))
		if t.Failed() {
			t.Fatalf("seed %d", seed)
		}
	}
}

func checkStuffed(t *testing.T, content, got []byte) {
	t.Helper()
	if want := naiveStuff(string(content)); string(got) != want {
		t.Errorf("%q became %q, want %q", content, got, want)
	}
	if bytes.Count(got, []byte("\r\n")) != bytes.Count(got, []byte("\r")) ||
		bytes.Count(got, []byte("\r\n")) != bytes.Count(got, []byte("\n")) {
		t.Errorf("%q became %q, which has a bare CR or LF", content, got)
	}
	if i := bytes.Index(append([]byte("\r\n"), got...), []byte("\r\n.\r\n")); i != len(got)-3 {
		t.Errorf("%q became %q, which ends early", content, got)
	}
}

func BenchmarkStuffer(b *testing.B) {
	plain := []byte(strings.Repeat(strings.Repeat("x", 70)+"\r\n", 57))
	dots := bytes.ReplaceAll(plain, []byte("\nxxx"), []byte("\n.xx"))
	for name, content := range map[string][]byte{"plain": plain, "dots": dots} {
		b.Run(name, func(b *testing.B) {
			var s Stuffer
			b.SetBytes(int64(len(content)))
			b.ReportAllocs()
			for b.Loop() {
				s.Reset()
				s.Encode(content)
				s.End()
			}
		})
	}
}
