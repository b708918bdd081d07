package daemon

import (
	"bytes"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"testing"

	"github.com/posthaste-mta/posthaste/dsn"
	"github.com/posthaste-mta/posthaste/internal/sink"
	"github.com/posthaste-mta/posthaste/mail"
)

// contents are where a content may be: it depends on its size.
var contents = []struct {
	name string
	size int // of a body
	dir  string
}{
	{"content file", 100_000, "body"},
	{"content in the store", 30_000, "db"},
}

// damagedAtRest defers messages, of these numbers and with bodies of this size, and then
// damages the content of number 7 below a directory, while no daemon runs. It returns the
// queue directory and the sums of the bodies.
func damagedAtRest(t *testing.T, from, until, size int, where string) (dir string, sums map[string]uint32) {
	t.Helper()
	dir, sums = t.TempDir(), make(map[string]uint32)
	r := start(t, dir, routes("d.test", closed(t)))
	for i := from; i < until; i++ {
		m := letter(key(i), "a@d.test")
		body := fmt.Sprintf("marker %d marker\r\n%s", i, bodyOf(size))
		m.Content = text(key(i), body)
		sums[key(i)] = sum(body)
		r.feed(m)
	}
	r.waiting("all deferred", census{mail.AreaDeferred: uint64(until - from)})
	r.end()
	// What is in the log of the store is moved to its tables by the next start.
	start(t, dir, routes("d.test", closed(t))).end()
	flip(t, filepath.Join(dir, where), []byte("marker 7 marker"))
	return dir, sums
}

// A disk that returns other bytes than were written spoils what was in them
// and nothing else: the messages concerned are kept for an operator to look at,
// an error is logged, and all others arrive whole.
func TestDamageOnDisk(t *testing.T) {
	t.Parallel()
	for _, test := range contents {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			const n = 20
			dir, sums := damagedAtRest(t, 0, n, test.size, test.dir)
			box := receive(t, sink.Config{})
			r := start(t, dir, routes("d.test", box.address))
			r.d.driver.RetryAll()
			r.until("only damaged messages left", func() bool {
				got := r.census()
				return got[mail.AreaDeferred]+got[mail.AreaIncoming] == 0
			})
			damaged := r.census()[mail.AreaCorrupt]
			delivered := box.deliveries()
			if damaged < 1 || damaged > 5 || len(delivered)+int(damaged) != n {
				t.Errorf("of %d messages %d arrived and %d are damaged", n, len(delivered), damaged)
			}
			for _, d := range delivered {
				if d.Key == key(7) || d.BodySum != sums[d.Key] {
					t.Errorf("message %s arrived, damaged", d.Key)
				}
			}
			r.until("an error in the log", func() bool { return r.log.count("level=ERROR") > 0 })
		})
	}
}

// Content that changes on disk between its check and its sending does not come to its
// end: no server accepts it, the message is put aside, and what else waits for the same
// receiver is delivered.
func TestDamageWhileSending(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	box := infest(t, "DATA", "hold", 0)
	r := start(t, dir, routes("d.test", box.Address())+"[transport.smtp]\ndestination_concurrency_limit = 1\n")
	m := letter(key(1), "a@d.test")
	m.Content = text(key(1), "marker 1 marker\r\n"+bodyOf(300_000))
	r.feed(m)
	<-box.Held // the content was checked before MAIL
	r.feed(letter(key(2), "a@d.test"), letter(key(3), "a@d.test"))
	flip(t, filepath.Join(dir, "body"), []byte("marker 1 marker"))
	close(box.Release)
	r.waiting("the damaged message put aside", census{mail.AreaCorrupt: 1})
	for i, want := range []bool{1: false, 2: true, 3: true} {
		if taken := box.Times(key(i)) > 0; taken != want {
			t.Errorf("message %d was taken: %v", i, taken)
		}
	}
	if n := r.log.count("status=bounced") + r.log.count("status=deferred", "to=a@d.test"); n > 1 {
		t.Errorf("%d recipients were deferred or bounced", n)
	}
}

// flip changes a byte of each place below a directory that holds a text.
func flip(t *testing.T, dir string, text []byte) {
	t.Helper()
	flipped := 0
	err := filepath.WalkDir(dir, func(path string, e fs.DirEntry, err error) error {
		if err != nil || e.IsDir() {
			return err
		}
		octets, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		for from := 0; ; {
			i := bytes.Index(octets[from:], text)
			if i < 0 {
				break
			}
			octets[from+i] ^= 1
			from += i + len(text)
			flipped++
		}
		return os.WriteFile(path, octets, 0o600)
	})
	if err != nil {
		t.Fatal(err)
	}
	if flipped == 0 {
		t.Fatalf("%q is nowhere below %s", text, dir)
	}
}

// A failure is reported although the message cannot be read any more, and the
// report says so.
func TestDamagedMessageIsReported(t *testing.T) {
	t.Parallel()
	for _, test := range contents {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			origin := receive(t, sink.Config{})
			dir, _ := damagedAtRest(t, 7, 8, test.size, test.dir)
			r := start(t, dir, routes("d.test", "error:5.1.6 has moved", "origin.test", origin.address))
			r.d.driver.RetryAll()
			r.settled()
			d, rep, original := reportTo(t, origin)
			if rep.Kind() != mail.ReportFailed || len(rep.Recipients) != 1 || original.Part != dsn.PartNone {
				t.Errorf("the report says %+v, and returns %d", rep, original.Part)
			}
			if said := bytes.ReplaceAll(d.Content, []byte("\r\n"), []byte(" ")); !bytes.Contains(said, []byte("cannot be read any more")) {
				t.Errorf("the report does not say that the message is lost:\n%s", d.Content)
			}
		})
	}
}
