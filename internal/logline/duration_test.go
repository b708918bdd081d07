package logline

import (
	"math/rand/v2"
	"strconv"
	"testing"
	"time"
)

// AppendSeconds writes what strconv makes of the same duration, but in the middle between two numbers.
func TestAppendSeconds(t *testing.T) {
	twin := func(d time.Duration) string {
		s := d.Seconds()
		switch {
		case s >= 10:
			return strconv.FormatFloat(s, 'f', 0, 64)
		case s >= 0.01:
			return strconv.FormatFloat(s, 'g', 2, 64)
		}
		return strconv.FormatFloat(s, 'f', 4, 64)
	}
	r := rand.New(rand.NewPCG(1, 2))
	for limit := time.Duration(2); limit < 1<<56; limit *= 2 {
		for range 500 {
			d := time.Duration(r.Int64N(int64(limit)))
			for _, unit := range []time.Duration{100 * time.Microsecond, time.Millisecond, 10 * time.Millisecond, 100 * time.Millisecond, time.Second} {
				if d%unit == unit/2 {
					d++
				}
			}
			if got, want := string(AppendSeconds(nil, d)), twin(d); got != want {
				t.Fatalf("%d ns: %s, want %s", d, got, want)
			}
		}
	}
	for d, want := range map[time.Duration]string{
		0: "0.0000", 1: "0.0000", 50 * time.Microsecond: "0.0001", 9999 * time.Microsecond: "0.0100", 10 * time.Millisecond: "0.01",
		99600 * time.Microsecond: "0.1", 100 * time.Millisecond: "0.1", 996 * time.Millisecond: "1", time.Second: "1", 1040 * time.Millisecond: "1", 1050 * time.Millisecond: "1.1",
		9960 * time.Millisecond: "10", 10 * time.Second: "10", 19500 * time.Millisecond: "20", 20 * time.Second: "20", 100 * time.Hour: "360000", -1500 * time.Millisecond: "-1.5",
	} {
		if got := string(AppendSeconds([]byte("x"), d)); got != "x"+want {
			t.Errorf("%v: %s, want %s", d, got[1:], want)
		}
	}
}
