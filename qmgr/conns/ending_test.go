package conns

import (
	"strings"
	"testing"

	"github.com/posthaste-mta/posthaste/mail"
	"github.com/posthaste-mta/posthaste/qmgr/destdb"
)

// A ring keeps the last ones, and yields the newest first, full or not.
func TestRing(t *testing.T) {
	var r ring
	for n := range 12 {
		r.add(Ending{Conn: ID(n)}, 5)
		var got []ID
		for e := range r.newest() {
			got = append(got, e.Conn)
		}
		if len(got) != min(n+1, 5) {
			t.Fatalf("%d endings after %d, want %d", len(got), n+1, min(n+1, 5))
		}
		for i, id := range got {
			if id != ID(n-i) {
				t.Fatalf("after %d endings the newest are %v", n+1, got)
			}
		}
	}
}

// Only what was learned from the way in which a connection ended is a fall to a simpler
// level: nothing is simpler than one command at a time.
func TestFell(t *testing.T) {
	for why := mail.CloseAsked; why <= mail.CloseWrong; why++ {
		for level := mail.LevelLockStep; level <= mail.LevelStream; level++ {
			e := Ending{Closing: mail.Closing{Why: why, Level: level}}
			want := why == mail.CloseMixed || (why == mail.CloseStep || why == mail.CloseLost) && level > mail.LevelLockStep
			if e.fell() != want {
				t.Errorf("closed because of %v at %v: fell %t, want %t", why, level, !want, want)
			}
		}
	}
}

// Of each site the newest endings are returned, good and bad ones together, and not those of
// another transport's site of the same name. Good ones do not push out bad ones, which
// explain more.
func TestEndings(t *testing.T) {
	p := New(Config{Limit: 100}, destdb.New(destdb.Config{}, 1), 1)
	g, other := NewGroup("smtp", GroupConfig{Limit: 100}), NewGroup("relay", GroupConfig{Limit: 100})
	site, same := NewSite(g, "a.test", Way{}), NewSite(other, "a.test", Way{})
	id := ID(0)
	end := func(s *Site, why mail.CloseReason, at mail.Instant) {
		id++
		p.ended(&Conn{ID: id, site: s, host: &host{}}, mail.Closing{Why: why, Reply: mail.Reply{Text: strings.Repeat("x", 2*mail.ReplyTextMax)}}, at)
	}
	end(site, mail.CloseLost, 1)
	end(site, mail.CloseMixed, 2)
	for n := range mail.Instant(endingsGood + 10) {
		end(site, mail.CloseAsked, 3+n)
	}
	end(same, mail.CloseAsked, 1000)
	end(site, mail.CloseLost, 1001)
	got := p.Endings(site, 3)
	if len(got) != 3 || got[0].At != 1001 || got[1].At != endingsGood+12 || got[2].At != endingsGood+11 {
		t.Errorf("the newest endings are %v", got)
	}
	if n := len(got[0].Closing.Reply.Text); n == 0 || n > mail.ReplyTextMax {
		t.Errorf("%d octets of a reply are kept", n)
	}
	all := p.Endings(site, 10_000)
	if len(all) != endingsGood-1+3 || all[len(all)-1].At != 1 || all[len(all)-2].At != 2 {
		t.Errorf("%d endings are known, want %d good ones and three others", len(all), endingsGood-1)
	}
	if got := p.Endings(same, 10); len(got) != 1 || got[0].At != 1000 {
		t.Errorf("the endings of the other transport are %v", got)
	}
	if m, ok := p.Mixed(); !ok || m.At != 2 {
		t.Errorf("the last that was mixed is %v, %t", m, ok)
	}
	if n := p.Closings(); n[mail.CloseLost] != 2 || n[mail.CloseMixed] != 1 || n[mail.CloseAsked] != endingsGood+11 {
		t.Errorf("endings by reason: %v", n)
	}
}
