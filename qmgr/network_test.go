package qmgr

import "testing"

// Our network and addresses of sources want mail tried again that was put off while they were
// away, in any order; the earliest counts.
//
// Seen failing: what our network had put off was not tried again if it had been down since
// before the first mail for which there was no source.
func TestRecoveryReachesBackToTheEarliest(t *testing.T) {
	var r recovery
	r.want(50)
	r.want(70)
	if r.since != 50 {
		t.Errorf("since %d, want 50", r.since)
	}
	r.want(30)
	if r.since != 30 {
		t.Errorf("since %d, want 30", r.since)
	}
}
