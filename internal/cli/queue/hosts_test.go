package queue

import (
	"bufio"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/posthaste-mta/posthaste/admin"
)

// On a narrow terminal a failure is on several lines, and its end, where the advice is, is not cut off.
func TestHostsWrapFailures(t *testing.T) {
	const reply = "451 4.7.5 relay.example.net[192.0.2.1]: TLS handshake failed: the server speaks plaintext (\"220 m\"); tls_wrappermode needs a port at which the server expects TLS first, such as 465"
	now := time.Now()
	failure := &admin.Failure{At: now.Add(-time.Minute), Reply: reply}
	d := admin.DestinationDetail{Destination: admin.Destination{Name: "smtp:[relay.example.net]:587", State: "dead", Reason: reply, Failure: failure},
		HostList: []admin.HostStatus{{Name: "relay.example.net", Address: "192.0.2.1:587", Failure: failure}}}
	for _, width := range []int{0, 60, 80, 200} {
		var b strings.Builder
		v := hostsView{out: bufio.NewWriter(&b), width: width, now: now}
		v.show(&d)
		v.out.Flush()
		text := strings.Join(strings.Fields(b.String()), " ")
		if n := strings.Count(text, reply); n != 3 {
			t.Errorf("width %d: the reply is there %d times:\n%s", width, n, b.String())
		}
		for line := range strings.Lines(b.String()) {
			if n := utf8.RuneCountInString(strings.TrimSuffix(line, "\n")); width > 0 && n > width {
				t.Errorf("width %d: %d columns in %q", width, n, line)
			}
		}
	}
}
