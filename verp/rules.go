package verp

import (
	"slices"

	"github.com/posthaste-mta/posthaste/internal/glob"
	"github.com/posthaste-mta/posthaste/mail"
)

// A Rule selects mail whose senders contain the recipient. Mail must meet one condition of each list that
// is not empty.
type Rule struct {
	Classes []string // names of classes (mail.Flow.Class)
	Tenants []string // patterns (package glob) for mail.Flow.Tenant
	Flows   []string // patterns for mail.Flow.Flow
	Senders []string // patterns for the envelope sender (glob.NewSenders)
	// VERP is that of the selected mail; zero turns VERP off, whatever rules follow.
	VERP mail.VERP
}

// Rules are rules in the order of trial. They do not change, and are safe for concurrent use. A
// nil *Rules has none.
type Rules struct{ all []rule }

type rule struct {
	classes        []string
	tenants, flows []glob.Pattern
	senders        glob.Senders
	verp           mail.VERP
}

// NewRules compiles rules; nil if there are none.
func NewRules(all []Rule) *Rules {
	if len(all) == 0 {
		return nil
	}
	r := &Rules{}
	for _, one := range all {
		c := rule{classes: one.Classes, senders: glob.NewSenders(one.Senders), verp: one.VERP}
		for _, text := range one.Tenants {
			c.tenants = append(c.tenants, glob.New(text))
		}
		for _, text := range one.Flows {
			c.flows = append(c.flows, glob.New(text))
		}
		r.all = append(r.all, c)
	}
	return r
}

// Choose returns the VERP of the first rule that selects the mail of a flow and sender; zero if none
// does. The null sender never contains a recipient.
func (r *Rules) Choose(f *mail.Flow, sender mail.Address) mail.VERP {
	if r == nil || sender.Domain() == "" {
		return mail.VERP{}
	}
	for i := range r.all {
		if r.all[i].met(f, sender) {
			return r.all[i].verp
		}
	}
	return mail.VERP{}
}

func (c *rule) met(f *mail.Flow, sender mail.Address) bool {
	return (len(c.classes) == 0 || slices.Contains(c.classes, f.Class)) &&
		(len(c.tenants) == 0 || glob.Any(c.tenants, f.Tenant)) &&
		(len(c.flows) == 0 || glob.Any(c.flows, f.Flow)) &&
		(len(c.senders) == 0 || c.senders.Match(string(sender)))
}
