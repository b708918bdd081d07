package replay

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"

	"github.com/posthaste-mta/posthaste/trace"
)

// A Divergence is where two traces part.
type Divergence struct {
	Heads  []string // what differs in the heads, in words
	A, B   *Place   // the first lines that differ; both nil if there are none
	Before []string // the lines before, which both have
}

// A Place is a line of a trace.
type Place struct {
	Line int
	Text string // "" behind the last line
}

// Diff compares two traces, line by line; instants count from each one's epoch.
// It returns nil if they are equal.
func Diff(a, b *trace.Reader) (*Divergence, error) {
	d := &Divergence{Heads: diffHeads(a.Head(), b.Head())}
	var before window
	for line := 0; ; line++ {
		x, errX := next(a)
		y, errY := next(b)
		if err := errors.Join(errX, errY); err != nil {
			return nil, err
		}
		if x.Text != y.Text {
			d.A, d.B, d.Before = x, y, before.lines()
			return d, nil
		}
		if x.Text == "" {
			break
		}
		before.add(x.Text)
	}
	if len(d.Heads) == 0 {
		return nil, nil
	}
	return d, nil
}

// next returns the next line of a trace.
func next(r *trace.Reader) (*Place, error) {
	record, err := r.Next()
	if errors.Is(err, io.EOF) {
		return &Place{}, nil
	}
	return &Place{record.Number, record.Text}, err
}

// diffHeads returns the differences besides the program and the epoch, which do not
// affect what a core does.
func diffHeads(a, b trace.Head) []string {
	var out []string
	if a.Seed != b.Seed {
		out = append(out, fmt.Sprintf("seed: %d, and %d", a.Seed, b.Seed))
	}
	x, y := parameters(a), parameters(b)
	names := maps.Clone(x)
	maps.Copy(names, y)
	for _, name := range slices.Sorted(maps.Keys(names)) {
		if x[name] != y[name] {
			out = append(out, fmt.Sprintf("%s: %s, and %s", name, cmp.Or(x[name], "unset"), cmp.Or(y[name], "unset")))
		}
	}
	return out
}

// parameters returns what a configuration sets, by the names that a trace has
// for it.
func parameters(h trace.Head) map[string]string {
	var fields map[string]any
	if err := json.Unmarshal(h.ConfigFields(), &fields); err != nil {
		panic(err) // package trace writes JSON
	}
	out := make(map[string]string)
	transports, _ := fields["transports"].([]any)
	delete(fields, "transports")
	for _, t := range transports {
		one := t.(map[string]any)
		name := fmt.Sprint(one["transport"])
		for key, value := range one {
			out["transport "+name+" "+key] = fmt.Sprint(value)
		}
	}
	for key, value := range fields {
		out[key] = fmt.Sprint(value)
	}
	return out
}
