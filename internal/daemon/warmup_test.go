package daemon

import (
	"fmt"
	"testing"
	"time"

	"github.com/posthaste-mta/posthaste/internal/sink"
	"github.com/posthaste-mta/posthaste/mail"
	"github.com/posthaste-mta/posthaste/qmgr/warmup"
)

// A new address may send five messages a day to a receiver. It sends three of the first six,
// since messages take turns. The program is restarted, knows that, and sends two more;
// all others come from the known address. An order that allows more is kept over another restart,
// and so is what was counted.
func TestWarmup(t *testing.T) {
	t.Parallel()
	twoSources(t) // skips the test without the addresses
	box := receive(t, sink.Config{})
	table := fmt.Sprintf("[source.new]\naddress = %q\nwarmup = \"tiny\"\n[source.old]\naddress = %q\n[pool.main]\nsources = [\"new\", \"old\"]\n"+
		"[warmup.tiny]\nallowances = [5, 1000]\nidle_days = 300\n", sourceA, sourceB) + routes("d.test", box.address)
	dir := t.TempDir()
	now := func() warmup.Day { return warmup.DayOf(mail.Instant(time.Now().UnixNano())) }
	began := now()
	from := func(fresh, known int) {
		t.Helper()
		if now() != began {
			t.Skip("another day has begun, with an allowance of its own")
		}
		n, o := 0, 0
		for _, d := range box.deliveries() {
			if d.Client.Addr == sourceA {
				n++
			} else {
				o++
			}
		}
		if n != fresh || o != known {
			t.Errorf("%d messages come from the new address and %d from the old one, want %d and %d", n, o, fresh, known)
		}
	}
	today := func(r *rig) int {
		list, err := r.d.driver.Sources(t.Context(), 5)
		if err != nil || len(list) != 2 || list[0].Warmup == nil || list[1].Warmup != nil {
			t.Fatalf("%v, %v", list, err)
		}
		return list[0].Warmup.Taken
	}
	letters, want := bulk(70, "u@d.test")

	r := start(t, dir, table)
	r.feed(letters[:6]...)
	r.settled()
	from(3, 3)
	r.end()

	r = start(t, dir, table)
	r.until("the counts of the last run", func() bool { return today(r) == 3 })
	r.feed(letters[6:30]...)
	r.settled()
	from(5, 25)
	r.d.driver.AdjustWarmup(warmup.Order{Key: warmup.Key{Source: "new"}, Kind: warmup.SetDay, Day: 2})
	r.d.driver.AdjustWarmup(warmup.Order{Key: warmup.Key{Source: "new"}, Kind: warmup.Pause})
	r.end()

	r = start(t, dir, table)
	r.until("the counts of the last run", func() bool { return today(r) == 5 })
	r.feed(letters[30:]...)
	r.settled()
	from(25, 45)
	box.copies().matches(t, want)
}
