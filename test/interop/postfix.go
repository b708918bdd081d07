package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
)

// startPostfix starts Postfix with all its files in a directory of its own. It
// takes mail for the domains of the tests, for users whose names begin with
// "user" or "sender", and passes it on: to the daemon if it is for directDomain,
// else to our receiver.
func startPostfix(ctx context.Context, dir string) (*process, error) {
	home := filepath.Join(dir, "postfix")
	etc := filepath.Join(home, "etc")
	var errs []error
	for _, sub := range []string{"etc", "queue", "data"} {
		errs = append(errs, os.MkdirAll(filepath.Join(home, sub), 0o755))
	}
	master, err := os.ReadFile("/usr/share/postfix/master.cf.dist")
	errs = append(errs, err)
	for name, text := range map[string]string{
		"main.cf": postfixMain(home), "master.cf": postfixMaster(string(master)), "recipients": "/^(user|sender)/ OK\n",
	} {
		errs = append(errs, os.WriteFile(filepath.Join(etc, name), []byte(text), 0o644))
	}
	if err := errors.Join(errs...); err != nil {
		return nil, err
	}
	if _, err := command(ctx, "", "chown", "postfix", filepath.Join(home, "data")); err != nil {
		return nil, err
	}
	p, err := startProcess(dir, "postfix", "/usr/sbin/postfix", "-c", etc, "start-fg")
	if err != nil {
		return nil, err
	}
	return p, errors.Join(p.listens(ctx, postfixAddr), p.listens(ctx, strictAddr), p.listens(ctx, postfixRefuseAddr))
}

func postfixMain(home string) string {
	domains := strings.Join([]string{postfixDomain, strictDomain, postfixSenders, directDomain, refusalDomain, narrowDomain, verpDomain, bounceDomain}, " ")
	return fmt.Sprintf(`
compatibility_level = 3.6
myhostname = postfix.interop.test
mydestination =
inet_interfaces = 127.0.0.1
inet_protocols = ipv4
queue_directory = %[1]s/queue
data_directory = %[1]s/data
command_directory = /usr/sbin
daemon_directory = /usr/lib/postfix/sbin
shlib_directory = /usr/lib/postfix
meta_directory = /etc/postfix
maillog_file = %[1]s/log
maillog_file_prefixes = %[1]s
alias_maps =
alias_database =
relay_domains = %[2]s
relay_recipient_maps = regexp:%[1]s/etc/recipients
smtpd_relay_restrictions = reject_unauth_destination
smtpd_authorized_verp_clients = 127.0.0.1
transport_maps = inline:{ { %[3]s = smtp:%[4]s } { %[6]s = smtp:%[4]s } { %[7]s = smtp:%[8]s } }
relay_transport = smtp:%[5]s
smtpd_client_connection_count_limit = 0
in_flow_delay = 0
minimal_backoff_time = 1s
queue_run_delay = 1s
`, home, domains, directDomain, bracketed(posthasteAddr), bracketed(receiverAddr), verpDomain, bounceDomain, bracketed(smtpSinkAddr))
}

// postfixMaster makes the distributed master.cf listen on three ports, one of them
// with small limits and one that refuses what the policy server does not like, and
// leaves out all chroots.
func postfixMaster(text string) string {
	var b strings.Builder
	for line := range strings.Lines(text) {
		fields := strings.Fields(line)
		switch {
		case len(fields) < 8 || strings.HasPrefix(line, "#") || strings.HasPrefix(line, " "):
		case fields[0] == "smtp" && fields[1] == "inet":
			fmt.Fprintf(&b, "%s inet n - n - - smtpd\n", postfixAddr)
			fmt.Fprintf(&b, "%s inet n - n - - smtpd\n -o smtpd_delay_reject=no\n", postfixRefuseAddr)
			for _, stage := range []string{"sender", "recipient", "data", "end_of_data"} {
				fmt.Fprintf(&b, " -o smtpd_%s_restrictions=check_policy_service,inet:%s\n", stage, policyAddr)
			}
			for _, n := range narrows() {
				if n.lacks != nil && n.address != eximNarrowAddr {
					fmt.Fprintf(&b, "%s inet n - n - - smtpd\n -o smtpd_discard_ehlo_keywords=%s\n", n.address, strings.Join(n.lacks, ","))
				}
			}
			fmt.Fprintf(&b, "%s inet n - n - - smtpd\n", strictAddr)
			b.WriteString(" -o smtpd_recipient_limit=20 -o smtpd_client_connection_count_limit=3 -o smtpd_client_event_limit_exceptions=\n")
		default:
			fields[4] = "n"
			b.WriteString(strings.Join(fields, " ") + "\n")
		}
	}
	return b.String()
}
