package inbound

import (
	"fmt"
	"io"
	"strings"

	"github.com/posthaste-mta/posthaste/flow"
	"github.com/posthaste-mta/posthaste/mail"
	"github.com/posthaste-mta/posthaste/rewrite"
	"github.com/posthaste-mta/posthaste/smtp"
)

// A Readmission decides anew about a message that was accepted earlier what is decided about mail from a program on
// this machine when it arrives, as Postfix does: its sender, its recipients and its flow. Its content stays as it is, and whether a client may
// send it is not asked again. Nor are copies added: they were when it was accepted. It does not change, and may be used concurrently.
type Readmission struct {
	addresses *rewrite.Rules // nil: addresses stay
	flows     *flow.Rules    // nil: flows stay
}

// Readmission returns the rules for messages that begin now.
func (s *Server) Readmission() Readmission {
	return Readmission{s.edits.Load().of("").Addresses, s.flows.Load()}
}

// Sender returns what to put in place of an envelope sender. The error says why there is nothing.
func (r Readmission) Sender(a mail.Address) (mail.Address, error) {
	if r.addresses == nil {
		return a, nil
	}
	return r.addresses.Sender(a)
}

// Recipient returns what to put in place of a recipient; nothing if he stays. The error says why there is no address
// for him.
func (r Readmission) Recipient(one *mail.Recipient) ([]mail.Replacement, error) {
	if r.addresses == nil {
		return nil, nil
	}
	all, err := r.addresses.Expand(one.Address)
	if err != nil || len(all) == 1 && all[0] == one.Address {
		return nil, err
	}
	list := make([]mail.Replacement, len(all))
	for i, a := range all {
		list[i] = mail.Replacement{Of: one.Index, Address: a, ORcpt: one.ORcpt, Notify: one.Notify}
		if a != one.Address && one.ORcpt == "" {
			list[i].ORcpt = originalRecipient(one.Address)
		}
	}
	return list, nil
}

// Flow returns the flow of a message; e has its sender as rewritten, and the flow that it had. Reports of ours keep
// theirs, which is that of the mail that they are about.
func (r Readmission) Flow(e *mail.Envelope, content io.Reader) (mail.Flow, error) {
	if r.flows == nil || e.IsReport() {
		return e.Flow, nil
	}
	var scan smtp.FieldScan
	scan.Begin(r.flows.Watch())
	buf := make([]byte, 4<<10)
	for read := 0; read <= smtp.FieldScanMax; {
		n, err := content.Read(buf)
		scan.Next(buf[:n])
		read += n
		if err == io.EOF {
			break
		}
		if err != nil {
			return mail.Flow{}, fmt.Errorf("read its header: %w", err)
		}
	}
	scan.End()
	m := flow.Message{Client: flow.NewClient(e.Client.Addr, flow.Listener{}, ""), Sender: e.Sender, Recipients: int(e.Recipients), Priority: e.Priority, Fields: scan.Found()}
	return r.flows.Reclassify(&m, e.Flow, loggedIn(e.Client.Proto)), nil
}

// loggedIn reports whether the protocol of a Received field is one of a client that has authenticated (RFC 3848, RFC 6531).
func loggedIn(proto string) bool { return strings.HasSuffix(proto, "A") }
