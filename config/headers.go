package config

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/posthaste-mta/posthaste/header"
	"github.com/posthaste-mta/posthaste/inbound"
	"github.com/posthaste-mta/posthaste/internal/tomlfile"
	"github.com/posthaste-mta/posthaste/mail"
	"github.com/posthaste-mta/posthaste/qmgr/shape"
	"github.com/posthaste-mta/posthaste/rewrite"
	"github.com/posthaste-mta/posthaste/smtp"
)

// ListenerSubmission says what a listener completes and corrects in mail that mail programs submit
// (RFC 6409).
type ListenerSubmission struct {
	FixHeader      shape.Opt[bool] // unset: by purpose
	CompleteDomain string
	Rewrite        shape.Opt[RewriteScope]  // unset: by purpose
	Priority       shape.Opt[int]           // unset: MT-PRIORITY is not offered
	FutureRelease  shape.Opt[time.Duration] // unset: by purpose; 0: not offered
	DeliverBy      shape.Opt[bool]          // unset: by purpose
	DeliverByMin   time.Duration
}

// A HeaderRule is a table [[header_rule]].
type HeaderRule struct {
	Number    string // in the order of the file
	Rule      header.Rule
	Listeners []string // none means all
}

func submissionParameters() []parameter[Listener] {
	return []parameter[Listener]{
		define("fix_header", opt(flag()), func(l *Listener) *shape.Opt[bool] { return &l.Submission.FixHeader }, shape.Opt[bool]{},
			"Whether headers are completed and checked as for mail programs. A missing Date, Message-ID or From is added, and Bcc and Return-Path are removed. A message with several From fields, or with one that is not a list of addresses, is refused. By default, listeners of purpose submission and submissions do so, and others do not.",
			"Set it to true on a listener of purpose relay for devices and programs that write incomplete messages, and to false if your programs' headers must stay as they are."),
		define("complete_domain", optional(domain(), "for none"), func(l *Listener) *string { return &l.Submission.CompleteDomain }, "",
			"The domain that is appended to addresses without a domain, and after a dot to domains without a dot, in MAIL, RCPT and the address fields of headers; without it such addresses are refused in MAIL and RCPT and stay as they are in headers.",
			"Set it to your domain on a listener for programs that leave it out."),
		rewriteScopeParameter(),
		define("mt_priority_max", opt(integer(limit[int]{min: mail.PriorityMin, max: mail.PriorityMax})), func(l *Listener) *shape.Opt[int] { return &l.Submission.Priority }, shape.Opt[int]{},
			"The highest priority that clients may request by MT-PRIORITY (RFC 6710), from -9 to 9, where 0 is that of other mail; by default, MT-PRIORITY is not offered; min_mt_priority and max_mt_priority of the classes say what a priority means.",
			"Set it to 9 on a listener for programs that you trust with the order of all mail, and to 0 where clients may only ask to come later."),
		define("future_release_max", opt(period(time.Second, limit[time.Duration]{max: inbound.FutureReleaseMax, zero: "not at all"})), func(l *Listener) *shape.Opt[time.Duration] { return &l.Submission.FutureRelease }, shape.Opt[time.Duration]{},
			"The longest time for which clients may have a message held before it is sent, by HOLDFOR or HOLDUNTIL (RFC 4865), which are offered unless this is 0; by default, 30d on listeners of purpose submission and submissions, and 0 on others.",
			"Set it to 0 if mail should never wait here for a date, to more for mail that is written long before, and on a listener of purpose relay only if all who reach it may fill the queue with mail that waits."),
		define("deliver_by", opt(flag()), func(l *Listener) *shape.Opt[bool] { return &l.Submission.DeliverBy }, shape.Opt[bool]{},
			"Whether clients may name the time by which a message must be delivered (BY, RFC 2852), when it is returned or its sender receives a report on the delay; without it, listeners of purpose submission and submissions offer that, and others do not.",
			"Set it to true on a listener of purpose relay for servers and programs of your own, but not where strangers send mail: they can have reports sent to any address that they write in MAIL."),
		define("deliver_by_min", period(time.Second, limit[time.Duration]{max: smtp.ByMax, zero: "any time"}), func(l *Listener) *time.Duration { return &l.Submission.DeliverByMin }, time.Duration(0),
			"The shortest time after which clients may have a message returned by BY with R; less is refused.",
			"Set it to what delivery takes when nothing is wrong, if mail that had no chance should be refused rather than returned."),
	}
}

// standardFutureRelease is the time for which mail programs may have mail kept.
const standardFutureRelease = 30 * 24 * time.Hour

// futureRelease returns how long clients of a listener may have mail kept.
func (l *Listener) futureRelease() time.Duration {
	if l.Purpose == inbound.PurposeRelay {
		return l.Submission.FutureRelease.Or(0)
	}
	return l.Submission.FutureRelease.Or(standardFutureRelease).Truncate(time.Second)
}

// deliverBy reports whether clients of a listener may use BY.
func (l *Listener) deliverBy() bool {
	return l.Submission.DeliverBy.Or(l.Purpose != inbound.PurposeRelay)
}

// headerRuleParameters is the table of the parameters of [[header_rule]].
var headerRuleParameters = []parameter[HeaderRule]{
	define("field", text("field", `such as "X-Originating-IP"`, checkField), func(r *HeaderRule) *string { return &r.Rule.Field }, "",
		"The name of the header field.",
		"Set it for every rule."),
	define("action", words(word[header.Action]{"remove", header.Remove}, word[header.Action]{"replace", header.Replace}, word[header.Action]{"add", header.Add}, word[header.Action]{"add-missing", header.AddMissing}),
		func(r *HeaderRule) *header.Action { return &r.Rule.Action }, header.Remove,
		"The action: remove deletes the fields of this name, replace changes their value, add adds a field at the end of the header, and add-missing does so only if the client has sent no field of this name.",
		"Set it unless the rule removes fields."),
	define("match", optional(text("regular expression", `in the syntax of RE2, such as "^10\\."`, checkExpression), "for all values"), func(r *HeaderRule) *string { return &r.Rule.Match }, "",
		"The regular expression that must match a part of a field's value for the rule to apply to the field; folded lines are joined first, and (?i) at the beginning ignores case.",
		"Set it if only some fields of this name are meant."),
	define("value", optional(text("value", "at most 4096 bytes of printable ASCII, in which $1 stands for what the first group of match has found, and $$ for a dollar sign", checkFieldValue), "for remove"), func(r *HeaderRule) *string { return &r.Rule.Value }, "",
		"The value of the field that is added or replaced.",
		"Set it for every action except remove."),
	define("listener", list(text("listener", `such as ["submission"]`, checkRuleListener), "listeners"), func(r *HeaderRule) *[]string { return &r.Listeners }, nil,
		"The names of the listeners to whose mail the rule applies; \"submission_socket\" stands for the socket for local programs, and an empty list for all listeners.",
		"Set it if mail of your own programs, for example, must be treated differently from that of other servers."),
}

func standardHeaderRule() HeaderRule { return HeaderRule{} }

func headerRuleNumber(r *HeaderRule) string { return r.Number }

func checkField(s string) (string, string) {
	if !header.IsName([]byte(s)) {
		hint := ""
		if strings.HasSuffix(s, ":") {
			hint = "write it without the colon"
		}
		return tomlfile.QuoteText(s) + " is not the name of a header field", hint
	}
	return "", ""
}

func checkExpression(s string) (string, string) {
	if _, err := header.Compile(header.Config{Rules: []header.Rule{{Field: "A", Match: s}}}); err != nil {
		_, why, _ := strings.Cut(err.Error(), ": ")
		return tomlfile.QuoteText(s) + " cannot be used: " + why, ""
	}
	return "", ""
}

func checkFieldValue(s string) (string, string) {
	const groups = 100 // those that match has are known later
	if _, err := header.Compile(header.Config{Rules: []header.Rule{{Field: "A", Action: header.Replace, Match: strings.Repeat("()", groups), Value: s}}}); err != nil {
		_, why, _ := strings.Cut(err.Error(), ": ")
		return tomlfile.QuoteText(s) + " cannot be used: " + why, ""
	}
	return "", ""
}

func checkRuleListener(s string) (string, string) {
	if s == "" {
		return "the name is empty", ""
	}
	return "", ""
}

// headerRules creates the rules that the file defines. It runs after the listeners.
func (l *loader) headerRules(all *tomlfile.Entry) {
	loadList(l, tableHeaderRule, all, headerRuleParameters, standardHeaderRule, func(*tomlfile.Table) string { return "" },
		func(t *tomlfile.Table, name string, r HeaderRule, whole bool) {
			r.Number, r.Rule.Name = name, name
			l.c.HeaderRules = append(l.c.HeaderRules, r)
			if whole {
				l.checkHeaderRule(t, &r)
			}
		})
}

func (l *loader) checkHeaderRule(t *tomlfile.Table, r *HeaderRule) {
	about := l.complainer(tableHeaderRule, r.Number, t)
	adds := r.Rule.Action == header.Add || r.Rule.Action == header.AddMissing
	switch {
	case r.Rule.Field == "":
		about("field", "this rule is for no field", `add such as field = "X-Originating-IP"`)
	case r.Rule.Action == header.Remove && r.Rule.Value != "":
		about("value", "a field that is removed has no value", `remove it, or set action = "replace"`)
	case r.Rule.Action != header.Remove && r.Rule.Value == "":
		about("value", "the value is missing", `add such as value = "none"`)
	case adds && r.Rule.Match != "":
		about("match", "a field that is added matches nothing", "remove it")
	default:
		if _, err := header.Compile(header.Config{Rules: []header.Rule{r.Rule}}); err != nil {
			_, why, _ := strings.Cut(err.Error(), ": ")
			about("value", why, "write $1 for the first group of match, and $$ for a dollar sign")
		}
	}
	names := l.listenerNames()
	for _, name := range r.Listeners {
		if !slices.Contains(names, name) {
			hint := didYouMean(name, names)
			if hint == "" {
				hint = "there are " + strings.Join(names, ", ")
			}
			about("listener", fmt.Sprintf("there is no listener %q", name), hint)
		}
	}
}

// listenerNames returns what rules may name.
func (l *loader) listenerNames() []string {
	names := []string{socketName}
	for _, one := range l.c.AllListeners() {
		names = append(names, one.Name)
	}
	return names
}

// checkSubmission complains about a listener that completes what strangers send.
func (l *loader) checkSubmission(one *Listener, about func(parameter, message, hint string)) {
	if one.Submission.CompleteDomain != "" && one.Purpose == inbound.PurposeRelay {
		about("complete_domain", "a server must not complete the addresses of mail that it relays (RFC 5321 5.1)", `set purpose = "submission" too, or remove it`)
	}
}

// Edits returns what package inbound does to messages, with rules for addresses.
func (c *Config) Edits(addresses *rewrite.Rules) (*inbound.Edits, error) {
	edits := &inbound.Edits{Listeners: make(map[string]inbound.ListenerEdits)}
	for name, one := range c.headers() {
		if one.scope == RewriteAll && addresses.RewritesHeaders() {
			one.Rewrite = func(k header.Kind, a mail.Address) mail.Address { return addresses.Header(a, k.OfSenders()) }
		}
		compiled, err := header.Compile(one.Config)
		if err != nil {
			return nil, err
		}
		all := inbound.ListenerEdits{Header: compiled}
		if one.scope != RewriteNone && !addresses.Idle() {
			all.Addresses = addresses
		}
		if name == otherListeners {
			edits.Others = all
		} else {
			edits.Listeners[name] = all
		}
	}
	return edits, nil
}

// otherListeners stands for sockets that were handed over and are not in the configuration.
// No listener has such a name.
const otherListeners = "*"

// A headerEdit is what is done to the headers of a listener's mail, without what needs the
// files of maps.
type headerEdit struct {
	header.Config
	scope RewriteScope
}

// headers returns what is done to headers by listener.
func (c *Config) headers() map[string]headerEdit {
	all := map[string]headerEdit{
		otherListeners: {header.Config{Rules: c.headerRulesOf(otherListeners)}, RewriteEnvelope},
		"":             {header.Config{Rules: c.headerRulesOf(socketName)}, RewriteAll},
	}
	for _, l := range c.AllListeners() {
		all[l.Name] = headerEdit{header.Config{Submission: l.fixesHeader(), Domain: l.Submission.CompleteDomain, Rules: c.headerRulesOf(l.Name)}, l.rewrites()}
	}
	return all
}

// fixesHeader reports whether a listener completes and corrects headers.
func (l *Listener) fixesHeader() bool {
	return l.Submission.FixHeader.Or(l.Purpose != inbound.PurposeRelay)
}

// headerRulesOf returns the rules for a listener.
func (c *Config) headerRulesOf(listener string) (rules []header.Rule) {
	for i := range c.HeaderRules {
		if r := &c.HeaderRules[i]; len(r.Listeners) == 0 || slices.Contains(r.Listeners, listener) {
			rules = append(rules, r.Rule)
		}
	}
	return rules
}

// headerRuleTables shows the rules in their order.
func (s *shower) headerRuleTables() []shownTable {
	return showList(s, tableHeaderRule, s.c.HeaderRules, headerRuleNumber, standardHeaderRule, headerRuleParameters)
}
