package admin

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/danielgtaylor/huma/v2"

	"github.com/posthaste-mta/posthaste/idn"
	"github.com/posthaste-mta/posthaste/mail"
	"github.com/posthaste-mta/posthaste/qmgr"
)

// An Explanation says why mail waits: one part for each place where it does.
type Explanation struct {
	Subject      string            `json:"subject" example:"message 6C34ED1CB5G00" doc:"What is explained."`
	Ordered      string            `json:"ordered,omitempty" enum:"hold,drop,some,reroute,requeue" doc:"Of a message in core: the order that takes effect when the deliveries under way have ended, as in a list."`
	RequeuedFrom string            `json:"requeued_from,omitempty" doc:"The message in whose place an operator has put it; absent if it has arrived itself."`
	Parts        []ExplanationPart `json:"parts"`
	Routes       []ExplainedRoute  `json:"routes,omitempty" doc:"Different routes that operators have ordered for recipients that wait, at most five."`
	Doubtful     []ExplainedDoubt  `json:"doubtful,omitempty" doc:"Hosts that may have the message already, of the recipients that wait, at most five."`
	More         int               `json:"more,omitempty" doc:"Number of destinations left out."`
}

// An ExplanationPart says why mail waits in one place, and what would change that.
type ExplanationPart struct {
	Place    string       `json:"place,omitempty" doc:"The destination, transport:nexthop; absent for the message as a whole."`
	Code     string       `json:"code" example:"destination-rate" doc:"The reason; docs/diagnosing.md has a section for each."`
	Text     string       `json:"text" doc:"The reason in words."`
	Rule     *BindingRule `json:"rule,omitempty" doc:"The parameter that binds, if one does."`
	Ahead    []string     `json:"ahead,omitempty" doc:"What else waits there."`
	At       *time.Time   `json:"at,omitempty" doc:"When it will go, or the wait ends, as far as that can be known."`
	Basis    string       `json:"basis,omitempty" doc:"What that time is based on."`
	Replies  []LastReply  `json:"replies,omitempty" doc:"Last replies for recipients that wait, at most five different ones."`
	Remedies []string     `json:"remedies" doc:"What would change it."`
}

// A BindingRule is a parameter of the configuration, its value, and where that is set.
type BindingRule struct {
	Key    string `json:"key" example:"transport.smtp.destination_rate"`
	Value  string `json:"value,omitempty" doc:"In TOML."`
	Origin string `json:"origin,omitempty" example:"from default_destination_rate in line 12"`
}

// An ExplainedRoute is a route that an operator has ordered, in force until it is cleared.
type ExplainedRoute struct {
	Reroute
	Recipient string `json:"recipient" doc:"The first recipient that has it."`
	Clear     string `json:"clear" doc:"The command after which the configuration decides again."`
}

// An ExplainedDoubt is a host that may have a message already, and what that leads to.
type ExplainedDoubt struct {
	Doubtful
	Recipient string `json:"recipient" doc:"The first recipient with the most such attempts at the host."`
	Next      string `json:"next" doc:"What happens at the next attempt."`
}

// Text says how often it is unknown whether the host has the message.
func (d *Doubtful) Text() string {
	times := "once"
	if d.Times != 1 {
		times = fmt.Sprintf("%d times", d.Times)
	}
	return d.Host + " may have the message: no reply to its content, " + times
}

// A LastReply is a reply word for word.
type LastReply struct {
	Recipient string     `json:"recipient" doc:"The first recipient that has it."`
	Reply     string     `json:"reply" doc:"Code, status and text, with its line breaks."`
	By        string     `json:"by,omitempty" doc:"The host that sent it."`
	At        *time.Time `json:"at,omitempty"`
}

// The codes of waits that are not those of the core.
const (
	codeReading    = "reading"    // it is in core, and its recipients are being read
	codeRouting    = "routing"    // the route of recipients is being looked up
	codeDelivering = "delivering" // its transactions are under way
	codeDeferring  = "deferring"  // its destination cannot take it, and it is about to be deferred
	codeSettled    = "settled"    // no recipient waits
)

// waitSentences are the texts of the waits outside of the core.
var waitSentences = map[string]string{
	codeReading:         "it is in core, and its recipients are being read from disk",
	codeRouting:         "the route of its recipients is being looked up",
	codeDelivering:      "its transactions are under way",
	codeDeferring:       "its destination cannot be reached now, and it is being put off until its next attempt",
	codeSettled:         "no recipient waits any more; what is left of it is a report, or its removal",
	string(WaitRoom):    "it waits for room in core, which has as much mail as it may",
	string(WaitBackoff): "it was tried, put off, and waits for its next attempt",
	string(WaitRelease): "it is held until an operator releases it",
	string(WaitDate):    "its sender has it kept until a date",
	string(WaitRepair):  "it is damaged, and was put aside",
}

// remedies are what changes each wait. ID, KEY and PLACE stand for the queue ID, the
// parameter and the destination; what needs one that there is not is left out.
var remedies = map[string][]string{
	codeReading:           {"nothing is needed: this takes milliseconds, or as long as the disk needs"},
	codeRouting:           {"nothing is needed unless it lasts: then look at the name servers (dns.servers)"},
	codeDelivering:        {"nothing is needed: the reply of the server ends it, or the timeout of the command it waits for"},
	codeDeferring:         {"posthaste queue destinations PLACE shows why it cannot be reached", "posthaste queue flush ID tries it again at once"},
	codeSettled:           {"nothing is needed"},
	string(WaitRoom):      {"raise qmgr_message_active_limit or qmgr_message_recipient_limit if there is memory for more", "look at what fills the core: posthaste queue destinations"},
	string(WaitSuspended): {"nothing else is needed if it has an end; until then, it expires like other mail"},
	string(WaitBackoff):   {"posthaste queue flush ID tries it now", "lower minimal_backoff_time and maximal_backoff_time to have such mail tried more often"},
	string(WaitRelease):   {"posthaste queue release ID"},
	string(WaitDate):      {"posthaste queue release ID sends it now"},
	string(WaitRepair):    {"posthaste queue show ID says what is damaged; posthaste queue release ID tries to read it again, posthaste queue drop ID removes it"},

	qmgr.WaitStop.String():             {"the next start"},
	qmgr.WaitTransportDead.String():    {"the cause in the log (msg=dead): a program or a socket that cannot be used", "posthaste queue flush tries it now; otherwise it is tried after transport_retry_time"},
	qmgr.WaitDead.String():             {"the destination answers again; it is tried at the time above", "posthaste queue flush ID tries it now", "posthaste queue flush tries all deferred mail and all dead destinations now", "another route for it in [routes], or a fallback_relay"},
	qmgr.WaitDestinationDelay.String(): {"lower KEY"},
	qmgr.WaitDestinationRate.String():  {"raise KEY, if the receiver allows it"},
	qmgr.WaitTransportRate.String():    {"raise KEY, or send some of the mail by another transport"},
	qmgr.WaitTransportDelay.String():   {"lower KEY"},
	qmgr.WaitProcessLimit.String():     {"raise KEY if there are file descriptors and memory for it"},
	qmgr.WaitConnectionLimit.String():  {"raise KEY if there are file descriptors for it"},
	qmgr.WaitWindow.String():           {"successful deliveries, with which the window grows up to destination_concurrency_limit", "raise KEY if the receiver takes more at once"},
	qmgr.WaitMessageShare.String():     {"other mail gets done, which needs these connections", "raise KEY"},
	qmgr.WaitDestinationShare.String(): {"other destinations get done", "raise KEY"},
	qmgr.WaitSlowStart.String():        {"the connections that are being opened answer", "raise KEY if the receiver takes many connections at once"},
	qmgr.WaitConnectionRate.String():   {"raise KEY, if the receiver allows it"},
	qmgr.WaitHostLimit.String():        {"raise KEY if the hosts take more connections", "posthaste queue hosts PLACE shows them"},
	qmgr.WaitHostBusy.String():         {"the hosts take more connections again, which is tried within minutes", "posthaste queue hosts PLACE shows what they said"},
	qmgr.WaitLocalOutage.String():      {"the network of this machine: routes, firewall, name servers", "posthaste queue flush, once it works again; otherwise it is noticed within a minute"},
	qmgr.WaitHostLookup.String():       {"an answer of the name servers (dns.servers)"},
	qmgr.WaitConnecting.String():       {"the host accepts the connection, or does not within smtp_connect_timeout"},
	qmgr.WaitDetour.String():           {"nothing is needed: such mail takes turns, and has one of the destination's connections whatever else waits"},
	qmgr.WaitTransaction.String():      {"replies to what was sent; a higher pipelining_in_flight, if pipelining is \"stream\""},
	qmgr.WaitSpread.String():           {"the next start, which is due within the time of a transaction"},
	qmgr.WaitTurn.String():             {"nothing is needed: it is next when the mail ahead has started", "a class with a larger weight, or a transport of its own, for mail that must not wait"},
	qmgr.WaitReportTurn.String():       {"nothing is needed: reports take turns"},
	qmgr.WaitLookups.String():          {"an answer of the name servers (dns.servers)", "raise lookup_limit if they are far away"},
}

type explainInput struct {
	ID          string `query:"id" maxLength:"64" doc:"A queue ID."`
	Recipient   string `query:"recipient" maxLength:"512" doc:"With id: only this recipient."`
	Destination string `query:"destination" maxLength:"1024" doc:"A destination, as in /v1/destinations/{name}."`
	Flow        string `query:"flow" maxLength:"512" doc:"A flow, in which * stands for any text; the first that matches is explained."`
}

type explainOutput struct{ Body Explanation }

// why explains the wait of a message, a destination or a flow.
func (s *Server) why(ctx context.Context, in *explainInput) (*explainOutput, error) {
	given := 0
	for _, text := range []string{in.ID, in.Destination, in.Flow} {
		if text != "" {
			given++
		}
	}
	if given != 1 || in.Recipient != "" && in.ID == "" {
		return nil, unprocessable("query", nil, "give one of id, destination and flow, and recipient only with id")
	}
	var (
		x   Explanation
		err error
	)
	switch {
	case in.ID != "":
		x, err = s.whyMessage(ctx, in.ID, in.Recipient)
	case in.Destination != "":
		x, err = s.whyDestination(ctx, in.Destination)
	default:
		x, err = s.whyFlow(ctx, in.Flow)
	}
	if err != nil {
		return nil, err
	}
	for i := range x.Parts {
		p := &x.Parts[i]
		p.Remedies = append(p.Remedies, remediesOf(p, in.ID)...)
	}
	return &explainOutput{x}, nil
}

// remediesOf returns what would change the wait of a part; id is the queue ID of the message
// that is explained, "" if none is.
func remediesOf(p *ExplanationPart, id string) (all []string) {
	key := ""
	if p.Rule != nil {
		key = p.Rule.Key
	}
	for _, text := range remedies[p.Code] {
		switch {
		case key == "" && strings.Contains(text, "KEY"), id == "" && strings.Contains(text, "ID"), p.Place == "" && strings.Contains(text, "PLACE"):
		case p.Code == qmgr.WaitWindow.String() && key != "" && !strings.Contains(text, "KEY"): // it grows no more
		default:
			all = append(all, strings.NewReplacer("ID", id, "KEY", key, "PLACE", p.Place).Replace(text))
		}
	}
	return all
}

func (s *Server) whyMessage(ctx context.Context, id, recipient string) (Explanation, error) {
	m, err := s.message(ctx, id)
	if err != nil {
		return Explanation{}, err
	}
	sum, first, err := s.summary(ctx, &m, 0)
	if err != nil {
		return Explanation{}, s.problem(ctx, err)
	}
	core := &s.explain(ctx, []Message{m}, placesMax)[0]
	sum.locate(&m, core, instant(time.Now()))
	sum.suspended(s.inForce(ctx), first)
	x := Explanation{Subject: "message " + sum.ID, Ordered: sum.Ordered, More: core.view.More}
	if m.Envelope.Requeued != 0 {
		x.RequeuedFrom = m.Envelope.Requeued.String()
	}
	if recipient != "" {
		x.Subject, x.More = x.Subject+", recipient "+recipient, 0
		part, r, err := s.whyRecipient(ctx, &sum, &m, core, mail.Address(recipient))
		x.Parts = []ExplanationPart{part}
		if r != nil && !r.Outcome.Result.Settled() {
			if route := explainedRoute(m.Envelope.ID, r, true); route != nil {
				x.Routes = []ExplainedRoute{*route}
			}
			x.Doubtful = withDoubts(nil, r)
		}
		return x, err
	}
	replies, err := s.lastReplies(ctx, m.Envelope.ID, &x)
	if err != nil && !errors.Is(err, ErrDamaged) {
		return x, s.problem(ctx, fmt.Errorf("read recipients of %s: %w", id, err))
	}
	x.Parts = s.messageParts(ctx, &sum, &m, core)
	if len(x.Parts) > 0 {
		x.Parts[0].Replies = replies
	}
	return x, nil
}

// whyRecipient says why one recipient of a message waits, and returns the recipient.
func (s *Server) whyRecipient(ctx context.Context, sum *Summary, m *Message, core *whereabouts, address mail.Address) (p ExplanationPart, r *mail.RecipientOutcome, err error) {
	r, err = s.recipient(ctx, m.Envelope.ID, address)
	switch {
	case err != nil:
		return p, nil, s.problem(ctx, fmt.Errorf("read recipients of %s: %w", sum.ID, err))
	case r == nil:
		return p, nil, huma.Error404NotFound("the message has no recipient " + clip(string(address)))
	}
	switch {
	case r.Outcome.Result.Settled():
	case sum.Wait == WaitCore:
		p = s.recipientPart(ctx, m.Envelope.ID, r)
	default:
		p = s.messageParts(ctx, sum, m, core)[0]
	}
	if r.Outcome.Result.Settled() {
		p = ExplanationPart{Code: codeSettled, Text: "this recipient does not wait: " + r.Outcome.Result.String()}
	}
	if reply := replyOf(r); reply.Reply != "" {
		p.Replies = []LastReply{reply}
	}
	return p, r, nil
}

// withDoubts returns all with the hosts that may have the message for a recipient, each with the most attempts.
func withDoubts(all []ExplainedDoubt, r *mail.RecipientOutcome) []ExplainedDoubt {
	for _, one := range r.Outcome.Doubts.All() {
		x := ExplainedDoubt{Doubtful: Doubtful{Host: one.Host.String(), Times: int(one.Times)}, Recipient: string(r.Recipient.Address)}
		x.Next = fmt.Sprintf("after %d such attempts, other hosts of the destination come first for this message", mail.DoubtsEnough)
		if one.Times >= mail.DoubtsEnough {
			x.Next = "other hosts of the destination come first for this message, those of worse preference and fallback_relay too, as far as the limits of the destination allow that; it goes to this one if none of them can be reached"
		}
		i := slices.IndexFunc(all, func(known ExplainedDoubt) bool { return known.Host == x.Host })
		switch {
		case i < 0 && len(all) < repliesMax:
			all = append(all, x)
		case i >= 0 && all[i].Times < x.Times:
			all[i] = x
		}
	}
	return all
}

// explainedRoute returns the route of a recipient that an operator has ordered; nil if there is none. alone says that only
// this recipient is explained.
func explainedRoute(id mail.QueueID, r *mail.RecipientOutcome, alone bool) *ExplainedRoute {
	to := rerouteOf(r.Outcome.Ordered)
	if to == nil {
		return nil
	}
	x := &ExplainedRoute{Reroute: *to, Recipient: string(r.Recipient.Address), Clear: "posthaste queue reroute --clear " + id.String()}
	if alone {
		x.Clear += " --recipient " + quoted(x.Recipient)
	}
	return x
}

// recipientPart says why a recipient of a message in core waits. It sets the recipient's
// outcome to a later one that is not durable yet.
func (s *Server) recipientPart(ctx context.Context, id mail.QueueID, r *mail.RecipientOutcome) ExplanationPart {
	v, err := ask(ctx, func(ctx context.Context) (qmgr.RecipientView, error) {
		return s.scheduler.ExplainRecipient(ctx, id, r.Recipient.Index)
	})
	if v.Outcome.Result != mail.Pending {
		doubts, ordered := r.Outcome.Doubts, r.Outcome.Ordered
		if r.Outcome = v.Outcome; !r.Outcome.Result.Settled() { // as the spool will have it
			r.Outcome.Doubts, r.Outcome.Ordered = cmp.Or(r.Outcome.Doubts, doubts), ordered
		}
	}
	switch {
	case v.Place != nil:
		return s.placePart(ctx, v.Place)
	case v.Routing:
		return ExplanationPart{Code: codeRouting, Text: waitSentences[codeRouting]}
	case err == nil && !v.Unread && r.Outcome.Result == mail.Deferred:
		return ExplanationPart{Code: string(WaitBackoff), Text: "it was tried, put off, and waits for the next attempt of its message, which is in core for other recipients"}
	}
	return ExplanationPart{Code: codeReading, Text: waitSentences[codeReading]}
}

// messageParts says why a message waits, place by place if it is in core.
func (s *Server) messageParts(ctx context.Context, sum *Summary, m *Message, core *whereabouts) (parts []ExplanationPart) {
	plain := func(code string, at *time.Time, basis string) ExplanationPart {
		return ExplanationPart{Code: code, Text: waitSentences[code], At: at, Basis: basis}
	}
	switch {
	case sum.Waiting == 0 && sum.Wait != WaitRelease && sum.Wait != WaitRepair && sum.Damage == "":
		return []ExplanationPart{plain(codeSettled, nil, "")}
	case sum.Wait == WaitParked:
		return []ExplanationPart{s.part("", &qmgr.WaitReason{Kind: core.view.Parked}, "")}
	case sum.Wait == WaitSuspended:
		return []ExplanationPart{suspendedPart("", sum.WaitReason)}
	case sum.Wait == WaitBackoff:
		return []ExplanationPart{plain(string(WaitBackoff), sum.Due, "the time of its next attempt, which its last one has set")}
	case sum.Wait == WaitDate:
		return []ExplanationPart{plain(string(WaitDate), sum.Until, "the date that its sender has given")}
	case sum.Wait == WaitRelease:
		p := plain(string(WaitRelease), sum.Until, "")
		if p.At != nil {
			p.Basis = "it is removed then, since it is not held by an operator"
		}
		if sum.Reason != "" {
			p.Text += ": " + sum.Reason
		}
		if date := m.Envelope.Release; date > instant(time.Now()) {
			p.Ahead = []string{fmt.Sprintf("after its release it waits until %s, the date that its sender has given", wall(date).Format(time.RFC3339))}
		}
		return []ExplanationPart{p}
	case sum.Wait == WaitRoom:
		p := plain(string(WaitRoom), nil, "")
		if v, err := s.view(ctx, 0); err == nil && !v.Behind {
			p.Text = "it waits on disk to come into core: it has just become due, or its flow, or all mail that is tried again, has its part of the room there in use"
		}
		return []ExplanationPart{p}
	case sum.Wait != WaitCore:
		return []ExplanationPart{plain(string(sum.Wait), nil, "")}
	}
	for i := range core.view.Places {
		parts = append(parts, s.placePart(ctx, &core.view.Places[i]))
	}
	if core.view.Routing > 0 {
		parts = append(parts, plain(codeRouting, nil, ""))
	}
	if len(parts) == 0 {
		parts = append(parts, plain(codeReading, nil, ""))
	}
	return parts
}

// placePart says why a message waits at one destination.
func (s *Server) placePart(ctx context.Context, v *qmgr.PlaceView) ExplanationPart {
	name := v.Transport + ":" + v.Nexthop
	switch {
	case v.Instead != (mail.Origin{}):
		return ExplanationPart{Place: insteadOf(v.Instead), Code: codeDeferring, Text: waitSentences[codeDeferring]}
	case v.WaitReason.Kind == qmgr.WaitNone:
		return ExplanationPart{Place: name, Code: codeDelivering, Text: waitSentences[codeDelivering]}
	}
	p := s.part(name, &v.WaitReason, v.Transport)
	s.measure(ctx, &p, v.Transport, v.Nexthop, &v.WaitReason)
	if v.Sharing.Flows > 1 {
		p.Ahead = append(p.Ahead, fmt.Sprintf("%d flows share the destination; its flow has %.1f %%, and %s",
			v.Sharing.Flows, float64(v.Sharing.Share)/10, turnsText(v.Sharing.Turns)))
	}
	return p
}

// suspendedPart says what is suspended, and which command ends that.
func suspendedPart(place string, w *WaitReason) ExplanationPart {
	p := ExplanationPart{Place: place, Code: w.Kind, Text: w.Text, At: w.Until, Remedies: []string{w.Command}}
	if p.At != nil {
		p.Basis = "the end of the suspension; its mail goes at once then"
	}
	return p
}

// turnsText says how many deliveries of other flows start first at most.
func turnsText(turns int) string {
	switch turns {
	case 0:
		return "its next delivery starts first"
	case 1:
		return "at most one delivery of another starts before its next one"
	}
	return fmt.Sprintf("at most %d deliveries of others start before its next one", turns)
}

// part says what a wait reason is.
func (s *Server) part(place string, o *qmgr.WaitReason, transport string) ExplanationPart {
	w := waitReasonOf(o, transport)
	p := ExplanationPart{Place: place, Code: w.Kind, Text: w.Text, At: w.Until}
	if w.Until != nil {
		p.Basis = "this wait ends then at the latest; another may follow"
	}
	if w.Key != "" {
		p.Rule = &BindingRule{Key: w.Key}
		if s.cfg.Configuration != nil {
			p.Rule.Value, p.Rule.Origin = s.cfg.Configuration.Where(w.Key)
		}
		if o.Kind == qmgr.WaitConnectionLimit && p.Rule.Value != "" && p.Rule.Value != strconv.Itoa(o.Limit) {
			p.Rule.Origin += fmt.Sprintf("; %d are in force, because there are no more file descriptors or no more memory", o.Limit)
		}
	}
	return p
}

// measure adds what waits at a destination, and estimates how long that takes.
func (s *Server) measure(ctx context.Context, p *ExplanationPart, transport, nexthop string, o *qmgr.WaitReason) {
	limited, cancel := context.WithTimeout(ctx, coreTimeout)
	defer cancel()
	v, held, err := s.scheduler.Destination(limited, transport, nexthop, DestinationsMax)
	if err != nil || !held || v.Queue.Todo == 0 {
		return
	}
	todo := v.Queue.Todo
	text := fmt.Sprintf("%d %s of %d %s %s for this destination", todo, plural(todo, "delivery", "deliveries"),
		v.Messages, plural(v.Messages, "message", "messages"), plural(todo, "waits", "wait"))
	if v.Oldest != 0 {
		text += fmt.Sprintf(", the oldest since %s", wall(v.Oldest).Format(time.RFC3339))
	}
	p.Ahead = append(p.Ahead, text)
	if c := v.Queue.Connections; c.Ready == 0 && c.Connecting > 0 {
		p.Ahead = append(p.Ahead, fmt.Sprintf("no connection is open; of %s no host has answered yet", opening(c.Connecting)))
	}
	p.Ahead = append(p.Ahead, ruleNotes(&v.Queue)...)
	shared := o.Kind == qmgr.WaitTransportRate || o.Kind == qmgr.WaitTransportDelay
	switch all, basis := drainTime(&v, o); {
	case all <= 0 || all >= 365*24*time.Hour:
	case shared: // other destinations use up the same limit
		p.Ahead = append(p.Ahead, fmt.Sprintf("they take at least %s in all, and longer if the transport has other mail: %s", pauseText(all.Round(time.Second)), basis))
	case p.At != nil:
		p.Ahead = append(p.Ahead, fmt.Sprintf("they take about %s in all: %s", pauseText(all.Round(time.Second)), basis))
	default:
		at := time.Now().Add(all).UTC()
		p.At, p.Basis = &at, "by then all that waits there has gone, if nothing changes: "+basis
	}
}

// opening counts connections that are being opened.
func opening(n int) string {
	if n == 1 {
		return "the one that is being opened"
	}
	return fmt.Sprintf("the %d that are being opened", n)
}

// ruleNotes says which rules on replies hold for a destination.
func ruleNotes(q *qmgr.QueueView) (notes []string) {
	if q.Rule != "" {
		notes = append(notes, "it rests by the rule [reply_rule."+q.Rule+"]")
	}
	if q.Lowered != "" {
		text := "the rule [reply_rule." + q.Lowered + "] has lowered its limits"
		if at := wallOrNil(q.LoweredUntil); at != nil {
			text += " until " + at.Format(time.RFC3339)
		}
		notes = append(notes, text)
	}
	return notes
}

// drainTime estimates the time until all that waits for a destination has gone; 0 if there is
// nothing to base it on.
func drainTime(v *qmgr.DestinationView, o *qmgr.WaitReason) (all time.Duration, basis string) {
	todo := v.Queue.Todo
	switch {
	case o.Rate.N > 0 && o.Kind != qmgr.WaitConnectionRate: // a connection carries any number of deliveries
		return time.Duration(float64(todo) / float64(o.Rate.N) * float64(o.Rate.Per)), fmt.Sprintf("%d deliveries at %v", todo, o.Rate)
	case o.Pause > 0:
		return time.Duration(todo) * o.Pause, fmt.Sprintf("%d deliveries, %s apart", todo, pauseText(o.Pause))
	}
	var each time.Duration
	hosts := 0
	for i := range v.Hosts {
		if k := &v.Hosts[i].Known; k.Service > 0 {
			each, hosts = each+k.Service+k.RTT, hosts+1
		}
	}
	open := max(v.Queue.Connections.Ready, min(v.Queue.Busy, v.Queue.Window))
	if hosts == 0 || open == 0 {
		return 0, ""
	}
	each /= time.Duration(hosts)
	return time.Duration(todo) * each / time.Duration(open), fmt.Sprintf("%d deliveries over %d connections, each of which takes about %s", todo, open, each.Round(time.Millisecond))
}

func (s *Server) whyDestination(ctx context.Context, name string) (Explanation, error) {
	found, err := s.destination(ctx, &destinationInput{Name: name, Limit: 1})
	if err != nil {
		transport, nexthop, full := strings.Cut(name, ":")
		if !full || strings.HasPrefix(name, "[") {
			transport, nexthop = "", name
		}
		if v := ofDestination(s.inForce(ctx), &Destination{Transport: transport, Nexthop: strings.ToLower(idn.Nexthop(nexthop))}); v != nil { // its mail has left the core
			return Explanation{Subject: "destination " + name, Parts: []ExplanationPart{suspendedPart(name, suspensionReason(v))}}, nil
		}
		var unknown *huma.ErrorModel
		if errors.As(err, &unknown) && unknown.Status == http.StatusNotFound {
			unknown.Detail += ". A domain with a route is not known by its own name; posthaste queue list --domain lists the mail to a domain, deferred mail included, and posthaste explain ID says why one message waits"
		}
		return Explanation{}, err
	}
	d := &found.Body
	x := Explanation{Subject: "destination " + d.Name}
	if v := ofDestination(s.inForce(ctx), &d.Destination); v != nil {
		x.Parts = []ExplanationPart{suspendedPart(d.Name, suspensionReason(v))}
		return x, nil
	}
	limited, cancel := context.WithTimeout(ctx, viewTimeout)
	defer cancel()
	v, held, err := s.scheduler.Destination(limited, d.Transport, d.Nexthop, 1)
	if err != nil {
		return x, s.problem(ctx, fmt.Errorf("%w: %w", errCore, err))
	}
	if d.Reason != "" { // it is dead, and its mail was deferred
		x.Parts = []ExplanationPart{{Place: d.Name, Code: qmgr.WaitDead.String(), Text: waitTexts[qmgr.WaitDead], At: d.Until, Ahead: ruleNotes(&v.Queue), Replies: []LastReply{{Reply: d.Reason}}}}
		if d.Until != nil {
			x.Parts[0].Basis = "the time when it is tried again"
		}
		return x, nil
	}
	if !held || v.Queue.WaitReason.Kind == qmgr.WaitNone {
		x.Parts = []ExplanationPart{{Place: d.Name, Code: codeSettled, Text: "nothing waits for it"}}
		if d.Busy > 0 {
			x.Parts[0].Code = codeDelivering
			x.Parts[0].Text = fmt.Sprintf("nothing waits for it; %d transactions are under way", d.Busy)
		}
		return x, nil
	}
	p := s.part(d.Name, &v.Queue.WaitReason, d.Transport)
	s.measure(ctx, &p, d.Transport, d.Nexthop, &v.Queue.WaitReason)
	if d.Failure != nil {
		p.Replies = []LastReply{{Reply: d.Failure.Reply, At: &d.Failure.At}}
	}
	x.Parts = []ExplanationPart{p}
	return x, nil
}

func (s *Server) whyFlow(ctx context.Context, name string) (Explanation, error) {
	match, err := parsePatterns("flow", []string{name}, parseGlob)
	if err != nil {
		return Explanation{}, invalid("query", err)
	}
	list, err := ask(ctx, func(ctx context.Context) (qmgr.FlowList, error) {
		return s.scheduler.Flows(ctx, qmgr.FlowQuery{Most: 1, Match: func(f mail.Flow) bool { return match.match(f.Flow) }})
	})
	if err != nil {
		return Explanation{}, s.problem(ctx, err)
	}
	if len(list.Flows) == 0 {
		return Explanation{}, huma.Error404NotFound("no flow " + clip(name) + " has mail in core, or had some lately; mail on disk is listed by posthaste queue list --flow")
	}
	f := &list.Flows[0]
	if v := ofFlow(s.inForce(ctx), &Flow{Class: f.Flow.Class, Tenant: f.Flow.Tenant}); v != nil {
		return Explanation{Subject: "flow " + f.Flow.Flow, Parts: []ExplanationPart{suspendedPart("", suspensionReason(v))}}, nil
	}
	x := Explanation{Subject: fmt.Sprintf("flow %s of tenant %s, class %s", f.Flow.Flow, f.Flow.Tenant, f.Flow.Class), More: f.More}
	for i := range f.Places {
		at := &f.Places[i]
		limited, cancel := context.WithTimeout(ctx, coreTimeout)
		v, held, err := s.scheduler.Destination(limited, at.Transport, at.Nexthop, 1)
		cancel()
		if err == nil && held && at.Waiting > 0 {
			x.Parts = append(x.Parts, s.placePart(ctx, &qmgr.PlaceView{Transport: at.Transport, Nexthop: at.Nexthop, Waiting: at.Waiting, Busy: at.Busy,
				WaitReason: v.Queue.WaitReason, Sharing: at.Sharing}))
		}
	}
	if len(x.Parts) == 0 {
		x.Parts = []ExplanationPart{{Code: codeDelivering, Text: fmt.Sprintf("nothing of it waits; %d transactions are under way", f.Busy)}}
	}
	return x, nil
}

// repliesMax is the maximum number of different replies in an explanation, and
// repliesLook the number of recipients that are looked at for them.
const (
	repliesMax  = 5
	repliesLook = 1000
)

// replyOf returns the last reply for a recipient; its Reply is "" before the first attempt.
func replyOf(r *mail.RecipientOutcome) LastReply {
	return LastReply{Recipient: string(r.Recipient.Address), Reply: r.Outcome.Reply.Said().Lines(), By: r.Outcome.Reply.By, At: wallOrNil(r.Outcome.At)}
}

// lastReplies returns different last replies for recipients that wait. It adds to x the routes that operators have ordered for
// them, and the hosts that may have the message.
func (s *Server) lastReplies(ctx context.Context, id mail.QueueID, x *Explanation) (replies []LastReply, err error) {
	seen := 0
	err = s.eachRecipient(ctx, id, true, func(r *mail.RecipientOutcome) bool {
		if one := replyOf(r); one.Reply != "" && !said(replies, one.Reply) {
			replies = append(replies, one)
		}
		if one := explainedRoute(id, r, false); one != nil && len(x.Routes) < repliesMax && !leads(x.Routes, one) {
			x.Routes = append(x.Routes, *one)
		}
		x.Doubtful = withDoubts(x.Doubtful, r)
		seen++
		return len(replies) < repliesMax && seen < repliesLook
	})
	return replies, err
}

func leads(routes []ExplainedRoute, to *ExplainedRoute) bool {
	for i := range routes {
		if routes[i].Reroute == to.Reroute {
			return true
		}
	}
	return false
}

// recipient returns the recipient of a message with an address: the first that waits if
// there are several; nil if there is none.
func (s *Server) recipient(ctx context.Context, id mail.QueueID, address mail.Address) (found *mail.RecipientOutcome, err error) {
	err = s.eachRecipient(ctx, id, false, func(r *mail.RecipientOutcome) bool {
		if strings.EqualFold(string(r.Recipient.Address), string(address)) && (found == nil || !r.Outcome.Result.Settled()) {
			one := *r
			found = &one
		}
		return found == nil || found.Outcome.Result.Settled()
	})
	return found, err
}

func said(replies []LastReply, text string) bool {
	for i := range replies {
		if replies[i].Reply == text {
			return true
		}
	}
	return false
}
