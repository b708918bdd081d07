package qmgr

import (
	"strings"
	"testing"

	"github.com/posthaste-mta/posthaste/mail"
	"github.com/posthaste-mta/posthaste/qmgr/warmup"
)

// A restart knows how many messages a new source sent today, on which day of the plan it
// is, and what operators ordered. The records go to the first feed only, beside those of
// hosts, and those that cannot be read are skipped.
func TestWarmupIsKept(t *testing.T) {
	cfg := Config{Warmup: warmup.Config{Sources: []warmup.Source{{Name: "new", Plan: warmup.Conservative()}}}}
	now := warmup.DayOn(2026, 3, 2).Start()
	before, err := New(cfg, 1)
	if err != nil {
		t.Fatal(err)
	}
	feed, second := before.NewHostFeed(), before.NewHostFeed()
	order := func(o warmup.Order) (note string) {
		for _, a := range before.Step(now, AdjustWarmup{Order: o}) {
			if n, ok := a.(Note); ok && n.Kind == NoteWarmup {
				note += n.Text
			}
		}
		return note
	}
	all, gmail := warmup.Key{Source: "new"}, warmup.Key{Source: "new", Site: "gmail.test"}
	if got := order(warmup.Order{Key: all, Kind: warmup.SetDay, Day: 3}); got != "warm-up of new: day 3" {
		t.Errorf("an order is noted as %q", got)
	}
	if got := order(warmup.Order{Key: warmup.Key{Source: "old"}}); !strings.Contains(got, "has no warm-up") {
		t.Errorf("an order that cannot be obeyed is noted as %q", got)
	}
	for range 7 {
		before.warmup.Take(gmail, now)
	}
	order(warmup.Order{Key: gmail, Kind: warmup.Pause})
	records := feed.Changes(nil, 1)
	records = feed.Changes(records, 10)
	if len(records) != 2 || len(second.Changes(nil, 10)) != 0 {
		t.Fatalf("%d records are saved, and %d for the second feed", len(records), len(second.Changes(nil, 10)))
	}
	records = append(records, mail.HostRecord{Key: []byte{0}}, mail.HostRecord{Key: []byte("\x00new\x00b.test"), Value: []byte("1 2 3")})

	after, err := New(cfg, 1)
	if err != nil {
		t.Fatal(err)
	}
	after.Step(now, Learned{Hosts: records})
	v, warming := after.Warmup("new", 5)
	if !warming || v.First != 3 || v.Taken != 7 || len(v.Top) != 1 || v.Top[0].Of != 84 || !v.Top[0].Paused {
		t.Errorf("after the restart: %+v", v)
	}
	if s, _ := after.WarmupSite("new", "b.test"); s.Day != 3 || s.Taken != 0 {
		t.Errorf("another site: %+v", s)
	}
}
