package report

import (
	"bytes"
	"context"
	"errors"
	"io"
	"math"
	"testing/iotest"

	"github.com/posthaste-mta/posthaste/mail"
)

// memory is a spool that holds everything in maps. It loses power when
// power, counted down at every commit, reaches zero: that commit does nothing.
type memory struct {
	messages map[mail.QueueID]*message
	next     uint16
	power    int
	aborted  int // drafts
	open     int // contents that were not closed
	pageMax  int // the most debts that were asked for at once
	broken   map[string]error
}

type message struct {
	envelope   mail.Envelope
	recipients []mail.RecipientOutcome
	content    []byte
}

var errPower = errors.New("power failure")

func newMemory() *memory {
	return &memory{messages: map[mail.QueueID]*message{}, power: math.MaxInt, broken: map[string]error{}}
}

// put adds a message with debts.
func (m *memory) put(e mail.Envelope, content string, debts ...mail.RecipientOutcome) mail.QueueID {
	e.ID = m.newID()
	e.Size, e.Recipients = int64(len(content)), uint32(len(debts))
	for i := range debts {
		debts[i].Recipient.Index, debts[i].Outcome.Index = uint32(i), uint32(i)
	}
	m.messages[e.ID] = &message{e, debts, []byte(content)}
	return e.ID
}

func (m *memory) newID() mail.QueueID {
	m.next++
	return mail.NewQueueID(now(), m.next)
}

func (m *memory) get(call string, id mail.QueueID) (*message, error) {
	if err := m.broken[call]; err != nil {
		return nil, err
	}
	if msg := m.messages[id]; msg != nil {
		return msg, nil
	}
	return nil, ErrGone
}

func (m *memory) Open(_ context.Context, id mail.QueueID, _ int) (mail.Envelope, mail.Place, mail.RecipientBatch, error) {
	msg, err := m.get("Open", id)
	if err != nil {
		return mail.Envelope{}, mail.Place{}, mail.RecipientBatch{}, err
	}
	return msg.envelope, mail.Place{Area: mail.AreaIncoming}, mail.RecipientBatch{}, nil
}

func (m *memory) Debts(_ context.Context, id mail.QueueID, from uint32, max int) (debts []mail.RecipientOutcome, more bool, err error) {
	msg, err := m.get("Debts", id)
	if err != nil {
		return nil, false, err
	}
	for _, ro := range msg.recipients[min(int(from), len(msg.recipients)):] {
		if ro.Outcome.Report == mail.ReportNone {
			continue
		}
		if len(debts) == max {
			more = true
			break
		}
		debts = append(debts, ro)
	}
	if len(debts) > m.pageMax {
		m.pageMax = len(debts)
	}
	return debts, more, nil
}

type content struct {
	io.Reader
	m *memory
}

func (c content) Close() error {
	c.m.open--
	return nil
}

func (m *memory) Content(_ context.Context, id mail.QueueID) (io.ReadCloser, error) {
	msg, err := m.get("Content", id)
	if err != nil {
		return nil, err
	}
	m.open++
	if err := m.broken["Read"]; err != nil { // behind the first octets
		return content{io.MultiReader(bytes.NewReader(msg.content[:10]), iotest.ErrReader(err)), m}, nil
	}
	return content{bytes.NewReader(msg.content), m}, nil
}

func (m *memory) Begin(context.Context) (Draft, error) {
	if err := m.broken["Begin"]; err != nil {
		return nil, err
	}
	return &draft{m: m, message: message{envelope: mail.Envelope{ID: m.newID()}}}, nil
}

func (m *memory) Apply(_ context.Context, changes []mail.Change) ([]mail.Changed, error) {
	if m.power--; m.power <= 0 {
		return nil, errPower
	}
	for _, c := range changes {
		if msg := m.messages[c.ID]; msg != nil && c.Op == mail.ChangeReported {
			for _, o := range c.Outcomes {
				msg.recipients[o.Index].Outcome.Report = mail.ReportNone
			}
		}
	}
	return make([]mail.Changed, len(changes)), nil
}

func (m *memory) BeginCopy(ctx context.Context) (Draft, error) { return m.Begin(ctx) }

type draft struct {
	m *memory
	message
}

func (d *draft) ID() mail.QueueID { return d.envelope.ID }

func (d *draft) AddRecipient(r mail.Recipient) error {
	d.recipients = append(d.recipients, mail.RecipientOutcome{Recipient: r})
	return d.m.broken["AddRecipient"]
}

func (d *draft) Write(p []byte) (int, error) {
	d.content = append(d.content, p...)
	return len(p), d.m.broken["Write"]
}

func (d *draft) CommitWith(ctx context.Context, e mail.Envelope, changes []mail.Change) error {
	if _, err := d.m.Apply(ctx, changes); err != nil {
		return err
	}
	e.ID, e.Size, e.Recipients = d.envelope.ID, int64(len(d.content)), uint32(len(d.recipients))
	d.envelope = e
	d.m.messages[e.ID] = &d.message
	return nil
}

func (d *draft) Abort() { d.m.aborted++ }

func (d *draft) Arrival() mail.Arrival {
	return mail.Arrival{Envelope: d.envelope, Place: mail.Place{Area: mail.AreaIncoming},
		Batch: mail.RecipientBatch{Recipients: []mail.Recipient{d.recipients[0].Recipient}, Next: 1}}
}
