//go:build !unix

package inbound

// tryRead is not used where descriptors cannot be read directly: reading is left to
// the connection, at the cost of a buffer for each one that waits.
func (in *input) tryRead(uintptr) bool {
	in.acquire()
	in.n, in.err = in.conn.Read(in.buffer[in.end:])
	return true
}
