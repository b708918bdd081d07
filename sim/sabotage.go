package sim

import "math/rand/v2"

// A sabotage breaks the model in one way.
type sabotage struct {
	kind  Sabotage
	count int
}

// sabotageEvery is how often it strikes.
const sabotageEvery = 100

func (s *sabotage) strikes(kind Sabotage) bool {
	if s.kind != kind {
		return false
	}
	s.count++
	return s.count%sabotageEvery == 0
}

// lose may take a message out of the spool that has just come.
func (s *sabotage) lose(w *world, m *message) {
	if s.strikes(SabotageLose) {
		w.spool.remove(m)
		w.spool.unsettled -= m.unsettled
		w.spool.untried -= m.unsettled
	}
}

// hang reports whether a delivery is never to end.
func (s *sabotage) hang() bool { return s.strikes(SabotageHang) }

// seed returns the seed of the receivers, or another one.
func (s *sabotage) seed(seed uint64) uint64 {
	if s.kind == SabotageRandom {
		return rand.Uint64()
	}
	return seed
}
