package spool

import (
	"testing"

	"github.com/cockroachdb/pebble/v2/vfs"

	"github.com/posthaste-mta/posthaste/mail"
)

// A filter wants a message to be looked at before it is sent. It is in the hold area from the
// first moment, with the reason, however its content and its recipients are stored, also after
// a crash; it was never anywhere else, and an operator can release it.
func TestHeldFromTheBeginning(t *testing.T) {
	for _, c := range []struct {
		name        string
		rcpts, size int
	}{
		{"small", 1, 1000},
		{"content in a file", 1, 50_000},
		{"recipients written ahead", 5000, 1000},
	} {
		t.Run(c.name, func(t *testing.T) {
			mem := vfs.NewCrashableMem()
			s := mustOpen(t, small(mem))
			body := text(c.size)
			d := draft(t, s, addresses(c.rcpts), body)
			d.Hold("it looks odd")
			if err := d.Commit(ctxTest, mail.Envelope{Sender: "bob@example.com", Flow: testFlow(1)}); err != nil {
				t.Fatal(err)
			}
			if a := d.Arrival(); a.Place.Area != mail.AreaHold || !a.Place.Touched {
				t.Errorf("arrived at %+v", a.Place)
			}
			after := mustOpen(t, small(mem.CrashClone(vfs.CrashCloneCfg{})))
			defer mustClose(t, after)
			mustClose(t, s)
			sum, err := after.Lookup(ctxTest, d.ID())
			if err != nil || sum.Place.Area != mail.AreaHold || sum.Reason != "it looks odd" || sum.Envelope.Recipients != uint32(c.rcpts) {
				t.Fatalf("%+v, %v", sum, err)
			}
			for area, want := range map[mail.Area]int{mail.AreaIncoming: 0, mail.AreaHold: 1} {
				found, err := after.Find(ctxTest, area, mail.Cursor{}, 10)
				if err != nil || len(found.Cursors) != want {
					t.Errorf("%s: %v, %v", area, found.Cursors, err)
				}
			}
			if got, err := contentOf(after, d.ID()); err != nil || string(got) != string(body) {
				t.Errorf("content of %d bytes, %v", len(got), err)
			}
			apply(t, after, mail.Change{Op: mail.ChangeRelease, ID: d.ID(), Due: 7})
			if sum, err := after.Lookup(ctxTest, d.ID()); err != nil || sum.Place.Area != mail.AreaDeferred || sum.Reason != "" {
				t.Errorf("after the release: %+v, %v", sum, err)
			}
		})
	}
}
