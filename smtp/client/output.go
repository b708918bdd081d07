package client

// An output is what a session has to write: commands, which it keeps itself,
// and pieces of content, which are the host's. Its offsets count all octets of
// the session, so that the end of a command or a message can be compared with
// what was written: written <= handed <= queued.
type output struct {
	pieces [][]byte
	lent   int // how many of the pieces were returned by hand

	commands []byte // those that were not handed yet are in here
	cut      int    // up to here they are in pieces
	away     []byte // buffer of commands that are being written; nil if there is none
	spare    []byte // buffer to be used next

	queued  int64
	handed  int64 // given to the host
	written int64 // confirmed by the host

	forgotten bool // what was handed is not waited for any more
}

// extend makes buf, which is commands with something appended, the commands.
func (o *output) extend(buf []byte) {
	o.queued += int64(len(buf) - len(o.commands))
	o.commands = buf
}

// piece appends octets that are valid until they are written.
func (o *output) piece(octets []byte) {
	o.seal()
	if len(octets) > 0 {
		o.pieces = append(o.pieces, octets)
		o.queued += int64(len(octets))
	}
}

// seal makes a piece of the commands that are not in one.
func (o *output) seal() {
	if o.cut < len(o.commands) {
		o.pieces = append(o.pieces, o.commands[o.cut:len(o.commands):len(o.commands)])
		o.cut = len(o.commands)
	}
}

func (o *output) empty() bool { return o.queued == o.written }

// hand gives all that was not written to the host. Commands that come after
// that go into another buffer, so that neither grows without end while there
// is always something being written.
func (o *output) hand(bufs [][]byte) [][]byte {
	o.seal()
	if o.away == nil && len(o.commands) > 0 {
		o.away, o.commands, o.spare, o.cut = o.commands, o.spare[:0], nil, 0
	}
	o.lent, o.handed = len(o.pieces), o.queued
	return append(bufs, o.pieces...)
}

// confirm tells that the first n octets of what was handed were written, and
// the rest was not.
func (o *output) confirm(n int) {
	if o.forgotten {
		o.forgotten = false
		return
	}
	if n < 0 || o.written+int64(n) > o.handed {
		panic("smtp/client: more written than there was")
	}
	o.written += int64(n)
	if o.written == o.handed && o.away != nil {
		o.spare, o.away = o.away[:0], nil
	}
	o.handed, o.lent = o.written, 0
	gone := 0
	for ; n > 0; gone++ {
		if first := o.pieces[gone]; n < len(first) {
			o.pieces[gone] = first[n:]
			break
		}
		n -= len(o.pieces[gone])
	}
	o.keep(o.pieces[gone:])
}

// keep makes list, the tail of the pieces, all that there are.
func (o *output) keep(list [][]byte) {
	n := copy(o.pieces, list)
	clear(o.pieces[n:])
	o.pieces = o.pieces[:n]
}

// forget takes back everything. The host may be writing what was handed to it;
// it will not be handed again, whatever the host says of it.
func (o *output) forget() {
	o.forgotten = o.written < o.handed
	o.queued, o.handed, o.written = 0, 0, 0
	o.keep(nil)
	o.lent, o.commands, o.cut, o.away, o.spare = 0, nil, 0, nil, nil
}

// drop takes back what was not handed.
func (o *output) drop() {
	clear(o.pieces[o.lent:])
	o.pieces = o.pieces[:o.lent]
	o.commands, o.cut = nil, 0 // a lent piece may be in there
	o.queued = o.handed
}
