package daemon

import (
	"github.com/posthaste-mta/posthaste/admin"
	"github.com/posthaste-mta/posthaste/mail"
)

// attempts returns the attempts at a message that the driver remembers.
func (d *Daemon) attempts(id mail.QueueID) (all []admin.Attempt) {
	for _, a := range d.driver.Attempts(id) {
		one := admin.Attempt{At: a.At, Number: a.Number, Result: a.Result.String(), Host: a.Host, Source: a.Source, Reply: a.Reply, Recipient: string(a.First), More: a.More}
		if a.Stage != mail.StageUnknown {
			one.Stage = a.Stage.String()
		}
		all = append(all, one)
	}
	return all
}
