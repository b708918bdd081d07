package queue

import (
	"bufio"
	"fmt"
	"unicode/utf8"

	"github.com/posthaste-mta/posthaste/admin"
	"github.com/posthaste-mta/posthaste/internal/human"
)

// A mailqLister writes the layout of mailq as scripts have read it for decades,
// in the variant for queue IDs of more than 12 characters.
type mailqLister struct {
	out        *bufio.Writer
	recipients visitor
	shown      int
	octets     int64
	reason     string // the last one written
}

const (
	mailqRow    = "%-17s %8s %19s %s\n"
	mailqReason = 76 // column at which reasons end
)

func (l *mailqLister) message(m *admin.Summary) error {
	if l.shown == 0 {
		fmt.Fprintf(l.out, mailqRow, "----Queue ID-----", "--Size--", "---Arrival Time----", "--Sender/Recipient------")
	} else {
		l.out.WriteString("\n")
	}
	l.shown++
	l.octets += m.Size
	mark := map[admin.State]string{admin.StateActive: "*", admin.StateHold: "!", admin.StateCorrupt: "?"}[m.State]
	if m.Damage != "" {
		mark = "?"
	}
	sender := human.Plain(m.Sender)
	if sender == "" {
		sender = "MAILER-DAEMON"
	}
	fmt.Fprintf(l.out, mailqRow, m.ID+mark, fmt.Sprint(m.Size), m.Arrived.Local().Format("Mon Jan _2 15:04:05"), sender)
	l.reason = ""
	if m.Damage != "" {
		l.because(human.Plain("damaged: " + m.Damage))
	} else if m.Area == string(admin.StateHold) || m.Area == string(admin.StateCorrupt) {
		l.because(human.Plain(m.Reason))
	}
	return l.recipients(m, l.recipient)
}

// recipient writes a recipient, and why it waits if that is not what was
// written last.
func (l *mailqLister) recipient(r *admin.Recipient) error {
	l.because(human.Plain(reasonOf(r)))
	_, err := fmt.Fprintf(l.out, mailqRow, "", "", "", human.Plain(r.Address))
	return err
}

func (l *mailqLister) because(reason string) {
	if reason != "" && reason != l.reason {
		fmt.Fprintf(l.out, "%*s(%s)\n", max(mailqReason-utf8.RuneCountInString(reason), 0), "", reason)
	}
	l.reason = reason
}

func (l *mailqLister) end() error {
	if l.shown == 0 {
		l.out.WriteString("Mail queue is empty\n")
		return l.out.Flush()
	}
	fmt.Fprintf(l.out, "\n-- %d Kbytes in %d Request%s.\n", l.octets/1024, l.shown, map[bool]string{true: "", false: "s"}[l.shown == 1])
	return l.out.Flush()
}
