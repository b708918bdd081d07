package tomlfile

import (
	"errors"
	"strings"
	"testing"

	"github.com/pelletier/go-toml/v2"
)

// Every kind of table that TOML has ends up in the tree, with the place of each
// key and value.
func TestTree(t *testing.T) {
	const text = "top = 1\n[a.b]\nc.d = 'x'\n[[run]]\nname = \"one\"\nlimits = { most = 3, list = [1, 2] }\n[run.more]\nk = true\n[[run]]\nname = \"two\"\n"
	f := New("t.toml", []byte(text))
	root := f.Parse()
	f.CheckWhole()
	if err := f.Problems(); err != nil {
		t.Fatal(err)
	}
	runs := root.Get("run").Value
	if runs.Kind != KindList || len(runs.Items) != 2 {
		t.Fatalf("run is %v with %d tables", runs.Kind, len(runs.Items))
	}
	for _, c := range []struct {
		e    *Entry
		kind Kind
		text string
	}{
		{root.Get("top"), KindInteger, "1"},
		{root.Get("a").Value.Table.Get("b").Value.Table.Get("c").Value.Table.Get("d"), KindText, "'x'"},
		{runs.Items[0].Table.Get("name"), KindText, `"one"`},
		{runs.Items[0].Table.Get("limits").Value.Table.Get("most"), KindInteger, "3"},
		{runs.Items[0].Table.Get("limits").Value.Table.Get("list"), KindList, "[1, 2]"},
		{runs.Items[0].Table.Get("more").Value.Table.Get("k"), KindBool, "true"},
		{runs.Items[1].Table.Get("name"), KindText, `"two"`},
	} {
		v := c.e.Value
		if got := text[v.At.Start:v.At.End]; v.Kind != c.kind || got != c.text {
			t.Errorf("%s is %v at %q, want %v at %q", c.e.Name, v.Kind, got, c.kind, c.text)
		}
		if got := text[c.e.At.Start:c.e.At.End]; got != c.e.Name {
			t.Errorf("the key %s is at %q", c.e.Name, got)
		}
	}
}

// What must not be added to is not, and the complaint names the first place.
func TestAddedTwice(t *testing.T) {
	for text, want := range map[string]string{
		"a = 1\na = 2\n":               "t:2:1: a is set a second time; the first is in line 1",
		"[a]\n[b]\n[a]\n":              "t:3:2: the table a begins a second time; the first is in line 1",
		"a = { b = 1 }\n[a.c]\nd = 1":  "t:2:2: a is set a second time; the first is in line 1",
		"a = [{ b = 1 }]\n[[a]]\nc=1":  "t:2:3: a is set a second time; the first is in line 1",
		"a = [{ b = 1 }]\n[a.c]\nd=1":  "t:2:2: a is set a second time; the first is in line 1",
		"[[a]]\n[a]\nb = 1\n":          "t:2:2: a is set a second time; the first is in line 1",
		"[[a]]\n[a.b]\n[a.b]\nc = 1\n": "t:3:2: the table a.b begins a second time; the first is in line 2",
	} {
		f := New("t", []byte(text))
		f.Parse()
		if err := f.Problems(); err == nil || !strings.HasPrefix(err.Error(), want) {
			t.Errorf("%q: %v, want %s", text, err, want)
		}
	}
}

// Whatever the file says, its problems are inside it and can be shown, and a text
// without problems is one that the library reads, too.
func FuzzParse(f *testing.F) {
	for _, s := range []string{"", "a = 1", "[[a]]\nb = {c = [1, {d = 2}]}\n[a.e]\n", "a = \"\n[b\nc = 1", "\ufeffa = 1979-05-27", "a = '''\nx\n", "\"\\u00e9\".b = 'é'\n\x00"} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, text []byte) {
		file := New("f", text)
		root := file.Parse()
		file.CheckWhole()
		err := file.Problems()
		var all *Problems
		if errors.As(err, &all) {
			lines := strings.Count(string(text), "\n") + 1
			for _, p := range all.List {
				if p.Line < 1 || p.Line > lines || p.Column < 1 || p.Length < 1 || p.String() == "" {
					t.Fatalf("%q: a problem in line %d, column %d", text, p.Line, p.Column)
				}
			}
			return
		}
		var whole map[string]any
		if err := toml.Unmarshal(text, &whole); err == nil && len(whole) != len(root.Entries) {
			t.Fatalf("%q: %d keys, want %d", text, len(root.Entries), len(whole))
		}
	})
}
