package trace

import (
	"encoding/json"

	"github.com/posthaste-mta/posthaste/qmgr"
)

// AppendFields appends the fields of an event or action as a JSON object, under
// the names that they have in a line; words that stand alone there have names
// here, and lists are arrays of objects. Numbers are numbers, everything else is
// text: IDs by Format.Name, instants by Format.Instant.
func (f Format) AppendFields(b []byte, l Line) []byte {
	c := codec{format: f, now: l.Now, out: append(b, '{'), writing: true, json: true}
	c.line(&l)
	return append(c.out, '}')
}

// comma separates what follows from what stands before it in the same object or
// array.
func (c *codec) comma() {
	if last := c.out[len(c.out)-1]; last != '{' && last != '[' {
		c.out = append(c.out, ',')
	}
}

func appendJSON(b []byte, text string) []byte {
	quoted, err := json.Marshal(text)
	if err != nil {
		panic(err) // text can always be written
	}
	return append(b, quoted...)
}

// ConfigFields returns the configuration as a JSON object, as AppendFields does
// for one in an event.
func (h Head) ConfigFields() []byte {
	return Format{}.AppendFields(nil, Line{Event: qmgr.Configure{Config: h.Config}})
}
