package spacing

import "testing"

// Every state is reached from the first, and can be left.
func TestStates(t *testing.T) {
	reached := [states]bool{free: true}
	for range states {
		for from := range transitions {
			for to, may := range transitions[from] {
				reached[to] = reached[to] || reached[from] && may
			}
		}
	}
	for s := range transitions {
		if !reached[s] || transitions[s] == [states]bool{} {
			t.Errorf("state %d is reached: %t, and left for %v", s, reached[s], transitions[s])
		}
	}
}

// With agents: an agent is asked for, the pause goes on, an entry is chosen and delivered, and only then the next pause begins.
func TestPauseBeforeADelivery(t *testing.T) {
	var d Delay
	if d.Holds() || !d.MayAsk(1, 2) || d.MayAsk(2, 2) {
		t.Error("a transport without anything under way waits")
	}
	d.Asked()
	if !d.Holds() || d.MayAsk(1, 2) || !d.MayAsk(0, 2) {
		t.Error("agents are asked for as if none was on its way")
	}
	if !d.Wait() || d.Wait() || !d.Waiting() || !d.Timed() || d.MayAsk(0, 2) || d.None() {
		t.Error("the pause does not go on")
	}
	d.Ended()
	if !d.Waiting() {
		t.Error("the end of another delivery ends the pause")
	}
	d.Over()
	if d.Wait() || !d.Holds() || d.Timed() || d.Stop() {
		t.Error("a second delivery may start")
	}
	if d.Ended(); d.Holds() || !d.Wait() || !d.Stop() || d.Holds() {
		t.Error("the next pause cannot begin, or not be stopped")
	}
}

// With connections: one is dialed, and another only when that is ready, refused, or silent for long.
func TestDials(t *testing.T) {
	var d Delay
	if d.DialsNext() {
		t.Error("a dial has ended that was not begun")
	}
	d.Dials()
	if !d.Dialing() || !d.Timed() || d.Holds() {
		t.Error("it is not being dialed, or keeps what is ready from being sent")
	}
	d.Dials()
	if !d.DialsNext() || d.DialsNext() || d.Timed() {
		t.Error("the next cannot be dialed")
	}
	if d.Sent(5); d.Until() != 5 {
		t.Errorf("the next delivery begins at %v", d.Until())
	}
}

// What cannot happen is a bug.
func TestWrongOrder(t *testing.T) {
	defer func() {
		if recover() == nil {
			t.Error("a pause ends that has not begun")
		}
	}()
	new(Delay).Over()
}
