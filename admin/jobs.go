package admin

import (
	"context"
	"fmt"
	"time"

	"github.com/danielgtaylor/huma/v2"

	"github.com/posthaste-mta/posthaste/qmgr"
)

// A JobPage is what the scheduler of one transport works on.
type JobPage struct {
	Transport string    `json:"transport"`
	Lanes     []JobLane `json:"lanes" doc:"One for each flow that has mail in it, those with the most waiting first."`
	More      int       `json:"lanes_more,omitempty" doc:"Number of lanes left out."`
}

// A JobLane is the jobs of one flow.
type JobLane struct {
	Class    string `json:"class,omitempty" doc:"Absent for mail without a flow."`
	Tenant   string `json:"tenant,omitempty"`
	Flow     string `json:"flow,omitempty"`
	Waiting  int    `json:"waiting" doc:"Transactions that wait."`
	Busy     int    `json:"busy" doc:"Transactions under way."`
	SlotCost int    `json:"slot_cost" doc:"Transactions of a job that earn a delivery slot, with which another may go first; below 2 there is no preemption."`
	Jobs     []Job  `json:"jobs" doc:"In the order in which they are scheduled: one that has preempted another stands before it."`
	Known    int    `json:"known" doc:"Number of jobs, including those that are not in the list."`
}

// A Job is one message in a lane.
type Job struct {
	ID         string    `json:"queue_id"`
	Sender     string    `json:"sender"`
	Recipients uint32    `json:"recipients" doc:"Of the message."`
	Arrived    time.Time `json:"arrived"`
	Level      int       `json:"level" doc:"On the preemption stack; 0: it has preempted no other job."`
	Parent     string    `json:"parent,omitempty" doc:"The message at whose expense it goes first."`
	Current    bool      `json:"current" doc:"The next selection starts with it."`
	Blocked    bool      `json:"blocked" doc:"None of its destinations has room."`
	Selected   int       `json:"selected" doc:"Transactions that were started."`
	Waiting    int       `json:"waiting" doc:"Transactions that wait."`
	Unread     int       `json:"unread" doc:"Recipients that are still in the spool, at most."`
	Slots      float64   `json:"slots" doc:"Delivery slots that it has earned and not spent; negative after a loan."`
}

type jobsInput struct {
	Name  string `path:"name" maxLength:"128" doc:"The transport."`
	Lanes int    `query:"lanes" minimum:"1" maximum:"100" default:"10" doc:"Maximum number of lanes in the answer."`
	Limit int    `query:"limit" minimum:"1" maximum:"1000" default:"50" doc:"Maximum number of jobs of each lane."`
}

type jobsOutput struct{ Body JobPage }

func (s *Server) jobs(ctx context.Context, in *jobsInput) (*jobsOutput, error) {
	if s.cfg.Jobs == nil {
		return nil, huma.Error501NotImplemented("this host does not show jobs")
	}
	limited, cancel := context.WithTimeout(ctx, viewTimeout)
	defer cancel()
	list, known, err := s.cfg.Jobs(limited, in.Name, in.Lanes, in.Limit)
	switch {
	case err != nil:
		return nil, s.problem(ctx, fmt.Errorf("%w: %w", errCore, err))
	case !known:
		return nil, huma.Error404NotFound("unknown transport " + clip(in.Name))
	}
	page := JobPage{Transport: list.Transport, Lanes: []JobLane{}, More: list.More}
	for i := range list.Lanes {
		page.Lanes = append(page.Lanes, jobLane(&list.Lanes[i]))
	}
	return &jobsOutput{page}, nil
}

func jobLane(v *qmgr.LaneView) JobLane {
	l := JobLane{Class: v.Flow.Class, Tenant: v.Flow.Tenant, Flow: v.Flow.Flow, Waiting: v.Waiting, Busy: v.Busy, SlotCost: v.SlotCost, Jobs: []Job{}, Known: v.Known}
	for i := range v.Jobs {
		j := &v.Jobs[i]
		job := Job{ID: j.ID.String(), Sender: string(j.Sender), Recipients: j.Recipients, Arrived: wall(j.Arrived), Level: j.Level, Current: j.Current, Blocked: j.Blocked,
			Selected: j.Selected, Waiting: j.Read - j.Selected, Unread: j.Unread, Slots: float64(j.Available) / float64(max(v.SlotCost, 1))}
		if j.Parent != 0 {
			job.Parent = j.Parent.String()
		}
		l.Jobs = append(l.Jobs, job)
	}
	return l
}
