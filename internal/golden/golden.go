package golden

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// fence divides commands from their answer.
const fence = "----"

// A Block is one or more commands that share an answer.
type Block struct {
	Pos   string // file:line of the first command
	Lines []*Line

	head []string // as in the file, comments included
	want string
}

// A Handler answers a block. It may fail tb, best at the position of a line.
type Handler func(tb testing.TB, b *Block) string

// RunAll runs every script that matches pattern, each as a subtest with a
// handler of its own. No match is a failure.
func RunAll(t *testing.T, pattern string, newHandler func() Handler) {
	t.Helper()
	paths, err := filepath.Glob(pattern)
	if err != nil {
		t.Fatal(err)
	}
	if len(paths) == 0 {
		t.Fatalf("no script matches %s", pattern)
	}
	for _, path := range paths {
		name := strings.TrimSuffix(filepath.Base(path), filepath.Ext(path))
		t.Run(name, func(t *testing.T) { Run(t, path, newHandler()) })
	}
}

// Run runs one script. Blocks are handled in order; a wrong answer does not
// stop it.
func Run(tb testing.TB, path string, handle Handler) {
	tb.Helper()
	text, err := os.ReadFile(path)
	if err != nil {
		tb.Fatal(err)
	}
	blocks, tail, err := parse(path, string(text))
	if err != nil {
		tb.Fatal(err)
	}
	if len(blocks) == 0 {
		tb.Fatalf("%s: no commands", path)
	}
	var fresh strings.Builder
	for _, b := range blocks {
		got := withNewline(handle(tb, b))
		b.reportUnused(tb)
		if got != b.want && !updating() {
			tb.Errorf("%s: the answer is not the recorded one (UPDATE=1 records it)\n%s", b.Pos, Diff(b.want, got))
		}
		b.write(&fresh, got)
	}
	for _, line := range tail {
		fresh.WriteString(line + "\n")
	}
	if updating() {
		save(tb, path, fresh.String(), string(text))
	}
}

// File compares got with the content of a file.
func File(tb testing.TB, path, got string) {
	tb.Helper()
	want, err := os.ReadFile(path)
	if err != nil && !(os.IsNotExist(err) && updating()) {
		tb.Fatal(err)
	}
	if updating() {
		save(tb, path, got, string(want))
	} else if got != string(want) {
		tb.Errorf("%s: differs from what was recorded (UPDATE=1 records it)\n%s", path, Diff(string(want), got))
	}
}

func updating() bool { return os.Getenv("UPDATE") == "1" }

func save(tb testing.TB, path, fresh, old string) {
	tb.Helper()
	if fresh == old {
		return
	}
	if err := os.WriteFile(path, []byte(fresh), 0o644); err != nil {
		tb.Fatal(err)
	}
}

func withNewline(s string) string {
	if s == "" || strings.HasSuffix(s, "\n") {
		return s
	}
	return s + "\n"
}

func (b *Block) reportUnused(tb testing.TB) {
	tb.Helper()
	for _, l := range b.Lines {
		if keys := l.unused(); len(keys) > 0 {
			tb.Errorf("%s: %s takes no %s", l.Pos, l.Name, strings.Join(keys, ", "))
		}
	}
}

func (b *Block) write(w *strings.Builder, answer string) {
	for _, line := range b.head {
		w.WriteString(line + "\n")
	}
	if strings.HasPrefix(answer, "\n") || strings.Contains(answer, "\n\n") || strings.HasPrefix(answer, fence) {
		w.WriteString(fence + "\n" + fence + "\n" + answer + fence + "\n" + fence + "\n")
	} else {
		w.WriteString(fence + "\n" + answer)
	}
}

// Diff shows two texts line by line: "-" marks lines of want only, "+" lines
// of got only. Equal beginnings and ends are left out but for three lines.
func Diff(want, got string) string {
	a := strings.Split(strings.TrimSuffix(want, "\n"), "\n")
	b := strings.Split(strings.TrimSuffix(got, "\n"), "\n")
	start := 0
	for start < len(a) && start < len(b) && a[start] == b[start] {
		start++
	}
	end := 0
	for end < len(a)-start && end < len(b)-start && a[len(a)-1-end] == b[len(b)-1-end] {
		end++
	}
	const context = 3
	var out strings.Builder
	for _, line := range a[max(0, start-context):start] {
		fmt.Fprintf(&out, "  %s\n", line)
	}
	for _, line := range a[start : len(a)-end] {
		fmt.Fprintf(&out, "- %s\n", line)
	}
	for _, line := range b[start : len(b)-end] {
		fmt.Fprintf(&out, "+ %s\n", line)
	}
	for _, line := range a[len(a)-end : min(len(a), len(a)-end+context)] {
		fmt.Fprintf(&out, "  %s\n", line)
	}
	return out.String()
}
