package sim

import "testing"

// The progress of a long simulation is reported: the time and the mail of a run only
// grow, and in the end all runs are done.
func TestProgress(t *testing.T) {
	s := oneSite(Behaviour{Recipient: Fixed(second)}, Arrivals{Messages: 3000, Min: 1, Max: 1})
	s.Runs = append(s.Runs, s.Runs[0])
	s.Runs[1].Name = "another"
	var last Progress
	known := make(map[string]Progress)
	_, err := Simulate(s, Options{Parallel: 2, Progress: func(p Progress) {
		was := known[p.Run]
		if p.Of != 2 || p.Done < last.Done || p.At < was.At || p.Accepted < was.Accepted || p.Settled < was.Settled || p.Settled > p.Accepted {
			t.Errorf("after %+v comes %+v", was, p)
		}
		last = p
		if p.Run != "" {
			known[p.Run] = p
		}
	}})
	if err != nil {
		t.Fatal(err)
	}
	if last != (Progress{Done: 2, Of: 2}) || len(known) != 2 || known["another"].Settled < 1000 {
		t.Errorf("the last is %+v; of the runs %+v", last, known)
	}
}
