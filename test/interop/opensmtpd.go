package main

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
)

// startOpenSMTPD starts OpenSMTPD, which asks this program at each stage whether to go
// on, and passes what it takes on to our receiver. Its queue is where it was built to
// be, in a directory of this namespace.
func startOpenSMTPD(ctx context.Context, dir string) (*process, error) {
	self, err := os.Executable()
	if err != nil {
		return nil, err
	}
	host, port, _ := strings.Cut(opensmtpdAddr, ":")
	// Its limits for relaying are for a network of strangers: with them it takes
	// minutes to pass on what it has accepted within seconds.
	text := fmt.Sprintf(`
mta limit session-mail-max 1000000 reconn-delay-route 0 conn-delay-relay 0 conn-delay-domain 0 conn-delay-host 0 conn-delay-source 0 conn-delay-connector 0 max-conn-per-host 50 max-conn-per-route 50 max-conn-per-connector 50 max-conn-per-relay 100 max-conn-per-source 100 task-hiwat 5000 task-lowat 3000 task-release 1000
filter random proc-exec "%s %s"
listen on %s port %s hostname opensmtpd.interop.test filter random
action out relay host "smtp://%s" helo opensmtpd.interop.test
match from any for any action out
`, self, filterCommand, host, port, receiverAddr)
	file := filepath.Join(dir, "smtpd.conf")
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		return nil, err
	}
	p, err := startProcess(dir, "opensmtpd", "/usr/sbin/smtpd", "-d", "-f", file)
	if err != nil {
		return nil, err
	}
	return p, p.listens(ctx, opensmtpdAddr)
}

// filterCommand makes this program OpenSMTPD's filter.
const filterCommand = "opensmtpd-filter"

// filter answers OpenSMTPD's questions (smtpd-filters(7)) until there are no more.
func filter(in io.Reader, out io.Writer) error {
	stages := map[string]string{"mail-from": stageMail, "rcpt-to": stageRcpt, "data": stageData, "commit": stageEnd}
	for lines := bufio.NewScanner(in); lines.Scan(); {
		if lines.Text() == "config|ready" {
			for phase := range stages {
				if _, err := fmt.Fprintf(out, "register|filter|smtp-in|%s\n", phase); err != nil {
					return err
				}
			}
			if _, err := fmt.Fprintln(out, "register|ready"); err != nil {
				return err
			}
			continue
		}
		// filter|VERSION|TIME|smtp-in|PHASE|SESSION|TOKEN|…
		fields := strings.Split(lines.Text(), "|")
		if fields[0] != "filter" || len(fields) < 7 {
			continue
		}
		verdict := "proceed"
		if reply, refuse := dice(stages[fields[4]]); refuse {
			verdict = "reject|" + reply
			if strings.HasPrefix(reply, "421") {
				verdict = "disconnect|" + reply
			}
		}
		if _, err := fmt.Fprintf(out, "filter-result|%s|%s|%s\n", fields[5], fields[6], verdict); err != nil {
			return err
		}
	}
	return nil
}
