package daemon

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"net"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	library "github.com/d--j/go-milter"

	"github.com/posthaste-mta/posthaste/admin"
	"github.com/posthaste-mta/posthaste/internal/feed"
	"github.com/posthaste-mta/posthaste/internal/sink"
	"github.com/posthaste-mta/posthaste/internal/submit"
	"github.com/posthaste-mta/posthaste/mail"
)

// A censor is a milter, made with a library, that does what the message's key says.
type censor struct {
	library.NoOpMilter
	name string
	mu   *sync.Mutex
	seen *[]string // clients and keys
	key  string
}

func (c *censor) note(text string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	*c.seen = append(*c.seen, c.name+" "+text)
}

func (c *censor) MailFrom(string, string, library.Modifier) (*library.Response, error) {
	c.key = ""
	return library.RespContinue, nil
}

func (c *censor) RcptTo(to, _ string, m library.Modifier) (*library.Response, error) {
	if to == "unwanted@x.test" {
		return library.RejectWithCodeAndReason(550, "5.7.9 not to him")
	}
	return library.RespContinue, nil
}

func (c *censor) Header(name, value string, _ library.Modifier) (*library.Response, error) {
	if strings.EqualFold(name, "Message-ID") {
		c.key = value
	}
	return library.RespContinue, nil
}

func (c *censor) EndOfMessage(m library.Modifier) (*library.Response, error) {
	c.note(m.Get("{daemon_name}") + " " + c.key)
	act, _, _ := strings.Cut(c.key, "-")
	var err error
	switch act {
	case "refuse":
		return library.RejectWithCodeAndReason(554, "5.7.1 spam")
	case "discard":
		return library.RespDiscard, nil
	case "hold":
		err = m.Quarantine("odd")
	case "fold":
		err = m.AddHeader("X-"+c.name, "one\n\ttwo")
	case "change":
		for _, e := range []error{m.InsertHeader(0, "X-Top", c.name), m.ChangeHeader(1, "Subject", "from "+c.name), m.ChangeFrom("changed@origin.test", ""), m.DeleteRecipient("ann@x.test"),
			m.AddRecipient("eve@x.test", ""), m.ReplaceBodyRawChunk([]byte("New body by " + c.name + ".\r\n"))} {
			if err == nil {
				err = e
			}
		}
	case "empty":
		err = m.DeleteRecipient("ann@x.test")
	}
	return library.RespAccept, err
}

// startCensor starts a milter and returns its address and how to end it.
func startCensor(t *testing.T, name string, mu *sync.Mutex, seen *[]string) (address string, stop func()) {
	t.Helper()
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	server := library.NewServer(library.WithMilter(func() library.Milter { return &censor{name: name, mu: mu, seen: seen} }), library.WithActions(library.AllClientSupportedActionMasks))
	served := make(chan error, 1)
	go func() { served <- server.Serve(ln) }()
	var once sync.Once
	stop = func() {
		once.Do(func() {
			server.Close()
			<-served
		})
	}
	t.Cleanup(stop)
	return ln.Addr().String(), stop
}

// Two milters look at mail of one listener, one of them also at that of local programs: what they
// refuse, throw away, hold and change arrives, or does not, with a signature over what it has become.
// When a milter has gone, the client is asked to try again later, and after a reload without it mail passes.
func TestMilters(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	box := receive(t, sink.Config{})
	var mu sync.Mutex
	var seen []string
	one, stop := startCensor(t, "One", &mu, &seen)
	two, _ := startCensor(t, "Two", &mu, &seen)
	zone := records{}
	keys := zone.newKeys(t, dir, [3]string{"one", "ed25519", ""})
	milters := fmt.Sprintf("[[milter]]\nname = \"one\"\naddress = \"inet:%s\"\nnon_smtpd = true\n[[milter]]\nname = \"two\"\naddress = \"%s\"\nlistener = [\"127.0.0.1:0\"]\n", one, two)
	text := "default_transport = \"smtp:[" + strings.Replace(box.address, ":", "]:", 1) + "\"\nsmtp_permit_private_hosts = true\n" + keys
	r := start(t, dir, text+milters)
	send := func(m feed.Message) feed.Result {
		t.Helper()
		c := r.dial()
		defer c.Close()
		return c.Send(m)
	}
	for key, want := range map[string]feed.Fate{"refuse-1": feed.Refused, "discard-1": feed.Accepted, "empty-1": feed.Accepted, "hold-1": feed.Accepted} {
		if got := send(letter(key, "ann@x.test")); got.Fate != want {
			t.Errorf("%s: %+v", key, got)
		}
	}
	for i := range 9 { // each has a line in the log, by which it can be found
		if got := send(letter(fmt.Sprint("discard-", i), "ann@x.test")); got.Fate != feed.Accepted || r.log.count("a milter discards a message", "milter=one", "id="+strings.TrimPrefix(got.Reply.Text, "Ok: queued as ")) != 1 {
			t.Errorf("%+v", got)
		}
	}
	if got := send(letter("fold-2", "unwanted@x.test")); got.Fate != feed.Refused {
		t.Errorf("%+v", got)
	}
	r.feed(letter("fold-1", "ann@x.test"), letter("change-1", "ann@x.test", "bob@x.test"))
	large := letter("fold-3", "cem@x.test")
	large.Content = append(large.Content, strings.Repeat("A line of a large message.\r\n", 10_000)...)
	r.feed(large)
	submitted, err := submit.Compose(strings.NewReader("Message-ID: fold-local\nFrom: sender@origin.test\n\nHello.\n"), submit.Options{Domain: "origin.test", Recipients: []mail.Address{"dan@x.test"}})
	if err != nil {
		t.Fatal(err)
	}
	defer submitted.Close()
	conn, err := net.Dial("unix", filepath.Join(dir, "submit.sock"))
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	if _, err := submit.Send(conn, submit.Sending{Message: submitted, Sender: "sender@origin.test", Hello: "localhost"}); err != nil {
		t.Fatal(err)
	}
	r.waiting("one held message", census{mail.AreaHold: 1})
	box.copies().matches(t, copies{"fold-1 ann@x.test": 1, "change-1 bob@x.test": 1, "change-1 eve@x.test": 1, "fold-3 cem@x.test": 1, "fold-local dan@x.test": 1})
	for _, d := range box.deliveries() {
		content := string(d.Content)
		switch {
		case d.Key == "change-1" && (d.Sender != "changed@origin.test" || !strings.Contains(content, "X-Top: Two\r\nX-Top: One\r\nReceived: from ") || !strings.Contains(content, "\r\nSubject: from Two\r\n") || !strings.HasSuffix(content, "\r\n\r\nNew body by Two.\r\n")),
			d.Key == "fold-1" && !strings.Contains(content, "\r\nX-One: one\r\n\ttwo\r\nX-Two: one\r\n\ttwo\r\n\r\nHello.\r\n"),
			d.Key == "fold-local" && !strings.Contains(content, "\r\nX-One: one\r\n\ttwo\r\n\r\n"), d.Key == "fold-local" && strings.Contains(content, "X-Two"):
			t.Errorf("%s from %s:\n%s", d.Key, d.Sender, content)
		}
		if d.Key == "fold-3" { // of the large one only the beginning is kept
			continue
		}
		if signed := zone.selectors(t, d.Content); len(signed) != 1 {
			t.Errorf("%s is signed by %q", d.Key, signed)
		}
	}
	held := r.ids(mail.AreaHold)[0]
	if m, err := r.d.spool.Lookup(context.Background(), held); err != nil || m.Reason != "milter one: odd" {
		t.Errorf("%+v, %v", m, err)
	}
	mu.Lock()
	all := strings.Join(seen, "\n")
	mu.Unlock()
	for _, want := range []string{"One 127.0.0.1:", " refuse-1", "One submission_socket fold-local", "Two 127.0.0.1:"} {
		if !strings.Contains(all, want) {
			t.Errorf("the milters lack %q:\n%s", want, all)
		}
	}
	if strings.Contains(all, "Two 127.0.0.1:0 refuse-1") { // the first has refused it
		t.Error(all)
	}
	for _, want := range [][]string{{"a milter refuses", "milter=one", "at=RCPT", "550 5.7.9"}, {"a milter refuses", "at=\"end of content\"", "554 5.7.1"}, {"a milter discards"}, {"a milter changes a message", "change_sender"},
		{"removed all recipients"}, {"msg=accepted", "hold=\"milter one: odd\""}} {
		if r.log.count(want...) == 0 {
			t.Errorf("the log lacks %q", want)
		}
	}
	if left, err := os.ReadDir(filepath.Join(dir, "milter")); err != nil || len(left) > 0 {
		t.Errorf("%v, %v", left, err)
	}
	stop()
	if got := send(letter("fold-4", "ann@x.test")); got.Fate != feed.Refused || got.Reply.Code != 451 {
		t.Errorf("%+v", got)
	}
	if r.log.count("a milter failed", "milter=one", "action=tempfail") != 1 {
		t.Error("the log does not say that the milter has failed")
	}
	if _, err := r.d.reload(configure(t, dir, text)); err != nil {
		t.Fatal(err)
	}
	r.feed(letter("fold-5", "fay@x.test"))
	r.waiting("one held message", census{mail.AreaHold: 1})
}

// A milter removes a recipient: whoever would get a copy of his mail gets none either, unless the client has named
// him, too.
func TestMilterRemovesWithCopies(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	box := receive(t, sink.Config{})
	var mu sync.Mutex
	var seen []string
	address, _ := startCensor(t, "One", &mu, &seen)
	list := filepath.Join(dir, "copies")
	if err := os.WriteFile(list, []byte("ann@x.test boss@x.test,spy@x.test\nbob@x.test boss2@x.test\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	r := start(t, dir, fmt.Sprintf("default_transport = \"smtp:[%s\"\nsmtp_permit_private_hosts = true\nrecipient_bcc_maps = %q\n[[milter]]\nname = \"one\"\naddress = \"inet:%s\"\n",
		strings.Replace(box.address, ":", "]:", 1), list, address))
	r.feed(letter("empty-1", "ann@x.test", "bob@x.test", "spy@x.test"), letter("other", "ann@x.test"))
	r.settled()
	box.copies().matches(t, copies{"empty-1 bob@x.test": 1, "empty-1 boss2@x.test": 1, "empty-1 spy@x.test": 1,
		"other ann@x.test": 1, "other boss@x.test": 1, "other spy@x.test": 1})
}

// The status shows what clients have brought, what was refused them and why, and what milters have done. A reload
// keeps the counts of a milter that stays.
func TestIntakeStatus(t *testing.T) {
	t.Parallel()
	box := receive(t, sink.Config{})
	var mu sync.Mutex
	var seen []string
	address, _ := startCensor(t, "One", &mu, &seen)
	text := fmt.Sprintf("default_transport = \"smtp:[%s\"\nsmtp_permit_private_hosts = true\n[[milter]]\nname = \"censor\"\naddress = \"inet:%s\"\n", strings.Replace(box.address, ":", "]:", 1), address)
	r := start(t, t.TempDir(), text)
	r.feed(letter("first", "ann@x.test"))
	c := r.dial()
	if got := c.Send(letter("refuse-1", "ann@x.test")); got.Fate != feed.Refused {
		t.Errorf("%+v", got)
	}
	c.Close()
	r.settled()
	if _, err := r.d.reload(configure(t, r.dir, text)); err != nil {
		t.Fatal(err)
	}
	status := func() (s admin.Status) {
		t.Helper()
		w := httptest.NewRecorder()
		r.d.admin.Handler().ServeHTTP(w, httptest.NewRequest("GET", "/v1/status", nil))
		if err := json.Unmarshal(w.Body.Bytes(), &s); err != nil || s.Intake == nil {
			t.Fatalf("%v in\n%s", err, w.Body)
		}
		return s
	}
	r.until("no session is open", func() bool { return status().Intake.Open == 0 })
	in := status().Intake
	if in.Sessions != 2 || in.Messages != 1 || in.Recipients != 1 || in.Octets == 0 || !maps.Equal(in.Refusals, map[string]int64{"policy": 1}) {
		t.Errorf("%+v", in)
	}
	if want := []admin.MilterStatus{{Name: "censor", Connections: 2, Messages: 1, Refused: 1}}; !slices.Equal(in.Milters, want) {
		t.Errorf("%+v, want %+v", in.Milters, want)
	}
}
