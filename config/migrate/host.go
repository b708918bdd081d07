package migrate

import (
	"slices"
	"strings"

	"github.com/posthaste-mta/posthaste/config/maincf"
)

// queueDirectory is where the result has its queue. That of Postfix must not be shared.
const queueDirectory = "/var/spool/posthaste"

// host translates what is about this machine: its name, and where its queue is.
func (t *translation) host() {
	d := t.doc.top
	if s := t.get("myhostname"); s.set {
		d.set("myhostname", strings.TrimSuffix(s.text, "."), s.line())
	}
	s := t.get("queue_directory")
	d.set("queue_directory", queueDirectory, s.line()).comment = "The queue of Postfix stays where it is, and Postfix has to deliver what is in it."
	if s := t.get("authorized_submit_users"); s.set && s.text != "static:anyone" {
		t.todo(s, "Set submission_group to a group of these users: its members may run sendmail, and others may not.")
	} else {
		d.set("maildrop", "all", s.line()).comment = "All users of this machine may run sendmail, as with Postfix."
	}
}

// origin translates myorigin, which may name a file whose first line counts (Debian).
func (t *translation) origin(s setting) {
	origin := s.text
	if strings.HasPrefix(origin, "/") {
		_, text, ok := t.read(s, maincf.Table{Name: origin})
		if !ok {
			return
		}
		origin, _, _ = strings.Cut(strings.TrimSpace(text), "\n")
		origin = strings.TrimSpace(origin)
	}
	if name := t.get("myhostname"); origin == name.text {
		t.notNeeded("Addresses without a domain get that of myhostname", s.line())
		return
	}
	t.doc.top.set("myorigin", origin, s.line())
}

// mynetworks translates the clients that may send anywhere. Here they always may, so there are none if no
// restriction of Postfix's permits them.
func (t *translation) mynetworks() {
	s := t.get("mynetworks")
	style := t.get("mynetworks_style")
	switch {
	case s.set:
		t.doc.top.set("mynetworks", append([]string{}, t.networks(s)...), s.line())
	case style.set && style.text != "host":
		t.todo(style, "Write the networks of this machine's interfaces into mynetworks: clients there could send anywhere by this style, and only programs on this machine can now.")
	case style.set:
		t.notNeeded("mynetworks has the machine itself by default", style.line())
	}
}

// localDomains returns the domains that Postfix delivers to local mailboxes.
func (t *translation) localDomains() []string {
	s := t.get("mydestination")
	list := t.domainList(s)
	slices.Sort(list)
	return slices.Compact(list)
}
