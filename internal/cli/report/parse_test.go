package report

import (
	"bytes"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/posthaste-mta/posthaste/internal/cli/exit"
)

// run calls the command, and returns what it prints and its exit code.
func run(t *testing.T, in string, args ...string) (out string, code exit.Code, err error) {
	t.Helper()
	cmd := NewCommand()
	var b bytes.Buffer
	cmd.SetArgs(args)
	cmd.SetIn(strings.NewReader(in))
	cmd.SetOut(&b)
	cmd.SetErr(&b)
	cmd.SilenceErrors, cmd.SilenceUsage = true, true
	err = cmd.Execute()
	var known *exit.Error
	switch {
	case errors.As(err, &known):
		code = known.Code
	case err != nil:
		t.Fatal(err)
	}
	return b.String(), code, err
}

// An operator has a bounce and a complaint in files, and something else.
func TestParse(t *testing.T) {
	sample := func(name string) string { return filepath.Join("../../../feedback/testdata", name) }
	for _, c := range []struct {
		args []string
		code exit.Code
		want []string
	}{
		{[]string{"parse", sample("dsn-exim.eml")}, exit.OK, []string{"Report:       delivery status", "Recipient:    jane@example.net", "Status:       5.0.0", "Class:        mailbox-full", "Queue ID:     1N5RWJ0Q8G00A", "Said:         552 Mailbox full"}},
		{[]string{"parse", sample("arf-redacted.eml")}, exit.OK, []string{"Complaint:    abuse", "made unreadable"}},
		{[]string{"parse", "--json", sample("dsn-postfix.eml")}, exit.OK, []string{`"recipient":"jane.doe@store.example.net","original_recipient":"jane@example.net","action":"failed","status":"5.1.1","code":550`, `"class":"no-such-user"`}},
		{[]string{"parse", "--json", sample("unknown-qmail.eml")}, exit.Wrong, []string{`"kind":"unknown","error":"not understood: it is text/plain`}},
		{[]string{"parse", sample("arf-yahoo.eml"), sample("vacation.eml")}, exit.OK, []string{"arf-yahoo.eml:\n", "Incidents:    3", "\n\n" + sample("vacation.eml") + ":\nReport:       auto-reply"}},
		{[]string{"parse", sample("missing.eml")}, exit.NoInput, nil},
	} {
		out, code, err := run(t, "", c.args...)
		if code != c.code {
			t.Errorf("%v: exit code %d, %v", c.args, code, err)
		}
		for _, want := range c.want {
			if !strings.Contains(out, want) {
				t.Errorf("%v: no %q in\n%s", c.args, want, out)
			}
		}
	}
	text, err := os.ReadFile(sample("dsn-gmail.eml"))
	if err != nil {
		t.Fatal(err)
	}
	if out, code, err := run(t, string(text), "parse"); code != exit.OK || !strings.Contains(out, "Reporter:     googlemail.com") {
		t.Errorf("%v\n%s", err, out)
	}
	if _, code, err := run(t, "Hello", "parse", "-"); code != exit.Wrong || !strings.Contains(err.Error(), "-: not understood: it is text/plain") {
		t.Errorf("%d, %v", code, err)
	}
}
