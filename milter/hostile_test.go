package milter

import (
	"context"
	"encoding/binary"
	"errors"
	"net"
	"strings"
	"testing"
	"time"
)

// replies of a milter that are no answers, by the command to which they are given.
var garbage = []struct {
	name string
	script
	why string
}{
	{"it closes at once", script{'O': ""}, "it has closed the connection"},
	{"an empty packet", script{'O': "\x00\x00\x00\x00\x00"}, "a packet of 0 bytes"},
	{"a huge packet", script{'C': "\xff\xff\xff\xffc"}, "a packet of 4294967295 bytes"},
	{"a large answer", script{'C': "\x00\x10\x00\x00y"}, `an answer 'y' of 1048575 bytes`},
	{"HTTP", script{'O': "HTTP/1.1 400 Bad Request\r\n\r\n"}, "packet of 1213486160 bytes"},
	{"a short negotiation", script{'O': pack('O', "\x00\x00\x00\x06")}, "'O' and 4 bytes"},
	{"a wrong negotiation", script{'O': pack('c', "")}, "'c' and 0 bytes"},
	{"version 1", script{'O': negotiated(1, 0, 0)}, "version 1"},
	{"version 7", script{'O': negotiated(7, 0, 0)}, "version 7"},
	{"changes that were not offered", script{'O': negotiated(6, 1<<20, 0)}, "not offered: 0x100000"},
	{"steps that were not offered", script{'O': negotiated(6, 0, 1<<11)}, "not offered: 0x800"},
	{"macros without an end", script{'O': "\x00\x00\x00\x13" + negotiated(6, 0, 0)[4:] + "\x00\x00\x00\x00ij"}, "macros without an end"},
	{"it closes at MAIL", script{'M': ""}, "it has closed the connection"},
	{"an unknown answer", script{'R': pack('z', "")}, "an answer 'z' where there is none"},
	{"a change before the end", script{'R': pack('h', "A\x00b\x00")}, "an answer 'h'"},
	{"an answer with a tail", script{'R': pack('c', "x")}, "'c' with 1 bytes"},
	{"a skip at the end of the header", script{'O': negotiated(6, mayAll, maySkip), 'N': pack('s', "")}, "nothing to skip"},
	{"a skip that was not announced", script{'L': pack('s', "")}, "without having said"},
	{"a sign of life with a tail", script{'E': pack('p', "x")}, "a sign of life of 1 bytes"},
	{"a reply of 250", script{'M': pack('y', "250 2.0.0 ok\x00")}, "a reply"},
	{"a reply without an end", script{'M': pack('y', "550 5.0.0 no")}, "without an end"},
	{"a reply that is no text", script{'M': pack('y', "5\x00")}, "a reply"},
	{"half of the changes", script{'E': pack('h', "X-A\x00b\x00") + pack('b', "new body") + "\x00\x00"}, "it has closed the connection"},
	{"a field with a bad name", script{'E': pack('h', "A b\x00c\x00")}, "not the name of a header field"},
	{"a field with a line for a name", script{'E': pack('h', "A\r\n\r\nB\x00c\x00")}, "not the name of a header field"},
	{"a field without a value", script{'E': pack('h', "A\x00")}, "with 1 texts"},
	{"a short change", script{'E': pack('m', "\x00\x00")}, "'m' of 2 bytes"},
	{"an invalid sender", script{'E': pack('e', "a b c\x00")}, "a sender"},
	{"an invalid recipient", script{'E': pack('+', "<>\x00")}, "a recipient"},
	{"a recipient with a line end", script{'E': pack('+', "<a@b.test>\r\nDATA\x00")}, "a recipient"},
	{"too many changes", script{'E': strings.Repeat(pack('h', "A\x00b\x00"), changesMax+1)}, "more than 2000 changes"},
	{"too much of changes", script{'E': strings.Repeat(pack('h', "A\x00"+strings.Repeat("x", 200_000)+"\x00"), 22)}, "4194304 bytes of them"},
	{"too much body", script{'E': strings.Repeat(pack('b', strings.Repeat("x", 60_000)), 20)}, "a new body of more than"},
	{"empty parts of a body", script{'E': strings.Repeat(pack('b', ""), bodyPacketsEmpty+1)}, "empty parts"},
	{"a change that was not announced", script{'O': negotiated(6, mayAddHeaders, 0), 'E': pack('e', "<a@b.test>\x00") + pack('c', "")}, "not said that it would ask"},
	{"a body that was not announced", script{'O': negotiated(6, mayAddHeaders, 0), 'E': pack('b', "x") + pack('c', "")}, "not said that it would ask"},
}

// Whatever a milter sends that is no answer, it is left, nothing of what it wanted is done, and the
// message fares as the operator has said. The next milter is asked as if it were the first.
func TestGarbage(t *testing.T) {
	for _, c := range garbage {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			if c.name == "half of the changes" || c.name == "macros without an end" || c.name == "an empty packet" || c.name == "HTTP" {
				c.script[0] = "close"
			}
			bad := &fake{script: c.script}
			good := &fake{script: script{'E': pack('h', "X-Good\x00yes\x00") + pack('a', "")}}
			at, next := startClosing(t, bad), good.start(t)
			for _, action := range []Failure{FailTemporarily, FailAccept, FailReject, FailQuarantine} {
				j := &journal{}
				ch := chain(t, host(t, j), action, at, next)
				s := ch.Open()
				got := submit(t, s, letter)
				s.Close()
				want := map[Failure]int{FailTemporarily: 451, FailAccept: 250, FailReject: 554, FailQuarantine: 250}[action]
				if got.reply != want || got.discard {
					t.Errorf("%s: %+v", action, got)
				}
				if held := strings.HasPrefix(got.changes.Hold, "milter m1 failed: "); held != (action == FailQuarantine) {
					t.Errorf("%s: hold %q", action, got.changes.Hold)
				}
				if want == 250 && got.content != "Received: by mta.test\r\n"+strings.Replace(letter, "\r\n\r\n", "\r\nX-Good: yes\r\n\r\n", 1) {
					t.Errorf("%s: content %q", action, got.content)
				}
				if !strings.Contains(j.text(), c.why) || !strings.Contains(j.text(), action.String()) {
					t.Errorf("%s: the log has %s", action, j.text())
				}
				if n := ch.Milters[0].Snapshot().Failures; n != 1 {
					t.Errorf("%s: %d failures", action, n)
				}
			}
		})
	}
}

// startClosing starts a milter that closes the connection after an answer for which the script says so.
func startClosing(t *testing.T, f *fake) string {
	t.Helper()
	if f.script[0] == "" {
		return f.start(t)
	}
	delete(f.script, 0)
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { ln.Close() })
	go func() {
		for {
			conn, err := ln.Accept()
			if err != nil {
				return
			}
			go func() {
				defer conn.Close()
				for {
					code, size, err := readHead(conn)
					if err != nil {
						return
					}
					if _, err := readRest(conn, code, size); err != nil {
						return
					}
					if answer, has := f.script[code]; has {
						conn.Write([]byte(answer)) // what follows is the end
						return
					}
					switch code {
					case cmdMacro, cmdAbort:
					case cmdNegotiate:
						conn.Write([]byte(negotiated(6, mayAll, 0))) // if it fails, so does the read
					default:
						conn.Write([]byte(pack('c', ""))) // likewise
					}
				}
			}()
		}
	}()
	return ln.Addr().String()
}

// A milter that does not answer costs its own session the time limit, no more, whichever command it
// leaves unanswered.
func TestSilence(t *testing.T) {
	for _, command := range "OCHMRTLNBE" {
		t.Run(string(command), func(t *testing.T) {
			t.Parallel()
			f := &fake{script: script{byte(command): silent}}
			j := &journal{}
			m, err := New(Config{Name: "m", Network: "tcp", Address: f.start(t), ConnectTimeout: 30 * time.Millisecond, CommandTimeout: 30 * time.Millisecond, ContentTimeout: 30 * time.Millisecond})
			if err != nil {
				t.Fatal(err)
			}
			s := (&Chain{host(t, j), []*Milter{m}}).Open()
			defer s.Close()
			// A busy machine may take longer for another answer; the reply is the same.
			if got := submit(t, s, letter); got.reply != 451 {
				t.Errorf("%+v", got)
			}
			if !strings.Contains(j.text(), "no answer within 30ms") {
				t.Error(j.text())
			}
		})
	}
}

// The program ends while a milter lets it wait: the wait ends at once.
func TestEndOfTheProgram(t *testing.T) {
	f := &fake{script: script{'M': silent}}
	j := &journal{}
	s := chain(t, host(t, j), FailAccept, f.start(t)).Open()
	defer s.Close()
	ctx, stop := context.WithCancel(context.Background())
	go func() {
		for !strings.Contains(f.seen(), "M:") {
			select {
			case <-time.After(time.Millisecond):
			case <-t.Context().Done():
				return
			}
		}
		stop()
	}()
	if got := submitWithin(t, ctx, s, letter); got.reply != 421 {
		t.Errorf("%+v", got)
	}
	if j.text() != "" { // it is no failure of the milter
		t.Error(j.text())
	}
}

// No milter listens at the address at first. Once one has been started, the next message of the same
// client goes through it.
func TestMilterReturns(t *testing.T) {
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	address := ln.Addr().String()
	ln.Close()
	j := &journal{}
	c := chain(t, host(t, j), FailTemporarily, address)
	s := c.Open()
	defer s.Close()
	if got := submit(t, s, letter); got.reply != 451 {
		t.Errorf("%+v", got)
	}
	c.Milters[0].rest.Store(0) // the attempt may have taken long on a busy machine
	f := &fake{}
	c.Milters[0].cfg.Address = f.start(t)
	if got := submit(t, s, letter); got.reply != 250 {
		t.Errorf("%+v", got)
	}
}

// A host that swallows what is sent to it delays one session: others do not try while the time that
// the attempt took has not passed again.
func TestRest(t *testing.T) {
	f := &fake{script: script{'O': silent}}
	m, err := New(Config{Name: "m", Network: "tcp", Address: f.start(t), ConnectTimeout: 50 * time.Millisecond})
	if err != nil {
		t.Fatal(err)
	}
	began := time.Now()
	if _, err := m.open(context.Background()); err == nil || errors.Is(err, errResting) {
		t.Error(err)
	}
	if rest := time.Unix(0, m.rest.Load()).Sub(began); rest < 100*time.Millisecond || rest > patience {
		t.Errorf("it rests until %v after the attempt began", rest)
	}
	m.rest.Store(time.Now().Add(patience).UnixNano())
	if _, err := m.open(context.Background()); !errors.Is(err, errResting) {
		t.Error(err)
	}
	if n := m.Snapshot().Connections; n != 1 {
		t.Errorf("%d connections", n)
	}
}

// Transitions of a standing that the table does not have are bugs.
func TestStandings(t *testing.T) {
	allowed := 0
	for from := range standings {
		for to := range standings {
			p := part{standing: from}
			ok := func() (ok bool) {
				defer func() { ok = recover() == nil }()
				p.become(to)
				return
			}()
			if ok {
				allowed++
			}
			if ok != (p.standing == to && (from != to || ok)) {
				t.Errorf("%d to %d: %v", from, to, ok)
			}
		}
	}
	if allowed != 12 {
		t.Errorf("%d transitions", allowed)
	}
}

// FuzzAnswers has a milter send anything: it may do no more than fail, and what is accepted is
// well-formed.
func FuzzAnswers(f *testing.F) {
	f.Add([]byte(negotiated(6, mayAll, 0) + strings.Repeat(pack('c', ""), 9)))
	for _, c := range garbage {
		for code, text := range c.script {
			if code == 'E' {
				f.Add([]byte(negotiated(6, mayAll, stepsOld&^noConnect) + text + pack('c', "")))
			}
		}
	}
	f.Add([]byte(negotiated(6, mayAll, noConnect|noHelo|noMail|noRcpt|noBody|noHeaders|noEOH|noData) + pack('m', "\x00\x00\x00\x01Subject\x00new\n\nline\x00") + pack('i', "\x00\x00\x00\x00A\x00b\x00") + pack('b', "body\r\n") + pack('q', "odd\x00") + pack('a', "")))
	f.Fuzz(func(t *testing.T, octets []byte) {
		j := &journal{}
		h := host(t, j)
		m, err := New(Config{Name: "m", Network: "tcp", Address: "-", OnFailure: FailAccept})
		if err != nil {
			t.Fatal(err)
		}
		s := (&Chain{h, []*Milter{m}}).Open()
		talk, err := negotiate(context.Background(), &m.cfg, &playback{octets: octets}, time.Now().Add(patience))
		if err != nil {
			return
		}
		s.parts[0].talk = talk
		s.parts[0].become(atClient)
		got := submit(t, s, letter)
		s.Close()
		if got.reply != 250 {
			if got.reply < 400 && !got.discard || got.reply >= 600 || strings.ContainsAny(got.reason, "\r\x00") {
				t.Errorf("%+v", got)
			}
			return
		}
		header, _, found := strings.Cut(got.content, "\r\n\r\n")
		if !found {
			t.Fatalf("no end of the header: %q", got.content)
		}
		for line := range strings.SplitSeq(header, "\r\n") {
			if _, ok := fieldName([]byte(line)); !ok && (line == "" || line[0] != ' ' && line[0] != '\t') {
				t.Errorf("a line of the header: %q", line)
			}
		}
		if strings.ContainsAny(got.changes.Hold, "\r\n\x00") {
			t.Errorf("%q", got.changes.Hold)
		}
	})
}

// A playback is a connection to a milter whose answers are known. One packet comes at a time, as if it
// were the answer to what was sent last.
type playback struct {
	net.Conn
	octets []byte
	left   int // of the packet
}

func (p *playback) Read(b []byte) (int, error) {
	if len(p.octets) == 0 {
		return 0, errors.New("the end")
	}
	if p.left == 0 {
		p.left = len(p.octets)
		if p.left >= 4 {
			p.left = int(min(4+uint64(binary.BigEndian.Uint32(p.octets)), uint64(p.left)))
		}
	}
	n := copy(b, p.octets[:p.left])
	p.octets, p.left = p.octets[n:], p.left-n
	return n, nil
}
func (p *playback) Write(b []byte) (int, error)      { return len(b), nil }
func (p *playback) Close() error                     { return nil }
func (p *playback) SetDeadline(time.Time) error      { return nil }
func (p *playback) SetWriteDeadline(time.Time) error { return nil }
