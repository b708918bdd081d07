package milter

import (
	"context"
	"errors"
	"io"
	"net"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/posthaste-mta/posthaste/mail"
)

// A milter fails at the second recipient. What the client sends after that of the message must not
// pass: the milter has not seen it, and on_failure says that it must not go without.
func TestFailureLasts(t *testing.T) {
	for action, want := range map[Failure][3]int{FailTemporarily: {451, 451, 451}, FailReject: {554, 554, 554}, FailAccept: {250, 250, 250}, FailQuarantine: {250, 250, 250}} {
		f := &fake{script: script{'R': ""}}
		j := &journal{}
		c := chain(t, host(t, j), action, f.start(t))
		s := c.Open()
		if v := s.Mail(t.Context(), &someFacts, "a@x.test", nil); v != (Verdict{}) {
			t.Fatalf("%+v", v)
		}
		var got [3]int
		for i := range got {
			var v Verdict
			var changes Changes
			if i < 2 {
				v = s.Recipient(t.Context(), &mail.Recipient{Address: "b@y.test"})
			} else {
				var err error
				if changes, v, err = s.Message(t.Context(), message(t, s.host, letter), true); err != nil {
					t.Fatal(err)
				}
			}
			if got[i] = int(v.Reply.Code); got[i] == 0 {
				got[i] = 250
			}
			if i == 2 && strings.HasPrefix(changes.Hold, "milter m1 failed: ") != (action == FailQuarantine) {
				t.Errorf("%s: hold %q", action, changes.Hold)
			}
		}
		if got != want {
			t.Errorf("%s: replies %v, want %v", action, got, want)
		}
		if n := c.Milters[0].Snapshot().Failures; n != 1 {
			t.Errorf("%s: %d failures", action, n)
		}
		// It is forgotten with the message.
		f.follow(script{})
		if got := submit(t, s, letter); got.reply != 250 || got.changes.Hold != "" {
			t.Errorf("%s: the next message: %+v", action, got)
		}
		s.Close()
	}
}

// The disk is full while a milter sends a new body. That is no failure of the milter, but what it
// sends after that must not be taken for its answers about the next message.
func TestFullDiskInTheMiddle(t *testing.T) {
	part := strings.Repeat("0123456789abcde\r\n", 3000)
	f := &fake{script: script{'E': strings.Repeat(pack('b', part), 6) + pack('c', "")}}
	j := &journal{}
	h := host(t, j)
	full := errors.New("the disk is full")
	h.Room = func(int64) error { return full }
	c := chain(t, h, FailTemporarily, f.start(t))
	s := c.Open()
	defer s.Close()
	if v := s.Mail(t.Context(), &someFacts, "a@x.test", nil); v != (Verdict{}) {
		t.Fatalf("%+v", v)
	}
	if _, _, err := s.Message(t.Context(), message(t, h, letter), true); !errors.Is(err, full) {
		t.Fatal(err)
	}
	if j.text() != "" || c.Milters[0].Snapshot().Failures != 0 {
		t.Errorf("the milter is blamed: %s", j.text())
	}
	h.Room = nil
	f.follow(script{'E': pack('r', "")})
	if got := submit(t, s, letter); got.reply != 550 {
		t.Errorf("the next message: %+v\n%s", got, j.text())
	}
}

// A milter gives a body whose lines end in anything, in parts that end anywhere: what results has lines that
// end in CRLF, because a server that takes a bare LF for a line end would see another message after
// a dot. The rest is as it was.
func TestLinesOfNewBody(t *testing.T) {
	for _, c := range []struct {
		name  string
		parts []string
		want  string
	}{
		{"as it should be", []string{"A\r\n", ".B\r\n\r\n"}, "A\r\n.B\r\n\r\n"},
		{"bare LF", []string{"A\n.\nMAIL FROM:<x@y>\n"}, "A\r\n.\r\nMAIL FROM:<x@y>\r\n"},
		{"bare CR", []string{"A\r.\rB\r\n"}, "A . B\r\n"},
		{"a CR at the end of a part", []string{"A\r", "\n.\r", ".\r\n"}, "A\r\n. .\r\n"},
		{"no end", []string{"A\r\n", "B"}, "A\r\nB\r\n"},
		{"a CR at the end", []string{"A\r"}, "A \r\n"},
		{"nothing", []string{""}, ""},
		{"between other changes", []string{"A", "+", "B\n", "+", "C\r\n"}, "AB\r\nC\r\n"},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			var answers strings.Builder
			for _, p := range c.parts {
				if p == "+" {
					answers.WriteString(pack('h', "X\x00y\x00") + pack('p', ""))
					continue
				}
				answers.WriteString(pack('b', p))
			}
			f := &fake{script: script{'E': answers.String() + pack('c', "")}}
			s := chain(t, host(t, &journal{}), FailReject, f.start(t)).Open()
			defer s.Close()
			got := submit(t, s, letter)
			_, body, _ := strings.Cut(got.content, "\r\n\r\n")
			if got.reply != 250 || body != c.want {
				t.Errorf("%+v: body %q, want %q", got.reason, body, c.want)
			}
		})
	}
}

// A body with a NUL is no message that could be sent on: we take none from clients either.
func TestNULInNewBody(t *testing.T) {
	f := &fake{script: script{'E': pack('b', "A\x00B\r\n") + pack('c', "")}}
	j := &journal{}
	s := chain(t, host(t, j), FailReject, f.start(t)).Open()
	defer s.Close()
	if got := submit(t, s, letter); got.reply != 554 || !strings.Contains(j.text(), "NUL") {
		t.Errorf("%+v\n%s", got, j.text())
	}
}

// What a milter wanted before it failed is not done; nor does it count that it was not in ASCII.
func TestEightBitOfFailure(t *testing.T) {
	f := &fake{script: script{'E': pack('b', "\xc3\xbc\r\n") + pack('h', "X\x00\xc3\xbc\x00") + pack('z', "")}}
	s := chain(t, host(t, &journal{}), FailAccept, f.start(t)).Open()
	defer s.Close()
	if v := s.Mail(t.Context(), &someFacts, "a@x.test", nil); v != (Verdict{}) {
		t.Fatalf("%+v", v)
	}
	m := message(t, s.host, letter)
	if _, v, err := s.Message(t.Context(), m, true); v != (Verdict{}) || err != nil || m.EightBit() {
		t.Errorf("%+v, %v, 8bit %v", v, err, m.EightBit())
	}
}

// A milter is restarted between two messages of a client: it sees both, and the client notices
// nothing, whatever on_failure says. One that closes the connection at each message fails.
func TestRestartBetweenMessages(t *testing.T) {
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	f := &fake{}
	var mu sync.Mutex
	var conns []net.Conn
	var serving sync.WaitGroup
	defer serving.Wait()
	defer ln.Close()
	serving.Go(func() {
		for {
			conn, err := ln.Accept()
			if err != nil {
				return
			}
			mu.Lock()
			conns = append(conns, conn)
			mu.Unlock()
			serving.Go(func() { f.serve(conn) })
		}
	})
	j := &journal{}
	c := chain(t, host(t, j), FailReject, ln.Addr().String())
	s := c.Open()
	defer s.Close()
	for i := range 3 {
		if got := submit(t, s, letter); got.reply != 250 {
			t.Fatalf("message %d: %+v\n%s", i, got, j.text())
		}
		mu.Lock()
		conns[i].Close()
		mu.Unlock()
	}
	if n := c.Milters[0].Snapshot(); n.Connections != 3 || n.Messages != 3 || n.Failures != 0 {
		t.Errorf("%+v", n)
	}
	if got, want := f.seen(), strings.TrimSpace(strings.Repeat("O:12 D C:21 D H:12 D M:20 D R:24 D T:0 L:16 L:20 L:32 D N:0 B:8 D E:0 ", 3)); got != want {
		t.Errorf("it has seen\n%s, want\n%s", got, want)
	}
	fresh := chain(t, host(t, j), FailReject, ln.Addr().String())
	f.follow(script{'C': ""})
	if got := submit(t, fresh.Open(), letter); got.reply != 554 || fresh.Milters[0].Snapshot().Connections != 1 { // it was not idle
		t.Errorf("%+v, %+v", got, fresh.Milters[0].Snapshot())
	}
	for i, command := range "MHC" { // on the connection that takes the place of the one that was closed
		f.follow(script{byte(command): ""})
		if got := submit(t, s, letter); got.reply != 554 {
			t.Errorf("%c: %+v", command, got)
		}
		if n := c.Milters[0].Snapshot(); n.Failures != int64(i+1) || n.Connections != int64(4+2*i) {
			t.Errorf("%c: %+v\n%s", command, n, j.text())
		}
		f.follow(script{})
		if got := submit(t, s, letter); got.reply != 250 {
			t.Errorf("%c: %+v", command, got)
		}
		mu.Lock()
		conns[len(conns)-1].Close()
		mu.Unlock()
	}
}

// An answer that was not asked for would be taken for that to the next command, and its true answer for
// that to the one after it: a refusal would come too late. Signs of life may come at any time.
func TestUnaskedAnswers(t *testing.T) {
	cont, life := pack('c', ""), pack('p', "")
	for name, c := range map[string]struct {
		script script
		want   int
	}{
		"two answers":               {script{'R': cont + cont, 'E': pack('r', "")}, 451},
		"an answer too many at end": {script{'B': cont + cont, 'E': pack('r', "")}, 451},
		"late signs of life":        {script{'R': cont + life + life, 'E': pack('r', "")}, 550},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f := &fake{script: c.script}
			j := &journal{}
			s := chain(t, host(t, j), FailTemporarily, f.start(t)).Open()
			defer s.Close()
			if got := submit(t, s, letter); got.reply != c.want {
				t.Errorf("%+v\n%s", got, j.text())
			}
		})
	}
}

// Milters get the macros of a command also if they do not want the command itself, as from Sendmail and
// Postfix: they ask for the user who has logged in when the content is complete.
func TestMacrosWithoutCommand(t *testing.T) {
	none := uint32(noConnect | noHelo | noMail | noRcpt | noBody | noHeaders | noEOH | noData)
	f := &fake{script: script{'O': negotiated(6, 0, none)}}
	s := chain(t, host(t, &journal{}), FailReject, f.start(t)).Open()
	defer s.Close()
	if got := submit(t, s, letter); got.reply != 250 {
		t.Fatalf("%+v", got)
	}
	if got, want := f.seen(), "O:12 D D D D D D D E:0"; got != want { // connect, EHLO, MAIL, RCPT, DATA, end of header, end
		t.Errorf("%s, want %s", got, want)
	}
}

// All of a connection's beginning shares one time limit, and signs of life do not extend it.
func TestTimeOfNegotiation(t *testing.T) {
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	done := make(chan struct{})
	defer func() { <-done }()
	defer ln.Close()
	go func() {
		defer close(done)
		conn, err := ln.Accept()
		if err != nil {
			return
		}
		defer conn.Close()
		for {
			if _, err := io.WriteString(conn, pack('p', "")); err != nil {
				return
			}
		}
	}()
	m, err := New(Config{Name: "m", Network: "tcp", Address: ln.Addr().String(), ConnectTimeout: 50 * time.Millisecond})
	if err != nil {
		t.Fatal(err)
	}
	ended := make(chan error, 1)
	go func() {
		_, err := m.open(context.Background())
		ended <- err
	}()
	select {
	case err := <-ended:
		if err == nil {
			t.Error("it has agreed")
		}
	case <-time.After(patience):
		t.Fatal("signs of life extend the negotiation")
	}
}

// The word skip at RCPT is for the recipients of one message: of the next the milter gets the first again.
func TestSkipRecipients(t *testing.T) {
	f := &fake{script: script{'O': negotiated(6, mayAll, maySkip|noData|noHeaders|noEOH|noBody|1<<28|1<<29), 'R': pack('s', "")}} // two bits are sizes of packets
	s := chain(t, host(t, &journal{}), FailReject, f.start(t)).Open()
	for range 2 {
		if v := s.Mail(t.Context(), &someFacts, "a@x.test", nil); v != (Verdict{}) {
			t.Fatalf("%+v", v)
		}
		for range 3 {
			if v := s.Recipient(t.Context(), &mail.Recipient{Address: "b@y.test"}); v != (Verdict{}) {
				t.Fatalf("%+v", v)
			}
		}
		if _, v, err := s.Message(t.Context(), message(t, s.host, letter), true); v != (Verdict{}) || err != nil {
			t.Fatalf("%+v, %v", v, err)
		}
	}
	s.Close()
	await(t, "QUIT", func() bool { return strings.HasSuffix(f.seen(), "Q") })
	if got := f.seen(); strings.Count(got, "R:") != 2 || strings.Count(got, "E:") != 2 {
		t.Error(got)
	}
}

// Two milters have a message held, or fail so that it is: the reason is that of the first.
func TestFirstReasonStays(t *testing.T) {
	hold := func(why string) script { return script{'E': pack('q', why+"\x00") + pack('c', "")} }
	for _, c := range []struct {
		first, second script
		want          string
	}{
		{hold("one"), hold("two"), "milter m1: one"},
		{script{'E': ""}, script{'E': ""}, "milter m1 failed: it has closed the connection"},
		{script{'E': ""}, hold("two"), "milter m2: two"},
		{script{'E': pack('q', "\x00") + pack('c', "")}, script{}, "milter m1: no reason given"},
	} {
		one, two := &fake{script: c.first}, &fake{script: c.second}
		s := chain(t, host(t, &journal{}), FailQuarantine, one.start(t), two.start(t)).Open()
		if got := submit(t, s, letter); got.reply != 250 || got.changes.Hold != c.want {
			t.Errorf("%+v, want %s", got.changes, c.want)
		}
		s.Close()
	}
}
