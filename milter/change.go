package milter

import (
	"bytes"
	"context"
	"fmt"
	"strings"

	"github.com/posthaste-mta/posthaste/internal/spill"
	"github.com/posthaste-mta/posthaste/mail"
	"github.com/posthaste-mta/posthaste/smtp"
)

// Changes are the changes of the envelope that milters request, in their order. A later one may undo an
// earlier one.
type Changes struct {
	// Sender is the new one, if NewSender is set.
	Sender    mail.Address
	NewSender bool
	// Recipients are added and removed in this order. Removed ones have the address that Recipient
	// was called with.
	Recipients []RecipientChange
	Hold       string // why the message is held; ""
}

// A RecipientChange adds a recipient, or removes all of its address.
type RecipientChange struct {
	Recipient mail.Recipient
	Remove    bool
}

// Limits of what a milter may change in one message.
const (
	changesMax       = 2000
	changeOctetsMax  = 4 << 20
	bodyPacketsEmpty = 1000 // packets of a new body without an octet
)

// A wish is everything that one milter wants changed in a message. It is carried out when the milter
// has said its last word.
type wish struct {
	Changes
	header []headerChange
	body   *spill.Buffer   // nil: it stays
	lines  smtp.Normalizer // of body
	ends   bool            // body ends with a line end, as far as it has come
	high   bool            // some octet of body is above 127
	count  int
	octets int
	empty  int
}

// A headerChange is one change of the header.
type headerChange struct {
	code  byte
	index uint32
	field field
}

// summary returns in a few words what is changed.
func (w *wish) summary() string {
	var words []string
	count := func(code byte, name string) {
		n := 0
		for i := range w.header {
			if w.header[i].code == code {
				n++
			}
		}
		if n > 0 {
			words = append(words, fmt.Sprintf("%s=%d", name, n))
		}
	}
	count(answerAddHeader, "add_header")
	count(answerInsertHeader, "insert_header")
	count(answerChangeHeader, "change_header")
	if w.body != nil {
		words = append(words, "replace_body")
	}
	if w.NewSender {
		words = append(words, "change_sender")
	}
	added, removed := 0, 0
	for _, r := range w.Recipients {
		if r.Remove {
			removed++
		} else {
			added++
		}
	}
	if added > 0 {
		words = append(words, fmt.Sprintf("add_recipient=%d", added))
	}
	if removed > 0 {
		words = append(words, fmt.Sprintf("remove_recipient=%d", removed))
	}
	if w.Hold != "" {
		words = append(words, "hold")
	}
	return strings.Join(words, " ")
}

// take reads one change. may is what the milter has said that it would ask for.
func (w *wish) take(a *answer, g *agreement) error {
	w.count++
	w.octets += len(a.data)
	if w.count > changesMax || w.octets > changeOctetsMax {
		return broken("more than %d changes, or %d bytes of them", changesMax, changeOctetsMax)
	}
	switch a.code {
	case answerAddHeader, answerInsertHeader, answerChangeHeader:
		return w.takeHeader(a, g)
	case answerAddRcpt, answerAddRcptPar, answerDelRcpt:
		return w.takeRecipient(a, g)
	case answerChangeFrom:
		return w.takeSender(a, g)
	case answerQuarantine:
		list, err := a.texts(1, 1)
		if err != nil {
			return err
		}
		w.Hold = oneLine(list[0])
		if w.Hold == "" {
			w.Hold = "no reason given"
		}
		return g.mayDo(mayQuarantine, a)
	}
	return broken("a change %q, which is not known", a.code)
}

// mayDo returns an error unless the milter has said that it would ask for such changes.
func (g *agreement) mayDo(change uint32, a *answer) error {
	if g.may&change == 0 {
		return broken("a change %q, which it has not said that it would ask for", a.code)
	}
	return nil
}

func (w *wish) takeHeader(a *answer, g *agreement) (err error) {
	c := headerChange{code: a.code}
	var list []string
	may := uint32(mayAddHeaders)
	if a.code == answerAddHeader {
		list, err = a.texts(2, 2)
	} else {
		c.index, list, err = a.numbered(2)
	}
	if a.code == answerChangeHeader {
		may = mayChangeHeaders
	}
	if err != nil {
		return err
	}
	if err := g.mayDo(may, a); err != nil {
		return err
	}
	if a.code != answerChangeHeader && list[1] == "" {
		list[1] = " " // an empty field is one, too
	}
	if c.field, err = newField(list[0], list[1], g.wants(leadingSpace)); err != nil {
		return err
	}
	w.header = append(w.header, c)
	return nil
}

// lenient is how addresses of milters are read.
var lenient = smtp.PathRules{Bare: true, Underscore: true}

func (w *wish) takeRecipient(a *answer, g *agreement) error {
	most, may := 1, uint32(mayAddRcpt)
	switch a.code {
	case answerAddRcptPar:
		most, may = 2, mayAddRcptPar
	case answerDelRcpt:
		may = mayDelRcpt
	}
	list, err := a.texts(1, most)
	if err != nil {
		return err
	}
	if err := g.mayDo(may, a); err != nil {
		return err
	}
	r, fault := smtp.ParseRcpt([]byte("TO:"+bracketed(list)), lenient, true)
	if fault != smtp.FaultNone {
		return broken("a recipient %q", mail.CleanText(strings.Join(list, " ")))
	}
	w.Recipients = append(w.Recipients, RecipientChange{Recipient: r.Recipient, Remove: a.code == answerDelRcpt})
	return nil
}

func (w *wish) takeSender(a *answer, g *agreement) error {
	list, err := a.texts(1, 2)
	if err != nil {
		return err
	}
	if err := g.mayDo(mayChangeFrom, a); err != nil {
		return err
	}
	m, fault := smtp.ParseMail([]byte("FROM:"+bracketed(list[:1])+" SMTPUTF8"), lenient)
	if fault != smtp.FaultNone {
		return broken("a sender %q", mail.CleanText(list[0]))
	}
	w.Sender, w.NewSender = m.Sender, true
	return nil
}

// bracketed returns an address in brackets, whether it has some or not, and its parameters.
func bracketed(list []string) string {
	address := strings.TrimSpace(list[0])
	if !strings.HasPrefix(address, "<") {
		address = "<" + address + ">"
	}
	if len(list) > 1 && strings.TrimSpace(list[1]) != "" {
		address += " " + strings.TrimSpace(list[1])
	}
	return address
}

// takeBody reads a part of a new body, of size octets, as it comes. Its lines may end in any way: some
// milters use LF. What results has lines that end in CRLF, because for a server that takes a bare LF for a
// line end, a dot between two of them ends the message, and what follows is another one.
func (w *wish) takeBody(ctx context.Context, c *conversation, m *Message, size int) error {
	if c.agreed.may&mayChangeBody == 0 {
		return broken("a new body, for which it has not said that it would ask")
	}
	if size == 0 {
		if w.empty++; w.empty > bodyPacketsEmpty {
			return broken("a new body in more than %d empty parts", bodyPacketsEmpty)
		}
	}
	if w.body == nil {
		w.body = &spill.Buffer{Max: KeptMax, Dir: m.host.Scratch, Grow: m.host.Room}
	}
	if most := m.whole.Size() + m.max; int64(size) > most-w.body.Size() {
		return broken("a new body of more than %d bytes", most)
	}
	return c.copyBody(ctx, w, size)
}

// addBody adds octets to the new body.
func (w *wish) addBody(p []byte) error {
	if bytes.IndexByte(p, 0) >= 0 {
		return broken("a new body with a NUL")
	}
	w.high = w.high || smtp.EightBit(p)
	buf := buffers.Get().(*buffer)
	defer buffers.Put(buf)
	return w.addLines(w.lines.Append(buf[:0], p))
}

// addLines adds octets whose line ends are as they must be.
func (w *wish) addLines(p []byte) error {
	if len(p) == 0 {
		return nil
	}
	w.ends = p[len(p)-1] == '\n'
	if _, err := w.body.Write(p); err != nil {
		return hostError{err}
	}
	return nil
}

// endBody ends the last line of the new body.
func (w *wish) endBody() error {
	if w.body == nil {
		return nil
	}
	if err := w.addLines(w.lines.End(nil)); err != nil || w.ends || w.body.Size() == 0 {
		return err
	}
	return w.addLines([]byte("\r\n"))
}

// drop forgets the wish.
func (w *wish) drop() {
	if w.body != nil {
		w.body.Close()
		w.body = nil
	}
}

// grant makes the changes in a message, and adds those of the envelope to others.
func (w *wish) grant(m *Message, all *Changes) {
	m.high = m.high || w.high
	for i := range w.header {
		switch c := &w.header[i]; c.code {
		case answerAddHeader:
			m.add(c.field)
		case answerInsertHeader:
			m.insert(int(min(c.index, 1<<20)), c.field)
		case answerChangeHeader:
			m.change(int(min(c.index, 1<<20)), c.field)
		}
	}
	if w.body != nil {
		if m.body != nil {
			m.body.Close()
		}
		m.body, w.body = w.body, nil
	}
	if w.NewSender {
		all.Sender, all.NewSender = w.Sender, true
	}
	all.Recipients = append(all.Recipients, w.Recipients...)
	if w.Hold != "" && all.Hold == "" {
		all.Hold = w.Hold
	}
}

// oneLine makes a text fit for the log and for listings.
func oneLine(text string) string {
	return strings.TrimSpace(strings.ReplaceAll(mail.CutText(mail.CleanText(text), 500), "\n", " "))
}
