package main

import (
	"strings"
	"testing"
	"time"

	"github.com/posthaste-mta/posthaste/internal/feed"
	"github.com/posthaste-mta/posthaste/internal/sink"
	"github.com/posthaste-mta/posthaste/mail"
)

// A judge that finds nothing may be blind: each of these stories has one thing
// wrong with it, or nothing.
func TestLedger(t *testing.T) {
	start := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	at := func(ms int) time.Time { return start.Add(time.Duration(ms) * time.Millisecond) }
	deliverOn := func(l *ledger, connection uint64, ms int, recipients ...int) {
		d := sink.Delivery{At: at(ms), Connection: connection, Key: key(1).messageID(), EnvID: "k1", BodySum: 7}
		for _, i := range recipients {
			d.Recipients = append(d.Recipients, key(1).recipient(i))
		}
		l.delivered(d)
	}
	deliver := func(l *ledger, ms int, recipients ...int) { deliverOn(l, 1, ms, recipients...) }
	killed := func(l *ledger, ms int) { l.killed(kill{at(ms), [2]uint64{1, 1}}) }
	report := func(l *ledger, ms int, key2 string, i int) {
		l.reported(key(1).recipient(i), sink.Delivery{At: at(ms), Connection: 1, Key: key2})
	}
	result := func(l *ledger, fate feed.Fate) { l.result(1, feed.Result{Fate: fate, Accepted: []int{0, 1}}) }
	for _, test := range []struct {
		name  string
		story func(l *ledger)
		want  string // in the complaint; "" for none
	}{
		{"delivered", func(l *ledger) { result(l, feed.Accepted); deliver(l, 1, 0, 1) }, ""},
		{"delivered before the client knew", func(l *ledger) { deliver(l, 1, 0, 1); result(l, feed.Accepted) }, ""},
		{"delivered and reported", func(l *ledger) {
			result(l, feed.Accepted)
			deliver(l, 1, 0)
			report(l, 2, "r", 1)
		}, ""},
		{"lost", func(l *ledger) { result(l, feed.Accepted); deliver(l, 1, 1) }, "1 of 2 recipients are lost"},
		{"refused", func(l *ledger) { result(l, feed.Refused) }, ""},
		{"refused and delivered", func(l *ledger) { result(l, feed.Refused); deliver(l, 1, 0, 1) }, "was refused, and delivered"},
		{"broken off and delivered", func(l *ledger) { deliver(l, 1, 0); result(l, feed.Unsent) }, "was unsent, and delivered"},
		{"unknown", func(l *ledger) { result(l, feed.Unknown) }, ""},
		{"unknown and taken", func(l *ledger) { result(l, feed.Unknown); deliver(l, 1, 0, 1) }, ""},
		{"unknown and taken by halves", func(l *ledger) { result(l, feed.Unknown); deliver(l, 1, 0) }, "taken by halves"},
		{"RCPT refused and delivered", func(l *ledger) {
			l.result(1, feed.Result{Fate: feed.Accepted, Accepted: []int{1}})
			deliver(l, 1, 0, 1)
		}, "although the RCPT was refused"},
		{"twice", func(l *ledger) { result(l, feed.Accepted); deliver(l, 1, 0, 1); deliver(l, 500, 0) }, "without a kill"},
		{"twice, kill in between", func(l *ledger) {
			result(l, feed.Accepted)
			deliver(l, 1, 0, 1)
			killed(l, 100)
			deliver(l, 500, 0, 1)
		}, ""},
		{"twice, kill too late", func(l *ledger) {
			result(l, feed.Accepted)
			deliver(l, 1, 0, 1)
			killed(l, 102)
			deliver(l, 500, 0)
		}, "without a kill"},
		{"twice, kill behind both", func(l *ledger) {
			result(l, feed.Accepted)
			deliver(l, 1, 0, 1)
			deliver(l, 50, 0)
			killed(l, 60)
		}, "without a kill"},
		{"twice, first for a dead daemon", func(l *ledger) {
			result(l, feed.Accepted)
			killed(l, 1)
			deliverOn(l, 1, 300, 0, 1)
			deliverOn(l, 2, 500, 0)
		}, ""},
		{"twice, first for the daemon behind the kill", func(l *ledger) {
			result(l, feed.Accepted)
			killed(l, 1)
			deliverOn(l, 2, 2, 0, 1)
			deliverOn(l, 2, 500, 0)
		}, "without a kill"},
		{"reported twice", func(l *ledger) {
			result(l, feed.Accepted)
			deliver(l, 1, 0)
			report(l, 2, "r", 1)
			report(l, 3, "r", 1)
		}, "without a kill"},
		{"reported twice, kill in between", func(l *ledger) {
			result(l, feed.Accepted)
			deliver(l, 1, 0)
			report(l, 2, "r", 1)
			killed(l, 3)
			report(l, 4, "r", 1)
		}, ""},
		{"two reports, kill in between", func(l *ledger) {
			result(l, feed.Accepted)
			deliver(l, 1, 0)
			report(l, 2, "r", 1)
			killed(l, 3)
			report(l, 4, "s", 1)
		}, "two reports"},
		{"twice, reply lost", func(l *ledger) {
			result(l, feed.Accepted)
			l.delivered(sink.Delivery{At: at(1), Key: key(1).messageID(), EnvID: "k1", BodySum: 7, Reply: sink.ReplyLost,
				Recipients: []mail.Address{key(1).recipient(0)}})
			deliver(l, 500, 0, 1)
		}, ""},
		{"delivered, then reported", func(l *ledger) {
			result(l, feed.Accepted)
			deliver(l, 1, 0, 1)
			report(l, 2, "r", 1)
		}, "who got the message"},
		{"reported, then delivered", func(l *ledger) {
			result(l, feed.Accepted)
			report(l, 2, "r", 1)
			deliver(l, 3, 0, 1)
		}, "after its failure was reported"},
		{"damaged", func(l *ledger) {
			result(l, feed.Accepted)
			l.delivered(sink.Delivery{Key: key(1).messageID(), EnvID: "k1", Recipients: []mail.Address{key(1).recipient(0), key(1).recipient(1)}})
		}, "another content"},
		{"another envelope", func(l *ledger) {
			result(l, feed.Accepted)
			l.delivered(sink.Delivery{Key: key(1).messageID(), EnvID: "k1", BodySum: 7, Recipients: []mail.Address{key(2).recipient(0)}})
			deliver(l, 1, 0, 1)
		}, "not its recipient"},
		{"out of nowhere", func(l *ledger) { result(l, feed.Refused); l.delivered(sink.Delivery{Key: key(9).messageID()}) }, "never submitted"},
		{"reported out of nowhere", func(l *ledger) { result(l, feed.Refused); l.reported("x@d1.test", sink.Delivery{}) }, "never sent to"},
		{"forgotten by its client", func(*ledger) {}, "never told"},
	} {
		t.Run(test.name, func(t *testing.T) {
			l := newLedger(100 * time.Millisecond)
			l.handIn(1, 2, 7)
			test.story(l)
			figures, wrong := l.balance()
			if test.want == "" && figures.wrong != 0 || test.want != "" && (figures.wrong != 1 || !strings.Contains(wrong[0], test.want)) {
				t.Errorf("complaints %q, want %q", wrong, test.want)
			}
			if test.want == "" && l.waiting() != 0 {
				t.Errorf("%d recipients are said to wait", l.waiting())
			}
		})
	}
}
