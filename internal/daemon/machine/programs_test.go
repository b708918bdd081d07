package machine

import (
	"log/slog"
	"strings"
	"testing"

	"github.com/posthaste-mta/posthaste/config"
)

// Programs take descriptors, too: where there are few, fewer programs run at once, in
// proportion to what each transport may have, and each has one.
func TestFitPrograms(t *testing.T) {
	cfg, err := config.Parse("test.toml", []byte(`
[transport.a]
type = "pipe"
command = ["/bin/cat"]
process_limit = 300
[transport.b]
type = "pipe"
command = ["/bin/cat"]
process_limit = 100
`), config.Environment{Hostname: "mta.test"})
	if err != nil {
		t.Fatal(err)
	}
	for _, limit := range []int{512, 4096, 1 << 20} {
		var log strings.Builder
		f, err := Limits{Descriptors: limit}.Fit(cfg, nil, 3, slog.New(slog.NewTextHandler(&log, nil)))
		if err != nil {
			t.Fatal(err)
		}
		a, b := f.Transports["a"].ProcessLimit, f.Transports["b"].ProcessLimit
		lowered := strings.Contains(log.String(), "process_limit of transports of type pipe")
		if (limit == 1<<20) == lowered || lowered == (a == 300 && b == 100) || b < 1 || a < 2*b || descriptorsOfProgram*(a+b) > limit/2 {
			t.Errorf("%d: %d and %d programs:\n%s", limit, a, b, log.String())
		}
		if cfg.Transports["a"].ProcessLimit != 300 {
			t.Fatal("the configuration itself was changed")
		}
	}
}
