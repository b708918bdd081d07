package admin

import (
	"net"
	"sync"
)

// A bounded is a listener that accepts only so many connections at a time; the
// others wait in the system's queue, where they take none of our file descriptors.
type bounded struct {
	net.Listener
	slots  chan struct{}
	closed chan struct{}
	close  sync.Once
}

func newBounded(ln net.Listener, connections int) *bounded {
	return &bounded{Listener: ln, slots: make(chan struct{}, connections), closed: make(chan struct{})}
}

// Accept waits for a slot, and then for a connection.
func (b *bounded) Accept() (net.Conn, error) {
	select {
	case b.slots <- struct{}{}:
	case <-b.closed:
		return nil, net.ErrClosed
	}
	conn, err := b.Listener.Accept()
	if err != nil {
		<-b.slots
		return nil, err
	}
	return &slotted{Conn: conn, slots: b.slots}, nil
}

// Close also ends an Accept that waits for a slot.
func (b *bounded) Close() error {
	b.close.Do(func() { close(b.closed) })
	return b.Listener.Close()
}

// A slotted is a connection that gives its slot back when it is closed.
type slotted struct {
	net.Conn
	slots chan struct{}
	close sync.Once
}

func (c *slotted) Close() error {
	err := c.Conn.Close()
	c.close.Do(func() { <-c.slots })
	return err
}
