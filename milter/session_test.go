package milter

import (
	"fmt"
	"net"
	"strings"
	"sync"
	"testing"

	library "github.com/d--j/go-milter"

	"github.com/posthaste-mta/posthaste/mail"
	"github.com/posthaste-mta/posthaste/smtp"
)

// A backend is a milter made with a library that knows nothing of this package: it notes what it is
// told, and wants one change of each kind.
type backend struct {
	library.NoOpMilter
	mu  sync.Mutex
	got []string
}

func (b *backend) note(format string, args ...any) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.got = append(b.got, fmt.Sprintf(format, args...))
}

func (b *backend) Connect(host, family string, port uint16, addr string, m library.Modifier) (*library.Response, error) {
	b.note("connect %s %s %d %s %s %s %s", host, family, port, addr, m.Get("j"), m.Get("{daemon_name}"), m.Get("v"))
	return library.RespContinue, nil
}
func (b *backend) Helo(name string, m library.Modifier) (*library.Response, error) {
	b.note("helo %s %s %s %s", name, m.Get("{tls_version}"), m.Get("{cipher}"), m.Get("{cipher_bits}"))
	return library.RespContinue, nil
}
func (b *backend) MailFrom(from, args string, m library.Modifier) (*library.Response, error) {
	b.note("mail %s %s %s %s %s %s", from, args, m.Get("i"), m.Get("{auth_authen}"), m.Get("{auth_type}"), m.Get("{mail_addr}"))
	return library.RespContinue, nil
}
func (b *backend) RcptTo(to, args string, m library.Modifier) (*library.Response, error) {
	b.note("rcpt %s %s %s %s", to, args, m.Get("{rcpt_addr}"), m.Get("{rcpt_host}"))
	return library.RespContinue, nil
}
func (b *backend) Data(library.Modifier) (*library.Response, error) {
	b.note("data")
	return library.RespContinue, nil
}
func (b *backend) Header(name, value string, _ library.Modifier) (*library.Response, error) {
	b.note("header %q %q", name, value)
	return library.RespContinue, nil
}
func (b *backend) Headers(library.Modifier) (*library.Response, error) {
	b.note("headers")
	return library.RespContinue, nil
}
func (b *backend) BodyChunk(chunk []byte, _ library.Modifier) (*library.Response, error) {
	b.note("body %d", len(chunk))
	return library.RespContinue, nil
}
func (b *backend) EndOfMessage(m library.Modifier) (*library.Response, error) {
	b.note("end %s", m.Get("i"))
	for _, err := range []error{
		m.Progress(),
		m.AddHeader("X-Last", "last"), m.InsertHeader(0, "X-First", "first"), m.InsertHeader(1, "X-Second", "second\n\tfolded"),
		m.ChangeHeader(1, "Subject", "new"), m.ChangeHeader(1, "received", ""),
		m.ChangeFrom("c@x.test", ""), m.AddRecipient("d@y.test", "NOTIFY=NEVER"), m.DeleteRecipient("b@y.test"),
		m.ReplaceBodyRawChunk([]byte("New ")), m.ReplaceBodyRawChunk([]byte("body.\r\n")), m.Quarantine("it looks\nodd"),
	} {
		if err != nil {
			b.note("%v", err)
		}
	}
	return library.RespAccept, nil
}
func (b *backend) Abort(library.Modifier) error {
	b.note("abort")
	return nil
}

// A milter made with another library receives every step, and all the changes that it requests are made.
func TestEverythingWithALibrary(t *testing.T) {
	b := &backend{}
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	server := library.NewServer(library.WithMilter(func() library.Milter { return b }), library.WithActions(library.AllClientSupportedActionMasks))
	served := make(chan error, 1)
	go func() { served <- server.Serve(ln) }()
	defer func() {
		server.Close()
		<-served
	}()
	j := &journal{}
	c := chain(t, host(t, j), FailTemporarily, ln.Addr().String())
	s := c.Open()
	defer s.Close()
	for range 2 { // the second message is as the first, without its client
		got := submit(t, s, letter)
		want := "X-First: first\r\nX-Second: second\r\n\tfolded\r\nReceived: by mta.test\r\nFrom: <a@x.test>\r\nSubject: new\r\nX-Last: last\r\n\r\nNew body.\r\n"
		if got.reply != 250 || got.content != want {
			t.Fatalf("%+v\n%s", got, j.text())
		}
		if got.changes.Sender != "c@x.test" || !got.changes.NewSender || got.changes.Hold != "milter m1: it looks odd" || fmt.Sprint(got.changes.Recipients) !=
			fmt.Sprint([]RecipientChange{{Recipient: mail.Recipient{Address: "d@y.test", Notify: mail.NotifyNever}}, {Recipient: mail.Recipient{Address: "b@y.test"}, Remove: true}}) {
			t.Errorf("%+v", got.changes)
		}
	}
	message := `mail a@x.test SIZE=100 00000000004K7 joe PLAIN a@x.test
rcpt b@y.test NOTIFY=NEVER b@y.test y.test
data
header "From" "<a@x.test>"
header "Subject" " two spaces"
header "Received" "from elsewhere\n\tfolded"
headers
body 8
end 00000000004K7
`
	b.mu.Lock()
	defer b.mu.Unlock()
	want := `connect unknown tcp4 4711 192.0.2.7 mta.test mx Posthaste test
helo client.test TLSv1.3 TLS_AES_128_GCM_SHA256 128
` + message + "abort\n" + message // the library aborts at MAIL by itself
	if got := strings.Join(b.got, "\n") + "\n"; got != want {
		t.Errorf("it received:\n%swant:\n%s", got, want)
	}
	if n := c.Milters[0].Snapshot(); n != (Counters{Connections: 1, Messages: 2, Held: 2, Changed: 2}) {
		t.Errorf("%+v", n)
	}
	if !strings.Contains(j.text(), "changes add_header=1 insert_header=2 change_header=2 replace_body change_sender add_recipient=1 remove_recipient=1 hold") && !strings.Contains(j.text(), "add_header=1 insert_header=2 change_header=2 replace_body change_sender add_recipient=1 remove_recipient=1 hold") {
		t.Error(j.text())
	}
}

// Each answer of a milter to each command: what becomes of the message, and what the milter receives
// afterwards.
func TestWords(t *testing.T) {
	reply := pack('y', "550-5.7.9 100%% spam\r\n550 5.7.9 <see> us\x00")
	muted := uint32(mutedConnect | mutedHelo | mutedMail | mutedRcpt | mutedData | mutedHeader | mutedEOH | mutedBody)
	for _, c := range []struct {
		name   string
		script script
		want   string // reply, discard, text
		seen   string // by the milter, twice the same message
	}{
		{"continue", script{}, "250", "O:12 D C:21 D H:12 D M:20 D R:24 D T:0 L:16 L:20 L:32 D N:0 B:8 D E:0 D M:20 D R:24 D T:0 L:16 L:20 L:32 D N:0 B:8 D E:0 Q"},
		{"nothing is wanted", script{'O': negotiated(6, 0, noConnect|noHelo|noMail|noRcpt|noBody|noHeaders|noEOH|noData)}, "250", "O:12 D D D D D D D E:0 D D D D D E:0 Q"},
		{"nothing is answered", script{'O': negotiated(6, 0, muted), 'C': silent, 'H': silent, 'M': silent, 'R': silent, 'T': silent, 'L': silent, 'N': silent, 'B': silent}, "250",
			"O:12 D C:21 D H:12 D M:20 D R:24 D T:0 L:16 L:20 L:32 D N:0 B:8 D E:0 D M:20 D R:24 D T:0 L:16 L:20 L:32 D N:0 B:8 D E:0 Q"},
		{"version 2", script{'O': negotiated(2, 0x3f, 0)}, "250", "O:12 D C:21 D H:12 D M:20 D R:24 L:16 L:20 L:32 D N:0 B:8 D E:0 D M:20 D R:24 L:16 L:20 L:32 D N:0 B:8 D E:0 Q"},
		{"the space after the colon", script{'O': negotiated(6, 0, leadingSpace)}, "250", "O:12 D C:21 D H:12 D M:20 D R:24 D T:0 L:17 L:21 L:33 D N:0 B:8 D E:0 D M:20 D R:24 D T:0 L:17 L:21 L:33 D N:0 B:8 D E:0 Q"},
		{"the client is trusted", script{'C': pack('a', "")}, "250", "O:12 D C:21 Q"},
		{"the client is refused", script{'C': pack('r', "")}, "550 Command rejected", "O:12 D C:21 Q"},
		{"the client is refused for now", script{'H': pack('t', "")}, "451 Service unavailable - try again later", "O:12 D C:21 D H:12 Q"},
		{"the milter shuts down", script{'C': pack('4', "")}, "421 Service unavailable - try again later", "O:12 D C:21 Q"},
		{"no client is served", script{'C': pack('f', "")}, "451 Service unavailable - try again later", "O:12 D C:21 Q"},
		{"the sender is refused", script{'M': reply}, "550 100% spam\n<see> us", "O:12 D C:21 D H:12 D M:20 A D M:20 A Q"},
		{"the recipient is refused", script{'R': pack('y', "452 full\x00")}, "452 full", "O:12 D C:21 D H:12 D M:20 D R:24 A D M:20 D R:24 A Q"},
		{"the message is accepted at MAIL", script{'M': pack('a', "")}, "250", "O:12 D C:21 D H:12 D M:20 A D M:20 A Q"},
		{"the message is discarded at RCPT", script{'R': pack('d', "")}, "discarded", "O:12 D C:21 D H:12 D M:20 D R:24 A D M:20 D R:24 A Q"},
		{"DATA is refused", script{'T': pack('r', "")}, "550 Command rejected", "O:12 D C:21 D H:12 D M:20 D R:24 D T:0 A D M:20 D R:24 D T:0 A Q"},
		{"a field is refused", script{'L': pack('r', "")}, "550 Command rejected", "O:12 D C:21 D H:12 D M:20 D R:24 D T:0 L:16 A D M:20 D R:24 D T:0 L:16 A Q"},
		{"enough of the header", script{'O': negotiated(6, mayAll, maySkip), 'L': pack('s', "")}, "250", "O:12 D C:21 D H:12 D M:20 D R:24 D T:0 L:16 D N:0 B:8 D E:0 D M:20 D R:24 D T:0 L:16 D N:0 B:8 D E:0 Q"},
		{"the header is accepted", script{'N': pack('a', "")}, "250", "O:12 D C:21 D H:12 D M:20 D R:24 D T:0 L:16 L:20 L:32 D N:0 A D M:20 D R:24 D T:0 L:16 L:20 L:32 D N:0 A Q"},
		{"the body is refused", script{'B': pack('t', "")}, "451 Service unavailable - try again later", "O:12 D C:21 D H:12 D M:20 D R:24 D T:0 L:16 L:20 L:32 D N:0 B:8 A D M:20 D R:24 D T:0 L:16 L:20 L:32 D N:0 B:8 A Q"},
		{"changes of a message that is refused", script{'E': pack('p', "") + pack('h', "A\x00b\x00") + pack('r', "")}, "550 Command rejected", "O:12 D C:21 D H:12 D M:20 D R:24 D T:0 L:16 L:20 L:32 D N:0 B:8 D E:0 D M:20 D R:24 D T:0 L:16 L:20 L:32 D N:0 B:8 D E:0 Q"},
		{"the message is discarded at its end", script{'E': pack('d', "")}, "discarded", "O:12 D C:21 D H:12 D M:20 D R:24 D T:0 L:16 L:20 L:32 D N:0 B:8 D E:0 D M:20 D R:24 D T:0 L:16 L:20 L:32 D N:0 B:8 D E:0 Q"},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			f := &fake{script: c.script}
			j := &journal{}
			s := chain(t, host(t, j), FailAccept, f.start(t)).Open()
			for range 2 {
				got := submit(t, s, letter)
				text := strings.TrimSpace(fmt.Sprintf("%d %s", got.reply, got.reason))
				if got.discard {
					text = "discarded"
				}
				if text != c.want {
					t.Errorf("%q, want %q\n%s", text, c.want, j.text())
				}
				if got.reply == 250 && got.content != "Received: by mta.test\r\n"+letter {
					t.Errorf("%q", got.content)
				}
			}
			s.Close()
			await(t, "QUIT", func() bool { return strings.HasSuffix(f.seen(), "Q") }) // its goroutine reads the last commands
			if got := f.seen(); got != c.seen {
				t.Errorf("the milter has seen\n%s, want\n%s", got, c.seen)
			}
		})
	}
}

// Two milters: the second one gets the header and the body that the first has made, and what both
// want of the envelope comes in their order. What the second refuses, the first hears of only if it
// had not seen the end.
func TestTwoMilters(t *testing.T) {
	first := &fake{script: script{'E': pack('h', "X-One\x001\x00") + pack('b', "A longer body.\r\n") + pack('e', "<one@x.test>\x00") + pack('a', "")}}
	second := &fake{script: script{'E': pack('m', "\x00\x00\x00\x01x-one\x00uno\x00") + pack('m', "\x00\x00\x00\x01X-New\x00new\x00") + pack('e', "two@x.test\x00") + pack('+', "e@y.test\x00") + pack('c', "")}}
	j := &journal{}
	s := chain(t, host(t, j), FailReject, first.start(t), second.start(t)).Open()
	defer s.Close()
	got := submit(t, s, letter)
	if want := "Received: by mta.test\r\n" + strings.Replace(letter, "\r\n\r\nHello.\r\n", "\r\nx-one: uno\r\nX-New: new\r\n\r\nA longer body.\r\n", 1); got.content != want {
		t.Errorf("%q, want %q", got.content, want)
	}
	if got.changes.Sender != "two@x.test" || len(got.changes.Recipients) != 1 {
		t.Errorf("%+v", got.changes)
	}
	if !strings.Contains(second.seen(), "L:8 D N:0 B:16 ") {
		t.Errorf("the second has seen %s", second.seen())
	}
}

// After EHLO on an encrypted connection, milters get the client's name again, and nothing that was
// said before STARTTLS.
func TestHelloAgain(t *testing.T) {
	f := &fake{}
	j := &journal{}
	s := chain(t, host(t, j), FailReject, f.start(t)).Open()
	defer s.Close()
	facts := someFacts
	facts.TLSVersion, facts.Cipher = "", ""
	for range 2 {
		if v := s.Mail(t.Context(), &facts, "", nil); v != (Verdict{}) {
			t.Fatalf("%+v", v)
		}
		s.Abort()
	}
	if v := s.Mail(t.Context(), &someFacts, "", nil); v != (Verdict{}) {
		t.Fatalf("%+v", v)
	}
	// Without TLS there is no macro of EHLO.
	await(t, "MAIL", func() bool { return strings.Count(f.seen(), "M:") == 3 })
	if got, want := f.seen(), "O:12 D C:21 H:12 D M:3 A D M:3 A D H:12 D M:3"; got != want {
		t.Errorf("%s, want %s", got, want)
	}
}

// Macros are those that a milter has asked for, at the moments for which it has; at others they are
// the usual ones.
func TestMacros(t *testing.T) {
	g, err := agree(&answer{cmdNegotiate, []byte(negotiated(6, 0, 0)[5:] + "\x00\x00\x00\x02mail_addr, {client_addr} x {unknown}\x00\x00\x00\x00\x05\x00\x00\x00\x00\x63later\x00")})
	if err != nil {
		t.Fatal(err)
	}
	local := Facts{Listener: "submission_socket"}
	for _, c := range []struct {
		stage stage
		about occasion
		want  string
	}{
		{stageConnect, occasion{Facts: &someFacts}, "j=mta.test {daemon_name}=mx {daemon_addr}=192.0.2.1 {daemon_port}=25 v=Posthaste test _=unknown [192.0.2.7] {client_name}=unknown {client_addr}=192.0.2.7 {client_port}=4711 {client_ptr}=unknown {if_name}=mta.test {if_addr}=192.0.2.1"},
		{stageConnect, occasion{Facts: &local, daemon: "MTA"}, "j=mta.test {daemon_name}=MTA v=Posthaste test _=localhost [127.0.0.1] {client_name}=localhost {client_addr}=127.0.0.1 {client_port}=0 {client_ptr}=localhost {if_name}=mta.test"},
		{stageHelo, occasion{Facts: &local}, ""},
		{stageMail, occasion{Facts: &someFacts, sender: "a@x.test"}, "mail_addr=a@x.test {client_addr}=192.0.2.7"},
		{stageRcpt, occasion{Facts: &someFacts, recipient: "b@y.test"}, "{rcpt_mailer}=smtp {rcpt_host}=y.test {rcpt_addr}=b@y.test"},
		{stageEnd, occasion{Facts: &someFacts}, ""},
		{stageEOH, occasion{Facts: &local}, ""},
		{stageEOH, occasion{Facts: &someFacts}, "i=00000000004K7"},
	} {
		c.about.host = &Host{Hostname: "mta.test", Version: "Posthaste test"}
		var got []string
		if b := g.appendMacros(nil, cmdMail, c.stage, &c.about); len(b) > 0 {
			list, err := texts(cmdMacro, b[6:], 2, 100)
			if err != nil {
				t.Fatal(err)
			}
			for i := 0; i+1 < len(list); i += 2 {
				got = append(got, list[i]+"="+list[i+1])
			}
		}
		if text := strings.Join(got, " "); text != c.want {
			t.Errorf("%d: %s\nwant %s", c.stage, text, c.want)
		}
	}
}

func TestArguments(t *testing.T) {
	m, fault := smtp.ParseMail([]byte("FROM:<a@b.test> SIZE=10 BODY=8BITMIME SMTPUTF8 RET=HDRS ENVID=x+2By MT-PRIORITY=-3 REQUIRETLS"), smtp.PathRules{})
	if fault != smtp.FaultNone {
		t.Fatal(fault)
	}
	if got := strings.Join(Arguments(&m), " "); got != "SIZE=10 BODY=8BITMIME SMTPUTF8 RET=HDRS ENVID=x+2By MT-PRIORITY=-3 REQUIRETLS" {
		t.Error(got)
	}
}
