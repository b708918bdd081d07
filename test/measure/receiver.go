package measure

import (
	"context"
	"errors"
	"fmt"
	"net"

	"github.com/posthaste-mta/posthaste/internal/sink"
)

// A Receiver is a sink at an address.
type Receiver struct {
	Address string
	Target  string // the route to it
	*sink.Server
	stop  context.CancelFunc
	ended chan error
}

// Receive starts a sink. Without an address it takes a free port.
func Receive(cfg sink.Config, address string) (*Receiver, error) {
	if address == "" {
		address = "127.0.0.1:0"
	}
	s, err := sink.New(cfg)
	if err != nil {
		return nil, err
	}
	ln, err := net.Listen("tcp", address)
	if err != nil {
		return nil, err
	}
	ctx, stop := context.WithCancel(context.Background())
	r := &Receiver{Address: ln.Addr().String(), Server: s, stop: stop, ended: make(chan error, 1)}
	if r.Target, err = Target(r.Address); err != nil {
		return nil, err
	}
	go func() { r.ended <- s.Serve(ctx, ln) }()
	return r, nil
}

// Stop lets the receiver end. It may be called at any time.
func (r *Receiver) Stop() { r.stop() }

// Close ends the receiver and waits until it has. It is called once.
func (r *Receiver) Close() error {
	r.stop()
	return <-r.ended
}

// Target returns the route to a receiver's address.
func Target(address string) (string, error) {
	host, port, err := net.SplitHostPort(address)
	if err != nil {
		return "", errors.Join(errors.New("route to a receiver"), err)
	}
	return fmt.Sprintf("smtp:[%s]:%s", host, port), nil
}
