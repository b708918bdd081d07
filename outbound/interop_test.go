package outbound

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/posthaste-mta/posthaste/internal/sink"
	"github.com/posthaste-mta/posthaste/mail"
)

// A sender plays the part of the core for one host: it opens a connection when
// it has none, sends the mail that waits, and sends untried mail again.
type sender struct {
	t     *testing.T
	c     *Client
	level mail.Level
	depth int
	todo  []mail.Delivery

	outcomes map[string]mail.Outcome // by recipient
	unknown  map[mail.QueueID]int    // results that were unknown
	closings map[mail.CloseReason]int
}

// work sends everything. It gives up what was deferred.
func (s *sender) work() {
	for rounds := 0; len(s.todo) > 0; rounds++ {
		if rounds > 3000 {
			s.t.Fatalf("%d messages are left", len(s.todo))
		}
		k, _ := s.c.Dial(s.t.Context(), mail.Opening{Transport: "smtp", Host: mail.Host{Name: "mx", Addr: address("1")}, Level: s.level})
		if k == nil {
			continue // refused at the door
		}
		s.run(k)
	}
}

// run uses one connection until it is over.
func (s *sender) run(k *Conn) {
	under := []mail.Delivery{}
	next := func() {
		for len(under) < s.depth && len(s.todo) > 0 {
			d := s.todo[0]
			s.todo = s.todo[1:]
			under = append(under, d)
			k.Send(uint64(d.Envelope.ID), d)
		}
		if len(under) == 0 {
			k.Hangup()
		}
	}
	next()
	closing := k.Run(s.t.Context(), func(id uint64, r mail.DeliveryResult) {
		d := under[0]
		under = under[1:]
		if uint64(d.Envelope.ID) != id {
			s.t.Errorf("result of %d reported when it was the turn of %v", id, d.Envelope.ID)
		}
		s.note(d, r)
		next()
	})
	s.todo = append(under, s.todo...)
	s.closings[closing.Why]++
}

func (s *sender) note(d mail.Delivery, r mail.DeliveryResult) {
	var again []mail.Recipient
	unknown := false
	for i, o := range r.Outcomes {
		if o.Result == mail.Untried {
			again = append(again, d.Recipients[i])
			continue
		}
		unknown = unknown || o.Unknown
		s.outcomes[string(d.Recipients[i].Address)] = o
	}
	if unknown {
		s.unknown[d.Envelope.ID]++
	}
	if len(again) > 0 {
		d.Recipients = again
		s.todo = append(s.todo, d)
	}
}

// letters makes messages of which each has a sender and recipients of its own.
func letters(rng *rand.Rand, count int) (store, []mail.Delivery) {
	bodies := store{}
	var all []mail.Delivery
	for id := range mail.QueueID(count) {
		size := rng.IntN(3000)
		if rng.IntN(20) == 0 {
			size = rng.IntN(200000)
		}
		data := fmt.Sprintf("Message-ID: %d\r\n\r\n", uint64(id)) + strings.Repeat(".MAIL FROM:<evil@example.org>\r\n", size/32)
		bodies[id] = fakeContent{data: data, inFile: rng.IntN(2) == 0}
		var to []string
		for r := range 1 + rng.IntN(4) {
			to = append(to, fmt.Sprintf("r%d-%d@example.net", id, r))
		}
		d := message(id, to...)
		d.Envelope.Sender = mail.Address(fmt.Sprintf("s%d@example.org", id))
		d.Envelope.Size = int64(len(data))
		all = append(all, d)
	}
	return bodies, all
}

// Our sink, which goes wrong at every stage, takes every message under its own
// envelope, whatever the level; what we believe of each recipient is true; and
// none is taken twice unless we had to say that its fate is unknown.
func TestSinkInterop(t *testing.T) {
	for _, level := range levels {
		t.Run(level.String(), func(t *testing.T) {
			seed := rand.Uint64()
			t.Logf("seed %d", seed)
			bodies, all := letters(rand.New(rand.NewPCG(seed, 0)), 400)
			var mu sync.Mutex
			taken := map[string]int{}
			server, err := sink.New(sink.Config{Seed: seed, Taken: func(d sink.Delivery) {
				mu.Lock()
				defer mu.Unlock()
				if d.Sender != mail.Address("s"+d.Key+"@example.org") {
					t.Errorf("message %s was taken from %s", d.Key, d.Sender)
				}
				for _, r := range d.Recipients {
					if !strings.HasPrefix(string(r), "r"+d.Key+"-") {
						t.Errorf("message %s was taken for %s", d.Key, r)
					}
					taken[string(r)]++
				}
			}, Faults: []sink.Fault{
				{Stage: sink.AtMail, Kind: sink.RefuseForNow, Share: 0.02}, {Stage: sink.AtMail, Kind: sink.RefuseForGood, Share: 0.02},
				{Stage: sink.AtMail, Kind: sink.Drop, Share: 0.01},
				{Stage: sink.AtRecipient, Kind: sink.RefuseForNow, Share: 0.1}, {Stage: sink.AtRecipient, Kind: sink.RefuseForGood, Share: 0.1},
				{Stage: sink.AtRecipient, Kind: sink.Drop, Share: 0.01},
				{Stage: sink.AtContent, Kind: sink.Drop, Share: 0.01},
				{Stage: sink.AtCommit, Kind: sink.RefuseForNow, Share: 0.05}, {Stage: sink.AtCommit, Kind: sink.RefuseForGood, Share: 0.05},
				{Stage: sink.AtCommit, Kind: sink.Drop, Share: 0.01}, {Stage: sink.AtCommit, Kind: sink.LoseReply, Share: 0.01},
			}})
			if err != nil {
				t.Fatal(err)
			}
			l := &pipeListener{conns: make(chan net.Conn), done: make(chan struct{})}
			ctx, cancel := context.WithCancel(t.Context())
			var running sync.WaitGroup
			running.Go(func() {
				if err := server.Serve(ctx, l); err != nil && !errors.Is(err, net.ErrClosed) {
					t.Errorf("serve: %v", err)
				}
			})
			s := newSender(t, level, bodies, l, all)
			s.work()
			cancel()
			running.Wait()
			s.check(all, taken)
		})
	}
}

func newSender(t *testing.T, level mail.Level, bodies store, dialer Dialer, all []mail.Delivery) *sender {
	c, err := New(Config{Hello: "me.example", Transports: map[string]TransportConfig{"smtp": {}}}, newFakeNet(), bodies, dialer)
	if err != nil {
		t.Fatal(err)
	}
	depth := map[mail.Level]int{mail.LevelLockStep: 1, mail.LevelGroup: 2, mail.LevelOverlap: 3, mail.LevelStream: 5}[level]
	return &sender{
		t: t, c: c, level: level, depth: depth, todo: slices.Clone(all),
		outcomes: map[string]mail.Outcome{}, unknown: map[mail.QueueID]int{}, closings: map[mail.CloseReason]int{},
	}
}

// check compares what was believed with what was taken.
func (s *sender) check(all []mail.Delivery, taken map[string]int) {
	count := map[string]int{}
	for _, d := range all {
		for _, r := range d.Recipients {
			o, told := s.outcomes[string(r.Address)]
			n := taken[string(r.Address)]
			count[o.Result.String()]++
			switch {
			case !told:
				s.t.Errorf("%s has no outcome", r.Address)
			case o.Result == mail.Delivered && n != 1, o.Result != mail.Delivered && !o.Unknown && n != 0, n > 1:
				s.t.Errorf("%s is %v: %v, but was taken %d times", r.Address, o.Result, o.Reply, n)
			}
		}
	}
	s.t.Logf("%v, %d unknown, connections %v", count, len(s.unknown), s.closings)
	if count["sent"] == 0 || s.closings[mail.CloseWrong] > 0 {
		s.t.Errorf("outcomes %v, connections %v", count, s.closings)
	}
}

// A go-smtp server supports all levels, too. It refuses some recipients, and so some
// whole messages, whose octets it must drop at level Stream.
func TestPeerLevels(t *testing.T) {
	for _, level := range levels {
		t.Run(level.String(), func(t *testing.T) {
			p, l := startPeer(t)
			bodies, all := letters(rand.New(rand.NewPCG(1, 2)), 200)
			for i := range all {
				for j := range all[i].Recipients {
					if (i+j)%3 == 0 {
						r := &all[i].Recipients[j]
						r.Address = "no-" + r.Address
					}
				}
			}
			s := newSender(t, level, bodies, l, all)
			s.work()
			taken := map[string]int{}
			for _, m := range p.got {
				from, rest, _ := strings.Cut(m, "@")
				to, text, _ := strings.Cut(rest, ": ")
				_, key, _ := strings.Cut(text, "Message-ID: ")
				key, _, _ = strings.Cut(key, "\\r")
				if from != "s"+key {
					t.Errorf("message %s was taken from %s", key, from)
				}
				for _, word := range strings.Fields(to) {
					if strings.HasPrefix(word, "r"+key+"-") {
						taken[word]++
					} else if strings.HasPrefix(word, "r") && strings.Contains(word, "-") {
						t.Errorf("message %s was taken for %s", key, word)
					}
				}
			}
			s.check(all, taken)
			if n := s.closings[mail.CloseAsked]; n != 1 || len(s.closings) != 1 {
				t.Errorf("connections %v", s.closings)
			}
		})
	}
}
