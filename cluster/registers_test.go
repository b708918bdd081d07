package cluster

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/posthaste-mta/posthaste/mail"
)

// The naive twin keeps everything that it ever heard, and looks through all of it.
func TestRegistersTwin(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		type message struct {
			Register
			at mail.Instant
		}
		var heard []message
		table, now := NewRegisters(1000), mail.Instant(1)
		for range rapid.IntRange(1, 40).Draw(t, "messages") {
			now = now.Add(time.Duration(rapid.IntRange(0, 3).Draw(t, "pause")) * time.Second)
			r := Register{
				Node:    rapid.SampledFrom([]string{"a", "b"}).Draw(t, "node"),
				Topic:   rapid.SampledFrom([]string{"x", "y"}).Draw(t, "topic"),
				TTL:     time.Duration(rapid.IntRange(1, 4).Draw(t, "ttl")) * time.Second,
				Version: Version{1, rapid.Uint64Range(1, 10).Draw(t, "sequence")},
			}
			// The latest that is in force counts, and an expired one is as if it had
			// never been.
			var current *message
			for i := range heard {
				m := &heard[i]
				if m.Node == r.Node && m.Topic == r.Topic {
					current = m
				}
			}
			news := current == nil || now >= current.at.Add(current.TTL) || r.Version.After(current.Version)
			if table.Hear(r, now) != news {
				t.Fatalf("%+v is news: %v", r, !news)
			}
			if news {
				heard = append(heard, message{r, now})
			}
			if rapid.Bool().Draw(t, "expire") {
				table.Expire(now)
			}
			for _, topic := range []string{"x", "y"} {
				var want []Register
				for _, node := range []string{"a", "b"} {
					i := -1
					for j, m := range heard {
						if m.Node == node && m.Topic == topic {
							i = j
						}
					}
					if i >= 0 && now < heard[i].at.Add(heard[i].TTL) {
						want = append(want, heard[i].Register)
					}
				}
				if got := table.Of(topic, now); !slices.EqualFunc(got, want, same) {
					t.Fatalf("of %s: %+v, want %+v", topic, got, want)
				}
			}
		}
	})
}

// A node that was started again begins with small numbers, but counts at once.
func TestRegistersOfARestartedNode(t *testing.T) {
	table := NewRegisters(10)
	old := Register{Node: "a", Topic: "x", TTL: time.Minute, Version: Version{5, 100}}
	table.Hear(old, 1)
	if !table.Hear(Register{Node: "a", Topic: "x", TTL: time.Minute, Version: Version{6, 1}}, 2) {
		t.Error("the restarted node is not heard")
	}
	if table.Hear(old, 3) {
		t.Error("a late register of before counts again")
	}
}

// A node that publishes a million topics costs others no more memory than the limit, and
// what has expired makes room.
func TestRegistersAreBounded(t *testing.T) {
	table := NewRegisters(3)
	for i := range 10 {
		r := Register{Node: "a", Topic: fmt.Sprint(i), TTL: time.Second, Version: Version{1, 1}}
		if took := table.Hear(r, 1); took != (i < 3) {
			t.Errorf("register %d was taken: %v", i, took)
		}
	}
	if next := table.Expire(2); next != mail.Instant(1).Add(time.Second) {
		t.Errorf("next expiry at %v", next)
	}
	late := mail.Instant(1).Add(time.Second)
	if !table.Hear(Register{Node: "a", Topic: "new", TTL: time.Second, Version: Version{1, 1}}, late) || table.Len() != 1 {
		t.Errorf("there is no room for one in place of three that have expired; %d are kept", table.Len())
	}
	if next := table.Expire(mail.Never); next != mail.Never || table.Len() != 0 {
		t.Errorf("%d are left, next expiry at %v", table.Len(), next)
	}
}

// A subscriber that does not read keeps the latest of each topic, up to a limit.
func TestPending(t *testing.T) {
	var p Pending
	for i := range GossipPending + 10 {
		for sequence := range uint64(3) {
			p.Push(Register{Topic: fmt.Sprint(i), Version: Version{1, sequence}})
		}
		p.Push(Register{Topic: fmt.Sprint(i), Version: Version{1, 1}}) // late
	}
	if p.Lost() != 10 {
		t.Errorf("%d were lost, want 10", p.Lost())
	}
	for i := 10; i < GossipPending+10; i++ {
		if r, ok := p.Pop(); !ok || r.Topic != fmt.Sprint(i) || r.Version.Sequence != 2 {
			t.Fatalf("%+v, %v; want the latest of %d", r, ok, i)
		}
	}
	if _, ok := p.Pop(); ok {
		t.Error("more than was pushed")
	}
}
