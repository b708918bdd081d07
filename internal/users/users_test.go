package users

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/posthaste-mta/posthaste/sasl"
)

// cheap is a line with the cheapest parameters that are allowed.
func cheap(t *testing.T, name, password string) string {
	t.Helper()
	k, err := sasl.NewKeys(password, []byte("0123456789abcdef"), sasl.IterationsMin)
	if err != nil {
		t.Fatal(err)
	}
	h := &hash{memory: memoryMin, passes: 1, threads: 1, salt: []byte("0123456789abcdef"), sum: make([]byte, 32)}
	return name + " " + h.with(password).String() + " " + keysText(&k)
}

// The hash of the command line tool of the reference implementation:
// echo -n sesame | argon2 saltsaltsalt -id -t 1 -k 8192 -p 1 -l 32 -e
const referenceHash = "$argon2id$v=19$m=8192,t=1,p=1$c2FsdHNhbHRzYWx0$HgjxOI6ax85WfXptpOiYlJEe3uIIlEJzBowyiJdUM6s"

// What an administrator writes by hand is accepted or refused with the line, and no
// password that is there by mistake is in the message.
func TestParse(t *testing.T) {
	good := cheap(t, "alice@example.com", "sesame")
	fields := strings.Fields(good)
	for _, c := range []struct{ text, wrong string }{
		{"", ""}, {"# nobody\n\n", ""}, {good + "\n", ""}, {"  " + good + "\r\n", ""},
		{"bob " + fields[1], ""}, {"bob " + fields[2], ""}, {"bob " + fields[2] + " " + fields[1], ""},
		{"@secret " + strings.Repeat("A", 43) + "=\n", ""},
		{"bob\n", `f:1: want the name of a user, and then something to check a password with`},
		{"hunter2", "is not shown"}, {"@secrethunter2", "is not shown"}, {"@Secret=hunter2 x", "is not shown"},
		{"bob\n" + fields[1] + "$hunter2 " + fields[2], "f:2: want the name"}, {"aliceX:$argon2id$hunter2 " + fields[2], "is not shown"},
		{strings.Repeat("X", 30) + "hunter2 " + fields[2], "is not shown"},
		{"\nbob hunter2\n", `f:2: user "bob": want one hash $argon2id$… and one SCRAM-SHA-256$… after the name, and nothing else`},
		{good + " hunter2", "and nothing else"},
		{good + "\n" + good, `f:2: the user "alice@example.com" is there twice`},
		{"Bob " + fields[1], `f:1: the name "Bob" is compared as "bob": write it so`},
		{"uid:33 " + fields[1], "which is not allowed"}, {"@bob " + fields[1], "which is not allowed"},
		{"@secret", "want @secret and one value"}, {"@secret AAAA", "not 32 bytes in base64"},
		{"bob $argon2i$v=19$m=8192,t=1,p=1$c2FsdHNhbHQ$aGFzaA", "and nothing else"},
		{"bob $argon2id$v=16$m=8192,t=1,p=1$c2FsdHNhbHQ$aGFzaA", "not of the form $argon2id$v=19"},
		{"bob $argon2id$v=19$m=8192,t=1$c2FsdHNhbHQ$aGFzaA", "not of the form m="},
		{"bob $argon2id$v=19$m=999999,t=1,p=1$c2FsdHNhbHQ$aGFzaA", "m= of Argon2id is not a number between 8192 and 65536"},
		{"bob $argon2id$v=19$m=8192,t=0,p=1$c2FsdHNhbHQ$aGFzaA", "t= of Argon2id"},
		{"bob $argon2id$v=19$m=8192,t=1,p=9$c2FsdHNhbHQ$aGFzaA", "p= of Argon2id"},
		{"bob $argon2id$v=19$m=8192,t=1,p=1$c2Fs$aGFzaA", "the salt of Argon2id"},
		{"bob $argon2id$v=19$m=8192,t=1,p=1$c2FsdHNhbHRzYWx0$aGFzaA", "the hash of Argon2id"},
		{"bob SCRAM-SHA-256$4096", "not of the form SCRAM"}, {"bob SCRAM-SHA-256$x:AA==$AA==:AA==", "iterations of SCRAM are not a number"},
		{"bob SCRAM-SHA-256$4096:A$AA==:AA==", "is not base64"}, {"bob SCRAM-SHA-256$1000:AAAAAAAAAAA=$AA==:AA==", "1000 iterations"},
		{strings.Repeat("x", 2000), "more than 1024 bytes"},
		{strings.Repeat("x hunter2\n", 100), "perhaps more mistakes follow"},
	} {
		_, err := Parse("f", []byte(c.text))
		switch {
		case (err == nil) != (c.wrong == "") || err != nil && !strings.Contains(err.Error(), c.wrong):
			t.Errorf("%.80q: %v, want %q", c.text, err, c.wrong)
		case err != nil && strings.Contains(err.Error(), "hunter2"):
			t.Errorf("%.80q: the error has a password: %v", c.text, err)
		}
	}
}

// Passwords are checked by hash and by keys; the name in any case.
func TestCheck(t *testing.T) {
	s, err := Parse("f", []byte(cheap(t, "alice", "sesame")+"\nscram "+strings.Fields(cheap(t, "x", "sesame"))[2]))
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		name, password string
		want           bool
	}{{"alice", "sesame", true}, {"ALICE", "sesame", true}, {"alice", "Sesame", false}, {"alice", "", false}} {
		if got := s.Check(c.name, c.password); got != c.want {
			t.Errorf("%s, %s: %t", c.name, c.password, got)
		}
	}
	if reference, err := Parse("f", []byte("alice "+referenceHash)); err != nil || !reference.Check("alice", "sesame") {
		t.Errorf("the hash of another implementation: %v", err)
	}
	if s.Check("bob", "sesame") || s.Check("scram", "sesame") {
		t.Error("a user without a hash has a password")
	}
	if got := strings.Join(s.Names(), " "); got != "alice scram" || s.Len() != 2 || s.Mechanisms("scram") != "SCRAM-SHA-256" || s.Mechanisms("alice") != "SCRAM-SHA-256 PLAIN LOGIN" || s.Mechanisms("bob") != "" {
		t.Errorf("users %s", got)
	}
	want, err := sasl.NewKeys("sesame", []byte("0123456789abcdef"), sasl.IterationsMin)
	if err != nil {
		t.Fatal(err)
	}
	if k := s.Keys("Alice"); string(k.Stored) != string(want.Stored) {
		t.Error("alice has other keys")
	}
}

// A wrong password costs the same whether or not there is such a user, has a hash, or could have one: the
// memory of a hash, which takes nearly all of the time. A check that was left out would reveal who exists.
func TestCheckTakesAsMuchForNobody(t *testing.T) {
	fields := strings.Fields(cheap(t, "x", "sesame"))
	s, err := Parse("f", []byte("alice "+newHash("sesame").String()+"\nscram "+fields[2]))
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct{ name, password string }{
		{"alice", "wrong"}, {"alice", "\x00"}, {"bob", "sesame"}, {"scram", "sesame"}, {"", "sesame"}, {"\xff", "sesame"}, {"bob", "\xff"},
	} {
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		if s.Check(c.name, c.password) {
			t.Errorf("%q has the password %q", c.name, c.password)
		}
		runtime.ReadMemStats(&after)
		if took := after.TotalAlloc - before.TotalAlloc; took < newMemory<<10 || took > newMemory<<11 {
			t.Errorf("a check of %q and %q takes %d bytes, a hash %d", c.name, c.password, took, newMemory<<10)
		}
	}
}

// A client that asks twice for users that do not exist, also after a restart, gets the same
// salts, as for users that do; other names have others.
func TestUnknownUsers(t *testing.T) {
	text := []byte("@secret " + strings.Repeat("A", 43) + "=\n")
	one, err := Parse("f", text)
	if err != nil {
		t.Fatal(err)
	}
	again, err := Parse("f", append(text, cheap(t, "alice", "sesame")...))
	if err != nil {
		t.Fatal(err)
	}
	a, b := one.Keys("bob"), again.Keys("BOB")
	if string(a.Salt) != string(b.Salt) || a.Iterations != newRounds || len(a.Salt) != newSalt {
		t.Errorf("%+v and %+v", a, b)
	}
	if err := a.Validate(); err != nil {
		t.Error(err)
	}
	if other := one.Keys("carol"); string(other.Salt) == string(a.Salt) {
		t.Error("all have the same salt")
	}
	for _, bad := range []string{"", "\xff", "a b"} {
		if k := one.Keys(bad); k.Validate() != nil {
			t.Errorf("%q has no keys", bad)
		}
	}
}

// An administrator adds users, changes a password and removes a user; what else is in the
// file stays, and its mode.
func TestEdit(t *testing.T) {
	path := filepath.Join(t.TempDir(), "users")
	if err := RemoveUser(path, "alice"); err == nil {
		t.Error("a user was removed from no file")
	}
	if err := AddUser(path, "Alice", "sesame", KindScram, -1); err != nil {
		t.Fatal(err)
	}
	if info, err := os.Stat(path); err != nil || info.Mode().Perm() != 0o600 {
		t.Fatalf("%v, %v", info.Mode(), err)
	}
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	text = append(text, "# a comment\n\n"...)
	if err := os.WriteFile(path, text, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Chmod(path, 0o640); err != nil {
		t.Fatal(err)
	}
	if err := AddUser(path, "alice", "x", KindScram, -1); !errors.Is(err, ErrExists) {
		t.Errorf("added twice: %v", err)
	}
	if err := AddUser(path, "bob", "x", KindBoth, -1); err != nil {
		t.Error(err)
	}
	if err := SetPassword(path, "alice", "mustard", KindScram); err != nil {
		t.Error(err)
	}
	if err := SetPassword(path, "carol", "mustard", KindScram); !errors.Is(err, ErrMissing) {
		t.Errorf("the password of a user that does not exist: %v", err)
	}
	f, err := Open(path)
	if err != nil {
		t.Fatal(err)
	}
	before := f.set.Keys("carol")
	if err := RemoveUser(path, "bob"); err != nil {
		t.Error(err)
	}
	set, err := f.Set(f.next)
	if err != nil || strings.Join(set.Names(), " ") != "alice" {
		t.Fatalf("%v, %v", set.Names(), err)
	}
	if after := set.Keys("carol"); string(after.Salt) != string(before.Salt) {
		t.Error("the secret has changed")
	}
	after, err := os.ReadFile(path)
	if err != nil || !strings.Contains(string(after), "# a comment\n") {
		t.Errorf("%s", after)
	}
	if info, err := os.Stat(path); err != nil || info.Mode().Perm() != 0o640 {
		t.Errorf("%v, %v", info.Mode(), err)
	}
	for _, bad := range [][2]string{{"", "x"}, {"a b", "x"}, {"uid:1", "x"}, {"dora", ""}, {"dora", "a\x00b"}} {
		if err := AddUser(path, bad[0], bad[1], KindScram, -1); err == nil {
			t.Errorf("user %q with password %q was added", bad[0], bad[1])
		}
	}
	if left, err := filepath.Glob(filepath.Join(filepath.Dir(path), ".users*")); err != nil || len(left) > 0 {
		t.Errorf("left behind: %v", left)
	}
}

// Two administrators at once lose neither change.
func TestConcurrentEdits(t *testing.T) {
	path := filepath.Join(t.TempDir(), "users")
	var all sync.WaitGroup
	for i := range 8 {
		all.Go(func() {
			if err := edit(path, true, -1, func(lines []string) ([]string, error) {
				return append(lines, strings.Replace(cheapLine, "NAME", fmt.Sprint("user", i), 1)), nil
			}); err != nil {
				t.Error(err)
			}
		})
	}
	all.Wait()
	f, err := Open(path)
	if err != nil || f.set.Len() != 8 {
		t.Fatalf("%v, %v", f.set.Names(), err)
	}
}

const cheapLine = "NAME SCRAM-SHA-256$4096:MDEyMzQ1Njc4OWFiY2RlZg==$AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA=:AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA="

// The daemon reads a changed file by itself, at most once in two seconds. If it has a mistake
// or is gone, the users are those from before, and the error is there once.
func TestFile(t *testing.T) {
	path := filepath.Join(t.TempDir(), "users")
	write := func(text string, at time.Time) {
		t.Helper()
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		if err := os.Chtimes(path, at, at); err != nil {
			t.Fatal(err)
		}
	}
	names := func(f *File, now time.Time) string {
		set, err := f.Set(now)
		return strings.Join(set.Names(), " ") + fmt.Sprint(" ", err != nil)
	}
	day := time.Now().Add(time.Hour) // later than every look, so that the file never seems to be settled
	write(strings.Replace(cheapLine, "NAME", "alice", 1), day)
	f, err := Open(path)
	if err != nil {
		t.Fatal(err)
	}
	now := f.next
	write(strings.Replace(cheapLine, "NAME", "bob", 1), day.Add(time.Hour))
	got := []string{names(f, now.Add(-1)), names(f, now), names(f, now.Add(2*time.Second))}
	now = now.Add(2 * time.Second)
	write("nonsense", day.Add(2*time.Hour))
	got = append(got, names(f, now.Add(1*time.Second)), names(f, now.Add(2*time.Second)), names(f, now.Add(4*time.Second)), names(f, now.Add(6*time.Second)))
	now = now.Add(2 * time.Second)
	if err := os.Remove(path); err != nil {
		t.Fatal(err)
	}
	got = append(got, names(f, now.Add(6*time.Second)), names(f, now.Add(8*time.Second)))
	write(strings.Replace(cheapLine, "NAME", "carol", 1)+"\n", day.Add(3*time.Hour))
	names(f, now.Add(10*time.Second)) // the inode may be the old one's, so that the file seems to have been changed in its place
	got = append(got, names(f, now.Add(12*time.Second)))
	want := []string{"alice false", "alice false", "bob false", "bob false", "bob false", "bob true", "bob false", "bob true", "bob false", "carol false"}
	if !slices.Equal(got, want) {
		t.Errorf("%q\nwant %q", got, want)
	}
}

// While an editor that empties the file and then writes it is at work, users can still log in,
// however slow it is. What it has written at last counts, even if that is an empty file.
func TestHalfWritten(t *testing.T) {
	path := filepath.Join(t.TempDir(), "users")
	line := func(name string) string { return strings.Replace(cheapLine, "NAME", name, 1) + "\n" }
	at := time.Now().Add(time.Hour) // later than every look
	write := func(text string) {
		t.Helper()
		at = at.Add(time.Second)
		if err := errors.Join(os.WriteFile(path, []byte(text), 0o600), os.Chtimes(path, at, at)); err != nil {
			t.Fatal(err)
		}
	}
	write(line("alice") + line("bob"))
	f, err := Open(path)
	if err != nil {
		t.Fatal(err)
	}
	look := func(want string) {
		t.Helper()
		set, err := f.Set(f.next)
		if got := strings.Join(set.Names(), " "); err != nil || got != want {
			t.Errorf("users are %q, want %q; %v", got, want, err)
		}
	}
	write("")
	look("alice bob")
	write(line("alice"))
	look("alice bob")
	write(line("alice") + line("bob") + line("carol"))
	look("alice bob")
	look("alice bob carol")
	if err := os.Remove(path); err != nil { // as of an editor that makes a new file
		t.Fatal(err)
	}
	write(line("alice") + line("bob")[:20])
	look("alice bob carol")
	write("")
	look("alice bob carol")
	look("")
}

// A change counts at the first login after it, if the editor has finished long ago: who was removed
// an hour ago does not log in once more.
func TestRemovedInPlace(t *testing.T) {
	path := filepath.Join(t.TempDir(), "users")
	line := func(name string) string { return strings.Replace(cheapLine, "NAME", name, 1) + "\n" }
	if err := os.WriteFile(path, []byte(line("alice")+line("bob")), 0o600); err != nil {
		t.Fatal(err)
	}
	f, err := Open(path)
	if err != nil {
		t.Fatal(err)
	}
	changed := f.next.Add(time.Hour)
	if err := errors.Join(os.WriteFile(path, []byte(line("bob")), 0o600), os.Chtimes(path, changed, changed)); err != nil {
		t.Fatal(err)
	}
	for _, look := range []struct {
		after time.Duration
		want  string
	}{{time.Second, "alice bob"}, {time.Hour, "bob"}} {
		set, err := f.Set(changed.Add(look.after))
		if got := strings.Join(set.Names(), " "); err != nil || got != look.want {
			t.Errorf("%s after the change users are %q, want %q; %v", look.after, got, look.want, err)
		}
		if look.after == time.Second { // as if the file had not been looked at
			f.fresh, f.next = nil, changed
		}
	}
}

// A file may be where a symbolic link points to, as in a checkout of the configuration: the link
// stays.
func TestEditThroughLink(t *testing.T) {
	dir := t.TempDir()
	path, link, loose := filepath.Join(dir, "there", "users"), filepath.Join(dir, "users"), filepath.Join(dir, "loose")
	if err := errors.Join(os.Mkdir(filepath.Dir(path), 0o700), os.WriteFile(path, nil, 0o600), os.Symlink(path, link), os.Symlink(path+"-none", loose)); err != nil {
		t.Fatal(err)
	}
	if err := AddUser(link, "alice", "x", KindHash, -1); err != nil {
		t.Fatal(err)
	}
	if to, err := os.Readlink(link); to != path {
		t.Errorf("the link is %q, %v", to, err)
	}
	if text, err := os.ReadFile(path); !strings.Contains(string(text), "alice ") {
		t.Errorf("%q, %v", text, err)
	}
	if err := AddUser(loose, "alice", "x", KindHash, -1); err == nil || !strings.Contains(err.Error(), "symbolic link") {
		t.Errorf("a link that points to nothing: %v", err)
	}
}

// A file that others may read, or the group may change, is not used.
func TestModes(t *testing.T) {
	path := filepath.Join(t.TempDir(), "users")
	if err := os.WriteFile(path, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	for mode, want := range map[os.FileMode]string{0o600: "", 0o640: "", 0o644: "chmod o-rwx", 0o660: "chmod g-w", 0o602: "chmod o-rwx"} {
		if err := os.Chmod(path, mode); err != nil {
			t.Fatal(err)
		}
		if _, err := Open(path); (err == nil) != (want == "") || err != nil && !strings.Contains(err.Error(), want) {
			t.Errorf("%o: %v", mode, err)
		}
	}
	if _, err := Open(filepath.Dir(path)); err == nil {
		t.Error("a directory has users")
	}
	if _, err := Open(path + "-none"); !errors.Is(err, os.ErrNotExist) || !strings.Contains(err.Error(), "posthaste user add") {
		t.Errorf("%v", err)
	}
}

// Whatever a file contains, it is read or refused, and what is written is read again.
func FuzzParse(f *testing.F) {
	f.Add("alice $argon2id$v=19$m=8192,t=1,p=1$MDEyMzQ1Njc4OWFiY2RlZg$MDEyMzQ1Njc4OWFiY2RlZg SCRAM-SHA-256$4096:AAAAAAAAAAA=$AA==:AA==")
	f.Add(strings.Replace(cheapLine, "NAME", "bob", 1) + "\n@secret x\n# y")
	f.Fuzz(func(t *testing.T, text string) {
		s, err := Parse("f", []byte(text))
		if err != nil {
			return
		}
		for name, u := range s.users {
			line := name
			if u.hash != nil {
				line += " " + u.hash.String()
			}
			if u.keys != nil {
				line += " " + keysText(u.keys)
			}
			if _, err := Parse("f", []byte(line)); err != nil {
				t.Errorf("%q is not read again: %v", line, err)
			}
		}
	})
}
