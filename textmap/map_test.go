package textmap

import (
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"runtime"
	"strings"
	"testing"
	"testing/iotest"
	"time"
)

func read(text string) (*Map, error) {
	return Read("f", strings.NewReader(text), int64(len(text)), nil)
}

// Lines as administrators write them for Postfix: comments, continuation lines, quoted keys.
func TestRead(t *testing.T) {
	m, err := read("\ufeff# comment\r\n" +
		"joe@Example.com   jane@example.com\r\n" +
		"\n" +
		"  # a comment within\n" +
		"@old.example\t@new.example\n" +
		"all  a@x.example,\n" +
		"\tb@x.example,\n" +
		"# another\n" +
		"  c@x.example  \n" +
		"\"joe doe\"@example.com x@y.example\n" +
		"jörg@example.com y@y.example\n" +
		"   \t\n" +
		"#last z")
	if err != nil {
		t.Fatal(err)
	}
	for key, want := range map[string]string{
		"joe@example.com": "jane@example.com", "JOE@EXAMPLE.COM": "jane@example.com", "@old.example": "@new.example",
		"all": "a@x.example,\tb@x.example,  c@x.example", `"Joe Doe"@example.com`: "x@y.example", "jörg@Example.com": "y@y.example",
	} {
		if got, ok := m.Find(key); !ok || got != want {
			t.Errorf("%q: %q %v, want %q", key, got, ok, want)
		}
	}
	for _, key := range []string{"", "jo", "joe@example.co", "al", "jane@example.com", "#last"} {
		if got, ok := m.Find(key); ok {
			t.Errorf("%q: %q", key, got)
		}
	}
	if m.Len() != 5 || m.Whole() || m.Name() != "f" {
		t.Errorf("%d entries, whole %v, of %s", m.Len(), m.Whole(), m.Name())
	}
	if m, err := read(""); err != nil || m.Len() != 0 {
		t.Errorf("an empty file: %v %v", m, err)
	} else if _, ok := m.Find("x"); ok {
		t.Error("something is in an empty file")
	}
}

// All mistakes of a file are found at once, each with its line.
func TestReadRefuses(t *testing.T) {
	text := "  begins\n" + "alone\n" + "a b\n" + "A c\n" + "\"x y\n" + "root: joe\n" + "c d\x01\n" + "e \xff\n" + "bad value\n" + "l " + strings.Repeat("x", LineMax-10) + "\n  " + strings.Repeat("y", 100) + "\n" + "f g\n"
	_, err := Read("/etc/m", strings.NewReader(text), 0, func(_, value string) error {
		if value == "value" {
			return errors.New("not this")
		}
		return nil
	})
	if err == nil {
		t.Fatal("no mistake")
	}
	for _, want := range []string{
		"/etc/m:1: the first line begins with white space", `/etc/m:2: "alone" has no value`, `/etc/m:4: the key "a" is in line 3 already`,
		`/etc/m:5: the quote (") is not closed`, `/etc/m:6: "root:" has a colon at its end`, "/etc/m:7: there is a control character", "/etc/m:8: the line is not UTF-8",
		"/etc/m:9: not this", "/etc/m:10: the line is longer than 65536 bytes with those",
	} {
		if !strings.Contains(err.Error(), want) {
			t.Errorf("%q is not in\n%v", want, err)
		}
	}
	if n := strings.Count(err.Error(), "/etc/m:"); n != 9 {
		t.Errorf("%d mistakes:\n%v", n, err)
	}
	if _, err := read(strings.Repeat("x\n", 100)); err == nil || !strings.Contains(err.Error(), "f: 80 more mistakes") || strings.Count(err.Error(), "\n") != mistakesMax {
		t.Errorf("a hundred mistakes: %v", err)
	}
	if _, err := read("a b\n" + strings.Repeat("x", 2*LineMax)); err == nil || !strings.Contains(err.Error(), "f:2: the line is longer than 65536 bytes, and") {
		t.Errorf("an endless line: %v", err)
	}
	broken := errors.New("disk")
	if _, err := Read("f", io.MultiReader(strings.NewReader("a b\n"), iotest.ErrReader(broken)), 0, nil); !errors.Is(err, broken) {
		t.Errorf("a disk that fails: %v", err)
	}
}

// A map finds exactly what a map of Go's finds.
func TestFindAgainstMap(t *testing.T) {
	seed := rand.Uint64()
	random := rand.New(rand.NewPCG(seed, 1))
	t.Logf("seed %d", seed)
	key := func() string { return fmt.Sprintf("%c%d@x", 'a'+random.IntN(3), random.IntN(40)) }
	for range 50 {
		plain := map[string]string{}
		var text strings.Builder
		for range random.IntN(60) {
			if k := key(); plain[k] == "" {
				plain[k] = fmt.Sprint("v", random.IntN(1000))
				fmt.Fprintf(&text, "%s %s\n", strings.ToUpper(k), plain[k])
			}
		}
		m, err := read(text.String())
		if err != nil {
			t.Fatal(err)
		}
		for range 100 {
			k := key()
			if got, ok := m.Find(k); got != plain[k] || ok != (plain[k] != "") {
				t.Fatalf("%q: %q %v, want %q", k, got, ok, plain[k])
			}
		}
	}
}

// Regular expressions as in regexp_table(5): the first that matches decides.
func TestReadExpressions(t *testing.T) {
	m, err := ReadExpressions("f", strings.NewReader(`
# order matters
/^root@/          admin@example.com
/^(.*)\+(.*)@OLD\.example$/  $1@new.example,
   ${2}-$(1)$$@x.example
/^Case@/i         no@example.com
if /@c\.example$/
!/^known/         unknown@example.com
if !/z/
|^k(.*)@|         $1
endif
endif
!/@/              bare@example.com
/@special\/x\.example/ s@example.com
`), nil)
	if err != nil {
		t.Fatal(err)
	}
	for key, want := range map[string]string{
		"ROOT@a.example": "admin@example.com", "joe+x@old.example": "joe@new.example,   x-joe$@x.example", "Case@a.example": "no@example.com",
		"a@c.example": "unknown@example.com", "nobody": "bare@example.com", "a@special/x.example": "s@example.com", "case@a.example": "", "b@d.example": "",
		"known@c.example": "nown", "known-z@c.example": "",
	} {
		if got, ok := m.Find(key); got != want || ok != (want != "") {
			t.Errorf("%q: %q %v, want %q", key, got, ok, want)
		}
	}
	if !m.Whole() {
		t.Error("an expression is looked up with parts of addresses")
	}
}

// A file with very many mistakes has the first of them listed, and the mark of UTF-8 is one only
// at its beginning.
func TestReadBorders(t *testing.T) {
	_, err := Read("f", strings.NewReader(strings.Repeat("a\n", mistakesMax+5)), 0, nil)
	if err == nil || !strings.Contains(err.Error(), "f: 5 more mistakes") || strings.Count(err.Error(), "has no value") != mistakesMax {
		t.Errorf("%v", err)
	}
	m, err := Read("f", strings.NewReader("\ufeffa b\n\ufeffc d\n"), 0, nil)
	if err != nil {
		t.Fatal(err)
	}
	if _, ok := m.Find("c"); ok {
		t.Error("a mark in the second line was taken off")
	}
	if v, ok := m.Find("a"); !ok || v != "b" {
		t.Errorf("a: %q, %v", v, ok)
	}
}

// What a stranger writes in an address makes no address of its own, whatever the expression
// takes out of it: "victim@evil.example,x"@old.example went to the victim.
func TestExpressionsKeepAddresses(t *testing.T) {
	m, err := ReadExpressions("f", strings.NewReader(`
/^"?(.*)"?@old\.example$/   $1@new.example, audit@x.example
/^"(.*)"@quoted\.example$/  "$1"@new.example
/^(")?(x)?.*@half\.example$/     ${1}a@new.example, audit@x.example
`), nil)
	if err != nil {
		t.Fatal(err)
	}
	for key, want := range map[string]string{
		`joe@old.example`:                     "joe@new.example, audit@x.example",
		`"victim@evil.example,x"@old.example`: "",
		`"victim@evil.example x"@old.example`: "",
		"\"a\tb\"@old.example":                "",
		`"a, b"@quoted.example`:               `"a, b"@new.example`,
		`"a\", b"@quoted.example`:             `"a\", b"@new.example`,
		`"a\\"@quoted.example`:                `"a\\"@new.example`,
		`"a"@half.example`:                    "",
		`a@half.example`:                      "a@new.example, audit@x.example",
	} {
		if got, ok := m.Find(key); got != want || !ok {
			t.Errorf("%s: %q %v, want %q", key, got, ok, want)
		}
	}
}

// The expressions in a file have mistakes, too.
func TestReadExpressionsRefuses(t *testing.T) {
	for text, want := range map[string]string{
		"joe@a b":          `"joe@a b" does not begin with an expression`,
		"/a":               "the expression has no / at its end",
		"/a/":              "the expression has no value",
		"/(/ x":            "the expression cannot be used (RE2): missing closing )",
		"/(?=a)b/ x":       "cannot be used (RE2)",
		"/a/x b":           `the flag 'x' is not one of i, m and s`,
		"/a/ $1":           "names group 1, and the expression has 0",
		"/a/ $99999999999": "the expression has 0",
		"!/(a)/ $1":        "what does not match has none",
		"/a/ a$":           "names no group",
		"/a/ ${1":          "names no group",
		"endif":            "endif has no if",
		"if /a/":           "f:1: this if has no endif",
		"if /a/ b":         "an if has no value",
		"!":                "does not begin with an expression",
		strings.Repeat("if /a/\n", 20) + strings.Repeat("endif\n", 20): "f:17: more than 16 ifs",
		strings.Repeat("/a/ b\n", ExpressionsMax+1):                    "f:10001: there are more than 10000",
	} {
		if _, err := ReadExpressions("f", strings.NewReader(text), nil); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%.60q: %v\nwant %s", text, err, want)
		}
	}
}

// No file breaks the reader, and what it has read can be found.
func FuzzRead(f *testing.F) {
	f.Add("a b\n c\n#\n\"x y\"@z d\r\n", false)
	f.Add("if /a/\n/(b)/i $1\nendif\n!/c/ d\n", true)
	f.Fuzz(func(t *testing.T, text string, expressions bool) {
		if expressions {
			if m, err := ReadExpressions("f", strings.NewReader(text), nil); err == nil {
				m.Find("joe@example.com")
			}
			return
		}
		pairs := map[string]string{}
		m, err := Read("f", strings.NewReader(text), 0, func(key, value string) error { pairs[key] = value; return nil })
		if err != nil {
			return
		}
		for key, value := range pairs {
			if got, ok := m.Find(key); !ok || got != value {
				t.Errorf("%q: %q %v, want %q", key, got, ok, value)
			}
		}
	})
}

// A map of a million lines: what reading it takes, and what it takes in memory.
func BenchmarkMillion(b *testing.B) {
	var text strings.Builder
	for i := range 1_000_000 {
		fmt.Fprintf(&text, "customer%07d@example.com    mailbox%07d@mail.example.net\n", i, i)
	}
	file := text.String()
	b.SetBytes(int64(len(file)))
	var m *Map
	for b.Loop() {
		begun := time.Now()
		var before, after runtime.MemStats
		runtime.GC()
		runtime.ReadMemStats(&before)
		var err error
		if m, err = Read("f", strings.NewReader(file), int64(len(file)), nil); err != nil {
			b.Fatal(err)
		}
		b.ReportMetric(time.Since(begun).Seconds(), "s")
		runtime.GC()
		runtime.ReadMemStats(&after)
		b.ReportMetric(float64(after.HeapAlloc-before.HeapAlloc)/1e6, "MB")
	}
	begun := time.Now()
	for i := range 1_000_000 {
		if _, ok := m.Find(fmt.Sprintf("customer%07d@example.com", i)); !ok {
			b.Fatal(i)
		}
	}
	b.ReportMetric(float64(time.Since(begun).Nanoseconds())/1e6, "ns/find")
}
