package admin

import (
	"context"
	"encoding/json"

	"github.com/danielgtaylor/huma/v2"
)

// A TLSReportPage is the answer to a question for reports on TLS.
type TLSReportPage struct {
	Counting bool            `json:"counting" doc:"Whether sessions are counted; if not, tls_reports.organization is not set."`
	Days     []string        `json:"days" doc:"The UTC days that have counts, the oldest first."`
	Domains  []string        `json:"domains" doc:"The domains with counts of that day, in order."`
	Report   json.RawMessage `json:"report,omitempty" doc:"The report on the domain, as RFC 8460 4.4 has it, if there is one."`
}

// TransformSchema describes the page: huma takes a RawMessage for a list of octets.
func (TLSReportPage) TransformSchema(_ huma.Registry, s *huma.Schema) *huma.Schema {
	s.Properties["report"] = &huma.Schema{Type: huma.TypeObject, Description: s.Properties["report"].Description, AdditionalProperties: true}
	return s
}

type tlsReportsInput struct {
	Day    string `query:"day" required:"true" format:"date" doc:"A UTC day, such as 2026-11-23."`
	Domain string `query:"domain" maxLength:"255" doc:"The domain of the report."`
}

type tlsReportsOutput struct{ Body TLSReportPage }

func (s *Server) tlsReports(ctx context.Context, in *tlsReportsInput) (*tlsReportsOutput, error) {
	page := TLSReportPage{}
	if s.cfg.TLSReports != nil {
		var err error
		if page, err = s.cfg.TLSReports(in.Day, in.Domain); err != nil {
			return nil, s.problem(ctx, err)
		}
	}
	page.Days, page.Domains = append([]string{}, page.Days...), append([]string{}, page.Domains...)
	return &tlsReportsOutput{page}, nil
}
