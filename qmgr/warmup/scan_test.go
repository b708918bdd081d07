package warmup

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/posthaste-mta/posthaste/mail"
)

// A scan that has read anything is followed by a pause of four times its length, and ten seconds at least. One that has
// found nothing is not.
func TestScansAreApart(t *testing.T) {
	const start = mail.Instant(1_750_000_000_000_000_000)
	for _, tc := range []struct {
		took, pause time.Duration
		read        bool
	}{
		{took: time.Second, read: true, pause: 10 * time.Second},
		{took: time.Minute, read: true, pause: 4 * time.Minute},
		{took: time.Minute},
	} {
		var s Scan
		if s.WakeAt() != mail.Never {
			t.Fatal("a scan begins that is not wanted")
		}
		s.Want(Key{})
		if due := s.Begin(start); due != DayOf(start).End() {
			t.Errorf("it is for mail due at %v", due)
		}
		s.Want(Key{})
		if s.WakeAt() != mail.Never {
			t.Error("a second scan may begin while the first is under way")
		}
		if tc.read {
			s.Read()
		}
		ended := start.Add(tc.took)
		s.End(ended)
		want := ended.Add(tc.pause)
		if tc.pause == 0 {
			want = 0
		}
		if got := s.WakeAt(); got != want {
			t.Errorf("%+v: the next may begin at %v, want %v", tc, got, want)
		}
	}
}

// A scan is for the sites whose allowances were raised, while these are few; else it is for all.
func TestScanOfRaisedSites(t *testing.T) {
	site := func(i int) Key { return Key{Source: "s", Site: fmt.Sprint(i)} }
	begin := func(wanted ...Key) []Key {
		var s Scan
		for _, k := range wanted {
			s.Want(k)
		}
		s.Begin(0)
		_, of := s.UnderWay()
		return of
	}
	if of := begin(site(1), site(2), site(1)); !slices.Equal(of, []Key{site(1), site(2)}) {
		t.Errorf("two sites: %v", of)
	}
	if of := begin(site(1), Key{Source: "s"}, site(2)); of != nil {
		t.Errorf("a whole source: %v", of)
	}
	var many []Key
	for i := range raisedMost + 1 {
		many = append(many, site(i))
	}
	if of := begin(many[:raisedMost]...); len(of) != raisedMost {
		t.Errorf("%d sites", len(of))
	}
	if of := begin(many...); of != nil {
		t.Errorf("more than %d sites: %v", raisedMost, of)
	}
}
