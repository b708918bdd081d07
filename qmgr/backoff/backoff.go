package backoff

import (
	"cmp"
	"time"

	"github.com/posthaste-mta/posthaste/internal/prng"
	"github.com/posthaste-mta/posthaste/mail"
)

// Next returns when to retry a message that arrived at created, after an attempt
// that failed now. If created is not set, or lies in the future because the clock
// was set back, the age is 0.
//
// One number is drawn from r, none if there is no jitter.
func Next(cfg *Config, created, now mail.Instant, r *prng.Source) mail.Instant {
	shortest, longest := cfg.bounds()
	age := age(created, now)
	percent := cmp.Or(cfg.JitterPercent, defaultJitterPercent)
	if percent <= 0 {
		return now.Add(clamp(age, shortest, longest))
	}
	// Above the longest wait the age does not matter: clamping it first keeps the
	// jitter proportional to the wait, and the product below in range.
	wait := clamp(age, shortest, longest)
	jitter := wait / 100 * time.Duration(percent)
	low := clamp(wait-jitter, shortest, longest)
	high := clamp(addSaturating(wait, jitter), shortest, longest)
	return now.Add(r.Between(low, high))
}

// Expired reports whether a message that arrived at created, and whose attempt
// failed now, has expired. One whose created is not set never expires: better late
// than lost.
func Expired(cfg *Config, created, now mail.Instant, nullSender bool) bool {
	return created != 0 && age(created, now) >= cfg.lifetime(nullSender)
}

// WarnDue reports whether the sender must now be warned that a message which
// arrived at arrived is still waiting. warned means that this was done before.
//
// Postfix fixes this instant when the message arrives; here a change of the
// configuration also counts for mail that is waiting already.
func WarnDue(cfg *Config, arrived, now mail.Instant, warned bool) bool {
	return cfg.DelayWarningTime > 0 && !warned && arrived != 0 && age(arrived, now) >= cfg.DelayWarningTime
}

func age(since, now mail.Instant) time.Duration {
	if since <= 0 || now < since {
		return 0
	}
	return now.Sub(since)
}

func clamp(d, low, high time.Duration) time.Duration { return max(low, min(d, high)) }

func addSaturating(a, b time.Duration) time.Duration {
	if sum := a + b; sum >= a {
		return sum
	}
	return 1<<63 - 1
}

// Concern returns when the age of a message that arrived at created has its next consequence: it
// expires, or its sender must be warned. warned means that this was done before. It is
// Never for one whose created is not set.
func Concern(cfg *Config, created mail.Instant, nullSender, warned bool) mail.Instant {
	if created == 0 {
		return mail.Never
	}
	life := cfg.lifetime(nullSender)
	if cfg.DelayWarningTime > 0 && !warned && !nullSender {
		life = min(life, cfg.DelayWarningTime)
	}
	return created.Add(max(life, 0))
}
