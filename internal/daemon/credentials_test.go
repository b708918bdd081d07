package daemon

import (
	"cmp"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/posthaste-mta/posthaste/internal/sink"
	"github.com/posthaste-mta/posthaste/internal/users"
	"github.com/posthaste-mta/posthaste/mail"
)

// Each sender has a login of its own at the relay, which accepts only the addresses of a login. So a message over
// the connection of another sender would be refused. After a reload of the file, the mail of one sender uses
// another login, although nothing else has changed.
func TestCredentialsBySender(t *testing.T) {
	t.Parallel()
	box := receive(t, sink.Config{})
	accounts := filepath.Join(t.TempDir(), "users")
	for _, name := range []string{"mia", "ben", "zoe", "rest"} {
		if err := users.AddUser(accounts, name, "sesame of "+name, users.KindScram, -1); err != nil {
			t.Fatal(err)
		}
	}
	relay := start(t, t.TempDir(), `mynetworks = []
users = "`+accounts+`"
smtpd_sender_login_maps = ["mia@shop.test mia", "ben.test ben zoe", "other.test rest"]
[[listener]]
address = "127.0.0.1:0"
name = "submission"
purpose = "submission"
tls = "none"
`+routes("d.test", box.address))
	address := relay.d.addresses()[1] // the first is that of listen
	_, port, err := net.SplitHostPort(address)
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	file := filepath.Join(dir, "credentials.toml")
	credentials := func(names ...string) { // and the users that they are of
		text := ""
		for i, senders := range []string{`["mia@shop.test"]`, `["@ben.test"]`, "[]"} {
			name, user, _ := strings.Cut(names[i], "=")
			user = cmp.Or(user, name)
			text += fmt.Sprintf("[%s]\nfor = [\"[127.0.0.1]:%s\"]\nsenders = %s\nuser = %q\npassword = %q\ntls = \"optional\"\n", name, port, senders, user, "sesame of "+user)
		}
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	credentials("mia", "ben", "rest")
	text := "smtp_loop_check = false\ncredentials = \"" + file + "\"\n" + routes("d.test", address)
	r := start(t, dir, text)
	want := make(copies)
	send := func(part string) {
		for i := range 40 {
			from := []mail.Address{"mia@shop.test", "ben@ben.test", "Zoe+x@BEN.test", "a@other.test"}[i%4]
			m := letter(fmt.Sprintf("<%s.%d>", part, i), "u@d.test")
			m.Sender = from
			r.feed(m)
			want.add(fmt.Sprintf("<%s.%d>", part, i), "u@d.test")
		}
		r.settled()
		relay.settled()
		box.copies().matches(t, want)
	}
	users := func() map[string]int {
		count := make(map[string]int)
		for _, line := range regexp.MustCompile(`msg=accepted .* from=(\S+) .*user=(\S+)`).FindAllStringSubmatch(relay.log.tail(1<<20), -1) {
			count[line[1]+" by "+line[2]]++
		}
		return count
	}
	send("first")
	reload := func() {
		if restart, err := r.d.reload(configure(t, dir, text)); err != nil || len(restart) > 0 {
			t.Fatal(restart, err)
		}
	}
	credentials("mia", "zoe", "rest")
	reload()
	send("second")
	credentials("zoe=mia", "mia=zoe", "rest") // connections of both names are still open, logged in as the other one
	reload()
	send("third")
	credentials("zoe=mia", "mia=ben", "rest") // the names are for the same mail as before, one of them logged in as another user
	reload()
	send("fourth")
	for who, n := range map[string]int{"mia@shop.test by mia": 40, "ben@ben.test by ben": 20, "ben@ben.test by zoe": 20, "Zoe+x@BEN.test by ben": 20, "Zoe+x@BEN.test by zoe": 20, "a@other.test by rest": 40} {
		if got := users()[who]; got != n {
			t.Errorf("%d messages of %s, want %d: %v", got, who, n, users())
		}
	}
	if got := relay.log.count("refused"); got > 0 {
		t.Errorf("the relay has refused %d", got)
	}
}
