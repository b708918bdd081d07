package sink

import (
	"bytes"
	"hash/crc32"
	"strings"
)

// headerMax bounds what is kept of a header; what is longer has no key.
const headerMax = 256 << 10

// A content is what is known of a message's content while it passes.
type content struct {
	header []byte // until its end was seen
	body   bool   // it was
	key    string
	sum    uint32
	size   int64
	kept   []byte
}

// castagnoli returns the table that the processor's instructions work with;
// the package keeps it.
func castagnoli() *crc32.Table { return crc32.MakeTable(crc32.Castagnoli) }

// pass takes a piece of content. The field name ends in ":".
func (c *content) pass(piece []byte, field string, keep int) {
	c.size += int64(len(piece))
	if room := keep - len(c.kept); room > 0 {
		c.kept = append(c.kept, piece[:min(room, len(piece))]...)
	}
	if c.body {
		c.sum = crc32.Update(c.sum, castagnoli(), piece)
		return
	}
	from := max(len(c.header)-3, 0)
	c.header = append(c.header, piece...)
	i := bytes.Index(c.header[from:], []byte("\r\n\r\n"))
	if i < 0 && len(c.header) <= headerMax {
		return
	}
	end := len(c.header)
	if i >= 0 {
		end = from + i + 4
	}
	c.body = true
	c.key = fieldValue(c.header[:end], field)
	c.sum = crc32.Update(0, castagnoli(), c.header[end:])
	c.header = c.header[:0]
}

// end is reached behind the last piece.
func (c *content) end(field string) {
	if !c.body {
		c.key = fieldValue(c.header, field)
	}
}

// reset prepares for the next message and keeps the buffer.
func (c *content) reset() { *c = content{header: c.header[:0]} }

// fieldValue returns the first line of the first field of a name that ends in
// ":"; "" if there is none.
func fieldValue(header []byte, field string) string {
	for len(header) > 0 {
		line, rest, _ := bytes.Cut(header, []byte("\r\n"))
		if len(line) >= len(field) && strings.EqualFold(string(line[:len(field)]), field) {
			return string(bytes.TrimSpace(line[len(field):]))
		}
		header = rest
	}
	return ""
}
