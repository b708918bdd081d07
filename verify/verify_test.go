package verify_test

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/posthaste-mta/posthaste/verify"
)

// shared is where all recordings are, if they are there; testdata has some of
// each kind.
func shared() string {
	if dir := os.Getenv("POSTHASTE_SHARED"); dir != "" {
		return dir
	}
	return filepath.Join("..", "..", "shared")
}

// recordings returns the files of both places that match a pattern.
func recordings(t *testing.T, pattern string) []string {
	t.Helper()
	files, err := filepath.Glob(filepath.Join("testdata", pattern))
	if err != nil || len(files) == 0 {
		t.Fatalf("no recordings match %s: %v", pattern, err)
	}
	more, err := filepath.Glob(filepath.Join(shared(), pattern))
	if err != nil {
		t.Fatal(err)
	}
	return append(files, more...)
}

func read(t *testing.T, path string) []byte {
	t.Helper()
	b, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// Every decision and every counter equals that of Postfix's own functions.
func TestGolden(t *testing.T) {
	for _, in := range recordings(t, "golden/*/*.in") {
		out := strings.TrimSuffix(in, ".in") + ".out"
		if err := verify.Golden(read(t, in), read(t, out)); err != nil {
			t.Errorf("%s: %v", in, err)
		}
	}
}

// The sequences that documents print, for many parameters.
func TestSequences(t *testing.T) {
	for _, path := range recordings(t, "golden/*/SEQUENCES.txt") {
		if err := verify.Sequences(read(t, path)); err != nil {
			t.Errorf("%s: %v", path, err)
		}
	}
}

// Every decision equals that of a running Postfix: what is selected, who
// preempts whom, what is read when, what the windows learn, when mail is tried
// again.
func TestOracle(t *testing.T) {
	for _, path := range recordings(t, "oracle/*.json") {
		if err := verify.Oracle(read(t, path)); err != nil {
			t.Errorf("%s: %v", path, err)
		}
	}
}

// A comparison that cannot fail proves nothing: a recording that is changed in
// one place must be found out, at that place.
func TestGoldenFindsTheDifference(t *testing.T) {
	in := read(t, "testdata/golden/qmgr/c01-seed-sequence-a.in")
	lines := strings.Split(strings.TrimSuffix(string(read(t, "testdata/golden/qmgr/c01-seed-sequence-a.out")), "\n"), "\n")
	for n, line := range lines {
		changed := append([]string(nil), lines...)
		changed[n] = line + "!"
		err := verify.Golden(in, []byte(strings.Join(changed, "\n")+"\n"))
		var d *verify.Difference
		if !errors.As(err, &d) || d.Line != n+1 || d.Got != line || d.Want != line+"!" {
			t.Fatalf("line %d changed: %v", n+1, err)
		}
	}
	shorter := strings.Join(lines[:len(lines)-1], "\n") + "\n"
	if err := verify.Golden(in, []byte(shorter)); err == nil {
		t.Error("a recording without its last line is not found out")
	}
}

// So must a decision trace, in every part of it.
func TestOracleFindsTheDifference(t *testing.T) {
	for _, tc := range []struct{ path, old, changed, where string }{
		{"blocked-preempting-job", `"recipients": ["x@r0002.d1.test"], "t"`, `"recipients": ["x@r0003.d1.test"], "t"`, "order["},
		{"blocked-all-wait", `"e": "idle", "vt": 0`, `"e": "none", "vt": 0`, "order[1]"},
		{"ten-two-two-c2-l0-d50", `"preemptions": [`, `"preemptions": [{"decision": 0},`, "preemptions[0]"},
		{"memory-two-transports", `"first": true, "limit": 5`, `"first": true, "limit": 6`, "reads[0]"},
		{"memory-two-transports", `"transport_allocations": ["oracle"`, `"transport_allocations": ["second"`, "transport_allocations[0]"},
		{"dead-cohorts1-quarter", `"failure": 0.75,`, `"failure": 0.76,`, "events["},
		{"dead-mail-for-dead-destination-and-revival", `"suspended": {"m1": ["x@r0003.d1.test", `, `"suspended": {"m1": [`, "suspended m1[0]"},
		{"feedback-live-inv-limit5-initial5", `"success": 0.6,`, `"success": 0.7,`, "events[2]"},
		{"feedback-live-inv-limit5-initial5", `"sent": 168`, `"sent": 169`, "sent"},
		{"backoff-three-messages", `"m1", "recipients": ["u1@d1.test"], "t": 11`, `"m1", "recipients": ["u1@d1.test"], "t": 12`, "order by second["},
		{"backoff-three-messages", `"delay": 4}`, `"delay": 5}`, "deferrals by second[0]"},
		{"backoff-lifetime-25-max5", `"what": "removed"`, `"what": "kept"`, "ends by second[1]"},
		{"backoff-dead-destination-second-message", `"recipient": "u1@d1.test", "t": 7`, `"recipient": "u1@d1.test", "t": 6`, "suspended by second[1]"},
	} {
		trace := string(read(t, "testdata/oracle/"+tc.path+".json"))
		changed := strings.Replace(trace, tc.old, tc.changed, 1)
		if changed == trace {
			t.Errorf("%s: %q is not there", tc.path, tc.old)
			continue
		}
		err := verify.Oracle([]byte(changed))
		var d *verify.Difference
		if !errors.As(err, &d) || !strings.HasPrefix(d.Where, tc.where) {
			t.Errorf("%s: %q changed to %q: %v", tc.path, tc.old, tc.changed, err)
		}
	}
}

// What cannot be understood is refused with its place, and never passed over.
func TestRefused(t *testing.T) {
	for _, tc := range []struct{ in, want string }{
		{"now 1000000\nfly\n", "line 2: fly: unknown directive"},
		{"set smtp_color 5\n", "line 1: set: unknown parameter smtp_color"},
		{"set smtp_recipient_limit x\n", `line 1: set: "x" is not a number`},
		{"set smtp_destination_rate_delay 5y\n", `line 1: set: "5y" is not a duration`},
		{"var var_x 5\n", "line 1: var: unknown variable var_x"},
		{"msg m1\n", "line 1: msg: 1 words after the directive"},
		{"msg m1 u@d.smtp\nmsg m1 u@d.smtp\n", "line 2: msg: message m1 is there already"},
		{"msg m1 u@d.smtp\nsel smtp\ndone 0 well\n", `line 3: done: "well" is not an ending`},
		{"done x ok\n", `line 1: done: "x" is not a number`},
		{"now 5\nnow 4\n", "line 2: now: time goes back to 4"},
		{"now soon\n", `line 1: now: "soon" is not a time`},
		{"msgn m1 0 d.smtp\n", `line 1: msgn: "0" is not a number of recipients`},
		{"pend smtp x\n", `line 1: pend: "x" is not a number`},
	} {
		if err := verify.Golden([]byte(tc.in), nil); !errors.Is(err, verify.ErrNoRecording) || err.Error() != "it is no recording: "+tc.want {
			t.Errorf("%q: %v, want %s", tc.in, err, tc.want)
		}
	}
	for _, text := range []string{"slots-k2-3", "hello world", "- 1", "\x00\xff \x80", "slots-x2-3 1", "slots-kx-3 1", "slots-k2-0 1", "slots-k2- 1"} {
		if err := verify.Sequences([]byte(text)); !errors.Is(err, verify.ErrNoRecording) {
			t.Errorf("%q is accepted", text)
		}
	}
	if err := verify.Sequences([]byte("\nslots-k2-l0-d0-m0-10_2_2 11112211113312\n")); err == nil ||
		err.Error() != `line 2: slots-k2-l0-d0-m0-10_2_2: got "11112211113311", recorded "11112211113312"` {
		t.Error(err)
	}
	for _, text := range []string{"", "{", `{"messages": [{"id": "m", "recipients": "x"}]}`,
		`{"parameters": {"queue_manager": {"color": 1}}}`,
		`{"parameters": {"transports": {"smtp": {"color": 1}}}}`,
		`{"parameters": {"transports": {"smtp": {}}}, "order": [], "events": [{"e": "fly"}]}`,
		`{"parameters": {"transports": {"smtp": {}}}, "order": [{}], "events": [{"e": "fly"}]}`,
		`{"parameters": {"transports": {"smtp": {}}}, "order": [{}], "events": [{"e": "done"}]}`,
		`{"parameters": {"transports": {"smtp": {}}}, "order": [{}], "events": [{"e": "arrive", "message": "m"}]}`,
		`{"parameters": {"transports": {"smtp": {}}}, "order": [{}], "events": []}`,
	} {
		var d *verify.Difference
		if err := verify.Oracle([]byte(text)); err == nil || errors.As(err, &d) {
			t.Errorf("%s: %v", text, err)
		}
	}
}
