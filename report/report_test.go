package report

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"net/netip"
	"reflect"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/posthaste-mta/posthaste/dsn"
	"github.com/posthaste-mta/posthaste/internal/event"
	"github.com/posthaste-mta/posthaste/internal/golden"
	"github.com/posthaste-mta/posthaste/mail"
	"github.com/posthaste-mta/posthaste/verp"
)

const letter = "From: alice@example.org\r\nSubject: Tomorrow\r\n\r\nAt ten?\r\n"

var (
	refused = mail.Reply{Code: 550, Status: mail.Status{Class: 5, Subject: 1, Detail: 1}, Text: "no such user", By: "mx.example.net[198.51.100.7]"}
	slow    = mail.Reply{Code: 450, Status: mail.Status{Class: 4, Subject: 2}, Text: "come again", By: "mx.example.net[198.51.100.7]"}
	taken   = mail.Reply{Code: 250, Status: mail.Status{Class: 2}, Text: "ok", By: "mx.example.net[198.51.100.7]"}
)

func debt(to mail.Address, kind mail.ReportKind, notify mail.Notify) mail.RecipientOutcome {
	ro := mail.RecipientOutcome{
		Recipient: mail.Recipient{Address: to, Notify: notify},
		Outcome:   mail.Outcome{Result: mail.Delivered, Report: kind, Reply: taken, At: now()},
	}
	switch kind {
	case mail.ReportFailed:
		ro.Outcome.Result, ro.Outcome.Reply = mail.Failed, refused
	case mail.ReportDelayed:
		ro.Outcome.Result, ro.Outcome.Reply = mail.Deferred, slow
	}
	return ro
}

func fromAlice() mail.Envelope {
	return mail.Envelope{Sender: "alice@example.org", Arrived: now().Add(-time.Hour),
		Client: mail.Client{Addr: netip.MustParseAddr("192.0.2.33"), Helo: "client.example", Proto: "ESMTP"}}
}

func quiet(c Config) Config {
	c.Hostname = "mx.example.org"
	c.Logger = slog.New(slog.DiscardHandler)
	return c
}

func reporter(t testing.TB, m *memory, c Config) *Reporter {
	t.Helper()
	r, err := New(quiet(c), m)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

// made returns the reports that are made about a message.
func made(r *Reporter, id mail.QueueID) (all []mail.Arrival, err error) {
	err = r.Report(context.Background(), id, func(a mail.Arrival) { all = append(all, a) })
	return all, err
}

// report runs the Reporter once and checks that nothing is left owing, open
// or half made.
func report(t testing.TB, m *memory, c Config, id mail.QueueID) []mail.Arrival {
	t.Helper()
	arrivals, err := made(reporter(t, m, c), id)
	if err != nil {
		t.Fatal(err)
	}
	if debts, _, _ := m.Debts(context.Background(), id, 0, 1); len(debts) > 0 {
		t.Errorf("still owed: %+v", debts)
	}
	if m.open != 0 {
		t.Errorf("%d contents were not closed", m.open)
	}
	return arrivals
}

// read parses a report that is in the spool.
func read(t testing.TB, m *memory, a mail.Arrival) (dsn.Report, dsn.Original) {
	t.Helper()
	msg := m.messages[a.Envelope.ID]
	if msg == nil {
		t.Fatalf("arrival %s is not in the spool", a.Envelope.ID)
	}
	r, o, err := dsn.Parse(bytes.NewReader(msg.content))
	if err != nil {
		t.Fatalf("%v\n%s", err, msg.content)
	}
	return r, o
}

// RFC 3461 6.1: the report goes to the reverse path, from the null one, asks
// for no report itself, and carries neither RET nor ENVID. Everything that is
// known of the message is in it.
func TestD01ReportToSender(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := newMemory()
		env := fromAlice()
		env.EnvID, env.Ret = "QQ+2B1", mail.RetFull
		env.Flow = mail.Flow{Class: "bulk", Tenant: "shop", Flow: "alice@example.org"}
		failed := debt("bob@example.net", mail.ReportFailed, mail.NotifyFailure)
		failed.Recipient.ORcpt = "rfc822;robert+40example.net"
		id := m.put(env, letter, failed)
		arrivals := report(t, m, Config{}, id)
		if len(arrivals) != 1 {
			t.Fatalf("%d reports", len(arrivals))
		}
		a := arrivals[0]
		want := mail.Envelope{ID: a.Envelope.ID, Arrived: now(), Size: a.Envelope.Size, Recipients: 1, Client: mail.Client{Proto: "LOCAL"},
			Flow: mail.Flow{Class: "bulk", Tenant: "shop", Flow: "<>"}}
		if a.Envelope != want {
			t.Errorf("envelope %+v, want %+v", a.Envelope, want)
		}
		if got, want := a.Batch.Recipients, []mail.Recipient{{Address: "alice@example.org", Notify: mail.NotifyNever}}; !reflect.DeepEqual(got, want) {
			t.Errorf("recipients %+v, want %+v", got, want)
		}
		trace := "Received: by mx.example.org (Posthaste) with LOCAL id " + a.Envelope.ID.String() + ";\r\n\tSat, 1 Jan 2000 00:00:00 +0000\r\nDate: "
		if got := m.messages[a.Envelope.ID].content; !strings.HasPrefix(string(got), trace) {
			t.Errorf("no trace field:\n%s", got)
		}
		wantReport := dsn.Report{
			MessageID: a.Envelope.ID.String() + "@mx.example.org", Date: now(), From: "MAILER-DAEMON@mx.example.org", To: "alice@example.org",
			Host: "mx.example.org", QueueID: id, EnvID: "QQ+1", Received: "client.example[192.0.2.33]", Arrived: env.Arrived,
			Recipients: []dsn.Recipient{{Original: dsn.TypedAddress{Type: "rfc822", Text: "robert@example.net"}, Final: "bob@example.net",
				Kind: mail.ReportFailed, Status: refused.Status, Reply: refused, LastAttempt: now()}},
		}
		gotReport, o := read(t, m, a)
		if !reflect.DeepEqual(gotReport, wantReport) {
			t.Errorf("got  %+v\nwant %+v", gotReport, wantReport)
		}
		if o.Part != dsn.PartMessage || string(o.Content) != letter {
			t.Errorf("returned %d %q", o.Part, o.Content)
		}
	})
}

// RFC 8689 5: a report about mail with REQUIRETLS asks for it, too, and has the header only, whatever RET
// says. That mail with TLS-Required: No is not worth protecting says nothing of the report.
func TestReportRequiresTLS(t *testing.T) {
	for asked, want := range map[mail.TLSRequest]struct {
		tls  mail.TLSRequest
		part dsn.Part
	}{
		mail.TLSUnset: {0, dsn.PartMessage}, mail.TLSOptional: {0, dsn.PartMessage}, mail.TLSRequired: {mail.TLSRequired, dsn.PartHeaders},
	} {
		m := newMemory()
		env := fromAlice()
		env.Ret, env.TLS = mail.RetFull, asked
		arrivals := report(t, m, Config{}, m.put(env, letter, debt("bob@example.net", mail.ReportFailed, mail.NotifyFailure)))
		if len(arrivals) != 1 || arrivals[0].Envelope.TLS != want.tls {
			t.Fatalf("%v: %+v", asked, arrivals)
		}
		if _, o := read(t, m, arrivals[0]); o.Part != want.part {
			t.Errorf("%v: part %v is returned, want %v", asked, o.Part, want.part)
		}
	}
}

// RFC 5321 4.5.5: no report is sent about mail that has the null sender. Its
// debts are cleared nevertheless, however many there are.
func TestD02NullSender(t *testing.T) {
	m := newMemory()
	var debts []mail.RecipientOutcome
	for i := range 2*debtsPage + 1 {
		debts = append(debts, debt(mail.Address(fmt.Sprintf("user%d@example.net", i)), mail.ReportFailed, 0))
	}
	id := m.put(mail.Envelope{}, letter, debts...)
	if arrivals := report(t, m, Config{}, id); len(arrivals) != 0 || len(m.messages) != 1 {
		t.Errorf("reports %+v", arrivals)
	}
}

// The operator may configure an address that gets a copy, whole and once, by a path
// that cannot loop: from the null sender, and not again when it fails there.
func TestD02DoubleBounceCopy(t *testing.T) {
	c := Config{DoubleBounceTo: "Bounces@example.org"}
	m := newMemory()
	var debts []mail.RecipientOutcome
	for i := range debtsPage + 1 {
		debts = append(debts, debt(mail.Address(fmt.Sprintf("user%d@example.net", i)), mail.ReportFailed, 0))
	}
	big := letter + strings.Repeat("x\r\n", 100_000)
	id := m.put(mail.Envelope{Body: mail.Body8BitMIME, SMTPUTF8: true}, big, debts...)
	arrivals := report(t, m, c, id)
	if len(arrivals) != 1 {
		t.Fatalf("%d copies", len(arrivals))
	}
	a := arrivals[0]
	if a.Envelope.Sender != "" || a.Envelope.Body != mail.Body8BitMIME || !a.Envelope.SMTPUTF8 {
		t.Errorf("envelope %+v", a.Envelope)
	}
	if got := a.Batch.Recipients[0]; got.Address != c.DoubleBounceTo || got.Notify != mail.NotifyNever {
		t.Errorf("recipient %+v", got)
	}
	if got := string(m.messages[a.Envelope.ID].content); !strings.HasSuffix(got, "\r\n"+big) || !strings.HasPrefix(got, "Received: by mx.example.org ") {
		t.Errorf("copy:\n%.300s", got)
	}

	again := m.put(mail.Envelope{}, big, debt("bounces@EXAMPLE.ORG", mail.ReportFailed, mail.NotifyNever))
	if arrivals := report(t, m, c, again); len(arrivals) != 0 {
		t.Errorf("a copy of a copy: %+v", arrivals)
	}
	m.broken["Content"] = ErrGone
	lost := m.put(mail.Envelope{}, "", debt("bob@example.net", mail.ReportFailed, 0))
	if arrivals := report(t, m, c, lost); len(arrivals) != 0 {
		t.Errorf("a copy of nothing: %+v", arrivals)
	}
}

// NOTIFY is the sender's word. A debt that it does not allow, whatever put it
// there, is cleared and not reported; nothing at all is composed if there is
// no other.
func TestD03Notify(t *testing.T) {
	none := mail.Notify(0)
	m := newMemory()
	id := m.put(fromAlice(), letter,
		debt("f0@x.example", mail.ReportFailed, none), debt("fn@x.example", mail.ReportFailed, mail.NotifyNever),
		debt("ff@x.example", mail.ReportFailed, mail.NotifyFailure), debt("fs@x.example", mail.ReportFailed, mail.NotifySuccess|mail.NotifyDelay),
		debt("d0@x.example", mail.ReportDelayed, none), debt("dn@x.example", mail.ReportDelayed, mail.NotifyNever),
		debt("dd@x.example", mail.ReportDelayed, mail.NotifyDelay), debt("df@x.example", mail.ReportDelayed, mail.NotifyFailure),
		debt("s0@x.example", mail.ReportRelayed, none), debt("sn@x.example", mail.ReportDelivered, mail.NotifyNever),
		debt("ss@x.example", mail.ReportDelivered, mail.NotifySuccess), debt("sr@x.example", mail.ReportRelayed, mail.NotifySuccess|mail.NotifyFailure))
	var got []string
	for _, a := range report(t, m, Config{}, id) {
		r, _ := read(t, m, a)
		for _, to := range r.Recipients {
			got = append(got, r.Kind().String()+" "+string(to.Final))
		}
	}
	want := []string{"failed f0@x.example", "failed ff@x.example", "delayed d0@x.example", "delayed dd@x.example", "relayed ss@x.example", "relayed sr@x.example"}
	if !reflect.DeepEqual(got, want) {
		t.Errorf("got  %q\nwant %q", got, want)
	}
	id = m.put(fromAlice(), letter, debt("bob@example.net", mail.ReportFailed, mail.NotifyNever))
	if arrivals := report(t, m, Config{}, id); len(arrivals) != 0 {
		t.Errorf("NOTIFY=NEVER is reported: %+v", arrivals)
	}
}

// RFC 2852 4.1.4: mail with a deadline is reported as relayed unless NOTIFY is NEVER, and 4.1.3: as late with 4.4.7, whatever
// the last reply was. 5: a report on such mail has the deadline.
func TestD12Deadline(t *testing.T) {
	m := newMemory()
	env := fromAlice()
	env.Arrived -= env.Arrived % mail.Instant(time.Second)
	env.By = mail.DeliverBy{At: env.Arrived.Add(time.Minute), Mode: mail.ByNotify}
	id := m.put(env, letter, debt("n@x.example", mail.ReportRelayed, mail.NotifyNever), debt("0@x.example", mail.ReportRelayed, 0), debt("f@x.example", mail.ReportRelayed, mail.NotifyFailure),
		debt("d@x.example", mail.ReportDelivered, 0), debt("s@x.example", mail.ReportDelayed, 0))
	env.Late = true
	late := m.put(env, letter, debt("late@x.example", mail.ReportDelayed, 0), debt("failed@x.example", mail.ReportFailed, 0))
	var got []string
	for _, id := range []mail.QueueID{id, late} {
		for _, a := range report(t, m, Config{}, id) {
			r, _ := read(t, m, a)
			if r.Deadline != env.By.At {
				t.Errorf("the deadline is %v, want %v", r.Deadline, env.By.At)
			}
			for _, to := range r.Recipients {
				got = append(got, to.Kind.String()+" "+string(to.Final)+" "+to.Status.String())
			}
		}
	}
	want := []string{"delayed s@x.example 4.2.0", "relayed 0@x.example 2.0.0", "relayed f@x.example 2.0.0", "failed failed@x.example 5.1.1", "delayed late@x.example 4.4.7"}
	if !reflect.DeepEqual(got, want) {
		t.Errorf("got  %q\nwant %q", got, want)
	}
}

// Successes of both kinds share a report in which each keeps its own action.
func TestD04Relayed(t *testing.T) {
	m := newMemory()
	id := m.put(fromAlice(), letter, debt("a@x.example", mail.ReportDelivered, mail.NotifySuccess), debt("b@x.example", mail.ReportRelayed, mail.NotifySuccess))
	arrivals := report(t, m, Config{}, id)
	if len(arrivals) != 1 {
		t.Fatalf("%d reports", len(arrivals))
	}
	r, _ := read(t, m, arrivals[0])
	if r.Recipients[0].Kind != mail.ReportDelivered || r.Recipients[1].Kind != mail.ReportRelayed {
		t.Errorf("%+v", r.Recipients)
	}
}

// A delay names the instant of giving up if it is configured.
func TestD05Delayed(t *testing.T) {
	for lifetime, want := range map[time.Duration]time.Duration{0: 0, 5 * 24 * time.Hour: 5 * 24 * time.Hour} {
		m := newMemory()
		env := fromAlice()
		env.Arrived -= env.Arrived % mail.Instant(time.Second)
		id := m.put(env, letter, debt("bob@example.net", mail.ReportDelayed, 0))
		r, _ := read(t, m, report(t, m, Config{Lifetime: lifetime}, id)[0])
		wantInstant := mail.Instant(0)
		if want != 0 {
			wantInstant = env.Arrived.Add(want)
		}
		if got := r.Recipients[0].RetryUntil; got != wantInstant {
			t.Errorf("lifetime %v: %v, want %v", lifetime, got, wantInstant)
		}
	}
}

// RET=FULL is honored for failures of messages that are small enough (B-179),
// and for nothing else.
func TestD09Return(t *testing.T) {
	tests := []struct {
		name string
		kind mail.ReportKind
		ret  mail.Ret
		max  int
		want dsn.Part
	}{
		{"failed, not said", mail.ReportFailed, mail.RetUnset, 0, dsn.PartHeaders},
		{"failed, HDRS", mail.ReportFailed, mail.RetHeaders, 0, dsn.PartHeaders},
		{"failed, FULL", mail.ReportFailed, mail.RetFull, 0, dsn.PartMessage},
		{"failed, FULL, as large as allowed", mail.ReportFailed, mail.RetFull, len(letter), dsn.PartMessage},
		{"failed, FULL, too large", mail.ReportFailed, mail.RetFull, len(letter) - 1, dsn.PartHeaders},
		{"delayed, FULL", mail.ReportDelayed, mail.RetFull, 0, dsn.PartHeaders},
		{"delivered, FULL", mail.ReportDelivered, mail.RetFull, 0, dsn.PartHeaders},
	}
	for _, test := range tests {
		m := newMemory()
		env := fromAlice()
		env.Ret = test.ret
		id := m.put(env, letter, debt("bob@example.net", test.kind, mail.NotifySuccess|mail.NotifyFailure|mail.NotifyDelay))
		if _, o := read(t, m, report(t, m, Config{ReturnMax: test.max}, id)[0]); o.Part != test.want {
			t.Errorf("%s: part %d, want %d", test.name, o.Part, test.want)
		}
	}
}

// The envelope of a report says what the report needs of its path.
func TestD14Envelope(t *testing.T) {
	tests := []struct {
		sender mail.Address
		body   string
		want   mail.BodyType
		utf8   bool
	}{
		{"alice@example.org", letter, mail.Body7Bit, false},
		{"alice@example.org", letter + "Café\r\n", mail.Body8BitMIME, false},
		{"jürgen@bücher.example", letter, mail.Body8BitMIME, true},
		{"jürgen", letter, mail.Body7Bit, true}, // not fit for a header field, but it is where the report goes
	}
	for _, test := range tests {
		m := newMemory()
		env := fromAlice()
		env.Sender, env.Ret = test.sender, mail.RetFull
		id := m.put(env, test.body, debt("bob@example.net", mail.ReportFailed, 0))
		if e := report(t, m, Config{}, id)[0].Envelope; e.Body != test.want || e.SMTPUTF8 != test.utf8 {
			t.Errorf("%s %q: %v, SMTPUTF8 %v; want %v, %v", test.sender, test.body, e.Body, e.SMTPUTF8, test.want, test.utf8)
		}
	}
}

// A message to 30,000 (100,000 in the stage random of .ci/run) that asked for success reports, half of which failed:
// reports of 5,000 with one kind of news each, read in pages.
func TestB176ManyRecipients(t *testing.T) {
	n := 30_000 * min(golden.Runs(1), 4)
	m := newMemory()
	debts := make([]mail.RecipientOutcome, n)
	for i := range debts {
		kind := mail.ReportRelayed
		if i%2 == 0 {
			kind = mail.ReportFailed
		}
		debts[i] = debt(mail.Address(fmt.Sprintf("user%d@example.net", i)), kind, mail.NotifySuccess|mail.NotifyFailure)
	}
	id := m.put(fromAlice(), letter, debts...)
	arrivals := report(t, m, Config{}, id)
	if len(arrivals) != n/5000 {
		t.Errorf("%d reports", len(arrivals))
	}
	seen := map[mail.Address]bool{}
	for _, a := range arrivals {
		r, _ := read(t, m, a)
		kind := r.Kind()
		for _, to := range r.Recipients {
			if seen[to.Final] || to.Kind != kind {
				t.Fatalf("%s: reported before: %v; %v in a report of %v", to.Final, seen[to.Final], to.Kind, kind)
			}
			seen[to.Final] = true
		}
	}
	if len(seen) != n || m.pageMax > debtsPage {
		t.Errorf("%d recipients reported, pages of %d", len(seen), m.pageMax)
	}
}

// Replies as long as may be end a report early, so that memory does not
// depend on what servers say.
func TestLongReplies(t *testing.T) {
	const n = 5000 * 1024 / mail.ReplyTextMax
	m := newMemory()
	debts := make([]mail.RecipientOutcome, n)
	for i := range debts {
		debts[i] = debt("bob@example.net", mail.ReportFailed, 0)
		debts[i].Outcome.Reply.Text = fmt.Sprint(i, strings.Repeat("ü", (mail.ReplyTextMax-10)/2))
	}
	id := m.put(fromAlice(), letter, debts...)
	arrivals := report(t, m, Config{}, id)
	if len(arrivals) != 3 {
		t.Errorf("%d reports", len(arrivals))
	}
	for _, a := range arrivals {
		read(t, m, a) // which takes no more than 16 MiB
	}
}

// Whenever the process stops, every recipient is reported exactly once and the
// undeliverable report is copied exactly once. Each run lets the power fail at
// some of the commits and asks again, as the driver does.
func TestExactlyOnce(t *testing.T) {
	seed := uint64(time.Now().UnixNano())
	rng := rand.New(rand.NewPCG(seed, 0))
	kinds := []mail.ReportKind{mail.ReportNone, mail.ReportFailed, mail.ReportDelayed, mail.ReportDelivered, mail.ReportRelayed}
	for range 60 {
		m := newMemory()
		env := fromAlice()
		null := rng.IntN(4) == 0
		if null {
			env.Sender = ""
		}
		owes, want := false, map[string]int{}
		debts := make([]mail.RecipientOutcome, 1+rng.IntN(3*debtsPage))
		for i := range debts {
			to := mail.Address(fmt.Sprintf("user%d@example.net", i))
			debts[i] = debt(to, kinds[rng.IntN(len(kinds))], mail.Notify(rng.IntN(8)))
			wanted, kind := debts[i].Recipient.Notify, debts[i].Outcome.Report
			if kind == mail.ReportFailed && wanted.Failure() || kind == mail.ReportDelayed && wanted.Delay() || kind > mail.ReportDelayed && wanted.Success() {
				want[string(to)+" "+kind.String()]++
			}
			owes = owes || kind != mail.ReportNone
		}
		if null {
			want = map[string]int{}
			if owes {
				want["copy"] = 1
			}
		}
		id := m.put(env, letter, debts...)
		r := reporter(t, m, Config{RecipientsMax: 1 + rng.IntN(500), DoubleBounceTo: "bounces@example.org"})
		for {
			m.power = 1 + rng.IntN(20)
			_, err := made(r, id)
			if err == nil {
				break
			}
			if !errors.Is(err, errPower) {
				t.Fatalf("seed %d: %v", seed, err)
			}
		}
		got := map[string]int{}
		for other, msg := range m.messages {
			if other == id {
				continue
			}
			if null {
				got["copy"]++
				continue
			}
			report, _ := read(t, m, mail.Arrival{Envelope: msg.envelope})
			for _, to := range report.Recipients {
				got[string(to.Final)+" "+to.Kind.String()]++
			}
		}
		if !reflect.DeepEqual(got, want) {
			t.Fatalf("seed %d: %d reported, want %d: %v", seed, len(got), len(want), got)
		}
	}
}

// A message that was dropped meanwhile owes nothing; one whose content is lost
// is reported without it; any other error is returned and the report retried.
func TestTrouble(t *testing.T) {
	disk := errors.New("disk on fire")
	tests := []struct {
		call    string
		err     error
		want    error
		reports int
	}{
		{"Open", ErrGone, nil, 0},
		{"Debts", ErrGone, nil, 0},
		{"Content", fmt.Errorf("damaged: %w", ErrGone), nil, 1},
		{"Open", disk, disk, 0},
		{"Debts", disk, disk, 0},
		{"Content", disk, disk, 0},
		{"Begin", disk, disk, 0},
		{"AddRecipient", disk, disk, 0},
		{"Write", disk, disk, 0},
	}
	for _, null := range []bool{false, true} {
		for _, test := range tests {
			m := newMemory()
			env := fromAlice()
			if null {
				env.Sender = ""
			}
			id := m.put(env, letter, debt("bob@example.net", mail.ReportFailed, 0))
			m.broken[test.call] = test.err
			arrivals, err := made(reporter(t, m, Config{DoubleBounceTo: "bounces@example.org"}), id)
			reports := test.reports
			if null {
				reports = 0
			}
			if !errors.Is(err, test.want) || len(arrivals) != reports || m.open != 0 {
				t.Errorf("%s %v, null sender %v: %d reports, %v, %d contents open", test.call, test.err, null, len(arrivals), err, m.open)
			}
			if begun := test.call == "AddRecipient" || test.call == "Write"; begun != (m.aborted == 1) {
				t.Errorf("%s: %d drafts aborted", test.call, m.aborted)
			}
		}
	}
}

// A report without content says the rest all the same.
func TestContentLost(t *testing.T) {
	m := newMemory()
	for _, err := range []error{ErrGone, fmt.Errorf("checksum: %w", mail.ErrCorrupt)} {
		for _, call := range []string{"Content", "Read"} {
			m.broken = map[string]error{call: err}
			id := m.put(fromAlice(), letter, debt("bob@example.net", mail.ReportFailed, 0))
			a := report(t, m, Config{}, id)[0]
			r, o := read(t, m, a)
			if len(r.Recipients) != 1 || o.Part != dsn.PartNone {
				t.Errorf("%s %v: %+v, part %d", call, err, r, o.Part)
			}
			if text := string(m.messages[a.Envelope.ID].content); !strings.Contains(text, "cannot be read any more") {
				t.Errorf("%s %v: it does not say that the content is lost:\n%s", call, err, text)
			}
		}
	}
}

// Mail that did not come by TCP has no client to name.
func TestLocalClient(t *testing.T) {
	m := newMemory()
	env := fromAlice()
	env.Client = mail.Client{Helo: "localhost", Proto: "LOCAL"}
	id := m.put(env, letter, debt("bob@example.net", mail.ReportFailed, 0))
	if r, _ := read(t, m, report(t, m, Config{}, id)[0]); r.Received != "" {
		t.Errorf("received from %q", r.Received)
	}
}

// Every knob shows: whom to ask, the footer, how many recipients; and every
// report has its line in the log.
func TestConfigShows(t *testing.T) {
	var log bytes.Buffer
	m := newMemory()
	id := m.put(fromAlice(), letter, debt("a@x.example", mail.ReportFailed, 0), debt("b@x.example", mail.ReportFailed, 0))
	c := quiet(Config{Postmaster: "help@example.org", Footer: "Telephone 555 0123", RecipientsMax: 1})
	c.Logger = event.NewStrict(&log, nil, nil)
	r, err := New(c, m)
	if err != nil {
		t.Fatal(err)
	}
	arrivals, err := made(r, id)
	if err != nil || len(arrivals) != 2 {
		t.Fatalf("%d reports, %v", len(arrivals), err)
	}
	text := string(m.messages[arrivals[0].Envelope.ID].content)
	for _, want := range []string{"write to help@example.org", "\r\nTelephone 555 0123\r\n"} {
		if !strings.Contains(text, want) {
			t.Errorf("%q is not in\n%s", want, text)
		}
	}
	for _, a := range arrivals {
		want := fmt.Sprintf("id=%s report=%s to=alice@example.org kind=failed recipients=1", id, a.Envelope.ID)
		if !strings.Contains(log.String(), want) {
			t.Errorf("%q is not in\n%s", want, &log)
		}
	}
}

func TestConfigValidate(t *testing.T) {
	if err := quiet(Config{}).WithDefaults().Validate(); err != nil {
		t.Errorf("defaults: %v", err)
	}
	bad := map[string]Config{
		`hostname ""`:        {Postmaster: "a@b"},
		"hostname":           {Hostname: "mx.example.org\r\nBcc: x"},
		"postmaster":         {Hostname: "mx", Postmaster: "postmaster"},
		"double bounce":      {Hostname: "mx", DoubleBounceTo: "a b@c"},
		"returned octets":    {Hostname: "mx", ReturnMax: -1},
		"recipients":         {Hostname: "mx", RecipientsMax: 10_001},
		"lifetime":           {Hostname: "mx", Lifetime: -time.Second},
		"footer":             {Hostname: "mx", Footer: "a\r\nb"},
		"recipients in a re": {Hostname: "-", ReturnMax: 1 << 30, RecipientsMax: -1},
	}
	for want, c := range bad {
		if err := c.WithDefaults().Validate(); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v", want, err)
		}
		if _, err := New(c, newMemory()); err == nil {
			t.Errorf("%s: New takes it", want)
		}
	}
}

// BenchmarkReport is the usual case: one recipient of one message failed.
func BenchmarkReport(b *testing.B) {
	m := newMemory()
	r := reporter(b, m, Config{})
	d := debt("bob@example.net", mail.ReportFailed, 0)
	id := m.put(fromAlice(), letter, d)
	b.ReportAllocs()
	for b.Loop() {
		m.messages[id].recipients[0].Outcome.Report = mail.ReportFailed
		arrivals, err := made(r, id)
		if err != nil || len(arrivals) != 1 {
			b.Fatal(len(arrivals), err)
		}
		delete(m.messages, arrivals[0].Envelope.ID)
	}
}

// A message went out with each recipient in its sender. A program reads these addresses, and need not
// understand reports: it gets one for each recipient who failed. What is about delays and deliveries
// goes to the message's own sender, as Postfix has it.
func TestVERPReports(t *testing.T) {
	secrets := [][]byte{[]byte("secret")}
	for name, test := range map[string]struct {
		how  VERP
		verp mail.VERP
		want []string
	}{
		"plain":    {VERP{Secrets: secrets}, mail.VERP{Before: '+', At: '='}, []string{"alice+bob=example.net@example.org 1", "alice+carl=example.net@example.org 1", "alice@example.org 2"}},
		"one":      {VERP{Secrets: secrets, OneReport: true}, mail.VERP{Before: '+', At: '='}, []string{"alice@example.org 2", "alice@example.org 2"}},
		"ordinary": {VERP{}, mail.VERP{}, []string{"alice@example.org 2", "alice@example.org 2"}},
	} {
		m := newMemory()
		env := fromAlice()
		env.VERP = test.verp
		id := m.put(env, letter, debt("bob@example.net", mail.ReportFailed, 0), debt("dora@example.net", mail.ReportDelayed, 0),
			debt("carl@example.net", mail.ReportFailed, 0), debt("emil@example.net", mail.ReportDelayed, 0))
		var got []string
		for _, a := range report(t, m, Config{VERP: func() *VERP { return &test.how }}, id) {
			msg := m.messages[a.Envelope.ID]
			r, _ := read(t, m, a)
			got = append(got, fmt.Sprint(msg.recipients[0].Recipient.Address, " ", len(r.Recipients)))
			if r.To != msg.recipients[0].Recipient.Address || !a.Envelope.VERP.IsZero() || a.Envelope.Sender != "" {
				t.Errorf("%s: %+v to %s", name, a.Envelope, r.To)
			}
		}
		if !slices.Equal(got, test.want) {
			t.Errorf("%s: %q, want %q", name, got, test.want)
		}
	}
	tagged := mail.Envelope{Sender: "alice@example.org", VERP: mail.VERP{Before: '+', At: '=', Tagged: true}}
	want := verp.Sender(secrets, &tagged, &mail.Recipient{Address: "bob@example.net"})
	m := newMemory()
	a := report(t, m, Config{VERP: func() *VERP { return &VERP{Secrets: secrets} }}, m.put(tagged, letter, debt("bob@example.net", mail.ReportFailed, 0)))
	if to := m.messages[a[0].Envelope.ID].recipients[0].Recipient.Address; to != want || len(to) < 40 {
		t.Errorf("the report goes to %s, want %s", to, want)
	}
}
