package qmgr

import (
	"github.com/posthaste-mta/posthaste/qmgr/sched"
)

// The scheduler knows of lanes, destinations and messages only what decides the
// order. These lead from there to the whole.

func laneOf(l *sched.Lane) *lane { return l.Owner.(*lane) }

func claimOf(d *sched.Destination) *claim { return d.Outlet.(*claim) }

func queueOf(d *sched.Destination) *queue { return claimOf(d).queue }

func messageOf(m *sched.Message) *message { return m.Owner.(*message) }
