package linefile

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
)

var numbers = Format{Head: "Numbers 1", LineMax: 100}

// load returns the words in a file with the given contents.
func load(t testing.TB, contents string) (words []string, damaged int, err error) {
	t.Helper()
	path := filepath.Join(t.TempDir(), "numbers")
	if err := os.WriteFile(path, []byte(contents), 0o600); err != nil {
		t.Fatal(err)
	}
	damaged, err = numbers.Load(path, func(data []byte) error {
		var word string
		if err := json.Unmarshal(data, &word); err != nil {
			return err
		}
		words = append(words, word)
		return nil
	})
	return words, damaged, err
}

// What was written is read again, in its order; the form on disk is that of files of earlier
// versions.
func TestRoundTrip(t *testing.T) {
	contents := numbers.New()
	for _, word := range []string{"one", "two\n", "three", ""} {
		contents = numbers.Append(contents, word)
	}
	if want := "Numbers 1\n6ecc1de1 \"one\"\n"; !strings.HasPrefix(string(contents), want) {
		t.Errorf("%q, want %q…", contents, want)
	}
	words, damaged, err := load(t, string(contents))
	if !reflect.DeepEqual(words, []string{"one", "two\n", "three", ""}) || damaged != 0 || err != nil {
		t.Errorf("%q, %d damaged, %v", words, damaged, err)
	}
}

// A file that is not there has no records, and is no error; one that cannot be read is one.
func TestMissing(t *testing.T) {
	dir := t.TempDir()
	none := func([]byte) error { t.Error("a record"); return nil }
	if damaged, err := numbers.Load(filepath.Join(dir, "none"), none); damaged != 0 || err != nil {
		t.Error(damaged, err)
	}
	if _, err := numbers.Load(dir, none); err == nil {
		t.Error("a directory is read")
	}
}

// Each damaged line costs its own record and no other one.
func TestDamage(t *testing.T) {
	line := func(word string) string { return string(numbers.Append(nil, word)) }
	one, two := line("one"), line("two")
	for name, row := range map[string]struct {
		contents string
		words    []string
		damaged  int
	}{
		"empty":             {"", nil, 1},
		"another kind":      {"Words 1\n" + one, []string{"one"}, 1},
		"an octet":          {"Numbers 1\n" + strings.Replace(one, "n", "m", 1) + two, []string{"two"}, 1},
		"its checksum":      {"Numbers 1\n" + one + "0" + two[1:], []string{"one"}, 1},
		"cut off":           {"Numbers 1\n" + one + two[:len(two)-3], []string{"one"}, 1},
		"its end missing":   {"Numbers 1\n" + one + strings.TrimSuffix(two, "\n"), []string{"one", "two"}, 0},
		"no checksum":       {"Numbers 1\n\"one\"\n\n" + two, []string{"two"}, 2},
		"not what is taken": {"Numbers 1\n" + string(numbers.Append(nil, 3)) + two, []string{"two"}, 1},
	} {
		words, damaged, err := load(t, row.contents)
		if !reflect.DeepEqual(words, row.words) || damaged != row.damaged || err != nil {
			t.Errorf("%s: %q, %d damaged, %v", name, words, damaged, err)
		}
	}
}

// A record that would make a line too long to be read is not written, since it would also cost
// all that follow; in a file it ends the reading, with an error.
func TestLongLine(t *testing.T) {
	fits, long := strings.Repeat("x", numbers.LineMax-overhead-2), strings.Repeat("x", numbers.LineMax-overhead-1)
	contents := numbers.Append(numbers.Append(numbers.New(), fits), long)
	words, damaged, err := load(t, string(contents))
	if !reflect.DeepEqual(words, []string{fits}) || damaged != 0 || err != nil {
		t.Errorf("%q, %d damaged, %v", words, damaged, err)
	}
	if words, _, err := load(t, string(contents)+strings.Repeat("y", 200)+"\n"); len(words) != 1 || err == nil {
		t.Errorf("%q, %v", words, err)
	}
	if got := numbers.Append(nil, func() {}); got != nil {
		t.Errorf("%q", got)
	}
}

// Whatever is in a file, only JSON with the right checksum is taken.
func FuzzLoad(f *testing.F) {
	f.Add("Numbers 1\n" + string(numbers.Append(nil, "one")))
	f.Add("Numbers 1\n00000000 \n \n")
	path := filepath.Join(f.TempDir(), "numbers")
	f.Fuzz(func(t *testing.T, contents string) {
		if err := os.WriteFile(path, []byte(contents), 0o600); err != nil {
			t.Fatal(err)
		}
		_, _ = numbers.Load(path, func(data []byte) error {
			if !json.Valid(data) {
				return errors.New("no JSON")
			}
			if len(data)+overhead > numbers.LineMax || !strings.Contains(contents, fmt.Sprintf("%08x %s", checksum(data), data)) {
				t.Errorf("%q is not in %q", data, contents)
			}
			return nil
		})
	})
}
