package outbound

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"net/netip"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/posthaste-mta/posthaste/mail"
)

var levels = []mail.Level{mail.LevelLockStep, mail.LevelGroup, mail.LevelOverlap, mail.LevelStream}

// A lazyServer does one thing at a time: it reads a command, writes its reply,
// and does not read on before all of that reply was taken. Nothing is between it
// and the client that could hold an octet.
type lazyServer struct {
	verbose int                    // lines of each reply
	pair    func() (a, b net.Conn) // in place of net.Pipe
	got     []string
}

func (s *lazyServer) Dial(_ context.Context, _ netip.Addr, _ netip.AddrPort) (net.Conn, error) {
	ours, theirs := net.Pipe()
	if s.pair != nil {
		ours, theirs = s.pair()
	}
	go s.serve(theirs)
	return ours, nil
}

func (s *lazyServer) serve(c net.Conn) {
	defer c.Close()
	r := bufio.NewReaderSize(c, 256)
	say := func(code, text string) {
		for range s.verbose {
			fmt.Fprintf(c, "%s-%s\r\n", code, text)
		}
		fmt.Fprintf(c, "%s %s\r\n", code, text)
	}
	say("220", "lazy")
	for {
		line, err := r.ReadString('\n')
		if err != nil {
			return
		}
		switch verb, arg, _ := strings.Cut(strings.TrimSpace(line), " "); verb {
		case "EHLO":
			io.WriteString(c, "250-lazy\r\n250-PIPELINING\r\n250 CHUNKING\r\n")
		case "DATA":
			say("354", "go")
			var text strings.Builder
			for line != ".\r\n" {
				if line, err = r.ReadString('\n'); err != nil {
					return
				}
				text.WriteString(line)
			}
			s.take(strings.TrimSuffix(text.String(), ".\r\n"))
			say("250", "taken")
		case "BDAT":
			n, _ := strconv.Atoi(strings.TrimSuffix(arg, " LAST"))
			text := make([]byte, n)
			if _, err := io.ReadFull(r, text); err != nil {
				return
			}
			s.take(string(text))
			say("250", "taken")
		default:
			say("250", verb)
		}
	}
}

func (s *lazyServer) take(text string) { s.got = append(s.got, text) }

// Neither end may wait for the other to read: not with a server that writes
// before it reads and whose every reply has to be taken first, whatever is under
// way. In a bubble a deadlock fails the test.
func TestLazyServer(t *testing.T) {
	for _, level := range levels {
		for _, size := range []int{10, 30000, 300000} {
			t.Run(fmt.Sprintf("%v/%d", level, size), func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) { lazily(t, level, size, nil) })
			})
		}
	}
}

func lazily(t *testing.T, level mail.Level, size int, pair func() (a, b net.Conn)) {
	s := &lazyServer{verbose: 20, pair: pair}
	bodies := store{}
	c, err := New(Config{Hello: "me.example", Transports: map[string]TransportConfig{"smtp": {}}}, newFakeNet(), bodies, s)
	if err != nil {
		t.Fatal(err)
	}
	k, opened := c.Dial(t.Context(), mail.Opening{Transport: "smtp", Host: mail.Host{Name: "mx", Addr: address("1")}, Level: level})
	if k == nil || opened.Level != level {
		t.Fatalf("opened %+v", opened)
	}
	const count = 20
	for id := range mail.QueueID(count) {
		bodies[id] = fakeContent{data: fmt.Sprintf("%d\r\n", id) + strings.Repeat("0123456789\r\n", size/12), inFile: id%2 == 1}
		d := message(id, "a@example.net", "b@example.net", "c@example.net", "d@example.net")
		d.Envelope.Size = int64(len(bodies[id].data))
		k.Send(uint64(id), d)
	}
	k.Hangup()
	told := 0
	closing := k.Run(t.Context(), func(id uint64, r mail.DeliveryResult) {
		if id != uint64(told) || r.Outcomes[0].Result != mail.Delivered {
			t.Errorf("%d: %+v", id, r)
		}
		told++
	})
	if closing != (mail.Closing{}) || told != count || len(s.got) != count {
		t.Fatalf("%d told, %d taken, closed %+v", told, len(s.got), closing)
	}
	for id := range mail.QueueID(count) {
		if s.got[id] != bodies[id].data {
			t.Errorf("message %d is not what was sent", id)
		}
	}
}

// oddSay is randomSay for a level. What looks right where a reply is due cannot be
// found out: at level Overlap the reply to MAIL where that to the content is
// missing, at level Stream one too many, too; and at any level a reply to content
// that is on its way in one piece.
func oddSay(rng *rand.Rand, level mail.Level) map[string]string {
	say := randomSay(rng)
	for occasion, word := range say {
		words := strings.Split(word, ";")
		for i, w := range words {
			if level >= mail.LevelOverlap && w == "" || level == mail.LevelStream && w == "250 a|250 b" {
				words[i] = "250 ok"
			}
		}
		say[occasion] = strings.Join(words, ";")
	}
	if say["early"] != "" {
		say["early"] = "close 552 5.3.4 too big"
	}
	say["greeting"], say["ehlo"] = "220 mx", "250 mx"
	if level > mail.LevelLockStep {
		say["ehlo"] = "250-mx|250-PIPELINING|250 CHUNKING"
	}
	return say
}

// A connection to a server that answers at random, at every level: what is sent
// while it runs has exactly one result, in the order of sending, before Run
// returns; and the result is true. A message is delivered only if it was taken
// for that recipient; unless its fate is unknown, it was not taken otherwise.
func TestRandomConnections(t *testing.T) {
	seed := rand.Uint64()
	results := map[string]int{}
	for round := range uint64(200) {
		rng := rand.New(rand.NewPCG(seed, round))
		synctest.Test(t, func(t *testing.T) {
			if randomConnection(t, rng, results); t.Failed() {
				t.Fatalf("seed %d round %d", seed, round)
			}
		})
	}
	for _, what := range []string{"sent", "deferred", "bounced", "untried", "unknown", "asked", "idle", "busy", "lost", "step", "wrong"} {
		if results[what] == 0 {
			t.Errorf("nothing was ever %s, so the test shows little: %v", what, results)
		}
	}
}

func randomConnection(t *testing.T, rng *rand.Rand, results map[string]int) {
	level := levels[rng.IntN(len(levels))]
	n := newFakeNet()
	say := oddSay(rng, level)
	defer func() {
		if t.Failed() {
			t.Logf("level %v, server %q", level, say)
		}
	}()
	server := n.add("1", say)
	bodies := store{}
	var open atomic.Int64
	c := newTestClient(t, n, bodies, TransportConfig{})
	k, _ := c.Dial(t.Context(), mail.Opening{Transport: "smtp", Host: mail.Host{Name: "mx", Addr: server.addr}, Level: level, InFlight: rng.IntN(5)})
	if k == nil {
		t.Error("no connection")
		return
	}
	const count = 8
	for id := range mail.QueueID(count) {
		bodies[id] = fakeContent{open: &open, data: fmt.Sprintf("message %d\r\n%s", id, strings.Repeat("x\r\n", rng.IntN(2)*rng.IntN(30000))), inFile: rng.IntN(2) == 0}
	}
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	var sent []mail.Delivery
	told, over := 0, false
	var running sync.WaitGroup
	var mu sync.Mutex // of sent, told and results
	running.Go(func() {
		closing := k.Run(ctx, func(id uint64, r mail.DeliveryResult) {
			mu.Lock()
			defer mu.Unlock()
			if id != uint64(told) || over {
				t.Errorf("result of %d reported when it was the turn of %d", id, told)
			}
			told++
			checkResult(t, server, sent[id], r, results)
		})
		mu.Lock()
		defer mu.Unlock()
		over = true
		results[closing.Why.String()]++
		if closing.Why == mail.CloseAsked != closing.Reply.IsZero() {
			t.Errorf("closed %+v", closing)
		}
	})
	for id := range mail.QueueID(count) {
		d := message(id, []string{"b@example.net", "c@example.net", "d@example.net"}[:1+rng.IntN(3)]...)
		d.Envelope.Size = int64(len(bodies[id].data))
		mu.Lock()
		sent = append(sent, d)
		mu.Unlock()
		k.Send(uint64(id), d)
		if rng.IntN(3) == 0 {
			time.Sleep(time.Duration(rng.IntN(3)) * 30 * time.Second)
		}
	}
	if rng.IntN(10) == 0 {
		cancel()
	}
	k.Hangup()
	running.Wait()
	n.running.Wait()
	if !over || open.Load() != 0 {
		t.Errorf("over %v, %d contents were not closed", over, open.Load())
	}
	for id := told; id < len(sent); id++ { // sent too late, so never begun
		for _, r := range sent[id].Recipients {
			if takenBy([]*fakeServer{server}, sent[id].Envelope.ID, string(r.Address)) > 0 {
				t.Errorf("%d was taken but never told", id)
			}
		}
	}
}

func checkResult(t *testing.T, server *fakeServer, d mail.Delivery, r mail.DeliveryResult, results map[string]int) {
	if len(r.Outcomes) != len(d.Recipients) {
		t.Errorf("%d outcomes for %d recipients", len(r.Outcomes), len(d.Recipients))
		return
	}
	for i, o := range r.Outcomes {
		taken := takenBy([]*fakeServer{server}, d.Envelope.ID, string(d.Recipients[i].Address))
		what := o.Result.String()
		if o.Unknown {
			what = "unknown"
		}
		results[what]++
		switch {
		case o.Index != uint32(i) || o.Result == mail.Pending || o.Result != mail.Untried && o.Reply.IsZero():
			t.Errorf("outcome %+v", o)
		case o.Unknown && o.Result != mail.Deferred, taken > 1, o.Result == mail.Delivered && taken == 0,
			o.Result != mail.Delivered && !o.Unknown && taken > 0:
			t.Errorf("%v of %v is %s: %v, but was taken %d times", d.Recipients[i].Address, d.Envelope.ID, what, o.Reply, taken)
		}
	}
}

// At level Overlap a message that comes while the reply to another one's content
// is awaited goes out at once: a server that does not reply before it has seen it
// shows that.
func TestSendDuringFinal(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ours, theirs := net.Pipe()
		level := mail.LevelOverlap
		c, err := New(Config{Hello: "me.example", Transports: map[string]TransportConfig{"smtp": {}}}, newFakeNet(), store{1: {data: "x\r\n"}}, dialOf(ours))
		if err != nil {
			t.Fatal(err)
		}
		go func() {
			r := bufio.NewReader(theirs)
			await := func(line string) {
				if got, err := r.ReadString('\n'); got != line+"\r\n" {
					t.Errorf("got %q, %v, want %s", got, err, line)
				}
			}
			envelope := func() {
				for _, line := range []string{"MAIL FROM:<a@example.org>", "RCPT TO:<b@example.net>", "DATA"} {
					await(line)
				}
			}
			io.WriteString(theirs, "220 mx\r\n")
			await("EHLO me.example")
			io.WriteString(theirs, "250-mx\r\n250 PIPELINING\r\n")
			envelope()
			io.WriteString(theirs, "250 ok\r\n250 ok\r\n354 go\r\n")
			for range 3 {
				await("x")
				await(".")
				envelope()
				io.WriteString(theirs, "250 taken\r\n250 ok\r\n250 ok\r\n354 go\r\n")
			}
			await("x")
			await(".")
			io.WriteString(theirs, "250 taken\r\n")
			await("QUIT")
			theirs.Close()
		}()
		k, _ := c.Dial(t.Context(), mail.Opening{Transport: "smtp", Host: mail.Host{Name: "mx", Addr: address("1")}, Level: level})
		told := 0
		var running sync.WaitGroup
		running.Go(func() {
			k.Run(t.Context(), func(_ uint64, r mail.DeliveryResult) {
				told++
				if r.Outcomes[0].Result != mail.Delivered || told < 4 && r.Send != time.Second {
					t.Errorf("result %+v", r)
				}
			})
		})
		for id := range uint64(4) {
			k.Send(id, message(1, "b@example.net"))
			time.Sleep(time.Second)
		}
		k.Hangup()
		running.Wait()
		if told != 4 {
			t.Errorf("%d told", told)
		}
	})
}

// dialOf is a Dialer with one connection.
func dialOf(c net.Conn) dialFunc {
	return func() (net.Conn, error) { return c, nil }
}

type dialFunc func() (net.Conn, error)

func (f dialFunc) Dial(context.Context, netip.Addr, netip.AddrPort) (net.Conn, error) { return f() }
