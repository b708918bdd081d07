package intake

import (
	"testing"

	"github.com/posthaste-mta/posthaste/mail"
)

// What is wanted is tried since the earliest instant, at once, and after that not within ten minutes.
func TestRecovery(t *testing.T) {
	var r Recovery
	if r.Wake() != mail.Never {
		t.Error("a scan is due that nobody has wanted")
	}
	const now = mail.Instant(1e18)
	r.Want(now - 5)
	r.Want(now - 9)
	r.Want(now - 7)
	if r.Wake() > now {
		t.Errorf("the first begins at %v", r.Wake())
	}
	if since := r.Begin(now); since != now-9 || r.Wake() != mail.Never {
		t.Errorf("tried since %v", since)
	}
	if r.Want(now + 1); r.Wake() != now.Add(recoveryPause) || r.Begin(now.Add(recoveryPause)) != now+1 {
		t.Errorf("the second begins at %v", r.Wake())
	}
}

// Our network and addresses of sources want mail tried again that was put off while they were
// away, in any order; the earliest counts.
//
// Seen failing: what our network had put off was not tried again if it had been down since
// before the first mail for which there was no source.
func TestRecoveryReachesBackToTheEarliest(t *testing.T) {
	var r Recovery
	r.Want(50)
	r.Want(70)
	if r.since != 50 {
		t.Errorf("since %d, want 50", r.since)
	}
	r.Want(30)
	if r.since != 30 {
		t.Errorf("since %d, want 30", r.since)
	}
}
