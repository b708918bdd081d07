package golden

import (
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"
)

// answer prints what it was given, so that scripts can test the reader.
func answer(tb testing.TB, b *Block) string {
	var out strings.Builder
	for _, l := range b.Lines {
		switch l.Name {
		case "show":
			fmt.Fprintf(&out, "%q", l.Words)
			for _, key := range []string{"a", "b"} {
				if v, given := l.Option(key); given {
					fmt.Fprintf(&out, " %s=%q", key, v)
				}
			}
			out.WriteString("\n")
		case "add":
			fmt.Fprintln(&out, l.Int(tb, "a", 1)+l.Int(tb, "b", 1))
		case "double":
			fmt.Fprintln(&out, 2*l.Duration(tb, "wait", time.Second), l.Str("unit", "none"), l.Has("loud"))
		case "say":
			out.WriteString(strings.ReplaceAll(l.Word(tb, 0), "/", "\n"))
		case "nothing":
		default:
			tb.Fatalf("%s: no such command: %s", l.Pos, l.Name)
		}
	}
	return out.String()
}

// The first test demonstrates the harness: a script, a handler, done.
func TestScripts(t *testing.T) {
	RunAll(t, "testdata/*.txt", func() Handler { return answer })
}

// A recorder is a test that keeps its complaints to itself.
type recorder struct {
	testing.TB
	complaints []string
}

func (r *recorder) Helper() {}
func (r *recorder) Errorf(format string, args ...any) {
	r.complaints = append(r.complaints, fmt.Sprintf(format, args...))
}
func (r *recorder) Fatalf(format string, args ...any) { r.Errorf(format, args...); runtime.Goexit() }
func (r *recorder) Fatal(args ...any)                 { r.Fatalf("%s", fmt.Sprint(args...)) }

func complaints(t *testing.T, path string) string {
	r := &recorder{TB: t}
	done := make(chan struct{})
	go func() { // Fatal ends the goroutine that calls it
		defer close(done)
		Run(r, path, answer)
	}()
	<-done
	return strings.ReplaceAll(strings.Join(r.complaints, "\n"), path, "f")
}

func write(t *testing.T, text string) string {
	path := filepath.Join(t.TempDir(), "script.txt")
	if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
	return path
}

// A harness that accepts everything would make every script worthless: each
// kind of mistake must be reported, with its line.
func TestComplaints(t *testing.T) {
	t.Setenv("UPDATE", "")
	for _, tc := range []struct{ name, script, want string }{
		{"good", "add a=2 b=3\n----\n5\n", ""},
		{"wrong answer", "add a=2 b=3\n----\n6\n", "f:1: the answer is not the recorded one (UPDATE=1 records it)\n- 6\n+ 5\n"},
		{"each wrong answer", "add\n----\n1\n\nadd\n----\n1\n", "f:1: the answer is not the recorded one (UPDATE=1 records it)\n- 1\n+ 2\n" +
			"\nf:5: the answer is not the recorded one (UPDATE=1 records it)\n- 1\n+ 2\n"},
		{"unknown command", "\nfly\n----\n", "f:2: no such command: fly"},
		{"misspelt option", "add c=5\n----\n2\n", "f:1: add takes no c="},
		{"not a number", "add a=x\n----\n", "f:1: a=x is not a number"},
		{"not a duration", "double wait=5\n----\n", "f:1: wait=5 is not a duration"},
		{"word missing", "say\n----\n", "f:1: say wants at least 1 words"},
		{"bad quotes", "show a=\"x\n----\n", "f:1: a: bad quoting in \"x"},
		{"stray option", "=x\n----\n", "f:1: cannot read \"=x\""},
		{"no fence", "add\n\nadd\n----\n2\n", "f:2: want \"----\" after the commands, not an empty line"},
		{"no fence at end", "add\n", "f:1: want \"----\" after the commands, not the end"},
		{"no command", "# hello\n----\n2\n", "f:2: an answer without a command"},
		{"open answer", "add\n----\n----\n2\n", "f:4: want \"----\" twice at the end of the answer"},
		{"empty", "# only talk\n", "f: no commands"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			if got := complaints(t, write(t, tc.script)); got != tc.want {
				t.Errorf("complaints:\n%s\nwant:\n%s", got, tc.want)
			}
		})
	}
}

// UPDATE=1 must put the new answers in and leave everything else alone,
// comments and spacing included.
func TestUpdate(t *testing.T) {
	t.Setenv("UPDATE", "1")
	path := write(t, "# first\nadd a=2\n# in between\nadd\n----\n\n# second\n\nsay \"x//y\"\n----\nold\n# the end\n\n# of it\n")
	if got := complaints(t, path); got != "" {
		t.Fatal(got)
	}
	got, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	want := "# first\nadd a=2\n# in between\nadd\n----\n3\n2\n\n# second\n\nsay \"x//y\"\n----\n----\nx\n\ny\n----\n----\n\n# of it\n"
	if string(got) != want {
		t.Errorf("updated to:\n%s", Diff(want, string(got)))
	}
	t.Setenv("UPDATE", "")
	if got := complaints(t, path); got != "" {
		t.Errorf("the updated script does not pass: %s", got)
	}
}

// File is for whole outputs, such as a generated document.
func TestFile(t *testing.T) {
	path := filepath.Join(t.TempDir(), "whole.txt")
	t.Setenv("UPDATE", "1")
	File(t, path, "a\nb\n")
	t.Setenv("UPDATE", "")
	File(t, path, "a\nb\n")
	r := &recorder{TB: t}
	File(r, path, "a\nc\n")
	want := []string{path + ": differs from what was recorded (UPDATE=1 records it)\n  a\n- b\n+ c\n"}
	if !slices.Equal(r.complaints, want) {
		t.Errorf("complaints %q, want %q", r.complaints, want)
	}
}

// A long answer with one wrong line must show that line, not the answer.
func TestDiffLeavesEqualPartsOut(t *testing.T) {
	got := Diff("1\n2\n3\n4\n5\n6\n7\n8\n9\n", "1\n2\n3\n4\nx\n6\n7\n8\n9\n")
	if want := "  2\n  3\n  4\n- 5\n+ x\n  6\n  7\n  8\n"; got != want {
		t.Errorf("got:\n%s\nwant:\n%s", got, want)
	}
}
