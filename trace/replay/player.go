package replay

import (
	"slices"
	"time"

	"github.com/posthaste-mta/posthaste/mail"
	"github.com/posthaste-mta/posthaste/qmgr"
	"github.com/posthaste-mta/posthaste/trace"
)

// A player gives cues to a core, as the package comment says.
type player struct {
	core     *qmgr.Qmgr
	out      *trace.Writer // nil: nothing is recorded
	lateness time.Duration // how long after the instant that the core has named it is woken, unless a cue does
	// stepped is called for each step, and ends the play by returning true.
	stepped func(played) bool

	now      mail.Instant
	over     bool
	asked    map[name][]question         // not answered, oldest first
	early    map[name][]cue              // answers that came before their questions, oldest first
	soon     []reply                     // to be given at once
	conns    map[qmgr.ConnID]qmgr.ConnID // recorded, and what the core calls it
	draining map[qmgr.ConnID]bool        // the core has asked for its end
	closing  map[qmgr.ConnID]cue         // its end, reported when the core asks for it
	given    int                         // cues that the core was given
	did      int                         // actions of the last step
}

// A reply is a cue and the question that it answers.
type reply struct {
	cue
	to question
}

func newPlayer(h trace.Head, out *trace.Writer, lateness time.Duration) (*player, error) {
	core, err := qmgr.New(h.Config, h.Seed)
	if err != nil {
		return nil, err
	}
	return &player{core: core, out: out, lateness: lateness, now: h.Epoch,
		stepped: func(played) bool { return false },
		asked:   make(map[name][]question), early: make(map[name][]cue),
		conns: make(map[qmgr.ConnID]qmgr.ConnID), draining: make(map[qmgr.ConnID]bool), closing: make(map[qmgr.ConnID]cue)}, nil
}

// play takes a cue at its instant.
func (p *player) play(c cue) {
	p.wakeUntil(c.now)
	if p.over {
		return
	}
	p.now = max(p.now, c.now)
	switch ev := c.event.(type) {
	case qmgr.Closed:
		p.closed(c, ev)
	default:
		if c.answer {
			p.answer(c)
		} else {
			p.give(c.line, c.event)
		}
	}
	p.settle()
}

// wakeUntil sends the wakes that are overdue at an instant.
func (p *player) wakeUntil(now mail.Instant) {
	for idle := 0; !p.over && idle < idleMax; idle++ {
		wake, waits := p.core.NextWake()
		if !waits || wake.Add(p.lateness) > now {
			return
		}
		if wake > p.now || p.did > 0 {
			idle = 0
		}
		p.now = max(p.now, wake)
		p.give(0, qmgr.Wake{})
		p.settle()
	}
}

// idleMax bounds the wakes without effect at one instant, in case a broken core
// asks for them endlessly.
const idleMax = 10

// answer gives an answer, or keeps it until it is asked for.
func (p *player) answer(c cue) {
	waiting := p.asked[c.key]
	if len(waiting) == 0 {
		if found, ok := c.event.(qmgr.Found); !ok || len(found.Found.Cursors)+len(found.Found.Buckets) > 0 {
			p.early[c.key] = append(p.early[c.key], c)
		} // that nothing was there then is no answer for later
		return
	}
	// Where the same was asked several times, as with connections to one host, it
	// is the question of the same number if there is one.
	i := max(slices.IndexFunc(waiting, func(q question) bool { return q.handle == c.handle }), 0)
	to := waiting[i]
	if p.asked[c.key] = slices.Delete(waiting, i, i+1); len(waiting) == 1 {
		delete(p.asked, c.key)
	}
	p.reply(reply{c, to})
}

func (p *player) reply(r reply) {
	if ev, ok := r.event.(qmgr.Closed); ok {
		p.end(r.cue, ev)
		return
	}
	if dialed, ok := r.event.(qmgr.Dialed); ok && dialed.Opened.Reply.IsZero() {
		p.conns[dialed.Conn] = r.to.conn
	}
	p.give(r.line, addressed(r.event, r.to))
}

// settle gives the answers that were waiting for their questions.
func (p *player) settle() {
	for len(p.soon) > 0 && !p.over {
		next := p.soon[0]
		p.soon = p.soon[1:]
		p.reply(next)
	}
}

// give steps the core.
func (p *player) give(line int, ev qmgr.Event) {
	if line > 0 {
		p.given++
	}
	if p.out != nil {
		p.out.Event(p.now, ev)
	}
	actions, crash := stepCore(p.core, p.now, ev)
	if p.out != nil {
		p.out.Actions(p.now, actions)
	}
	p.did = len(actions)
	p.over = p.stepped(played{line, p.now, actions, crash}) || crash != nil
	for _, a := range actions {
		if h, ok := a.(qmgr.Hangup); ok {
			p.hangup(h.Conn)
		}
		if q, asks := ask(a); asks {
			p.ask(q)
		}
	}
}

func (p *player) ask(q question) {
	early := p.early[q.key]
	if len(early) == 0 {
		p.asked[q.key] = append(p.asked[q.key], q)
		return
	}
	if p.early[q.key] = early[1:]; len(early) == 1 {
		delete(p.early, q.key)
	}
	p.soon = append(p.soon, reply{early[0], q})
}

// unanswered returns how many questions have had no answer, and how many answers
// no question.
func (p *player) unanswered() (questions, answers int) {
	for _, list := range p.asked {
		questions += len(list)
	}
	for _, list := range p.early {
		answers += len(list)
	}
	return questions, answers + len(p.closing)
}
