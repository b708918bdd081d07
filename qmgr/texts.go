package qmgr

import (
	"strings"

	"github.com/posthaste-mta/posthaste/internal/assert"
	"github.com/posthaste-mta/posthaste/mail"
)

// What hosts say is kept as it came, up to mail.ReplyTextMax octets, until the outcome
// that it belongs to is durable. Most of it is short, and most of what is long is the
// same for many recipients. So long texts are kept once, however many outcomes have
// them, and if they come to much in spite of that, further ones are cut: a receiver
// makes each different in order to fill the memory.
type texts struct {
	kept   map[string]*keptText
	octets int // in kept
}

type keptText struct {
	text string
	uses int // outcomes that have it
}

const (
	textShort = 256     // octets of a text that is not worth the trouble
	textsMost = 8 << 20 // octets of all long texts
	// textsWhole is for how many destinations at most the reason is kept whole why
	// they are dead. Of more than that it is cut.
	textsWhole = 1000
)

// keep returns the text that an outcome is to have, and counts it.
func (w *texts) keep(text string) string {
	if len(text) <= textShort {
		return text
	}
	if k := w.kept[text]; k != nil {
		k.uses++
		return k.text
	}
	if w.octets+len(text) > textsMost {
		return mail.CutText(text, textShort)
	}
	if w.kept == nil {
		w.kept = make(map[string]*keptText)
	}
	text = strings.Clone(text) // it may be part of a longer one
	w.kept[text] = &keptText{text: text, uses: 1}
	w.octets += len(text)
	return text
}

// release forgets the texts of outcomes.
func (w *texts) release(outcomes []mail.Outcome) {
	for i := range outcomes {
		text := outcomes[i].Reply.Text
		if len(text) <= textShort {
			continue
		}
		k := w.kept[text]
		assert.That(k != nil, "a text of %d octets is not kept", len(text))
		if k.uses--; k.uses == 0 {
			delete(w.kept, text)
			w.octets -= len(text)
		}
	}
}

// check panics where an invariant does not hold.
func (w *texts) check(messages map[mail.QueueID]*message) {
	uses, octets := 0, 0
	for _, m := range messages { //archtest:anyorder sums
		for i := range m.outcomes {
			if len(m.outcomes[i].Reply.Text) > textShort {
				uses++
			}
		}
	}
	for text, k := range w.kept { //archtest:anyorder sums
		uses -= k.uses
		octets += len(text)
	}
	assert.That(uses == 0 && octets == w.octets && octets <= textsMost, "%d octets of texts are kept, counted %d; %d uses too many", octets, w.octets, -uses)
}

// noted is message.note for outcomes whose texts are kept within bounds.
func (q *Qmgr) noted(m *message, o mail.Outcome) {
	o.Reply.Text = q.texts.keep(o.Reply.Text)
	m.note(o)
}
