package daemon

import (
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/posthaste-mta/posthaste/internal/feed"
	"github.com/posthaste-mta/posthaste/internal/sink"
	"github.com/posthaste-mta/posthaste/internal/submit"
	"github.com/posthaste-mta/posthaste/mail"
)

const verpSecret = "0123456789abcdef0123456789abcdef"

// secretFile writes a file of secrets, and returns the line of the configuration that names it.
func secretFile(t *testing.T, secrets ...string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "verp.secret")
	if err := os.WriteFile(path, []byte("# secrets\n"+strings.Join(secrets, "\n")+"\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	return fmt.Sprintf("verp_secret_file = %q\n", path)
}

// senders returns the senders of what a receiver got, by recipient.
func (m *mailbox) senders() map[mail.Address]mail.Address {
	all := make(map[mail.Address]mail.Address)
	for _, d := range m.deliveries() {
		for _, to := range d.Recipients {
			all[to] = d.Sender
		}
	}
	return all
}

// The round trip: a mailing of one tenant goes to another host, each recipient with a sender of his own;
// that host takes the mail, cannot deliver some of it, and sends its reports to these senders; they
// are believed, and counted for recipient, tenant and the class of the reply. What a stranger makes up
// is not.
func TestVERPRoundTrip(t *testing.T) {
	t.Parallel()
	home, far := listen(t), listen(t)
	box := receive(t, sink.Config{})
	const conditions = "local_part_limit = 200\n"
	sender := startWith(t, t.TempDir(), conditions+secretFile(t, verpSecret)+
		"[tenant.shop]\nsender = [\"shop.example\"]\n[class.news]\nsender = [\"bounces@shop.example\"]\n"+
		"[verp.news]\nclass = [\"news\"]\n"+
		"[[feedback]]\naddresses = [\"fbl@shop.example\"]\n[[feedback]]\ntenant = \"the-shop\"\naddresses = [\"bounces@shop.example\"]\n"+
		routes("net.example", far.Addr().String()), Options{Listeners: []net.Listener{home}})
	receiver := startWith(t, t.TempDir(), "myhostname = \"mx.net.example\"\n"+conditions+routes("net.example", box.address, "gone@net.example", "error:5.1.1 no such user", "full@net.example", "error:5.2.2 the mailbox is full", "shop.example", home.Addr().String()), Options{Listeners: []net.Listener{far}})
	sender.feed(feed.Message{Sender: "bounces@shop.example", Recipients: []mail.Address{"jane@net.example", "gone@net.example", "full@net.example"}, Content: text("<mailing>", "Hello.\r\n")},
		feed.Message{Sender: "orders@shop.example", Recipients: []mail.Address{"jane2@net.example"}, Content: text("<order>", "Hello.\r\n")})
	sender.settled()
	receiver.settled()
	sender.settled()
	got := box.senders()
	if a := got["jane@net.example"]; !strings.HasPrefix(string(a), "bounces+") || !strings.HasSuffix(string(a), "+jane=net.example@shop.example") || len(a) != len("bounces+01234567+jane=net.example@shop.example") {
		t.Errorf("the sender of the copy to jane is %s", a)
	}
	if a := got["jane2@net.example"]; a != "orders@shop.example" {
		t.Errorf("the sender of other mail is %s", a)
	}
	for _, line := range [][]string{
		{"msg=feedback", "kind=bounced", "recipient=gone@net.example", "by=verp", "verified=true", "sender=bounces@shop.example", "tenant=the-shop", "class=no-such-user"},
		{"msg=feedback", "kind=bounced", "recipient=full@net.example", "by=verp", "verified=true", "tenant=the-shop", "class=mailbox-full"},
		{"msg=accepted", "from=bounces@shop.example", "class=news", "tenant=shop", "flow=bounces@shop.example", "verp=\"+=tag\""},
	} {
		if n := sender.log.count(line...); n != 1 {
			t.Errorf("%d log lines with %q", n, line)
		}
	}
	if rows := sender.counted("tenant"); rows != "[{bounced the-shop 2}]" {
		t.Errorf("by tenant %s", rows)
	}
	if rows := sender.counted("class"); rows != "[{bounced mailbox-full 1} {bounced no-such-user 1}]" {
		t.Errorf("by class %s", rows)
	}
	// Made up, and with the tag of another recipient.
	forged := strings.Replace(string(got["jane@net.example"]), "+jane=", "+joe=", 1)
	sender.feed(returned(t, "dsn-postfix.eml", "", "bounces+joe=net.example@shop.example", mail.Address(forged)))
	sender.settled()
	if rows := sender.counted("receiver"); rows != "[{bounced net.example 2} {unverified  1}]" {
		t.Errorf("by receiver %s", rows)
	}
}

// A client requests XVERP at a listener that offers it to this client, through sendmail and the socket, and through the
// maildrop. It gets the replies of Postfix. Only clients that are authorized get it, with the delimiters that they
// name. A rule does not change what a client has requested.
func TestXVERP(t *testing.T) {
	t.Parallel()
	box := receive(t, sink.Config{})
	dir := t.TempDir()
	message := func(to mail.Address) submit.Sending {
		m, err := submit.Compose(strings.NewReader("Subject: x\n\nx\n"), submit.Options{Recipients: []mail.Address{to}, Author: "a@a.test", Domain: "a.test", Unique: "1"})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(m.Close)
		return submit.Sending{Message: m, Sender: "list@a.test", VERP: true, Hello: "localhost"}
	}
	dropped := message("five@b.test")
	dropped.Delimiters = "=-"
	drop := filepath.Join(dir, "maildrop") // looked at at the start, and then every five seconds
	if err := errors.Join(os.Mkdir(drop, 0o700), submit.Leave(drop, dropped)); err != nil {
		t.Fatal(err)
	}
	r := start(t, dir, "maildrop = \"all\"\nverp_delimiter_filter = \"+-=/\"\nsmtpd_authorized_verp_clients = [\"127.0.0.1\"]\n[verp.all]\nsender = [\"*\"]\ntags = false\n"+routes("b.test", box.address))
	if got := say(t, r.address()); !strings.Contains(got, "\nXVERP\n") {
		t.Errorf("EHLO is answered with %q", got)
	}
	for command, want := range map[string]string{
		"MAIL FROM:<> XVERP":              "503 5.5.4 Error: XVERP requires non-null sender",
		"MAIL FROM:<list@a.test> XVERP=+": "501 5.5.4 Error: XVERP needs two characters from +-=/",
	} {
		if got := say(t, r.address(), command); got != want {
			t.Errorf("%s: %s", command, got)
		}
	}
	for _, m := range [][]string{{"MAIL FROM:<list@a.test> XVERP=/=", "RCPT TO:<one@b.test>", "RCPT TO:<two@b.test>"}, {"MAIL FROM:<list@a.test>", "RCPT TO:<three@b.test>"}} {
		if got := say(t, r.address(), append(m, "DATA", "Subject: x", "", "x", ".")...); !strings.HasPrefix(got, "250 ") {
			t.Errorf("%q: %s", m, got)
		}
	}
	local, err := net.Dial("unix", filepath.Join(dir, "submit.sock"))
	if err != nil {
		t.Fatal(err)
	}
	defer local.Close()
	if _, err := submit.Send(local, message("four@b.test")); err != nil {
		t.Fatal(err)
	}
	r.until("all copies", func() bool { return len(box.deliveries()) == 5 })
	r.settled()
	want := map[mail.Address]mail.Address{"one@b.test": "list/one=b.test@a.test", "two@b.test": "list/two=b.test@a.test", "three@b.test": "list+three=b.test@a.test",
		"four@b.test": "list+four=b.test@a.test", "five@b.test": "list=five-b.test@a.test"}
	if got := box.senders(); fmt.Sprint(got) != fmt.Sprint(want) {
		t.Errorf("%v, want %v", got, want)
	}
	if restart, err := r.d.reload(configure(t, dir, "maildrop = \"all\"\n"+routes("b.test", box.address))); err != nil || len(restart) > 0 {
		t.Fatal(restart, err)
	}
	if got := say(t, r.address(), "MAIL FROM:<list@a.test> XVERP"); !strings.HasPrefix(got, "555 5.5.4") {
		t.Error(got)
	}
}

// A message to several recipients fails for all of them. The daemon reports each to the sender that has him
// in it, takes these reports in itself, and believes them; by disable_verp_bounces there is one report.
func TestVERPReportsOfOurOwn(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	text := secretFile(t, "another secret of this host", verpSecret) + "default_transport = \"error:5.1.1 gone\"\n[verp.a]\nsender = [\"bounces@shop.example\"]\n[[feedback]]\naddresses = [\"bounces@shop.example\"]\n"
	r := start(t, dir, text)
	mailing := feed.Message{Sender: "bounces@shop.example", Recipients: []mail.Address{"a@x.example", "b@x.example", "c@y.example"}, Content: []byte("Message-ID: <1>\r\nX-Posthaste-Tenant: shop\r\nSubject: x\r\n\r\nx\r\n")}
	r.feed(mailing)
	r.settled()
	if rows := r.counted("tenant"); rows != "[{bounced shop 3}]" {
		t.Error(rows)
	}
	if n := r.log.count("msg=feedback", "by=verp", "verified=true"); n != 3 {
		t.Errorf("%d were believed", n)
	}
	if n := r.log.count("msg=report", "kind=failed"); n != 3 {
		t.Errorf("%d reports", n)
	}
	restart, err := r.d.reload(configure(t, dir, "disable_verp_bounces = true\n"+text))
	if err != nil || !slices.Equal(restart, nil) {
		t.Fatal(restart, err)
	}
	r.feed(mailing)
	r.settled()
	if n := r.log.count("msg=report", "to=bounces@shop.example", "recipients=3"); n != 1 {
		t.Errorf("%d reports on all of them", n)
	}
	if n := r.log.count("msg=feedback", "kind=bounced", "by=final", "tenant=shop"); n != 3 { // no other program could have made them
		t.Errorf("%d recipients of it were counted", n)
	}
}

// The operator replaces the secret while mail is on its way, and a message waits in the queue: what was
// sent with the old one is believed as long as it is in the file. A file that all may read is
// refused, and nothing changes.
func TestVERPSecretIsReplaced(t *testing.T) {
	t.Parallel()
	box := receive(t, sink.Config{})
	dir := t.TempDir()
	const tail = "local_part_limit = 200\n[verp.a]\nsender = [\"bounces@shop.example\"]\n[[feedback]]\naddresses = [\"bounces@shop.example\"]\n"
	r := start(t, dir, secretFile(t, verpSecret)+tail+routes("b.test", box.address))
	mailing := func(to mail.Address) {
		r.feed(feed.Message{Sender: "bounces@shop.example", Recipients: []mail.Address{to}, Content: text("<"+string(to)+">", "x\r\n")})
	}
	mailing("old@b.test")
	r.settled()
	next := secretFile(t, "a new secret of 32 characters...", verpSecret)
	if _, err := r.d.reload(configure(t, dir, next+tail+routes("b.test", box.address))); err != nil {
		t.Fatal(err)
	}
	mailing("new@b.test")
	r.settled()
	for _, to := range []mail.Address{"old@b.test", "new@b.test"} {
		bounce := returned(t, "dsn-exim.eml", "", box.senders()[to])
		bounce.Content = append([]byte("Message-ID: <about-"+string(to)+">\r\n"), bounce.Content...)
		r.feed(bounce)
		r.settled()
		if n := r.log.count("msg=feedback", "recipient="+string(to), "verified=true"); n != 1 {
			t.Errorf("%d of %s, to %s", n, to, box.senders()[to])
		}
	}
	path := strings.Trim(strings.TrimSpace(strings.TrimPrefix(next, "verp_secret_file = ")), `"`)
	if err := os.Chmod(path, 0o644); err != nil {
		t.Fatal(err)
	}
	if _, err := r.d.reload(configure(t, dir, next+tail)); err == nil || !strings.Contains(err.Error(), "chmod 600") || strings.Contains(err.Error(), "new secret") {
		t.Error(err)
	}
}
