package verify

import (
	"encoding/json"
	"fmt"
	"slices"
)

// compareFacts compares what else a trace has recorded, after the replay.
func (o *oracle) compareFacts() error {
	if o.Covered != nil {
		o.preemptions = slices.DeleteFunc(o.preemptions, func(p recordedPreempted) bool { return p.Decision >= *o.Covered })
	}
	if err := compareList("preemptions", o.preemptions, o.Preemptions); err != nil {
		return err
	}
	if o.Reads != nil {
		if err := compareList("reads", o.reads, o.Reads); err != nil {
			return err
		}
	}
	if o.Allocations != nil {
		if err := compareList("transport_allocations", o.allocations, o.Allocations); err != nil {
			return err
		}
	}
	var suspended map[string][]string
	if o.Suspended != nil {
		if err := json.Unmarshal(o.Suspended, &suspended); err != nil {
			return fmt.Errorf("suspended: %w", err)
		}
	}
	// The order in which they were deferred is not recorded.
	for _, m := range o.Messages {
		if err := compareList("suspended "+m.ID, sortedCopy(o.suspended[m.ID]), sortedCopy(suspended[m.ID])); err != nil {
			return err
		}
	}
	return nil
}

func compareList[T comparable](what string, got, want []T) error {
	for i := range max(len(got), len(want)) {
		g, w := "nothing", "nothing"
		if i < len(got) {
			g = fmt.Sprintf("%+v", got[i])
		}
		if i < len(want) {
			w = fmt.Sprintf("%+v", want[i])
		}
		if i >= len(got) || i >= len(want) || got[i] != want[i] {
			return &Difference{Where: fmt.Sprintf("%s[%d]", what, i), Got: g, Want: w}
		}
	}
	return nil
}
