package mtasts

import "time"

const (
	// renewTick is the interval at which policies are renewed.
	renewTick = time.Minute
	// saveEvery is the interval at which they are saved. Each time the file is written
	// anew, some 4 MB with a full cache.
	saveEvery = 10 * time.Minute
)

// keep renews and saves policies until the store is closed.
func (s *Store) keep() {
	tick, save := time.NewTicker(renewTick), time.NewTicker(saveEvery)
	defer tick.Stop()
	defer save.Stop()
	for {
		select {
		case <-tick.C:
			s.renew(time.Now())
		case <-save.C:
			s.save()
		case <-s.ctx.Done():
			return
		}
	}
}

// renew begins to fetch the policies that are due, as many as there is room for. The
// others are begun at a later tick: after a long stop all policies are due.
func (s *Store) renew(now time.Time) {
	s.mu.Lock()
	defer s.mu.Unlock()
	room := cap(s.spare) - len(s.spare)
	s.entries.all(func(e *entry) {
		if room > 0 && s.flights[e.domain] == nil && e.due(now) {
			room--
			name, id := e.domain, e.policy.ID
			s.tasks.Go(func() { s.renewOne(name, id) })
		}
	})
}

// renewOne fetches the policy of a domain with the id that it has now, or if there is
// no record any more with the one it had (RFC 8461 3.3: the policy is in force without
// the record).
func (s *Store) renewOne(name, id string) {
	if now, err := s.announced(s.ctx, name); err == nil {
		id = now
	}
	s.mu.Lock()
	if s.flights[name] == nil {
		s.start(name, id, s.spare)
	}
	s.mu.Unlock()
}
