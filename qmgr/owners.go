package qmgr

import (
	"github.com/posthaste-mta/posthaste/qmgr/sched"
)

// The scheduler knows of transports, destinations and messages only what decides the
// order. These lead from there to the whole.

func transportOf(l *sched.Lane) *transport { return l.Owner.(*transport) }

func queueOf(d *sched.Destination) *queue { return d.Outlet.(*queue) }

func messageOf(m *sched.Message) *message { return m.Owner.(*message) }
