package smtp

import (
	"bytes"
	"testing"
)

func TestChunk(t *testing.T) {
	for _, c := range []struct{ name, content, want string }{
		{"as it should be", "a: b\r\n\r\nc\r\n", "a: b\r\n\r\nc\r\n"},
		{"dots are nothing special", ".\r\n..x\r\n", ".\r\n..x\r\n"},
		{"nothing", "", "\r\n"},
		{"no line end", "x", "x\r\n"},
		{"bare LF", "a\nb\r\n\nc\n", "a\r\nb\r\n\r\nc\r\n"},
		{"bare CR", "a\rb\r\r\nc\r\n", "a b \r\nc\r\n"},
		{"CR at the end", "a\r", "a\r\n"},
		{"LF CR", "a\n\r", "a\r\n\r\n"},
	} {
		if got := Chunk([]byte(c.content)); string(got) != c.want {
			t.Errorf("%s: %q, want %q", c.name, got, c.want)
		}
	}
}

// What is right already is not copied: a message of 64 KiB costs nothing.
func TestChunkDoesNotCopy(t *testing.T) {
	content := bytes.Repeat([]byte("some text\r\n"), 1000)
	if allocs := testing.AllocsPerRun(10, func() { Chunk(content) }); allocs > 0 {
		t.Errorf("%v allocations", allocs)
	}
	if got := Chunk(content); &got[0] != &content[0] {
		t.Error("the content was copied")
	}
}

// Whatever goes in, what comes out ends in CRLF, has no bare CR or LF, and is
// what a Stuffer would send, but for the dots.
func FuzzChunk(f *testing.F) {
	for _, seed := range []string{"", "a\r\n", "\r\r\n\n", "a\rb\n.\r\nc"} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, content []byte) {
		got := Chunk(bytes.Clone(content))
		if !bytes.HasSuffix(got, []byte("\r\n")) || bytes.Count(got, []byte("\n")) != bytes.Count(got, []byte("\r\n")) ||
			bytes.Count(got, []byte("\r")) != bytes.Count(got, []byte("\r\n")) {
			t.Fatalf("%q becomes %q", content, got)
		}
		if len(content) == 0 {
			return // nothing is an empty line here, for the sake of servers, and no line behind DATA
		}
		var u Unstuffer
		want, _, end := u.Next(stuffAll(content, whole))
		if !end || !bytes.Equal(got, want) {
			t.Fatalf("%q becomes %q behind BDAT, %q behind DATA", content, got, want)
		}
	})
}
