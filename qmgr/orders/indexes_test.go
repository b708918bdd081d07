package orders

import (
	"slices"
	"testing"

	"github.com/posthaste-mta/posthaste/mail"
)

// Recipients of several orders are sorted, and each is named once.
func TestIndexes(t *testing.T) {
	s := Settling{Reroutes: []mail.Reroute{{Recipients: []uint32{9, 2}}, {Recipients: []uint32{5, 2}}}}
	if got := s.Rerouted(); !slices.Equal(got, Indexes{2, 5, 9}) {
		t.Errorf("%v", got)
	}
	if got := (Indexes{3, 7}).With(Indexes{1, 7}); !slices.Equal(got, Indexes{1, 3, 7}) || !got.Has(3) || got.Has(2) {
		t.Errorf("%v", got)
	}
	if got := Indexes(nil).With(nil); got != nil {
		t.Errorf("nobody is %v", got)
	}
}
