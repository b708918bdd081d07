package daemon

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"sync/atomic"

	"github.com/posthaste-mta/posthaste/admin"
	"github.com/posthaste-mta/posthaste/config"
	"github.com/posthaste-mta/posthaste/driver"
	"github.com/posthaste-mta/posthaste/inbound"
	"github.com/posthaste-mta/posthaste/mail"
	"github.com/posthaste-mta/posthaste/outbound"
	"github.com/posthaste-mta/posthaste/qmgr"
	"github.com/posthaste-mta/posthaste/report"
	"github.com/posthaste-mta/posthaste/route"
	"github.com/posthaste-mta/posthaste/spool"
	"github.com/posthaste-mta/posthaste/verp"
)

// The adapters below join packages that do not know each other: each port is
// declared by the package that needs it, and this program alone sees both ends.

// intake is inbound's sink: the spool, signatures, and a word to the driver when a message
// has become durable.
type intake struct {
	spool   *spool.Spool
	signer  *signer
	policy  *policy
	verp    *atomic.Pointer[verp.Rules]
	arrived func(mail.Arrival)
}

func (s *intake) Begin(ctx context.Context, size int64) (inbound.Draft, error) {
	if err := s.spool.Room(size); err != nil {
		return nil, intakeError(err)
	}
	d, err := s.spool.Begin(ctx)
	if err != nil {
		return nil, intakeError(err)
	}
	return &intakeDraft{s.signer.begin(d), s}, nil
}

func (s *intake) Waiting(f mail.Flow) mail.Waiting { return s.spool.Waiting(f) }

// A fullError is the spool's error that there is no room, in another package's words too.
type fullError struct{ why, is error }

func (e fullError) Error() string   { return e.why.Error() }
func (e fullError) Unwrap() []error { return []error{e.why, e.is} }

func intakeError(err error) error {
	if errors.Is(err, spool.ErrFull) {
		return fullError{err, inbound.ErrFull}
	}
	return err
}

// bodies gives outbound the content of messages.
type bodies struct{ spool *spool.Spool }

func (b bodies) Body(ctx context.Context, id mail.QueueID) (outbound.Body, error) {
	c, err := b.spool.Content(ctx, id)
	if err != nil {
		return nil, err
	}
	return &body{content: c, Reader: c.Reader()}, nil
}

type body struct {
	content spool.Content
	io.Reader
}

func (b *body) Size() int64   { return b.content.Size }
func (b *body) Bytes() []byte { return b.content.Bytes }
func (b *body) Close() error  { return b.content.Close() }

// programBodies gives pipe the content of messages.
type programBodies struct{ spool *spool.Spool }

func (b programBodies) Open(ctx context.Context, id mail.QueueID) (io.ReadCloser, error) {
	c, err := b.spool.Content(ctx, id)
	if err != nil {
		return nil, err
	}
	return &body{content: c, Reader: c.Reader()}, nil
}

// reportSpool is the reporter's spool.
type reportSpool struct {
	*spool.Spool
	signer *signer
}

func (s reportSpool) Open(ctx context.Context, id mail.QueueID, max int) (mail.Envelope, mail.Place, mail.RecipientBatch, error) {
	e, p, b, err := s.Spool.Open(ctx, id, max)
	return e, p, b, reportError(err)
}

func (s reportSpool) Debts(ctx context.Context, id mail.QueueID, from uint32, max int) ([]mail.RecipientOutcome, bool, error) {
	list, more, err := s.Spool.Debts(ctx, id, from, max)
	return list, more, reportError(err)
}

func (s reportSpool) Content(ctx context.Context, id mail.QueueID) (io.ReadCloser, error) {
	r, err := openContent(ctx, s.Spool, id)
	return r, reportError(err)
}

func (s reportSpool) Begin(ctx context.Context) (report.Draft, error) {
	d, err := s.Spool.BeginReport(ctx)
	if err != nil {
		return nil, err
	}
	return &reportDraft{s.signer.begin(d)}, nil
}

func (s reportSpool) BeginCopy(ctx context.Context) (report.Draft, error) {
	return s.Spool.BeginReport(ctx)
}

func reportError(err error) error {
	if errors.Is(err, spool.ErrGone) {
		return fmt.Errorf("%w: %w", report.ErrGone, err)
	}
	return err
}

// router answers the driver from what is in force; a lookup ends with what it
// began with.
type router struct {
	agents  *agents
	reports *tlsReports // nil: none
	desk    *desk
}

func (r router) Route(sender mail.Address, asked mail.TLSRequest, recipients []mail.Recipient) []mail.Route {
	set := r.agents.join()
	defer set.users.Done()
	routes := set.router.RouteFrom(sender, asked, recipients)
	set.refuseOrdered(recipients, routes)
	r.desk.redirect(recipients, routes)
	r.reports.notes(routes...)
	return routes
}

// refuseOrdered has the mail wait whose route was ordered by an operator when there was a transport that has been
// removed from the configuration since.
func (s *agentSet) refuseOrdered(recipients []mail.Recipient, routes []mail.Route) {
	for i := range recipients {
		to := recipients[i].Ordered
		if to == nil {
			continue
		}
		if _, known := s.transports[routes[i].Transport]; !known {
			routes[i] = mail.Route{Transport: route.TransportRetry, Reply: mail.Reply{Code: 451, Status: mail.Status{Class: 4, Subject: 3, Detail: 5},
				Text: mail.CleanText(fmt.Sprintf("an operator has ordered the route %s, and there is no transport %q any more", to.Target, routes[i].Transport))}}
		}
	}
}

func (r router) Lookup(ctx context.Context, to mail.Route, asked mail.TLSRequest) mail.Route {
	set := r.agents.join()
	defer set.users.Done()
	to = set.router.Lookup(ctx, to, asked)
	r.reports.notes(to)
	return to
}

// verifier answers inbound from memory where it can, and asks the core for a lookup
// where it cannot.
type verifier struct {
	agents *agents
	driver *driver.Driver
	desk   *desk
}

func (v verifier) Known(client mail.Client, sender, recipient mail.Address) (reason mail.Reply, ok bool) {
	to, callout := v.route(client, sender, recipient)
	return to.Reply, !to.NeedsLookup && !callout
}

func (v verifier) Verify(ctx context.Context, client mail.Client, sender, recipient mail.Address) (reason mail.Reply) {
	switch to, callout := v.route(client, sender, recipient); {
	case callout:
		return v.driver.CallOut(ctx, client.Addr, recipient, to)
	case to.NeedsLookup:
		return v.driver.Verify(ctx, client.Addr, to)
	default:
		return to.Reply
	}
}

// route returns what is known of a recipient, and whether to call out to its receiver.
// A recipient that a program on this machine names is accepted: such a program can often
// do nothing but lose the message, while a report says what is wrong. So is one that the
// operator wants to keep here (transport retry).
func (v verifier) route(client mail.Client, sender, recipient mail.Address) (to mail.Route, callout bool) {
	set := v.agents.join()
	defer set.users.Done()
	if set.verifies == config.VerifyNothing || !client.Addr.IsValid() || v.desk.takes(recipient) {
		return mail.Route{}, false
	}
	to = set.router.Verify(bySender(sender), recipient)
	if to.Transport == route.TransportRetry {
		return mail.Route{}, false
	}
	if set.verifies == config.VerifyCallout && to.Reply.IsZero() {
		// The same way that mail goes: the verdict on a domain does not say which
		// site it is.
		to = set.router.RouteFrom(bySender(sender), mail.TLSUnset, []mail.Recipient{{Address: recipient}})[0]
		return to, to.Reply.IsZero()
	}
	return to, false
}

// bySender returns a sender as routes name it.
func bySender(a mail.Address) mail.Address {
	if a == "" {
		return qmgr.NullSender
	}
	return a
}

// adminStore is the administration's view of the spool.
type adminStore struct{ spool *spool.Spool }

func (s adminStore) Find(ctx context.Context, area mail.Area, from mail.Cursor, max int) (mail.Found, error) {
	return s.spool.Find(ctx, area, from, max)
}

func (s adminStore) Sweep(ctx context.Context, from mail.QueueID, in admin.Interest, visit func(*admin.Sight) bool) error {
	var sight admin.Sight
	of := spool.Interest{Envelope: in.Envelope, Recipient: in.Recipient, Outcome: in.Outcome, Passed: in.Passed, Brief: in.Brief, Whole: in.Whole}
	return s.spool.Sweep(ctx, from, of, func(m *spool.Sight) bool {
		sight.Message, sight.Recipients, sight.Long = shownMessage(&m.Summary), m.Recipients, m.Long
		return visit(&sight)
	})
}

func (s adminStore) Show(ctx context.Context, id mail.QueueID) (admin.Message, error) {
	m, err := s.spool.Lookup(ctx, id)
	if err != nil {
		return admin.Message{}, adminError(err)
	}
	return shownMessage(&m), nil
}

func shownMessage(m *spool.Summary) admin.Message {
	shown := admin.Message{Envelope: m.Envelope, Place: m.Place, Settled: m.Settled, Reason: m.Reason}
	if m.Err != nil {
		shown.Damage = m.Err.Error()
	}
	return shown
}

func (s adminStore) Recipients(ctx context.Context, id mail.QueueID, q admin.RecipientQuery) (admin.RecipientList, error) {
	list, more, err := s.spool.Outcomes(ctx, id, q.From, q.Max)
	if err != nil {
		return admin.RecipientList{}, adminError(err)
	}
	out := admin.RecipientList{Next: q.From, More: more}
	for _, r := range list {
		out.Next = r.Recipient.Index + 1
		if !q.Waiting || !r.Outcome.Result.Settled() {
			out.Recipients = append(out.Recipients, r)
		}
	}
	return out, nil
}

func (s adminStore) Content(ctx context.Context, id mail.QueueID) (io.ReadCloser, error) {
	r, err := openContent(ctx, s.spool, id)
	return r, adminError(err)
}

func (s adminStore) Counts(ctx context.Context) (admin.Counts, error) {
	st, err := s.spool.Stats(ctx)
	if err != nil {
		return admin.Counts{}, err
	}
	count := func(a mail.Area) int64 { return int64(st.Messages[a]) }
	var damaged []admin.DamagedFile
	for _, f := range st.Damaged {
		damaged = append(damaged, admin.DamagedFile(f))
	}
	refusing := ""
	if err := s.spool.Room(0); err != nil {
		refusing = err.Error()
	}
	return admin.Counts{Refusing: refusing, Damaged: damaged, Incoming: count(mail.AreaIncoming), Deferred: count(mail.AreaDeferred), Hold: count(mail.AreaHold),
		Corrupt: count(mail.AreaCorrupt), Used: int64(st.StoreOctets + st.FileOctets), Free: st.Free}, nil
}

// adminControl gives the administration's orders to the driver.
type adminControl struct {
	*driver.Driver
	spool *spool.Spool
}

func (c adminControl) Reserve(size int64) (mail.QueueID, error) {
	id, err := c.spool.Reserve(size)
	return id, adminError(err)
}

// readmission returns the rules by which mail is accepted now.
func (d *Daemon) readmission() admin.Readmission { return d.inbound.Readmission() }

func adminError(err error) error {
	switch {
	case errors.Is(err, spool.ErrFull):
		return fullError{err, admin.ErrFull}
	case errors.Is(err, spool.ErrGone):
		return fmt.Errorf("%w: %w", admin.ErrGone, err)
	case errors.Is(err, spool.ErrCorrupt):
		return fmt.Errorf("%w: %w", admin.ErrDamaged, err)
	}
	return err
}

// flushQueue has the mail tried that clients ask for, as an operator would.
type flushQueue struct{ admin *admin.Server }

func (q flushQueue) Retry(ctx context.Context, domains []string, reason string) (messages int, err error) {
	return q.admin.RetryDomains(ctx, domains, "etrn", reason)
}

func (q flushQueue) Count(ctx context.Context, domains []string) (messages int, whole bool, err error) {
	return q.admin.CountDomains(ctx, domains)
}

// openContent opens a message's content, which has been checked.
func openContent(ctx context.Context, s *spool.Spool, id mail.QueueID) (io.ReadCloser, error) {
	c, err := s.Content(ctx, id)
	if err != nil {
		return nil, err
	}
	if c.File != nil {
		return c.File, nil
	}
	return io.NopCloser(bytes.NewReader(c.Bytes)), nil
}

// suspender is the administration's Suspender.
type suspender struct{ driver *driver.Driver }

func (s suspender) Suspend(ctx context.Context, o qmgr.Suspend) (admin.SuspensionChange, error) {
	return suspensionChange(s.driver.Suspend(ctx, o))
}

func (s suspender) Resume(ctx context.Context, o qmgr.Resume) (admin.SuspensionChange, error) {
	return suspensionChange(s.driver.Resume(ctx, o))
}

func (s suspender) Suspensions(ctx context.Context) ([]qmgr.SuspensionView, error) {
	return s.driver.Suspensions(ctx)
}

func suspensionChange(c driver.Suspended, err error) (admin.SuspensionChange, error) {
	if errors.Is(err, driver.ErrUnsaved) {
		err = errors.Join(admin.ErrUnsaved, err)
	}
	return admin.SuspensionChange(c), err
}
