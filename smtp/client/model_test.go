package client

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"strconv"
	"strings"
	"testing"

	"github.com/posthaste-mta/posthaste/internal/golden"
	"github.com/posthaste-mta/posthaste/mail"
)

// A modelPeer is a server that a modelHost talks to.
type modelPeer interface {
	reset()                // a new connection
	receive(octets []byte) // what the client wrote
	said() []byte          // the replies since the last call
	hungUp() bool          // nothing is read any more
	find(number string) []takenMessage
}

// A modelServer is a server that keeps to the protocol, more or less, refuses
// at random, and keeps account of what it took. Every message that the tests
// send has its number in sender, recipients and content, so that it shows when
// they do not belong together.
type modelServer struct {
	rng *rand.Rand

	refusals float64 // of MAIL, RCPT, DATA and content each
	hangups  float64 // 421 to any command
	lingers  bool    // and the connection goes on all the same
	drops    float64 // the connection is gone, at any command
	mails    int     // after so many messages the connection is closed; 0 is never

	// nested: as Exim has it, a MAIL within an open envelope gets 503, what
	// follows is added to that envelope, and a refused content leaves it open.
	nested bool
	// lmtp: it answers for each recipient, and takes the message for some of them.
	lmtp bool
	// fenceless: RSET is answered and not obeyed.
	fenceless bool
	// executes: as go-smtp had it, the octets of a BDAT that is refused are
	// taken for commands.
	executes bool

	in      []byte
	replies []byte
	gone    bool
	content []byte // behind DATA; nil outside of that
	open    bool
	sender  string
	rcpts   []string
	taken   []takenMessage
	count   int
}

// A takenMessage is one that was answered with 250.
type takenMessage struct{ sender, rcpts, content string }

func (m *modelServer) reset() {
	m.in, m.replies, m.gone, m.content, m.open, m.rcpts, m.count = nil, nil, false, nil, false, nil, 0
	m.say("220 mx")
}

func (m *modelServer) said() []byte {
	replies := m.replies
	m.replies = nil
	return replies
}

func (m *modelServer) hungUp() bool { return m.gone }

func (m *modelServer) chance(p float64) bool { return m.rng.Float64() < p }

func (m *modelServer) say(text string) {
	m.replies = append(m.replies, text...)
	m.replies = append(m.replies, '\r', '\n')
}

// receive handles what the client wrote.
func (m *modelServer) receive(octets []byte) {
	m.in = append(m.in, octets...)
	for !m.gone && m.step() {
	}
}

func (m *modelServer) step() bool {
	line, rest, ok := bytes.Cut(m.in, []byte("\r\n"))
	if !ok {
		return false
	}
	if m.content == nil {
		if size, found := strings.CutPrefix(string(line), "BDAT "); found {
			return m.chunk(strings.TrimSuffix(size, " LAST"), rest)
		}
		m.in = rest
		m.command(string(line))
		return true
	}
	m.in = rest
	if string(line) != "." {
		m.content = append(append(m.content, bytes.TrimPrefix(line, []byte("."))...), '\r', '\n')
		return true
	}
	content := string(m.content)
	m.content = nil
	m.final(content)
	return true
}

// trouble reports whether a command is not answered as it should be.
func (m *modelServer) trouble() bool {
	switch {
	case m.chance(m.drops):
		m.gone = true
		return true
	case m.chance(m.hangups):
		m.say("421 4.3.2 closing")
		m.gone = !m.lingers
		return true
	}
	return false
}

func (m *modelServer) chunk(size string, rest []byte) bool {
	n, err := strconv.Atoi(size)
	if err != nil {
		panic("BDAT " + size)
	}
	if m.executes && (!m.open || len(m.rcpts) == 0) {
		m.in = rest
		m.say("503 5.5.1 no recipients")
		return true
	}
	if len(rest) < n {
		return false
	}
	content := string(rest[:n])
	m.in = rest[n:]
	if !m.open || len(m.rcpts) == 0 {
		if !m.trouble() {
			m.say("503 5.5.1 no recipients")
		}
		return true
	}
	m.final(content)
	return true
}

func (m *modelServer) final(content string) {
	if m.lmtp {
		m.finals(content)
		return
	}
	if m.trouble() {
		return
	}
	if m.chance(m.refusals) {
		m.say([]string{"451 4.3.0 trouble", "554 5.6.0 spam"}[m.rng.IntN(2)])
		m.open = m.open && m.nested
		return
	}
	m.taken = append(m.taken, takenMessage{m.sender, strings.Join(m.rcpts, " "), content})
	m.open = false
	m.count++
	m.say("250 2.0.0 taken")
	m.gone = m.count == m.mails || m.chance(m.drops)
}

// finals answers for each recipient. Trouble may come between two.
func (m *modelServer) finals(content string) {
	m.open = m.open && m.nested
	for _, to := range m.rcpts {
		switch {
		case m.gone || m.trouble():
		case m.chance(m.refusals):
			m.say([]string{"452 4.2.2 full", "550 5.2.1 disabled"}[m.rng.IntN(2)])
		default:
			m.taken = append(m.taken, takenMessage{m.sender, to, content})
			m.open = false
			m.say("250 2.1.5 taken")
		}
	}
	m.count++
	m.gone = m.gone || m.count == m.mails || m.chance(m.drops)
}

func (m *modelServer) command(line string) {
	verb, arg, _ := strings.Cut(line, " ")
	if m.trouble() {
		m.open = m.open && verb != "RSET" // which it obeys, if it is still there
		return
	}
	switch verb {
	case map[bool]string{false: "EHLO", true: "LHLO"}[m.lmtp]:
		m.say("250-mx\r\n250-PIPELINING\r\n250-CHUNKING\r\n250 SIZE")
	case "RSET":
		m.open = m.open && m.fenceless
		m.say("250 2.0.0 reset")
	case "NOOP":
		m.say("250 2.0.0 noop")
	case "QUIT":
		m.say("221 2.0.0 bye")
		m.gone = true
	case "MAIL":
		m.mail(arg)
	case "RCPT":
		m.rcpt(arg)
	case "DATA":
		m.data()
	default:
		m.say("500 5.5.2 what")
	}
}

func (m *modelServer) mail(arg string) {
	switch {
	case m.open && m.nested:
		m.say("503 5.5.1 sender already given")
	case m.chance(m.refusals):
		m.open = false
		m.say([]string{"450 4.7.1 not now", "550 5.7.1 not you"}[m.rng.IntN(2)])
	default:
		m.open, m.rcpts = true, nil
		m.sender, _, _ = strings.Cut(strings.TrimPrefix(arg, "FROM:<"), ">")
		m.say("250 2.1.0 ok")
	}
}

func (m *modelServer) rcpt(arg string) {
	switch {
	case !m.open:
		m.say("503 5.5.1 no sender")
	case m.chance(m.refusals):
		m.say([]string{"450 4.2.1 later", "550 5.1.1 unknown", "452 4.5.3 too many"}[m.rng.IntN(3)])
	default:
		to, _, _ := strings.Cut(strings.TrimPrefix(arg, "TO:<"), ">")
		m.rcpts = append(m.rcpts, to)
		m.say("250 2.1.5 ok")
	}
}

func (m *modelServer) data() {
	switch {
	case !m.open || len(m.rcpts) == 0 && (m.lmtp || m.chance(0.8)):
		m.say("503 5.5.1 no recipients")
	case m.chance(m.refusals):
		m.say("451 4.3.0 not now")
	default:
		m.content = []byte{}
		m.say("354 go")
	}
}

// A modelHost drives a session against a modelServer, with octets on the way
// in both directions, in portions, and writes that are cut short.
type modelHost struct {
	rng     *rand.Rand
	server  modelPeer
	session *Session
	level   Level

	lmtp    bool
	numbers int // transactions that were made
	left    int // to be started on the present session
	running []*Transaction
	written []byte // by the present session
	sent    int    // of these, how many have arrived
	coming  []byte
	given   map[*Transaction]int // octets of content supplied

	withholds bool // now and then
	withheld  map[*Transaction]bool
	bufs      [][]byte

	verdicts  map[Verdict]int
	kinds     map[FailureKind]int
	strays    int
	fenceless bool // the server's RSET is not obeyed
	overlaps  bool // a transaction was started while another was under way
}

func (h *modelHost) number(t *Transaction) string { return fmt.Sprint(uint64(t.Envelope.ID)) }

// body returns the content of a message. Some of its lines are commands, for
// servers that obey them, and some begin with dots.
func (h *modelHost) body(t *Transaction) string {
	n := h.number(t)
	text := "Number: " + n + "\r\n\r\nRSET\r\nMAIL FROM:<evil>\r\nRCPT TO:<evil>\r\nBDAT 6 LAST\r\nevil\r\n.\r\n..x\r\n"
	if t.Envelope.ID%5 == 0 {
		text += strings.Repeat("filler filler filler filler\r\n", 60)
	}
	return text + "End: " + n + "\r\n"
}

func (h *modelHost) transaction() *Transaction {
	h.numbers++
	t := &Transaction{Envelope: mail.Envelope{ID: mail.QueueID(h.numbers)}}
	t.Envelope.Sender = mail.Address("from-" + h.number(t) + "@x.example")
	t.Envelope.Size = int64(len(h.body(t)))
	t.Unstreamed = h.rng.IntN(6) == 0
	for i := range 1 + h.rng.IntN(3) {
		t.Recipients = append(t.Recipients, mail.Recipient{Address: mail.Address(fmt.Sprintf("to-%s-%d@y.example", h.number(t), i))})
	}
	return t
}

// run sends some transactions over one connection.
func (h *modelHost) run() error {
	h.session = New(Config{Hello: "me", Level: h.level, InFlight: 2 + h.rng.IntN(6), LMTP: h.lmtp})
	h.left, h.written, h.sent, h.coming = 1+h.rng.IntN(12), nil, 0, nil
	h.given, h.withheld = map[*Transaction]int{}, map[*Transaction]bool{}
	h.withholds = h.rng.IntN(2) == 0
	h.server.reset()
	for step := 0; ; step++ {
		if step > 20000 {
			return fmt.Errorf("the dialogue does not end")
		}
		progress := h.step()
		if err := h.collect(); err != nil {
			return err
		}
		if h.session.Over() {
			if len(h.running) > 0 {
				return fmt.Errorf("%d transactions got no results", len(h.running))
			}
			h.kinds[h.session.Failure().Kind]++
			return nil
		}
		if !progress {
			if endless(h.session) {
				return fmt.Errorf("nothing would end this")
			}
			h.session.End(LossTimeout)
		}
	}
}

// step does a few things in random order and reports whether anything happened.
func (h *modelHost) step() (progress bool) {
	s := h.session
	for h.left > 0 && s.Room() && h.rng.IntN(4) > 0 {
		t := h.transaction()
		h.overlaps = h.overlaps || len(h.running) > 0
		h.running = append(h.running, t)
		h.left--
		s.Start(t)
		progress = true
	}
	if h.left > 0 && s.Room() {
		progress = true
	}
	if h.left == 0 && s.Idle() {
		s.Quit()
	}
	if t := s.Wanting(); t != nil {
		h.supply(t)
		progress = true
	}
	if h.rng.IntN(3) > 0 || s.Wanting() == nil {
		progress = h.write() || progress
	}
	return h.transfer() || progress
}

// endless reports whether a session is of no use to its host, and yet waits for
// nothing, so that no time would be up. There is nothing to be written.
func endless(s *Session) bool {
	return s.Wait().Kind == WaitNothing && s.mayMail() && !s.Over() && !s.Idle()
}

func (h *modelHost) supply(t *Transaction) {
	if h.withholds && h.rng.IntN(20) == 0 {
		h.withheld[t] = true
		h.session.Withhold()
		return
	}
	body := h.body(t)[h.given[t]:]
	n := len(body)
	if !t.Whole() && h.rng.IntN(2) == 0 {
		n = h.rng.IntN(n)
	}
	h.given[t] += n
	h.session.Supply([]byte(body[:n]), n == len(body))
}

// write writes the pending output, or a part of it. Now and then replies to it are
// read before the write is known to be complete.
func (h *modelHost) write() bool {
	h.bufs = h.session.Out(h.bufs[:0])
	out := bytes.Join(h.bufs, nil)
	if len(out) == 0 {
		return false
	}
	n := len(out)
	if h.rng.IntN(3) == 0 {
		n = h.rng.IntN(n + 1)
	}
	before := len(h.written)
	h.written = append(h.written, out[:n]...)
	for range h.rng.IntN(3) {
		h.transfer()
	}
	h.session.Written(n)
	if h.session.Over() { // it had to take all for written that it gave
		h.written = append(h.written[:before], out...)
	}
	return true
}

// transfer moves portions of octets both ways, until the connection is gone.
func (h *modelHost) transfer() (progress bool) {
	m := h.server
	if h.sent < len(h.written) && !m.hungUp() {
		n := 1 + h.rng.IntN(len(h.written)-h.sent)
		m.receive(h.written[h.sent : h.sent+n])
		h.sent += n
		progress = true
	}
	h.coming = append(h.coming, m.said()...)
	if len(h.coming) > 0 {
		n := 1 + h.rng.IntN(len(h.coming))
		h.session.Feed(h.coming[:n])
		h.coming = h.coming[n:]
		return true
	}
	if m.hungUp() && !h.session.Over() {
		h.session.End(LossClosed)
		return true
	}
	return progress
}

// collect checks transactions that are done.
func (h *modelHost) collect() error {
	for t := h.session.Next(); t != nil; t = h.session.Next() {
		if len(h.running) == 0 || t != h.running[0] {
			return fmt.Errorf("message %s is done out of order", h.number(t))
		}
		h.running = h.running[1:]
		if err := h.check(t); err != nil {
			return fmt.Errorf("message %s: %w", h.number(t), err)
		}
	}
	return nil
}

// check compares what became of a message with what the server says.
func (h *modelHost) check(t *Transaction) error {
	taken := h.server.find(h.number(t))
	mixed := len(taken) > 1 && !h.lmtp
	for i := range taken {
		mixed = mixed || !h.own(t, taken[i])
	}
	if t.Astray() {
		h.strays++
		if !mixed {
			return fmt.Errorf("said to have gone astray: %q", taken)
		}
		return nil
	}
	if mixed && !(h.fenceless && t.has(Doubtful)) {
		return fmt.Errorf("went out under a wrong envelope: %q", taken)
	}
	for i, r := range t.Results {
		h.verdicts[r.Verdict]++
		times := 0
		for _, m := range taken {
			times += strings.Count(" "+m.rcpts+" ", " "+string(t.Recipients[i].Address)+" ")
		}
		has := times > 0
		switch {
		case times > 1:
			return fmt.Errorf("recipient %d has the message %d times", i, times)
		case h.withheld[t] && (has || r.Verdict == Delivered || r.Verdict == Doubtful):
			return fmt.Errorf("recipient %d is %v, but the content was withheld", i, r.Verdict)
		case r.Verdict == Pending || r.Verdict == Accepted:
			return fmt.Errorf("recipient %d is left %v", i, r.Verdict)
		case r.Verdict == Delivered && !has:
			return fmt.Errorf("recipient %d is lost", i)
		case r.Verdict != Delivered && r.Verdict != Doubtful && has:
			return fmt.Errorf("recipient %d is %v (%v), but the server has taken the message", i, r.Verdict, r.Reply)
		case r.Verdict == Doubtful && !bytes.Contains(h.written, []byte("End: "+h.number(t)+"\r\n")):
			return fmt.Errorf("recipient %d is doubtful, but the content was not written", i)
		case r.Verdict == Deferred && r.Reply.Code < 400, r.Verdict == Failed && r.Reply.Code < 500:
			return fmt.Errorf("recipient %d is %v because of %v", i, r.Verdict, r.Reply)
		}
	}
	return nil
}

// own reports whether what the server took has the envelope and the content of a
// message, and nothing else. A server may add fields to its head.
func (h *modelHost) own(t *Transaction, taken takenMessage) bool {
	own := taken.sender == string(t.Envelope.Sender) && strings.HasSuffix(taken.content, h.body(t))
	for rcpt := range strings.FieldsSeq(taken.rcpts) {
		own = own && strings.HasPrefix(rcpt, "to-"+h.number(t)+"-")
	}
	return own
}

func (m *modelServer) find(number string) (list []takenMessage) {
	for _, t := range m.taken {
		if strings.Contains(t.content, "Number: "+number+"\r\n") {
			list = append(list, t)
		}
	}
	return list
}

func newModelHost(rng *rand.Rand, level Level, server modelPeer) *modelHost {
	return &modelHost{rng: rng, level: level, server: server, verdicts: map[Verdict]int{}, kinds: map[FailureKind]int{}}
}

// newModelServer returns a server of some temper.
func newModelServer(rng *rand.Rand) *modelServer {
	pick := func(list ...float64) float64 { return list[rng.IntN(len(list))] }
	return &modelServer{
		rng: rng, refusals: pick(0, 0.1, 0.4), hangups: pick(0, 0, 0.02), drops: pick(0, 0, 0.03),
		lingers: rng.IntN(2) == 0, mails: int(pick(0, 0, 1, 3)), nested: rng.IntN(2) == 0,
	}
}

// Against servers that refuse at random, lose connections, say 421, close after
// some messages, and leave envelopes open as Exim does: no message goes out
// under another one's envelope, none is lost that is called delivered, none was
// taken that is called anything but delivered or doubtful, at every level.
func TestModelServer(t *testing.T) {
	seed := testSeed()
	for level := LockStep; level <= Stream; level++ {
		t.Run(level.String(), func(t *testing.T) { modelRounds(t, seed, level, false) })
	}
	for level := LockStep; level <= Overlap; level++ {
		t.Run("lmtp "+level.String(), func(t *testing.T) { modelRounds(t, seed, level, true) })
	}
}

func modelRounds(t *testing.T, seed uint64, level Level, lmtp bool) {
	verdicts, kinds, overlaps := map[Verdict]int{}, map[FailureKind]int{}, 0
	rounds := uint64(600)
	if lmtp {
		rounds = 250
	}
	if golden.Runs(0) == 0 {
		rounds /= 2
	}
	for round := range rounds {
		rng := rand.New(rand.NewPCG(seed, round))
		server := newModelServer(rng)
		server.executes = level < Stream // where it must not matter
		server.lmtp = lmtp
		h := newModelHost(rng, level, server)
		h.lmtp = lmtp
		for range 4 {
			if err := h.run(); err != nil {
				t.Fatalf("%v, seed %d round %d: %v", level, seed, round, err)
			}
		}
		if h.strays > 0 {
			t.Fatalf("%v, seed %d round %d: a message went astray though RSET works", level, seed, round)
		}
		add(verdicts, h.verdicts)
		add(kinds, h.kinds)
		if h.overlaps {
			overlaps++
		}
	}
	if kinds[FailProtocol] > 0 || kinds[FailFence] > 0 || kinds[FailTimeout] > 0 {
		t.Errorf("%v: a server that keeps to the protocol was found not to: %v", level, kinds)
	}
	for v := Delivered; v <= Doubtful; v++ {
		if verdicts[v] == 0 {
			t.Errorf("%v: no recipient was ever %v, so the test shows little", level, v)
		}
	}
	if (overlaps > 0) != (level >= Overlap) {
		t.Errorf("%v: transactions were under way together in %d rounds", level, overlaps)
	}
}

// What the level must not be for: a server that obeys the octets of a refused
// BDAT sends what the author of a message wanted it to. Below level Stream it
// gets no BDAT, whatever it offers.
func TestModelServerThatExecutes(t *testing.T) {
	seed := testSeed()
	for level := LockStep; level <= Stream; level++ {
		evil := 0
		for round := range uint64(100) {
			rng := rand.New(rand.NewPCG(seed, round))
			server := &modelServer{rng: rng, refusals: 0.4, executes: true}
			h := newModelHost(rng, level, server)
			if err := h.run(); err != nil && level < Stream {
				t.Fatalf("%v, seed %d round %d: %v", level, seed, round, err)
			}
			for _, m := range server.taken {
				if m.content == "evil\r\n" {
					evil++
				}
			}
		}
		if (evil > 0) != (level == Stream) {
			t.Errorf("%v: %d messages were sent by messages", level, evil)
		}
	}
}

// A server whose RSET is no fence makes streamed messages go out with the sender
// of others. By the time this is detected it cannot be undone, but it is detected,
// the session stops at once, and no further message is sent that way. Below level
// Stream it does not happen.
func TestModelServerWithoutFence(t *testing.T) {
	seed := testSeed()
	for level := LockStep; level <= Stream; level++ {
		strays, fences := 0, 0
		for round := range uint64(600) {
			rng := rand.New(rand.NewPCG(seed, round))
			server := newModelServer(rng)
			server.nested, server.fenceless = true, true
			h := newModelHost(rng, level, server)
			h.fenceless = true
			if err := h.run(); err != nil {
				t.Fatalf("%v, seed %d round %d: %v", level, seed, round, err)
			}
			strays += h.strays
			fences += h.kinds[FailFence]
		}
		if (strays > 0) != (level == Stream) || (fences > 0) != (level == Stream) {
			t.Errorf("%v: %d messages went astray, %d sessions ended for that", level, strays, fences)
		}
	}
}

// A probe distinguishes servers that support streaming from those that execute the
// content of a refused BDAT, however the replies are split.
func TestModelServerProbe(t *testing.T) {
	seed := testSeed()
	for round := range uint64(200) {
		rng := rand.New(rand.NewPCG(seed, round))
		server := &modelServer{rng: rng, executes: round%2 == 0}
		h := newModelHost(rng, Overlap, server)
		s := New(Config{Hello: "me", Level: Overlap})
		h.session, h.left, h.given = s, 1, map[*Transaction]int{}
		server.reset()
		want := map[bool]ProbeResult{false: ProbePassed, true: ProbeExecuted}[server.executes]
		for step := 0; !s.Over() && step < 10000; step++ {
			if h.left == 0 && s.MayProbe() {
				s.Probe("from-1@x.example")
			}
			h.step()
		}
		if s.Probed() != want {
			t.Fatalf("seed %d round %d: the probe says %v, want %v", seed, round, s.Probed(), want)
		}
	}
}

func add[K comparable](sum, more map[K]int) {
	for k, n := range more {
		sum[k] += n
	}
}
