package inbound

import (
	"fmt"
	"io"
	"net"
	"path/filepath"
	"strings"
	"testing"

	"github.com/emersion/go-smtp"

	"github.com/posthaste-mta/posthaste/mail"
)

// loopbackServer runs a server behind a real listener, for what a pipe cannot
// provide: descriptors, half-closed connections, another program's client.
func loopbackServer(t testing.TB, l net.Listener, cfg Config, sink Sink) *Server {
	t.Helper()
	cfg.Session.Hostname = "mx.example"
	policy, err := NewRelayPolicy(RelayConfig{})
	if err != nil {
		t.Fatal(err)
	}
	s, err := New(cfg, sink, policy, nil)
	if err != nil {
		t.Fatal(err)
	}
	served := make(chan error, 1)
	go func() { served <- s.Serve(t.Context(), Listener{Listener: l}) }()
	t.Cleanup(func() { // the test's context has ended by now
		if err := <-served; err != nil {
			t.Error(err)
		}
	})
	return s
}

func listen(t testing.TB, network, address string) net.Listener {
	t.Helper()
	l, err := net.Listen(network, address)
	if err != nil {
		t.Fatal(err)
	}
	return l
}

// The client of go-smtp, an independent implementation of the same RFCs, must get
// its addresses, parameters and content through unchanged.
func TestAgainstAnotherClient(t *testing.T) {
	l := listen(t, "tcp", "127.0.0.1:0")
	sink := &memorySink{}
	loopbackServer(t, l, Config{}, sink)
	c, err := smtp.Dial(l.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	if err := c.Hello("client.example"); err != nil {
		t.Fatal(err)
	}
	for _, extension := range []string{"PIPELINING", "8BITMIME", "SMTPUTF8", "DSN", "ENHANCEDSTATUSCODES", "CHUNKING", "SIZE", "LIMITS"} {
		if ok, _ := c.Extension(extension); !ok {
			t.Errorf("%s is not offered", extension)
		}
	}
	for _, extension := range []string{"STARTTLS", "AUTH", "BINARYMIME"} {
		if ok, _ := c.Extension(extension); ok {
			t.Errorf("%s is offered", extension)
		}
	}
	if n, ok := c.MaxMessageSize(); !ok || n != 10240000 {
		t.Errorf("size limit %d %t", n, ok)
	}
	bodies := []string{"", "text\r\n", ".\r\n", "..\r\n.text\r\n\r\n.\r\n", strings.Repeat(strings.Repeat("long ", 150)+"\r\n", 500)}
	senders := []string{"", "a@a.example", "first.last+tag@a.example", "x@[192.0.2.1]"}
	recipients := []string{"b@b.example", `"quoted part"@b.example`, "x-y_z@sub.b.example"}
	for i, body := range bodies {
		sender := senders[i%len(senders)]
		if err := c.Mail(sender, &smtp.MailOptions{Size: int64(len(body)), Return: smtp.DSNReturnHeaders, EnvelopeID: "id+x", Body: smtp.Body8BitMIME}); err != nil {
			t.Fatal(err)
		}
		for _, r := range recipients {
			options := smtp.RcptOptions{Notify: []smtp.DSNNotify{smtp.DSNNotifyFailure}, OriginalRecipientType: smtp.DSNAddressTypeRFC822, OriginalRecipient: "o+r@b.example"}
			if err := c.Rcpt(r, &options); err != nil {
				t.Fatal(err)
			}
		}
		w, err := c.Data()
		if err != nil {
			t.Fatal(err)
		}
		if _, err := io.WriteString(w, body); err != nil {
			t.Fatal(err)
		}
		if err := w.Close(); err != nil {
			t.Fatal(err)
		}
		compareMessage(t, sink.taken()[i], sender, recipients, body)
	}
	if err := c.Rcpt("nobody@b.example", nil); err == nil {
		t.Error("RCPT without MAIL was accepted")
	}
	if err := c.Quit(); err != nil {
		t.Error(err)
	}
}

func compareMessage(t *testing.T, m *memoryDraft, sender string, recipients []string, body string) {
	t.Helper()
	e := m.envelope
	if string(e.Sender) != sender || e.Ret != mail.RetHeaders || e.EnvID != "id+2Bx" || e.Body != mail.Body8BitMIME || e.Client.Proto != "ESMTP" {
		t.Errorf("envelope %+v", e)
	}
	for i, r := range m.recipients {
		want := mail.Recipient{Address: mail.Address(recipients[i]), ORcpt: "rfc822;o+2Br@b.example", Notify: mail.NotifyFailure}
		if !strings.EqualFold(r.ORcpt, want.ORcpt) || r.Address != want.Address || r.Notify != want.Notify {
			t.Errorf("recipient %+v, want %+v", r, want)
		}
	}
	if len(m.recipients) != len(recipients) || !strings.HasSuffix(string(m.content), " +0000\r\n"+body) && !strings.HasSuffix(string(m.content), "\r\n"+body) {
		t.Errorf("%d recipients, content %.200q", len(m.recipients), m.content)
	}
}

// B-09, B-36: a client that sends everything at once and closes its sending half.
// Over TCP and over a unix socket, both of which have descriptors.
func TestHalfClose(t *testing.T) {
	for _, network := range []string{"tcp", "unix"} {
		t.Run(network, func(t *testing.T) {
			address := "127.0.0.1:0"
			if network == "unix" {
				address = filepath.Join(t.TempDir(), "smtp")
			}
			l := listen(t, network, address)
			sink := &memorySink{}
			s := loopbackServer(t, l, Config{}, sink)
			conn, err := net.Dial(network, l.Addr().String())
			if err != nil {
				t.Fatal(err)
			}
			defer conn.Close()
			script := "EHLO x\r\n"
			for i := range 50 {
				script += fmt.Sprintf("MAIL FROM:<%d@a.example>\r\nRCPT TO:<b@b.example>\r\nDATA\r\n%s\r\n.\r\n", i, strings.Repeat("x\r\n", 1000*i))
			}
			go func() {
				io.WriteString(conn, script)                        // the replies show it
				conn.(interface{ CloseWrite() error }).CloseWrite() // likewise
			}()
			replies, err := io.ReadAll(conn)
			if err != nil {
				t.Fatal(err)
			}
			if n := strings.Count(string(replies), "250 2.0.0 Ok: queued as "); n != 50 || len(sink.taken()) != 50 {
				t.Errorf("%d replies, %d messages", n, len(sink.taken()))
			}
			if network == "unix" && !strings.Contains(string(sink.taken()[0].content), "(local socket)") {
				t.Errorf("content %.300q", sink.taken()[0].content)
			}
			if s.Snapshot().Messages != 50 {
				t.Errorf("counters %+v", s.Snapshot())
			}
		})
	}
}
