package submit

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"net"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	gosmtp "github.com/emersion/go-smtp"
	"github.com/google/go-cmp/cmp"

	"github.com/posthaste-mta/posthaste/mail"
)

// taken is a message as go-smtp, an independent server, has understood it.
type taken struct {
	From       string
	Options    gosmtp.MailOptions
	Recipients []string
	Notify     []gosmtp.DSNNotify
	Content    string
}

// A backend keeps what it takes.
type backend struct {
	mu    sync.Mutex
	taken []taken
	deny  string // a recipient that is refused
}

func (b *backend) NewSession(*gosmtp.Conn) (gosmtp.Session, error) { return &session{b: b}, nil }

type session struct {
	b *backend
	t taken
}

func (s *session) Reset()        { s.t = taken{} }
func (s *session) Logout() error { return nil }

func (s *session) Mail(from string, o *gosmtp.MailOptions) error {
	s.t = taken{From: from, Options: *o}
	return nil
}

func (s *session) Rcpt(to string, o *gosmtp.RcptOptions) error {
	if to == s.b.deny {
		return &gosmtp.SMTPError{Code: 550, EnhancedCode: gosmtp.EnhancedCode{5, 1, 1}, Message: "no such user"}
	}
	s.t.Recipients = append(s.t.Recipients, to)
	s.t.Notify = o.Notify
	return nil
}

func (s *session) Data(r io.Reader) error {
	octets, err := io.ReadAll(r)
	s.t.Content = string(octets)
	s.b.mu.Lock()
	defer s.b.mu.Unlock()
	s.b.taken = append(s.b.taken, s.t)
	return err
}

// peer runs go-smtp and returns a connection to it.
func peer(t *testing.T, b *backend, change func(*gosmtp.Server)) net.Conn {
	t.Helper()
	server := gosmtp.NewServer(b)
	server.Domain, server.EnableSMTPUTF8, server.EnableDSN, server.MaxLineLength = "server.example", true, true, 1<<20
	if change != nil {
		change(server)
	}
	ln, err := net.Listen("unix", filepath.Join(t.TempDir(), "s"))
	if err != nil {
		t.Fatal(err)
	}
	go server.Serve(ln)
	t.Cleanup(func() { server.Close() })
	conn, err := net.Dial("unix", ln.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { conn.Close() })
	return conn
}

func compose(t *testing.T, in string, recipients ...mail.Address) *Message {
	t.Helper()
	o := options()
	o.Recipients = recipients
	m, err := Compose(strings.NewReader(in), o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(m.Close)
	return m
}

const plain = "From: a@b\r\nDate: x\r\nMessage-ID: <y>\r\n\r\n.dot\r\n..\r\n.\r\nlast\r\n"

// A message arrives at an independent server octet for octet, with all that the
// envelope says.
func TestSend(t *testing.T) {
	b := &backend{}
	m := compose(t, plain+"ä\n", "j@x.example", "k@x.example")
	s := Sending{Message: m, Sender: "me@here.example", Notify: mail.NotifySuccess | mail.NotifyFailure, Ret: mail.RetHeaders,
		EnvID: "a+b=c", Hello: "here.example"}
	if _, err := Send(peer(t, b, nil), s); err != nil {
		t.Fatal(err)
	}
	want := []taken{{From: "me@here.example", Recipients: []string{"j@x.example", "k@x.example"},
		Options: gosmtp.MailOptions{Size: m.Size(), Body: gosmtp.Body8BitMIME, Return: gosmtp.DSNReturnHeaders, EnvelopeID: "a+b=c"},
		Notify:  []gosmtp.DSNNotify{gosmtp.DSNNotifySuccess, gosmtp.DSNNotifyFailure}, Content: plain + "ä\r\n"}}
	if diff := cmp.Diff(want, b.taken); diff != "" {
		t.Error(diff)
	}
}

// Internationalized mail asks for SMTPUTF8 wherever the characters are.
func TestSendUTF8(t *testing.T) {
	for _, c := range []struct {
		in, sender, recipient string
		want                  bool
	}{
		{plain, "me@x", "j@x", false},
		{plain, "mé@x", "j@x", true},
		{plain, "me@x", "jé@x", true},
		{"Subject: é\n" + plain, "me@x", "j@x", true},
	} {
		b := &backend{}
		s := Sending{Message: compose(t, c.in, mail.Address(c.recipient)), Sender: mail.Address(c.sender), Hello: "h"}
		if _, err := Send(peer(t, b, nil), s); err != nil || len(b.taken) != 1 || b.taken[0].Options.UTF8 != c.want {
			t.Errorf("%+v: %v, %+v", c, err, b.taken)
		}
		_, err := Send(peer(t, b, func(s *gosmtp.Server) { s.EnableSMTPUTF8 = false }), s)
		var refused *Refusal
		if c.want != errors.As(err, &refused) {
			t.Errorf("%+v where it is not offered: %v", c, err)
		}
	}
}

// More recipients than the server takes at once are split: each gets the message
// exactly once.
func TestSendSplits(t *testing.T) {
	var all []mail.Address
	var want []string
	for i := range 1234 {
		a := fmt.Sprintf("user%d@x.example", i)
		all, want = append(all, mail.Address(a)), append(want, a)
	}
	for name, change := range map[string]func(*gosmtp.Server){
		"announced": func(s *gosmtp.Server) { s.MaxRecipients = 100 },
		"unlimited": nil,
	} {
		b := &backend{}
		if _, err := Send(peer(t, b, change), Sending{Message: compose(t, plain, all...), Hello: "h"}); err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		var got []string
		for _, m := range b.taken {
			got = append(got, m.Recipients...)
			if m.Content != plain {
				t.Errorf("%s: content %q", name, m.Content)
			}
		}
		if diff := cmp.Diff(want, got); diff != "" || (len(b.taken) == 1) != (change == nil) {
			t.Errorf("%s: in %d transactions: %s", name, len(b.taken), diff)
		}
	}
}

// One recipient that is refused keeps the message from being sent to anybody,
// so that the caller may correct it and send again.
func TestSendIsAllOrNothing(t *testing.T) {
	b := &backend{deny: "user70@x.example"}
	var all []mail.Address
	for i := range 200 {
		all = append(all, mail.Address(fmt.Sprintf("user%d@x.example", i)))
	}
	_, err := Send(peer(t, b, nil), Sending{Message: compose(t, plain, all...), Hello: "h"})
	var refused *Refusal
	if !errors.As(err, &refused) || refused.Recipient != "user70@x.example" || refused.Sent != 0 || len(b.taken) != 0 {
		t.Errorf("%v; taken %d", err, len(b.taken))
	}
}

// A script is what a server replies; what it receives is recorded.
func script(conn net.Conn, told *[]string, says ...string) {
	defer conn.Close()
	in := bufio.NewReader(conn)
	for i, reply := range says {
		if i > 0 {
			for content := strings.HasPrefix(says[i-1], "354"); ; {
				line, err := in.ReadString('\n')
				if err != nil {
					return
				}
				*told = append(*told, strings.TrimSpace(line))
				if !content || line == ".\r\n" {
					break
				}
			}
		}
		if reply == "" {
			return
		}
		io.WriteString(conn, reply+"\r\n")
	}
}

// A second attempt goes on where the first came to, with those that were put off.
func TestSendGoesOn(t *testing.T) {
	m := compose(t, plain, "a@x", "b@x", "c@x", "d@x", "e@x")
	attempt := func(after Mark, says ...string) (told []string, refused *Refusal) {
		near, far := net.Pipe()
		done := make(chan struct{})
		go func() {
			defer close(done)
			script(far, &told, append([]string{"220 s", "250-s\r\n250-PIPELINING\r\n250-LIMITS RCPTMAX=4\r\n250 8BITMIME"}, says...)...)
		}()
		_, err := Send(near, Sending{Message: m, Hello: "h", After: after})
		near.Close()
		<-done
		if err != nil && !errors.As(err, &refused) {
			t.Fatal(err)
		}
		return slices.DeleteFunc(told, func(line string) bool { return !strings.HasPrefix(line, "RCPT") }), refused
	}
	_, refused := attempt(Mark{}, "250 ok", "250 ok", "452 4.5.3 later", "250 ok", "452 4.5.3 later", "354 go", "250 taken", "451 no more", "221 bye")
	if refused == nil || refused.Sent != 2 || refused.Mark.Sent() != 2 {
		t.Fatalf("%+v", refused)
	}
	if _, refused = attempt(refused.Mark, "451 no", "221 bye"); refused == nil || refused.Sent != 0 {
		t.Fatalf("%+v", refused)
	}
	told, refused := attempt(refused.Mark, "250 ok", "250 ok", "250 ok", "250 ok", "354 go", "250 taken", "221 bye")
	if want := []string{"RCPT TO:<b@x>", "RCPT TO:<d@x>", "RCPT TO:<e@x>"}; refused != nil || !slices.Equal(told, want) {
		t.Errorf("%q, %v", told, refused)
	}
}

// What a server may answer at each step, and what the caller hears of it.
func TestReplies(t *testing.T) {
	ehlo := "250-server\r\n250 8BITMIME"
	for _, c := range []struct {
		name     string
		says     []string
		want     string // of the error; "" is success
		sent     int
		doubtful bool
		told     []string // the commands, without content
	}{
		{"all well", []string{"220 hi", ehlo, "250 ok", "250 ok", "250 ok", "354 go", "250 2.0.0 queued as X", "221 bye"}, "", 0, false,
			[]string{"EHLO h", "MAIL FROM:<me@x>", "RCPT TO:<a@x>", "RCPT TO:<b@x>", "DATA", "QUIT"}},
		{"no quit", []string{"220 hi", ehlo, "250 ok", "250 ok", "250 ok", "354 go", "250 ok", ""}, "", 0, false, nil},
		{"busy", []string{"421 4.3.2 busy", "221 bye"}, "421 4.3.2 busy", 0, false, []string{"QUIT"}},
		{"no ehlo", []string{"220 hi", "502 what", "221 bye"}, "502 what", 0, false, nil},
		{"sender refused", []string{"220 hi", ehlo, "553 5.7.1 not you", "221 bye"}, "553 5.7.1 not you", 0, false, nil},
		{"recipient refused", []string{"220 hi", ehlo, "250 ok", "250 ok", "450 4.2.0 later", "221 bye"}, "b@x: 450 4.2.0 later", 0, false, nil},
		{"one at a time", []string{"220 hi", ehlo, "250 ok", "250 ok", "452 4.5.3 enough", "354 go", "250 ok", "250 ok", "250 ok", "354 go", "250 ok", "221 bye"}, "", 0, false,
			[]string{"EHLO h", "MAIL FROM:<me@x>", "RCPT TO:<a@x>", "RCPT TO:<b@x>", "DATA", "MAIL FROM:<me@x>", "RCPT TO:<b@x>", "DATA", "QUIT"}},
		{"none at a time", []string{"220 hi", ehlo, "250 ok", "452 4.5.3 enough", "221 bye"}, "a@x: 452 4.5.3 enough", 0, false, nil},
		{"second part refused", []string{"220 hi", ehlo, "250 ok", "250 ok", "452 enough", "354 go", "250 ok", "250 ok", "550 no", "221 bye"}, "b@x: 550 no", 1, false, nil},
		{"full disk is not a crowd", []string{"220 hi", ehlo, "250 ok", "452 4.3.1 disk full", "221 bye"}, "a@x: 452 4.3.1 disk full", 0, false, nil},
		{"no data", []string{"220 hi", ehlo, "250 ok", "250 ok", "250 ok", "451 no", "221 bye"}, "451 no", 0, false, nil},
		{"data with 250", []string{"220 hi", ehlo, "250 ok", "250 ok", "250 ok", "250 what", "221 bye"}, "250 what", 0, false, nil},
		{"content refused", []string{"220 hi", ehlo, "250 ok", "250 ok", "250 ok", "354 go", "552 5.3.4 too big", "221 bye"}, "552 5.3.4 too big", 0, false, nil},
		{"lost at once", []string{""}, "unexpected EOF", 0, false, nil},
		{"lost in the envelope", []string{"220 hi", ehlo, "250 ok", ""}, "unexpected EOF", 0, false, nil},
		{"lost at the end", []string{"220 hi", ehlo, "250 ok", "250 ok", "250 ok", "354 go", ""}, "unexpected EOF", 0, true, nil},
		{"garbage", []string{"hello there"}, "malformed reply", 0, false, nil},
	} {
		near, far := net.Pipe()
		var told []string
		done := make(chan struct{})
		go func() {
			defer close(done)
			script(far, &told, c.says...)
		}()
		_, err := Send(near, Sending{Message: compose(t, "\n\n", "a@x", "b@x"), Sender: "me@x", Hello: "h"})
		near.Close()
		<-done
		var refused *Refusal
		var broken *ConnectionError
		sent, doubtful := 0, false
		if errors.As(err, &refused) {
			sent = refused.Sent
		}
		if errors.As(err, &broken) {
			sent, doubtful = broken.Sent, broken.Doubtful
		}
		if (err == nil) != (c.want == "") || err != nil && !strings.Contains(err.Error(), c.want) || sent != c.sent || doubtful != c.doubtful {
			t.Errorf("%s: %v, %d sent, doubtful %v", c.name, err, sent, doubtful)
		}
		if c.told != nil {
			commands := slices.DeleteFunc(told, func(s string) bool {
				return s == "" || s == "." || strings.Contains(s, ": ")
			})
			if diff := cmp.Diff(c.told, commands); diff != "" {
				t.Errorf("%s: %s", c.name, diff)
			}
		}
	}
}

// A server that hangs must not make the program hang forever: its caller holds
// resources, a web server's worker say.
func TestHangingServer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		near, far := net.Pipe()
		defer far.Close()
		begin := time.Now()
		_, err := Send(near, Sending{Message: compose(t, "\n\n", "a@x"), Hello: "h"})
		var broken *ConnectionError
		if !errors.As(err, &broken) || time.Since(begin) != commandTimeout {
			t.Errorf("%v after %s", err, time.Since(begin))
		}
		near.Close()
	})
}

// The dialogue can be watched.
func TestTrace(t *testing.T) {
	var b bytes.Buffer
	if _, err := Send(peer(t, &backend{}, nil), Sending{Message: compose(t, plain, "a@x"), Hello: "h", Trace: &b}); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"<- 220 ", "-> EHLO h\n", "-> MAIL FROM:<> SIZE=", "-> RCPT TO:<a@x>\n", "<- 354 ", "octets)\n", "-> QUIT\n"} {
		if !strings.Contains(b.String(), want) {
			t.Errorf("no %q in\n%s", want, &b)
		}
	}
}

// Sending to a million recipients is one program's run, so it must not take
// much longer than the server does.
func BenchmarkRecipients(b *testing.B) {
	near, far := net.Pipe()
	go func() {
		in := bufio.NewReader(far)
		io.WriteString(far, "220 hi\r\n")
		for content := false; ; {
			line, err := in.ReadSlice('\n')
			if err != nil {
				return
			}
			switch {
			case content && string(line) == ".\r\n":
				content = false
				io.WriteString(far, "250 ok\r\n")
			case content:
			case bytes.HasPrefix(line, []byte("EHLO")):
				io.WriteString(far, "250-server\r\n250 PIPELINING\r\n")
			case bytes.HasPrefix(line, []byte("DATA")):
				content = true
				io.WriteString(far, "354 go\r\n")
			default:
				io.WriteString(far, "250 ok\r\n")
			}
		}
	}()
	o := options()
	for i := range b.N {
		o.Recipients = append(o.Recipients, mail.Address(fmt.Sprintf("user%d@x.example", i)))
	}
	m, err := Compose(strings.NewReader(plain), o)
	if err != nil {
		b.Fatal(err)
	}
	b.ReportAllocs()
	b.ResetTimer()
	if _, err := Send(near, Sending{Message: m, Hello: "h"}); err != nil {
		b.Fatal(err)
	}
	near.Close()
}
