package backoff

import (
	"cmp"
	"time"

	"github.com/posthaste-mta/posthaste/internal/prng"
	"github.com/posthaste-mta/posthaste/mail"
)

// Next returns when to try again a message that was taken in at created, after
// an attempt that ended now without success. A created that is not set, or
// that lies in the future because the clock was set back, is an age of 0.
//
// One number is drawn from r, none if there is no jitter.
func Next(cfg *Config, created, now mail.Instant, r *prng.Source) mail.Instant {
	shortest, longest := cfg.bounds()
	age := age(created, now)
	percent := cmp.Or(cfg.JitterPercent, defaultJitterPercent)
	if percent <= 0 {
		return now.Add(clamp(age, shortest, longest))
	}
	// Above the longest wait the age does not matter: clamping it first keeps
	// the jitter a part of the wait, and the product below in range.
	wait := clamp(age, shortest, longest)
	jitter := wait / 100 * time.Duration(percent)
	low := clamp(wait-jitter, shortest, longest)
	high := clamp(addSaturating(wait, jitter), shortest, longest)
	return now.Add(r.Between(low, high))
}

// Expired tells whether a message that was taken in at created, and whose
// attempt ended now without success, is to be given up. One whose created is
// not set never is: better late than lost.
func Expired(cfg *Config, created, now mail.Instant, nullSender bool) bool {
	return created != 0 && age(created, now) >= cfg.lifetime(nullSender)
}

// WarnDue tells whether the sender is to be told now that a message which
// arrived then is still waiting. warned says that this was done before.
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
