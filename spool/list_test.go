package spool

import (
	"context"
	"errors"

	"github.com/posthaste-mta/posthaste/mail"
)

// List returns at most max messages of an area in index order from a cursor on, and
// the cursor to continue from; more is false at the end. Messages that are removed
// meanwhile may or may not be included.
func (s *Spool) List(ctx context.Context, area mail.Area, from mail.Cursor, max int) (list []Summary, next mail.Cursor, more bool, err error) {
	if err := s.enter(); err != nil {
		return nil, from, false, err
	}
	defer s.leave()
	next = from
	err = s.scan(ctx, area, from, mail.BucketEnd, func(at mail.Cursor) bool {
		if len(list) >= max {
			more = true
			return false
		}
		sum, err := s.summary(at.ID)
		switch {
		case errors.Is(err, ErrGone):
		case err != nil:
			sum.Place.Area, sum.Place.Due, sum.Err = area, at.Due, err
			list = append(list, sum)
		default:
			list = append(list, sum)
		}
		next = after(at)
		return true
	})
	return list, next, more, err
}
