package daemon

import (
	"bytes"
	"context"
	"flag"
	"fmt"
	"hash/crc32"
	"log/slog"
	"maps"
	"net"
	"os"
	"runtime/debug"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/posthaste-mta/posthaste/config"
	"github.com/posthaste-mta/posthaste/driver"
	"github.com/posthaste-mta/posthaste/internal/event"
	"github.com/posthaste-mta/posthaste/internal/feed"
	"github.com/posthaste-mta/posthaste/internal/sink"
	"github.com/posthaste-mta/posthaste/mail"
)

// The tests of the whole program run it in this process, on a directory of its
// own and free ports of the loopback interface, with receivers of
// internal/sink. They use real time; what they wait for is a state, and never
// a time to pass.

// patience is the time for which a test waits for a state. Only a test that fails, or a
// machine that is busy with other things, comes near it.
const patience = time.Minute

// TestMain has more tests run abreast than there are processors, since most of them wait
// for the network, the disk or a timer. A hundred daemons that live for a second each need
// no tidy heap: collecting it took a tenth of the tests' processor time.
func TestMain(m *testing.M) {
	flag.Parse()
	debug.SetGCPercent(400)
	if abreast := flag.Lookup("test.parallel"); abreast.Value.String() == abreast.DefValue {
		if err := abreast.Value.Set("16"); err != nil {
			panic(err)
		}
	}
	os.Exit(m.Run())
}

// quiet is for daemons that are not to start.
var quiet = Options{Log: slog.New(slog.DiscardHandler)}

// A rig is a daemon at work.
type rig struct {
	t     *testing.T
	dir   string
	log   *transcript
	d     *Daemon
	stop  context.CancelFunc // makes run return
	ended chan error         // what run returned
}

// start runs a daemon on a directory that may have been used before. The text
// is its configuration besides what all have in common.
func start(t *testing.T, dir, text string) *rig {
	t.Helper()
	return startTraced(t, dir, text, nil)
}

// startTraced does the same, and has the daemon recorded.
func startTraced(t *testing.T, dir, text string, tracer driver.Tracer) *rig {
	t.Helper()
	return startWith(t, dir, text, Options{Tracer: tracer})
}

// startWith does the same with any options, but for the log.
func startWith(t *testing.T, dir, text string, o Options) *rig {
	t.Helper()
	r := &rig{t: t, dir: dir, log: &transcript{}, ended: make(chan error, 1)}
	o.Log = event.NewStrict(r.log, nil, func(err error) { t.Error(err) })
	d, err := New(configure(t, dir, text), o)
	if err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(context.Background())
	r.d, r.stop = d, stop
	go func() { r.ended <- d.Run(ctx) }()
	t.Cleanup(func() {
		if r.ended != nil {
			r.end()
		}
		if t.Failed() {
			t.Logf("end of the daemon's log:\n%s", r.log.tail(16<<10))
		}
	})
	return r
}

// configure makes a configuration for a test.
func configure(t *testing.T, dir, text string) *config.Config {
	t.Helper()
	if !strings.Contains(text, "dns.servers") {
		text = "dns.servers = [\"127.0.0.1:1\"]\n" + text // where no server answers
	}
	cfg, err := config.Parse("test.toml", []byte(common(dir)+text), config.Environment{Hostname: "mta.test"})
	if err != nil {
		t.Fatal(err)
	}
	return cfg
}

// common is the configuration that all tests have: no other port than a free
// one, and a small spool. It ends in the top table.
func common(dir string) string {
	return fmt.Sprintf(`
queue_directory = %q
listen = ["127.0.0.1:0"]
spool.ballast_size = "64K"
`, dir)
}

// end stops the daemon as a signal would and waits for it.
func (r *rig) end() {
	r.t.Helper()
	r.stop()
	if err := <-r.ended; err != nil {
		r.t.Errorf("the daemon ended with: %v", err)
	}
	r.ended = nil
}

// address is where the daemon takes mail.
func (r *rig) address() string { return r.d.addresses()[0] }

// until waits for a state.
func (r *rig) until(what string, reached func() bool) {
	r.t.Helper()
	await(r.t, what, reached)
}

// await asks again and again, since a daemon does not report when its disk, its
// core and a receiver have come to a state together.
func await(t *testing.T, what string, reached func() bool) {
	t.Helper()
	pause := time.Millisecond
	end := time.After(patience)
	for !reached() {
		select {
		case <-time.After(pause):
			pause = min(pause*5/4, 20*time.Millisecond) // to ask takes processor time
		case <-end:
			t.Fatalf("not reached within %v: %s", patience, what)
		}
	}
}

// A census is how many messages are in each area at one moment.
type census [mail.AreaCorrupt + 1]uint64

func (r *rig) census() census {
	r.t.Helper()
	st, err := r.d.spool.Stats(context.Background())
	if err != nil {
		r.t.Fatal(err)
	}
	return st.Messages
}

// waiting waits until exactly these messages rest in the spool, and none is in
// core: an order to try all deferred mail passes by what is still in core.
func (r *rig) waiting(what string, want census) {
	r.t.Helper()
	r.until(what, func() bool {
		view, err := r.d.driver.View(context.Background(), 0)
		if err != nil {
			r.t.Fatal(err)
		}
		return view.Messages == 0 && r.census() == want
	})
}

// settled waits until no mail is left: all was delivered, reported on, or
// dropped.
func (r *rig) settled() {
	r.t.Helper()
	r.waiting("an empty spool", census{})
}

// ids returns the messages in an area.
func (r *rig) ids(area mail.Area) []mail.QueueID {
	r.t.Helper()
	found, err := r.d.spool.Find(context.Background(), area, mail.Cursor{}, 1000)
	if err != nil {
		r.t.Fatal(err)
	}
	var ids []mail.QueueID
	for _, c := range found.Cursors {
		ids = append(ids, c.ID)
	}
	return ids
}

// feed submits messages, which must all be accepted.
func (r *rig) feed(messages ...feed.Message) {
	r.t.Helper()
	c := r.dial()
	for _, m := range messages {
		if got := c.Send(m); got.Fate != feed.Accepted {
			r.t.Fatalf("message for %s: %+v", m.Recipients[0], got)
		}
	}
	if err := c.Close(); err != nil {
		r.t.Error(err)
	}
}

func (r *rig) dial() *feed.Client {
	r.t.Helper()
	c, err := feed.Dial(context.Background(), "tcp", r.address())
	if err != nil {
		r.t.Fatal(err)
	}
	return c
}

// letter is a small message with a key by which receivers know it.
func letter(key string, to ...mail.Address) feed.Message {
	return feed.Message{Sender: "sender@origin.test", Recipients: to, Content: text(key, "Hello.\r\n")}
}

// text is a message's content. The body is what receivers sum up.
func text(key, body string) []byte {
	return []byte("From: <sender@origin.test>\r\nMessage-ID: " + key + "\r\nSubject: test\r\n\r\n" + body)
}

// A mailbox is a receiver that keeps everything.
type mailbox struct {
	*sink.Server
	address string

	mu    sync.Mutex
	taken []sink.Delivery
}

// receive starts a receiver on some listeners, or on a free port.
func receive(t *testing.T, cfg sink.Config, on ...net.Listener) *mailbox {
	t.Helper()
	if len(on) == 0 {
		on = []net.Listener{listen(t)}
	}
	m := &mailbox{address: on[0].Addr().String()}
	cfg.ContentKept = max(cfg.ContentKept, 64<<10)
	before := cfg.WithDefaults().Taken
	cfg.Taken = func(d sink.Delivery) {
		before(d)
		m.mu.Lock()
		defer m.mu.Unlock()
		m.taken = append(m.taken, d)
	}
	var err error
	if m.Server, err = sink.New(cfg); err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(context.Background())
	served := make(chan error, 1)
	go func() { served <- m.Serve(ctx, on...) }()
	t.Cleanup(func() {
		stop()
		if err := <-served; err != nil {
			t.Error(err)
		}
	})
	return m
}

func listen(t *testing.T) net.Listener {
	t.Helper()
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	return ln
}

// refuse gives the receiver a fault that always happens; without kind, none.
func (m *mailbox) refuse(stage sink.Stage, kind sink.Kind) {
	if err := m.SetFaults([]sink.Fault{{Stage: stage, Kind: kind, Share: 1}}); err != nil {
		panic(err)
	}
}

func (m *mailbox) accept() {
	if err := m.SetFaults(nil); err != nil {
		panic(err)
	}
}

// deliveries returns what has been taken so far.
func (m *mailbox) deliveries() []sink.Delivery {
	m.mu.Lock()
	defer m.mu.Unlock()
	return slices.Clone(m.taken)
}

// A copies counts, for "key recipient", how often it was delivered.
type copies map[string]int

func (c copies) add(key string, recipients ...mail.Address) {
	for _, to := range recipients {
		c[key+" "+string(to)]++
	}
}

// copies counts what has been taken.
func (m *mailbox) copies() copies {
	c := make(copies)
	for _, d := range m.deliveries() {
		c.add(d.Key, d.Recipients...)
	}
	return c
}

// matches complains about everything that was not delivered exactly as wanted.
func (c copies) matches(t *testing.T, want copies) {
	t.Helper()
	complaints := 0
	for _, pair := range slices.Sorted(maps.Keys(union(c, want))) {
		if c[pair] == want[pair] {
			continue
		}
		if complaints++; complaints > 10 {
			t.Fatal("and so on")
		}
		t.Errorf("%s: delivered %d times, want %d", pair, c[pair], want[pair])
	}
}

func union(a, b copies) copies {
	both := maps.Clone(a)
	maps.Copy(both, b)
	return both
}

// sum is what a receiver's sum of a body is.
func sum(body string) uint32 {
	return crc32.Checksum([]byte(body), crc32.MakeTable(crc32.Castagnoli))
}

// routes is the table that sends domains to receivers.
func routes(pairs ...string) string {
	var b strings.Builder
	b.WriteString("[routes]\n")
	for i := 0; i < len(pairs); i += 2 {
		fmt.Fprintf(&b, "%q = %q\n", pairs[i], to(pairs[i+1]))
	}
	return b.String()
}

// to is a route's target: an address becomes one that smtp connects to,
// everything else stays as it is.
func to(target string) string {
	host, port, err := net.SplitHostPort(target)
	if err != nil || net.ParseIP(host) == nil {
		return target
	}
	return "smtp:[" + host + "]:" + port
}

// A transcript is a log in memory.
type transcript struct {
	mu  sync.Mutex
	buf bytes.Buffer
}

func (l *transcript) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.buf.Write(p)
}

// count counts the lines that contain all of the texts.
func (l *transcript) count(texts ...string) (n int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for line := range bytes.Lines(l.buf.Bytes()) {
		if !slices.ContainsFunc(texts, func(text string) bool { return !bytes.Contains(line, []byte(text)) }) {
			n++
		}
	}
	return n
}

func (l *transcript) tail(max int) string {
	l.mu.Lock()
	defer l.mu.Unlock()
	all := l.buf.Bytes()
	return string(all[len(all)-min(len(all), max):])
}
