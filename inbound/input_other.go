//go:build !unix

package inbound

// tryRead is not used where descriptors cannot be read directly: it leaves
// the reading to the connection, at the price of a buffer for each that waits.
func (in *input) tryRead(uintptr) bool {
	in.acquire()
	in.n, in.err = in.conn.Read(in.buffer[in.end:])
	return true
}
