package main

import (
	"context"
	"errors"
	"fmt"
	"net"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/posthaste-mta/posthaste/mail"
)

// refusalDomain is above the domains of letters that go to servers which refuse at
// random: hN.LANE.refuse.test.
const refusalDomain = "refuse.test"

// A lane is one way of speaking to a server that refuses at random: a level of
// pipelining, and whether connections break. It is a transport of its own, and a
// tap stands at its end.
//
// A lane leads to many hosts, all of which are the same server. For what the daemon
// learns of one it holds against that one for a day, so that with a single host
// nothing would be pipelined any more after the first accidents.
type lane struct {
	peer    refuser
	level   string
	fate    fate
	letters int
	hosts   int
	tap     *tap
}

// A fate is what becomes of the connections of a lane.
type fate string

const (
	fateWhole fate = ""     // they last
	fateCut   fate = "cut"  // they are cut; what is in doubt is sent again
	fateHeld  fate = "held" // they are cut; what is in doubt is held
)

// lettersPerHost is the number of letters of a lane that go to each of its hosts.
const lettersPerHost = 50

// hostsMax keeps the table of routes small; with hostsLeast the accidents of one host
// do not decide on a lane.
const (
	hostsLeast = 4
	hostsMax   = 200
)

// transport is the name of the lane's transport, without its server.
func (l *lane) transport() string {
	if l.fate == fateWhole {
		return l.level
	}
	return l.level + "-" + string(l.fate)
}

// domain is what the lane's domains end in.
func (l *lane) domain() string { return l.transport() + "." + l.peer.name + "." + refusalDomain }

func (l *lane) host(n int) string { return fmt.Sprintf("h%d.%s", n%l.hosts, l.domain()) }

// address is where a host of the lane is found. In the network that holds no client
// else, everything below 127 is this machine.
func (l *lane) address(n int) string {
	_, port, _ := net.SplitHostPort(l.tap.ln.Addr().String())
	return fmt.Sprintf("[127.1.%d.%d]:%s", n/250, n%250+1, port)
}

// laneOf returns of a recipient's domain what it has in common with all of its lane.
func laneOf(to mail.Address) string {
	_, lane, _ := strings.Cut(to.Domain(), ".")
	return lane
}

// wire is how far the letters of a lane travel there and back: so far that a host
// which is spoken to by overlap or stream is worth that.
func (l *lane) wire() time.Duration {
	switch l.level {
	case "overlap", "stream":
		return 100 * time.Millisecond
	}
	return 0
}

// openLanes makes the lanes of all servers, and lets their taps listen.
func (t *trial) openLanes(ctx context.Context) error {
	for _, r := range t.refusers() {
		for _, level := range t.levels {
			for _, f := range []fate{fateWhole, fateCut, fateHeld} {
				l := &lane{peer: r, level: level, fate: f, letters: t.count}
				if f != fateWhole { // there are two of these
					l.letters = (t.count + 1) / 2
				}
				l.hosts = min(max(l.letters/lettersPerHost, hostsLeast), hostsMax)
				var err error
				if l.tap, err = newTap(ctx, r.address, l.wire(), f != fateWhole); err != nil {
					return err
				}
				t.lanes = append(t.lanes, l)
			}
		}
	}
	return nil
}

// lanesOf are the lanes to one server with one of some fates.
func (t *trial) lanesOf(r refuser, fates ...fate) (list []*lane) {
	for _, l := range t.lanes {
		if l.peer.name == r.name && slices.Contains(fates, l.fate) {
			list = append(list, l)
		}
	}
	return list
}

// serveTaps carries what comes through all taps, until ctx ends.
func (t *trial) serveTaps(ctx context.Context) error {
	errs := make([]error, len(t.lanes))
	var all sync.WaitGroup
	for i, l := range t.lanes {
		all.Go(func() { errs[i] = l.tap.serve(ctx) })
	}
	all.Wait()
	return errors.Join(errs...)
}
