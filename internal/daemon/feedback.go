package daemon

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"io"
	"io/fs"
	"log/slog"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/posthaste-mta/posthaste/admin"
	"github.com/posthaste-mta/posthaste/config"
	"github.com/posthaste-mta/posthaste/feedback"
	"github.com/posthaste-mta/posthaste/flow"
	"github.com/posthaste-mta/posthaste/mail"
	"github.com/posthaste-mta/posthaste/spool"
)

// What the desk keeps in the queue directory.
const (
	feedbackFile = "feedback"          // the counts
	unparsedDir  = "feedback-unparsed" // messages that were not understood
)

const (
	feedbackPause  = 10 * time.Minute // between two saves of the counts
	feedbackRead   = 1 << 20          // octets of a message that are read: a report is at its beginning
	feedbackAtOnce = 4                // messages in memory
	unparsedMax    = 1000             // files
	fileSizeMax    = 64 << 20         // of the counts
)

// A desk takes in reports that come back about mail. It is the agent of the transport feedback:
// a report is durable in the spool before it is read, as other mail is, and it is always accepted, so
// that no bounce answers it. It is safe for concurrent use.
type desk struct {
	dir     string // queue_directory
	host    string // whose queue IDs are wanted
	log     *slog.Logger
	spool   *spool.Spool
	arrived func(mail.Arrival) // set before the first delivery
	class   func(mail.Reply) string
	rules   atomic.Pointer[deskRules]
	slots   chan struct{}

	mu      sync.Mutex
	book    feedback.Book
	changed bool       // since the last save
	saving  sync.Mutex // held while the file is written; before mu
	files   sync.Mutex // held while a message is kept
}

// deskRules are the parameters that a reload replaces.
type deskRules struct {
	boxes feedback.Mailboxes
	flows *flow.Rules
}

// newDesk returns a desk with the counts of the last run.
func newDesk(cfg *config.Config, log *slog.Logger, class func(mail.Reply) string) *desk {
	d := &desk{dir: cfg.QueueDirectory, host: cfg.Hostname, log: log, class: class, slots: make(chan struct{}, feedbackAtOnce)}
	d.rules.Store(&deskRules{})
	d.load()
	return d
}

// takes reports whether mail for an address is for the desk. A nil desk takes none.
func (d *desk) takes(to mail.Address) bool {
	if d == nil {
		return false
	}
	_, ok := d.rules.Load().boxes.Match(to)
	return ok
}

// redirect changes the routes of recipients that are addresses of the desk.
func (d *desk) redirect(recipients []mail.Recipient, routes []mail.Route) {
	for i := range recipients {
		if d.takes(recipients[i].Address) {
			routes[i] = mail.Route{Transport: config.TransportFeedback, Nexthop: strings.ToLower(recipients[i].Address.Domain())}
		}
	}
}

// Deliver reads a message and counts what it says. No report is made about it, even if its
// sender wants one: programs would answer programs.
func (d *desk) Deliver(ctx context.Context, m mail.Delivery) mail.DeliveryResult {
	if m.Callout {
		return taken(&m, mail.Delivered, mail.Reply{Code: 250, Status: mail.Status{Class: 2, Subject: 1, Detail: 5}, Text: "reports are taken in here"})
	}
	select {
	case d.slots <- struct{}{}:
		defer func() { <-d.slots }()
	case <-ctx.Done():
		return later(&m, "the program is stopping")
	}
	data, err := d.read(ctx, m.Envelope.ID)
	if err != nil {
		d.log.Debug("report not read", "id", m.Envelope.ID, "error", err)
		return later(&m, "the message cannot be read from the queue")
	}
	r, why := feedback.Parse(data, d.host)
	r.Own = m.Envelope.IsReport()
	for _, to := range d.unparsedTo(&m, why) {
		if err := d.keep(ctx, &m, data, to); err != nil {
			d.log.Warn("a message to an address for reports that was not understood cannot be kept; it is tried again", "id", m.Envelope.ID, "error", err)
			return later(&m, "the message was not understood and cannot be kept")
		}
	}
	for _, to := range d.rules.Load().boxes.Distinct(m.Recipients) {
		d.count(&m, &r, to, why)
	}
	return taken(&m, mail.Delivered, mail.Reply{Code: 250, Status: mail.Status{Class: 2}, Text: "report taken in: " + r.Kind.String()})
}

// read returns the beginning of a message.
func (d *desk) read(ctx context.Context, id mail.QueueID) ([]byte, error) {
	c, err := d.spool.Content(ctx, id)
	if err != nil {
		return nil, err
	}
	defer c.Close()
	return io.ReadAll(io.LimitReader(c.Reader(), feedbackRead))
}

// count counts what a report says that came to an address, each of it once, and logs it. What was counted before
// is one line, however many recipients it is about: otherwise a small message that comes again and again would fill the disk.
func (d *desk) count(m *mail.Delivery, r *feedback.Report, to mail.Address, why error) {
	rules := d.rules.Load()
	now := time.Now()
	var again feedback.Event // the first of those that were counted before
	repeated := 0
	for _, e := range rules.boxes.Events(r, to, d.class) {
		mark, marked := feedback.Mark(r, &e)
		class, tenant := rules.owner(m, &e)
		k := feedback.Key{Kind: e.Kind, Class: e.Class, Tenant: tenant, Sender: e.Sender.Domain(), Receiver: e.Recipient.Domain()}
		d.mu.Lock()
		first := d.book.Count(now, k, mark, marked)
		d.changed = d.changed || first
		d.mu.Unlock()
		if !first {
			if repeated++; repeated == 1 {
				again = e
			}
			continue
		}
		d.log.Info("feedback", fields(m, r, &e, class, tenant, why)...)
	}
	if repeated > 0 {
		d.log.Info("feedback again", "id", m.Envelope.ID.String(), "kind", again.Kind, "recipient", string(again.Recipient), "recipients", repeated, "message_id", r.MessageID)
	}
}

// fields are those of the log line of an event (package event). Those that are not known are left out.
func fields(m *mail.Delivery, r *feedback.Report, e *feedback.Event, class, tenant string, why error) []any {
	all := []any{"id", m.Envelope.ID.String(), "kind", e.Kind}
	add := func(name, value string) {
		if value != "" {
			all = append(all, name, value)
		}
	}
	add("recipient", string(e.Recipient))
	add("domain", strings.ToLower(e.Recipient.Domain()))
	add("by", e.By)
	if e.Verified {
		all = append(all, "verified", true)
	}
	add("sender", string(e.Sender))
	add("class", class)
	add("tenant", tenant)
	if e.Kind == feedback.EventComplaint {
		add("complaint", e.Class)
	} else {
		add("reply_class", e.Class)
	}
	add("status", e.Entry.Status.String())
	if e.Entry.Reply.Text != "" {
		add("reply", e.Entry.Reply.String())
	}
	add("host", e.Entry.Reply.By)
	add("reporter", r.Reporter)
	add("source_ip", r.Complaint.SourceIP)
	add("original_message_id", r.Original.MessageID)
	if r.Original.QueueID != 0 {
		add("original_id", r.Original.QueueID.String())
	}
	add("envid", r.EnvID)
	add("message_id", r.MessageID)
	if why != nil {
		add("error", why.Error())
	}
	return all
}

// owner returns the class and the tenant to which an event counts. The tenant is that of the address; or, for a report that this
// host has made itself, of the message that it is about; or else the one to whom rules give mail of the
// sender, "" if none does: neither the client nor the header of that mail is known any more. The class is what the rules give
// such mail, or that of the report's own message if it has kept it.
func (r *deskRules) owner(m *mail.Delivery, e *feedback.Event) (class, tenant string) {
	if m.Envelope.IsReport() && m.Envelope.Flow.Tenant != "" {
		class, tenant = m.Envelope.Flow.Class, m.Envelope.Flow.Tenant
	} else if r.flows != nil && e.Sender != "" {
		f, _ := r.flows.Classify(&flow.Message{Client: flow.NewClient(netip.Addr{}, flow.Listener{}, ""), Sender: e.Sender, Recipients: 1})
		if class = f.Class; f.Tenant != flow.LocalTenant {
			tenant = f.Tenant
		}
	}
	return class, cmp.Or(e.Tenant, tenant)
}

// unparsedTo returns where a message goes that was not understood, none if it was: "" is the
// directory.
func (d *desk) unparsedTo(m *mail.Delivery, why error) (all []mail.Address) {
	if why == nil {
		return nil
	}
	boxes := d.rules.Load().boxes
	for i := range m.Recipients {
		var to mail.Address
		if found, ok := boxes.Match(m.Recipients[i].Address); ok { // else [routes] has sent it here
			to = found.Box.UnparsedTo
		}
		if !slices.Contains(all, to) {
			all = append(all, to)
		}
	}
	return all
}

// keep keeps a message that was not understood, or passes it on.
func (d *desk) keep(ctx context.Context, m *mail.Delivery, data []byte, to mail.Address) error {
	if to != "" && !passed(data, d.host) {
		return d.pass(ctx, m, to)
	}
	d.files.Lock()
	defer d.files.Unlock()
	dir := filepath.Join(d.dir, unparsedDir)
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return err
	}
	if err := writeWhole(filepath.Join(dir, m.Envelope.ID.String()+".eml"), data); err != nil {
		return err
	}
	entries, err := os.ReadDir(dir) // in the order of names, which is that of age
	for _, old := range entries[:max(0, len(entries)-unparsedMax)] {
		err = errors.Join(err, os.Remove(filepath.Join(dir, old.Name())))
	}
	return err
}

// passedOn is a field of what was passed on, by which it is known if it comes back.
const passedOn = "X-Posthaste-Feedback-Passed-On: "

// passed reports whether a message was passed on before.
func passed(data []byte, host string) bool {
	header, _, _ := bytes.Cut(data, []byte("\r\n\r\n"))
	return bytes.Contains(append([]byte("\r\n"), header...), []byte("\r\n"+passedOn+host))
}

// pass sends all of a message to another address, with the null sender, so that nothing answers it.
func (d *desk) pass(ctx context.Context, m *mail.Delivery, to mail.Address) error {
	c, err := d.spool.Content(ctx, m.Envelope.ID)
	if err != nil {
		return err
	}
	defer c.Close()
	draft, err := d.spool.BeginReport(ctx)
	if err != nil {
		return err
	}
	err = draft.AddRecipient(mail.Recipient{Address: to, Notify: mail.NotifyNever})
	if err == nil {
		_, err = io.WriteString(draft, passedOn+d.host+"\r\n")
	}
	if err == nil {
		_, err = io.Copy(draft, c.Reader())
	}
	if err != nil {
		draft.Abort()
		return err
	}
	e := mail.Envelope{Arrived: mail.Instant(time.Now().UnixNano()), Body: m.Envelope.Body, SMTPUTF8: m.Envelope.SMTPUTF8, Client: mail.Client{Proto: mail.ProtoLocal}}
	if err := draft.Commit(ctx, e); err != nil {
		return err
	}
	d.arrived(draft.Arrival())
	return nil
}

// taken gives all recipients the same outcome.
func taken(m *mail.Delivery, result mail.Result, reply mail.Reply) mail.DeliveryResult {
	at := mail.Instant(time.Now().UnixNano())
	var r mail.DeliveryResult
	for i := range m.Recipients {
		r.Outcomes = append(r.Outcomes, mail.Outcome{Index: m.Recipients[i].Index, Result: result, Reply: reply, At: at})
	}
	return r
}

// later defers a message for a reason of our own.
func later(m *mail.Delivery, why string) mail.DeliveryResult {
	r := taken(m, mail.Deferred, mail.Reply{Code: 451, Status: mail.Status{Class: 4, Subject: 3}, Text: why})
	r.Crashed = true
	return r
}

// run saves the counts until ctx ends.
func (d *desk) run(ctx context.Context) {
	tick := time.NewTicker(feedbackPause)
	defer tick.Stop()
	for {
		select {
		case <-tick.C:
			d.save()
		case <-ctx.Done():
			return
		}
	}
}

// load reads the counts of the last run.
func (d *desk) load() {
	path := filepath.Join(d.dir, feedbackFile)
	f, err := os.Open(path)
	if errors.Is(err, fs.ErrNotExist) {
		return
	}
	var text []byte
	if err == nil {
		text, err = io.ReadAll(io.LimitReader(f, fileSizeMax))
		err = errors.Join(err, f.Close())
	}
	if damaged := d.book.Load(text); err != nil || damaged > 0 {
		d.log.Warn("some counts of reports of the last run are lost", "file", path, "lines", damaged, "error", err)
	}
}

// save replaces the file of counts if there is something new. What cannot be saved is tried again.
func (d *desk) save() {
	d.saving.Lock()
	defer d.saving.Unlock()
	d.mu.Lock()
	if !d.changed {
		d.mu.Unlock()
		return
	}
	d.changed = false
	text := d.book.AppendText(nil)
	d.mu.Unlock()
	if err := writeWhole(filepath.Join(d.dir, feedbackFile), text); err != nil {
		d.log.Warn("counts of reports cannot be saved; a restart would lose them", "error", err)
		d.mu.Lock()
		d.changed = true
		d.mu.Unlock()
	}
}

// writeWhole replaces a file, so that it has all of the data or what it had.
func writeWhole(path string, data []byte) error {
	f, err := os.OpenFile(path+".new", os.O_WRONLY|os.O_CREATE|os.O_TRUNC, 0o600)
	if err != nil {
		return err
	}
	_, err = f.Write(data)
	if err == nil {
		err = f.Sync()
	}
	if err = errors.Join(err, f.Close()); err == nil {
		err = os.Rename(path+".new", path)
	}
	if err != nil {
		err = errors.Join(err, os.Remove(path+".new"))
	}
	return err
}

// page shows the administration what was counted.
func (d *desk) page(since, by string, limit int) (page admin.FeedbackPage, err error) {
	page.Addresses = slices.Clone(d.addresses())
	d.mu.Lock()
	defer d.mu.Unlock()
	rows, more := d.book.Rows(since, feedback.By(by), limit)
	for _, r := range rows {
		page.Rows = append(page.Rows, admin.FeedbackRow(r))
	}
	page.More = more
	return page, nil
}

// addresses returns the addresses of the desk in order.
func (d *desk) addresses() []string { return d.rules.Load().boxes.Names() }
