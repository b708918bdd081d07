package admin

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"time"
	"unicode"

	"github.com/danielgtaylor/huma/v2"

	"github.com/posthaste-mta/posthaste/idn"
	"github.com/posthaste-mta/posthaste/mail"
	"github.com/posthaste-mta/posthaste/qmgr"
	"github.com/posthaste-mta/posthaste/qmgr/measure"
	"github.com/posthaste-mta/posthaste/qmgr/suspend"
)

// A Suspender carries out operators' orders about suspensions. Its methods return when an order is in
// force and durable. The error wraps ErrUnsaved if it is in force and could not be saved; it is ctx's if the
// core does not answer in time.
type Suspender interface {
	// Suspend suspends something, or changes a suspension.
	Suspend(ctx context.Context, order qmgr.Suspend) (SuspensionChange, error)
	// Resume ends a suspension.
	Resume(ctx context.Context, order qmgr.Resume) (SuspensionChange, error)
	// Suspensions returns those in force.
	Suspensions(ctx context.Context) ([]qmgr.SuspensionView, error)
}

// ErrUnsaved means that an order is in force, but is not on disk.
var ErrUnsaved = errors.New("the order is in force, but could not be saved")

// A SuspensionChange is what an order has changed.
type SuspensionChange struct {
	Was, Is qmgr.SuspensionView // before and after the order; Until is 0 if there is none
	Known   bool                // something of the value is configured, or has mail in core
}

// A Suspension is in force: no delivery starts for what it names.
type Suspension struct {
	ID     string     `json:"id" example:"3f2a90c1d4e5b607" doc:"It follows from scope and value."`
	Scope  string     `json:"scope" enum:"site,domain,destination,transport,source,tenant,class" doc:"What value is: site: the nexthop of mail, or the MX hosts {a,b;c} that several domains share; domain: the domain of recipients; destination: what a transport has for a site, as TRANSPORT:SITE, or TRANSPORT:SITE to DOMAIN for what goes to one domain there, and with from SOURCE behind it for one source; transport; source: an address that mail leaves from, by its name; tenant; class."`
	Value  string     `json:"value"`
	By     string     `json:"by" doc:"The operator, or the word rule and the name of a rule on replies."`
	Rule   string     `json:"rule,omitempty" doc:"The rule on replies, [reply_rule.NAME], that has suspended it; absent if an operator has."`
	Reason string     `json:"reason" doc:"In the operator's words; of a rule, the receiver's reply, word for word."`
	Since  time.Time  `json:"since"`
	Until  *time.Time `json:"until,omitempty" doc:"When it ends; absent if it lasts until it is resumed."`
}

func suspensionOf(v *qmgr.SuspensionView) Suspension {
	return Suspension{ID: suspensionID(v.Scope, v.Value), Scope: v.Scope.String(), Value: v.Value, By: orderedByText(v), Rule: v.Rule, Reason: v.Reason, Since: wall(v.Since), Until: wallOrNil(v.Until)}
}

// orderedByText returns the operator, or the rule.
func orderedByText(v *qmgr.SuspensionView) string {
	if v.Rule != "" {
		return "rule " + v.Rule
	}
	return v.By
}

// Resume returns the command that ends the suspension.
func (s *Suspension) Resume() string {
	return "posthaste queue resume --" + s.Scope + " " + quoted(s.Value)
}

// quoted returns a word as a shell reads it.
func quoted(word string) string {
	if strings.ContainsFunc(word, func(r rune) bool {
		return !unicode.IsLetter(r) && !unicode.IsDigit(r) && !strings.ContainsRune("-_.@:/", r)
	}) {
		word = "'" + strings.ReplaceAll(word, "'", `'\''`) + "'"
	}
	return word
}

// Text describes the suspension without its end.
func (s *Suspension) Text() string {
	text := s.Scope + " " + s.Value + " is suspended by " + s.By
	if s.Reason != "" {
		text += ": " + s.ReasonLine()
	}
	return text
}

// ReasonLine returns the reason on one line, in which " / " stands for the end of a line of a reply.
func (s *Suspension) ReasonLine() string { return strings.ReplaceAll(s.Reason, "\n", " / ") }

// A SuspendOrder suspends something. One that is suspended already is so for the new time and reason.
type SuspendOrder struct {
	Scope  string `json:"scope" enum:"site,domain,destination,transport,source,tenant,class"`
	Value  string `json:"value" minLength:"1" maxLength:"1024" doc:"Case matters for tenants, classes, transports and sources."`
	For    string `json:"for,omitempty" maxLength:"32" example:"2h" doc:"How long, from now on; units s, m, h, d, w. Absent: until it is resumed."`
	Reason string `json:"reason" minLength:"1" maxLength:"400" doc:"Shown with waiting mail, and logged. Senders do not see it."`
}

// A ResumeOrder ends a suspension.
type ResumeOrder struct {
	Scope  string `json:"scope" enum:"site,domain,destination,transport,source,tenant,class"`
	Value  string `json:"value" minLength:"1" maxLength:"1024"`
	Reason string `json:"reason,omitempty" maxLength:"400" doc:"Logged."`
}

// SuspensionOrdered is the answer to an order about a suspension, which is in force and on disk.
type SuspensionOrdered struct {
	Suspension Suspension  `json:"suspension" doc:"The suspension; of a resume, the one that has ended."`
	Before     *Suspension `json:"before,omitempty" doc:"Of a suspend: the suspension that it replaces."`
	Warning    string      `json:"warning,omitempty" doc:"Why the value may be mistyped."`
}

// errNoSuspender means that the program that runs the API has no suspensions.
var errNoSuspender = huma.Error501NotImplemented("suspensions are not available here")

// inForce returns the suspensions for an answer about something else, which is given without them if the
// core does not answer.
func (s *Server) inForce(ctx context.Context) []qmgr.SuspensionView {
	if s.cfg.Suspender == nil {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, coreTimeout)
	defer cancel()
	list, err := s.cfg.Suspender.Suspensions(ctx)
	if err != nil {
		return nil
	}
	return list
}

type suspendInput struct{ Body SuspendOrder }

type suspensionOutput struct{ Body SuspensionOrdered }

// suspend suspends something.
func (s *Server) suspend(ctx context.Context, in *suspendInput) (*suspensionOutput, error) {
	scope, err := s.suspendable(in.Body.Scope, in.Body.Value, in.Body.Reason)
	if err != nil {
		return nil, err
	}
	if scope == measure.Domain && (strings.ContainsAny(in.Body.Value, "@*") || strings.HasSuffix(in.Body.Value, ".")) {
		return nil, unprocessable("body.value", clip(in.Body.Value), "a domain such as example.com is needed, without @ or *, and without a dot at its end; subdomains are domains of their own")
	}
	if why := impossible(scope, in.Body.Value); why != "" {
		return nil, unprocessable("body.value", clip(in.Body.Value), why)
	}
	o := qmgr.Suspend{Scope: scope, Value: in.Body.Value, By: orderedBy(ctx), Reason: in.Body.Reason}
	if in.Body.For != "" {
		if o.For, err = ParseAge(in.Body.For); err != nil || o.For <= 0 {
			return nil, unprocessable("body.for", clip(in.Body.For), "a time such as 30s, 10m, 2h, 1d or 1h30m is needed; leave it out to suspend until it is resumed")
		}
	}
	of := o.Value
	if scope == measure.Destination {
		k := measure.OrderKey(scope, o.Value)
		if of = k.Transport; of == "" || k.Name == "" || strings.Contains(k.Name, " ") || k.Domain != "" && checkDomain(k.Domain) != nil {
			return nil, unprocessable("body.value", clip(o.Value), `a destination is a transport and a site, such as smtp:example.com, "smtp:example.com from SOURCE" or "smtp:example.com to DOMAIN"`)
		}
	}
	if (scope == measure.Transport || scope == measure.Destination) && (of == qmgr.TransportRetry || of == qmgr.TransportError) {
		return nil, unprocessable("body.value", o.Value, "the transports retry and error only defer and return mail, and cannot be suspended")
	}
	c, err := ask(ctx, func(ctx context.Context) (SuspensionChange, error) { return s.cfg.Suspender.Suspend(ctx, o) })
	if c.Is.Until != 0 {
		s.log.Info("order", "verb", "suspend", "scope", in.Body.Scope, "value", c.Is.Value, "for", in.Body.For, "reason", o.Reason, "by", o.By)
	}
	switch {
	case err != nil:
		return nil, s.unsaved(ctx, err)
	case c.Is.Until == 0:
		return nil, huma.Error409Conflict(fmt.Sprintf("%d suspensions are in force, which is the limit; resume one first", measure.OrderLimit))
	}
	done := SuspensionOrdered{Suspension: suspensionOf(&c.Is)}
	if c.Was.Until != 0 {
		before := suspensionOf(&c.Was)
		done.Before = &before
	}
	if !c.Known && c.Was.Until == 0 {
		done.Warning = unknownText(scope, c.Is.Value)
	}
	return &suspensionOutput{done}, nil
}

// impossible returns what is allowed if a value is that of no mail; "" if it may be.
func impossible(scope measure.Scope, value string) string {
	literal := strings.HasPrefix(value, "[") && strings.HasSuffix(value, "]")
	switch {
	case scope == measure.Domain && !literal && checkDomain(value) != nil:
		return "a domain such as example.com is needed, or an address such as [192.0.2.1]; a leading dot and /.../ have no meaning here: subdomains are domains of their own"
	case scope == measure.Site && (strings.HasPrefix(value, "/") || strings.HasPrefix(value, ".") || strings.HasPrefix(value, "{") && !strings.Contains(value, "}") || strings.HasPrefix(value, "[") && !strings.Contains(value, "]")):
		return "a site as \"queue destinations\" shows it is needed: example.com, [192.0.2.1]:25 or {mx1.example.net;mx2.example.net}"
	}
	return ""
}

// unknownText warns of a value that may be mistyped.
func unknownText(scope measure.Scope, value string) string {
	switch text := fmt.Sprintf("%v %s", scope, value); scope {
	case measure.Transport, measure.Source:
		return text + " is not configured; it is suspended nevertheless"
	case measure.Destination:
		return text + ` has no mail in core now; "posthaste queue destinations" shows how destinations are named. It is suspended nevertheless`
	case measure.Site:
		return text + ` has no mail in core now; "posthaste queue destinations" shows how sites are named. It is suspended nevertheless`
	case measure.Domain:
		return text + " has no mail in core now; subdomains are domains of their own. It is suspended nevertheless"
	case measure.Class:
		return text + ` has no mail in core now and is not configured; "posthaste queue flows" shows classes. It is suspended nevertheless`
	default:
		return text + ` has no mail in core now; "posthaste queue flows" shows tenants. It is suspended nevertheless`
	}
}

type resumeInput struct{ Body ResumeOrder }

// resume ends a suspension.
func (s *Server) resume(ctx context.Context, in *resumeInput) (*suspensionOutput, error) {
	scope, err := s.suspendable(in.Body.Scope, in.Body.Value, in.Body.Reason)
	if err != nil {
		return nil, err
	}
	o := qmgr.Resume{Scope: scope, Value: in.Body.Value, By: orderedBy(ctx), Reason: in.Body.Reason}
	c, err := ask(ctx, func(ctx context.Context) (SuspensionChange, error) { return s.cfg.Suspender.Resume(ctx, o) })
	if c.Was.Until != 0 {
		s.log.Info("order", "verb", "resume", "scope", in.Body.Scope, "value", c.Was.Value, "reason", o.Reason, "by", o.By)
	}
	switch {
	case err != nil:
		return nil, s.unsaved(ctx, err)
	case c.Was.Until == 0:
		return nil, huma.NewError(http.StatusNotFound, fmt.Sprintf("%v %s is not suspended; \"posthaste queue suspensions\" lists what is", scope, clip(o.Value)))
	}
	return &suspensionOutput{SuspensionOrdered{Suspension: suspensionOf(&c.Was)}}, nil
}

// valueMost is the maximum length in bytes of what is suspended. The schema's limit counts characters, of which the store
// (measure.KeyMax) would not keep as many if each has four bytes.
const valueMost = 1024

// suspendable checks what orders have in common.
func (s *Server) suspendable(word, value, reason string) (measure.Scope, error) {
	if err := s.refuse(); err != nil {
		return 0, err
	}
	if s.cfg.Suspender == nil {
		return 0, errNoSuspender
	}
	for at, text := range map[string]string{"body.value": value, "body.reason": reason} {
		if strings.ContainsFunc(text, unicode.IsControl) {
			return 0, unprocessable(at, clip(text), "control characters are not allowed")
		}
	}
	if len(value) > valueMost {
		return 0, unprocessable("body.value", clip(value), fmt.Sprintf("it is longer than %d bytes", valueMost))
	}
	if strings.TrimSpace(value) != value {
		return 0, unprocessable("body.value", clip(value), "it begins or ends with a space")
	}
	scope, ok := measure.ParseScope(word)
	if !ok {
		return 0, unprocessable("body.scope", clip(word), "one of site, domain, destination, transport, source, tenant and class is needed")
	}
	return scope, nil
}

// unsaved converts the error of an order about a suspension.
func (s *Server) unsaved(ctx context.Context, err error) error {
	if !errors.Is(err, ErrUnsaved) {
		return s.problem(ctx, err)
	}
	s.log.Error("admin: cannot save an order", "error", err)
	return huma.Error500InternalServerError(ErrUnsaved.Error() + ": a restart would undo it; see the log, and repeat the order")
}

// suspendedBy returns which of the suspensions in force keeps a message that rests waiting; nil if none
// does. The transport, site or source of a message are only known by the reason for which it was put off.
func (sum *Summary) suspendedBy(list []qmgr.SuspensionView, first mail.Address) *qmgr.SuspensionView {
	named, _ := suspend.Named(sum.Reason)
	domain := idn.Key(first.Domain())
	return longest(list, func(v *qmgr.SuspensionView) bool {
		switch {
		case named != "" && named == v.Scope.String()+" "+v.Value:
			return true
		case v.Scope == measure.Class:
			return sum.Class == v.Value
		case v.Scope == measure.Tenant:
			return sum.Tenant == v.Value
		}
		return v.Scope == measure.Domain && domain == v.Value
	})
}

// longest returns the suspension that lasts longest of those that concern something; nil if none does.
func longest(list []qmgr.SuspensionView, concerns func(*qmgr.SuspensionView) bool) *qmgr.SuspensionView {
	var found *qmgr.SuspensionView
	for i := range list {
		if v := &list[i]; concerns(v) && (found == nil || v.Until > found.Until) {
			found = v
		}
	}
	return found
}

// suspensionOrNil converts a suspension; nil if there is none.
func suspensionOrNil(v *qmgr.SuspensionView) *Suspension {
	if v == nil {
		return nil
	}
	s := suspensionOf(v)
	return &s
}

// suspended sets what a message that rests waits for if it is suspended. first is the first of its recipients
// that wait.
func (sum *Summary) suspended(list []qmgr.SuspensionView, first mail.Address) {
	if len(list) == 0 || sum.Wait != WaitBackoff && sum.Wait != WaitRoom {
		return
	}
	if v := sum.suspendedBy(list, first); v != nil {
		s := suspensionOf(v)
		sum.Wait, sum.WaitReason = WaitSuspended, suspensionReason(&s)
	}
}

// suspensionReason describes a suspension as a wait reason.
func suspensionReason(s *Suspension) *WaitReason {
	return &WaitReason{Kind: "suspended", Text: s.Text(), Until: s.Until, Command: s.Resume()}
}

// ofDestination picks the suspension of a destination that lasts longest: that of its transport, of its
// nexthop as a site or a domain, of itself, or of its only source; nil if there is none.
func ofDestination(list []qmgr.SuspensionView, d *Destination) *Suspension {
	return suspensionOrNil(longest(list, func(v *qmgr.SuspensionView) bool {
		value := ""
		switch v.Scope {
		case measure.Transport:
			value = d.Transport
		case measure.Site, measure.Domain:
			value = d.Nexthop
		case measure.Destination:
			value = d.Transport + ":" + d.Nexthop
			return v.Value == value || d.Source != "" && v.Value == value+" from "+d.Source
		case measure.Source:
			value = d.Source
		}
		return value == v.Value
	}))
}

// ofFlow picks the suspension of a flow's class or tenant that lasts longest; nil if there is none.
func ofFlow(list []qmgr.SuspensionView, f *Flow) *Suspension {
	return suspensionOrNil(longest(list, func(v *qmgr.SuspensionView) bool {
		return v.Scope == measure.Class && v.Value == f.Class || v.Scope == measure.Tenant && v.Value == f.Tenant
	}))
}
