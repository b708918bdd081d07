package client

import (
	"math/rand/v2"
	"net/netip"
	"strings"
	"testing"
	"time"

	"github.com/posthaste-mta/posthaste/mail"
	"github.com/posthaste-mta/posthaste/smtp/server"
)

// An ownServer is our own server, strict about clients that do not wait for
// replies that they must wait for.
type ownServer struct {
	session *server.Session
	refuse  func() bool

	in, out []byte
	draft   takenMessage
	taken   []takenMessage
	early   []string // commands that something came behind
	closed  bool
}

func (o *ownServer) reset() {
	cfg := server.Config{Hostname: "mx.example", SoftErrorLimit: 10000, HardErrorLimit: 10000}.WithDefaults()
	peer := server.Peer{Addr: netip.MustParseAddr("127.0.0.1"), RejectEarly: true}
	o.session, o.in, o.out, o.closed = server.New(&cfg, peer), nil, nil, false
	o.receive(nil)
}

func (o *ownServer) said() []byte {
	out := o.out
	o.out = nil
	return out
}

func (o *ownServer) hungUp() bool { return o.closed }

func (o *ownServer) find(number string) (list []takenMessage) {
	for _, t := range o.taken {
		if strings.Contains(t.content, "Number: "+number+"\r\n") {
			list = append(list, t)
		}
	}
	return list
}

func (o *ownServer) receive(octets []byte) {
	o.in = append(o.in, octets...)
	for !o.closed {
		n, out, request := o.session.Step(o.in, o.out)
		o.out = out
		_, waits := request.(*server.Read)
		o.serve(request)
		o.in = o.in[n:]
		if waits {
			return
		}
	}
}

func (o *ownServer) serve(request server.Request) {
	switch r := request.(type) {
	case *server.Begin:
		o.draft = takenMessage{sender: string(r.Sender)}
		if o.refuse() {
			o.session.Answer(mail.Reply{Code: 450, Status: mail.Status{Class: 4, Subject: 7, Detail: 1}, Text: "not now"})
			return
		}
		o.session.Begun(1, "Sat, 21 Nov 2026 11:00:00 +0000")
	case *server.Recipient:
		if o.refuse() {
			o.session.Answer(mail.Reply{Code: 550, Status: mail.Status{Class: 5, Subject: 1, Detail: 1}, Text: "unknown"})
			return
		}
		o.draft.rcpts += " " + string(r.Recipient.Address)
		o.session.Answer(mail.Reply{})
	case *server.Content:
		o.draft.content += string(r.Octets)
		o.session.Answer(mail.Reply{})
	case *server.Commit:
		if o.refuse() {
			o.session.Answer(mail.Reply{Code: 451, Status: mail.Status{Class: 4, Subject: 3}, Text: "disk trouble"})
			return
		}
		o.taken = append(o.taken, o.draft)
		o.session.Answer(mail.Reply{})
	case *server.Early:
		o.early = append(o.early, r.Command)
	case *server.Close:
		o.closed = true
		if r.Reason == server.ReasonEarly {
			o.early = append(o.early, "closed")
		}
	}
}

// Our own server takes all levels, and never finds the client to be early, for
// it waits wherever RFC 2920 says so.
func TestOwnServer(t *testing.T) {
	seed := testSeed()
	for level := LockStep; level <= Stream; level++ {
		verdicts, kinds := map[Verdict]int{}, map[FailureKind]int{}
		for round := range uint64(150) {
			rng := rand.New(rand.NewPCG(seed, round))
			rate := []float64{0, 0.1, 0.4}[round%3]
			o := &ownServer{refuse: func() bool { return rng.Float64() < rate }}
			h := newModelHost(rng, level, o)
			for range 3 {
				if err := h.run(); err != nil {
					t.Fatalf("%v, seed %d round %d: %v", level, seed, round, err)
				}
			}
			if len(o.early) > 0 {
				t.Fatalf("%v, seed %d round %d: the server found the client early: %q", level, seed, round, o.early)
			}
			add(verdicts, h.verdicts)
			add(kinds, h.kinds)
		}
		delete(kinds, FailAbandoned) // by the host that withheld a content
		if len(kinds) != 1 || kinds[FailQuit] == 0 {
			t.Errorf("%v: sessions ended otherwise than with QUIT: %v", level, kinds)
		}
		if verdicts[Delivered] == 0 || verdicts[Failed] == 0 || verdicts[Deferred] == 0 {
			t.Errorf("%v: too few kinds of verdicts: %v", level, verdicts)
		}
	}
}

// A flight is octets on their way.
type flight struct {
	at     time.Duration
	octets []byte
}

// throughput returns how many messages one connection carries in a round trip
// time, in virtual time and counted from the first MAIL, with ends that take
// none.
func throughput(t *testing.T, level Level, inFlight int) float64 {
	const rtt, trips = 100 * time.Millisecond, 200
	o := &ownServer{refuse: func() bool { return false }}
	h := newModelHost(rand.New(rand.NewPCG(1, 1)), level, o)
	s := New(Config{Hello: "me", Level: level, InFlight: inFlight})
	o.reset()
	var up, down []flight
	down = append(down, flight{rtt / 2, o.said()})
	var now, began time.Duration
	done := 0
	for began == 0 || now < began+trips*rtt {
		for progress := true; progress; {
			progress = false
			for s.Next() != nil {
				done++
			}
			if s.Room() {
				if began == 0 {
					began = now
				}
				tx := h.transaction()
				tx.Unstreamed = false
				s.Start(tx)
				progress = true
			}
			if tx := s.Wanting(); tx != nil {
				s.Supply([]byte(h.body(tx)), true)
				progress = true
			}
		}
		if out := take(s); out != "" {
			up = append(up, flight{now + rtt/2, []byte(out)})
		}
		if s.Over() || len(up)+len(down) == 0 {
			t.Fatalf("%v: stuck at %v: %+v", level, now, s.Failure())
		}
		if len(down) == 0 || len(up) > 0 && up[0].at <= down[0].at {
			now = up[0].at
			o.receive(up[0].octets)
			up = up[1:]
			down = append(down, flight{now + rtt/2, o.said()})
			continue
		}
		now = down[0].at
		s.Feed(down[0].octets)
		down = down[1:]
	}
	return float64(done) / trips
}

// The throughput of one connection in messages for each round trip time: half
// a message if MAIL waits for the final reply before it, one if it does not,
// and as many as may be in flight if nothing waits. (In lock-step it is one
// fourth with one recipient.)
func TestThroughput(t *testing.T) {
	for _, c := range []struct {
		level    Level
		inFlight int
		min, max float64
	}{
		{Group, 0, 0.45, 0.5},
		{Overlap, 0, 0.95, 1},
		{Stream, 4, 3.8, 4},
		{Stream, 8, 7.6, 8},
		{Stream, 16, 15, 16},
	} {
		got := throughput(t, c.level, c.inFlight)
		if got < c.min || got > c.max {
			t.Errorf("%v, %d in flight: %.2f messages for each round trip, want %.2f to %.2f", c.level, c.inFlight, got, c.min, c.max)
		}
		t.Logf("%v, %d in flight: %.2f messages for each round trip", c.level, c.inFlight, got)
	}
}
