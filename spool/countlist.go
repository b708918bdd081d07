package spool

import (
	"cmp"
	"context"
	"errors"
	"fmt"

	"github.com/cockroachdb/pebble/v2"

	"github.com/posthaste-mta/posthaste/mail"
)

// A Count is the usage of one class, tenant or flow.
type Count struct {
	Class, Tenant, Flow string // of these only Class, only Tenant, or Tenant and Flow are set
	mail.Usage
}

// Counts returns the largest counts of each level by the number of messages, at most most
// of each, largest first. It reads all counts.
func (s *Spool) Counts(ctx context.Context, most int) (classes, tenants, flows []Count, err error) {
	if err := s.enter(); err != nil {
		return nil, nil, nil, err
	}
	defer s.leave()
	c := &s.counts
	if c.state.at() != countWhole {
		return nil, nil, nil, nil
	}
	if err := s.fold(); err != nil {
		return nil, nil, nil, err
	}
	from, to := plainKey(keyCount), plainKey(keyCount+1)
	it, err := s.db.NewIterWithContext(ctx, &pebble.IterOptions{LowerBound: from.bytes(), UpperBound: to.bytes()})
	if err != nil {
		return nil, nil, nil, fmt.Errorf("spool: read counts: %w", err)
	}
	defer func() { err = errors.Join(err, it.Close()) }()
	var top [3]topCounts
	keep := func(a account, u mail.Usage) {
		switch a.level {
		case accountClass:
			top[0].add(Count{Class: a.name, Usage: u}, most)
		case accountTenant:
			top[1].add(Count{Tenant: a.name, Usage: u}, most)
		case accountFlow:
			top[2].add(Count{Tenant: a.tenant, Flow: a.name, Usage: u}, most)
		}
	}
	for ok := it.First(); ok; ok = it.Next() {
		a, ok := parseAccount(it.Key())
		value, err := it.ValueAndErr()
		if err != nil || !ok {
			continue
		}
		if u, err := decodeSum(it.Key(), value); err == nil {
			keep(a, u)
		}
	}
	return top[0], top[1], top[2], nil
}

// topCounts is sorted, largest first.
type topCounts []Count

func (t *topCounts) add(c Count, most int) {
	list := *t
	i := len(list)
	for i > 0 && compareCounts(c, list[i-1]) < 0 {
		i--
	}
	if i == most || c.Usage == (mail.Usage{}) {
		return
	}
	list = append(list, Count{})
	copy(list[i+1:], list[i:])
	list[i] = c
	*t = list[:min(len(list), most)]
}

func compareCounts(a, b Count) int {
	return cmp.Or(cmp.Compare(b.Messages, a.Messages), cmp.Compare(a.Class, b.Class), cmp.Compare(a.Tenant, b.Tenant), cmp.Compare(a.Flow, b.Flow))
}
