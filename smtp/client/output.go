package client

// An output is the data a session has to write: commands, which it stores
// itself, and pieces of content, which belong to the host. Its offsets count all
// octets of the session, so that the end of a command or a message can be compared
// with the progress of writing: written <= handed <= queued.
type output struct {
	pieces [][]byte
	lent   int // number of pieces returned by hand

	commands []byte // contains the commands not handed to the host yet
	cut      int    // the part of commands up to here is in pieces
	away     []byte // buffer of commands that are being written; nil if there is none
	spare    []byte // buffer to use next

	queued  int64
	handed  int64 // given to the host
	written int64 // confirmed by the host

	forgotten bool // handed output no longer counts
}

// extend sets the commands to buf, which is commands with something appended.
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

// seal turns the commands that are not in a piece yet into one.
func (o *output) seal() {
	if o.cut < len(o.commands) {
		o.pieces = append(o.pieces, o.commands[o.cut:len(o.commands):len(o.commands)])
		o.cut = len(o.commands)
	}
}

func (o *output) empty() bool { return o.queued == o.written }

// hand gives all unwritten output to the host. Later commands go into another
// buffer, so that neither grows without limit while writes never pause.
func (o *output) hand(bufs [][]byte) [][]byte {
	o.seal()
	if o.away == nil && len(o.commands) > 0 {
		o.away, o.commands, o.spare, o.cut = o.commands, o.spare[:0], nil, 0
	}
	o.lent, o.handed = len(o.pieces), o.queued
	return append(bufs, o.pieces...)
}

// confirm records that the first n octets of the handed output were written, and
// the rest was not.
func (o *output) confirm(n int) {
	if o.forgotten {
		o.forgotten = false
		return
	}
	if n < 0 || o.written+int64(n) > o.handed {
		panic("smtp/client: more octets reported as written than were returned by Out")
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

// keep replaces the pieces by list, which is their tail.
func (o *output) keep(list [][]byte) {
	n := copy(o.pieces, list)
	clear(o.pieces[n:])
	o.pieces = o.pieces[:n]
}

// forget discards all output. The host may be writing what was handed to it;
// that is not handed again, whatever the host reports.
func (o *output) forget() {
	o.forgotten = o.written < o.handed
	o.queued, o.handed, o.written = 0, 0, 0
	o.keep(nil)
	o.lent, o.commands, o.cut, o.away, o.spare = 0, nil, 0, nil, nil
}

// drop discards the output that was not handed to the host.
func (o *output) drop() {
	clear(o.pieces[o.lent:])
	o.pieces = o.pieces[:o.lent]
	o.commands, o.cut = nil, 0 // a lent piece may be part of it
	o.queued = o.handed
}
