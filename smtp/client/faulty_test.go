package client

import (
	"flag"
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/posthaste-mta/posthaste/mail"
)

var seedFlag = flag.Uint64("client.seed", 0, "seed of the tests with random servers; 0 takes another one each time")

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

	content  bool            // a 354 was said and the content is not over
	mailOK   bool            // the last MAIL got a 2yz
	rcptOK   map[string]bool // recipients of it that got a 2yz
	taken    map[string]bool // "message recipient" whose content got a 2yz
	would    map[string]bool // recipients whose RCPT got a 2yz after MAIL had, at any time
	message  string          // the one whose content is coming
	wrongs   []string        // what no client may do
	commands int
}

func (f *faultyServer) wrong(format string, args ...any) {
	f.wrongs = append(f.wrongs, fmt.Sprintf(format, args...))
}

// say queues a reply of a class, or, at random, something else. It returns the
// class that was said last, 0 if nothing was.
func (f *faultyServer) say(codes ...int) int {
	code := codes[0]
	if f.rng.Float64() < 3*f.faults {
		code = codes[f.rng.IntN(len(codes))]
	}
	if f.rng.Float64() >= f.faults {
		f.replies += fmt.Sprintf("%d text\r\n", code)
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
		if f.content {
			f.contentLine(line)
		} else {
			f.command(line)
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
			f.wrong("content %q for nobody", line)
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
			if ok && f.rng.IntN(2) == 0 {
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

// converse moves some octets either way and tells whether there were any.
func converse(f *faultyServer, s *Session) (progress bool) {
	if tx := s.Wanting(); tx != nil {
		id := fmt.Sprint(tx.Envelope.ID)
		if f.rng.IntN(2) == 0 {
			s.Supply([]byte("X-Message: "+id+"\r\n..\r\n"), false)
		} else {
			s.Supply([]byte("X-Message: "+id+"\n.\n.b"), true)
		}
	}
	if out := take(s); out != "" {
		f.receive(out)
		progress = true
	}
	if f.replies != "" && !s.Over() {
		n := 1 + f.rng.IntN(len(f.replies))
		s.Feed([]byte(f.replies[:n]))
		f.replies = f.replies[n:]
		return true
	}
	if f.gone && !s.Over() {
		s.End(LossClosed)
		return true
	}
	return progress
}

func newTestTransaction(rng *rand.Rand, n int) *Transaction {
	tx := &Transaction{Envelope: mail.Envelope{ID: mail.QueueID(n + 1), Sender: "a@example.org"}}
	if tx.Callout = rng.IntN(4) == 0; tx.Callout {
		tx.Recipients = []mail.Recipient{{Address: mail.Address(fmt.Sprintf("q%d@example.net", n))}} // nobody else asks for it
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
