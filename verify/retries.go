package verify

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"github.com/posthaste-mta/posthaste/mail"
	"github.com/posthaste-mta/posthaste/qmgr"
)

// A deferral is what became of a message at a second.
type deferral struct {
	Message string `json:"message"`
	T       int64  `json:"t"`
	What    string `json:"what"`
	Delay   int64  `json:"delay"`
}

// A suspension is a recipient that was deferred without an attempt.
type suspension struct {
	Message   string `json:"message"`
	Recipient string `json:"recipient"`
	T         int64  `json:"t"`
}

// retries is the replay of a trace of retry schedules: a second is a step, and
// what happens within one second may come in any order.
type retries struct {
	*oracle
	second  int64
	run     bool // of the deferred queue, which has not begun
	results map[mail.QueueID]results
	under   []underway

	attempts    []string
	suspensions []string
	deferrals   []string
	ends        []string
}

// results says how the attempts of one message end: by recipient's local part,
// or under "" for all; the last one repeats.
type results struct {
	ends  map[string][]string
	takes int64
	tried map[string]int
}

type underway struct {
	delivery qmgr.Deliver
	until    int64
	results  map[string]string
}

func (o *oracle) runRetries() error {
	r := &retries{oracle: o, results: make(map[mail.QueueID]results)}
	o.host.seen = r.see
	for r.second = 0; r.second < o.ObservedUntil; r.second++ {
		o.host.advance(seconds(epoch + r.second))
		if err := r.admitAll(); err != nil {
			return err
		}
		if err := r.deliverAll(); err != nil {
			return err
		}
	}
	return r.compare()
}

// admitAll lets the core pick up what arrives in this second, and what a run of the
// deferred queue finds in it: what is due within one second, and was not put there
// only now. The recorded order decides where several are found, as does the order
// of the directory in Postfix. Messages without room wait.
func (r *retries) admitAll() error {
	type find struct {
		place int
		do    func() error
	}
	var finds []find
	for i := range r.Messages {
		m := &r.Messages[i]
		if m.EnqueueTime == r.second {
			finds = append(finds, find{r.place(m.ID), func() error { return r.arrive(m) }})
		}
	}
	// A run that comes while there is no room to end the one before begins after it.
	r.run = r.run || slices.Contains(r.QueueRuns, r.second)
	if r.run && len(r.host.deferred) == 0 {
		r.run = false
		for id := mail.QueueID(1); int(id) <= len(r.host.names); id++ {
			m := r.host.messages[id]
			if m.place.Area == mail.AreaDeferred && !r.host.core.InCore(id) && m.envelope.LastAttempt < r.host.now {
				finds = append(finds, find{r.place(r.host.name(id)), func() error {
					r.host.deferred = append(r.host.deferred, id)
					r.settle()
					return nil
				}})
			}
		}
	}
	slices.SortStableFunc(finds, func(a, b find) int { return a.place - b.place })
	for _, f := range finds {
		if err := f.do(); err != nil {
			return err
		}
	}
	return nil
}

// place is where the records from this second on first mention a message.
func (r *retries) place(name string) int {
	for i, d := range r.Order {
		if d.T >= r.second && d.Message == name {
			return i
		}
	}
	return len(r.Order)
}

func (r *retries) arrive(m *recordedMessage) error {
	res := results{ends: make(map[string][]string), takes: m.Takes, tried: make(map[string]int)}
	var same []string
	if json.Unmarshal(m.Results, &same) == nil {
		res.ends[""] = same
	} else if err := json.Unmarshal(m.Results, &res.ends); err != nil {
		return fmt.Errorf("results of %s: %w", m.ID, err)
	}
	r.results[mail.QueueID(r.admitted+1)] = res
	r.admit(m)
	return nil
}

func (r *retries) see(a qmgr.Action) {
	switch a := a.(type) {
	case qmgr.Deliver:
		if a.Delivery.Transport == qmgr.TransportRetry {
			for _, rcpt := range addresses(a) {
				r.suspensions = append(r.suspensions, suspension{r.host.name(a.Delivery.Envelope.ID), rcpt, r.second}.String())
			}
		}
	case qmgr.Note:
		r.note(a)
	}
}

func (r *retries) note(n qmgr.Note) {
	d := deferral{Message: r.host.name(n.ID), T: r.second}
	switch n.Kind {
	case qmgr.NoteDeferred:
		d.What, d.Delay = "deferred", n.At.Seconds()-r.host.now.Seconds()
		r.deferrals = append(r.deferrals, d.String())
	case qmgr.NoteExpired:
		d.What = "expired, returned to sender"
		r.ends = append(r.ends, d.String())
	case qmgr.NoteRemoved:
		d.What = "removed"
		r.ends = append(r.ends, d.String())
	}
}

// deliverAll starts what the core has, and ends what is to end in this second.
func (r *retries) deliverAll() error {
	for {
		for _, d := range r.startAll() {
			u, err := r.attempt(d)
			if err != nil {
				return err
			}
			r.under = append(r.under, u)
		}
		i := slices.IndexFunc(r.under, func(u underway) bool { return u.until <= r.second })
		if i < 0 {
			return nil
		}
		u := r.under[i]
		r.under = slices.Delete(r.under, i, i+1)
		how := endSoft
		if slices.Contains(sortedValues(u.results), "unreachable") {
			how = endSite
		}
		r.host.finishEach(u.delivery, how, func(rcpt mail.Recipient) bool { return u.results[string(rcpt.Address)] == "ok" })
		r.settle()
	}
}

// attempt notes a delivery and says how it will end.
func (r *retries) attempt(d qmgr.Deliver) (underway, error) {
	id := d.Delivery.Envelope.ID
	res := r.results[id]
	u := underway{delivery: d, until: r.second + res.takes, results: make(map[string]string)}
	for _, rcpt := range d.Delivery.Recipients {
		ends, known := res.ends[rcpt.Address.Local()]
		if !known {
			ends = res.ends[""]
		}
		if len(ends) == 0 {
			return u, fmt.Errorf("no results for %s of %s", rcpt.Address, r.host.name(id))
		}
		end := ends[min(res.tried[string(rcpt.Address)], len(ends)-1)]
		if _, err := endingOf(end); err != nil {
			return u, err
		}
		res.tried[string(rcpt.Address)]++
		u.results[string(rcpt.Address)] = end
	}
	r.attempts = append(r.attempts, attemptText(r.second, r.host.name(id), addresses(d), u.results))
	return u, nil
}

func attemptText(t int64, name string, recipients []string, results map[string]string) string {
	var b strings.Builder
	fmt.Fprintf(&b, "t=%d %s:", t, name)
	for _, a := range sortedCopy(recipients) {
		fmt.Fprintf(&b, " %s %s", a, results[a])
	}
	return b.String()
}

func (s suspension) String() string { return fmt.Sprintf("t=%d %s %s", s.T, s.Message, s.Recipient) }

func (d deferral) String() string {
	return fmt.Sprintf("t=%d %s %s delay=%d", d.T, d.Message, d.What, d.Delay)
}

func (r *retries) compare() error {
	var suspended []suspension
	if err := json.Unmarshal(r.Suspended, &suspended); err != nil {
		return fmt.Errorf("suspended: %w", err)
	}
	var attempts []string
	for _, d := range r.Order {
		attempts = append(attempts, attemptText(d.T, d.Message, d.Recipients, d.Results))
	}
	for _, c := range []struct {
		what      string
		got, want []string
	}{
		{"order", r.attempts, attempts},
		{"suspended", r.suspensions, texts(suspended)},
		{"deferrals", r.deferrals, texts(r.recording.Deferrals)},
		{"ends", r.ends, texts(r.recording.Ends)},
	} {
		if err := compareList(c.what+" by second", bySecond(c.got), bySecond(c.want)); err != nil {
			return err
		}
	}
	return nil
}

func texts[T fmt.Stringer](list []T) []string {
	out := make([]string, len(list))
	for i, v := range list {
		out[i] = v.String()
	}
	return out
}

// bySecond sorts what happened within one second.
func bySecond(list []string) []string {
	list = slices.Clone(list)
	second := func(s string) string { t, _, _ := strings.Cut(s, " "); return t }
	for from := 0; from < len(list); {
		to := from
		for to < len(list) && second(list[to]) == second(list[from]) {
			to++
		}
		slices.Sort(list[from:to])
		from = to
	}
	return list
}

func sortedValues(m map[string]string) []string {
	var out []string
	for _, v := range m { //archtest:anyorder sorted below
		out = append(out, v)
	}
	slices.Sort(out)
	return out
}
