package users

import "testing"

// BenchmarkCheck is the cost of one login with PLAIN: time and memory of a new hash.
func BenchmarkCheck(b *testing.B) {
	s := &Set{users: map[string]*user{"alice": {hash: newHash("sesame")}}, nobody: newHash("x")}
	b.ReportAllocs()
	for b.Loop() {
		if !s.Check("alice", "sesame") {
			b.Fatal("wrong")
		}
	}
}

// BenchmarkParse is the cost of reading a file, per user.
func BenchmarkParse(b *testing.B) {
	line, _, err := lineOf("alice@example.com", "sesame", KindBoth)
	if err != nil {
		b.Fatal(err)
	}
	for b.Loop() {
		if _, err := Parse("f", []byte(line)); err != nil {
			b.Fatal(err)
		}
	}
}
