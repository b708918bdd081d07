package main

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
)

// Where all servers listen. The network has no other hosts.
const (
	posthasteAddr  = "127.0.0.1:2525"
	receiverAddr   = "127.0.0.1:2600"
	postfixAddr    = "127.0.0.1:2610"
	strictAddr     = "127.0.0.1:2611" // Postfix with small limits
	eximAddr       = "127.0.0.1:2620"
	eximNarrowAddr = "127.0.0.1:2622" // Exim without 8BITMIME
	smtpSinkAddr   = "127.0.0.1:2630"
	// Those that refuse at random.
	postfixRefuseAddr = "127.0.0.1:2612"
	policyAddr        = "127.0.0.1:2613" // of that Postfix
	eximRefuseAddr    = "127.0.0.1:2621"
	sendmailAddr      = "127.0.0.1:2640"
	opensmtpdAddr     = "127.0.0.1:2650"
	gosmtpAddr        = "127.0.0.1:2660"
	gosmtp24Addr      = "127.0.0.1:2661"
	gosmtp21Addr      = "127.0.0.1:2662"
	dovecotAddr       = "127.0.0.1:2670"
)

// The domains of recipients, by the way that their mail takes.
const (
	directDomain  = "direct.test"  // the daemon, then our receiver
	postfixDomain = "postfix.test" // the daemon, Postfix, our receiver
	strictDomain  = "strict.test"  // likewise
	eximDomain    = "exim.test"    // the daemon, Exim, our receiver
	dumpDomain    = "dump.test"    // the daemon, smtp-sink
	narrowDomain  = "narrow.test"  // the daemon, servers with few extensions, our receiver
	// Senders, whose reports go the same ways.
	postfixSenders = "from.postfix.test"
	eximSenders    = "from.exim.test"
)

// bracketed is an address as routes have it.
func bracketed(address string) string { return "[" + strings.Replace(address, ":", "]:", 1) }

// startPosthaste starts the program under test. Deferred mail is tried again
// after a second, because strict servers defer much. Each lane is a transport of its
// own, or part of one.
func startPosthaste(ctx context.Context, t *trial) (*process, error) {
	routes := make(map[string]string)
	for domain, address := range map[string]string{
		senderDomain: receiverAddr, directDomain: receiverAddr, dumpDomain: smtpSinkAddr,
		postfixDomain: postfixAddr, postfixSenders: postfixAddr, strictDomain: strictAddr,
		eximDomain: eximAddr, eximSenders: eximAddr,
	} {
		routes[domain] = "smtp:" + bracketed(address)
	}
	routes[bounceDomain] = "smtp:" + bracketed(postfixAddr)
	verpTop, verpTables, err := verpConfig(t.dir)
	if err != nil {
		return nil, err
	}
	routes[socketDomain], routes[tcpDomain] = "lmtp:unix:"+dovecotSocket(t.dir), "lmtp:inet:"+bracketed(dovecotAddr)
	text := fmt.Sprintf(`
myhostname = "posthaste.test"
queue_directory = %q
listen = [%q]
smtpd_recipient_limit = 5000
minimal_backoff_time = "1s"
maximal_backoff_time = "2s"
`, posthasteQueue(t.dir), posthasteAddr) + verpTop + verpTables
	made := make(map[string]bool)
	for _, l := range t.lanes {
		if name := l.transport(); !made[name] {
			made[name] = true
			text += fmt.Sprintf("\n[transport.%s]\npipelining = %q\nprocess_limit = %d\n", name, l.level, laneConnections)
			if l.fate == fateHeld {
				text += "unknown_outcome = \"hold\"\n"
			}
		}
		for n := range l.hosts {
			routes[l.host(n)] = l.transport() + ":" + l.address(n)
		}
	}
	text += "\n[transport.narrow]\npipelining = \"stream\"\n"
	for _, n := range narrows() {
		routes[n.domain()] = "narrow:" + bracketed(n.address)
	}
	text += "\n[routes]\n"
	for domain, route := range routes {
		text += fmt.Sprintf("%q = %q\n", domain, route)
	}
	file := filepath.Join(t.dir, "posthaste.toml")
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		return nil, err
	}
	p, err := startProcess(t.dir, "posthaste", t.binary, "serve", "--config", file)
	if err != nil {
		return nil, err
	}
	return p, p.listens(ctx, posthasteAddr)
}

// laneConnections is the number of connections a transport of lanes has at most. Behind
// each there is a process of the server, as a rule.
const laneConnections = 16

func posthasteQueue(dir string) string { return filepath.Join(dir, "posthaste-queue") }
