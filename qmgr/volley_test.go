package qmgr_test

import (
	"fmt"
	"maps"
	"net/netip"
	"slices"
	"testing"
	"time"

	"github.com/posthaste-mta/posthaste/internal/golden"
	"github.com/posthaste-mta/posthaste/mail"
	"github.com/posthaste-mta/posthaste/qmgr"
	"github.com/posthaste-mta/posthaste/qmgr/qmgrtest"
)

// A receiver takes so many connections from each of two addresses, and refuses others at
// once. It is refused what was being opened when the first refusal came: at most as many as
// work from that address, or five at a start. Behind that a single one is refused after a
// second, after two more, four, eight … No message is put off.
func TestRefusalsOfALimit(t *testing.T) {
	limits := []int{1, 4, 5, 9}
	if golden.Runs(0) == 0 {
		limits = limits[2:3]
	}
	for _, limit := range limits {
		t.Run(fmt.Sprint(limit), func(t *testing.T) {
			w := sourcesWorld(t, func(cfg *qmgr.Config) {
				cfg.DefaultTransport.Window.Limit, cfg.DefaultTransport.Connections.HostLimit, cfg.DefaultTransport.ProcessLimit = 200, -1, 400
			})
			mx := mail.Host{Name: "mx1", Addr: netip.MustParseAddrPort("192.0.2.1:25")}
			w.Zones["a.test"] = qmgrtest.Zone{Tiers: [][]mail.Host{{mx}}}
			type address struct {
				open, most, volley, probes int
				first                      mail.Instant // when something was refused first
				last                       qmgr.ConnID  // that was being opened then
			}
			all := map[string]*address{"a": {}, "b": {}}
			for range 80 { // round trips of 100 ms
				arriveAt(w, "a.test", max(0, 60-w.Core.View(0).Messages))
				var dials []qmgr.Dial
				for i := 0; i < len(w.Outstanding); {
					if d, ok := w.Outstanding[i].(qmgr.Dial); ok {
						w.Take(i)
						dials = append(dials, d)
					} else if d, ok := w.Outstanding[i].(qmgr.Deliver); ok {
						t.Fatalf("%+v is put off", d.Delivery)
					} else {
						w.Answer(w.Take(i))
						i = 0
					}
				}
				w.Now = w.Now.Add(100 * time.Millisecond)
				w.Step(qmgr.Wake{})
				for _, d := range dials {
					a := all[d.Opening.Source]
					if a.open < limit {
						a.open++
						a.most = max(a.most, a.open)
						w.Dialed(d, mail.OpenedConnection{RTT: 100 * time.Millisecond})
						continue
					}
					if a.first == 0 {
						a.first, a.last = w.Now, slices.Max(slices.Collect(maps.Keys(w.Conns)))
					}
					w.Dialed(d, mail.OpenedConnection{Reply: mail.Reply{Code: 421, Text: "too many connections", By: "mx1"}})
					switch {
					case d.Conn <= a.last:
						a.volley++
					default:
						a.probes++
					}
				}
				for _, c := range w.Connections() {
					if len(c.Sends) > 0 {
						w.Sent(c, qmgrtest.Accepted)
					}
				}
			}
			for name, a := range all {
				probes := 0
				for time.Second<<(probes+1)-time.Second <= w.Now.Sub(a.first) {
					probes++
				}
				if a.most != limit || a.first == 0 || a.volley > max(5, limit) || a.probes > probes {
					t.Errorf("source %s: %+v, of %d connections that it may have; at most %d and %d may be refused", name, *a, limit, max(5, limit), probes)
				}
			}
		})
	}
}
