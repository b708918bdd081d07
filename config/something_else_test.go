package config

import (
	"errors"
	"strings"
	"testing"

	"github.com/posthaste-mta/posthaste/internal/tomlfile"
)

// An operator who names the wrong file, such as a program or a letter, needs to learn
// that, and not to read 2730 complaints about its lines. A main.cf, or a file with
// mistakes in it, is meant as a configuration: there each line is reported.
func TestSomethingElse(t *testing.T) {
	lines := func(line string) string { return strings.Repeat(line+"\n", 200) }
	for _, c := range []struct {
		name, text string
		want       bool
	}{
		{"prose", lines("It was a dark and stormy night; the rain fell in torrents."), true},
		{"a script", "#!/bin/sh\n" + lines("for f in *; do rm -- $f; done"), true},
		{"a program", "\x7fELF\x02\x00\x00" + lines("x"), true},
		{"main.cf", "myhostname = mail.example.com\n" + lines("smtpd_banner = $myhostname ESMTP"), false},
		{"one line that is wrong", "this is it\n", false},
		{"many mistakes and a table", lines("this is it") + "[transport.bulk]\nprocess_limit = 3\n", false},
	} {
		_, err := Parse("some.file", []byte(c.text), Environment{Hostname: "mta.example.com"})
		var problems *tomlfile.Problems
		if !errors.As(err, &problems) {
			t.Errorf("%s: %v", c.name, err)
			continue
		}
		single := len(problems.List) == 1 && problems.More == 0 && strings.Contains(problems.List[0].Message, "not a configuration file")
		if single != c.want {
			t.Errorf("%s: %d problems, the first is %v", c.name, len(problems.List)+problems.More, problems.List[0])
		}
	}
}

// A parameter that is set twice must not hide a route to a transport that does not
// exist: otherwise a second run would find more than the first.
func TestDuplicateHidesNothing(t *testing.T) {
	_, err := Parse("a.toml", []byte("process_id = 1\ndefault_process_limit = 3\ndefault_process_limit = 4\n[routes]\n\"x.test\" = \"bulk:\"\n[destination.own]\n"), Environment{Hostname: "mta.example.com"})
	for _, want := range []string{"set a second time", `there is no transport "bulk"`, "this destination names no receivers"} {
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v\nlacks %q", err, want)
		}
	}
	// The transport may be defined in a part that cannot be read.
	_, err = Parse("a.toml", []byte("[transport.bulk\n[routes]\n\"x.test\" = \"bulk:\"\n"), Environment{Hostname: "mta.example.com"})
	if err == nil || strings.Contains(err.Error(), "no transport") {
		t.Error(err)
	}
}
