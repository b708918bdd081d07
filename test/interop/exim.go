package main

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
)

// startExim starts Exim with all its files in a directory of its own, except
// that its configuration must be where Debian's Exim wants it, which is a link
// to here. It takes the same mail as Postfix does, at most 30 recipients in a
// transaction and 20 messages on a connection.
func startExim(ctx context.Context, dir string) (*process, error) {
	home := filepath.Join(dir, "exim")
	if err := os.MkdirAll(home, 0o755); err != nil {
		return nil, err
	}
	if _, err := command(ctx, "", "chown", "Debian-exim", home); err != nil {
		return nil, err
	}
	if err := os.WriteFile(filepath.Join(dir, "exim4.conf"), []byte(eximConfig(home)), 0o644); err != nil {
		return nil, err
	}
	p, err := startProcess(dir, "exim", "/usr/sbin/exim4", "-bdf", "-q1s")
	if err != nil {
		return nil, err
	}
	return p, p.listens(ctx, eximAddr)
}

// startNarrowExim starts a second Exim, which does not offer 8BITMIME: that cannot be
// chosen by port. It only takes mail into the queue of the first one.
func startNarrowExim(ctx context.Context, dir string) (*process, error) {
	home := filepath.Join(dir, "exim")
	file := filepath.Join(dir, "exim4-narrow.conf")
	text := "accept_8bitmime = false\nsmtputf8_advertise_hosts =\nqueue_only = true\n" + eximConfig(home)
	for _, change := range []struct{ old, new string }{
		{"daemon_smtp_ports = " + portOf(eximAddr) + " : " + portOf(eximRefuseAddr), "daemon_smtp_ports = " + portOf(eximNarrowAddr)},
		{home + "/pid", home + "/pid-narrow"},
	} {
		text = strings.Replace(text, change.old, change.new, 1)
	}
	if err := os.WriteFile(file, []byte(text), 0o644); err != nil {
		return nil, err
	}
	p, err := startProcess(dir, "exim-narrow", "/usr/sbin/exim4", "-C", file, "-bdf")
	if err != nil {
		return nil, err
	}
	return p, p.listens(ctx, eximNarrowAddr)
}

func portOf(address string) string { return address[strings.LastIndexByte(address, ':')+1:] }

func eximConfig(home string) string {
	return fmt.Sprintf(`
primary_hostname = exim.interop.test
exim_user = Debian-exim
exim_group = Debian-exim
never_users = root
spool_directory = %[1]s/spool
log_file_path = %[1]s/%%slog
pid_file_path = %[1]s/pid
local_interfaces = 127.0.0.1
daemon_smtp_ports = %[2]s : %[7]s
tls_advertise_hosts =
rfc1413_query_timeout = 0s
host_lookup =
recipients_max = 30
smtp_accept_max = 400
smtp_accept_max_per_connection = 20
smtp_accept_queue_per_connection = 0
split_spool_directory = true
queue_run_max = 3
dsn_advertise_hosts = *
domainlist ours = %[3]s
acl_smtp_mail = mail
acl_smtp_rcpt = rcpt
acl_smtp_predata = predata
acl_smtp_data = data

begin acl
mail:
%[8]s  accept
predata:
%[9]s  accept
data:
%[10]s  accept
rcpt:
%[11]s  deny message = no such user
       local_parts = !^user : !^sender
  accept domains = +ours
  deny message = relay not permitted

begin routers
daemon:
  driver = manualroute
  domains = %[4]s
  transport = to_daemon
  route_list = * 127.0.0.1
  self = send
out:
  driver = manualroute
  transport = to_receiver
  route_list = * 127.0.0.1
  self = send

begin transports
to_daemon:
  driver = smtp
  port = %[5]s
  hosts_try_chunking = *
to_receiver:
  driver = smtp
  port = %[6]s

begin retry
* * F,1h,1s
`, home, portOf(eximAddr), strings.Join([]string{eximDomain, eximSenders, directDomain, "*." + refusalDomain, "*." + narrowDomain}, " : "), directDomain, portOf(posthasteAddr), portOf(receiverAddr),
		portOf(eximRefuseAddr), eximDice(stageMail), eximDice(stageData), eximDice(stageEnd), eximDice(stageRcpt))
}

// dropsIn is how many commands there are for each after which Exim disconnects, with a
// refusal for good and commands unanswered. To a client that is a server which cannot
// follow, and will be spoken to more simply; so it is rare.
const dropsIn = 60 * oneIn

// eximDice are the lines of an ACL that refuse at random on the port for that: four
// of five refusals are for now, one is for good, and some for good before the server
// disconnects.
func eximDice(stage string) string {
	var b strings.Builder
	for _, kind := range []struct {
		verb string
		one  int
	}{{"defer", oneIn * 6 / 4}, {"deny", oneIn * 6}, {"drop", dropsIn}} {
		fmt.Fprintf(&b, "  %s condition = ${if and {{eq{$received_port}{%s}} {eq{${randint:%d}}{0}}}}\n", kind.verb,
			portOf(eximRefuseAddr), kind.one)
		fmt.Fprintf(&b, "       message = refused at %s\n", stage)
	}
	return b.String()
}
