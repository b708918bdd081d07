package scenario

import (
	"fmt"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/posthaste-mta/posthaste/internal/golden"
	"github.com/posthaste-mta/posthaste/sim"
)

// The examples of the manual are scenarios, since users will copy them. A plain run simulates
// no more than the first 20 minutes of each.
func TestManualExamplesRun(t *testing.T) {
	text, err := os.ReadFile("../../docs/simulation.md")
	if err != nil {
		t.Fatal(err)
	}
	examples := strings.Split(string(text), "```toml\n")[1:]
	if len(examples) < 3 {
		t.Fatalf("the manual has %d examples", len(examples))
	}
	for i, example := range examples {
		example, _, _ = strings.Cut(example, "```")
		name := fmt.Sprintf("example %d", i+1)
		s, err := Parse(name, name, []byte(example), nil)
		if err != nil {
			t.Errorf("%s:\n%v", name, err)
			continue
		}
		if s.Duration == 0 && golden.Runs(0) == 0 {
			s.Duration = 20 * time.Minute
		}
		r, err := sim.Simulate(s, sim.Options{})
		if err != nil || r.Verdict() != sim.VerdictOK {
			t.Errorf("%s: %v, %+v", name, err, r)
		}
	}
}

// The manual names every key that there is, and no other in its tables of keys.
func TestManualNamesEveryKey(t *testing.T) {
	text, err := os.ReadFile("../../docs/simulation.md")
	if err != nil {
		t.Fatal(err)
	}
	var b sim.Behaviour
	var names []string
	for _, f := range behaviour(&b) {
		names = append(names, f.name)
	}
	names = append(names, "copies", "transport", "change", "outage", "fault", "to", "order", "recipients", "pattern", "from", "until", "messages", "rate", "curve",
		"burst", "every", "age", "due", "null_sender", "poison", "size", "records", "file", "description", "seed", "duration", "patience", "sabotage",
		"commit", "read", "delay", "ttl", "failure_percent", "by_delivery", "name", "reference", "source", "deferred_pct",
		"mode", "names", "open", "host", "preference", "shared_hosts", "order",
		"class", "tenant", "flow", "tenants", "flows", "without", "at", "site", "day")
	for _, name := range names {
		if !strings.Contains(string(text), "`"+name+"`") && !strings.Contains(string(text), name+" = ") && !strings.Contains(string(text), "."+name+"]]") {
			t.Errorf("docs/simulation.md does not name %s", name)
		}
	}
	for _, name := range Shipped() {
		if !strings.Contains(string(text), "`"+name+"`") {
			t.Errorf("docs/simulation.md does not name the scenario %s", name)
		}
	}
}
