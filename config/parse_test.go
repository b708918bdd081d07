package config

import (
	"bytes"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/posthaste-mta/posthaste/internal/golden"
	"github.com/posthaste-mta/posthaste/internal/tomlfile"
)

// Parse either accepts a file, and then every package accepts the result, which can
// be written and read again; or it reports the positions of the mistakes. Nothing
// panics.
func FuzzParse(f *testing.F) {
	files, err := filepath.Glob("testdata/broken/*.toml")
	if err != nil {
		f.Fatal(err)
	}
	for _, path := range files {
		text, err := os.ReadFile(path)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(text)
	}
	f.Add([]byte(sample))
	f.Add([]byte("a.b.c = {d = [1, {e = 2}]}\n[[a.b]]\n[a]\n"))
	f.Add([]byte("routes.x = \"\"\"\\\n  smtp:\"\"\"\r\n[transport.\"\"]\n'' = 1"))
	f.Fuzz(func(t *testing.T, text []byte) {
		c, err := Parse("fuzz.toml", text, testEnvironment)
		if err == nil {
			checkMapped(t, c)
			checkAgain(t, c)
			return
		}
		var problems *tomlfile.Problems
		if !errors.As(err, &problems) || len(problems.List) == 0 {
			t.Fatalf("not problems: %v", err)
		}
		checkProblems(t, text, problems)
	})
}

func checkAgain(t *testing.T, c *Config) {
	t.Helper()
	written := shown(t, c, false, false)
	again, err := Parse("again.toml", []byte(written), testEnvironment)
	if err != nil {
		t.Fatalf("%v\n%s", err, written)
	}
	if changes := Diff(c, again); len(changes) > 0 {
		t.Fatalf("changed on the way: %v\n%s", changes, written)
	}
}

// checkProblems asserts that the problems have positions in the text, in order, and
// that each excerpt underlines a part of its line.
func checkProblems(t *testing.T, text []byte, problems *tomlfile.Problems) {
	t.Helper()
	lines := bytes.Split(bytes.TrimPrefix(text, []byte("\ufeff")), []byte("\n"))
	last := 0
	for _, p := range problems.List {
		if p.Line < 1 || p.Line > len(lines) || p.Column < 1 || p.Column > len(lines[p.Line-1])+1 {
			t.Fatalf("no such place: %v", p)
		}
		if p.Line < last {
			t.Fatalf("out of order: %v", problems)
		}
		last = p.Line
		if p.Message == "" || p.Length < 1 {
			t.Fatalf("incomplete: %+v", p)
		}
		picture := strings.Split(p.String(), "\n")
		source, underline := []rune(picture[1]), []rune(picture[2])
		if len(underline) > len(source)+1 || !strings.Contains(picture[2], "^") || len(source) > tomlfile.ExcerptMax+20 {
			t.Fatalf("bad picture:\n%s", p)
		}
	}
}

// All mistakes are reported in one run: a file with a mistake in every line has a
// problem in every line, up to ProblemsMax.
func TestAllAtOnce(t *testing.T) {
	var file strings.Builder
	for i := range tomlfile.ProblemsMax + 20 {
		fmt.Fprintf(&file, "unknown_%d = %d\n", i, i)
	}
	_, err := Parse("many.toml", []byte(file.String()), testEnvironment)
	var problems *tomlfile.Problems
	if !errors.As(err, &problems) || len(problems.List) != tomlfile.ProblemsMax || problems.More != 20 {
		t.Fatalf("%v", err)
	}
	for i, p := range problems.List {
		if p.Line != i+1 {
			t.Errorf("problem %d is in line %d", i, p.Line)
		}
	}
	if text := problems.String(); !strings.Contains(text, "70 problems, of which these are the first 50") {
		t.Errorf("%s", text[max(0, len(text)-100):])
	}
	var one tomlfile.Problem
	if !errors.As(err, &one) || one.Key != "unknown_0" {
		t.Errorf("errors.As gives %+v", one)
	}
}

// A parameter of every type rejects values of every other type, with a position and
// without a panic.
func TestEveryParameterRefusesOtherTypes(t *testing.T) {
	for _, p := range Parameters() {
		for _, value := range []string{"{}", "1979-05-27", "[[]]", "[{}]", "1e400", "-1", "nan", `"\u0000"`, "[true]", `"$x"`} {
			text := p.Name + " = " + value
			switch p.Table {
			case tableTop:
			case tableTransport, tableDestination, tableClass, tableTenant, tableSource, tablePool, tableWarmup, tableDKIM, tableReplyRule, tableVERP:
				text = "[" + p.Table + ".x]\n" + text
			default:
				text = "[" + p.Table + "]\n" + text
			}
			_, err := Parse("type.toml", []byte(text), testEnvironment)
			var problems *tomlfile.Problems
			if !errors.As(err, &problems) {
				if p.Name == "bounce_footer" && value == `"$x"` || p.Name == "queue_directory" || p.Name == "max_mt_priority" && value == "-1" {
					continue
				}
				t.Errorf("%s is taken: %v", text, err)
				continue
			}
			checkProblems(t, []byte(text), problems)
		}
	}
}

func BenchmarkParse(b *testing.B) {
	b.ReportAllocs()
	for b.Loop() {
		if _, err := Parse("sample.toml", []byte(sample), testEnvironment); err != nil {
			b.Fatal(err)
		}
	}
}

// Ten thousand routes are not many for a provider that relays for others.
func BenchmarkParseRoutes(b *testing.B) {
	var file strings.Builder
	file.WriteString("[routes]\n")
	for i := range 10000 {
		fmt.Fprintf(&file, "\"domain%d.example\" = \"smtp:[mail%d.example.net]\"\n", i, i)
	}
	b.ReportAllocs()
	for b.Loop() {
		if _, err := Parse("routes.toml", []byte(file.String()), testEnvironment); err != nil {
			b.Fatal(err)
		}
	}
}

// People break good files as they edit them: a line is missing, or a quote is left
// over. Every such file is accepted or explained, as in FuzzParse.
func TestMutants(t *testing.T) {
	t.Parallel()
	rng := rand.New(rand.NewPCG(7, 8))
	pieces := []string{"\"", "'", "[", "]", "=", "\n", "#", " ", ".", "{", "}", ",", "\\", "\"\"\"", "0", "x", "\t", "\r", "[[", "true", "é", "\x00", "\xff"}
	taken, told := 0, 0
	mutants := min(40*golden.Runs(10), 4000)
	for i := range mutants {
		text := sample
		for range 1 + rng.IntN(4) {
			from := rng.IntN(len(text))
			to := min(len(text), from+rng.IntN(3)*rng.IntN(12))
			switch rng.IntN(3) {
			case 0:
				text = text[:from] + text[to:]
			case 1:
				text = text[:from] + pieces[rng.IntN(len(pieces))] + text[from:]
			case 2:
				text = text[:to] + text[from:]
			}
		}
		c, err := Parse("mutant.toml", []byte(text), testEnvironment)
		if err == nil {
			taken++
			if i%10 == 0 {
				checkMapped(t, c)
				checkAgain(t, c)
			}
			continue
		}
		told++
		var problems *tomlfile.Problems
		if !errors.As(err, &problems) {
			t.Fatalf("mutant %d: %v", i, err)
		}
		checkProblems(t, []byte(text), problems)
		for _, p := range problems.List {
			if strings.HasPrefix(p.Message, "spool: ") || strings.Contains(p.Message, "want at least") {
				t.Errorf("mutant %d: a package complains about what should have been found before: %v", i, p)
			}
		}
	}
	if taken < mutants/40 || told < mutants/4 {
		t.Errorf("%d taken, %d told: the mutants are not what they should be", taken, told)
	}
}
