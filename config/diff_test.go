package config

import (
	"errors"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
)

// An operator who reloads must be told what will change, and what will not
// until the next start.
func TestDiff(t *testing.T) {
	before := mustParse(t, `
minimal_backoff_time = "300s"
default_process_limit = 50
[transport.bulk]
process_limit = 50
[transport.old]
[routes]
"a.example" = "bulk:"
"b.example" = "bulk:"
`)
	after := mustParse(t, `
listen = [":25"]
maximal_backoff_time = "2h"
minimal_backoff_time = 300
default_process_limit = 60
spool.cache_size = "1G"
[transport.bulk]
process_limit = 50
connect_timeout = "5s"
[transport."new"]
[routes]
"a.example" = "new:"
"c.example" = "bulk:"
`)
	want := []Change{
		{"listen", `["127.0.0.1:2525"]`, `["[::]:25"]`, true},
		{"maximal_backoff_time", `"4000s"`, `"2h"`, false},
		{"default_process_limit", "50", "60", false},
		{"spool.cache_size", `"32M"`, `"1G"`, true},
		{"transport.bulk.connect_timeout", `"30s"`, `"5s"`, false},
		{"transport.discard.process_limit", "50", "60", false},
		{"transport.error.process_limit", "50", "60", false},
		{"transport.new", "", "{}", false},
		{"transport.old", "{}", "", false},
		{"transport.relay.process_limit", "50", "60", false},
		{"transport.retry.process_limit", "50", "60", false},
		{"transport.smtp.process_limit", "50", "60", false},
		{`routes."a.example"`, `"bulk:"`, `"new:"`, false},
		{`routes."b.example"`, `"bulk:"`, "", false},
		{`routes."c.example"`, "", `"bulk:"`, false},
	}
	got := Diff(before, after)
	for i := range max(len(got), len(want)) {
		if i >= len(got) || i >= len(want) || got[i] != want[i] {
			t.Errorf("change %d:\n got %v\nwant %v", i, at(got, i), at(want, i))
		}
	}
	for i, back := range Diff(after, before) {
		if i < len(got) && (back.Key != got[i].Key || back.Old != got[i].New || back.New != got[i].Old) {
			t.Errorf("backwards, change %d is %v, and forwards %v", i, back, got[i])
		}
	}
	if changes := Diff(before, before); len(changes) > 0 {
		t.Errorf("nothing differs from itself: %v", changes)
	}
}

func at(all []Change, i int) any {
	if i < len(all) {
		return all[i]
	}
	return "nothing"
}

// What a running program cannot change: its directory, its sockets, the
// memory of its store. Everything else must be reloadable, or operators stop
// changing limits.
func TestRestart(t *testing.T) {
	var got []string
	for _, p := range Parameters() {
		if p.Restart {
			got = append(got, p.Name)
		}
	}
	want := strings.Fields(`queue_directory admin_socket submission_socket listen
		inline_limit ballast_size memtable_size memtables cache_size sync_interval slow_disk_time maintenance_interval readers format`)
	if !reflect.DeepEqual(got, want) {
		t.Errorf("need a restart: %v\nwant %v", got, want)
	}
}

// Load tells a file that is not there from one that is wrong: the second is
// EX_CONFIG.
func TestLoad(t *testing.T) {
	path := filepath.Join(t.TempDir(), "posthaste.toml")
	if _, err := Load(path, testEnvironment); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("no file: %v", err)
	}
	write := func(text string) {
		t.Helper()
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	write("\ufeffmyhostname = \"mail.example.com\"\r\nqueue_directory = \"/srv/q\"\r\nadmin_socket = \"/run/a.sock\"\r\n")
	c, err := Load(path, testEnvironment)
	if err != nil {
		t.Fatal(err)
	}
	if c.Hostname != "mail.example.com" || c.AdminSocketPath() != "/run/a.sock" || c.SubmissionSocketPath() != "/srv/q/submit.sock" {
		t.Errorf("%q %q %q", c.Hostname, c.AdminSocketPath(), c.SubmissionSocketPath())
	}
	write("nothing = 1")
	var problems *Problems
	if _, err := Load(path, testEnvironment); !errors.As(err, &problems) || problems.List[0].File != path {
		t.Errorf("wrong file: %v", err)
	}
	write(strings.Repeat("# no end\n", fileMax/9+1))
	if _, err := Load(path, testEnvironment); !errors.As(err, &problems) || !strings.Contains(err.Error(), "larger than 1M") {
		t.Errorf("huge file: %v", err)
	}
}

// The machine's name is used as it is, with or without a dot, unless it cannot
// stand in a greeting.
func TestHostname(t *testing.T) {
	for name, want := range map[string]string{"box": "box", "mail.example.com": "mail.example.com", "": "localhost"} {
		c, err := Parse("", nil, Environment{Hostname: name})
		if err != nil || c.Hostname != want {
			t.Errorf("%q: %v %v", name, c, err)
		}
	}
	if _, err := Parse("", []byte("relayhost = \"\""), Environment{Hostname: "my_box"}); err == nil || !strings.Contains(err.Error(), "my_box") {
		t.Errorf("my_box: %v", err)
	}
	if _, err := Parse("", []byte("myhostname = \"box\""), Environment{Hostname: "my_box"}); err != nil {
		t.Errorf("my_box, with a name in the file: %v", err)
	}
}
