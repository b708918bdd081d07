package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	gosmtp "github.com/emersion/go-smtp"
	"github.com/rogpeppe/go-internal/testscript"

	"github.com/posthaste-mta/posthaste/admin"
	"github.com/posthaste-mta/posthaste/admin/admintest"
	"github.com/posthaste-mta/posthaste/mail"
	"github.com/posthaste-mta/posthaste/qmgr"
	"github.com/posthaste-mta/posthaste/qmgr/conns"
	"github.com/posthaste-mta/posthaste/qmgr/window"
)

// Scripts run this program under all of its names.
func TestMain(m *testing.M) {
	testscript.Main(m, map[string]func(){
		"posthaste": main, "sendmail": main, "mailq": main, "postcat": main, "postqueue": main, "postsuper": main, "qshape": main,
	})
}

// What a person or a program sees of the commands, as scripts: the daemon's two
// sockets are served by the test, from a queue in memory and by an SMTP server
// of other people's make.
func TestScripts(t *testing.T) {
	testscript.Run(t, testscript.Params{
		Dir:                 "testdata/script",
		UpdateScripts:       os.Getenv("UPDATE") != "",
		RequireExplicitExec: true,
		Setup: func(e *testscript.Env) error {
			e.Setenv("POSTHASTE_QUEUE_DIRECTORY", filepath.Join(e.WorkDir, "q"))
			e.Setenv("TZ", "UTC")
			e.Setenv("TMPDIR", e.WorkDir)
			return os.MkdirAll(filepath.Join(e.WorkDir, "q"), 0o755)
		},
		Condition: func(name string) (bool, error) {
			switch name {
			case "root":
				return os.Getuid() == 0, nil
			case "mailname":
				_, err := os.Stat("/etc/mailname")
				return err == nil, nil
			}
			return false, fmt.Errorf("unknown condition %s", name)
		},
		Cmds: map[string]func(*testscript.TestScript, bool, []string){
			"admin":    serveAdmin,
			"smtp":     serveSMTP,
			"exitcode": checkExitCode,
		},
	})
}

// checkExitCode runs a program and wants it to end with a code: "exitcode 64
// sendmail -x".
func checkExitCode(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) < 2 {
		ts.Fatalf("usage: exitcode CODE PROGRAM ARG…")
	}
	err := ts.Exec(args[1], args[2:]...)
	code := 0
	var ended interface{ ExitCode() int }
	if errors.As(err, &ended) {
		code = ended.ExitCode()
	}
	if want, convErr := strconv.Atoi(args[0]); convErr != nil || code != want {
		ts.Fatalf("exit code %d (%v), want %s", code, err, args[0])
	}
}

// todaysRules are the rules by which mail is accepted: one recipient has two addresses now, and another one none.
type todaysRules struct{}

func (todaysRules) Sender(a mail.Address) (mail.Address, error) { return a, nil }

func (todaysRules) Recipient(r *mail.Recipient) ([]mail.Replacement, error) {
	switch r.Address {
	case "june@example.net":
		return []mail.Replacement{{Of: r.Index, Address: "june@new.example"}, {Of: r.Index, Address: "july@new.example"}}, nil
	case "postmaster@example.com":
		return nil, errors.New("aliases lead in a circle")
	}
	return nil, nil
}

func (todaysRules) Flow(e *mail.Envelope, _ io.Reader) (mail.Flow, error) { return e.Flow, nil }

// serveAdmin serves the administration API over a queue that a name stands for. With
// "network" it is also at $URL, for the tokens "reads" and "operates".
func serveAdmin(ts *testscript.TestScript, neg bool, args []string) {
	queues := map[string]func() *admintest.Queue{"empty": func() *admintest.Queue { return admintest.New() }, "mixed": mixedQueue, "parked": parkedQueue, "large": largeQueue,
		"silent": silentQueue, "destinations": destinationQueue, "unreadable": unreadableQueue}
	network := len(args) == 2 && args[1] == "network"
	if neg || len(args) != 1 && !network || queues[args[0]] == nil {
		ts.Fatalf("usage: admin empty|mixed|parked|large|silent|destinations|unreadable [network]")
	}
	q := queues[args[0]]()
	s, err := admin.New(admin.Config{Version: "v1.2.3", Settle: 100 * time.Millisecond, Readmission: func() admin.Readmission { return todaysRules{} }}, q, q, q)
	ts.Check(err)
	ln, err := net.Listen("unix", filepath.Join(ts.Getenv("POSTHASTE_QUEUE_DIRECTORY"), "admin.sock"))
	ts.Check(err)
	serveUntilEnd(ts, func(ctx context.Context) error { return s.Serve(ctx, ln) })
	if !network {
		return
	}
	remote, err := net.Listen("tcp", "127.0.0.1:0")
	ts.Check(err)
	ts.Setenv("URL", "http://"+remote.Addr().String())
	permissions := map[string]admin.Permission{"reads": admin.PermissionRead, "operates": admin.PermissionOperate}
	serveUntilEnd(ts, func(ctx context.Context) error {
		return s.ServeNetwork(ctx, remote, func(token string) (string, admin.Permission) { return token, permissions[token] })
	})
}

// serveUntilEnd serves until the script has ended.
func serveUntilEnd(ts *testscript.TestScript, serve func(context.Context) error) {
	ctx, stop := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- serve(ctx) }()
	ts.Defer(func() {
		stop()
		if err := <-done; err != nil {
			ts.Logf("admin: %v", err)
		}
	})
}

// arrived is when a message of a test came in, back from now so that ages are
// the same whenever the test runs: half a minute is between it and the next
// change of what is shown.
func arrived(ago time.Duration) mail.Instant {
	return mail.Instant(time.Now().Add(-ago - 30*time.Second).UnixNano())
}

func newMessage(n int, area mail.Area, ago time.Duration, sender string, recipients ...string) admintest.Message {
	m := admintest.Message{Content: "Subject: test\r\n\r\n" + strings.Repeat("x", 1000*min(n, 5)) + "\r\n"}
	m.Envelope = mail.Envelope{ID: mail.NewQueueID(mail.Instant(n)*1e15, uint16(n)), Sender: mail.Address(sender), Arrived: arrived(ago)}
	m.Place.Area = area
	for _, r := range recipients {
		m.Recipients = append(m.Recipients, mail.RecipientOutcome{Recipient: mail.Recipient{Address: mail.Address(r)}})
	}
	return m
}

// mixedQueue has a message in every state.
func mixedQueue() *admintest.Queue {
	greylisted := mail.Reply{Code: 451, Status: mail.Status{Class: 4, Subject: 7, Detail: 1}, Text: "Greylisted, please\ncome back", By: "mx.example.net[192.0.2.1]"}
	fresh := newMessage(1, mail.AreaIncoming, 5*time.Minute, "alice@example.com", "jane@example.net")
	active := newMessage(2, mail.AreaIncoming, 10*time.Minute, "bob@example.com", "joe@example.org", "jill@example.org", "jack@example.org")
	active.InCore = true
	deferred := newMessage(3, mail.AreaDeferred, 5*time.Hour, "alice@example.com", "jane@example.net", "june@example.net", "done@example.net")
	deferred.Place.Due = mail.Instant(time.Now().Add(12*time.Minute + 30*time.Second).UnixNano())
	deferred.Envelope.Attempts, deferred.Envelope.LastAttempt = 4, arrived(20*time.Minute)
	deferred.Envelope.EnvID, deferred.Envelope.Ret, deferred.Envelope.Body = "QQ314159", mail.RetHeaders, mail.Body8BitMIME
	deferred.Envelope.Flow = mail.Flow{Class: "bulk", Tenant: "192.0.2.0/24", Flow: "alice@example.com"}
	for i := range deferred.Recipients[:2] {
		deferred.Recipients[i].Outcome = mail.Outcome{Result: mail.Deferred, Reply: greylisted, At: arrived(20 * time.Minute)}
	}
	deferred.Recipients[2].Outcome = mail.Outcome{Result: mail.Delivered, At: arrived(4 * time.Hour), Reply: mail.Reply{Code: 250, Text: "Ok"}}
	held := newMessage(4, mail.AreaHold, 3*24*time.Hour, "", "postmaster@example.com")
	held.Reason = "looks like a \x1b[2Jloop"
	damaged := newMessage(5, mail.AreaCorrupt, 10*24*time.Hour, "")
	damaged.Damaged, damaged.Reason = true, "checksum of the envelope"
	q := admintest.New(fresh, active, deferred, held, damaged)
	view := qmgr.View{Messages: 1, Recipients: 3, Busy: 2, Lookups: qmgr.LookupsView{Busy: 1, Waiting: 20, Verifying: 1}, Behind: true, Transports: []qmgr.TransportView{{Name: "smtp", Jobs: 1, Busy: 2,
		Queues: []qmgr.QueueView{{Nexthop: "example.net", State: window.Dead, Condition: qmgr.ConditionDead, Window: 5, Todo: 12, Reason: greylisted,
			Until: mail.Instant(time.Now().Add(5*time.Minute + 30*time.Second).UnixNano())}, {Nexthop: "example.org", Window: 20, Busy: 2, Todo: 1,
			Connections: conns.SiteView{Connecting: 1, Ready: 2}, WaitReason: qmgr.WaitReason{Kind: qmgr.WaitConnectionLimit, Limit: 200}}}},
		{Name: "retry", Jobs: 1, Queues: []qmgr.QueueView{{Nexthop: "4.7.1 Greylisted", Instead: mail.Origin{Transport: "smtp", Nexthop: "example.net"}, Window: 5, Todo: 3}}},
		{Name: "bulk", State: qmgr.TransportDead, Reason: mail.Reply{Code: 451, Status: mail.Status{Class: 4, Subject: 3}, Text: "mail transport unavailable"},
			Until: mail.Instant(time.Now().Add(20*time.Minute + 30*time.Second).UnixNano())}}}
	view.Counts.Arrived, view.Counts.Started, view.Counts.Outcomes = 12345, 2000, [4]uint64{0, 1999, 4, 1}
	q.SetCore(view)
	return q
}

// parkedQueue has a message that left the core because its name servers do not answer,
// and one that left it until its sender can be notified.
func parkedQueue() *admintest.Queue {
	lookups := newMessage(1, mail.AreaIncoming, 5*time.Minute, "alice@example.com", "jane@example.net")
	lookups.Parked = qmgr.WaitLookups
	report := newMessage(2, mail.AreaDeferred, time.Hour, "bob@example.com", "joe@example.org")
	report.Parked = qmgr.WaitReportTurn
	return admintest.New(lookups, report)
}

// largeQueue has more messages than a page of the API, and one with more
// recipients than that.
func largeQueue() *admintest.Queue {
	q := admintest.New()
	for n := range 2500 {
		q.Add(newMessage(n+1, mail.AreaDeferred, time.Hour, "list@example.com", fmt.Sprintf("user%d@d%d.example", n, n%25)))
	}
	many := newMessage(9000, mail.AreaHold, time.Hour, "big@example.com")
	for i := range 2345 {
		many.Recipients = append(many.Recipients, mail.RecipientOutcome{Recipient: mail.Recipient{Address: mail.Address(fmt.Sprintf("r%d@many.example", i))}})
	}
	q.Add(many)
	return q
}

// unreadableQueue has a message whose recipients cannot be read now, between two others.
func unreadableQueue() *admintest.Queue {
	bad := newMessage(2, mail.AreaDeferred, time.Hour, "bob@example.com", "joe@example.net")
	bad.Unreadable = true
	return admintest.New(newMessage(1, mail.AreaDeferred, time.Hour, "alice@example.com", "jane@example.net"), bad,
		newMessage(3, mail.AreaDeferred, time.Hour, "carol@example.com", "jack@example.net"))
}

func silentQueue() *admintest.Queue {
	q := mixedQueue()
	q.Silence()
	return q
}

// serveSMTP takes mail on the submission socket and writes each message to a
// file of its own, taken1, taken2 …: the envelope first, then the content.
// "refuse=a@b:550" refuses a recipient, "max=3" is the limit of recipients.
func serveSMTP(ts *testscript.TestScript, neg bool, args []string) {
	b := &mailTaker{dir: ts.MkAbs("."), refuse: map[string]int{}}
	server := gosmtp.NewServer(b)
	server.Domain, server.EnableSMTPUTF8, server.EnableDSN, server.ErrorLog = "server.example", true, true, discardLog{}
	for _, arg := range args {
		name, value, _ := strings.Cut(arg, "=")
		switch name {
		case "refuse":
			address, code, _ := strings.Cut(value, ":")
			n, err := strconv.Atoi(code)
			ts.Check(err)
			b.refuse[address] = n
		case "max":
			n, err := strconv.Atoi(value)
			ts.Check(err)
			server.MaxRecipients = n
		default:
			ts.Fatalf("usage: smtp [refuse=ADDRESS:CODE] [max=RECIPIENTS]")
		}
	}
	ln, err := net.Listen("unix", filepath.Join(ts.Getenv("POSTHASTE_QUEUE_DIRECTORY"), "submit.sock"))
	ts.Check(err)
	go server.Serve(ln)
	ts.Defer(func() { server.Close() })
}

type discardLog struct{}

func (discardLog) Printf(string, ...any) {}
func (discardLog) Println(...any)        {}

// A mailTaker is the SMTP server of the tests.
type mailTaker struct {
	dir    string
	refuse map[string]int

	mu    sync.Mutex
	taken int
}

func (b *mailTaker) NewSession(*gosmtp.Conn) (gosmtp.Session, error) { return &mailSession{b: b}, nil }

type mailSession struct {
	b        *mailTaker
	envelope strings.Builder
}

func (s *mailSession) Reset()        { s.envelope.Reset() }
func (s *mailSession) Logout() error { return nil }

func (s *mailSession) Mail(from string, o *gosmtp.MailOptions) error {
	fmt.Fprintf(&s.envelope, "from <%s>", from)
	if o.Body != "" {
		fmt.Fprintf(&s.envelope, " body=%s", o.Body)
	}
	if o.UTF8 {
		s.envelope.WriteString(" smtputf8")
	}
	if o.Return != "" || o.EnvelopeID != "" {
		fmt.Fprintf(&s.envelope, " ret=%s envid=%s", o.Return, o.EnvelopeID)
	}
	s.envelope.WriteString("\n")
	return nil
}

func (s *mailSession) Rcpt(to string, o *gosmtp.RcptOptions) error {
	if code := s.b.refuse[to]; code != 0 {
		return &gosmtp.SMTPError{Code: code, EnhancedCode: gosmtp.EnhancedCode{code / 100, 1, 1}, Message: "not here"}
	}
	fmt.Fprintf(&s.envelope, "to <%s>", to)
	if len(o.Notify) > 0 {
		fmt.Fprintf(&s.envelope, " notify=%v", o.Notify)
	}
	s.envelope.WriteString("\n")
	return nil
}

func (s *mailSession) Data(r io.Reader) error {
	content, err := io.ReadAll(r)
	if err != nil {
		return err
	}
	s.b.mu.Lock()
	defer s.b.mu.Unlock()
	s.b.taken++
	text := s.envelope.String() + "\n" + strings.ReplaceAll(string(content), "\r\n", "\n")
	return os.WriteFile(filepath.Join(s.b.dir, fmt.Sprintf("taken%d", s.b.taken)), []byte(text), 0o644)
}
