package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"

	"github.com/posthaste-mta/posthaste/internal/feed"
)

// writeLetter writes a letter's content to a file, with the line ends that the
// client wants and something behind it, and returns its name.
func writeLetter(dir string, l letter, lineEnd, tail string) (string, error) {
	name := filepath.Join(dir, strings.Trim(l.key, "<>")+".eml")
	return name, os.WriteFile(name, []byte(strings.ReplaceAll(l.content(), "\r\n", lineEnd)+tail), 0o600)
}

// bySwaks sends letters with swaks, by each way that it knows to speak. It wants
// a line with a lone dot at the end of its data, or makes one line too many.
func bySwaks(ctx context.Context, t *trial, sent []letter) error {
	ways := [][]string{{}, {"--pipeline"}, {"--protocol", "SMTP"}, {"--protocol", "ESMTP", "--pipeline"}}
	for i, l := range sent {
		file, err := writeLetter(t.dir, l, "\n", ".\n")
		if err != nil {
			return err
		}
		args := append([]string{"swaks", "--silent", "2", "--server", posthasteAddr, "--helo", "swaks.test",
			"--from", string(l.sender), "--to", strings.Join(l.addresses(), ","), "--data", "@" + file}, ways[i%len(ways)]...)
		if _, err := command(ctx, "", args...); err != nil {
			return err
		}
	}
	return nil
}

// byCurl sends letters with curl.
func byCurl(ctx context.Context, t *trial, sent []letter) error {
	for _, l := range sent {
		file, err := writeLetter(t.dir, l, "\r\n", "")
		if err != nil {
			return err
		}
		args := []string{"curl", "--silent", "--show-error", "--url", "smtp://" + posthasteAddr + "/curl.test", "--mail-from", string(l.sender), "--upload-file", file}
		for _, to := range l.addresses() {
			args = append(args, "--mail-rcpt", to)
		}
		if _, err := command(ctx, "", args...); err != nil {
			return err
		}
	}
	return nil
}

// byPython sends letters with smtplib, over several connections.
func byPython(ctx context.Context, t *trial, sent []letter) error {
	type item struct {
		Sender     string   `json:"sender"`
		Recipients []string `json:"recipients"`
		Content    string   `json:"content"`
	}
	var list []item
	for _, l := range sent {
		list = append(list, item{string(l.sender), l.addresses(), l.content()})
	}
	text, err := json.Marshal(list)
	if err != nil {
		return err
	}
	_, err = command(ctx, string(text), "python3", filepath.Join(t.scripts, "smtplib_send.py"), posthasteAddr)
	return err
}

// bySendmail sends letters with our sendmail command, recipients now on the
// command line, now in the header.
func bySendmail(ctx context.Context, t *trial, sent []letter) error {
	link := filepath.Join(t.dir, "command", "sendmail")
	if err := errors.Join(os.Mkdir(filepath.Dir(link), 0o755), os.Symlink(t.binary, link)); err != nil {
		return err
	}
	for i, l := range sent {
		text := strings.ReplaceAll(l.content(), "\r\n", "\n")
		args := []string{"env", "POSTHASTE_QUEUE_DIRECTORY=" + posthasteQueue(t.dir), link, "-i", "-f", string(l.sender)}
		if i%2 == 0 {
			args = append(append(args, "--"), l.addresses()...)
		} else {
			args = append(args, "-t")
			text = "Bcc: " + strings.Join(l.addresses(), ",\n ") + "\n" + text
		}
		if _, err := command(ctx, text, args...); err != nil {
			return err
		}
	}
	return nil
}

// byFeed hands letters to a server over some connections. What is refused for
// now, for instance because there were too many messages on a connection, is
// submitted again.
func byFeed(ctx context.Context, address string, sent []letter) error {
	work := make(chan int)
	errs := make([]error, 10)
	var clients sync.WaitGroup
	for i := range errs {
		clients.Go(func() { errs[i] = feedLetters(ctx, address, sent, work) })
	}
	for i := range sent {
		work <- i
	}
	close(work)
	clients.Wait()
	return errors.Join(errs...)
}

// feedLetters submits the letters whose indexes come. It takes all of them,
// also after an error.
func feedLetters(ctx context.Context, address string, sent []letter, work <-chan int) (failed error) {
	var c *feed.Client
	for i := range work {
		if failed != nil {
			continue
		}
		c, failed = feedLetter(ctx, address, c, sent[i].message(i))
	}
	if c != nil && failed == nil {
		failed = c.Close()
	}
	return failed
}

// feedTries is how often a letter is submitted at most.
const feedTries = 5

func feedLetter(ctx context.Context, address string, c *feed.Client, m feed.Message) (*feed.Client, error) {
	for range feedTries {
		if c == nil {
			var err error
			if c, err = feed.Dial(ctx, "tcp", address); err != nil {
				return nil, err
			}
		}
		r := c.Send(m)
		switch {
		case r.Fate == feed.Accepted && len(r.Accepted) == len(m.Recipients):
			return c, nil
		case r.Err != nil:
			c = nil
		}
		if r.Fate == feed.Accepted || r.Fate == feed.Unknown || r.Fate == feed.Refused && !r.Reply.Temporary() {
			return c, fmt.Errorf("submit %s: %s %s, %d of %d recipients: %w", m.EnvID, r.Fate, r.Reply, len(r.Accepted), len(m.Recipients), r.Err)
		}
	}
	return c, fmt.Errorf("submit %s: not within %d tries", m.EnvID, feedTries)
}
