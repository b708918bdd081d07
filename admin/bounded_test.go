package admin

import (
	"errors"
	"net"
	"testing"
	"testing/synctest"
)

// A script that opens connections in a loop must not take the file descriptors that
// mail needs: beyond the limit connections wait, and one that ends makes room. A stop
// does not wait for room.
func TestBoundedListener(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		pipes := &pipeListener{conns: make(chan net.Conn), closed: make(chan struct{})}
		b := newBounded(pipes, 2)
		accepted := make(chan net.Conn)
		failed := make(chan error)
		go func() {
			for {
				conn, err := b.Accept()
				if err != nil {
					failed <- err
					return
				}
				accepted <- conn
			}
		}()
		offer := func() {
			go func() {
				a, _ := net.Pipe()
				select {
				case pipes.conns <- a:
				case <-pipes.closed:
				}
			}()
		}
		for range 4 {
			offer()
		}
		first, second := <-accepted, <-accepted
		synctest.Wait()
		select {
		case <-accepted:
			t.Fatal("a third connection was accepted")
		default:
		}
		first.Close()
		first.Close() // closing twice gives back one slot
		third := <-accepted
		synctest.Wait()
		select {
		case <-accepted:
			t.Fatal("a fourth connection was accepted")
		default:
		}
		b.Close()
		if err := <-failed; !errors.Is(err, net.ErrClosed) {
			t.Error(err)
		}
		second.Close()
		third.Close()
	})
}

type pipeListener struct {
	conns  chan net.Conn
	closed chan struct{}
}

func (l *pipeListener) Accept() (net.Conn, error) {
	select {
	case c := <-l.conns:
		return c, nil
	case <-l.closed:
		return nil, net.ErrClosed
	}
}
func (l *pipeListener) Close() error   { close(l.closed); return nil }
func (l *pipeListener) Addr() net.Addr { return &net.UnixAddr{Name: "pipe", Net: "unix"} }
