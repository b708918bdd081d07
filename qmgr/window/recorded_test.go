package window

import (
	"bufio"
	"fmt"
	"os"
	"strings"
	"testing"
)

// The sums of a real Postfix, event by event: equal decisions start here. The
// recordings are described at the top of the file.
func TestRecordedPostfix(t *testing.T) {
	file, err := os.Open("testdata/recorded/postfix-3.7.11.txt")
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	var r replay
	scanner := bufio.NewScanner(file)
	for n := 1; scanner.Scan(); n++ {
		line := scanner.Text()
		if line == "" || line[0] == '#' {
			continue
		}
		if err := r.line(line); err != nil {
			t.Errorf("%s:%d: %s: %v", file.Name(), n, r.name, err)
		}
	}
	if err := scanner.Err(); err != nil {
		t.Fatal(err)
	}
	if r.windows < 30 || r.events < 1000 {
		t.Errorf("only %d windows and %d events were replayed", r.windows, r.events)
	}
}

type replay struct {
	name            string
	cfg             Config
	w               Window
	windows, events int
}

func (r *replay) line(line string) error {
	if settings, ok := strings.CutPrefix(line, "window "); ok {
		return r.begin(settings)
	}
	event, want, logged := strings.Cut(line, ": ")
	var busy int
	if _, err := fmt.Sscanf(event, "ok %d", &busy); err == nil {
		event = "ok"
	}
	switch event {
	case "ok":
		r.w.Success(&r.cfg, Attempt{}, busy)
	case "unreachable":
		r.w.Failure(&r.cfg, Attempt{})
	case "revived":
		r.w.Revive(&r.cfg, 0)
	case "late":
		if r.w.State() != Dead {
			return fmt.Errorf("%s, but Postfix had it dead", r.w.State())
		}
	default:
		return fmt.Errorf("no such event: %s", event)
	}
	r.events++
	if got := r.print(); logged && got != want {
		return fmt.Errorf("after %s: %s, Postfix had %s", line, got, want)
	}
	return nil
}

func (r *replay) begin(settings string) error {
	var positive, negative string
	r.cfg = Config{}
	settings = strings.NewReplacer("initial=", "", "limit=", "", "positive=", "", "negative=", "", "cohorts=", "").Replace(settings)
	if _, err := fmt.Sscan(settings, &r.name, &r.cfg.Initial, &r.cfg.Limit, &positive, &negative, &r.cfg.FailedCohortLimit); err != nil {
		return err
	}
	r.cfg.Positive, _ = ParsePostfixFeedback(positive)
	r.cfg.Negative, _ = ParsePostfixFeedback(negative)
	r.w = New(&r.cfg)
	r.windows++
	return nil
}

func (r *replay) print() string {
	success, failure, cohorts := r.w.Counters()
	return fmt.Sprintf("%d %.6g %.6g %.6g", r.w.Size(), success, failure, cohorts)
}
