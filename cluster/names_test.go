package cluster

import (
	"errors"
	"testing"
	"time"
)

func TestMatches(t *testing.T) {
	for _, c := range []struct {
		pattern, key string
		want         bool
	}{
		{"", "a", true}, {"", "a.b", true},
		{"a", "a", true}, {"a", "a.b", false}, {"a", "ab", false},
		{"a.", "a.b", true}, {"a.", "a.b.c", true}, {"a.", "a", false}, {"a.", "ab.c", false},
	} {
		if got := Matches(c.pattern, c.key); got != c.want {
			t.Errorf("%q matches %q: %v", c.pattern, c.key, got)
		}
	}
}

// A bucket is checked before anything is asked of a store, since stores differ in what
// they refuse.
func TestBucketValidate(t *testing.T) {
	for _, b := range []Bucket{
		{}, {Name: "a.b"}, {Name: "a", ValueMax: -1}, {Name: "a", ValueMax: ValueMax + 1},
		{Name: "a", BytesMax: 1}, {Name: "a", MarkerTTL: time.Millisecond}, {Name: "a", MarkerTTL: TTLMax + 1},
	} {
		if err := b.Validate(); !errors.Is(err, ErrInvalid) {
			t.Errorf("%+v: %v", b, err)
		}
	}
	if err := (Bucket{Name: "facts-2"}).Validate(); err != nil {
		t.Error(err)
	}
}
