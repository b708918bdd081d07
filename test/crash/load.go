package main

import (
	"context"
	"fmt"
	"hash/crc32"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"time"

	"github.com/posthaste-mta/posthaste/internal/feed"
	"github.com/posthaste-mta/posthaste/internal/pause"
)

// senderDomain is where reports go.
const senderDomain = "origin.test"

// A load submits messages until it is stopped, over as many connections as there
// are clients, whether the daemon is there or not.
type load struct {
	address string
	ledger  *ledger
	clients int
	seed    uint64
	serial  atomic.Int64
	text    []byte // that bodies are cut from
}

// textSize is more than the largest body.
const textSize = 1 << 20

func newLoad(address string, l *ledger, clients int, seed uint64) *load {
	dice := rand.New(rand.NewPCG(seed, 1))
	text := make([]byte, textSize)
	for i := range text {
		text[i] = " etaoin.shrdlu"[dice.IntN(14)]
		if i%64 == 63 {
			text[i] = '\n'
			text[i-1] = '\r'
		}
	}
	return &load{address: address, ledger: l, clients: clients, seed: seed, text: text}
}

// run submits messages until ctx ends.
func (l *load) run(ctx context.Context) {
	var all sync.WaitGroup
	for i := range l.clients {
		all.Go(func() {
			dice := rand.New(rand.NewPCG(l.seed, uint64(i)+2))
			for ctx.Err() == nil {
				l.connection(ctx, dice)
			}
		})
	}
	all.Wait()
}

// Times between attempts to connect, and at most between messages of a client.
const (
	connectPause = 5 * time.Millisecond
	messagePause = 40 * time.Millisecond
)

// connection submits messages over one connection, until it breaks or there
// were enough.
func (l *load) connection(ctx context.Context, dice *rand.Rand) {
	c, err := feed.Dial(ctx, "tcp", l.address)
	if err != nil {
		pause.For(ctx, connectPause)
		return
	}
	for range 1 + dice.IntN(100) {
		k := key(l.serial.Add(1))
		m, bodySum := l.message(k, dice)
		l.ledger.handIn(k, len(m.Recipients), bodySum)
		r := c.Send(m)
		l.ledger.result(k, r)
		if r.Err != nil {
			return
		}
		if !pause.For(ctx, time.Duration(dice.Int64N(int64(messagePause)))) {
			break
		}
	}
	c.Close() //nolint:errcheck // all that matters was said before
}

// message makes a message and returns the checksum of its body.
func (l *load) message(k key, dice *rand.Rand) (m feed.Message, bodySum uint32) {
	m = feed.Message{Sender: "sender@" + senderDomain, EnvID: k.envID(), Chunked: dice.IntN(2) == 0}
	recipients, size := 1, 200+dice.IntN(8<<10)
	switch n := dice.IntN(1000); {
	case n < 10:
		recipients = 100 + dice.IntN(400)
	case n < 200:
		recipients = 2 + dice.IntN(20)
	case n < 260:
		size = 65<<10 + dice.IntN(400<<10)
	case n < 280:
		m.Cut = true
	}
	for i := range recipients {
		m.Recipients = append(m.Recipients, k.recipient(i))
	}
	from := dice.IntN(textSize/64-size/64) * 64
	body := l.text[from : from+size/64*64]
	m.Content = fmt.Appendf(nil, "Message-ID: %s\r\nFrom: <%s>\r\nSubject: %d recipients\r\n\r\n%s", k.messageID(), m.Sender, recipients, body)
	if dice.IntN(100) < 2 { // the daemon refuses such content
		m.Content = append(m.Content, "a NUL \x00\r\n"...)
	}
	return m, crc32.Checksum(body, crc32.MakeTable(crc32.Castagnoli))
}
