package qmgr

import (
	"github.com/posthaste-mta/posthaste/qmgr/flows"
	"github.com/posthaste-mta/posthaste/qmgr/sched"
)

// The scheduler knows of lanes, destinations and messages only what decides the
// order, and package flows of transports and destinations what flows share. These lead from
// there to the whole.

func transportOf(l *sched.Lane) *transport { return flows.LaneOf(l).Transport().Owner.(*transport) }

func queueOf(d *sched.Destination) *queue { return flows.ClaimOf(d).At.Outlet.(*queue) }

func messageOf(m *sched.Message) *message { return m.Owner.(*message) }
