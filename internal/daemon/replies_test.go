package daemon

import (
	"bufio"
	"cmp"
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
	"github.com/posthaste-mta/posthaste/internal/feed"
	"github.com/posthaste-mta/posthaste/mail"
	"github.com/posthaste-mta/posthaste/qmgr"
	"github.com/posthaste-mta/posthaste/qmgr/measure"
	"github.com/posthaste-mta/posthaste/qmgr/window"
)

// refuser starts a receiver that answers RCPT with what say returns for the recipient.
func refuser(t *testing.T, say func(rcpt string) string) (address string) {
	return speaker(t, func(_, verb, rest string) string {
		switch verb {
		case "RCPT":
			return say(rest)
		case "DATA":
			return "554 5.5.1 no valid recipients"
		}
		return ""
	})
}

// speaker starts a receiver that answers with what say returns for the client's address, a command ("" before the
// greeting) and its rest. Where that is "", it accepts.
func speaker(t *testing.T, say func(client, verb, rest string) string) (address string) {
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
				client, _, _ := net.SplitHostPort(conn.RemoteAddr().String())
				fmt.Fprintf(conn, "%s\r\n", cmp.Or(say(client, "", ""), "220 refuser.test"))
				content := false
				for in := bufio.NewScanner(conn); in.Scan(); {
					if content {
						if content = in.Text() != "."; !content {
							fmt.Fprint(conn, "250 2.0.0 taken\r\n")
						}
						continue
					}
					verb, rest, _ := strings.Cut(in.Text(), " ")
					verb = strings.ToUpper(verb)
					reply := say(client, verb, rest)
					switch {
					case reply != "":
					case verb == "EHLO":
						reply = "250-refuser.test\r\n250-PIPELINING\r\n250 ENHANCEDSTATUSCODES"
					case verb == "DATA":
						reply, content = "354 go on", true
					case verb == "QUIT":
						fmt.Fprint(conn, "221 bye\r\n")
						return
					default:
						reply = "250 2.0.0 ok"
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

// from is a letter of a sender.
func from(sender mail.Address, key string, to mail.Address) feed.Message {
	m := letter(key, to)
	m.Sender = sender
	return m
}

// B-141, with the rules that come with the program: whatever command a receiver refuses because of our address, it is asked
// a few times, and no mail is returned. When the block is lifted and the suspension resumed, all of it arrives.
func TestShippedRulesForBlocks(t *testing.T) {
	t.Parallel()
	for _, at := range []string{"", "EHLO", "MAIL", "RCPT"} {
		t.Run("at "+cmp.Or(at, "greeting"), func(t *testing.T) {
			t.Parallel()
			var asked atomic.Int32
			var lifted atomic.Bool
			address := speaker(t, func(_, verb, _ string) string {
				if lifted.Load() || verb != at && !(at == "EHLO" && verb == "HELO") {
					return ""
				}
				asked.Add(1)
				return "554 5.7.1 Service unavailable; Client host [127.0.0.1] blocked using bl.example"
			})
			r := start(t, t.TempDir(), "minimal_backoff_time = \"1s\"\n"+routes("d.test", address))
			const letters = 200
			for i := range letters {
				r.feed(from(mail.Address(fmt.Sprintf("s@c%d.test", i%7)), fmt.Sprintf("<%d>", i), mail.Address(fmt.Sprintf("a%d@d.test", i%5))))
			}
			// What comes before MAIL is about one host, which is left alone without a rule.
			nexthop := "smtp:[" + strings.Replace(address, ":", "]:", 1)
			value, suspended := nexthop+" to d.test", 1
			switch at {
			case "MAIL":
				value = nexthop
			case "", "EHLO":
				suspended = 0
			}
			r.until("the mail is suspended", func() bool { return len(r.suspensions()) == suspended })
			r.waiting("all mail is deferred", census{mail.AreaDeferred: letters})
			for _, one := range r.suspensions() {
				if one.Scope != "destination" || one.Value != value || one.Rule != "blocked-address" || !strings.Contains(one.Reason, "Client host [127.0.0.1]") {
					t.Errorf("suspended: %+v", one)
				}
			}
			logged := r.log.tail(1 << 20)
			if n := asked.Load(); n < 3 || n > 60 || strings.Contains(logged, "status=bounced") || strings.Count(logged, "msg=suspended") != suspended {
				t.Errorf("the receiver was asked %d times", n)
			}
			if stage := "stage=" + strings.ToLower(at); at == "MAIL" || at == "RCPT" {
				if !strings.Contains(logged, "reply_class=reputation "+stage) {
					t.Errorf("the log does not have %s", stage)
				}
			}
			lifted.Store(true)
			if suspended > 0 {
				if _, err := r.d.driver.Resume(t.Context(), qmgr.Resume{Scope: measure.Destination, Value: value, By: "jo"}); err != nil {
					t.Fatal(err)
				}
			}
			queueCommand(t, r.dir, "flush") // or a host that has refused its greeting is left alone for a while
			r.settled()
			if n := r.log.count("msg=delivery", "status=sent"); n != letters {
				t.Errorf("%d of %d messages have arrived", n, letters)
			}
		})
	}
}

// One of two addresses of a pool is blocked at MAIL: after a few replies it sends nothing more to this receiver, and the
// other sends everything.
func TestShippedRulesForBlocksOfOneSource(t *testing.T) {
	t.Parallel()
	sources := twoSources(t)
	var blocked atomic.Int32
	address := speaker(t, func(client, verb, _ string) string {
		if verb == "MAIL" && client == sourceA.String() {
			blocked.Add(1)
			return "550 5.7.1 Your IP 127.0.0.2 is on our blacklist"
		}
		return ""
	})
	r := start(t, t.TempDir(), "minimal_backoff_time = \"1s\"\nmaximal_backoff_time = \"1s\"\n"+sources+routes("d.test", address))
	letters, _ := bulk(300, "u@d.test")
	r.feed(letters...)
	r.settled()
	list := r.suspensions()
	if len(list) != 1 || list[0].Rule != "blocked-address" || !strings.HasSuffix(list[0].Value, " from a") {
		t.Errorf("suspended: %+v", list)
	}
	if n := blocked.Load(); n < 5 || n > 60 || r.log.count("status=sent", "source=b") != 300 || r.log.count("status=bounced") != 0 {
		t.Errorf("%d times refused, %d messages sent", n, r.log.count("status=sent"))
	}
}

// What one party brings about with mail that is refused stops nobody else's mail: one recipient, one message that is
// tried again and again, one tenant with whatever senders and recipients.
func TestOnePartyIsNoBlock(t *testing.T) {
	t.Parallel()
	const tenants = "[tenant.bad]\nsender = [\".bad.test\"]\n[tenant.good]\nsender = [\"good.test\"]\n"
	for _, c := range []struct {
		name, verb, says, config string
		senders, recipients      int // of refused mail
		letters                  int
	}{
		{"recipient", "RCPT", "550 5.7.1 <%s>: this recipient does not accept mail from your IP address", "", 20, 1, 20},
		{"message", "RCPT", "550 5.7.1 <%s>: this recipient does not accept mail from your IP address", "", 1, 1, 1},
		{"tenant, words about us", "MAIL", "554 5.7.1 your IP address is blocked by policy", tenants, 20, 20, 20},
		{"tenant, vague words", "MAIL", "550 5.7.1 rejected by policy", tenants, 20, 20, 20},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			var refused atomic.Int32
			address := speaker(t, func(_, verb, rest string) string {
				if verb != c.verb || !strings.Contains(rest, "bad") {
					return ""
				}
				refused.Add(1)
				return strings.ReplaceAll(c.says, "%s", strings.Trim(rest, "TO:<>"))
			})
			r := start(t, t.TempDir(), "minimal_backoff_time = \"1s\"\nmaximal_backoff_time = \"1s\"\n"+c.config+routes("d.test", address))
			for i := range c.letters {
				r.feed(from(mail.Address(fmt.Sprintf("s@c%d.bad.test", i%c.senders)), fmt.Sprintf("<%d>", i), mail.Address(fmt.Sprintf("bad%d@d.test", i%c.recipients))))
			}
			r.until("refused often enough", func() bool {
				return refused.Load() >= int32(max(8, min(c.letters, 12))) || r.log.count("status=bounced") == c.letters
			})
			r.feed(from("s@good.test", "<good>", "good@d.test"))
			r.until("the other mail is delivered", func() bool { return r.log.count("status=sent", "to=good@d.test") == 1 })
			if list := r.suspensions(); len(list) > 0 {
				t.Errorf("suspended: %+v", list)
			}
		})
	}
}

// The domain of one customer is blocked, in words that may or may not say so: his mail is returned at once, and that of the
// others arrives. Only when mail of several domains is refused in a row in words that say nothing is the receiver left alone.
func TestShippedRulesForBlockedSenders(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name, says string
		bad        int // of so many sender domains
		suspended  bool
	}{
		{"the words say so", "550 5.7.1 mail from IP address 127.0.0.1 with your domain is blocked by policy", 1, false},
		{"they do not", "550 5.7.1 rejected by policy", 1, false},
		{"two domains", "550 5.7.1 rejected by policy", 2, false},
		{"all domains", "550 5.7.1 rejected by policy", 5, true},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			address := speaker(t, func(_, verb, rest string) string {
				for i := range c.bad {
					if verb == "MAIL" && strings.Contains(rest, fmt.Sprintf("@c%d.test", i)) {
						return c.says
					}
				}
				return ""
			})
			r := start(t, t.TempDir(), routes("d.test", address))
			const letters = 200
			for i := range letters {
				r.feed(from(mail.Address(fmt.Sprintf("s@c%d.test", i%c.bad)), fmt.Sprintf("<%d>", i), "a@d.test"))
			}
			if c.suspended {
				r.until("it is suspended", func() bool { return len(r.suspensions()) == 1 })
				r.until("all mail is looked at", func() bool { return r.census()[mail.AreaIncoming] == 0 })
				if rule, bounced := r.suspensions()[0].Rule, r.log.count("msg=delivery", "status=bounced"); rule != "blocked-everything" || bounced > 60 {
					t.Errorf("suspended by %q, %d messages are returned", rule, bounced)
				}
				return
			}
			r.feed(from("s@c6.test", "<good>", "a@d.test"))
			r.until("all mail is answered", func() bool {
				return r.log.count("msg=delivery", "nexthop=", "status=bounced", "to=a@d.test") == letters && r.log.count("msg=delivery", "status=sent") >= 1
			})
			if list := r.suspensions(); len(list) > 0 {
				t.Errorf("suspended: %+v", list)
			}
		})
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

// A provider takes mail for many domains at one host, and one customer of it refuses ours. That suspends the mail to this customer's
// domain, and not what goes to the others.
func TestBlockByOneDomain(t *testing.T) {
	t.Parallel()
	address := speaker(t, func(_, verb, rest string) string {
		if verb == "RCPT" && strings.Contains(rest, "@evil.test") {
			return "554 5.7.1 Service unavailable; Client host [127.0.0.1] blocked using bl.example"
		}
		return ""
	})
	r := start(t, t.TempDir(), routes("evil.test", address, "good.test", address))
	for i := range 40 {
		r.feed(from("s@c.test", fmt.Sprintf("<%d>", i), mail.Address(fmt.Sprintf("e%d@evil.test", i))))
	}
	r.until("the domain is suspended", func() bool { return len(r.suspensions()) == 1 })
	for i := range 40 {
		r.feed(from("s@c.test", fmt.Sprintf("<good%d>", i), mail.Address(fmt.Sprintf("g%d@good.test", i))))
	}
	r.until("the other domain has its mail", func() bool { return r.log.count("msg=delivery", "status=sent", "@good.test") == 40 })
	r.waiting("the rest waits", census{mail.AreaDeferred: 40})
	if one := r.suspensions(); len(one) != 1 || one[0].Scope != "destination" || !strings.HasSuffix(one[0].Value, " to evil.test") {
		t.Errorf("suspended: %+v", one)
	}
	if r.log.count("msg=delivery", "status=deferred", "to=e39@evil.test", ` to evil.test; blocked-address: 554 5.7.1"`) == 0 {
		t.Error("the last message to the domain was not put off because of it")
	}
}
