package mail

import (
	"net/netip"
	"slices"
	"testing"
)

// Attempts are counted by host; of more hosts than are remembered, one with the fewest is forgotten, and not those that
// are avoided. What others hold stays as it is.
func TestDoubts(t *testing.T) {
	host := func(i int) netip.AddrPort {
		return netip.AddrPortFrom(netip.AddrFrom4([4]byte{192, 0, 2, byte(i)}), 25)
	}
	var d *Doubts
	if d.All() != nil || d.Avoided() != nil || d.Of(host(1)) != 0 {
		t.Error("none is some")
	}
	for i, h := range []int{9, 1, 1, 9, 1, 9} {
		before, was := d, d.All()
		was = slices.Clone(was)
		d = d.With(host(h))
		if !slices.Equal(before.All(), was) {
			t.Fatalf("after %d: what was before has changed", i)
		}
	}
	if d.Of(host(1)) != 3 || d.Of(host(9)) != 3 || !slices.Equal(d.Avoided(), []netip.AddrPort{host(1), host(9)}) {
		t.Errorf("%v, avoided %v", d.All(), d.Avoided())
	}
	if got := d.String(); got != "192.0.2.9:25=3 192.0.2.1:25=3" {
		t.Errorf("as text %q", got)
	}
	for i := 20; i < 30; i++ {
		d = d.With(host(i))
	}
	if len(d.All()) != DoubtsMost || d.Of(host(9)) != 3 || d.Of(host(1)) != 3 || d.Of(host(29)) != 1 || d.Of(host(28)) != 1 || d.Of(host(27)) != 0 {
		t.Errorf("of many hosts: %v", d.All())
	}
	for range 1000 {
		d = d.With(host(29))
	}
	if d.Of(host(29)) != doubtTimesMost {
		t.Errorf("%d times", d.Of(host(29)))
	}
}
