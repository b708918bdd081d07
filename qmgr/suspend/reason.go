package suspend

import (
	"strings"

	"github.com/posthaste-mta/posthaste/mail"
	"github.com/posthaste-mta/posthaste/qmgr/measure"
)

// Prefixes begin the reason of mail that is deferred because of a suspension. The scope and the
// value follow, and of a rule's, behind reasonMark, its name and the codes of what the receiver said. The words were said about
// other mail, and may have the addresses of another customer's, so only the operator sees them (View).
const (
	Prefix     = "suspended by an operator: "
	RulePrefix = "suspended by a rule: "
	reasonMark = "; "
)

// status is "system not accepting network messages" (RFC 3463), as when it is halted by an
// operator.
var status = mail.Status{Class: 4, Subject: 3, Detail: 2}

// Named returns the scope and the value, with a space between them, of the suspension for which
// mail was deferred, by the reason for that, with its code and status or without; false if it was
// for another reason.
func Named(why string) (what string, is bool) {
	if len(why) > 4 && why[0] == '4' && why[3] == ' ' { // the code; earlier versions changed it
		why = why[4:]
	}
	why = strings.TrimPrefix(why, status.String()+" ")
	for _, prefix := range [...]string{Prefix, RulePrefix} {
		if what, is := strings.CutPrefix(why, prefix); is {
			what, _, _ = strings.Cut(what, reasonMark)
			return what, true
		}
	}
	return "", false
}

// IsReason reports whether a reason, with its status or without, is a suspension's.
func IsReason(why string) bool {
	_, is := Named(why)
	return is
}

// A Suspension is one that concerns some mail. The zero Suspension is none.
type Suspension struct {
	Until mail.Instant // Never: until it is resumed
	key   measure.Key
	ruled bool   // a rule's
	said  string // ruled: the rule and the codes of the reply
}

// Reply is the reason of mail that it keeps waiting.
func (s Suspension) Reply() mail.Reply {
	text := s.key.Scope.String() + " " + s.key.Value()
	if s.ruled {
		text = mail.CutText(RulePrefix+text+reasonMark+s.said, mail.ReplyTextMax)
	} else {
		text = Prefix + text
	}
	return mail.Reply{Code: 451, Status: status, Text: text}
}

// codes returns the code and the enhanced status code at the beginning of a reply.
func codes(reply string) string {
	words := strings.Fields(reply)
	n := 0
	for n < len(words) && n < 2 && strings.Trim(words[n], "0123456789.-") == "" {
		n++
	}
	return strings.ReplaceAll(strings.Join(words[:n], " "), "-", " ")
}

// describe returns an order as text.
func describe(k measure.Key, o measure.Order) string {
	text := k.Scope.String() + " " + k.Value()
	switch {
	case o.Rule != "":
		text += " by rule " + o.Rule
	case o.By != "":
		text += " by " + o.By
	}
	if o.Reason != "" {
		text += ": " + strings.ReplaceAll(o.Reason, "\n", " / ")
	}
	return text
}
