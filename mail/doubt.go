package mail

import (
	"net/netip"
	"slices"
	"strconv"
	"strings"
)

const (
	// DoubtsEnough is the number of doubtful attempts at one host from which on other hosts come first.
	DoubtsEnough = 3
	// DoubtsMost is the number of hosts that are remembered for one recipient.
	DoubtsMost = 4
	// doubtTimesMost bounds Doubt.Times.
	doubtTimesMost = 200
)

// A Doubt counts the attempts for one recipient at one host after which it was unknown whether the host
// has the message (Outcome.Unknown).
type Doubt struct {
	Host  netip.AddrPort
	Times uint8 // from 1
}

// Doubts are those of one recipient, in the order in which hosts came to it. Nil, and what is behind the last
// one, are none. A value does not change once it is made, since recipients share it.
type Doubts [DoubtsMost]Doubt

// With returns d with one more attempt at a host. Of more than DoubtsMost hosts, the one with the fewest attempts
// is forgotten.
func (d *Doubts) With(host netip.AddrPort) *Doubts {
	var now Doubts
	if d != nil {
		now = *d
	}
	i := slices.IndexFunc(now[:], func(one Doubt) bool { return one.Host == host || one.Times == 0 })
	if i < 0 {
		i = 0
		for j := range now {
			if now[j].Times < now[i].Times {
				i = j
			}
		}
		copy(now[i:], now[i+1:])
		i = DoubtsMost - 1
		now[i] = Doubt{}
	}
	now[i].Host = host
	now[i].Times = min(now[i].Times+1, doubtTimesMost)
	return &now
}

// Of returns the number of attempts at a host.
func (d *Doubts) Of(host netip.AddrPort) int {
	for _, one := range d.All() {
		if one.Host == host {
			return int(one.Times)
		}
	}
	return 0
}

// All returns what there is. It must not be changed.
func (d *Doubts) All() []Doubt {
	if d == nil {
		return nil
	}
	n := 0
	for n < len(d) && d[n].Times > 0 {
		n++
	}
	return d[:n]
}

// String returns "192.0.2.1:25=3 192.0.2.2:25=1".
func (d *Doubts) String() string {
	var b strings.Builder
	for i, one := range d.All() {
		if i > 0 {
			b.WriteByte(' ')
		}
		b.WriteString(one.Host.String() + "=" + strconv.Itoa(int(one.Times)))
	}
	return b.String()
}

// Avoided returns the hosts that come behind all others, in order.
func (d *Doubts) Avoided() (hosts []netip.AddrPort) {
	for _, one := range d.All() {
		if one.Times >= DoubtsEnough {
			hosts = append(hosts, one.Host)
		}
	}
	slices.SortFunc(hosts, netip.AddrPort.Compare)
	return hosts
}
