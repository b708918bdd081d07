package migrate

import (
	"fmt"
	"slices"
	"strings"

	"github.com/posthaste-mta/posthaste/config/maincf"
)

// standardServices are the services of a Postfix whose master.cf is not there: what counts of
// them here.
func standardServices() []maincf.Service {
	return []maincf.Service{
		{Name: "smtp", Type: "inet", Limit: "-", Command: "smtpd"},
		{Name: "smtp", Type: "unix", Limit: "-", Command: "smtp"},
		{Name: "relay", Type: "unix", Limit: "-", Command: "smtp"},
		{Name: "lmtp", Type: "unix", Limit: "-", Command: "lmtp"},
	}
}

// internals are the services that are Postfix's own business, by their commands.
var internals = []string{"pickup", "cleanup", "qmgr", "oqmgr", "nqmgr", "tlsmgr", "trivial-rewrite", "bounce", "verify", "flush", "proxymap", "showq", "error", "discard", "anvil", "scache",
	"postlogd", "tlsproxy", "dnsblog", "local", "virtual"}

// services takes the services of master.cf, and says of those that are nothing here why.
func (t *translation) services() {
	if t.master = t.in.Services; t.master == nil {
		t.master = standardServices()
		t.remark(Todo, "There was no master.cf; the usual services are assumed, which are an SMTP server on port 25 and the transports smtp, relay and lmtp. Name the file with --master if others are in use.")
		return
	}
	for i := range t.master {
		s := &t.master[i]
		switch {
		case s.Command == "oqmgr":
			t.doc.top.set("default_scheduler", "round-robin", serviceLine(s)).comment = "Postfix's old queue manager lets destinations take turns."
		case s.Command == "spawn":
			t.remark(Lost, "Programs that wait for connections, such as policy servers, are not started by this program; most of these have nothing to do without check_policy_service, which does not exist here.", serviceLine(s))
		case s.Command == "qmqpd":
			t.remark(Lost, "There is no QMQP; have the clients use SMTP.", serviceLine(s))
		case s.Command == "cleanup" || s.Command == "smtpd" || s.Command == "postscreen" || isClient(s) || s.Command == "pipe":
		case slices.Contains(internals, s.Command) && len(s.Options) == 0:
			t.notNeeded("There are no processes for the parts of the program", serviceLine(s))
		case slices.Contains(internals, s.Command):
			if names := overridden(s); len(names) > 0 {
				t.remark(Lost, fmt.Sprintf("There are no processes for the parts of the program, so these options of one of them have no place: %s.", strings.Join(names, ", ")), serviceLine(s))
			} else {
				t.notNeeded("There are no processes for the parts of the program", serviceLine(s))
			}
		default:
			t.remark(Lost, fmt.Sprintf("The program %s is not known here; it is not started.", s.Command), serviceLine(s))
		}
	}
}

// overridden returns the options of a service that are more than words for the log.
func overridden(s *maincf.Service) []string {
	var names []string
	for _, o := range s.Options {
		if o.Name != "syslog_name" && !slices.Contains(names, o.Name) {
			names = append(names, o.Name)
		}
	}
	return names
}

// isClient reports whether a service is a transport that sends mail to other servers.
func isClient(s *maincf.Service) bool {
	return s.Type != "inet" && (s.Command == "smtp" || s.Command == "lmtp")
}

// serviceLine returns the first line of a service for comments and remarks.
func serviceLine(s *maincf.Service) string {
	if s.Line == 0 {
		return ""
	}
	text := fmt.Sprintf("%s:%d: %s %s … %s", s.File, s.Line, s.Name, s.Type, s.Command)
	if len(s.Args) > 0 && s.Command != "pipe" {
		text += " " + strings.Join(s.Args, " ")
	}
	return cut(text)
}

// optionLine returns the line of an option of a service.
func optionLine(s *maincf.Service, o maincf.Entry) string {
	text := lineOf(o)
	where := fmt.Sprintf("%s:%d: ", o.File, o.Line)
	return where + s.Name + " … -o " + strings.TrimPrefix(text, where)
}

// service returns the service of a name that sends or delivers mail, or nil.
func (t *translation) service(name string) *maincf.Service {
	for i := range t.master {
		if s := &t.master[i]; s.Name == name && s.Type != "inet" {
			return s
		}
	}
	return nil
}
