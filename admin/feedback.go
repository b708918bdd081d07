package admin

import "context"

// A FeedbackPage is the answer to a question for reports that came back.
type FeedbackPage struct {
	Addresses []string      `json:"addresses" doc:"The addresses that receive reports; none if feedback.addresses is not set."`
	Rows      []FeedbackRow `json:"rows" doc:"What was counted, the largest number first; by day, the newest day first."`
	More      int           `json:"more" doc:"How many rows there are beyond the limit."`
}

// A FeedbackRow is a count of reports.
type FeedbackRow struct {
	Kind  string `json:"kind" doc:"bounced, delayed, delivered, relayed, complaint, auto-reply, unknown or unverified."`
	Name  string `json:"name" doc:"The value of the property by which reports are counted, such as the class of the reply; empty if they have none."`
	Count uint64 `json:"count" doc:"The number of recipients about whom there was a report."`
}

type feedbackInput struct {
	Since string `query:"since" format:"date" doc:"The first UTC day, such as 2026-11-23; all days that are kept (35) if it is not given."`
	By    string `query:"by" enum:"class,tenant,sender,receiver,day" default:"class" doc:"The property by which reports are counted: the class of the reply or the type of the complaint, the tenant, the domain of the sender or of the recipient, or the day."`
	Limit int    `query:"limit" minimum:"1" maximum:"10000" default:"100" doc:"The maximum number of rows."`
}

type feedbackOutput struct{ Body FeedbackPage }

func (s *Server) feedback(ctx context.Context, in *feedbackInput) (*feedbackOutput, error) {
	page := FeedbackPage{}
	if s.cfg.Feedback != nil {
		var err error
		if page, err = s.cfg.Feedback(in.Since, in.By, in.Limit); err != nil {
			return nil, s.problem(ctx, err)
		}
	}
	page.Addresses, page.Rows = append([]string{}, page.Addresses...), append([]FeedbackRow{}, page.Rows...)
	return &feedbackOutput{page}, nil
}
