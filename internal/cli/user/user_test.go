package user

import (
	"bytes"
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/posthaste-mta/posthaste/internal/cli/command"
	"github.com/posthaste-mta/posthaste/internal/cli/exit"
)

// run runs a command and returns its output, and the code of its error.
func run(t *testing.T, in string, args ...string) (out string, code exit.Code) {
	t.Helper()
	var b bytes.Buffer
	err := command.Execute(context.Background(), NewCommand(), args, command.Streams{In: strings.NewReader(in), Out: &b, Err: &b})
	var known *exit.Error
	if errors.As(err, &known) {
		code = known.Code
	} else if err != nil {
		code = exit.Unavailable
	}
	if err != nil {
		b.WriteString(err.Error())
	}
	return b.String(), code
}

// An administrator adds, lists and removes users of a file, which may be named by the
// configuration; no password is in any output or argument.
func TestCommands(t *testing.T) {
	dir := t.TempDir()
	file, conf := filepath.Join(dir, "users"), filepath.Join(dir, "posthaste.toml")
	if err := os.WriteFile(conf, []byte("users = \""+file+"\"\nqueue_directory = \""+dir+"/queue\"\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	none := filepath.Join(dir, "none.toml")
	if err := os.WriteFile(none, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		in   string
		args []string
		code exit.Code
		want string
	}{
		{"", []string{"list", "--file", file}, exit.NoInput, "posthaste user add"},
		{"", []string{"list", "--config", none}, exit.Usage, "names no file of users"},
		{"sesame\n", []string{"add", "Alice", "--stdin", "--only-scram", "--config", conf}, 0, ""},
		{"sesame\n", []string{"add", "alice", "--stdin", "--only-scram", "--file", file}, exit.Data, "alice: the user exists already"},
		{"sesame\n", []string{"add", "bob", "--file", file}, exit.Usage, "not a terminal"},
		{"", []string{"add", "bob", "--stdin", "--file", file}, exit.Data, "the password: "},
		{"sesame\n", []string{"add", "b b", "--stdin", "--file", file}, exit.Usage, "it has a space"},
		{"sesame\n", []string{"add", "bob", "--stdin", "--no-scram", "--only-scram", "--file", file}, exit.Usage, ""},
		{"sesame\r\nsecond line\n", []string{"passwd", "alice", "--stdin", "--only-scram", "--file", file}, 0, ""},
		{"sesame\n", []string{"passwd", "carol", "--stdin", "--only-scram", "--file", file}, exit.NoInput, "there is no such user"},
		{"", []string{"list", "--config", conf}, 0, "alice\tSCRAM-SHA-256\n"},
		{"", []string{"remove", "alice", "--config", conf}, 0, ""},
		{"", []string{"remove", "alice", "--config", conf}, exit.NoInput, "there is no such user"},
		{"", []string{"list", "--config", conf}, 0, ""},
	} {
		out, code := run(t, c.in, c.args...)
		if code != c.code || !strings.Contains(out, c.want) || code == 0 && c.want == "" && out != "" || strings.Contains(out, "sesame") {
			t.Errorf("%q: code %d, want %d; %q, want %q", c.args, code, c.code, out, c.want)
		}
	}
}

// A password that is mistyped once is not set.
func TestAskTwice(t *testing.T) {
	broken := errors.New("broken")
	for _, c := range []struct {
		answers []string
		fails   int // the answer that does; -1 none
		want    string
	}{{[]string{"a", "a"}, -1, "a"}, {[]string{"a", "b"}, -1, ""}, {[]string{"a", "a"}, 0, ""}, {[]string{"a", "a"}, 1, ""}} {
		i := -1
		got, err := askTwice(func(string) (string, error) {
			if i++; i == c.fails {
				return "", broken
			}
			return c.answers[i], nil
		})
		if got != c.want || (err == nil) != (c.want != "") {
			t.Errorf("%q: %q, %v", c.answers, got, err)
		}
	}
}
