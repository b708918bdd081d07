package texts

import (
	"fmt"
	"strings"
	"testing"

	"github.com/posthaste-mta/posthaste/mail"
)

// Texts that are equal are kept once and whole; texts that are all different are cut
// when they have filled their room, and have room again when they are gone.
func TestTextsAreBounded(t *testing.T) {
	t.Parallel()
	var w Store
	long := strings.Repeat("no such user; ", 250)
	var same, different []mail.Outcome
	for range 1000 {
		same = append(same, mail.Outcome{Reply: mail.Reply{Text: w.Keep(strings.Clone(long))}})
	}
	if w.octets != len(long) || same[999].Reply.Text != long {
		t.Errorf("%d octets are kept of a text of %d", w.octets, len(long))
	}
	cut := 0
	const all = 3000
	for i := range all {
		text := fmt.Sprint(i, long)
		kept := w.Keep(text)
		if kept != text {
			cut++
		}
		different = append(different, mail.Outcome{Reply: mail.Reply{Text: kept}})
	}
	if whole := all - cut; w.octets > most || whole != (most-len(long))/(len(long)+4) && (whole < 2000 || whole > 2500) {
		t.Errorf("%d octets are kept, %d texts whole", w.octets, whole)
	}
	if got := len(different[all-1].Reply.Text); got != Short {
		t.Errorf("the last has %d octets", got)
	}
	w.Release(different)
	w.Release(same)
	if w.octets != 0 || len(w.kept) != 0 {
		t.Errorf("%d octets remain", w.octets)
	}
	if w.Keep(long) != long {
		t.Error("there is no room again")
	}
}
