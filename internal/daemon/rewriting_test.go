package daemon

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/posthaste-mta/posthaste/internal/feed"
	"github.com/posthaste-mta/posthaste/internal/sink"
)

// Mail of a program goes to an alias. It arrives at the addresses that the map names, with a corrected header, under
// its author's external address, and with a signature over the result. A reload with a damaged map reports what is
// wrong, and the old maps stay in force; the next reload replaces them. A route for a sender goes by the external address.
func TestRewritingOnTheWay(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	box, other := receive(t, sink.Config{}), receive(t, sink.Config{})
	file := filepath.Join(dir, "aliases")
	write := func(text string) {
		t.Helper()
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	write("team@inside.test ann@x.test\n")
	text := "default_transport = \"smtp:[" + strings.Replace(box.address, ":", "]:", 1) + "\"\nsmtp_permit_private_hosts = true\nmasquerade_domains = \"origin.test\"\nvirtual_alias_maps = \"" + file + "\"\n" +
		"[[listener]]\naddress = \"127.0.0.1:0\"\npurpose = \"submission\"\ntls = \"none\"\n" +
		"[sender_routes]\n\"other@origin.test\" = \"smtp:[" + strings.Replace(other.address, ":", "]:", 1) + "\"\n\"<>\" = \"error:5.7.1 no\"\n"
	zone := records{}
	text += zone.newKeys(t, dir, [3]string{"one", "ed25519", ""})
	r := start(t, dir, text)
	submit := func(m feed.Message) {
		t.Helper()
		c, err := feed.Dial(t.Context(), "tcp", r.d.addresses()[1])
		if err != nil {
			t.Fatal(err)
		}
		if got := c.Send(m); got.Fate != feed.Accepted {
			t.Fatalf("%+v", got)
		}
		if err := c.Close(); err != nil {
			t.Error(err)
		}
	}
	m := letter("one", "team@inside.test")
	m.Sender = "joe@host.origin.test"
	m.Content = []byte("From: Joe <joe@host.origin.test>\r\nMessage-ID: one\r\nBcc: secret@x.test\r\n\r\nHello.\r\n")
	submit(m)
	r.settled()
	write("team@inside.test\n")
	if _, err := r.d.reload(configure(t, dir, text)); err == nil || !strings.Contains(err.Error(), "virtual_alias_maps: "+file+":1: ") {
		t.Errorf("a damaged map: %v", err)
	}
	submit(letter("two", "team@inside.test"))
	write("team@inside.test bob@x.test\n")
	if _, err := r.d.reload(configure(t, dir, text)); err != nil {
		t.Fatal(err)
	}
	submit(letter("three", "team@inside.test"))
	m = letter("four", "team@inside.test")
	m.Sender = "other@host.origin.test"
	submit(m)
	r.settled()
	box.copies().matches(t, copies{"one ann@x.test": 1, "two ann@x.test": 1, "three bob@x.test": 1})
	other.copies().matches(t, copies{"four bob@x.test": 1})
	first := box.deliveries()[0]
	content := string(first.Content)
	if signed := zone.selectors(t, first.Content); len(signed) != 1 {
		t.Errorf("signatures by %q", signed)
	}
	if first.Sender != "joe@origin.test" || !strings.Contains(content, "\r\nFrom: Joe <joe@origin.test>\r\n") || strings.Contains(content, "Bcc") || !strings.Contains(content, "\r\nDate: ") {
		t.Errorf("from %s:\n%s", first.Sender, content)
	}
}
