package driver_test

import (
	"testing"
	"time"

	"github.com/posthaste-mta/posthaste/mail"
	"github.com/posthaste-mta/posthaste/qmgr"
)

// An operator asks about a host long after its mail has gone: what is remembered of it
// is returned if it can be found without a lookup, and for other hosts nothing.
func TestRememberedHost(t *testing.T) {
	x := newTown([]string{"mx1"})
	view(t, x, nil, transport(qmgr.TransportConfig{}), func(v *viewing) {
		v.arrive(1, mail.Address("a@a.test"))
		v.pass(time.Hour)
		got, held, err := v.d.Destination(v.Context(), "smtp", "[192.0.2.1]:25", 10)
		if err != nil || !held || !got.Remembered || len(got.Hosts) != 1 || got.Hosts[0].Host.Addr.String() != "192.0.2.1:25" || got.Queue.Nexthop != "[192.0.2.1]:25" {
			t.Errorf("%+v %v %v", got, held, err)
		}
		for _, nexthop := range []string{"[192.0.2.2]:25", "192.0.2.1", "b.test"} {
			if _, held, err := v.d.Destination(v.Context(), "smtp", nexthop, 10); held || err != nil {
				t.Errorf("%s is held, %v", nexthop, err)
			}
		}
	})
}
