package tokens

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// A token that was added is found, with what it allows, and no other text is; one that is
// removed, or whose time is over, is not.
func TestTokens(t *testing.T) {
	path := filepath.Join(t.TempDir(), "tokens")
	until := time.Date(2027, 1, 31, 0, 0, 0, 0, time.UTC)
	reader, err := Add(path, Token{Name: "dashboard", Scope: ScopeRead}, -1)
	if err != nil {
		t.Fatal(err)
	}
	operator, err := Add(path, Token{Name: "deploy@ci", Scope: ScopeOperate, Until: until}, -1)
	if err != nil || operator == reader || len(operator) < 40 || !strings.HasPrefix(operator, "posthaste_") {
		t.Fatalf("%q %q, %v", reader, operator, err)
	}
	if _, err := Add(path, Token{Name: "dashboard", Scope: ScopeOperate}, -1); !errors.Is(err, ErrExists) {
		t.Errorf("a second token of the same name: %v", err)
	}
	text, err := os.ReadFile(path)
	if info, statErr := os.Stat(path); err != nil || statErr != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("%v %v %v", info.Mode(), err, statErr)
	}
	if strings.Contains(string(text), reader) || strings.Contains(string(text), operator[10:]) {
		t.Error("the file has a token")
	}
	s, err := Open(path)
	if err != nil {
		t.Fatal(err)
	}
	before := until.Add(-time.Nanosecond)
	if got := s.Find(reader, before); got == nil || got.Name != "dashboard" || got.Scope != ScopeRead {
		t.Errorf("%+v", got)
	}
	if got := s.Find(operator, before); got == nil || got.Name != "deploy@ci" || got.Scope != ScopeOperate || s.Find(operator, until) != nil {
		t.Errorf("%+v", got)
	}
	for _, wrong := range []string{"", reader[:len(reader)-1], reader + "A", strings.ToUpper(reader), "dashboard", strings.Fields(string(text))[0]} {
		if s.Find(wrong, before) != nil {
			t.Errorf("%q is taken for a token", wrong)
		}
	}
	if all := s.All(); len(all) != 2 || all[0].Name != "dashboard" || !all[1].Until.Equal(until) {
		t.Errorf("%+v", all)
	}
	if err := Remove(path, "dashboard"); err != nil {
		t.Fatal(err)
	}
	if err := Remove(path, "dashboard"); !errors.Is(err, ErrMissing) {
		t.Errorf("removed twice: %v", err)
	}
	if s, err = Open(path); err != nil || s.Find(reader, before) != nil || s.Find(operator, before) == nil {
		t.Errorf("after the removal: %v", err)
	}
	if (&Set{}).Find("", before) != nil {
		t.Error("no token is a token where there are none")
	}
}

// Mistakes are named with their lines, without the secrets that may stand there.
func TestMistakes(t *testing.T) {
	hash := "sha256:" + strings.Repeat("ab", 32)
	for line, want := range map[string]string{
		"a read":                                        "want a name",
		"posthaste_abcdef":                              "want a name",
		"posthaste_abcdef read " + hash:                 "want a name",
		"a read sha256:abcd":                            "want a name",
		"a read md5:" + hash[7:]:                        "want a name",
		"a read " + hash + "ab":                         "want a name",
		"a read " + hash[:len(hash)-1] + "g":            "want a name",
		"a write " + hash:                               "want read or operate",
		"a read " + hash + " until=soon":                "want until= and a date",
		"a read " + hash + " 2027-01-01":                "want until= and a date",
		"a read " + hash + " until=2027-01-01 x":        "want a name",
		"b\x00 read " + hash:                            "want a name",
		"x read " + hash:                                "the same hash",
		"first read sha256:" + strings.Repeat("cd", 32): "two tokens with the name first",
	} {
		_, err := Parse("t", []byte("# tokens\n\nfirst operate "+hash+"\n"+line+"\n"))
		if err == nil && line != "" || err != nil && (!strings.HasPrefix(err.Error(), "t:4: ") || !strings.Contains(err.Error(), want)) {
			t.Errorf("%q: %v, want %q", line, err, want)
		}
		if err != nil && (strings.Contains(err.Error(), "abab") || strings.Contains(err.Error(), "abcdef")) {
			t.Errorf("the error shows a secret: %v", err)
		}
	}
	path := filepath.Join(t.TempDir(), "tokens")
	if err := os.WriteFile(path, []byte("wrong\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := Add(path, Token{Name: "a", Scope: ScopeRead}, -1); err == nil {
		t.Error("a file with mistakes is changed")
	}
	if err := os.Chmod(path, 0o644); err != nil {
		t.Fatal(err)
	}
	if _, err := Open(path); err == nil || !strings.Contains(err.Error(), "chmod 600") {
		t.Errorf("a file that all may read: %v", err)
	}
	if _, _, err := New(Token{Name: "posthaste_x", Scope: ScopeRead}); err == nil || !strings.Contains(err.Error(), "must not begin with posthaste_") {
		t.Errorf("a name like a token: %v", err)
	}
	// A credential of systemd is in a read-only copy; a change must not make a file of its name.
	t.Chdir(t.TempDir())
	t.Setenv("CREDENTIALS_DIRECTORY", filepath.Dir(path))
	if err := os.WriteFile(path, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := Add("systemd:tokens", Token{Name: "a", Scope: ScopeRead}, -1); err == nil || !strings.Contains(err.Error(), "LoadCredential=tokens") {
		t.Errorf("a credential of the service is changed: %v", err)
	}
	if _, err := os.Stat("systemd:tokens"); err == nil {
		t.Error("a file with the name of a credential is made")
	}
	// A file that was written by hand may begin with a token.
	if err := os.Chmod(path, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte("a read sha256:"+strings.Repeat("ab", 32)+"\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := Add(path, Token{Name: "a", Scope: ScopeRead}, -1); !errors.Is(err, ErrExists) {
		t.Errorf("a second token of the name in the first line: %v", err)
	}
	for _, name := range []string{"", "a b", "#", "ä", strings.Repeat("x", 65)} {
		if _, _, err := New(Token{Name: name, Scope: ScopeRead}); err == nil {
			t.Errorf("%q is taken for a name", name)
		}
	}
}

func FuzzParse(f *testing.F) {
	f.Add([]byte("a read sha256:" + strings.Repeat("ab", 32) + " until=2027-01-31\n#\n"))
	f.Fuzz(func(t *testing.T, text []byte) {
		s, err := Parse("t", text)
		if err == nil && len(s.All()) != len(s.tokens) {
			t.Errorf("%d of %d tokens are listed", len(s.All()), len(s.tokens))
		}
	})
}
