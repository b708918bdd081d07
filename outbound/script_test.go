package outbound

import (
	"errors"
	"fmt"
	"net/netip"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/posthaste-mta/posthaste/internal/golden"
	"github.com/posthaste-mta/posthaste/mail"
	"github.com/posthaste-mta/posthaste/smtp"
)

// The scripts in testdata are small worlds: each block has servers, a zone and
// deliveries, and its answer shows the outcomes of the recipients, what the
// servers received, and how long it took. Time is virtual. The commands:
//
//	config KEY=VALUE …                 a field of TransportConfig, in lower case
//	server ADDR OCCASION="…" …         see fakeServer
//	zone NEXTHOP tiers="A B|C" | fails="4xx …"
//	sleep FOR                          let time pass
//	hosts NEXTHOP                      ask a Client which hosts there are
//	open ADDR [level=…] [probe]        make a connection and run it
//	send to=a,b …                      send messages to it at once
//	hangup | cancel                    end it, gently or not
//
// Addresses are those of documentation networks, 192.0.2.N, written N.

func TestScripts(t *testing.T) {
	golden.RunAll(t, "testdata/*.txt", func() golden.Handler {
		return func(tb testing.TB, b *golden.Block) (answer string) {
			synctest.Test(tb.(*testing.T), func(t *testing.T) {
				w := newWorld()
				for _, l := range b.Lines {
					w.command(t, l)
				}
				answer = w.finish()
			})
			return answer
		}
	})
}

type world struct {
	net    *fakeNet
	store  store
	config TransportConfig
	global Config
	client *Client
	out    strings.Builder
	next   mail.QueueID
	connections
}

func newWorld() *world {
	return &world{
		net:    newFakeNet(),
		store:  store{},
		global: Config{Hello: "me.example", Seed: 1},
		next:   1,
	}
}

func (w *world) command(t *testing.T, l *golden.Line) {
	switch l.Name {
	case "config":
		w.configure(t, l)
	case "server":
		w.server(l)
	case "zone":
		w.zone(t, l)
	case "sleep":
		d, err := time.ParseDuration(l.Words[0])
		if err != nil {
			t.Fatal(l.Pos, err)
		}
		time.Sleep(d)
		synctest.Wait()
	case "hosts":
		w.hosts(t, l)
	case "open":
		w.open(t, l)
	case "send":
		w.send(t, l)
	case "hangup":
		w.conn.Hangup()
		synctest.Wait()
	case "cancel":
		w.cancel()
		synctest.Wait()
	default:
		t.Fatalf("%s: unknown command", l.Pos)
	}
}

func (w *world) configure(t *testing.T, l *golden.Line) {
	c := &w.config
	c.MXAddressLimit = l.Int(t, "mx_address_limit", c.MXAddressLimit)
	w.global.Self = l.Str("self", w.global.Self)
	if relays := l.Str("fallback_relay", ""); relays != "" {
		c.FallbackRelays = strings.Split(relays, ",")
	}
	for _, word := range l.Words {
		switch word {
		case "deliver_by_strict":
			c.DeliverByStrict = true
		case "lmtp":
			c.LMTP = true
		case "permit_private_hosts":
			c.PermitPrivateHosts = true
		case "keep_order":
			c.KeepOrder = true
		case "allow_self":
			w.global.AllowSelf = true
		default:
			t.Fatalf("%s: unknown word %s", l.Pos, word)
		}
	}
}

// address reads "7", "10.0.0.1" or "2001:db8::1".
func address(s string) netip.AddrPort {
	if !strings.ContainsAny(s, ".:") {
		s = "192.0.2." + s
	}
	return netip.AddrPortFrom(netip.MustParseAddr(s), 25)
}

func (w *world) server(l *golden.Line) {
	s := &fakeServer{addr: address(l.Words[0]), say: map[string]string{}, said: map[string]int{}}
	for _, occasion := range []string{
		"dial", "greeting", "ehlo", "helo", "rset", "mail", "rcpt", "data", "bdat", "early", "final", "quit", "idle",
	} {
		if v, given := l.Option(occasion); given {
			s.say[occasion] = v
		}
	}
	w.net.servers[s.addr] = s
}

func (w *world) zone(t *testing.T, l *golden.Line) {
	name := l.Words[0]
	if v, given := l.Option("fails"); given {
		var code uint16
		var text string
		fmt.Sscanf(v, "%d", &code)
		_, text, _ = strings.Cut(v, " ")
		status, text, _ := mail.ParseStatus(text)
		w.net.errors[name] = mail.Reply{Code: code, Status: status, Text: text}
		return
	}
	var set mail.HostSet
	if ttl := l.Int(t, "ttl", 0); ttl > 0 {
		set.Until = now().Add(time.Duration(ttl) * time.Second)
	}
	for tier := range strings.SplitSeq(l.Str("tiers", ""), "|") {
		var hosts []mail.Host
		for _, a := range strings.Fields(tier) {
			hosts = append(hosts, mail.Host{Name: "mx" + a, Addr: address(a), Preference: uint16(10 * len(set.Tiers))})
		}
		set.Tiers = append(set.Tiers, hosts)
	}
	w.net.zone[name] = set
}

func (w *world) start(t *testing.T) {
	if w.client != nil {
		return
	}
	w.global.Transports = map[string]TransportConfig{"smtp": w.config}
	var err error
	if w.client, err = New(w.global, w.net, w.store, w.net); err != nil {
		t.Fatal(err)
	}
}

// message makes a delivery and its content.
func (w *world) message(t *testing.T, l *golden.Line) mail.Delivery {
	d := mail.Delivery{Transport: "smtp", Nexthop: l.Str("nexthop", "example.net")}
	d.Envelope = mail.Envelope{ID: w.next, Sender: mail.Address(l.Str("from", "a@example.org"))}
	if l.Int(t, "id", 0) == 0 {
		w.next++
	}
	content := fakeContent{data: l.Str("content", "Subject: x\r\n\r\nhello\r\n")}
	if n := l.Int(t, "lines", 0); n > 0 {
		content.data = strings.Repeat(".23456789\r\n", n)
	}
	var notify mail.Notify
	for _, word := range l.Words {
		switch word {
		case "8bit":
			d.Envelope.Body = mail.Body8BitMIME
		case "utf8":
			d.Envelope.SMTPUTF8 = true
		case "infile":
			content.inFile = true
		case "unopenable":
			content.openErr = errors.New("no such body")
		case "unreadable":
			content.inFile, content.readErr = true, errors.New("checksum")
		case "success":
			notify = mail.NotifySuccess
		case "failure":
			notify = mail.NotifyFailure
		case "never":
			notify = mail.NotifyNever
		case "callout": // and no spool has heard of it
			d.Callout, d.Envelope.ID, d.Envelope.Sender, content.openErr = true, mail.CalloutID(1), "", errors.New("no such body")
		default:
			t.Fatalf("%s: unknown word %s", l.Pos, word)
		}
	}
	if text := l.Str("by", ""); text != "" {
		by, ok := smtp.ParseBy([]byte(text))
		if !ok {
			t.Fatalf("%s: by=%s", l.Pos, text)
		}
		d.Envelope.By = by.Deadline(now())
	}
	d.Envelope.Size = int64(len(content.data))
	w.store[d.Envelope.ID] = content
	for i, to := range strings.Split(l.Str("to", "b@example.net"), ",") {
		d.Recipients = append(d.Recipients, mail.Recipient{Index: uint32(i), Address: mail.Address(to), Notify: notify})
	}
	return d
}

// finish ends the connection and returns what the servers received.
func (w *world) finish() string {
	if w.conn != nil {
		w.conn.Hangup()
	}
	w.running.Wait()
	w.net.running.Wait()
	for _, c := range w.net.log {
		fmt.Fprintf(&w.out, "mx%v < %s\n", short(c.server.addr), strings.Join(c.verbs, " "))
	}
	return w.out.String()
}

func short(a netip.AddrPort) string { return strings.TrimPrefix(a.Addr().String(), "192.0.2.") }

// pause lets virtual time pass: fake servers only ever live in a bubble.
func pause(d time.Duration) { time.Sleep(d) }
