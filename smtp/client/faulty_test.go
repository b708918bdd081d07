package client

import (
	"flag"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/posthaste-mta/posthaste/internal/golden"
	"github.com/posthaste-mta/posthaste/mail"
)

var seedFlag = flag.Uint64("client.seed", 0, "seed of the tests with random servers; 0 takes another one each time")

var roundsFlag = flag.Uint64("client.rounds", 800, "how many hostile servers there are")

// testSeed returns the seed that was asked for, or any.
func testSeed() uint64 {
	if *seedFlag != 0 {
		return *seedFlag
	}
	return rand.Uint64()
}

// A faultyServer answers at random, mostly sensibly, and keeps account of what
// it said, so that a client's claims can be checked against it. It knows
// nothing of the client but the octets.
type faultyServer struct {
	rng    *rand.Rand
	faults float64 // probability of something odd in a reply

	// A server that makes up for a reply that is missing by one too many cannot
	// be found out, nor one that doubles a reply and then says 354 to RCPT, or to
	// DATA though it refused MAIL or all RCPTs: the refusal of the command before
	// is taken for that of DATA. So one that swallows replies never doubles them,
	// and one that doubles them says 354 only to DATA with recipients. For the same
	// reason the reply to content is never swallowed when a MAIL is behind it: the
	// reply to that would be taken for it (RFC 2920 has no remedy).
	swallows bool
	overlaps bool

	in      string // octets not handled yet
	replies string // octets not fed yet
	gone    bool

	content bool            // a 354 was said and the content is not over
	mailOK  bool            // the last MAIL got a 2yz
	rcptOK  map[string]bool // recipients of it that got a 2yz
	taken   map[string]bool // "message recipient" whose content got a 2yz
	would   map[string]bool // recipients whose RCPT got a 2yz after MAIL had, at any time
	message string          // the one whose content is coming
	wrongs  []string        // what no client may do

	// A hostile server has no scruples. Nothing follows from what it says but what
	// the twin, who reads along, makes of it.
	hostile bool
	mute    bool // it says no more
	chunk   bool // the content behind a BDAT is coming
	octets  bool // the client is fed one octet at a time, and the twin judges
	serial  int  // of replies
	twin    *twin
	trace   strings.Builder
	log     []byte // of the present session, for whoever has to find out what is wrong
	problem string

	commands int

	fed       int           // octets of the present session
	interrupt *interruption // nil for none
}

// An interruption is what happens once so many octets of a session were fed.
type interruption struct {
	at     int
	inject string
	then   ending
}

// An ending is what the server does behind an interruption.
type ending uint8

const (
	endsNot ending = iota // it goes on
	endsMute
	endsGone
)

func (f *faultyServer) wrong(format string, args ...any) {
	f.wrongs = append(f.wrongs, fmt.Sprintf(format, args...))
}

// say queues a reply of a class, or, at random, something else. It returns the
// class that was said last, 0 if nothing was.
func (f *faultyServer) say(codes ...int) int {
	if f.mute {
		return 0
	}
	code := codes[0]
	if f.rng.Float64() < 3*f.faults {
		code = codes[f.rng.IntN(len(codes))]
	}
	f.serial++
	if f.hostile && f.rng.Float64() < f.faults {
		return f.hostility(code)
	}
	if f.hostile || f.rng.Float64() >= f.faults {
		f.replies += fmt.Sprintf("%d #%d text\r\n", code, f.serial)
		return code / 100
	}
	switch f.rng.IntN(7) {
	case 0, 1:
		if f.swallows && !(f.overlaps && f.content) {
			return 0
		}
		if f.swallows {
			f.replies += fmt.Sprintf("%d text\r\n", code)
			return code / 100
		}
		f.replies += fmt.Sprintf("%d one\r\n%d two\r\n", code, code)
	case 2:
		f.replies += fmt.Sprintf("%d-multi\r\n%d line\r\n", code, code)
	case 3:
		f.replies += "what is this\r\n"
		return 0
	case 4:
		code = 421
		f.replies += "421 closing\r\n"
		f.gone = true
	case 5:
		f.gone = true
		return 0
	case 6:
		code = []int{200, 250, 450, 550, 503, 354}[f.rng.IntN(6)]
		if code == 354 && !f.swallows {
			code = 299
		}
		f.replies += fmt.Sprintf("%d odd\r\n", code)
	}
	return code / 100
}

// receive handles what the client wrote.
func (f *faultyServer) receive(octets string) {
	f.in += octets
	for !f.gone {
		line, rest, ok := strings.Cut(f.in, "\r\n")
		if !ok {
			return
		}
		f.in = rest
		if strings.ContainsAny(line, "\r\n") {
			f.wrong("bare CR or LF in %q", line)
		}
		switch {
		case f.chunk:
			if f.chunk = line != "X-End"; !f.chunk {
				f.say(250, 450, 550, 503)
			}
		case f.content:
			f.contentLine(line)
		default:
			f.command(line)
		}
		if f.hostile && !f.mute && f.rng.Float64() < f.faults/20 {
			f.replies += []string{"2", "250 x\r\n", "421 x\r\n", "550 x\r\n", "x\r\n"}[f.rng.IntN(5)]
		}
	}
}

func (f *faultyServer) contentLine(line string) {
	if !f.mailOK {
		f.wrong("%q was sent after MAIL was refused", line)
	}
	if id, ok := strings.CutPrefix(line, "X-Message: "); ok {
		f.message = id
	}
	if line != "." {
		if len(f.rcptOK) == 0 {
			f.wrong("content %q without an accepted recipient", line)
		}
		return
	}
	class := f.say(250, 450, 550)
	f.content = false
	if class == 2 {
		for r := range f.rcptOK {
			f.taken[f.message+" "+r] = true
		}
	}
	f.rcptOK = nil
}

func (f *faultyServer) command(line string) {
	f.commands++
	verb, arg, _ := strings.Cut(line, " ")
	switch verb {
	case "EHLO":
		if f.say(250, 502) == 2 {
			f.replies = strings.TrimSuffix(f.replies, "\r\n")
			head, last, ok := strings.Cut(f.replies, " ")
			switch {
			case ok && f.hostile && strings.Count(f.replies, "\r\n") == 0 && !f.mute:
				f.replies = head + "-" + last + "\r\n" + head + "-CHUNKING\r\n" + head + " PIPELINING"
			case ok && f.rng.IntN(2) == 0:
				f.replies = head + "-" + last + "\r\n" + head + " PIPELINING"
			}
			f.replies += "\r\n"
		}
	case "HELO", "RSET", "QUIT":
		f.say(250, 250, 500)
	case "MAIL":
		f.mailOK = f.say(250, 450, 550, 503) == 2
		f.rcptOK = map[string]bool{}
	case "RCPT":
		if f.say(250, 450, 550, 452, 552, 503) == 2 && f.rcptOK != nil {
			to, _, _ := strings.Cut(strings.TrimPrefix(arg, "TO:<"), ">")
			f.rcptOK[to] = true
			f.would[to] = f.would[to] || f.mailOK
		}
	case "DATA":
		codes := []int{354, 451, 554}
		if nobody := !f.mailOK || len(f.rcptOK) == 0; nobody && (!f.swallows || f.rng.IntN(4) > 0) {
			codes = []int{503}
		}
		f.message = "none"
		f.content = f.say(codes...) == 3
	case "BDAT":
		if f.chunk = f.rng.Float64() >= f.faults; !f.chunk {
			f.say(250, 550)
		}
	default:
		f.wrong("%q is no command", line)
	}
}

// Against a server that answers at random, every recipient gets exactly one
// verdict; none is Delivered unless the server said 2yz to its RCPT and to the
// end of its message, or in a call-out to its MAIL and its RCPT; and no content, not
// even a lone dot, goes out without a 354, nor after MAIL was refused.
func TestFaultyServer(t *testing.T) {
	seed := testSeed()
	verdicts := map[Verdict]int{}
	for round := range uint64(4000) {
		f := &faultyServer{rng: rand.New(rand.NewPCG(seed, round)), taken: map[string]bool{}, would: map[string]bool{}}
		f.faults = []float64{0, 0.02, 0.1, 0.3}[round%4]
		f.swallows = round%8 < 4
		if problem := dialogueWith(f, verdicts); problem != "" {
			t.Fatalf("seed %d round %d: %s", seed, round, problem)
		}
	}
	for v := Delivered; v <= Doubtful; v++ {
		if verdicts[v] == 0 {
			t.Errorf("no recipient was ever %v, so the test shows little", v)
		}
	}
}

// dialogueWith runs some transactions on one session and returns what was
// wrong.
func dialogueWith(f *faultyServer, verdicts map[Verdict]int) string {
	s := New(Config{Hello: "me.example", Level: Level(f.rng.IntN(3))})
	f.overlaps = s.cfg.Level == Overlap
	f.say(220, 220, 554)
	var started []*Transaction
	finished := 0
	for step := 0; ; step++ {
		if step > 10000 {
			return "the dialogue does not end"
		}
		progress := converse(f, s)
		for tx := s.Next(); tx != nil; tx = s.Next() {
			if tx != started[finished] {
				return "transactions are done out of order"
			}
			finished++
			if problem := checkResults(f, tx, verdicts); problem != "" {
				return problem
			}
		}
		switch {
		case len(f.wrongs) > 0:
			return strings.Join(f.wrongs, "; ")
		case s.Over():
			if finished != len(started) {
				return "a transaction never got its results"
			}
			return ""
		case s.Idle() && f.replies == "" && len(started) == 4:
			s.Quit()
			started = append(started, nil)
			finished++
		case len(started) < 4 && s.Room() && f.rng.IntN(3) == 0:
			started = append(started, newTestTransaction(f.rng, len(started)))
			s.Start(started[len(started)-1])
		case s.Idle() && f.replies == "" && len(started) < 4:
			started = append(started, newTestTransaction(f.rng, len(started)))
			s.Start(started[len(started)-1])
		case endless(s):
			return "nothing would end this"
		case !progress:
			s.End([]Loss{LossTimeout, LossClosed, LossAbandoned}[f.rng.IntN(3)])
		}
	}
}

// converse moves some octets in either direction and reports whether there were any.
func converse(f *faultyServer, s *Session) (progress bool) {
	if tx := s.Wanting(); tx != nil {
		id := fmt.Sprint(tx.Envelope.ID)
		if f.hostile {
			text := "X-Message\r\nX-End\r\n"
			if tx.Whole() || f.rng.IntN(2) == 0 {
				s.Supply([]byte(text), true)
			} else {
				s.Supply([]byte(text[:5]), false)
				f.write(s)
				if s.Wanting() == tx {
					s.Supply([]byte(text[5:]), true)
				}
			}
		} else if f.rng.IntN(2) == 0 {
			s.Supply([]byte("X-Message: "+id+"\r\n..\r\n"), false)
		} else {
			s.Supply([]byte("X-Message: "+id+"\n.\n.b"), true)
		}
	}
	progress = f.write(s)
	if f.replies != "" && !s.Over() {
		n := 1 + f.rng.IntN(len(f.replies))
		now := f.replies[:n]
		f.replies = f.replies[n:]
		f.feed(s, now)
		return true
	}
	if f.gone && !s.Over() {
		s.End(LossClosed)
		return true
	}
	return progress
}

// write moves what the client has to say.
func (f *faultyServer) write(s *Session) bool {
	out := take(s)
	if f.hostile {
		f.trace.WriteString(out)
		f.log = append(f.log, out...)
		f.twin.wrote(out)
	}
	f.receive(out)
	return out != ""
}

// feed moves what the server has said.
func (f *faultyServer) feed(s *Session, text string) {
	if !f.octets {
		s.Feed([]byte(text))
		return
	}
	for i := range len(text) {
		if in := f.interrupt; in != nil && f.fed == in.at {
			f.fed++
			f.feedOctets(s, in.inject)
			if in.then != endsNot {
				f.replies, f.mute, f.gone = "", true, in.then == endsGone
				return
			}
		}
		f.feedOctets(s, text[i:i+1])
		f.fed++
	}
}

func (f *faultyServer) feedOctets(s *Session, text string) {
	for i := range len(text) {
		if s.Over() {
			return
		}
		f.log = append(f.log, text[i])
		mustEnd := f.twin.read(text[i])
		if s.Feed([]byte{text[i]}); mustEnd && !s.Over() {
			f.problem = fmt.Sprintf("the session goes on behind %q", text[:i+1])
		}
	}
}

func newTestTransaction(rng *rand.Rand, n int) *Transaction {
	tx := &Transaction{Envelope: mail.Envelope{ID: mail.QueueID(n + 1), Sender: "a@example.org"}}
	if tx.Callout = rng.IntN(4) == 0; tx.Callout {
		tx.Recipients = []mail.Recipient{{Address: mail.Address(fmt.Sprintf("q%d@example.net", n))}} // used in no other transaction
		return tx
	}
	for i := range 1 + rng.IntN(4) {
		tx.Recipients = append(tx.Recipients, mail.Recipient{Address: mail.Address(fmt.Sprintf("r%d@example.net", i))})
	}
	return tx
}

func checkResults(f *faultyServer, tx *Transaction, verdicts map[Verdict]int) string {
	if len(tx.Results) != len(tx.Recipients) {
		return fmt.Sprintf("%d results for %d recipients", len(tx.Results), len(tx.Recipients))
	}
	for i, r := range tx.Results {
		verdicts[r.Verdict]++
		key := fmt.Sprintf("%v %s", tx.Envelope.ID, tx.Recipients[i].Address)
		switch {
		case r.Verdict == Pending || r.Verdict == Accepted:
			return fmt.Sprintf("%s is left %v", key, r.Verdict)
		case tx.Callout && r.Verdict == Doubtful:
			return fmt.Sprintf("%s is in doubt, and was only asked for", key)
		case tx.Callout && r.Verdict == Delivered:
			if to := string(tx.Recipients[i].Address); !f.would[to] {
				return fmt.Sprintf("%s is said to be taken, but the server would take only %v", to, f.would)
			}
		case r.Verdict == Delivered && !f.taken[key]:
			return fmt.Sprintf("%s is called delivered, but the server took only %v", key, f.taken)
		case r.Verdict != Again && r.Reply.IsZero():
			return fmt.Sprintf("%s is %v without a reply", key, r.Verdict)
		case r.Verdict == Failed && !r.Reply.Permanent() || r.Verdict == Delivered && !r.Reply.Positive():
			return fmt.Sprintf("%s is %v because of %v", key, r.Verdict, r.Reply)
		}
	}
	return ""
}

// hostility is what a hostile server says in the place of a reply with a code. It
// returns the class that a client may see.
func (f *faultyServer) hostility(code int) int {
	text := fmt.Sprintf("#%d text", f.serial)
	line := func(code int, sep, text string) { f.replies += fmt.Sprintf("%d%s%s\r\n", code, sep, text) }
	other := []int{200, 250, 251, 354, 421, 450, 452, 500, 503, 550, 552, 554}[f.rng.IntN(12)]
	switch f.rng.IntN(24) {
	case 0: // nothing
		return 0
	case 1:
		line(code, " ", text)
		line(code, " ", "again")
	case 2:
		line(other, " ", text)
		code = other
	case 3: // differing codes
		line(other, "-", text)
		line(code, " ", text)
	case 4:
		line(code, "-", text)
		line(other, " ", text)
		code = other
	case 5:
		f.replies += fmt.Sprintf("%d-%s\n%d\n", code, text, code)
	case 6:
		line(code, " ", text+"\x00\x1b[2J\xff\xfe\r\x80")
	case 7:
		line(code, " ", text+strings.Repeat("x", 4000))
	case 8:
		f.replies += fmt.Sprintf("%d-%s", code, text) + strings.Repeat("x", 70000) + "\r\n"
	case 9:
		f.replies += strings.Repeat(fmt.Sprintf("%d-%s\r\n", code, text), 201)
	case 10:
		f.replies += []string{"what\r\n", "\r\n", "\n", "\x00\r\n", "25\r\n", "999 x\r\n", "100 x\r\n", "250x\r\n", "250\rx\r\n"}[f.rng.IntN(9)]
		return 0
	case 11:
		f.gone = true
		return 0
	case 12:
		line(code, " ", text)
		f.gone = true
	case 13: // and goes on
		line(421, " ", text)
		code = 421
	case 14:
		line(421, " ", text)
		f.gone = true
		code = 421
	case 15: // part of it, and nothing more
		whole := fmt.Sprintf("%d-%s\r\n%d %s\r\n", code, text, code, text)
		f.replies += whole[:1+f.rng.IntN(len(whole)-1)]
		f.mute = true
		return 0
	case 16, 17, 18: // something behind it
		line(code, " ", text)
		f.replies += []string{"2", "250", "250-", "250 x\r\n", "354 x\r\n", "421 x\r\n", "550 x\r\n", "4", "421", "x", "\x00", "\n"}[f.rng.IntN(12)]
		f.mute = f.rng.IntN(2) == 0
	case 19:
		line(code, " ", text)
		f.mute = true
	case 20: // two at once, of different classes
		line(code, " ", text)
		line(other, " ", "x")
	case 21:
		line(code/100*100+99, " ", text)
	default:
		line(code, " ", text)
	}
	return code / 100
}

// Against a server that mixes all that is wrong with servers (replies too early, too
// many, too few, in part, with differing codes, too long, with any octets; 421, an end
// of the connection or silence anywhere) a session says what became of each recipient
// as the naive reading of the replies has it, at every level: whoever was accepted is
// Delivered if and only if the final reply was read in full; no reply counts for
// another message than its own; nothing is doubtful whose content was not sent. It
// ends at once when what is read is no reply, or is one that nothing asked for; never
// does it wait without an end; and where the octets are cut makes no difference. What
// was delivered is not sent again by a host that sends all else again.
func TestHostileServer(t *testing.T) {
	seed := testSeed()
	verdicts, kinds := map[Verdict]int{}, map[FailureKind]int{}
	for round := range *roundsFlag {
		level := Level(round % 4)
		octets, problem := hostileDialogues(seed, round, level, true, verdicts, kinds)
		if problem != "" {
			t.Fatalf("%v, seed %d round %d: %s", level, seed, round, problem)
		}
		whole, problem := hostileDialogues(seed, round, level, false, map[Verdict]int{}, map[FailureKind]int{})
		if problem != "" || whole != octets {
			t.Fatalf("%v, seed %d round %d: %s\ncut by octets:\n%s\nin portions:\n%s", level, seed, round, problem, octets, whole)
		}
	}
	for v := Delivered; v <= Doubtful; v++ {
		if verdicts[v] == 0 {
			t.Errorf("no recipient was ever %v, so the test shows little", v)
		}
	}
	for _, k := range []FailureKind{FailGreeting, FailHello, FailClosed, FailLost, FailTimeout, FailProtocol, FailStep, FailEarly, FailQuit} {
		if kinds[k] == 0 {
			t.Errorf("no session ever ended with %v", k)
		}
	}
}

// hostileDialogues sends some messages to a hostile server, in as many sessions as
// that takes, but not more than a few. It returns all that happened.
func hostileDialogues(seed, round uint64, level Level, octets bool, verdicts map[Verdict]int, kinds map[FailureKind]int) (trace, problem string) {
	rng := rand.New(rand.NewPCG(seed, round))
	f := &faultyServer{rng: rng, hostile: true, octets: octets, taken: map[string]bool{}, would: map[string]bool{}}
	f.faults = []float64{0.01, 0.05, 0.2}[rng.IntN(3)]
	var waiting [][]int // recipients still to send, by message
	for range 8 {
		waiting = append(waiting, []int{0, 1, 2}[:1+rng.IntN(3)])
	}
	for range 5 {
		if problem := f.session(level, waiting, verdicts, kinds); problem != "" {
			return f.trace.String(), problem + "\n" + string(f.log)
		}
	}
	return f.trace.String(), ""
}

// session sends what waits over one connection, and takes from waiting who need not
// be sent it again.
func (f *faultyServer) session(level Level, waiting [][]int, verdicts map[Verdict]int, kinds map[FailureKind]int) string {
	f.log, f.fed = f.log[:0], 0
	f.in, f.replies, f.gone, f.mute, f.content, f.chunk, f.twin = "", "", false, false, false, false, newTwin()
	s := New(Config{Hello: "me.example", Level: level, InFlight: 2 + f.rng.IntN(4)})
	f.say(220, 220, 554)
	var started, numbers []int
	var txs []*Transaction
	next := 0
	for step := 0; ; step++ {
		if step > 100000 {
			return "the dialogue does not end"
		}
		progress := converse(f, s)
		if f.problem != "" {
			return f.problem
		}
		for tx := s.Next(); tx != nil; tx = s.Next() {
			if tx != txs[len(started)] {
				return "transactions are done out of order"
			}
			n := numbers[len(started)]
			started = append(started, n)
			fmt.Fprintf(&f.trace, "%d %v\n", n, tx.Results)
			if problem := f.twin.check(tx); problem != "" && f.octets {
				return problem
			}
			var again []int
			for i, r := range tx.Results {
				verdicts[r.Verdict]++
				if r.Verdict != Delivered && r.Verdict != Failed {
					again = append(again, i)
				}
			}
			waiting[n] = again
		}
		for next < len(waiting) && len(waiting[next]) == 0 {
			next++
		}
		switch {
		case s.Over():
			if len(started) != len(txs) {
				return "a transaction never got its results"
			}
			kinds[s.Failure().Kind]++
			fmt.Fprintf(&f.trace, "%v\n", s.Failure())
			return ""
		case next < len(waiting) && s.Room() && (f.rng.IntN(3) > 0 || s.Idle()):
			tx := &Transaction{Envelope: mail.Envelope{Sender: mail.Address(fmt.Sprintf("m%d@x", next)), Size: 40}, Unstreamed: f.rng.IntN(8) == 0}
			for _, i := range waiting[next] {
				tx.Recipients = append(tx.Recipients, mail.Recipient{Address: mail.Address(fmt.Sprintf("r%d.%d@y", next, i))})
			}
			txs, numbers = append(txs, tx), append(numbers, next)
			next++
			s.Start(tx)
		case next >= len(waiting) && s.Idle() && f.replies == "":
			s.Quit()
		case progress:
		case endless(s):
			return "nothing would end this"
		default:
			s.End(LossTimeout)
		}
	}
}

// A server that is well-behaved but for one moment, at each octet that it says, in each
// state and at each level: it stops, or hangs up, or says something more, whole or in
// part, and goes on, stops or hangs up. A session makes of it what the twin does, and a
// second one sends what is left. A plain run takes every seventh octet, one with
// POSTHASTE_RUNS all of them.
func TestInterruptedAtEachOctet(t *testing.T) {
	injections := []string{"", "2", "250-", "250-x\r\n", "250 x\r\n", "\n", "\x00", "421 x\r\n", "354 x\r\n", "550 x\r\n",
		"550-x\r\n421 y\r\n", "250 x\r\n250 y\r\n", "220 x\r\n250-x\r\n250 CHUNKING\r\n"}
	step := max(7/golden.Runs(1), 1)
	if testing.Short() {
		step = 7
	}
	kinds := map[FailureKind]int{}
	for level := LockStep; level <= Stream; level++ {
		for _, in := range injections {
			for then := endsNot; then <= endsGone; then++ {
				for at, more := 0, true; more; at += step {
					f := &faultyServer{rng: rand.New(rand.NewPCG(1, uint64(at))), hostile: true, octets: true,
						taken: map[string]bool{}, would: map[string]bool{}, interrupt: &interruption{at, in, then}}
					waiting := [][]int{{0, 1}, {0}, {0, 1, 2}}
					problem := f.session(level, waiting, map[Verdict]int{}, kinds)
					more = f.fed > at
					if f.interrupt = nil; problem == "" {
						problem = f.session(level, waiting, map[Verdict]int{}, kinds)
					}
					if left := slices.IndexFunc(waiting, func(w []int) bool { return len(w) > 0 }); problem == "" && left >= 0 {
						problem = fmt.Sprintf("message %d is left", left)
					}
					if problem != "" {
						t.Fatalf("%v, %q at octet %d, ending %d: %s\n%s", level, in, at, then, problem, f.log)
					}
				}
			}
		}
	}
	for _, k := range []FailureKind{FailClosed, FailLost, FailTimeout, FailProtocol, FailStep, FailQuit} {
		if kinds[k] == 0 {
			t.Errorf("no session ever ended with %v", k)
		}
	}
}
