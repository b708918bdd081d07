package admin

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/posthaste-mta/posthaste/mail"
	"github.com/posthaste-mta/posthaste/qmgr"
)

type statusInput struct {
	Destinations int `query:"destinations" minimum:"0" maximum:"1000" default:"10" doc:"Maximum number of destinations per transport, those with the most waiting first."`
}

type statusOutput struct{ Body Status }

func (s *Server) status(ctx context.Context, in *statusInput) (*statusOutput, error) {
	view, err := s.view(ctx, in.Destinations)
	if err != nil {
		return nil, s.problem(ctx, err)
	}
	counts, err := s.counts.get(ctx, s.store)
	if err != nil {
		return nil, s.problem(ctx, err)
	}
	all := alarms(&view, counts.Damaged)
	if messages, at, why := s.scheduler.Trouble(); messages > 0 {
		all = append(all, unrecorded(messages, at, why))
	}
	var intake *IntakeStatus
	if s.cfg.Intake != nil {
		now := s.cfg.Intake()
		intake = &now
	}
	return &statusOutput{Status{
		Intake:  intake,
		Version: s.cfg.Version, Now: time.Now().UTC(), Core: coreStatus(&view), Transports: transportStatus(&view),
		Spool: spoolStatus(&counts), Connections: connectionsStatus(&view), Alarms: all, Suspensions: countSuspensions(s.inForce(ctx), nil),
	}}, nil
}

func spoolStatus(c *Counts) SpoolStatus {
	return SpoolStatus{Incoming: c.Incoming, Deferred: c.Deferred, Hold: c.Hold, Corrupt: c.Corrupt, Used: c.Used, Free: c.Free, Refusing: c.Refusing}
}

func coreStatus(v *qmgr.View) CoreStatus {
	c := &v.Counts
	return CoreStatus{
		Messages: v.Messages, Recipients: v.Recipients, Busy: v.Busy,
		Lookups: v.Lookups.Busy, Waiting: v.Lookups.Waiting, Verifying: v.Lookups.Verifying, Callouts: v.Callouts.InCore, Behind: v.Behind, Halted: v.Halted,
		CalledOut: c.CalledOut(), Addresses: v.Callouts.Known,
		Arrived: c.Arrived, Deliveries: c.Started, Expired: c.Expired,
		Unknown: c.Unknown, Offline: wallOrNil(v.Offline),
		Sent: c.Outcomes[mail.Delivered], Deferred: c.Outcomes[mail.Deferred], Bounced: c.Outcomes[mail.Failed],
	}
}

func transportStatus(v *qmgr.View) []TransportStatus {
	all := make([]TransportStatus, 0, len(v.Transports))
	for _, t := range v.Transports {
		status := TransportStatus{Name: t.Name, Jobs: t.Jobs, Busy: t.Busy, State: t.State.String(),
			Reason: t.Reason.String(), Until: wallOrNil(t.Until), Destinations: []DestinationStatus{}}
		for i := range t.Queues {
			status.Destinations = append(status.Destinations, destinationStatus(&t.Queues[i], t.Name))
		}
		all = append(all, status)
	}
	return all
}

func destinationStatus(q *qmgr.QueueView, transport string) DestinationStatus {
	status := DestinationStatus{
		Nexthop: q.Nexthop, Source: q.Source, Security: q.Security, Instead: insteadOf(q.Instead), State: q.Condition.String(), Window: q.Window, Busy: q.Busy, Todo: q.Todo,
		Open: q.Connections.Ready, Opening: q.Connections.Connecting, Reason: q.Reason.String(), Until: wallOrNil(q.Until),
		WaitReason: waitReasonOf(&q.WaitReason, transport),
	}
	if status.WaitReason != nil {
		status.Waits = status.WaitReason.Kind
	}
	return status
}

func connectionsStatus(v *qmgr.View) ConnectionsStatus {
	status := ConnectionsStatus{Ended: map[string]uint64{}}
	for why, n := range v.Closings {
		if n > 0 {
			status.Ended[mail.CloseReason(why).String()] = n
		}
	}
	return status
}

// alarms are conditions that need an operator's attention.
func alarms(v *qmgr.View, damaged []DamagedFile) (all []Alarm) {
	if v.Mixed.Conn != 0 {
		e := endedConnection(&v.Mixed)
		all = append(all, Alarm{Kind: "mixed", At: e.At, Connection: &e,
			Text: "server " + e.Host + " put a message under another message's envelope: find out which mail it delivered to whom. " +
				"Commands to it are no longer pipelined. " + e.Reply})
	}
	for _, f := range damaged {
		all = append(all, Alarm{Kind: "damaged", At: f.At,
			Text: "a spool file was found damaged at a start: mail may have been lost or sent twice; the log of that start says how much. " +
				"Check the disk. This alarm ends when " + f.Path + " is removed."})
	}
	return all
}

// unrecorded is the alarm for outcomes that cannot be made durable.
func unrecorded(messages int, at time.Time, why error) Alarm {
	return Alarm{Kind: "unrecorded", At: at.UTC(), Text: fmt.Sprintf("outcomes of %d messages cannot be written to the spool: %v. "+
		"The write is retried at least every five minutes; messages whose outcomes are not written before a restart may be delivered again.", messages, why)}
}

func insteadOf(o mail.Origin) string {
	if o == (mail.Origin{}) {
		return ""
	}
	return o.Transport + ":" + o.Nexthop
}

// A tally caches the spool's counts. Counting reads all of the indexes, which takes
// 0.1 s for a million messages, so it is limited to a twentieth of the time,
// however many dashboards ask.
type tally struct {
	mu     sync.Mutex
	counts Counts
	until  time.Time
}

const tallyFresh = time.Second

func (t *tally) get(ctx context.Context, store Store) (Counts, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	begin := time.Now()
	if begin.Before(t.until) {
		return t.counts, nil
	}
	counts, err := store.Counts(ctx)
	if err != nil {
		return Counts{}, fmt.Errorf("count the messages: %w", err)
	}
	end := time.Now()
	t.counts, t.until = counts, end.Add(max(tallyFresh, 20*end.Sub(begin)))
	return counts, nil
}
