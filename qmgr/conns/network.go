package conns

import "github.com/posthaste-mta/posthaste/mail"

// isEvidence reports whether it says something about our network that a host cannot be
// reached. It does only if the host took mail lately and has not failed since: hosts
// that never answered, or failed before, are dead, and any number of those may be tried
// at once. A message to a thousand dead domains made all other mail wait for six
// minutes as long as that was not asked. And it says nothing while something works.
func (p *Pool) isEvidence(h *host, now mail.Instant) bool {
	return now >= p.worked.Add(quiet) && p.db.WorksLately(h.key, now)
}

// hears notes that a host has answered, if only with a refusal: so the network works.
func (p *Pool) hears(h *host, now mail.Instant) {
	p.worked = now
	if p.outage.Result(h.key.Addr.Addr(), now, now, true) {
		p.networkIsBack()
	}
}

// promising reports whether the attempt of a site is likely to succeed if our network
// is not down: one of its hosts took mail lately, and it has made no attempt in vain
// since the network is held to be down. So if that is a mistake it is found out by the
// first attempts, however many sites wait.
func (p *Pool) promising(s *Site) bool {
	if s.vain >= p.outage.Since() {
		return false
	}
	for _, tier := range s.tiers {
		for _, sp := range tier {
			if p.db.WorksLately(sp.key(), p.now) {
				return true
			}
		}
	}
	return false
}
