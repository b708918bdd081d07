package daemon

import (
	"context"
	"log/slog"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"

	"github.com/posthaste-mta/posthaste/config"
	"github.com/posthaste-mta/posthaste/dkim"
	"github.com/posthaste-mta/posthaste/inbound"
	"github.com/posthaste-mta/posthaste/mail"
	"github.com/posthaste-mta/posthaste/spool"
)

// A signer signs mail once, before it is committed, so that what is stored is what is sent
// however often, and its size is that of all of it. Its methods may be called concurrently.
type signer struct {
	log   *slog.Logger
	rules atomic.Pointer[signing]
	// slots bounds how many signatures are computed at once, in the goroutines of their
	// sessions. With two processors, and twenty clients whose mail gets RSA signatures, a
	// client whose mail gets none waits 1 ms for its 250 if one processor may compute
	// them, and 14 ms if both may; in return 1,250 signed messages pass in a second instead
	// of 770 (BenchmarkSigning).
	slots    chan struct{}
	messages sync.Pool // of *dkim.Message
}

// A signing is the keys that are in force, and how mail without one is logged.
type signing struct {
	ring     *dkim.Ring // nil: nothing is signed
	unsigned slog.Level
	silent   bool // nothing is logged
}

func newSigning(ring *dkim.Ring, cfg *config.Config) *signing {
	level, logged := cfg.DKIM.Unsigned.Level()
	return &signing{ring, level, !logged}
}

// newSigner returns a signer that computes as many signatures at once; 0 leaves one processor
// to everything else.
func newSigner(log *slog.Logger, concurrency int) *signer {
	if concurrency == 0 {
		concurrency = max(1, runtime.GOMAXPROCS(0)-1)
	}
	s := &signer{log: log, slots: make(chan struct{}, concurrency)}
	s.messages.New = func() any { return new(dkim.Message) }
	return s
}

// begin follows the content of a draft from now on, with the keys in force.
func (s *signer) begin(d *spool.Draft) signedDraft {
	one := signedDraft{Draft: d, signer: s, rules: s.rules.Load()}
	if one.rules.ring != nil {
		one.message = s.messages.Get().(*dkim.Message)
		one.message.Begin(one.rules.ring)
	}
	return one
}

// compute waits for a slot, and computes signatures.
func (s *signer) compute(ctx context.Context, p *dkim.Plan) ([]byte, error) {
	select {
	case s.slots <- struct{}{}:
	case <-ctx.Done():
		return nil, ctx.Err()
	}
	defer func() { <-s.slots }()
	return p.Sign()
}

// A signedDraft is a draft of the spool that gets its signatures at the commit.
type signedDraft struct {
	*spool.Draft
	signer  *signer
	rules   *signing
	message *dkim.Message // nil: it is not signed, or the plan is made
	plan    dkim.Plan
}

// Write appends content to the draft and to what is signed.
func (d *signedDraft) Write(p []byte) (int, error) {
	if d.message != nil {
		d.message.Write(p)
	}
	return d.Draft.Write(p)
}

// finish plans the signatures of a message that has this envelope.
func (d *signedDraft) finish(e *mail.Envelope) {
	if d.message == nil {
		return
	}
	d.plan = d.message.Finish(e.Sender, e.Flow, e.Arrived)
	d.release()
	if d.plan.Reason != dkim.Signed && !d.rules.silent {
		d.signer.log.LogAttrs(context.Background(), d.rules.unsigned, "not signed", slog.String("id", d.ID().String()), slog.String("from", string(e.Sender)),
			slog.String("author", d.plan.Author), slog.String("reason", d.plan.Reason.String()))
	}
}

// release gives back what followed the content.
func (d *signedDraft) release() {
	if d.message != nil {
		d.signer.messages.Put(d.message)
		d.message = nil
	}
}

// sign puts the signatures in front of the content.
func (d *signedDraft) sign(ctx context.Context) error {
	if d.plan.Octets() == 0 {
		return nil
	}
	fields, err := d.signer.compute(ctx, &d.plan)
	if err != nil {
		return err
	}
	if d.signer.log.Enabled(ctx, slog.LevelDebug) {
		d.signer.log.Debug("signed", "id", d.ID().String(), "signatures", strings.Join(d.plan.Signatures(), " "))
	}
	return d.Prepend(fields)
}

// Abort discards the draft.
func (d *signedDraft) Abort() {
	d.release()
	d.Draft.Abort()
}

// An intakeDraft is a draft of inbound.
type intakeDraft struct {
	signedDraft
	in *intake
}

// AddRecipient implements inbound.Draft, like the methods below.
func (d *intakeDraft) AddRecipient(r mail.Recipient) error {
	return intakeError(d.Draft.AddRecipient(r))
}

func (d *intakeDraft) Write(p []byte) (int, error) {
	n, err := d.signedDraft.Write(p)
	return n, intakeError(err)
}

// Finish plans signatures for clients that may send anywhere, and applies the rules on VERP to their
// mail. Others, such as the servers of strangers that send to relay_domains, would get our
// word for what they write in our name, and bounces of their mail would be lost.
func (d *intakeDraft) Finish(c *inbound.Client, e *mail.Envelope) int64 {
	if d.in.policy.p.Load().Trusts(c) {
		d.finish(e)
		if e.VERP.IsZero() { // else the client has set it
			e.VERP = d.in.verp.Load().Choose(&e.Flow, e.Sender)
		}
	}
	d.release()
	return d.Size() + d.plan.Octets()
}

func (d *intakeDraft) Reserve(f mail.Flow, octets int64, admit func(mail.Waiting) bool) (bool, error) {
	ok, err := d.Draft.Reserve(f, octets, admit)
	return ok, intakeError(err)
}

func (d *intakeDraft) Commit(ctx context.Context, e mail.Envelope, hold string) error {
	if hold != "" {
		d.Hold(hold)
	}
	err := d.sign(ctx)
	if err != nil {
		d.Abort()
		return intakeError(err)
	}
	if err := d.Draft.Commit(ctx, e); err != nil {
		return intakeError(err)
	}
	if hold == "" { // what is held concerns the scheduler when it is released
		d.in.arrived(d.Arrival())
	}
	return nil
}

// A reportDraft is a draft of a report that this host writes.
type reportDraft struct{ signedDraft }

// CommitWith implements report.Draft.
func (d *reportDraft) CommitWith(ctx context.Context, e mail.Envelope, changes []mail.Change) error {
	d.finish(&e)
	if err := d.sign(ctx); err != nil {
		d.Abort()
		return err
	}
	return d.Draft.CommitWith(ctx, e, changes)
}
