package main

import (
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/posthaste-mta/posthaste/internal/feed"
)

// close balances the ledger and shows what it came to.
func (t *trial) close() error {
	c, wrong := t.ledger.balance()
	alarms, err := t.daemon.Errors()
	if err != nil {
		return err
	}
	row := func(what, format string, args ...any) { fmt.Printf("  %-50s %s\n", what, fmt.Sprintf(format, args...)) }
	kills := t.rounds - t.stops
	fmt.Printf("\n  %d kills in %s, %d of them during a start; %d stops\n\n", kills, time.Since(t.began).Round(time.Second), t.early, t.stops)
	row("messages accepted", "%d, with %d recipients", c.messages[feed.Accepted], c.recipients)
	row("refused", "%d", c.messages[feed.Refused])
	row("broken off before their end", "%d", c.messages[feed.Unsent])
	row("outcome unknown to the client", "%d, of which %d had been taken", c.messages[feed.Unknown], c.unknownTaken)
	row("deliveries", "%d", c.deliveries)
	row("failures reported", "%d, and %d of them again because of a kill", c.reports, c.reportsTwice)
	row("delivered again because of a kill", "%d, %.1f for each kill", c.twiceByKill, float64(c.twiceByKill)/float64(max(kills, 1)))
	if n := len(c.distances); n > 0 {
		slices.Sort(c.distances)
		row("time from the first of these to the kill", "median %s, 99 %% below %s, longest %s; %s after it at most",
			ms(c.distances[n/2]), ms(c.distances[n*99/100]), ms(c.distances[n-1]), ms(-min(c.distances[0], 0)))
	}
	row("delivered again because a reply was lost", "%d", c.twiceByLoss)
	row("recipients waiting at the end of a round, at most", "%d", t.unfinished)
	if len(t.starts) > 0 {
		slices.Sort(t.starts)
		row("time from start to service", "median %d ms, longest %d ms", t.starts[len(t.starts)/2].Milliseconds(), t.starts[len(t.starts)-1].Milliseconds())
	}
	row("lost, damaged, misdirected, forbidden", "%d", c.wrong)
	for _, w := range wrong {
		fmt.Println("    " + w)
	}
	for _, a := range alarms {
		fmt.Println("    log: " + a)
	}
	switch {
	case c.wrong > 0:
		return fmt.Errorf("%d things went wrong; seed %d, log and queue in %s", c.wrong, t.seed, t.dir)
	case len(alarms) > 0:
		return errors.New("the daemon's log has errors")
	}
	fmt.Println("\n  every message is accounted for")
	return nil
}

func ms(d time.Duration) string { return fmt.Sprintf("%.1f ms", d.Seconds()*1000) }
