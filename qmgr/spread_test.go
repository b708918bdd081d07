package qmgr

import (
	"testing"
	"time"

	"github.com/posthaste-mta/posthaste/qmgr/rate"
)

// The pause after a start has a timer, and ends with it, or when a slot has come free for which there is no credit.
func TestPauseHasTimer(t *testing.T) {
	q, err := New(Config{}, 1)
	if err != nil {
		t.Fatal(err)
	}
	q.now = 1e18
	d := newQueue(q.transport("smtp"), identity{name: "a.test", nexthop: "a.test"})
	d.spreading.Ended(80*time.Millisecond, 5)
	d.Busy = 4
	if q.spread(d); d.spreading.Pausing() {
		t.Error("there is a pause, and nothing waits for its end")
	}
	d.Waiting = 1
	if q.spread(d); !d.spreading.Pausing() || d.spreading.pause.At() != q.now.Add(10*time.Millisecond) {
		t.Fatalf("%+v", d.spreading)
	}
	for n := 0; d.spreading.Pausing(); n++ { // each costs what is left of the pause
		if n > 20 {
			t.Fatal("slots wait without end")
		}
		q.spare(d)
	}
	if d.spreading.pause.Running() {
		t.Error("the timer of a pause that is over runs")
	}
	before := d.spreading
	if q.spare(d); before != d.spreading {
		t.Error("a delivery that ends without a pause costs something")
	}
	q.spread(d)
	q.runTimers()
	d.spreading.Ended(80*time.Millisecond, 50) // there is credit again
	q.spread(d)
	q.now = q.now.Add(time.Second)
	if q.runTimers(); d.spreading.Pausing() {
		t.Error("a pause goes on when its time is over")
	}
}

// Room that is there may still be scarce: starts of a destination are limited by time where it has a rate, or
// where starts are spread.
func TestPaced(t *testing.T) {
	d := &queue{}
	if d.Paced() {
		t.Error("a destination without limits is paced")
	}
	d.spreading.Ended(time.Second, 1)
	if !d.Paced() {
		t.Error("starts are spread")
	}
	limits, err := rate.Parse("1/1s")
	if err != nil {
		t.Fatal(err)
	}
	d = &queue{}
	d.rate.Configure(limits, 0)
	if !d.Paced() {
		t.Error("there is a rate")
	}
}
