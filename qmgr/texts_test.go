package qmgr

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
	var w texts
	long := strings.Repeat("no such user; ", 250)
	var same, different []mail.Outcome
	for range 1000 {
		same = append(same, mail.Outcome{Reply: mail.Reply{Text: w.keep(strings.Clone(long))}})
	}
	if w.octets != len(long) || same[999].Reply.Text != long {
		t.Errorf("%d octets are kept of a text of %d", w.octets, len(long))
	}
	cut := 0
	const most = 3000
	for i := range most {
		text := fmt.Sprint(i, long)
		kept := w.keep(text)
		if kept != text {
			cut++
		}
		different = append(different, mail.Outcome{Reply: mail.Reply{Text: kept}})
	}
	if whole := most - cut; w.octets > textsMost || whole != (textsMost-len(long))/(len(long)+4) && (whole < 2000 || whole > 2500) {
		t.Errorf("%d octets are kept, %d texts whole", w.octets, whole)
	}
	if got := len(different[most-1].Reply.Text); got != textShort {
		t.Errorf("the last has %d octets", got)
	}
	w.release(different)
	w.release(same)
	if w.octets != 0 || len(w.kept) != 0 {
		t.Errorf("%d octets remain", w.octets)
	}
	if w.keep(long) != long {
		t.Error("there is no room again")
	}
}
