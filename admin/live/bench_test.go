package live

import (
	"fmt"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/posthaste-mta/posthaste/mail"
	"github.com/posthaste-mta/posthaste/qmgr"
)

// BenchmarkSample is a sample of 256 destinations whose windows move all the time, for the worst replies, and what is
// remembered after two hours of that (docs/api.md states it).
func BenchmarkSample(b *testing.B) {
	c := &core{}
	for i := range SitesMax {
		c.list.Destinations = append(c.list.Destinations, destination(fmt.Sprintf("d%d.test", i), 5, 0))
	}
	s := c.sampler()
	heap := func() uint64 {
		runtime.GC()
		var m runtime.MemStats
		runtime.ReadMemStats(&m)
		return m.HeapAlloc
	}
	before, now := heap(), time.Unix(1e9, 0)
	var sites []SiteSample
	sample := func(i int) {
		for j := range c.list.Destinations {
			d := &c.list.Destinations[j]
			d.Condition, d.Queue.Window, d.Queue.Reason = qmgr.ConditionDead, 0, mail.Reply{Code: 451, Text: strings.Repeat("x", 1000)}
			if i%2 == 0 {
				d.Condition, d.Queue.Window = qmgr.ConditionReady, 5
			}
		}
		now = now.Add(time.Second)
		sites = s.sitesOf(&c.list, now)
	}
	for i := range 7200 {
		sample(i)
	}
	for range 2160 {
		now = now.Add(10 * time.Second)
		s.totalsOf(&c.view, &Facts{}, nil, now)
	}
	sites = nil
	remembered := float64(heap()-before) / 1e6
	i := 0
	for b.Loop() {
		sample(i)
		i++
	}
	runtime.KeepAlive(sites)
	b.ReportMetric(remembered, "MB")
}
