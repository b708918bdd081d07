package daemon

import (
	"errors"
	"fmt"
	"net"
	"slices"
	"syscall"

	"github.com/posthaste-mta/posthaste/config"
	"github.com/posthaste-mta/posthaste/inbound"
)

// An intakeSocket is a place where mail comes in.
type intakeSocket struct {
	net.Listener
	address config.ListenAddress // as configured; not that of a socket which was handed over
	group   string
	handed  bool // over by systemd: it stays open
}

// intakeSockets are the sockets of the SMTP listeners and of local submission.
type intakeSockets []intakeSocket

// open returns the sockets that a configuration asks for, in the order of the
// configuration: those that are open already, and new ones. If one cannot be opened,
// none of the new ones stays open. Sockets that were handed over replace listen.
func (open intakeSockets) open(cfg *config.Config) (all intakeSockets, err error) {
	had := slices.Clone(open)
	take := func(fits func(*intakeSocket) bool) bool {
		i := slices.IndexFunc(had, func(s intakeSocket) bool { return fits(&s) })
		if i >= 0 {
			all = append(all, had[i])
			had = slices.Delete(had, i, i+1)
		}
		return i >= 0
	}
	var opened []net.Listener
	defer func() {
		if err != nil {
			for _, ln := range opened {
				ln.Close()
			}
		}
	}()
	handed := slices.ContainsFunc(open, func(s intakeSocket) bool { return s.handed })
	for i, l := range cfg.AllListeners() {
		if take(func(s *intakeSocket) bool { return s.handed && listensAt(s.Addr(), l.Address) }) || handed && i < len(cfg.Listen) {
			continue
		}
		if take(func(s *intakeSocket) bool { return !s.handed && s.address == l.Address && s.group == l.Group }) {
			continue
		}
		ln, err := listenAt(l.Address, l.Group)
		if err != nil {
			return nil, hintInUse(l.Name, err, had)
		}
		opened = append(opened, ln)
		all = append(all, intakeSocket{Listener: ln, address: l.Address, group: l.Group})
	}
	for _, s := range had {
		if s.handed {
			all = append(all, s)
		}
	}
	return all, nil
}

// listenAt opens a listener.
func listenAt(a config.ListenAddress, group string) (net.Listener, error) {
	if a.Unix != "" {
		return listenUnix(a.Unix, "group", group)
	}
	return net.Listen("tcp", a.TCP.String())
}

// listensAt reports whether a socket that was handed over is the one of a listener.
func listensAt(at net.Addr, a config.ListenAddress) bool {
	switch at := at.(type) {
	case *net.UnixAddr:
		return a.Unix != "" && at.Name == a.Unix
	case *net.TCPAddr:
		own := at.AddrPort()
		return own.Port() == a.TCP.Port() && (own.Addr().Unmap() == a.TCP.Addr() || own.Addr().IsUnspecified() && a.TCP.Addr().IsUnspecified())
	}
	return false
}

// hintInUse explains an address that is in use by a listener which the reload closes.
func hintInUse(name string, err error, closing intakeSockets) error {
	err = fmt.Errorf("listener %s: %w", name, err)
	if errors.Is(err, syscall.EADDRINUSE) && len(closing) > 0 {
		return fmt.Errorf("%w; if it is the listener on %s that has the port, which is closed by this reload, restart instead, or reload once without the new one", err, closing[0].Addr())
	}
	return err
}

// terms returns the sockets with what the configuration says of them.
func (open intakeSockets) terms(cfg *config.Config, certificates *certificates) []inbound.Listener {
	var all []inbound.Listener
	listeners := cfg.AllListeners()
	for _, s := range open {
		l := config.StandardListener()
		l.Name = s.Addr().String()
		i := slices.IndexFunc(listeners, func(l config.Listener) bool {
			return s.handed && listensAt(s.Addr(), l.Address) || !s.handed && s.address == l.Address && s.group == l.Group
		})
		if i >= 0 {
			l = listeners[i]
			listeners = slices.Delete(listeners, i, i+1) // a port of 0 may be there twice
		}
		t := cfg.Terms(&l)
		t.Listener = s.Listener
		if t.Use != inbound.TLSNone {
			t.TLS = certificates.config(cfg, &l)
		}
		all = append(all, t)
	}
	return all
}

// listenerNames returns the names of the listeners for mail, which a reload does not change.
func (d *Daemon) listenerNames() (names []string) {
	for _, l := range d.started.AllListeners() {
		names = append(names, l.Name)
	}
	return names
}
