package route

import (
	"net/netip"
	"slices"
	"strconv"

	"github.com/posthaste-mta/posthaste/mail"
)

// An Answer is how a question to the DNS ended.
type Answer uint8

const (
	Found   Answer = iota + 1 // there are records
	NoData                    // the name exists, but has no such records
	NoName                    // the name does not exist (NXDOMAIN)
	Endless                   // aliases lead in a circle or too far
	Unknown                   // no answer for now: SERVFAIL, REFUSED, time-out
)

// String returns the word that statistics and logs show.
func (a Answer) String() string {
	return [...]string{"none", "found", "no data", "no such name", "alias loop", "no answer"}[a]
}

// An MX is one MX record (RFC 1035 3.3.9).
type MX struct {
	Preference uint16
	Name       string
}

// A HostAnswer is what the DNS said of one host's addresses.
type HostAnswer struct {
	Answer Answer
	Addrs  []netip.Addr // in the resolver's order
}

// A Shuffle puts n things in random order, as math/rand's does. Callers bring
// it along so that this package stays a function of its arguments.
type Shuffle func(n int, swap func(i, j int))

// smtpPort is where MX hosts are reached if the nexthop does not say otherwise.
const smtpPort = 25

// A Plan is what is to be found out about a nexthop: the addresses of Hosts.
type Plan struct {
	// Hosts are to be looked up, the best first; of equal preference in random
	// order. Their names are canonical. A nexthop that is an address has one
	// host without a name, about which nothing is to be found out.
	Hosts []MX

	rest   []MX   // that come after Hosts, as good or worse
	shown  string // what replies call the nexthop
	port   uint16
	bare   bool   // the host comes from the nexthop itself, not from MX records
	loop   bool   // we ourselves are among the records
	unfit  string // a record that cannot be used, for the reply; "" if there is none
	policy Policy
}

// NewPlan draws the conclusions from a domain's MX records (RFC 5321 5.1): the
// null MX is permanent (RFC 7505 3), no records mean the domain itself, and we
// ourselves and whatever is not better than us are left out. Answer and records
// only matter for a nexthop that is a domain. The reply is zero if there is
// something to look up.
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

// choose sets the hosts worth looking up.
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

// Next returns the plan for the hosts that are to be looked up if reply, which Tiers
// gave, says that none of this plan's can be used: a policy bounds how many are looked
// up at once, and ten that do not exist must not hide an eleventh that does. It is not
// ok if there are none, or if none may be used because they are worse than ourselves.
func (p Plan) Next(reply mail.Reply) (next Plan, ok bool) {
	if reply.IsZero() || len(p.rest) == 0 || IsFinal(reply) {
		return p, false
	}
	p.take()
	return p, true
}

// Unfinished is the reply where no host could be used and some were not looked up.
func (p Plan) Unfinished() mail.Reply {
	return reply(451, mail.Status{Class: 4, Subject: 4, Detail: 4}, "none of the first mail hosts of "+p.shown+" can be used, and there are too many")
}

// firstAsGood returns the index of the first host with the preference of
// hosts[i], hosts being ordered by preference.
func firstAsGood(hosts []MX, i int) int {
	for i > 0 && hosts[i-1].Preference == hosts[i].Preference {
		i--
	}
	return i
}

// isNullMX reports whether the records say that the domain takes no mail. A
// dot beside real hosts is a mistake, and only ignored (RFC 7505 3).
func isNullMX(records []MX) bool {
	if len(records) == 0 {
		return false
	}
	return !slices.ContainsFunc(records, func(r MX) bool { return !isRoot(r.Name) })
}

func isRoot(name string) bool { return name == "." || name == "" }

// usableRecords returns a new slice of those records whose names are names of
// hosts, in canonical form and each with its best preference. A name that is
// the text of an address is not: RFC 1035 has no way to put one there, and
// guessing that it was meant would send mail where nobody checked.
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

// reply makes a reply of our own. Names from the DNS are part of its text.
func reply(code uint16, status mail.Status, text string) mail.Reply {
	return mail.Reply{Code: code, Status: status, Text: mail.CleanText(text)}
}

// answerReply says why there is nothing to be looked up.
func answerReply(domain string, answer Answer) mail.Reply {
	switch answer {
	case NoName:
		return reply(550, mail.Status{Class: 5, Subject: 1, Detail: 2}, domain+" does not exist")
	case Endless:
		return reply(550, mail.Status{Class: 5, Subject: 4, Detail: 4}, "the DNS aliases of "+domain+" lead nowhere")
	}
	return reply(451, mail.Status{Class: 4, Subject: 4, Detail: 3}, "DNS lookup of "+domain+" failed")
}

// IsFinal reports whether a verdict forbids to go on to a further nexthop of a
// list: its domain takes no mail, or we are where the mail should go.
func IsFinal(r mail.Reply) bool {
	return r.By == "" && (r.Status == mail.Status{Class: 5, Subject: 1, Detail: 10} || r.Status == mail.Status{Class: 5, Subject: 4, Detail: 6})
}

// verdict says why a nexthop has no host. That something is unknown for now
// outweighs all else: it may turn out to be a host.
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
