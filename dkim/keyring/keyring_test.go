package keyring

import (
	"crypto/ed25519"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/posthaste-mta/posthaste/dkim"
)

func newKey(t *testing.T) []byte {
	t.Helper()
	_, k, err := ed25519.GenerateKey(nil)
	if err != nil {
		t.Fatal(err)
	}
	der, err := x509.MarshalPKCS8PrivateKey(k)
	if err != nil {
		t.Fatal(err)
	}
	return pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: der})
}

// A key that others may read is refused before it is used; the group of the service may read
// it, where an administrator owns it.
func TestModes(t *testing.T) {
	path := filepath.Join(t.TempDir(), "k.pem")
	if err := Write(path, newKey(t)); err != nil {
		t.Fatal(err)
	}
	foreign := 61234 // a group without members
	for _, c := range []struct {
		mode  fs.FileMode
		group int // 0: ours
		want  string
	}{
		{0o600, 0, ""},
		{0o400, 0, ""},
		{0o640, 0, ""},
		{0o440, 0, ""},
		{0o660, 0, "may change this file"},
		{0o604, 0, "all users"},
		{0o644, 0, "all users"},
		{0o601, 0, "all users"},
		{0o600, foreign, ""},
		{0o640, foreign, "is no group of this process"},
	} {
		group := os.Getegid()
		if c.group != 0 {
			if os.Getuid() != 0 {
				t.Logf("mode %o of a foreign group: not tried without root", c.mode)
				continue
			}
			group = c.group
		}
		if err := errors.Join(os.Chown(path, -1, group), os.Chmod(path, c.mode)); err != nil {
			t.Fatal(err)
		}
		_, err := Read(path)
		if os.Getuid() != 0 && c.mode&0o400 == 0 {
			continue
		}
		if c.want == "" && err != nil || c.want != "" && (err == nil || !strings.Contains(err.Error(), c.want) || !strings.Contains(err.Error(), path)) {
			t.Errorf("mode %o of group %d: %v, want %q", c.mode, group, err, c.want)
		}
	}
}

// What is not a key is refused with the path and a reason.
func TestRead(t *testing.T) {
	dir := t.TempDir()
	write := func(name, text string) string {
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		return path
	}
	for path, want := range map[string]string{
		filepath.Join(dir, "none"): "no such file",
		dir:                        "not a regular file",
		write("empty", ""):         "not a private key",
		write("long", strings.Repeat("#\n", fileMax)):    "larger than",
		write("secret", "xyzzy "+string(newKey(t))[27:]): "not a private key",
	} {
		_, err := Read(path)
		if err == nil || !strings.Contains(err.Error(), want) || !strings.Contains(err.Error(), path) || strings.Contains(err.Error(), "xyzzy") {
			t.Errorf("%s: %v, want %q", path, err, want)
		}
	}
}

// A new key never replaces another one, whose mail would not verify any more.
func TestWriteKeepsWhatIsThere(t *testing.T) {
	path := filepath.Join(t.TempDir(), "k.pem")
	first := newKey(t)
	if err := Write(path, first); err != nil {
		t.Fatal(err)
	}
	if err := Write(path, newKey(t)); !errors.Is(err, fs.ErrExist) {
		t.Error(err)
	}
	info, err := os.Stat(path)
	if err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("%v %v", info.Mode(), err)
	}
	if got, err := os.ReadFile(path); err != nil || string(got) != string(first) {
		t.Errorf("%q %v", got, err)
	}
}

// All files that cannot be used are named at once, and there is no ring with the others: mail
// that goes without its signature may be refused by receivers.
func TestLoad(t *testing.T) {
	if r, err := Load(Config{}); r != nil || err != nil {
		t.Errorf("%v %v", r, err)
	}
	dir := t.TempDir()
	path := filepath.Join(dir, "k.pem")
	if err := Write(path, newKey(t)); err != nil {
		t.Fatal(err)
	}
	key := func(name, file string) Key {
		return Key{Key: dkim.Key{Name: name, Domains: []string{"example.com"}, Selector: name}, File: file}
	}
	r, err := Load(Config{Keys: []Key{key("a", path)}, BySender: true})
	if err != nil || len(r.Keys()) != 1 || !r.BySender {
		t.Fatal(r, err)
	}
	_, err = Load(Config{Keys: []Key{key("a", path), key("b", filepath.Join(dir, "x")), key("c", dir)}})
	if !errors.Is(err, ErrUnusable) || strings.Contains(err.Error(), "\n") || !strings.Contains(err.Error(), "dkim key b: ") || !strings.Contains(err.Error(), "dkim key c: ") {
		t.Error(err)
	}
	if _, err = Load(Config{Keys: []Key{key("a", path), key("bad selector", path)}}); err == nil {
		t.Error("a key with a wrong selector")
	}
}
