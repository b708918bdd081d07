package admin

import (
	"cmp"
	"context"
	"slices"
)

// A QuotaPage is the answer to a question for quotas.
type QuotaPage struct {
	Counting bool           `json:"counting,omitempty" doc:"Mail that waits is being counted; until that has ended, limits on it refuse nothing."`
	Counted  int64          `json:"counted,omitempty" doc:"Messages counted so far, while counting."`
	Matched  int            `json:"matched" doc:"Number of quotas that match, including those that are not in the answer. Tenants and flows without limits of their own are included only if they are among those with the most mail waiting, or have sent something lately."`
	Quotas   []Quota        `json:"quotas" doc:"Those closest to a limit first."`
	Refused  []QuotaRefusal `json:"refused" doc:"How many commands and messages each kind of limit has refused since the start."`
}

// A Quota is the limits of one class, tenant or flow.
type Quota struct {
	Kind           string       `json:"kind" enum:"class,tenant,flow"`
	Name           string       `json:"name" doc:"Of the class, the tenant or the flow; empty for a meter that many names share."`
	Tenant         string       `json:"tenant,omitempty" doc:"Of the flow."`
	Shared         bool         `json:"shared,omitempty" doc:"Sent mail is counted for many names together, since there are too many."`
	Uses           []QuotaUsage `json:"uses"`
	RecipientLimit int          `json:"recipient_limit,omitempty" doc:"Maximum number of recipients of one message."`
	Refused        uint64       `json:"refused,omitempty" doc:"Commands and messages that were refused."`
}

// A QuotaUsage is one limit, and how much of it is used.
type QuotaUsage struct {
	Limit   string `json:"limit" enum:"queue_message_limit,queue_size_limit,message_rate,recipient_rate" doc:"The parameter."`
	Used    int64  `json:"used"`
	Of      int64  `json:"of"`
	Per     int64  `json:"per_ms,omitempty" doc:"The span of time of a rate, in milliseconds."`
	Unknown bool   `json:"unknown,omitempty" doc:"It is not known how much is used, since that is being counted."`
}

// A QuotaRefusal counts refusals by kind of limit.
type QuotaRefusal struct {
	Kind  string `json:"kind" enum:"class,tenant,flow"`
	Limit string `json:"limit" enum:"queue_message_limit,queue_size_limit,message_rate,recipient_rate,recipient_limit"`
	Count uint64 `json:"count"`
}

// fullness is the largest used part of a limit.
func (q *Quota) fullness() (most float64) {
	for _, u := range q.Uses {
		most = max(most, float64(u.Used)/float64(max(u.Of, 1)))
	}
	return most
}

type quotasInput struct {
	Kind  string   `query:"kind" enum:"class,tenant,flow" doc:"Only these; default all."`
	Name  []string `query:"name,explode" maxItems:"100" doc:"The name of the class, tenant or flow, in which * stands for any text, or /RE2/. Case does not matter."`
	Limit int      `query:"limit" minimum:"1" maximum:"1000" default:"100" doc:"Maximum number of quotas in the answer."`
}

type quotasOutput struct{ Body QuotaPage }

func (s *Server) quotas(ctx context.Context, in *quotasInput) (*quotasOutput, error) {
	page := QuotaPage{Quotas: []Quota{}, Refused: []QuotaRefusal{}}
	name, err := parsePatterns("name", in.Name, parseGlob)
	if err != nil {
		return nil, invalid("query", err)
	}
	if s.cfg.Quotas == nil {
		return &quotasOutput{page}, nil
	}
	all, err := s.cfg.Quotas(ctx)
	if err != nil {
		return nil, s.problem(ctx, err)
	}
	page.Counting, page.Counted = all.Counting, all.Counted
	page.Refused = append(page.Refused, all.Refused...)
	slices.SortStableFunc(all.Quotas, func(a, b Quota) int { return cmp.Compare(b.fullness(), a.fullness()) })
	for _, q := range all.Quotas {
		if in.Kind != "" && in.Kind != q.Kind || !name.match(q.Name) {
			continue
		}
		if page.Matched++; len(page.Quotas) < in.Limit {
			page.Quotas = append(page.Quotas, q)
		}
	}
	return &quotasOutput{page}, nil
}
