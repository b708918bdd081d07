package main

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
)

// Where everybody listens. The network has nobody else in it.
const (
	posthasteAddr = "127.0.0.1:2525"
	receiverAddr  = "127.0.0.1:2600"
	postfixAddr   = "127.0.0.1:2610"
	strictAddr    = "127.0.0.1:2611" // Postfix with small limits
	eximAddr      = "127.0.0.1:2620"
	smtpSinkAddr  = "127.0.0.1:2630"
)

// The domains of recipients, by the way that their mail takes.
const (
	directDomain  = "direct.test"  // the daemon, then our receiver
	postfixDomain = "postfix.test" // the daemon, Postfix, our receiver
	strictDomain  = "strict.test"  // likewise
	eximDomain    = "exim.test"    // the daemon, Exim, our receiver
	dumpDomain    = "dump.test"    // the daemon, smtp-sink
	// Senders, whose reports go the same ways.
	postfixSenders = "from.postfix.test"
	eximSenders    = "from.exim.test"
)

// bracketed is an address as routes have it.
func bracketed(address string) string { return "[" + strings.Replace(address, ":", "]:", 1) }

// startPosthaste starts the program under test. Deferred mail is tried again
// after a second, because strict servers defer much.
func startPosthaste(ctx context.Context, binary, dir string) (*process, error) {
	routes := map[string]string{
		senderDomain: receiverAddr, directDomain: receiverAddr, dumpDomain: smtpSinkAddr,
		postfixDomain: postfixAddr, postfixSenders: postfixAddr, strictDomain: strictAddr,
		eximDomain: eximAddr, eximSenders: eximAddr,
	}
	text := fmt.Sprintf(`
myhostname = "posthaste.test"
queue_directory = %q
listen = [%q]
smtpd_recipient_limit = 5000
minimal_backoff_time = "1s"
maximal_backoff_time = "2s"

[routes]
`, posthasteQueue(dir), posthasteAddr)
	for domain, address := range routes {
		text += fmt.Sprintf("%q = \"smtp:%s\"\n", domain, bracketed(address))
	}
	file := filepath.Join(dir, "posthaste.toml")
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		return nil, err
	}
	p, err := startProcess(dir, "posthaste", binary, "serve", "--config", file)
	if err != nil {
		return nil, err
	}
	return p, p.listens(ctx, posthasteAddr)
}

func posthasteQueue(dir string) string { return filepath.Join(dir, "posthaste-queue") }
