package main

import (
	"bytes"
	"context"
	"crypto/ed25519"
	"crypto/rsa"
	"crypto/x509"
	"encoding/pem"
	"fmt"
	"log/slog"
	"net"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"time"

	"github.com/posthaste-mta/posthaste/config"
	"github.com/posthaste-mta/posthaste/dkim"
	"github.com/posthaste-mta/posthaste/dkim/keyring"
	"github.com/posthaste-mta/posthaste/internal/daemon"
	"github.com/posthaste-mta/posthaste/internal/feed"
	"github.com/posthaste-mta/posthaste/internal/sink"
	"github.com/posthaste-mta/posthaste/mail"
)

func main() {
	if len(os.Args) != 2 {
		fmt.Fprintln(os.Stderr, "usage: dkim DIRECTORY")
		os.Exit(64)
	}
	if err := run(os.Args[1]); err != nil {
		fmt.Fprintln(os.Stderr, "dkim:", err)
		os.Exit(1)
	}
}

// header is what most messages have; From may be signed by the keys.
const header = "From: Somebody <sender@origin.test>\r\nTo: a@good.test\r\nSubject: test\r\nDate: Mon, 23 Nov 2026 10:00:00 +0000\r\nMessage-ID: <1@origin.test>\r\n"

// letters are the contents, by the names of their files.
func letters() map[string]string {
	line := "The quick brown fox jumps over the lazy dog, and then it has a rest.\r\n"
	return map[string]string{
		"tiny":                 header + "\r\nx\r\n",
		"empty-body":           header + "\r\n",
		"trailing-empty-lines": header + "\r\nx\r\n" + strings.Repeat("\r\n", 1000),
		"only-empty-lines":     header + "\r\n" + strings.Repeat("\r\n", 1000),
		"white-space":          header + "\r\n  x \t y\t\r\n \r\n\tz\r\n \r\n",
		"dots":                 header + "\r\n.\r\n..\r\n.x\r\n",
		"folded-fields":        "From: A\r\n\t<sender@origin.test>\r\nSubject: a\r\n \t b\r\n  c\r\n\r\nx\r\n",
		"long-field":           "To: " + strings.Repeat("somebody@good.test,\r\n\t", 1000) + "a@good.test\r\nFrom: sender@origin.test\r\n\r\nx\r\n",
		"8-bit":                header + "\r\nGr\xc3\xbc\xc3\x9fe \xff\r\n",
		"8-bit-header":         header + "X: \xff\r\nReply-To: \"Gr\xfc\xdfe\" <x@origin.test>\r\n\r\nx\r\n",
		"no-line-end":          header + "\r\nx",
		"header-alone":         header,
		"repeated-fields":      "To: x@good.test\r\nCc: b@good.test\r\nCc: c@good.test\r\n" + header + "\r\nx\r\n",
		"empty-subject":        "Subject:\r\nFrom: sender@origin.test\r\n\r\nx\r\n",
		"list-fields":          header + "List-Unsubscribe: <https://origin.test/u>\r\nList-Unsubscribe-Post: List-Unsubscribe=One-Click\r\nFeedback-ID: 1:2:3:x\r\n\r\nx\r\n",
		"mime":                 header + "MIME-Version: 1.0\r\nContent-Type: multipart/mixed; boundary=b\r\n\r\n--b\r\nContent-Type: text/plain\r\n\r\nx \r\n\r\n--b--\r\n\r\n",
		"memory":               header + "\r\n" + strings.Repeat(line, 900),
		"file":                 header + "\r\n" + strings.Repeat(line, 3000),
		"30-MB":                header + "\r\n" + strings.Repeat(line, 30<<20/len(line)),
	}
}

func run(dir string) error {
	queue := filepath.Join(dir, "queue")
	tables, err := makeKeys(queue, filepath.Join(dir, "zone"))
	if err != nil {
		return err
	}
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return err
	}
	box := &mailbox{dir: dir}
	receiver, err := sink.New(sink.Config{ContentKept: 64 << 20, Taken: box.take})
	if err != nil {
		return err
	}
	ctx, stop := context.WithCancel(context.Background())
	defer stop()
	go receiver.Serve(ctx, ln) // it ends with the process
	target := "smtp:[127.0.0.1]:" + fmt.Sprint(ln.Addr().(*net.TCPAddr).Port)
	text := fmt.Sprintf("queue_directory = %q\nlisten = [\"127.0.0.1:0\"]\nmessage_size_limit = \"64M\"\n[routes]\n\"good.test\" = %q\n\"origin.test\" = %[2]q\n\"gone.test\" = \"error:5.1.1 gone\"\n%s",
		queue, target, tables)
	cfg, err := config.Parse("dkim.toml", []byte(text), config.Environment{Hostname: "mta.origin.test"})
	if err != nil {
		return err
	}
	submitted, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return err
	}
	d, err := daemon.New(cfg, daemon.Options{Log: slog.New(slog.NewTextHandler(os.Stderr, &slog.HandlerOptions{Level: slog.LevelWarn})), Listeners: []net.Listener{submitted}})
	if err != nil {
		return err
	}
	running, end := context.WithCancel(ctx)
	ended := make(chan error, 1)
	go func() { ended <- d.Run(running) }()
	sent, err := send(submitted.Addr().String())
	if err == nil {
		err = box.await(sent)
	}
	end()
	if failure := <-ended; err == nil {
		err = failure
	}
	return err
}

// makeKeys makes an RSA and an Ed25519 key, and writes their records. It returns the tables
// of the configuration.
func makeKeys(queue, zone string) (tables string, err error) {
	if err := os.MkdirAll(filepath.Join(queue, "dkim"), 0o700); err != nil {
		return "", err
	}
	r, err := rsa.GenerateKey(nil, 2048)
	if err != nil {
		return "", err
	}
	_, e, err := ed25519.GenerateKey(nil)
	if err != nil {
		return "", err
	}
	var records strings.Builder
	for name, key := range map[string]any{"one-rsa": r, "two-ed25519": e} {
		private, err := dkim.NewPrivateKey(key)
		if err != nil {
			return "", err
		}
		der, err := x509.MarshalPKCS8PrivateKey(key)
		if err != nil {
			return "", err
		}
		if err := keyring.Write(filepath.Join(queue, "dkim", name), pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: der})); err != nil {
			return "", err
		}
		fmt.Fprintf(&records, "%s %s\n", dkim.RecordName(name, "origin.test"), dkim.Record(private))
		tables += fmt.Sprintf("[dkim.%s]\ndomain = [\"origin.test\", \"*.origin.test\"]\nselector = %[1]q\nkey = %[1]q\n", name)
	}
	return tables, os.WriteFile(zone, []byte(records.String()), 0o600)
}

// send submits all letters, each by DATA and by BDAT, and one that comes back as a report. It
// returns how many messages will arrive.
func send(address string) (n int, err error) {
	c, err := feed.Dial(context.Background(), "tcp", address)
	if err != nil {
		return 0, err
	}
	for name, content := range letters() {
		for way, chunked := range map[string]bool{"data": false, "bdat": true} {
			m := feed.Message{Sender: "sender@origin.test", Recipients: []mail.Address{"a@good.test"}, Content: []byte(content), Chunked: chunked, Parameters: " BODY=8BITMIME", EnvID: name + "-" + way}
			if got := c.Send(m); got.Fate != feed.Accepted {
				return 0, fmt.Errorf("%s: %+v", m.EnvID, got)
			}
			n++
		}
	}
	if got := c.Send(feed.Message{Sender: "sender@origin.test", Recipients: []mail.Address{"a@gone.test"}, Content: []byte(header + "\r\nx\r\n")}); got.Fate != feed.Accepted {
		return 0, fmt.Errorf("%+v", got)
	}
	return n + 1, c.Close()
}

// A mailbox writes what arrives to files.
type mailbox struct {
	dir string

	mu  sync.Mutex // guards the fields below
	n   int
	err error
}

func (b *mailbox) take(d sink.Delivery) {
	b.mu.Lock()
	defer b.mu.Unlock()
	name := d.EnvID
	if name == "" {
		name = "report"
	}
	b.n++
	if n := bytes.Count(d.Content, []byte("DKIM-Signature: v=1")); n < 2 {
		b.err = fmt.Errorf("%s has %d signatures", name, n)
	}
	if err := os.WriteFile(filepath.Join(b.dir, name+".eml"), d.Content, 0o600); err != nil {
		b.err = err
	}
}

// await waits until so many messages have arrived.
func (b *mailbox) await(n int) error {
	for end := time.Now().Add(2 * time.Minute); time.Now().Before(end); time.Sleep(10 * time.Millisecond) {
		b.mu.Lock()
		got, err := b.n, b.err
		b.mu.Unlock()
		if err != nil || got == n {
			return err
		}
	}
	return fmt.Errorf("fewer than %d messages have arrived in 2 minutes", n)
}
