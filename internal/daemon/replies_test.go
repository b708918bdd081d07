package daemon

import (
	"bufio"
	"encoding/json"
	"fmt"
	"net"
	"net/http/httptest"
	"net/url"
	"os"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/posthaste-mta/posthaste/admin"
	"github.com/posthaste-mta/posthaste/mail"
	"github.com/posthaste-mta/posthaste/qmgr"
	"github.com/posthaste-mta/posthaste/qmgr/measure"
	"github.com/posthaste-mta/posthaste/qmgr/window"
)

// refuser starts a receiver that answers RCPT with what say returns for the recipient.
func refuser(t *testing.T, say func(rcpt string) string) (address string) {
	t.Helper()
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
				fmt.Fprint(conn, "220 refuser.test\r\n")
				for in := bufio.NewScanner(conn); in.Scan(); {
					verb, rest, _ := strings.Cut(in.Text(), " ")
					reply := "250 2.0.0 ok"
					switch strings.ToUpper(verb) {
					case "EHLO":
						reply = "250-refuser.test\r\n250-PIPELINING\r\n250 ENHANCEDSTATUSCODES"
					case "RCPT":
						reply = say(rest)
					case "DATA":
						reply = "554 5.5.1 no valid recipients"
					case "QUIT":
						fmt.Fprint(conn, "221 bye\r\n")
						return
					}
					fmt.Fprintf(conn, "%s\r\n", reply)
				}
			}()
		}
	}()
	return ln.Addr().String()
}

// What receivers say reaches the operator word for word, from the socket to the API: all
// lines, the code, and octets that are not UTF-8 as escapes. Each refusal has its class, and rules do what they say.
func TestRepliesAndRules(t *testing.T) {
	t.Parallel()
	long := strings.Repeat("0123456789 abcde ", 200)
	full := refuser(t, func(rcpt string) string {
		switch {
		case strings.Contains(rcpt, "full@"):
			return "452-4.2.2 the mailbox is \xe9tendu\r\n452-4.2.2 " + long + "\r\n452 4.2.2 try\tlater"
		case strings.Contains(rcpt, "gone"):
			return "450 4.9.9 moved to the moon"
		}
		return "421 4.7.0 please rest"
	})
	table := routes("full.test", full, "rest.test", full)
	r := start(t, t.TempDir(), `
[reply_rule.moon]
words = ["moved to the moon"]
result = "permanent"
[reply_rule.rest]
code = "421"
words = ["please rest"]
backoff = "1h"
`+table)
	r.feed(letter("<1>", "full@full.test"), letter("<2>", "gone@full.test"))
	r.until("the first two are answered", func() bool { return strings.Count(r.log.tail(1<<20), "msg=delivery") >= 2 })
	r.feed(letter("<3>", "a@rest.test"))
	r.until("all replies are logged", func() bool {
		text := r.log.tail(1 << 20)
		return strings.Contains(text, "to=full@full.test") && strings.Contains(text, "to=gone@full.test") && strings.Contains(text, "to=a@rest.test") && strings.Contains(text, "msg=rule")
	})
	logged := r.log.tail(1 << 20)
	lineOf := func(to string) string {
		for line := range strings.SplitSeq(logged, "\n") {
			if strings.Contains(line, "msg=delivery") && strings.Contains(line, "to="+to) {
				return line
			}
		}
		return ""
	}
	for to, want := range map[string][]string{
		"full@full.test": {"reply_class=mailbox-full", "status=deferred", "452 4.2.2 the mailbox is " + `\\xe9tendu / ` + long + ` / try\\tlater`},
		"gone@full.test": {"reply_class=other", "status=bounced", "450 4.9.9 moved to the moon"},
		"a@rest.test":    {"reply_class=policy", "status=deferred", "421 4.7.0 please rest"},
	} {
		for _, part := range want {
			if line := lineOf(to); !strings.Contains(line, part) {
				t.Errorf("no %q in the log line of %s:\n%s", part, to, line)
			}
		}
	}
	if !strings.Contains(logged, "msg=rule") || !strings.Contains(logged, "rest: 421 4.7.0 please rest") {
		t.Error("the log does not name the rule")
	}

	get := func(path string) string {
		w := httptest.NewRecorder()
		r.d.admin.Handler().ServeHTTP(w, httptest.NewRequest("GET", path, nil))
		return w.Body.String()
	}
	r.until("the view has the reply", func() bool { return strings.Contains(get("/v1/messages?reply_class=mailbox-*"), "full@full.test") })
	page := get("/v1/messages?reply_class=mailbox-*")
	if want := `"reply":"452 4.2.2 the mailbox is \\xe9tendu\n` + long + `\ntry\\tlater","reply_class":"mailbox-full"`; !strings.Contains(page, want) {
		t.Errorf("no %s in\n%s", want, page)
	}
	if strings.Contains(page, "rest.test") {
		t.Errorf("the filter lets others through:\n%s", page)
	}
	list := r.destinations()
	for _, d := range list {
		if d.Queue.Rule == "rest" {
			if d.Queue.State != window.Dead || d.Queue.Reason.Said().Code != 421 {
				t.Errorf("the destination that rests is %+v", d.Queue)
			}
			return
		}
	}
	t.Errorf("no destination rests: %+v", list)
}

// A rule suspends a destination until an operator resumes it: what comes later is not tried, over a restart
// too, and each view says why, in the receiver's words. After the resume it goes at once.
func TestRuleSuspends(t *testing.T) {
	t.Parallel()
	long := strings.Repeat("0123456789 abcde ", 238) // as long as a reply may be
	var open atomic.Bool
	var tried atomic.Int64
	to := refuser(t, func(string) string {
		if open.Load() {
			return "550 5.1.1 delivered enough"
		}
		tried.Add(1)
		return "554-5.7.1 your address is blocked\r\n554-5.7.1 " + long + "\r\n554 5.7.1 write to us"
	})
	dir := t.TempDir()
	table := `
minimal_backoff_time = "1s"
[reply_rule.blocked]
code = "554"
words = ["write to us"]
result = "temporary"
suspend = "until-resumed"
` + routes("blocked.test", to)
	r := start(t, dir, table)
	r.feed(letter("<1>", "a@blocked.test"))
	r.until("it is suspended", func() bool { return strings.Contains(r.log.tail(1<<20), "msg=suspended") })
	site := r.suspensions()[0].Value
	words := "554 5.7.1 your address is blocked\n" + long + "\nwrite to us"
	check := func(r *rig) {
		t.Helper()
		list := r.suspensions()
		if len(list) != 1 || list[0].Scope != "destination" || !strings.HasPrefix(list[0].Value, "smtp:") || list[0].Rule != "blocked" || list[0].By != "rule blocked" || list[0].Reason != words || list[0].Until != nil {
			t.Fatalf("suspended: %+v", list)
		}
		r.feed(letter("<2>", "b@blocked.test"))
		r.until("it is put off", func() bool {
			return strings.Contains(r.asks("/v1/messages"), `"wait":"suspended"`)
		})
		for path, want := range map[string]string{
			"/v1/messages": "is suspended by rule blocked: 554 5.7.1 your address is blocked / " + long + " / write to us",
			"/v1/explain?destination=" + url.QueryEscape(site): "is suspended by rule blocked: 554 5.7.1",
			"/v1/destinations": `"rule":"blocked"`,
		} {
			if got := r.asks(path); !strings.Contains(got, want) {
				t.Errorf("%s: no %q in\n%s", path, want, got)
			}
		}
		if n := tried.Load(); n != 1 {
			t.Errorf("%d recipients were offered to a receiver that is suspended", n)
		}
	}
	check(r)
	line := ""
	for text := range strings.SplitSeq(r.log.tail(1<<20), "\n") {
		if strings.Contains(text, "msg=suspended") {
			line = text
		}
	}
	if !strings.Contains(line, "by rule blocked: 554 5.7.1 your address is blocked / "+long+" / write to us") {
		t.Errorf("the log says %s", line)
	}
	r.end()
	r = start(t, dir, table)
	check(r)
	open.Store(true)
	if _, err := r.d.driver.Resume(t.Context(), qmgr.Resume{Scope: measure.Destination, Value: site, By: "jo"}); err != nil {
		t.Fatal(err)
	}
	r.until("all that waited goes at once", func() bool {
		text := r.log.tail(1 << 20)
		return strings.Count(text, "delivered enough") >= 2 && strings.Contains(text, "msg=resumed")
	})
	if list := r.suspensions(); len(list) != 0 {
		t.Errorf("suspended after the resume: %+v", list)
	}
}

// get returns what the administration answers.
func (r *rig) asks(path string) string {
	w := httptest.NewRecorder()
	r.d.admin.Handler().ServeHTTP(w, httptest.NewRequest("GET", path, nil))
	return w.Body.String()
}

func (r *rig) suspensions() []admin.Suspension {
	r.t.Helper()
	var page admin.SuspensionPage
	if err := json.Unmarshal([]byte(r.asks("/v1/suspensions")), &page); err != nil {
		r.t.Fatal(err)
	}
	return page.Suspensions
}

// B-141: a receiver that refuses all mail for good because of the address that it comes from. With the
// rule of docs/replies.md no message is returned, and the receiver is left alone.
func TestBlockedAddress(t *testing.T) {
	t.Parallel()
	manual, err := os.ReadFile("../../docs/replies.md")
	if err != nil {
		t.Fatal(err)
	}
	_, rule, _ := strings.Cut(string(manual), "[reply_rule.blocked]\nreceiver = [\".mx.example.net\"]\n")
	rule, _, found := strings.Cut(rule, "```")
	if !found {
		t.Fatal("docs/replies.md has no rule for a blocked address")
	}
	var asked atomic.Int32
	address := refuser(t, func(string) string {
		asked.Add(1)
		return "550 5.7.1 Service unavailable; client [192.0.2.1] blocked using bl.example"
	})
	r := start(t, t.TempDir(), "[reply_rule.blocked]\n"+rule+routes("d.test", address))
	const letters = 60
	for i := range letters {
		r.feed(letter(fmt.Sprintf("<%d>", i), "a@d.test"))
	}
	r.waiting("all mail is deferred", census{mail.AreaDeferred: letters})
	logged := r.log.tail(1 << 20)
	if n := asked.Load(); n < 5 || n > letters/2 || strings.Contains(logged, "status=bounced") || !strings.Contains(logged, "msg=rule") {
		t.Errorf("the receiver was asked %d times", n)
	}
}

// destinations returns what the core holds of all destinations.
func (r *rig) destinations() []qmgr.DestinationSummary {
	r.t.Helper()
	list, err := r.d.driver.Destinations(r.t.Context(), qmgr.DestinationQuery{Most: 100})
	if err != nil {
		r.t.Fatal(err)
	}
	return list.Destinations
}

// A destination that a rule has rest for hours rests after a restart, too: nothing is sent there, and the
// operator sees why. A reload without the rule ends that.
func TestRestOverRestart(t *testing.T) {
	t.Parallel()
	var asked atomic.Int64
	busy := refuser(t, func(string) string {
		asked.Add(1)
		return "421 4.7.0 please rest"
	})
	dir, table := t.TempDir(), routes("rest.test", busy)
	rule := "[reply_rule.rest]\nwords = [\"please rest\"]\nbackoff = \"6h\"\n"
	r := start(t, dir, rule+table)
	r.feed(letter("<1>", "a@rest.test"))
	r.until("the rule applies", func() bool { return strings.Contains(r.log.tail(1<<20), "msg=rule") })
	r.end()
	before := asked.Load()
	r = start(t, dir, rule+table)
	r.feed(letter("<2>", "b@rest.test"))
	r.until("the next message is put off", func() bool {
		return strings.Contains(r.log.tail(1<<20), "to=b@rest.test") && strings.Contains(r.log.tail(1<<20), "please rest")
	})
	rests := func() bool {
		return slices.ContainsFunc(r.destinations(), func(d qmgr.DestinationSummary) bool {
			return d.Queue.Rule == "rest" && d.Queue.State == window.Dead && time.Until(time.Unix(0, int64(d.Queue.Until))) > 5*time.Hour
		})
	}
	if n := asked.Load(); n != before || !rests() {
		t.Errorf("after the restart the receiver was asked %d times; %+v", n-before, r.destinations())
	}
	if _, err := r.d.reload(configure(t, dir, table)); err != nil {
		t.Fatal(err)
	}
	r.until("it does not rest", func() bool { return !rests() })
}
