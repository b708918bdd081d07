package admin

import (
	"errors"
	"fmt"
	"strconv"
	"strings"

	"github.com/posthaste-mta/posthaste/mail"
)

// A position is where a request stopped and the next one continues: at a message of
// an area, and at one of its recipients if the list was too long for one request.
// The zero position is the start.
type position struct {
	area      mail.Area
	at        mail.Cursor
	recipient uint32
	since     mail.Instant // of an order to try messages: the core's last step before it; of a requeue: the first queue ID after it; else 0
	set       bool
	swept     bool // in the order of queue IDs, in all areas at once; only at.ID counts
}

// sweptWord is where other positions have their area.
const sweptWord = "all"

var errCursor = errors.New("not a cursor returned by this API")

// String returns the text that clients carry; "" for the zero position.
func (p position) String() string {
	if !p.set {
		return ""
	}
	area := p.area.String()
	if p.swept {
		area = sweptWord
	}
	text := fmt.Sprintf("%s-%x-%s-%d", area, int64(p.at.Due), p.at.ID, p.recipient)
	if p.since != 0 {
		text += fmt.Sprintf("-%x", uint64(p.since)) // a queue ID after 2041 is negative
	}
	return text
}

func parsePosition(text string) (position, error) {
	if text == "" {
		return position{}, nil
	}
	parts := strings.Split(text, "-")
	if len(parts) == 4 {
		parts = append(parts, "0")
	}
	if len(parts) != 5 {
		return position{}, errCursor
	}
	swept := parts[0] == sweptWord
	area, areaErr := mail.AreaNone, error(nil)
	if !swept {
		area, areaErr = parseArea(parts[0])
	}
	due, dueErr := strconv.ParseInt(parts[1], 16, 64)
	id, idErr := mail.ParseQueueID(parts[2])
	recipient, recipientErr := strconv.ParseUint(parts[3], 10, 32)
	since, sinceErr := strconv.ParseUint(parts[4], 16, 64)
	p := position{area: area, at: mail.Cursor{Due: mail.Instant(due), ID: id}, recipient: uint32(recipient), since: mail.Instant(since), set: true, swept: swept}
	if errors.Join(areaErr, dueErr, idErr, recipientErr, sinceErr) != nil || p.String() != text {
		return position{}, errCursor
	}
	return p, nil
}
