package admin

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"errors"
	"slices"
	"strconv"
	"strings"

	"github.com/danielgtaylor/huma/v2"

	"github.com/posthaste-mta/posthaste/qmgr"
	"github.com/posthaste-mta/posthaste/qmgr/measure"
)

// Suspensions have replies of up to 4 KB as their reasons, and there may be 2,000 of them. So answers about something else have only
// their numbers and the first few, and the rest is a list with pages.

const (
	// SuspensionsMax is the maximum number of suspensions in one answer.
	SuspensionsMax = 1000
	// suspensionsFew is how many an answer about something else has.
	suspensionsFew = 5
)

// A SuspensionFilter selects suspensions that meet all of its conditions. A condition with several values is met by each of them.
type SuspensionFilter struct {
	Scope  []string `query:"scope,explode" enum:"site,domain,destination,transport,source,tenant,class" maxItems:"7"`
	Value  []string `query:"value,explode" maxItems:"100" example:"[\"*.example.com\"]" doc:"What is suspended, in which * stands for any text; or /RE2/. Case does not matter, here and below."`
	By     []string `query:"by,explode" maxItems:"100" doc:"The operator, or the word rule and the name of a rule on replies; * stands for any text; or /RE2/."`
	Rule   []string `query:"rule,explode" maxItems:"100" doc:"The rule on replies, in which * stands for any text; /RE2/; or - for suspensions of operators."`
	Reason []string `query:"reason,explode" maxItems:"100" doc:"A part of the reason, in which a star is a star; or /RE2/."`
}

// A SuspensionPage is a part of a list of suspensions.
type SuspensionPage struct {
	Suspensions []Suspension   `json:"suspensions" maxItems:"1000" doc:"By scope and value, those of destinations last."`
	Matched     int            `json:"matched" doc:"Number of suspensions that match, on all pages."`
	Scopes      map[string]int `json:"scopes" doc:"Number of these by scope."`
	Next        string         `json:"next,omitempty" doc:"Where to go on: pass it as cursor. Absent at the end."`
}

// SuspensionCounts are how many suspensions are in force, and the first few.
type SuspensionCounts struct {
	Total  int            `json:"total"`
	Rules  int            `json:"by_rules" doc:"Those of rules on replies; the others are operators'."`
	Scopes map[string]int `json:"scopes" doc:"Number by scope."`
	Few    []Suspension   `json:"few" maxItems:"5" doc:"Some of them: those of operators first, the newest first. /v1/suspensions has all."`
}

// More returns the number of suspensions that are not among the few.
func (c *SuspensionCounts) More() int { return c.Total - len(c.Few) }

// countSuspensions counts those that are picked; nil picks all. It returns nil if there are none.
func countSuspensions(list []qmgr.SuspensionView, pick func(*qmgr.SuspensionView) bool) *SuspensionCounts {
	c := SuspensionCounts{Scopes: map[string]int{}, Few: []Suspension{}}
	var picked []*qmgr.SuspensionView
	for i := range list {
		v := &list[i]
		if pick != nil && !pick(v) {
			continue
		}
		c.Total++
		c.Scopes[v.Scope.String()]++
		if v.Rule != "" {
			c.Rules++
		}
		picked = append(picked, v)
	}
	if c.Total == 0 {
		return nil
	}
	slices.SortStableFunc(picked, func(a, b *qmgr.SuspensionView) int {
		return cmp.Or(cmp.Compare(min(len(a.Rule), 1), min(len(b.Rule), 1)), cmp.Compare(b.Since, a.Since))
	})
	for _, v := range picked[:min(len(picked), suspensionsFew)] {
		c.Few = append(c.Few, suspensionOf(v))
	}
	return &c
}

// suspensionID returns the ID of a suspension. It follows from what is suspended, so that it stays over restarts, and when the
// same thing is suspended again.
func suspensionID(scope measure.Scope, value string) string {
	sum := sha256.Sum256([]byte(scope.String() + " " + value))
	return hex.EncodeToString(sum[:8])
}

// compareSuspensions is the order of lists.
func compareSuspensions(a, b *qmgr.SuspensionView) int {
	return cmp.Or(cmp.Compare(a.Scope, b.Scope), cmp.Compare(a.Value, b.Value))
}

// suspensionCursor returns the position behind a suspension, as opaque text.
func suspensionCursor(v *qmgr.SuspensionView) string {
	return base64.RawURLEncoding.EncodeToString([]byte(strconv.Itoa(int(v.Scope)) + " " + v.Value))
}

func parseSuspensionCursor(text string) (at qmgr.SuspensionView, err error) {
	octets, err := base64.RawURLEncoding.DecodeString(text)
	scope, value, ok := strings.Cut(string(octets), " ")
	n, wrong := strconv.ParseUint(scope, 10, 8)
	if at = (qmgr.SuspensionView{Scope: measure.Scope(n), Value: value}); err != nil || wrong != nil || !ok || suspensionCursor(&at) != text {
		return at, errCursor
	}
	return at, nil
}

type suspensionsInput struct {
	SuspensionFilter
	Limit  int    `query:"limit" minimum:"1" maximum:"1000" default:"100" doc:"Maximum number of suspensions in the answer."`
	Cursor string `query:"cursor" maxLength:"2048" doc:"Where to go on: next of the answer before. What is suspended in the meantime may be missing."`
}

type suspensionsOutput struct{ Body SuspensionPage }

// parse returns a function that reports whether a suspension meets the filter. The error joins fieldErrors.
func (f *SuspensionFilter) parse() (func(*qmgr.SuspensionView) bool, error) {
	value, err1 := parsePatterns("value", f.Value, parseGlob)
	by, err2 := parsePatterns("by", f.By, parseGlob)
	rule, err3 := parsePatterns("rule", f.Rule, parseGlob)
	reason, err4 := parsePatterns("reason", f.Reason, parsePart)
	return func(v *qmgr.SuspensionView) bool {
		return (len(f.Scope) == 0 || slices.Contains(f.Scope, v.Scope.String())) &&
			value.matchDomain(v.Value) && rule.match(v.Rule) && by.match(orderedByText(v)) && reason.match(v.Reason)
	}, errors.Join(err1, err2, err3, err4)
}

// suspensions returns a page of the suspensions that match.
func (s *Server) suspensions(ctx context.Context, in *suspensionsInput) (*suspensionsOutput, error) {
	matches, err := in.SuspensionFilter.parse()
	var after *qmgr.SuspensionView
	if in.Cursor != "" {
		at, wrong := parseSuspensionCursor(in.Cursor)
		if wrong != nil {
			err = errors.Join(err, &fieldError{"cursor", in.Cursor, wrong})
		}
		after = &at
	}
	if err != nil {
		return nil, invalid("query", err)
	}
	list, err := s.allSuspensions(ctx)
	if err != nil {
		return nil, err
	}
	page := SuspensionPage{Suspensions: []Suspension{}, Scopes: map[string]int{}}
	var last *qmgr.SuspensionView
	for i := range list {
		v := &list[i]
		if !matches(v) {
			continue
		}
		page.Matched++
		page.Scopes[v.Scope.String()]++
		switch {
		case after != nil && compareSuspensions(v, after) <= 0:
		case len(page.Suspensions) < in.Limit:
			page.Suspensions, last = append(page.Suspensions, suspensionOf(v)), v
		default:
			page.Next = suspensionCursor(last)
		}
	}
	return &suspensionsOutput{page}, nil
}

// allSuspensions asks the core for those in force, in the order of lists.
func (s *Server) allSuspensions(ctx context.Context) ([]qmgr.SuspensionView, error) {
	if s.cfg.Suspender == nil {
		return nil, errNoSuspender
	}
	list, err := ask(ctx, s.cfg.Suspender.Suspensions)
	if err != nil {
		return nil, s.problem(ctx, err)
	}
	list = slices.Clone(list)
	slices.SortFunc(list, func(a, b qmgr.SuspensionView) int { return compareSuspensions(&a, &b) })
	return list, nil
}

type suspensionInput struct {
	ID string `path:"id" maxLength:"64" example:"3f2a90c1d4e5b607" doc:"The ID that a list has."`
}

type oneSuspensionOutput struct{ Body Suspension }

// suspension returns one suspension.
func (s *Server) suspension(ctx context.Context, in *suspensionInput) (*oneSuspensionOutput, error) {
	list, err := s.allSuspensions(ctx)
	if err != nil {
		return nil, err
	}
	for i := range list {
		if one := suspensionOf(&list[i]); strings.EqualFold(one.ID, in.ID) {
			return &oneSuspensionOutput{one}, nil
		}
	}
	return nil, huma.Error404NotFound("no suspension in force has the ID " + clip(in.ID) + `; "posthaste queue suspensions" lists all`)
}
