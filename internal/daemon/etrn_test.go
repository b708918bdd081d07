package daemon

import (
	"fmt"
	"net/textproto"
	"strings"
	"sync"
	"testing"

	"github.com/posthaste-mta/posthaste/internal/sink"
	"github.com/posthaste-mta/posthaste/mail"
)

// A site that is not always connected comes up, and asks for its mail by ETRN long before the next attempt. It gets
// its mail, although it is dead for the core, and nobody else's is tried. As a stranger it learns nothing else; a reload
// makes it a client in mynetworks, which learns how much there is, for other domains; and another reload ends ETRN.
func TestETRN(t *testing.T) {
	t.Parallel()
	site, other := closed(t), closed(t)
	table := routes("site.test", site, "sub.site.test", site, "other.test", other)
	r := start(t, t.TempDir(), "mynetworks = [\"192.0.2.1\"]\nrelay_domains = [\"site.test\", \".site.test\", \"other.test\"]\nfast_flush_domains = [\"Site.test\", \"none.test\"]\nfast_flush_interval = \"1h\"\n"+table)
	for i := range 3 {
		r.feed(letter(key(i), "a@site.test"))
	}
	r.feed(letter("<both>", "a@other.test", "b@SITE.test"), letter("<sub>", "a@sub.site.test"), letter("<other>", "a@other.test"))
	r.waiting("all deferred", census{mail.AreaDeferred: 6})
	if got := say(t, r.address()); !strings.Contains(got, "\nETRN\n") {
		t.Errorf("EHLO is answered with %q", got)
	}
	box := open(t, site)
	for _, domain := range []string{"site.test", "SITE.test.", "none.test"} {
		if got := say(t, r.address(), "ETRN "+domain); got != "250 2.0.0 Queuing started" {
			t.Errorf("ETRN %s: %s", domain, got)
		}
	}
	if got := say(t, r.address(), "ETRN other.test"); got != "459 4.7.1 Node other.test not allowed: its mail cannot be requested here" {
		t.Error(got)
	}
	r.waiting("what was not asked for", census{mail.AreaDeferred: 3})
	want := copies{"<0> a@site.test": 1, "<1> a@site.test": 1, "<2> a@site.test": 1, "<both> b@SITE.test": 1}
	box.copies().matches(t, want)
	if n := r.log.count("msg=order", "verb=retry", "messages=4", `reason="ETRN `, "by=etrn"); n != 1 {
		t.Errorf("%d lines say what was tried", n)
	}

	reload := func(text string) {
		t.Helper()
		if restart, err := r.d.reload(configure(t, r.dir, text+table)); err != nil || len(restart) > 0 {
			t.Fatal(restart, err)
		}
	}
	reload("fast_flush_domains = [\"other.test\", \"site.test\", \".site.test\"]\n")
	late := open(t, other)
	if got := say(t, r.address(), "ETRN other.test"); got != "253 2.0.0 OK, 2 pending messages for node other.test started" {
		t.Error(got)
	}
	if got := say(t, r.address(), "ETRN @site.test"); got != "253 2.0.0 OK, 1 pending messages for node @site.test started" {
		t.Error(got)
	}
	r.settled()
	late.copies().matches(t, copies{"<both> a@other.test": 1, "<other> a@other.test": 1})
	want["<sub> a@sub.site.test"] = 1
	box.copies().matches(t, want)
	if got := say(t, r.address(), "ETRN @other.test"); !strings.HasPrefix(got, "459 ") {
		t.Error(got)
	}

	reload("")
	if got := say(t, r.address(), "ETRN site.test"); got != "502 5.5.1 Error: command not implemented" {
		t.Error(got)
	}
}

// Clients ask for the mail of ever more domains, while a backlog waits for a server that is down. Other mail is
// delivered meanwhile, and what is waiting stays as it is.
func TestETRNFlood(t *testing.T) {
	t.Parallel()
	box := receive(t, sink.Config{})
	r := start(t, t.TempDir(), "fast_flush_domains = [\".d.test\"]\nfast_flush_interval = \"1s\"\n"+routes(".d.test", closed(t), "good.test", box.address))
	for i := range 20 {
		r.feed(letter(key(i), mail.Address(fmt.Sprint("a@x", i, ".d.test"))))
	}
	r.waiting("all deferred", census{mail.AreaDeferred: 20})
	var clients sync.WaitGroup
	for i := range 4 {
		clients.Go(func() {
			c, err := textproto.Dial("tcp", r.address())
			if err != nil {
				t.Error(err)
				return
			}
			defer c.Close()
			if _, _, err := c.ReadResponse(220); err != nil {
				t.Error(err)
			}
			for n := range 100 {
				line := fmt.Sprint("ETRN x", i*100+n, ".d.test")
				if n == 0 {
					line = "EHLO client.test"
				}
				if err := c.PrintfLine("%s", line); err != nil {
					t.Error(err)
					return
				}
				if code, text, err := c.ReadResponse(0); err != nil || code/10 != 25 {
					t.Errorf("%s: %d %s, %v", line, code, text, err)
					return
				}
			}
		})
	}
	want := make(copies)
	for i := range 50 {
		r.feed(letter(fmt.Sprintf("<good.%d>", i), "a@good.test"))
		want[fmt.Sprintf("<good.%d> a@good.test", i)] = 1
	}
	clients.Wait()
	r.until("good mail is there", func() bool { return len(box.deliveries()) == 50 })
	box.copies().matches(t, want)
	r.waiting("the backlog", census{mail.AreaDeferred: 20})
}
