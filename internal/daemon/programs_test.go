package daemon

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/posthaste-mta/posthaste/internal/sink"
	"github.com/posthaste-mta/posthaste/mail"
)

// Mail goes to a program, once for each recipient: one gets it, one has to wait until there is
// room, and one does not exist, so its sender gets a report. The program is not started again for
// a recipient that has the message.
func TestPrograms(t *testing.T) {
	t.Parallel()
	origin := receive(t, sink.Config{})
	dir := t.TempDir()
	user := ""
	if os.Geteuid() == 0 {
		user = "command_user = \"nobody:nogroup\"\n"
		if err := os.Chmod(dir, 0o777); err != nil {
			t.Fatal(err)
		}
		if err := os.Chmod(filepath.Dir(dir), 0o777); err != nil {
			t.Fatal(err)
		}
	}
	// The shell is here for brevity: the daemon starts none.
	script := `cd ` + dir + `; echo $$1 >>started
case $$1 in
	gone) echo nobody of that name; exit 67;;
	full) test -e room || exit 75;;
esac
cat >>$$1`
	r := start(t, t.TempDir(), routes("d.test", "program:", "origin.test", origin.address)+fmt.Sprintf(`
[transport.program]
type = "pipe"
command = ["/bin/sh", "-c", %q, "sh", "${user}"]
command_flags = "DR"
destination_recipient_limit = 1
%s`, script, user))
	r.feed(letter("<1>", "a@d.test", "full@d.test", "gone@d.test"))
	r.until("one deferred", func() bool {
		started, _ := os.ReadFile(filepath.Join(dir, "started"))
		return strings.Count(string(started), "\n") == 3
	})
	r.waiting("the one without room", census{mail.AreaDeferred: 1})
	if n := len(origin.deliveries()); n != 1 || r.log.count("reply=\"554 5.1.1 user unknown: nobody of that name\"") != 1 {
		t.Errorf("the sender got %d reports", n)
	}
	if err := os.WriteFile(filepath.Join(dir, "room"), nil, 0o644); err != nil {
		t.Fatal(err)
	}
	r.d.driver.RetryAll()
	r.settled()
	for _, name := range []string{"a", "full"} {
		got, err := os.ReadFile(filepath.Join(dir, name))
		want := "Return-Path: <sender@origin.test>\nDelivered-To: " + name + "@d.test\nReceived: "
		if err != nil || !strings.HasPrefix(string(got), want) || strings.Count(string(got), "Message-ID: <1>\n") != 1 || strings.Contains(string(got), "\r") {
			t.Errorf("%s got %q, %v", name, got, err)
		}
	}
}
