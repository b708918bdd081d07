package client

import (
	"fmt"
	"regexp"
	"strconv"
	"strings"

	"github.com/posthaste-mta/posthaste/smtp"
)

// A twin reads the octets of a session from both sides and concludes, in the naive
// way, what may be concluded: the n-th reply belongs to the n-th command (RFC 2920
// 3.1). It relies on nothing in the session. It identifies commands and replies
// because the n-th transaction has the sender "m<n>@…" and the recipients
// "r<n>.<i>@…", because lines of content begin with X and the last one is "X-End",
// and because the text of each reply begins with a number, "#17".
type twin struct {
	line   string // written, not yet ended
	slots  []twinSlot
	latest int // number of the transaction whose MAIL was written last

	reply     []byte // line that was read, not yet ended
	lines     int    // of it
	size      int
	number    int
	unasked   bool // it began when nothing was asked for
	early     bool // it began when the content that it is the reply to was not written to its end
	over      bool // nothing that is read from now on means anything
	belongs   map[int]twinSlot
	accepted  map[[2]int]bool // recipients
	refused   map[int]bool    // transactions whose MAIL was
	ended     map[int]bool    // transactions whose content was written to its end
	answered  map[int]bool    // transactions whose final reply was read
	delivered map[[2]int]bool // recipients that have been read to be
}

// A twinSlot is a command that waits for its reply.
type twinSlot struct {
	verb string // or "." for the end of a content
	tx   int
	rcpt int
	open bool // the content is not written to its end
}

func newTwin() *twin {
	return &twin{
		slots: []twinSlot{{verb: "greeting"}}, belongs: map[int]twinSlot{}, accepted: map[[2]int]bool{}, refused: map[int]bool{},
		ended: map[int]bool{}, answered: map[int]bool{}, delivered: map[[2]int]bool{},
	}
}

var twinAddress = regexp.MustCompile(`:<[mr](\d+)(?:\.(\d+))?@`)

// wrote takes what the client has written.
func (w *twin) wrote(octets string) {
	for _, line := range strings.SplitAfter(octets, "\n") {
		if w.line += line; !strings.HasSuffix(w.line, "\r\n") {
			continue
		}
		line = strings.TrimSuffix(w.line, "\r\n")
		w.line = ""
		verb, _, _ := strings.Cut(line, " ")
		s := twinSlot{verb: verb, tx: w.latest}
		if m := twinAddress.FindStringSubmatch(line); m != nil {
			s.tx, _ = strconv.Atoi(m[1])
			s.rcpt, _ = strconv.Atoi(m[2])
		}
		switch {
		case line == "X-End" && len(w.slots) > 0 && w.slots[len(w.slots)-1].verb == "BDAT":
			w.end()
		case line == ".":
			w.end()
		case strings.HasPrefix(line, "X"):
		case verb == "BDAT":
			s.open = true
			w.slots = append(w.slots, s)
		default:
			if verb == "MAIL" {
				w.latest = s.tx
			}
			w.slots = append(w.slots, s)
		}
	}
}

// end notes the end of a content.
func (w *twin) end() {
	w.ended[w.latest] = true
	if n := len(w.slots); n > 0 {
		w.slots[n-1].open = false
	}
}

// read takes one octet from the server. It returns whether the session must be over.
func (w *twin) read(c byte) (mustEnd bool) {
	if w.over {
		return false
	}
	if w.size++; w.size == 1 {
		w.unasked = len(w.slots) == 0
		w.early = !w.unasked && w.slots[0].open
	}
	w.reply = append(w.reply, c)
	switch {
	case w.size > smtp.ReplyMax+smtp.ReplyLineMax:
		w.over = true
		return true
	case c != '\n':
		return false
	}
	whole := strings.TrimSuffix(strings.TrimSuffix(string(w.reply), "\n"), "\r")
	w.reply = w.reply[:0]
	w.lines++
	if len(whole) < 3 || whole[0] < '2' || whole[0] > '5' || strings.Trim(whole[:3], "0123456789") != "" || len(whole) > 3 && whole[3] != ' ' && whole[3] != '-' || w.lines > smtp.ReplyLinesMax {
		w.over = true
		return true
	}
	if m := twinNumber.FindStringSubmatch(whole[min(4, len(whole)):]); m != nil && w.number == 0 {
		w.number, _ = strconv.Atoi(m[1])
	}
	if len(whole) > 3 && whole[3] == '-' {
		return false
	}
	w.lines, w.size = 0, 0
	code, _ := strconv.Atoi(whole[:3])
	number := w.number
	w.number = 0
	return w.pair(code, number)
}

// pair gives a reply to its command.
func (w *twin) pair(code, number int) (mustEnd bool) {
	if w.unasked || len(w.slots) == 0 {
		w.over = true
		return true
	}
	s := w.slots[0]
	w.slots = w.slots[1:]
	w.belongs[number] = s
	good := code/100 == 2
	switch s.verb {
	case "MAIL":
		w.refused[s.tx] = !good
	case "RCPT":
		w.accepted[[2]int{s.tx, s.rcpt}] = good
	case "DATA":
		if code/100 == 3 {
			w.slots = append([]twinSlot{{verb: ".", tx: s.tx, open: true}}, w.slots...)
		}
	case ".", "BDAT":
		w.answered[s.tx] = true
		if !good || w.early {
			break
		}
		for r, ok := range w.accepted {
			if ok && r[0] == s.tx {
				w.delivered[r] = true
			}
		}
	}
	return false
}

var twinNumber = regexp.MustCompile(`^#(\d+)\b`)

// check returns what is wrong with the results of a transaction.
func (w *twin) check(t *Transaction) string {
	n, _ := strconv.Atoi(strings.Trim(string(t.Envelope.Sender), "m@x"))
	for index, r := range t.Results {
		_, digits, _ := strings.Cut(t.Recipients[index].Address.Local(), ".")
		i, _ := strconv.Atoi(digits)
		key := [2]int{n, i}
		what := fmt.Sprintf("recipient %d of %d is %v: %v", i, n, r.Verdict, r.Reply)
		switch {
		case r.Verdict == Pending || r.Verdict == Accepted:
			return what
		case w.delivered[key] != (r.Verdict == Delivered):
			return what + fmt.Sprintf("; by the replies read it was delivered: %v", w.delivered[key])
		case r.Verdict == Doubtful && !w.ended[n]:
			return what + "; its content was not sent"
		case w.ended[n] && r.Verdict == Again && w.accepted[key] && !w.refused[n] && !w.answered[n]:
			return what + "; its content was sent"
		}
		m := twinNumber.FindStringSubmatch(r.Reply.Text)
		if m == nil || r.Verdict != Delivered && r.Verdict != Failed {
			continue
		}
		number, _ := strconv.Atoi(m[1])
		if s := w.belongs[number]; s.tx != n || s.verb == "RCPT" && s.rcpt != i || s.verb == "RSET" {
			return what + fmt.Sprintf("; that was the reply to %+v", s)
		}
	}
	return ""
}
