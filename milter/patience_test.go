package milter

import (
	"context"
	"io"
	"net"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/posthaste-mta/posthaste/mail"
)

// talkTo has a session talk with a milter that is a function on the other end of a pipe.
func talkTo(t *testing.T, cfg Config, j *journal, serve func(net.Conn)) *Session {
	t.Helper()
	cfg.Name, cfg.Network, cfg.Address = "m", "tcp", "-"
	m, err := New(cfg)
	if err != nil {
		t.Fatal(err)
	}
	ours, theirs := net.Pipe()
	done := make(chan struct{})
	go func() {
		defer close(done)
		defer theirs.Close()
		serve(theirs)
	}()
	s := (&Chain{host(t, j), []*Milter{m}}).Open()
	talk, err := negotiate(context.Background(), &m.cfg, ours, time.Now().Add(m.cfg.ConnectTimeout))
	if err != nil {
		t.Fatal(err)
	}
	s.parts[0].talk = talk
	s.parts[0].become(atClient)
	t.Cleanup(func() {
		s.Close()
		<-done
	})
	return s
}

// A milter takes its time in every way in which no single answer is late. However it does that, the client
// has its reply after ten minutes, which is when it would hang up, or after milter_content_timeout if
// that is longer; and not before.
func TestTimeOfContent(t *testing.T) {
	for _, c := range []struct {
		name    string
		timeout time.Duration // milter_content_timeout
		answer  func(code byte, conn net.Conn)
		took    time.Duration // until the reply; 0 if the message is accepted
		why     string
	}{
		{"each field takes long", 5 * time.Minute, func(code byte, conn net.Conn) {
			if code == 'L' {
				time.Sleep(4 * time.Minute)
			}
			io.WriteString(conn, pack('c', ""))
		}, 10 * time.Minute, "not done with the content within 10m0s"},
		{"signs of life for ever", time.Minute, func(code byte, conn net.Conn) {
			for code == 'E' {
				time.Sleep(30 * time.Second)
				if _, err := io.WriteString(conn, pack('p', "")); err != nil {
					return
				}
			}
			io.WriteString(conn, pack('c', ""))
		}, 10 * time.Minute, "not done with the content within 10m0s"},
		{"changes for ever", time.Minute, func(code byte, conn net.Conn) {
			for code == 'E' {
				time.Sleep(59 * time.Second)
				if _, err := io.WriteString(conn, pack('h', "A\x00b\x00")); err != nil {
					return
				}
			}
			io.WriteString(conn, pack('c', ""))
		}, 10 * time.Minute, "not done with the content within 10m0s"},
		{"a body that drips", time.Minute, func(code byte, conn net.Conn) {
			if code == 'E' {
				io.WriteString(conn, "\x00\x10\x00\x00b")
				for range 0x0fffff {
					time.Sleep(50 * time.Millisecond)
					if _, err := conn.Write([]byte("x")); err != nil {
						return
					}
				}
			}
			io.WriteString(conn, pack('c', ""))
		}, time.Minute, "no answer within 1m0s"},
		{"a body that is slow", time.Minute, func(code byte, conn net.Conn) {
			if code == 'E' {
				io.WriteString(conn, "\x00\x10\x00\x00b")
				for range 15 {
					time.Sleep(50 * time.Second)
					if _, err := io.WriteString(conn, strings.Repeat("x", chunkMax)); err != nil {
						return
					}
				}
				return
			}
			io.WriteString(conn, pack('c', ""))
		}, 10 * time.Minute, "not done with the content within 10m0s"},
		{"a longer limit", 20 * time.Minute, func(code byte, conn net.Conn) {
			time.Sleep(map[byte]time.Duration{'L': 6 * time.Minute, 'E': 3 * time.Minute}[code])
			io.WriteString(conn, pack('c', ""))
		}, 20 * time.Minute, "not done with the content within 20m0s"},
		{"eight minutes", 5 * time.Minute, func(code byte, conn net.Conn) {
			time.Sleep(map[byte]time.Duration{'N': 4 * time.Minute, 'E': 4 * time.Minute}[code])
			io.WriteString(conn, pack('p', "")+pack('c', ""))
		}, 0, ""},
		{"each command takes long, which is the client's time", 5 * time.Minute, func(code byte, conn net.Conn) {
			time.Sleep(map[byte]time.Duration{'M': 29 * time.Second, 'R': 29 * time.Second}[code])
			io.WriteString(conn, pack('c', ""))
		}, 0, ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				j := &journal{}
				s := talkTo(t, Config{ContentTimeout: c.timeout}, j, func(conn net.Conn) {
					for {
						code, size, err := readHead(conn)
						if err != nil {
							return
						}
						if _, err := readRest(conn, code, size); err != nil {
							return
						}
						switch code {
						case cmdMacro, cmdAbort:
						case cmdQuit:
							return
						case cmdNegotiate:
							io.WriteString(conn, negotiated(6, mayAll, 0))
						default:
							c.answer(code, conn)
						}
					}
				})
				for range 2 { // the time of one message is not that of the next
					if s.parts[0].standing == atNothing {
						break
					}
					if v := s.Mail(t.Context(), &someFacts, "a@x.test", nil); v != (Verdict{}) {
						t.Fatalf("%+v\n%s", v, j.text())
					}
					for range 30 {
						if v := s.Recipient(t.Context(), &mail.Recipient{Address: "b@y.test"}); v != (Verdict{}) {
							t.Fatalf("%+v\n%s", v, j.text())
						}
					}
					began := time.Now()
					_, v, err := s.Message(t.Context(), message(t, s.host, letter), true)
					if took := time.Since(began); err != nil || (v.Reply.Code == 451) != (c.took != 0) || c.took != 0 && took != c.took || !strings.Contains(j.text(), c.why) {
						t.Errorf("%+v after %v, want %v\n%s", v, took, c.took, j.text())
					}
				}
			})
		})
	}
}
