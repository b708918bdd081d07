package main

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"time"

	"github.com/posthaste-mta/posthaste/mail"
	"github.com/posthaste-mta/posthaste/spool"
)

// all is more than there are of anything.
const all = 1 << 30

// An account is what messages are counted for: a class, a tenant, or a flow of a tenant.
type account struct{ class, tenant, flow string }

type sums map[account]mail.Usage

func (s sums) add(a account, u mail.Usage) { s[a] = s[a].Plus(u) }

// check compares the counts of the spool with its messages. Messages may be counted again if
// quotas were switched since the last check, or a commit failed because the disk was full. There
// is space by now.
func (t *trial) check(n int, switched bool) error {
	t.eating.Lock()
	defer t.eating.Unlock()
	var alarm error
	s, err := spool.Open(spool.Config{Settings: spool.Settings{Dir: t.daemon.Queue(), MemTable: 1 << 20, Ballast: 1 << 20, MinFree: 1 << 20}, Counts: t.level,
		OnAlarm: func(a spool.Alarm) { alarm = fmt.Errorf("alarm: %s: %w", a.Text, a.Err) }})
	if err != nil {
		return err
	}
	_, again := s.Counting()
	if err = t.compare(n, s, again); again && !switched && !t.full {
		err = errors.Join(err, errors.New("messages had to be counted again"))
	}
	return errors.Join(err, s.Close(), alarm)
}

func (t *trial) compare(n int, s *spool.Spool, again bool) error {
	for underway := again; underway; _, underway = s.Counting() {
		time.Sleep(time.Millisecond)
	}
	there, messages, err := t.recount(s)
	if err != nil {
		return err
	}
	t.most = max(t.most, messages)
	fmt.Printf("round %3d/%d  level %d  messages %5d  accounts %4d  counted again %v\n", n, t.rounds, t.level, messages, len(there), again)
	if t.level == mail.CountNothing {
		t.without++
		return nil
	}
	if again {
		t.again++
	}
	counted, err := t.counted(s)
	if err != nil || maps.Equal(counted, there) {
		return err
	}
	for a, u := range there {
		if counted[a] != u {
			err = errors.Join(err, fmt.Errorf("%+q: counted are %+v, there are %+v", a, counted[a], u))
		}
	}
	for a, u := range counted {
		if _, ok := there[a]; !ok {
			err = errors.Join(err, fmt.Errorf("%+q: counted are %+v, there are none", a, u))
		}
	}
	return err
}

// recount adds up the messages of the spool.
func (t *trial) recount(s *spool.Spool) (there sums, messages int64, err error) {
	there = make(sums)
	for area := mail.AreaIncoming; area <= mail.AreaCorrupt; area++ {
		found, err := s.Find(context.Background(), area, mail.Cursor{}, all)
		if err != nil {
			return nil, 0, err
		}
		for _, c := range found.Cursors {
			m, err := s.Lookup(context.Background(), c.ID)
			if err != nil {
				return nil, 0, err
			}
			messages++
			f, one := m.Envelope.Flow, mail.Usage{Messages: 1, Octets: m.Envelope.Size}
			there.add(account{class: f.Class}, one)
			there.add(account{tenant: f.Tenant}, one)
			if t.level == mail.CountFlows {
				there.add(account{tenant: f.Tenant, flow: f.Flow}, one)
			}
		}
	}
	return there, messages, nil
}

// counted returns the counts. Those of flows may be there although they are not needed.
func (t *trial) counted(s *spool.Spool) (sums, error) {
	classes, tenants, flows, err := s.Counts(context.Background(), all)
	if t.level < mail.CountFlows {
		flows = nil
	}
	counts := make(sums)
	for _, list := range [][]spool.Count{classes, tenants, flows} {
		for _, c := range list {
			counts.add(account{c.Class, c.Tenant, c.Flow}, c.Usage)
		}
	}
	return counts, err
}
