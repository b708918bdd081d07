package metrics

import (
	"fmt"
	"maps"
	"os"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	dto "github.com/prometheus/client_model/go"

	"github.com/posthaste-mta/posthaste/internal/histogram"
)

const factsFile = "testdata/facts.txt"

// Of what has no metric the indexes do not matter, nor what views for people have besides.
var (
	indexes = regexp.MustCompile(`\[\d+\]`)
	viewed  = regexp.MustCompile(`\.(Reason|WaitReason|Mixed|Callouts)\b|^Core\.(Now|Halted)$|^Now$`)
)

// Each number that the daemon counts reaches the time series that it should, and no other: testdata/facts.txt has a
// line for each with what changes in a scrape if that number alone changes. UPDATE=1 writes the file; read the
// difference, since a wrong label looks like a right one. Numbers without a metric are listed, too, so that somebody
// decides about each new one.
//
// Seen failing: of the first ten changes to families.go that had one metric show something else, the tests before
// this one noticed one.
func TestEachFact(t *testing.T) {
	base := flat(t, everything())
	var lines, without []string
	// The fields are visited in a copy of the same contents each time, one of which is changed.
	for n := 0; ; n++ {
		f := everything()
		name, ok := disturb(reflect.ValueOf(&f).Elem(), "", &turn{want: n})
		if !ok {
			break
		}
		var changes []string
		now := flat(t, f)
		for _, series := range slices.Sorted(maps.Keys(now)) {
			if was := base[series]; was != now[series] {
				changes = append(changes, fmt.Sprintf("    %s %v → %v", series, was, now[series]))
			}
		}
		if len(changes) == 0 {
			if name = indexes.ReplaceAllString(name, "[*]"); !slices.Contains(without, name) && !viewed.MatchString(name) {
				without = append(without, name)
			}
			continue
		}
		lines = append(lines, name+"\n"+strings.Join(changes, "\n"))
	}
	got := strings.Join(lines, "\n") + "\n\n# without a metric:\n" + strings.Join(without, "\n") + "\n"
	if os.Getenv("UPDATE") == "1" {
		if err := os.WriteFile(factsFile, []byte(got), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(factsFile)
	if err != nil {
		t.Fatal(err)
	}
	a, b := strings.Split(got, "\n"), strings.Split(string(want), "\n")
	for i := range max(len(a), len(b)) {
		if i >= len(a) || i >= len(b) || a[i] != b[i] {
			t.Fatalf("line %d of %s differs (UPDATE=1 writes it):\ngot  %s\nwant %s", i+1, factsFile, strings.Join(a[min(i, len(a)):min(i+5, len(a))], "\n     "), strings.Join(b[min(i, len(b)):min(i+5, len(b))], "\n     "))
		}
	}
}

// everything is a daemon in which whatever is listed is there once.
func everything() Facts {
	f := whole()
	f.Driver.First[0].Times = histogram.Values{}
	all := &f.Core.Transports[0].All
	all.Busy, all.Ready, all.Connecting = 3, 3, 3
	f.Outbound.Transactions, f.Outbound.Connects, f.Resolve.Lookups = 5, 5, 5
	return f
}

// flat returns the values of all time series; of a histogram those of its sum and its count, of which only the sum
// differs in what is disturbed.
func flat(t *testing.T, f Facts) map[string]float64 {
	t.Helper()
	all := make(map[string]float64)
	for name, family := range gather(t, f, 3) {
		for _, m := range family.Metric {
			series := strings.TrimPrefix(name, prefix) + labelsOf(m)
			switch {
			case m.Histogram != nil:
				all[series+" sum"] = m.Histogram.GetSampleSum()
			case m.Counter != nil:
				all[series] = m.Counter.GetValue()
			case name == prefix+"queue_oldest_age_seconds": // since 1970 where a fact is disturbed
				all[series] = min(m.Gauge.GetValue(), 1)
			default:
				all[series] = m.Gauge.GetValue()
			}
		}
	}
	return all
}

func labelsOf(m *dto.Metric) string {
	var all []string
	for _, pair := range m.Label {
		all = append(all, pair.GetName()+"="+pair.GetValue())
	}
	if len(all) == 0 {
		return ""
	}
	return "{" + strings.Join(all, ",") + "}"
}

// A turn counts the fields that disturb has passed.
type turn struct{ want, seen int }

// take reports whether it is this field's turn.
func (n *turn) take() bool { n.seen++; return n.seen-1 == n.want }

// disturb changes the number in v that n wants, by one, or a histogram's sum, and returns its name.
func disturb(v reflect.Value, name string, n *turn) (string, bool) {
	switch x := v.Addr().Interface().(type) {
	case *histogram.Values:
		if n.take() {
			x.Sum++
			return name, true
		}
		return "", false
	case *time.Time:
		if n.take() {
			*x = x.Add(time.Second)
			return name, true
		}
		return "", false
	}
	switch v.Kind() {
	case reflect.Struct:
		for i := range v.NumField() {
			if field := v.Type().Field(i); field.IsExported() {
				if found, ok := disturb(v.Field(i), strings.TrimPrefix(name+"."+field.Name, "."), n); ok {
					return found, true
				}
			}
		}
	case reflect.Array, reflect.Slice:
		for i := range v.Len() {
			if found, ok := disturb(v.Index(i), fmt.Sprintf("%s[%d]", name, i), n); ok {
				return found, true
			}
		}
	case reflect.Pointer:
		if !v.IsNil() {
			return disturb(v.Elem(), name, n)
		}
	case reflect.Bool:
		if n.take() {
			v.SetBool(!v.Bool())
			return name, true
		}
	case reflect.Int, reflect.Int8, reflect.Int16, reflect.Int32, reflect.Int64:
		if n.take() {
			v.SetInt(v.Int() + 1)
			return name, true
		}
	case reflect.Uint, reflect.Uint8, reflect.Uint16, reflect.Uint32, reflect.Uint64:
		if n.take() {
			v.SetUint(v.Uint() + 1)
			return name, true
		}
	case reflect.String:
		if name == "Unready" && n.take() {
			v.SetString("stopping")
			return name, true
		}
	}
	return "", false
}
