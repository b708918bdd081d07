package saved

import (
	"net/netip"
	"slices"
	"testing"
	"time"

	"github.com/posthaste-mta/posthaste/mail"
	"github.com/posthaste-mta/posthaste/qmgr/destdb"
	"github.com/posthaste-mta/posthaste/qmgr/measure"
	"github.com/posthaste-mta/posthaste/qmgr/warmup"
)

const now = mail.Instant(1e18)

// world has something in each table.
type world struct {
	hosts            *destdb.DB
	warmups          *warmup.Table
	measures, orders *measure.Table
}

func newWorld() world {
	cfg := warmup.Config{Sources: []warmup.Source{{Name: "s1", Plan: warmup.Plan{Name: "slow", Allowances: []int{10}}}}}
	return world{destdb.New(destdb.Config{}.WithDefaults(), 1), warmup.New(cfg, now), measure.New(), measure.NewOrders()}
}

func host(n byte) destdb.Key {
	return destdb.Key{Transport: "smtp", Addr: netip.AddrPortFrom(netip.AddrFrom4([4]byte{192, 0, 2, n}), 25)}
}

var (
	site   = warmup.Key{Source: "s1", Site: "a.test"}
	rests  = measure.Key{Scope: measure.Queue, Transport: "smtp", Name: "a.test", Nexthop: "a.test"}
	domain = measure.OrderKey(measure.Domain, "b.test")
)

func (w *world) fill() {
	for n := range byte(3) {
		w.hosts.Open(host(n), now)
		w.hosts.Failed(host(n), now, now, mail.Reply{Code: 421, Text: "no"})
	}
	w.warmups.Take(site, now)
	w.measures.Put(rests, measure.Record{Rest: measure.Rest{Rule: "r", Since: now, Until: now.Add(time.Hour)}})
	w.orders.Put(domain, measure.Record{Order: measure.Order{By: "jo", Since: now, Until: mail.Never}})
}

// What the feed has returned, in one call or in many, is read as what the tables have.
func TestRoundTrip(t *testing.T) {
	for _, most := range []int{1, 2, 100} {
		w := newWorld()
		f := NewFeed(w.hosts.NewFeed())
		f.Add(w.warmups, w.measures, w.orders)
		w.fill()
		if !f.OrdersChanged() {
			t.Error("the order is not to be saved")
		}
		records := f.Orders(nil)
		for {
			n := len(records)
			if records = f.Changes(records, most); len(records) == n {
				break
			} else if len(records)-n > most {
				t.Fatalf("%d records, want %d at most", len(records)-n, most)
			}
		}
		k := Read(append(records, mail.HostRecord{}, mail.HostRecord{Key: []byte("\x00x")}, mail.HostRecord{Key: []byte("\x00\x00x")}, mail.HostRecord{Key: []byte("x"), Value: []byte("y")}))
		slices.SortFunc(k.Hosts, func(a, b destdb.Known) int { return a.Key.Addr.Compare(b.Key.Addr) })
		if len(k.Hosts) != 3 || k.Hosts[1].Key != host(1) || len(k.Warmups) != 1 || k.Warmups[0].Key != site ||
			len(k.Measures) != 1 || k.Measures[0] != (measure.Known{Key: rests, Record: w.measures.Get(rests)}) ||
			len(k.Orders) != 1 || k.Orders[0] != (measure.Known{Key: domain, Record: w.orders.Get(domain)}) {
			t.Errorf("%d at a time: read is %+v", most, k)
		}
		if f.OrdersChanged() || len(f.Orders(nil)) > 0 {
			t.Error("the order is saved again and again")
		}
	}
}

// A second consumer knows of hosts alone. What is gone has no value.
func TestSecondFeed(t *testing.T) {
	w := newWorld()
	f := NewFeed(w.hosts.NewFeed())
	w.fill()
	if records := f.Changes(nil, 100); len(records) != 3 || f.OrdersChanged() || f.Orders(nil) != nil {
		t.Errorf("%d records", len(records))
	}
	first := NewFeed(w.hosts.NewFeed())
	first.Add(w.warmups, w.measures, w.orders)
	first.Orders(nil)
	w.orders.Put(domain, measure.Record{})
	if gone := first.Orders(nil); len(gone) != 1 || gone[0].Value != nil {
		t.Errorf("what is gone: %+v", gone)
	}
}

// An order in the table of measures, or the other way round, is not ours.
func TestReadWhatIsNotOurs(t *testing.T) {
	key, _ := measure.AppendKey(nil, rests)
	value, _ := measure.AppendRecord(nil, measure.Record{Order: measure.Order{By: "jo", Since: now, Until: mail.Never}})
	if k := Read([]mail.HostRecord{{Key: key, Value: value}}); len(k.Orders)+len(k.Measures) > 0 {
		t.Errorf("read is %+v", k)
	}
}
