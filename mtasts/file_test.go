package mtasts

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

// After a restart the policies of the last run are in force, without a question to
// anybody, and end when they would have ended.
func TestRestart(t *testing.T) {
	path := filepath.Join(t.TempDir(), "mta-sts")
	synctest.Test(t, func(t *testing.T) {
		kept := func(c *Config) { c.File = path }
		w := newWorld()
		s := w.store(t, kept)
		w.policy("a.example", "1", Enforce, 2*day)
		w.policy("b.example", "2", Testing, time.Hour)
		w.policy("c.example", "3", Enforce, 365*day)
		w.policy("d.example", "4", None, 365*day)
		w.policy("e.example", "5", Enforce, 365*day)
		w.set("e.example", func(p *published) { p.web = failed(FetchError, "refused") })
		for _, c := range []string{"a", "b", "c", "d", "e"} {
			look(t, s, c+".example")
		}
		before, _ := s.Status("a.example")
		s.Close()
		w.set("a.example", func(p *published) { p.web = failed(FetchError, "refused") })
		time.Sleep(time.Hour)
		w.count()
		s = w.store(t, kept)
		for domain, want := range map[string]string{"a.example": "enforce 1", "c.example": "enforce 3", "d.example": "none 4"} {
			if got := look(t, s, domain); got != want {
				t.Errorf("%s: %s", domain, got)
			}
		}
		if after, ok := s.Status("a.example"); !ok || fmt.Sprint(after.Policy) != fmt.Sprint(before.Policy) || before.Expires.Sub(after.Expires).Abs() > time.Second {
			t.Errorf("%+v became %+v", before, after)
		}
		if _, ok := s.Status("b.example"); ok {
			t.Error("a policy that has ended is back")
		}
		if n := w.count(); n != 0 {
			t.Errorf("%d fetches", n)
		}
		time.Sleep(47*time.Hour - time.Second)
		if got := look(t, s, "a.example"); got != "enforce 1" {
			t.Error(got, "before the end")
		}
		time.Sleep(2 * time.Second)
		if got := look(t, s, "a.example"); got != "-" {
			t.Error(got, "after the end")
		}
		s.Close()
	})
	if info, err := os.Stat(path); err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("%v, %v", info.Mode(), err)
	}
	if all, err := os.ReadDir(filepath.Dir(path)); err != nil || len(all) != 1 {
		t.Errorf("%v, %v: a new file is still there", all, err)
	}
}

// A kill loses what was found in the last ten minutes. Without changes nothing is written.
func TestSavedFromTimeToTime(t *testing.T) {
	path := filepath.Join(t.TempDir(), "mta-sts")
	synctest.Test(t, func(t *testing.T) {
		w := newWorld()
		s := w.store(t, func(c *Config) { c.File = path })
		defer s.Close()
		w.policy("a.example", "1", Enforce, 365*day)
		look(t, s, "a.example")
		time.Sleep(saveEvery)
		synctest.Wait()
		text, err := os.ReadFile(path)
		if err != nil || !bytes.Contains(text, []byte(`"a.example"`)) {
			t.Fatalf("%q, %v", text, err)
		}
		if err := os.Remove(path); err != nil {
			t.Fatal(err)
		}
		time.Sleep(20 * time.Hour)
		if _, err := os.Stat(path); err == nil {
			t.Error("written although nothing has changed")
		}
	})
}

// A file that cannot be written costs nothing but the memory of the next run, and is
// written as soon as it can be.
func TestUnwritableFile(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "missing")
	path := filepath.Join(dir, "mta-sts")
	synctest.Test(t, func(t *testing.T) {
		w := newWorld()
		s := w.store(t, func(c *Config) { c.File = path })
		defer s.Close()
		w.policy("a.example", "1", Enforce, 365*day)
		look(t, s, "a.example")
		time.Sleep(2 * saveEvery)
		if got := look(t, s, "a.example"); got != "enforce 1" {
			t.Error(got)
		}
		if err := os.Mkdir(dir, 0o700); err != nil {
			t.Fatal(err)
		}
		time.Sleep(saveEvery)
		synctest.Wait()
		if _, err := os.Stat(path); err != nil {
			t.Error(err)
		}
	})
	if s, err := New(Config{Resolver: public, File: dir}); err != nil { // a directory
		t.Error(err)
	} else {
		s.Close()
	}
}

var then = time.Date(2026, 11, 23, 12, 0, 0, 0, time.UTC)

// saved returns the contents of a file with some policies.
func saved(domains ...string) []byte {
	c := newCache(1000)
	for i, d := range domains {
		c.put(&entry{domain: d, policy: Policy{ID: fmt.Sprint("id", i), Mode: Enforce, MX: []string{"*." + d, "mx." + d}, MaxAge: 365 * day}, fetched: then, used: then})
	}
	return c.encode(then)
}

// loaded returns what a store reads from a file, as lines.
func loaded(t testing.TB, path string, text []byte, now time.Time) string {
	t.Helper()
	_ = os.Remove(path) // a file that is written over is flushed to the disk by some file systems
	if err := os.WriteFile(path, text, 0o600); err != nil {
		t.Fatal(err)
	}
	s := &Store{cfg: Config{File: path}.WithDefaults(), entries: newCache(1000)}
	s.load(now)
	return string(s.entries.encode(now))
}

// Whatever octet of the file is damaged, at most the policies of its line and the next are lost, and
// none is changed.
func TestFlippedFile(t *testing.T) {
	path := filepath.Join(t.TempDir(), "mta-sts")
	text := saved("a.example", "b.example", "c.example")
	if got := loaded(t, path, text, then); got != string(text) {
		t.Fatalf("undamaged: %q", got)
	}
	valid := make(map[string]bool)
	for line := range strings.Lines(string(text)) {
		valid[line] = true
	}
	for i := range text {
		for _, change := range []byte{0x01, 0x20, 0x80} {
			flipped := bytes.Clone(text)
			flipped[i] ^= change
			lines := 0
			for line := range strings.Lines(loaded(t, path, flipped, then)) {
				lines++
				if !valid[line] {
					t.Fatalf("octet %d: %q", i, line)
				}
			}
			if lines < len(valid)-2 {
				t.Errorf("octet %d ^ %#x: %d lines are left", i, change, lines)
			}
		}
	}
	for i := range text {
		for line := range strings.Lines(loaded(t, path, text[:i], then)) {
			if !valid[line] {
				t.Fatalf("cut at %d: %q", i, line)
			}
		}
	}
}

// A clock that was ahead when policies were fetched does not make them last longer than
// their max_age from now on.
func TestClockSetBack(t *testing.T) {
	path := filepath.Join(t.TempDir(), "mta-sts")
	c := newCache(10)
	c.put(&entry{domain: "a.example", policy: Policy{ID: "1", Mode: Enforce, MX: []string{"a"}, MaxAge: day}, fetched: then.Add(1000 * day), used: then.Add(1000 * day)})
	text := c.encode(then.Add(1000 * day))
	if got := loaded(t, path, text, then); !strings.Contains(got, fmt.Sprintf(`"fetched":%d,"used":%d`, then.Unix(), then.Unix())) {
		t.Errorf("%s", got)
	}
}

// What is in the file obeys the rules for what is published, also if its checksum is
// right.
func TestDecode(t *testing.T) {
	const good = `{"domain":"a.example","id":"1","mode":"enforce","mx":["a.example"],"max_age":86400,"fetched":1,"used":1}`
	if e, err := decode([]byte(good), then); err != nil || e.domain != "a.example" || e.policy.Mode != Enforce {
		t.Errorf("%+v, %v", e, err)
	}
	for from, to := range map[string]string{
		`"a.example","id"`:    `"A.example","id"`,
		`"id":"1"`:            `"id":""`,
		`"enforce"`:           `"strict"`,
		`["a.example"]`:       `["*"]`,
		`,"mx":["a.example"]`: `,"mx":[]`,
		`86400`:               `-1`,
		`:86400`:              `:9223372036854775807`,
		`"used":1`:            `"used":"1"`,
	} {
		if e, err := decode([]byte(strings.Replace(good, from, to, 1)), then); err == nil {
			t.Errorf("%s: %+v", to, e)
		}
	}
	for _, line := range []string{"", " ", "00000000", "xyz " + good, "{}", "null"} {
		if e, err := decode([]byte(line), then); err == nil {
			t.Errorf("%q: %+v", line, e)
		}
	}
}

// A line that was read is written again as it was.
func FuzzDecode(f *testing.F) {
	for line := range strings.Lines(string(saved("a.example", "b.example"))) {
		if _, data, ok := strings.Cut(strings.TrimSuffix(line, "\n"), " {"); ok {
			f.Add("{" + data)
		}
	}
	f.Fuzz(func(t *testing.T, json string) {
		e, err := decode([]byte(json), then)
		if err != nil {
			return
		}
		if _, ok := canonical(e.domain); !ok || e.policy.MaxAge < 0 || e.policy.MaxAge > MaxAgeMax || e.fetched.After(then) || !isID(e.policy.ID) {
			t.Fatalf("%+v", e)
		}
		c := newCache(100)
		c.put(e)
		if now := e.fetched; e.inForce(now) {
			_, line, _ := strings.Cut(string(c.encode(now)), " {")
			again, err := decode([]byte("{"+line), then)
			if err != nil || again.domain != e.domain || !reflect.DeepEqual(again.policy, e.policy) || !again.fetched.Equal(e.fetched) || !again.used.Equal(e.used) {
				t.Errorf("%+v became %+v, %v", e, again, err)
			}
		}
	})
}
