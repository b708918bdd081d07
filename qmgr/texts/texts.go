// Package texts keeps the replies of hosts until the outcomes that they belong to are durable, in bounded memory.
package texts

import (
	"iter"
	"strings"

	"github.com/posthaste-mta/posthaste/internal/assert"
	"github.com/posthaste-mta/posthaste/mail"
)

// A Store keeps what hosts say.
//
// That is kept as it came, up to mail.ReplyTextMax octets, until the outcome
// that it belongs to is durable. Most of it is short, and most of what is long is the
// same for many recipients. So long texts are kept once, however many outcomes have
// them, and if they come to much in spite of that, further ones are cut: a receiver
// makes each different in order to fill the memory.
type Store struct {
	kept   map[string]*keptText
	octets int // in kept
}

type keptText struct {
	text string
	uses int // outcomes that have it
}

const (
	// Short is the number of octets of a text that is not worth the trouble, and to which others are cut.
	Short = 256
	most  = 8 << 20 // octets of all long texts
)

// Keep returns the text that an outcome is to have, and counts it.
func (w *Store) Keep(text string) string {
	if len(text) <= Short {
		return text
	}
	if k := w.kept[text]; k != nil {
		k.uses++
		return k.text
	}
	if w.octets+len(text) > most {
		return mail.CutText(text, Short)
	}
	if w.kept == nil {
		w.kept = make(map[string]*keptText)
	}
	text = strings.Clone(text) // it may be part of a longer one
	w.kept[text] = &keptText{text: text, uses: 1}
	w.octets += len(text)
	return text
}

// Release forgets the texts of outcomes.
func (w *Store) Release(outcomes []mail.Outcome) {
	for i := range outcomes {
		text := outcomes[i].Reply.Text
		if len(text) <= Short {
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

// Check panics if other texts are kept than those of these outcomes.
func (w *Store) Check(outcomes iter.Seq[*mail.Outcome]) {
	uses, octets := 0, 0
	for o := range outcomes {
		if len(o.Reply.Text) > Short {
			uses++
		}
	}
	for text, k := range w.kept { //archtest:anyorder sums
		uses -= k.uses
		octets += len(text)
	}
	assert.That(uses == 0 && octets == w.octets && octets <= most, "%d octets of texts are kept, counted %d; %d uses too many", octets, w.octets, -uses)
}
