package qmgr_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/posthaste-mta/posthaste/mail"
	"github.com/posthaste-mta/posthaste/qmgr"
	"github.com/posthaste-mta/posthaste/qmgr/measure"
)

var saidBlocked = mail.Reply{Code: 550, Status: mail.Status{Class: 5, Subject: 7, Detail: 1}, Text: "client [192.0.2.7] is blocked", By: "mx.a.test[192.0.2.1]"}

// blocked is a rule that suspends a receiver that refuses everything.
func blocked(sender string) *mail.Measure {
	return &mail.Measure{Rule: "blocked", Reply: saidBlocked, Times: 5, Within: 10 * time.Minute, InARow: true, Senders: 3, Refused: mail.Refused{Sender: sender}, Suspend: 4 * time.Hour}
}

// suspended reports whether the destination is.
func (m *measured) suspended() bool {
	return m.q.Suspension(measure.Destination, "smtp:a.test").Until != 0
}

// A receiver refuses all mail of ten thousand messages because of our address. It is asked a handful of times, and all
// mail waits; what would have been refused by then is as much as was under way. Four hours later it is asked again, and has
// changed its mind.
func TestBreaker(t *testing.T) {
	m := newMeasured(t)
	const messages = 10_000
	var offered []qmgr.Deliver
	asked, putOff := 0, 0
	answer := func() {
		for len(offered) > 0 {
			d := offered[0]
			offered = offered[1:]
			if d.Delivery.Transport == "smtp" {
				asked++
				m.answer(&d, blocked(fmt.Sprintf("c%d.test", asked%7)))
			} else {
				putOff++
				m.step(qmgr.Delivered{Entry: d.Entry, Result: mail.DeliveryResult{Outcomes: []mail.Outcome{{Result: mail.Deferred, Reply: d.Delivery.Said}}}})
			}
			offered = append(offered, m.deliver...)
		}
	}
	for range messages {
		if d := m.arrive(); d != nil {
			offered = append(offered, *d)
		}
		if m.n%50 == 0 {
			answer()
		}
	}
	answer()
	if !m.suspended() || asked < 5 || asked > 25 || putOff < messages-25 {
		t.Errorf("suspended: %t; asked %d times, put off %d", m.suspended(), asked, putOff)
	}
	m.later(4*time.Hour + time.Minute)
	if d := m.arrive(); m.suspended() || d == nil || d.Delivery.Transport != "smtp" {
		t.Errorf("after the block: %+v", d)
	}
}

// The mail of one customer is refused, and that of the others taken: that is no block, however much the customer sends, also
// while there is no other mail.
func TestOneSenderIsNoBlock(t *testing.T) {
	m := newMeasured(t)
	for range 20 {
		m.answer(m.arrive(), blocked("bad.test"))
	}
	if m.suspended() {
		t.Fatal("suspended because of one sender")
	}
	m.later(11 * time.Minute) // the count is over
	for i := range 40 {
		m.answer(m.arrive(), blocked(fmt.Sprintf("bad%d.test", i)))
		if i%4 == 3 {
			m.ok(m.arrive())
		}
	}
	if m.suspended() {
		t.Fatal("suspended although mail is taken in between")
	}
	for i := range 5 {
		if m.suspended() {
			t.Fatalf("suspended after %d in a row", i)
		}
		m.answer(m.arrive(), blocked(fmt.Sprintf("c%d.test", i%3)))
	}
	if !m.suspended() {
		t.Fatal("not suspended after five in a row, of three senders")
	}
}

// What is refused before there is a sender is about us, so it counts for all of them.
func TestBlockBeforeMail(t *testing.T) {
	m := newMeasured(t)
	for i := range 5 {
		if m.suspended() {
			t.Fatalf("suspended after %d", i)
		}
		sender := "bad.test"
		if i == 2 {
			sender = ""
		}
		m.answer(m.arrive(), blocked(sender))
	}
	if !m.suspended() {
		t.Error("not suspended")
	}
}

// A rule without in_a_row counts on although mail is taken.
func TestCountGoesOn(t *testing.T) {
	m := newMeasured(t)
	for range 5 {
		one := blocked("")
		one.InARow = false
		m.answer(m.arrive(), one)
		m.ok(m.arriveFor("a.test"))
		if m.suspended() {
			return
		}
	}
	t.Error("not suspended")
}

// A domain is suspended by a rule. What was under way and is refused later neither lengthens that nor counts towards the next
// suspension, and each is counted once.
func TestDomainSuspendedOnce(t *testing.T) {
	m := newMeasured(t)
	one := &mail.Measure{Rule: "blocked", Reply: saidBlocked, Times: 1, Domains: 3, Refused: mail.Refused{Domain: "a.test"}, Suspend: time.Hour}
	first, second := m.arrive(), m.arrive()
	m.answer(first, one)
	was := m.q.Suspension(measure.Destination, "smtp:a.test to a.test")
	m.later(time.Minute)
	m.answer(second, one)
	if now := m.q.Suspension(measure.Destination, "smtp:a.test to a.test"); was.Until == 0 || now != was || m.noted(qmgr.NoteSuspended) || m.suspended() {
		t.Errorf("suspended: %+v, then %+v", was, now)
	}
	if n := m.q.View(0).Counts.RuleSuspensions; n != 1 {
		t.Errorf("%d suspensions by rules", n)
	}
}
