package daemon

import (
	"bufio"
	"fmt"
	"net"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/posthaste-mta/posthaste/internal/sink"
	"github.com/posthaste-mta/posthaste/mail"
)

// A boxServer delivers into mailboxes by LMTP, once for each message and recipient. A
// mailbox whose name begins with "full" has room from the second attempt on.
type boxServer struct {
	mu       sync.Mutex
	got      copies
	attempts map[string]int
}

// serve answers on one connection until it ends.
func (b *boxServer) serve(c net.Conn) {
	defer c.Close()
	in := bufio.NewScanner(c)
	say := func(lines ...string) { fmt.Fprint(c, strings.Join(lines, "\r\n")+"\r\n") }
	say("220 boxes LMTP")
	var to []string
	for in.Scan() {
		verb, arg, _ := strings.Cut(in.Text(), " ")
		switch verb {
		case "LHLO":
			say("250-boxes", "250-8BITMIME", "250 PIPELINING")
		case "MAIL":
			to = nil
			say("250 2.1.0 ok")
		case "RCPT":
			name, _, _ := strings.Cut(strings.TrimPrefix(arg, "TO:<"), ">")
			if strings.HasPrefix(name, "no-") {
				say("550 5.1.1 no such mailbox")
				continue
			}
			to = append(to, name)
			say("250 2.1.5 ok")
		case "DATA":
			say("354 go")
			say(b.deliver(b.key(in), to)...)
		default:
			say("221 2.0.0 bye")
			return
		}
	}
}

// key reads a content and returns its key.
func (b *boxServer) key(in *bufio.Scanner) (key string) {
	for in.Scan() && in.Text() != "." {
		if id, ok := strings.CutPrefix(in.Text(), "Message-ID: "); ok {
			key = id
		}
	}
	return key
}

func (b *boxServer) deliver(key string, to []string) (replies []string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, name := range to {
		if b.attempts[name]++; strings.HasPrefix(name, "full") && b.attempts[name] == 1 {
			replies = append(replies, "452 4.2.2 mailbox full")
			continue
		}
		b.got.add(key, mail.Address(name))
		replies = append(replies, "250 2.0.0 saved")
	}
	return replies
}

// Mail for mailboxes waits while their server is not there. Once it is, each recipient gets
// the message once: the one whose mailbox was full gets it later, and those that have it do
// not get it again. The server does not know the third, and the sender gets a report.
func TestLMTP(t *testing.T) {
	t.Parallel()
	origin := receive(t, sink.Config{})
	path := filepath.Join(t.TempDir(), "lmtp")
	r := start(t, t.TempDir(), routes("d.test", "lmtp:unix:"+path, "origin.test", origin.address))
	r.feed(letter("<1>", "a@d.test", "full@d.test", "no-c@d.test", "d@d.test"))
	r.waiting("deferred, as the server is not running", census{mail.AreaDeferred: 1})
	if r.log.count("connect to unix:"+path+": no such file or directory (is its server running?)") == 0 {
		t.Error("the log does not say why")
	}
	ln, err := net.Listen("unix", path)
	if err != nil {
		t.Fatal(err)
	}
	b := &boxServer{got: make(copies), attempts: map[string]int{}}
	var serving sync.WaitGroup
	serving.Go(func() {
		for {
			c, err := ln.Accept()
			if err != nil {
				return
			}
			serving.Go(func() { b.serve(c) })
		}
	})
	r.d.driver.RetryAll()
	r.until("the attempt", func() bool {
		b.mu.Lock()
		defer b.mu.Unlock()
		return b.attempts["full@d.test"] > 0
	})
	r.waiting("one mailbox full", census{mail.AreaDeferred: 1})
	r.d.driver.RetryAll()
	r.settled()
	r.end()
	ln.Close()
	serving.Wait()
	b.got.matches(t, copies{"<1> a@d.test": 1, "<1> full@d.test": 1, "<1> d@d.test": 1})
	if n := len(origin.deliveries()); n != 1 {
		t.Errorf("the sender got %d reports", n)
	}
}
