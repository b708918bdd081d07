package inbound

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/posthaste-mta/posthaste/mail"
	"github.com/posthaste-mta/posthaste/smtp"
)

// A deferredQueue is a queue of deferred mail by domains. To try mail takes some time.
type deferredQueue struct {
	takes time.Duration
	part  bool // a count does not see all
	fails error

	mu       sync.Mutex
	messages map[string]int
	flushed  []string // the domains of each Retry, with its time since began
	counted  int
	began    time.Time
	working  int
}

func (q *deferredQueue) Retry(ctx context.Context, domains []string, reason string) (int, error) {
	q.mu.Lock()
	q.flushed = append(q.flushed, fmt.Sprint(time.Since(q.began).Truncate(time.Second), " ", strings.Join(domains, " ")))
	q.working++
	if q.working > 1 || !strings.HasPrefix(reason, "ETRN ") {
		panic("two searches of the queue at once, or without a reason")
	}
	q.mu.Unlock()
	defer func() {
		q.mu.Lock()
		defer q.mu.Unlock()
		q.working--
	}()
	select {
	case <-time.After(q.takes):
	case <-ctx.Done():
		return 0, ctx.Err()
	}
	return 1, q.fails
}

func (q *deferredQueue) Count(ctx context.Context, domains []string) (n int, whole bool, err error) {
	q.mu.Lock()
	defer q.mu.Unlock()
	for _, d := range domains {
		n += q.messages[d]
	}
	q.counted++
	return n, !q.part, q.fails
}

// flushes returns what was flushed when, and forgets it.
func (q *deferredQueue) flushes() string {
	synctest.Wait()
	q.mu.Lock()
	defer q.mu.Unlock()
	defer func() { q.flushed = nil }()
	return strings.Join(q.flushed, "; ")
}

// startFlusher runs a flusher in a bubble, and a server with it, whose listener offers ETRN to some clients. The
// relay policy trusts loopback.
func startFlusher(t *testing.T, use ETRNUse, cfg FlushConfig, q *deferredQueue) (*Flusher, *testServer) {
	t.Helper()
	q.began = time.Now()
	ts := &testServer{log: &syncBuffer{}}
	f, err := NewFlusher(cfg, q, loggerTo(ts.log))
	if err != nil {
		t.Fatal(err)
	}
	log := ts.log
	ts = start(t, Config{Flusher: f}, nil, EarlyLog)
	ts.SetListeners(Listener{Listener: ts.listener, ETRN: use})
	ctx, stop := context.WithCancel(t.Context())
	ended := make(chan struct{})
	go func() {
		f.Run(ctx)
		close(ended)
	}()
	t.Cleanup(func() {
		stop()
		<-ended
		ts.end(t)
		if log.String() != "" && q.fails == nil {
			t.Errorf("the flusher logs %s", log)
		}
	})
	return f, ts
}

// etrn says ETRN and hears the reply.
func (c *client) etrn(argument, want string) {
	c.t.Helper()
	c.say("ETRN " + argument)
	if got := c.hear(want[:3]); strings.TrimSpace(got) != want {
		c.t.Errorf("ETRN %s: %q, want %q", argument, got, want)
	}
}

// A site dials in and asks for its mail. A stranger learns whether a domain may be asked for, but not whether
// there is mail for it; a client in mynetworks gets all replies of RFC 1985.
func TestETRN(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q := &deferredQueue{messages: map[string]int{"a.example": 3, ".d.example": 1, "bücher.example": 1}}
		_, ts := startFlusher(t, ETRNAll, FlushConfig{Domains: []string{"A.example", "b.example", ".c.example", "d.example", ".d.example", "bücher.example"}}, q)
		stranger, own := ts.dial(t, "192.0.2.1"), ts.dial(t, "127.0.0.1")
		stranger.hear("220")
		stranger.say("EHLO x")
		if lines := stranger.hearAll(); !strings.Contains(lines, "ETRN\n") {
			t.Errorf("EHLO is answered by %q", lines)
		}
		own.hello()
		for _, argument := range []string{"a.example", "b.example", "x.c.example", "@y.c.example", "@d.example"} {
			stranger.etrn(argument, "250 2.0.0 Queuing started")
		}
		for argument, why := range map[string]string{"x.a.example": "its mail cannot be requested here", "@a.example": "its mail cannot be requested here", "c.example": "its mail cannot be requested here", "@c.example": "its mail cannot be requested here",
			"example": "its mail cannot be requested here", "#a.example": "there are no queues with names"} {
			stranger.etrn(argument, "459 4.7.1 Node "+argument+" not allowed: "+why)
			own.etrn(argument, "459 4.7.1 Node "+argument+" not allowed: "+why)
		}
		if q.counted > 0 {
			t.Error("mail was counted for a stranger")
		}
		// One search for what was first, and one for what came while it and its pause lasted.
		time.Sleep(10 * time.Second)
		if got := q.flushes(); got != "0s a.example; 1s .d.example .y.c.example b.example x.c.example" {
			t.Error(got)
		}
		time.Sleep(time.Minute)
		own.etrn("a.example", "253 2.0.0 OK, 3 pending messages for node a.example started")
		own.etrn("a.example", "250 2.0.0 Queuing started")
		own.etrn("b.example", "251 2.0.0 OK, no messages waiting for node b.example")
		own.etrn("@d.example", "253 2.0.0 OK, 1 pending messages for node @d.example started")
		own.etrn("xn--bcher-kva.example", "253 2.0.0 OK, 1 pending messages for node xn--bcher-kva.example started")
		q.part = true
		own.etrn("@z.c.example", "250 2.0.0 Queuing started") // so far none
		own.etrn("d.example", "250 2.0.0 Queuing started")
		q.messages["e.c.example"] = 1
		own.etrn("e.c.example", "252 2.0.0 OK, pending messages for node e.c.example started")
		time.Sleep(10 * time.Second)
		if got := q.flushes(); !strings.HasSuffix(got, "xn--bcher-kva.example bücher.example") || !strings.HasPrefix(got, "1m10s a.example; 1m11s ") {
			t.Error(got)
		}
		if log := ts.log.String(); !strings.Contains(log, "msg=etrn client=127.0.0.1 domain=@d.example reply=253") || !strings.Contains(log, "msg=etrn client=192.0.2.1 domain=b.example reply=250") {
			t.Error(log)
		}
		stranger.Close()
		own.Close()
	})
}

// On a listener for trusted clients, strangers are refused; where it is off, nobody hears of ETRN.
func TestETRNUse(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q := &deferredQueue{}
		_, ts := startFlusher(t, ETRNTrusted, FlushConfig{Domains: []string{"a.example"}}, q)
		off := &testServer{Server: ts.Server, listener: newPipeListener()}
		ts.SetListeners(Listener{Listener: ts.listener, ETRN: ETRNTrusted}, Listener{Listener: off.listener})
		stranger, own, none := ts.dial(t, "192.0.2.1"), ts.dial(t, "127.0.0.1"), off.dial(t, "127.0.0.1")
		for _, c := range []*client{stranger, own, none} {
			c.hello()
			defer c.Close()
		}
		for _, argument := range []string{"a.example", "b.example"} {
			stranger.etrn(argument, "459 4.7.1 Node "+argument+" not allowed: only permitted clients may use ETRN here")
		}
		own.etrn("a.example", "251 2.0.0 OK, no messages waiting for node a.example")
		none.etrn("a.example", "502 5.5.1 Error: command not implemented")
		if got := q.flushes(); got != "0s a.example" {
			t.Error(got)
		}
	})
	for _, l := range []Listener{{ETRN: ETRNAll, Purpose: PurposeSubmission}, {ETRN: ETRNAll + 1}} {
		if err := l.Validate(); err == nil || !strings.Contains(err.Error(), "ETRN") {
			t.Errorf("%+v: %v", l, err)
		}
	}
}

// Somebody asks again and again. Mail is tried once in an interval. What a site asks for just after somebody else did is
// not lost: its mail is tried when the interval ends.
func TestETRNInterval(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q := &deferredQueue{takes: 2 * time.Second}
		f, _ := startFlusher(t, ETRNAll, FlushConfig{Domains: []string{".example"}, Interval: 5 * time.Minute}, q)
		ask := func(domain string) {
			t.Helper()
			if r := f.flush(t.Context(), flushAsked{name: smtp.ETRN{Domain: domain}, from: netip.MustParsePrefix("192.0.2.0/24")}); !r.IsZero() {
				t.Errorf("%s: %s", domain, r)
			}
			synctest.Wait()
		}
		ask("a.example")
		for range 1000 {
			ask("a.example") // while it is tried, too
			time.Sleep(50 * time.Millisecond)
		}
		ask("b.example")
		time.Sleep(time.Minute)
		if got := q.flushes(); got != "0s a.example; 50s b.example" {
			t.Error(got)
		}
		time.Sleep(time.Hour)
		if got := q.flushes(); got != "5m0s a.example" {
			t.Error(got)
		}
		ask("a.example")
		ask("b.example")
		if len(f.known) != 2 || f.strangers[netip.MustParsePrefix("192.0.2.0/24")] != 2 {
			t.Errorf("%v, %v", f.known, f.strangers)
		}
		time.Sleep(time.Hour)
		if due, wait := f.take(time.Now()); len(due)+len(f.known)+len(f.strangers) != 0 || wait != 0 {
			t.Errorf("left are %v, %v, %v, %v", due, wait, f.known, f.strangers)
		}
	})
}

// A reload takes a domain off the list: it is refused from now on, but what has been promised is done, and after a
// shorter interval.
func TestETRNConfigure(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q := &deferredQueue{}
		f, _ := startFlusher(t, ETRNAll, FlushConfig{Domains: []string{"a.example"}, Interval: time.Hour}, q)
		asked := flushAsked{name: smtp.ETRN{Domain: "a.example"}}
		f.flush(t.Context(), asked)
		synctest.Wait()
		f.flush(t.Context(), asked)
		time.Sleep(time.Minute)
		if err := f.Configure(FlushConfig{Domains: []string{"b..example"}}); err == nil || !strings.Contains(err.Error(), `fast flush domain "b..example" is not a domain name`) {
			t.Error(err)
		}
		if err := f.Configure(FlushConfig{Interval: -1}); err == nil {
			t.Error("a negative interval")
		}
		if got := q.flushes(); got != "0s a.example" {
			t.Error(got)
		}
		if err := f.Configure(FlushConfig{Domains: []string{"b.example"}, Interval: 2 * time.Minute}); err != nil {
			t.Error(err)
		}
		if r := f.flush(t.Context(), asked); r.Code != 459 {
			t.Error(r)
		}
		time.Sleep(time.Hour)
		if got := q.flushes(); got != "2m0s a.example" {
			t.Error(got)
		}
	})
}

// A backlog makes each search slow. Whatever clients ask for, four fifths of the time are without a search.
// Requests that come meanwhile share the next one.
func TestETRNRests(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q := &deferredQueue{takes: 10 * time.Second}
		f, _ := startFlusher(t, ETRNAll, FlushConfig{Domains: []string{".a.example"}}, q)
		for n := range 99 {
			f.flush(t.Context(), flushAsked{name: smtp.ETRN{Domain: fmt.Sprint("d", n%4, ".a.example")}})
			time.Sleep(time.Second)
		}
		if got := q.flushes(); got != "0s d0.a.example; 50s d1.a.example d2.a.example d3.a.example" {
			t.Error(got)
		}
	})
}

// A client asks for more and more domains below one on the list. It gets 458, others are served; with many networks
// together, memory is bounded all the same, and after an interval all is as before.
func TestETRNFlood(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q := &deferredQueue{}
		f, ts := startFlusher(t, ETRNAll, FlushConfig{Domains: []string{".a.example", "z.a.example", "b.example", "c.example", ".c.example"}}, q)
		flooder, other := ts.dial(t, "192.0.2.1"), ts.dial(t, "198.51.100.1")
		flooder.hello()
		other.hello()
		for n := range flushNetworkMax {
			flooder.etrn(fmt.Sprint("d", n, ".a.example"), "250 2.0.0 Queuing started")
		}
		flooder.etrn("dx.a.example", "458 4.7.1 Unable to queue messages for node dx.a.example")
		flooder.etrn("d0.a.example", "250 2.0.0 Queuing started") // nothing new
		other.etrn("dx.a.example", "250 2.0.0 Queuing started")
		// It may use up the room of its network for others in it, but its session ends.
		for n := range 20 {
			flooder.say(fmt.Sprint("ETRN e", n, ".a.example"))
			if line, err := flooder.replies.ReadString('\n'); err != nil || strings.HasPrefix(line, "421 ") {
				break
			} else if n == 19 || !strings.HasPrefix(line, "458 ") {
				t.Fatalf("reply %d is %q", n, line)
			}
		}
		other.Close()
		flooder.Close()
		refused := 0
		for n := range 2 * flushDomainsMax {
			from := netip.PrefixFrom(netip.AddrFrom4([4]byte{10, byte(n / 20 >> 8), byte(n / 20), 0}), 24)
			switch r := f.flush(t.Context(), flushAsked{name: smtp.ETRN{Domain: fmt.Sprint("f", n, ".a.example"), Below: n%2 > 0}, from: from}); {
			case r.Code == 458 && r.Status == mail.Status{Class: 4, Subject: 3, Detail: 2}:
				refused++
			case !r.IsZero():
				t.Fatal(n, r)
			}
			if len(f.known) > flushStrangersMax {
				t.Fatalf("%d names are known", len(f.known))
			}
		}
		if want := 2*flushDomainsMax - (flushStrangersMax - flushNetworkMax - 1); refused != want {
			t.Errorf("%d of %d are refused, want %d", refused, 2*flushDomainsMax, want)
		}
		// Trusted clients have room left, and a domain on the list itself always does.
		own := 0
		for f.flush(t.Context(), flushAsked{name: smtp.ETRN{Domain: fmt.Sprint("own", own, ".a.example")}}).IsZero() {
			own++
		}
		if own != flushDomainsMax-flushStrangersMax || len(f.known) != flushDomainsMax {
			t.Errorf("trusted clients find room for %d names; %d are known", own, len(f.known))
		}
		for _, name := range []smtp.ETRN{{Domain: "b.example"}, {Domain: "c.example"}, {Domain: "c.example", Below: true}, {Domain: "z.a.example"}, {Domain: "x.c.example", Below: true}, {Domain: "z.a.example", Below: true}} {
			r := f.flush(t.Context(), flushAsked{name: name, from: netip.MustParsePrefix("192.0.2.0/24")})
			if want := name.Domain == "x.c.example" || name.String() == "@z.a.example"; (r.Code == 458) != want {
				t.Errorf("%s: %s", name, r)
			}
		}
		time.Sleep(2 * time.Minute)
		if r := f.flush(t.Context(), flushAsked{name: smtp.ETRN{Domain: "d1.a.example"}, from: netip.MustParsePrefix("192.0.2.0/24")}); !r.IsZero() {
			t.Error(r)
		}
		synctest.Wait()
		if len(f.known) != 1 || len(f.strangers) != 1 || f.limited != 1 || f.strange != 1 {
			t.Errorf("%d names of %d networks are known, counted %d and %d", len(f.known), len(f.strangers), f.limited, f.strange)
		}
	})
}

// Many sites dial in from one provider's network, and each asks for its own domain. All are served.
//
// Seen failing: 458 for the 21st, as if one client had asked for all.
func TestETRNOfManySites(t *testing.T) {
	var domains []string
	for n := range 100 {
		domains = append(domains, fmt.Sprint("d", n, ".example"))
	}
	f, err := NewFlusher(FlushConfig{Domains: domains}, &deferredQueue{}, loggerTo(&syncBuffer{}))
	if err != nil {
		t.Fatal(err)
	}
	for _, d := range domains {
		if r := f.flush(t.Context(), flushAsked{name: smtp.ETRN{Domain: d}, from: netip.MustParsePrefix("192.0.2.0/24")}); !r.IsZero() {
			t.Fatalf("%s: %s", d, r)
		}
	}
	if f.limited+f.strange+len(f.strangers) > 0 {
		t.Errorf("%d, %d and %d count for a limit", f.limited, f.strange, len(f.strangers))
	}
}

// A client in mynetworks asks for more names than a stranger may. What waits already is not counted again for it.
func TestETRNOfTrusted(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q := &deferredQueue{takes: time.Hour}
		_, ts := startFlusher(t, ETRNAll, FlushConfig{Domains: []string{".a.example"}}, q)
		own := ts.dial(t, "127.0.0.1")
		defer own.Close()
		own.hello()
		for n := range flushNetworkMax + 1 {
			name := fmt.Sprint("d", n, ".a.example")
			own.etrn(name, "251 2.0.0 OK, no messages waiting for node "+name)
		}
		own.etrn("d1.a.example", "250 2.0.0 Queuing started")
		if q.counted != flushNetworkMax+1 {
			t.Errorf("%d counts", q.counted)
		}
	})
}

// The queue cannot be read, and then the program stops in the middle of a search.
func TestETRNFails(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q := &deferredQueue{fails: errors.New("the disk is gone")}
		log := &syncBuffer{}
		f, err := NewFlusher(FlushConfig{Domains: []string{".a.example"}}, q, loggerTo(log))
		if err != nil {
			t.Fatal(err)
		}
		ctx, stop := context.WithCancel(t.Context())
		// All names are there before Run starts, so one pass takes them together.
		var names []string
		for n := range 12 {
			names = append(names, fmt.Sprint("d", n, ".a.example"))
			f.note(time.Now(), names[n], flushAsked{})
		}
		if r := f.flush(t.Context(), flushAsked{name: smtp.ETRN{Domain: "x.a.example"}, trusted: true}); !r.IsZero() {
			t.Error(r)
		}
		ended := make(chan struct{})
		go func() {
			f.Run(ctx)
			close(ended)
		}()
		synctest.Wait()
		slices.Sort(names)
		want := `domains="` + strings.Join(names[:10], " ") + ` and 3 more" messages=1 error="the disk is gone"`
		if !strings.Contains(log.String(), want) || !strings.Contains(log.String(), `cannot count the mail for a domain" domain=x.a.example error="the disk is gone"`) {
			t.Errorf("%s\nwant %s", log, want)
		}
		time.Sleep(time.Minute)
		lines := strings.Count(log.String(), "\n")
		q.takes = time.Hour
		f.flush(t.Context(), flushAsked{name: smtp.ETRN{Domain: "x.a.example"}})
		time.Sleep(time.Minute)
		stop()
		<-ended
		if n := strings.Count(log.String(), "\n"); n != lines {
			t.Errorf("the end of the program is logged as a failure: %s", log)
		}
	})
}

// A slow count keeps one client waiting. Others get the general reply.
func TestETRNCountsOneAtATime(t *testing.T) {
	f, err := NewFlusher(FlushConfig{Domains: []string{".a.example"}}, &deferredQueue{}, loggerTo(&syncBuffer{}))
	if err != nil {
		t.Fatal(err)
	}
	f.counting.Lock()
	if r := f.flush(t.Context(), flushAsked{name: smtp.ETRN{Domain: "x.a.example"}, trusted: true}); !r.IsZero() {
		t.Error(r)
	}
	f.counting.Unlock()
	if r := f.flush(t.Context(), flushAsked{name: smtp.ETRN{Domain: "y.a.example"}, trusted: true}); r.Code != 251 {
		t.Error(r)
	}
}
