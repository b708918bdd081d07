package sim

import (
	"strings"
	"testing"
)

// A run that delivers nothing has no delay, which is not a delay of nothing; and mail
// that came twice must not hide in the JSON.
func TestTableOfBadRuns(t *testing.T) {
	var empty Histogram
	bad := RunReport{Name: "bad", Recipients: 3, Unknown: 4, Duplicates: 2, DelayMS: map[string]Quantiles{"all": quantiles(&empty)}}
	fine := RunReport{Name: "fine", Recipients: 3, Delivered: 3, DelayMS: map[string]Quantiles{"all": {P50: 1500, P90: 1500, P99: 1500, Max: 1500}}}
	for _, c := range []struct {
		runs       []RunReport
		want, lack []string
	}{
		{[]RunReport{bad, fine}, []string{"delivered twice", "1500.0ms"}, []string{" 0.0ms"}},
		{[]RunReport{fine}, []string{"1500.0ms"}, []string{"delivered twice", "-"}},
	} {
		r := Report{Scenario: "s", Seeds: 2, Runs: c.runs}
		var b strings.Builder
		if err := r.WriteTable(&b); err != nil {
			t.Fatal(err)
		}
		for _, want := range c.want {
			if !strings.Contains(b.String(), want) {
				t.Errorf("no %q in\n%s", want, b.String())
			}
		}
		for _, lack := range c.lack {
			if strings.Contains(b.String(), lack) {
				t.Errorf("%q in\n%s", lack, b.String())
			}
		}
		if len(c.runs) > 1 && !strings.Contains(strings.Join(strings.Fields(b.String()), " "), "bad 2 1") {
			t.Errorf("the means of 2 seeds are missing in\n%s", b.String())
		}
	}
}
