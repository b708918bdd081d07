package daemon

import (
	"bufio"
	"fmt"
	"net"
	"net/textproto"
	"strings"
	"testing"
)

// The whole way of an announced size: a message for which the disk has no room beside
// queue_minfree is refused at MAIL, for now.
func TestAnnouncedSizeAgainstTheDisk(t *testing.T) {
	r := start(t, t.TempDir(), "message_size_limit = 0\n")
	conn, err := net.Dial("tcp", r.address())
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	in := textproto.NewReader(bufio.NewReader(conn))
	say := func(line string, want int) {
		t.Helper()
		if line != "" {
			fmt.Fprint(conn, line+"\r\n")
		}
		code, text, err := in.ReadResponse(want)
		if err != nil {
			t.Fatalf("%s: %d %s, %v", line, code, text, err)
		}
		if want == 452 && !strings.HasPrefix(text, "4.3.1 ") {
			t.Errorf("%s: %s", line, text)
		}
	}
	say("", 220)
	say("EHLO c.test", 250)
	say("MAIL FROM:<a@a.test> SIZE=1000000000000000000", 452)
	say("MAIL FROM:<a@a.test> SIZE=1000", 250)
	if r.log.count("no room for messages") != 1 {
		t.Error("the log says nothing")
	}
}
