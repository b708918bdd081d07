package route

import (
	"net/netip"
	"slices"
	"strconv"

	"github.com/posthaste-mta/posthaste/mail"
)

// An Answer is the result of a question to the DNS.
type Answer uint8

const (
	Found   Answer = iota + 1 // there are records
	NoData                    // the name exists, but has no such records
	NoName                    // the name does not exist (NXDOMAIN)
	Endless                   // the aliases form a loop or are too many
	Unknown                   // no answer for now: SERVFAIL, REFUSED, timeout
)

// String returns the word for statistics and logs.
func (a Answer) String() string {
	return [...]string{"none", "found", "no data", "no such name", "alias loop", "no answer"}[a]
}

// An MX is one MX record (RFC 1035 3.3.9).
type MX struct {
	Preference uint16
	Name       string
}

// A HostAnswer is the DNS's answer about one host's addresses.
type HostAnswer struct {
	Answer Answer
	Addrs  []netip.Addr // in the resolver's order
}

// A Shuffle puts n things in random order, like math/rand's. Callers supply it so
// that this package stays a function of its arguments.
type Shuffle func(n int, swap func(i, j int))

// smtpPort is the port of MX hosts unless the nexthop has another.
const smtpPort = 25

// A Plan determines what to look up for a nexthop: the addresses of Hosts.
type Plan struct {
	// Hosts are the hosts to look up, the best first, in random order within a
	// preference. Their names are canonical. A nexthop that is an address has one
	// host without a name, for which nothing needs to be looked up.
	Hosts []MX

	rest   []MX   // hosts that come after Hosts, with equal or worse preference
	shown  string // the nexthop in replies
	port   uint16
	bare   bool   // the host comes from the nexthop itself, not from MX records
	loop   bool   // our own host is among the records
	unfit  string // an unusable record, for the reply; "" if there is none
	policy Policy
}

// NewPlan evaluates a domain's MX records (RFC 5321 5.1): a null MX is a permanent
// failure (RFC 7505 3), no records mean the domain itself, and our own host and all
// hosts that are not better than it are left out. answer and records matter only for
// a nexthop that is a domain. The reply is zero if there is something to look up.
func NewPlan(n Nexthop, answer Answer, records []MX, p Policy, shuffle Shuffle) (Plan, mail.Reply) {
	plan := Plan{shown: n.Name, port: n.Port, policy: p}
	if plan.port == 0 {
		plan.port = smtpPort
	}
	switch {
	case n.Form == FormAddress:
		plan.shown, plan.bare, plan.Hosts = n.Addr.String(), true, []MX{{}}
		return plan, mail.Reply{}
	case n.Form == FormSite:
		records = n.Records()
	case n.Form == FormHost, answer == NoData:
		plan.bare, records = true, []MX{{Name: n.Name}}
	case answer != Found:
		return plan, answerReply(n.Name, answer)
	case isNullMX(records):
		return plan, reply(556, mail.Status{Class: 5, Subject: 1, Detail: 10}, n.Name+" does not accept mail (null MX)")
	}
	plan.choose(records, shuffle)
	if len(plan.Hosts) == 0 {
		return plan, plan.verdict(false)
	}
	return plan, mail.Reply{}
}

// choose selects the hosts to look up.
func (p *Plan) choose(records []MX, shuffle Shuffle) {
	hosts := usableRecords(records)
	if len(hosts) < len(records) {
		p.unfit = firstUnfit(records)
	}
	shuffle(len(hosts), func(i, j int) { hosts[i], hosts[j] = hosts[j], hosts[i] })
	slices.SortStableFunc(hosts, func(a, b MX) int { return int(a.Preference) - int(b.Preference) })
	for i, h := range hosts {
		if p.policy.Self.isName(h.Name, p.port) {
			p.loop = true
			hosts = hosts[:firstAsGood(hosts, i)]
			break
		}
	}
	p.rest = hosts
	p.take()
}

// take moves the first of the rest to Hosts.
func (p *Plan) take() {
	n := min(len(p.rest), p.policy.hostsMax())
	p.Hosts, p.rest = p.rest[:n:n], p.rest[n:]
}

// Next returns the plan for the hosts to look up if reply, which Tiers returned,
// means that none of this plan's hosts can be used: a policy limits how many are
// looked up at once, and ten that do not exist must not hide an eleventh that does. ok
// is false if there are no more, or if none may be used because they are worse than
// our own host.
func (p Plan) Next(reply mail.Reply) (next Plan, ok bool) {
	if reply.IsZero() || len(p.rest) == 0 || IsFinal(reply) {
		return p, false
	}
	p.take()
	return p, true
}

// Unfinished returns the reply if no host could be used and some were not looked up.
func (p Plan) Unfinished() mail.Reply {
	return reply(451, mail.Status{Class: 4, Subject: 4, Detail: 4}, "none of the first mail hosts of "+p.shown+" can be used, and there are too many to try them all")
}

// firstAsGood returns the index of the first host with the preference of
// hosts[i], hosts being ordered by preference.
func firstAsGood(hosts []MX, i int) int {
	for i > 0 && hosts[i-1].Preference == hosts[i].Preference {
		i--
	}
	return i
}

// isNullMX reports whether the records state that the domain accepts no mail. A
// dot among real hosts is an error, and ignored (RFC 7505 3).
func isNullMX(records []MX) bool {
	if len(records) == 0 {
		return false
	}
	return !slices.ContainsFunc(records, func(r MX) bool { return !isRoot(r.Name) })
}

func isRoot(name string) bool { return name == "." || name == "" }

// usableRecords returns a new slice of the records whose names are host names, in
// canonical form and each with its best preference. A name that is the text of an
// address is not one: RFC 1035 does not allow an address there, and guessing that it
// was meant would send mail to an address that was never checked.
func usableRecords(records []MX) []MX {
	hosts := make([]MX, 0, len(records))
	for _, r := range records {
		name, flaw := parseDomain(r.Name)
		if flaw == nil {
			hosts = append(hosts, MX{Preference: r.Preference, Name: name})
		}
	}
	if len(hosts) < 2 {
		return hosts
	}
	slices.SortFunc(hosts, func(a, b MX) int {
		if a.Name != b.Name {
			if a.Name < b.Name {
				return -1
			}
			return 1
		}
		return int(a.Preference) - int(b.Preference)
	})
	return slices.CompactFunc(hosts, func(a, b MX) bool { return a.Name == b.Name })
}

// firstUnfit returns the first name that usableRecords leaves out.
func firstUnfit(records []MX) string {
	for _, r := range records {
		if _, flaw := parseDomain(r.Name); flaw != nil && !isRoot(r.Name) {
			return r.Name
		}
	}
	return ""
}

// reply returns a reply of this program. Names from the DNS are part of its text.
func reply(code uint16, status mail.Status, text string) mail.Reply {
	return mail.Reply{Code: code, Status: status, Text: mail.CleanText(text)}
}

// answerReply returns the reason why there is nothing to look up.
func answerReply(domain string, answer Answer) mail.Reply {
	switch answer {
	case NoName:
		return reply(550, mail.Status{Class: 5, Subject: 1, Detail: 2}, domain+" does not exist")
	case Endless:
		return reply(550, mail.Status{Class: 5, Subject: 4, Detail: 4}, "the DNS aliases of "+domain+" lead nowhere")
	}
	return reply(451, mail.Status{Class: 4, Subject: 4, Detail: 3}, "DNS lookup of "+domain+" failed")
}

// IsFinal reports whether a reply forbids trying further nexthops of a list: the
// domain accepts no mail, or this host is its best mail host.
func IsFinal(r mail.Reply) bool {
	return r.By == "" && (r.Status == mail.Status{Class: 5, Subject: 1, Detail: 10} || r.Status == mail.Status{Class: 5, Subject: 4, Detail: 6})
}

// verdict returns the reason why a nexthop has no host. A temporary lookup failure
// takes precedence over all others, since the lookup may later yield a host.
func (p Plan) verdict(unknown bool) mail.Reply {
	switch {
	case unknown:
		return reply(451, mail.Status{Class: 4, Subject: 4, Detail: 3}, "DNS lookup of the mail hosts of "+p.shown+" failed")
	case p.loop:
		return reply(554, mail.Status{Class: 5, Subject: 4, Detail: 6}, "mail for "+p.shown+" loops back to ourselves")
	}
	text := "no mail host of " + p.shown + " can be used"
	if p.unfit != "" {
		text += ", among them " + strconv.Quote(p.unfit)
	}
	return reply(550, mail.Status{Class: 5, Subject: 4, Detail: 4}, text)
}
