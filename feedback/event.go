package feedback

import (
	"crypto/sha256"
	"encoding/binary"
	"fmt"

	"github.com/posthaste-mta/posthaste/mail"
	"github.com/posthaste-mta/posthaste/replies"
)

// What an event can be.
const (
	EventBounced    = "bounced"    // the recipient did not get the message
	EventDelayed    = "delayed"    // not yet
	EventDelivered  = "delivered"  // he did
	EventRelayed    = "relayed"    // a server that makes no reports has it
	EventComplaint  = "complaint"  // he did, and complains
	EventAutoReply  = "auto-reply" // a program answered
	EventUnknown    = "unknown"    // the message was not understood
	EventUnverified = "unverified" // the report carries no tag of ours, although all of our mail has one
)

// Places where an event's recipient was found, the best first.
const (
	BySender   = "verp"        // in the address that the report came to
	ByReturn   = "return-path" // in the sender of the message, which the report quotes
	ByOriginal = "original"    // the recipient as the sender gave it
	ByFinal    = "final"       // as the receiver knew him
)

// An Event is the information of one report about one recipient.
type Event struct {
	Kind      string
	Recipient mail.Address // "" if unknown
	By        string       // where the recipient was found; "" if he was not
	Verified  bool         // he was found in an address with a tag of ours
	Tenant    string       // to whom it counts by the address; "" if that does not say
	Sender    mail.Address // of the message; "" if unknown
	Class     string       // of the reply, or the type of a complaint; "" if there is none
	Entry     Entry
}

// Events returns what a report says that came to an address of the mailboxes. class gives the class
// of a reply. Of a report about one message with one recipient in its sender there is one event,
// even if that recipient is a list whose members the report names.
func (all Mailboxes) Events(r *Report, to mail.Address, class func(mail.Reply) string) []Event {
	found, by := all.recipient(r, to)
	events := all.events(r, found, by, class)
	for i := range events {
		if events[i].Verified = found.Verified; found.Box != nil {
			events[i].Tenant = found.Box.Tenant
		}
	}
	return events
}

func (all Mailboxes) events(r *Report, found Match, by string, class func(mail.Reply) string) (events []Event) {
	switch {
	case r.Kind == KindAutoReply, r.Kind == KindUnknown:
		return []Event{{Kind: [...]string{KindUnknown: EventUnknown, KindAutoReply: EventAutoReply}[r.Kind], Recipient: found.Recipient, By: by, Sender: found.Sender}}
	case found.Recipient == "" && found.Box != nil && !r.Own && len(found.Box.Codec.Secrets) > 0 && !found.Box.Untagged:
		return []Event{{Kind: EventUnverified}}
	case found.Recipient != "":
		e := r.Entries[0]
		for _, other := range r.Entries {
			if other.Action == mail.ReportFailed && e.Action != mail.ReportFailed {
				e = other
			}
		}
		return []Event{event(r, e, found, by, class)}
	}
	for _, e := range r.Entries {
		one := Match{Sender: sender(r)}
		if one.Recipient, by = e.Original, ByOriginal; one.Recipient == "" {
			one.Recipient, by = e.Final, ByFinal
		}
		if one.Recipient == "" {
			by = ""
		}
		events = append(events, event(r, e, one, by, class))
	}
	return events
}

// recipient looks for a recipient in addresses that this program made. Without one it returns
// the mailbox to which the report came.
func (all Mailboxes) recipient(r *Report, to mail.Address) (Match, string) {
	came, _ := all.Match(to)
	if came.Recipient != "" {
		return came, BySender
	}
	for _, a := range []mail.Address{r.Complaint.Sender, r.Original.ReturnPath} {
		if found, _ := all.Match(a); found.Recipient != "" {
			return found, ByReturn
		}
	}
	return came, ""
}

// sender returns the sender of the message as far as a report shows it.
func sender(r *Report) mail.Address {
	for _, a := range []mail.Address{r.Complaint.Sender, r.Original.ReturnPath, r.Original.From} {
		if a != "" {
			return a
		}
	}
	return ""
}

func event(r *Report, e Entry, about Match, by string, class func(mail.Reply) string) Event {
	out := Event{Recipient: about.Recipient, By: by, Sender: about.Sender, Entry: e}
	if r.Kind == KindComplaint {
		out.Kind, out.Class = EventComplaint, r.Complaint.Type
		return out
	}
	switch e.Action {
	case mail.ReportFailed:
		out.Kind = EventBounced
	case mail.ReportDelayed:
		out.Kind = EventDelayed
	case mail.ReportDelivered:
		out.Kind = EventDelivered
	default:
		out.Kind = EventRelayed
	}
	if out.Kind == EventBounced || out.Kind == EventDelayed {
		out.Class = replies.ClassOther.String()
		if c := class(e.Reply); c != "" {
			out.Class = c
		}
	}
	return out
}

// Mark returns a value that identifies an event when its report comes again, and false if the report
// has nothing that distinguishes it from others.
func Mark(r *Report, e *Event) (mark uint64, ok bool) {
	id := r.MessageID
	if id == "" {
		if r.EnvID == "" && r.Original.MessageID == "" && r.Original.QueueID == 0 {
			return 0, false
		}
		id = fmt.Sprintf("%q %q %v", r.EnvID, r.Original.MessageID, r.Original.QueueID)
	}
	sum := sha256.Sum256(fmt.Appendf(nil, "%q %q %q", id, e.Kind, e.Recipient))
	return binary.BigEndian.Uint64(sum[:]), true
}
