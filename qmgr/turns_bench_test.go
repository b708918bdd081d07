package qmgr_test

import (
	"fmt"
	"testing"

	"github.com/posthaste-mta/posthaste/mail"
	"github.com/posthaste-mta/posthaste/qmgr"
)

// crowd returns a core in which one message has an entry for each of n
// destinations, of which only the last two have room: the others are busy with
// another message.
func crowd(b *testing.B, makeCore func(qmgr.Config, uint64) (*qmgr.Qmgr, error), n int, scheduler qmgr.Scheduler) *backlog {
	cfg := qmgr.TransportConfig{Scheduler: scheduler, RecipientPool: never}
	cfg.Window.Initial, cfg.Window.Limit = 1, 1
	h := newBacklog(b, makeCore, cfg)
	h.rcpts = nil
	for i := range n {
		h.rcpts = append(h.rcpts, mail.Recipient{Index: uint32(i), Address: "u@a.test"})
	}
	h.to[1], h.to[2] = distinct, distinct
	h.arrive(distinct, n)
	var busy []qmgr.Deliver
	for range n {
		busy = append(busy, h.pick(b))
	}
	h.endless[1] = true // no other one follows it
	h.arrive(distinct, n)
	for _, d := range busy[n-2:] {
		h.finish(d)
	}
	return h
}

// BenchmarkTurn is one decision which of a message's destinations is next in turn,
// when nearly all of them have no room.
func BenchmarkTurn(b *testing.B) {
	for _, scheduler := range []qmgr.Scheduler{qmgr.Preemptive, qmgr.RoundRobin} {
		for _, n := range jobCounts {
			for _, core := range cores {
				b.Run(fmt.Sprintf("%v/destinations=%d/%s", scheduler, n, core.name), func(b *testing.B) {
					h := crowd(b, core.make, n, scheduler)
					b.ReportAllocs()
					b.ResetTimer()
					for b.Loop() {
						if h.core.Decide("smtp", false) != 2 {
							b.Fatal("the wrong message is selected")
						}
					}
				})
			}
		}
	}
}

// BenchmarkRelist puts a job back between others, half of which are older.
func BenchmarkRelist(b *testing.B) {
	for _, n := range jobCounts {
		for _, core := range cores {
			b.Run(fmt.Sprintf("jobs=%d/%s", n, core.name), func(b *testing.B) {
				h := newBacklog(b, core.make, roomy())
				for range n {
					h.now++
					h.arrive("a.test", 1)
				}
				b.ReportAllocs()
				b.ResetTimer()
				for b.Loop() {
					h.core.Relist("smtp", mail.QueueID(n/2))
				}
			})
		}
	}
}

// BenchmarkNextUnread finds who gets the free slots when a message is read to its
// end: the last of many behind it.
func BenchmarkNextUnread(b *testing.B) {
	for _, n := range jobCounts {
		for _, core := range cores {
			b.Run(fmt.Sprintf("jobs=%d/%s", n, core.name), func(b *testing.B) {
				h := newBacklog(b, core.make, roomy())
				h.arrive("a.test", never)
				for range n {
					h.arrive("a.test", 1)
				}
				h.arrive("a.test", never)
				b.ReportAllocs()
				b.ResetTimer()
				for b.Loop() {
					if h.core.PassOnSlots("smtp") != h.last {
						b.Fatal("the wrong message gets the slots")
					}
				}
			})
		}
	}
}
