//go:build !unix

package outbound

import "net"

// A directWriter does not exist on this system: all writes use goroutines.
type directWriter struct{}

func newDirectWriter(net.Conn) *directWriter { return nil }

func (*directWriter) write([]byte) (int, error) { panic("outbound: no direct writer") }
