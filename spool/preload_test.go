package spool

import (
	"fmt"
	"math/rand/v2"
	"testing"

	"github.com/cockroachdb/pebble/v2/vfs"

	"github.com/posthaste-mta/posthaste/mail"
)

// Operators order things of many messages at once, in whatever areas these are, some of them damaged, gone, or
// with long lists and contents in files. What is read for all of them in one go is the same as what is
// looked up for each: both leave the same spool. (TestModel compares the counts.)
func TestPreload(t *testing.T) {
	for _, op := range []mail.ChangeOp{mail.ChangeRemove, mail.ChangeHold, mail.ChangeRelease, mail.ChangeExpire} {
		for _, level := range []mail.CountLevel{mail.CountNothing, mail.CountFlows} {
			t.Run(fmt.Sprint(op, level), func(t *testing.T) {
				together := preloaded(t, op, level, 2)
				if single := preloaded(t, op, level, 1<<30); together != single {
					t.Errorf("together:\n%s\none by one:\n%s", together, single)
				}
			})
		}
	}
}

// preloaded makes a spool, changes two thirds of its messages in one batch, and returns what is left.
func preloaded(t *testing.T, op mail.ChangeOp, level mail.CountLevel, from int) string {
	cfg := small(vfs.NewMem())
	cfg.preloadMin, cfg.Counts = from, level
	s := open(t, cfg)
	dice := rand.New(rand.NewPCG(1, 2))
	var changes []mail.Change
	for i := range 90 {
		n, size := 1+i%3, 10
		if i%30 == 7 {
			n = 300
		}
		if i%10 == 3 {
			size = 9 << 10
		}
		a := accept(t, s, mail.Envelope{Sender: "bob@example.com", Flow: mail.Flow{Class: "normal", Tenant: "t", Flow: fmt.Sprint(i % 5)}}, addresses(n), text(size))
		id := a.Envelope.ID
		switch i % 6 {
		case 1, 2:
			apply(t, s, mail.Change{Op: mail.ChangeDefer, ID: id, Place: a.Place, Due: mail.Instant(9 + i), At: 1, Outcomes: []mail.Outcome{busy(0, 1)}})
		case 3:
			apply(t, s, mail.Change{Op: mail.ChangeHold, ID: id, Place: a.Place, Reason: "a test", Outcomes: []mail.Outcome{sent(uint32(n-1), 1)}})
		case 4:
			apply(t, s, mail.Change{Op: mail.ChangeCorrupt, ID: id, Place: a.Place, Reason: "a test"})
		case 5:
			apply(t, s, mail.Change{Op: mail.ChangeRemove, ID: id, Place: a.Place})
		}
		if i%3 < 2 || i%6 == 5 {
			changes = append(changes, mail.Change{Op: op, ID: id, At: 77, Due: 88, Reason: "an order"})
		}
		if i == 43 {
			damage(t, s, messageKey(keyState, id))
		}
		if i == 30 && level == mail.CountNothing { // counts would be in doubt
			damage(t, s, messageKey(keyEnvelope, id))
		}
	}
	dice.Shuffle(len(changes), func(i, j int) { changes[i], changes[j] = changes[j], changes[i] })
	changed, err := s.Apply(ctxTest, changes)
	if err != nil {
		t.Fatal(err)
	}
	var left string
	for _, area := range []mail.Area{mail.AreaIncoming, mail.AreaDeferred, mail.AreaHold, mail.AreaCorrupt} {
		list, _, _, err := s.List(ctxTest, area, mail.Cursor{}, 1000)
		if err != nil {
			t.Fatal(err)
		}
		for _, m := range list {
			left += fmt.Sprintf("%s %+v\n", area, m)
		}
	}
	return fmt.Sprintf("%+v\n%s", changed, left)
}
