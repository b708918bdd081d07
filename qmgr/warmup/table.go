package warmup

import (
	"cmp"
	"iter"
	"math"
	"slices"
	"strings"

	"github.com/posthaste-mta/posthaste/internal/assert"
	"github.com/posthaste-mta/posthaste/internal/ilist"
	"github.com/posthaste-mta/posthaste/internal/mistakes"
	"github.com/posthaste-mta/posthaste/mail"
)

// A Config says which sources are warmed up.
type Config struct {
	// Sources are the sources with a warm-up; all others have no limit.
	Sources []Source
	// SiteLimit is the maximum number of sites of one source that are remembered (default
	// 10,000, about 2.5 MB). Raise it for a source that sends to more sites on one day.
	SiteLimit int
}

// A Source is a source that is warmed up.
type Source struct {
	Name string // 1 to 255 bytes, without NUL
	// Start is the first day on which the source may be used.
	Start Day
	Plan  Plan
}

// WithDefaults returns c with defaults in place of zero values.
func (c Config) WithDefaults() Config {
	c.SiteLimit = cmp.Or(c.SiteLimit, 10_000)
	c.Sources = slices.Clone(c.Sources)
	for i := range c.Sources {
		p := &c.Sources[i].Plan
		p.Allowances, p.Limits = slices.Clone(p.Allowances), p.Limits.WithDefaults()
	}
	return c
}

// RecordLimit returns how many records a store should keep: all of the configured sources,
// and if these have fewer than a million, as many. Sources that were configured before have
// records, too, which stay until they have not been used for as long as sites are
// remembered: a mistake in the configuration must neither cost them, nor what is stored
// beside them.
func (c Config) RecordLimit() int {
	const others = 1_000_000
	return max(len(c.Sources)*(c.WithDefaults().SiteLimit+1), others)
}

// Equal reports whether two configurations are the same.
func (c Config) Equal(other Config) bool {
	return c.SiteLimit == other.SiteLimit && slices.EqualFunc(c.Sources, other.Sources, func(a, b Source) bool {
		return a.Name == b.Name && a.Start == b.Start && a.Plan.Name == b.Plan.Name && a.Plan.Limits == b.Plan.Limits && slices.Equal(a.Plan.Allowances, b.Plan.Allowances)
	})
}

// Validate returns all errors of c, nil if there are none. Zero values are valid.
func (c Config) Validate() error {
	var wrong mistakes.List
	wrong.Unless(c.SiteLimit >= 0, "site limit %d: must be positive", c.SiteLimit)
	for i, s := range c.Sources {
		wrong.Unless(len(s.Name) >= 1 && len(s.Name) <= sourceMax && !strings.Contains(s.Name, "\x00"), "source %.40q: want a name of at most %d bytes", s.Name, sourceMax)
		wrong.Unless(!slices.ContainsFunc(c.Sources[:i], func(o Source) bool { return o.Name == s.Name }), "source %s: there are two", s.Name)
		wrong.Unless(s.Start >= 0, "source %s: start %d is before 1970", s.Name, s.Start)
		wrong.AddOf("source "+s.Name+": warm-up plan "+s.Plan.Name, s.Plan.Validate())
	}
	return wrong.Join()
}

const (
	sourceMax = 255
	// siteMax is the maximum length of a site's name in bytes. Longer ones are cut; two
	// with the same beginning share an allowance.
	siteMax = 1024
)

// A Key is whose allowance it is. The empty Site stands for the source as a whole: where
// its sites begin, and whether all of them are paused.
type Key struct{ Source, Site string }

// cut returns the key that is remembered for k.
func (k Key) cut() Key {
	if len(k.Site) > siteMax {
		k.Site = strings.Clone(k.Site[:siteMax])
	}
	return k
}

// A Table has the records of all sources. It belongs to one goroutine.
type Table struct {
	limit   int
	sources map[string]*source
	byName  []*source     // the same, in the order of their names
	sites   map[Key]*site // those of all sources
	dirty   ilist.List[site]
	gone    []Key // forgotten since the last save
}

// A source is a source that is or was configured: the records of one that is configured no
// more stay for the time that sites are remembered, so that a mistake in the configuration
// costs nothing.
type source struct {
	name   string
	start  Day
	plan   *Plan            // with its defaults; nil if the source is not configured
	whole  *site            // the record with the empty site; nil if no order ever made one
	recent ilist.List[site] // sites that may be forgotten, least recently used first
	kept   ilist.List[site] // paused ones
}

// sites returns the number of sites that are remembered.
func (w *source) sites() int { return w.recent.Len() + w.kept.Len() }

// all returns the sites, in an order that depends on the calls alone.
func (w *source) all() iter.Seq[*site] {
	return func(yield func(*site) bool) {
		for s := range w.recent.All() {
			if !yield(s) {
				return
			}
		}
		for s := range w.kept.All() {
			if !yield(s) {
				return
			}
		}
	}
}

// A site is one record, with what is not saved.
type site struct {
	key     Key
	rec     Record
	source  *source
	place   ilist.Link[site] // in source.recent or source.kept
	unsaved ilist.Link[site] // in Table.dirty
}

// New returns an empty table. cfg must be valid.
func New(cfg Config, now mail.Instant) *Table {
	t := &Table{sources: map[string]*source{}, sites: map[Key]*site{}}
	t.Configure(cfg, now)
	return t
}

// Configure changes the configuration. A site whose plan has other allowances now goes on
// where the new plan allows no more than it has today.
func (t *Table) Configure(cfg Config, now mail.Instant) {
	cfg = cfg.WithDefaults()
	today := DayOf(now)
	t.limit = cfg.SiteLimit
	for _, w := range t.byName {
		t.rollAll(w, today) // what has been is judged by the old plan
		w.plan = nil
	}
	for _, c := range cfg.Sources {
		w := t.source(c.Name)
		plan := c.Plan
		w.start, w.plan = c.Start, &plan
		t.fit(w.whole)
		for s := range w.all() {
			t.fit(s)
		}
		for w.sites() > t.limit && t.forgetOne(w, today) {
		}
	}
}

// rollAll brings all sites of a source to a day.
func (t *Table) rollAll(w *source, today Day) {
	if w.plan != nil {
		for s := range w.all() {
			t.roll(s, today)
		}
	}
}

// fit makes a site's record one of the source's plan.
func (t *Table) fit(s *site) {
	if s == nil {
		return
	}
	before := s.rec
	if s.rec.fit(s.source.plan); s.rec != before {
		t.mark(s)
	}
}

func (t *Table) source(name string) *source {
	w := t.sources[name]
	if w == nil {
		w = &source{name: name}
		t.sources[name] = w
		at, _ := slices.BinarySearchFunc(t.byName, name, func(w *source, name string) int { return strings.Compare(w.name, name) })
		t.byName = slices.Insert(t.byName, at, w)
	}
	return w
}

// configured returns a source that is warmed up, nil if it is not.
func (t *Table) configured(name string) *source {
	if w := t.sources[name]; w != nil && w.plan != nil {
		return w
	}
	return nil
}

// first returns the day of the plan on which the source's sites begin.
func (w *source) first() uint16 {
	switch {
	case w.whole == nil:
		return 0
	case w.whole.rec.State == Warm:
		return w.plan.length()
	}
	return w.whole.rec.Step
}

func (w *source) paused() bool { return w.whole != nil && w.whole.rec.Paused }

// fresh returns the record of a site of which nothing is known.
func (w *source) fresh(today Day) Record {
	r := Record{Day: today}
	r.start(w.plan, w.first())
	return r
}

// at returns the record of a site as it is today, without changing it.
func (t *Table) at(w *source, k Key, today Day) (r Record, known bool) {
	s := t.sites[k]
	if s == nil {
		return w.fresh(today), false
	}
	r = s.rec
	w.rollOf(&r, today)
	return r, true
}

// rollOf rolls a record of the source.
func (w *source) rollOf(r *Record, today Day) {
	if today <= r.Day {
		return
	}
	own := r.Paused
	r.Paused = own || w.paused()
	r.roll(w.plan, w.first(), today)
	r.Paused = own
}

func (t *Table) roll(s *site, today Day) {
	if s.rec.Day < today {
		s.source.rollOf(&s.rec, today)
		t.mark(s)
	}
}

// A Room is whether a source may be used for a site today, and why not.
type Room uint8

const (
	// Unlimited: the site is warm, or the source is not warmed up.
	Unlimited Room = iota
	// Open: some of the allowance is left.
	Open
	// Spent: the day's allowance is used up.
	Spent
	// Early: the source's first day has not come.
	Early
	// Full: all sites that are remembered were used today, and this is not one of them.
	Full
)

// String returns the room's name.
func (r Room) String() string {
	return [...]string{"unlimited", "open", "spent", "early", "full"}[r]
}

// Free reports whether a message may be started.
func (r Room) Free() bool { return r == Unlimited || r == Open }

// An Allowance is what a source may send to a site today.
type Allowance struct {
	Room  Room
	Taken int // messages that were started today
	Of    int // the day's allowance; 0 unless the room is Open or Spent
	// Until is when to ask again: the next day's first instant, or that of the source's
	// first day; mail.Never if the room is Unlimited.
	Until mail.Instant
}

// Left returns how many more messages may be started today.
func (a Allowance) Left() int {
	switch a.Room {
	case Unlimited:
		return math.MaxInt
	case Open:
		return a.Of - a.Taken
	}
	return 0
}

// Allowance returns what a source may send to a site now. It changes nothing.
func (t *Table) Allowance(k Key, now mail.Instant) Allowance {
	w := t.configured(k.Source)
	if w == nil {
		return Allowance{Until: mail.Never}
	}
	k = k.cut()
	today := DayOf(now)
	if today < w.start {
		return Allowance{Room: Early, Until: w.start.Start()}
	}
	r, known := t.at(w, k, today)
	a := Allowance{Taken: int(r.Taken), Of: int(r.Allowed), Until: r.Day.End()}
	switch {
	case r.State == Warm:
		a.Until, a.Of = mail.Never, 0
	case !known && !w.mayAdd(t.limit, today):
		a.Room, a.Of = Full, 0
	case r.Taken < r.Allowed:
		a.Room = Open
	default:
		a.Room = Spent
	}
	return a
}

// mayAdd reports whether there is room for one more site, or one that can be forgotten.
func (w *source) mayAdd(limit int, today Day) bool {
	s := w.recent.Front()
	return w.sites() < limit || s != nil && s.rec.Used < today
}

// A Mark is the day on which a message counts, in a form whose zero value is no day: it does
// not count.
type Mark int32

// Take counts a message that is started. The room should be free: a caller that does not ask
// exceeds the allowance, or the number of sites that are remembered, and is counted
// nevertheless. It returns what Give needs.
func (t *Table) Take(k Key, now mail.Instant) Mark {
	w := t.configured(k.Source)
	if w == nil {
		return 0
	}
	today := DayOf(now)
	k = k.cut()
	if t.sites[k] == nil && w.first() == w.plan.length() && !w.mayAdd(t.limit, today) {
		return 0 // all sites begin warm: there is no limit to count for
	}
	s := t.find(w, k, today)
	s.rec.Taken = plus(s.rec.Taken, 1)
	t.use(s)
	return Mark(s.rec.Day) + 1
}

// Give takes back a message that was counted and not attempted: not one byte of it went
// out. It counts for nothing then. If the day on which it counts is over it stays counted
// there, since the day was judged.
func (t *Table) Give(k Key, m Mark, now mail.Instant) {
	s := t.sites[k.cut()]
	if s == nil || s.source.plan == nil {
		return
	}
	t.roll(s, DayOf(now))
	if Mark(s.rec.Day)+1 != m || s.rec.Taken == 0 {
		return
	}
	s.rec.Taken--
	t.mark(s)
}

// A Result is how a message ended, by the receiver's replies to its recipients. Recipients
// without a reply of the receiver count nowhere: a lost connection is no opinion of our
// mail.
type Result struct{ Accepted, Deferred, Bounced int }

// ResultOf counts the outcomes of a delivery. It reports false if no recipient's turn came.
func ResultOf(outcomes []mail.Outcome) (r Result, tried bool) {
	for i := range outcomes {
		o := &outcomes[i]
		tried = tried || o.Result != mail.Untried
		switch {
		case o.Result == mail.Delivered:
			r.Accepted++
		case o.Reply.By == "": // it is not the receiver who said so
		case o.Result == mail.Deferred:
			r.Deferred++
		case o.Result == mail.Failed:
			r.Bounced++
		}
	}
	return r, tried
}

// Ended counts how a message ended, on the day on which it did.
func (t *Table) Ended(k Key, r Result, now mail.Instant) {
	w := t.configured(k.Source)
	if w == nil || r == (Result{}) {
		return
	}
	s := t.sites[k.cut()]
	if s == nil {
		return // forgotten meanwhile
	}
	t.roll(s, DayOf(now))
	c := &s.rec.Counts
	if r.Accepted > 0 {
		c.Delivered = plus(c.Delivered, 1)
	}
	c.Accepted = plus(c.Accepted, r.Accepted)
	c.Deferred = plus(c.Deferred, r.Deferred)
	c.Bounced = plus(c.Bounced, r.Bounced)
	t.mark(s)
}

// plus adds and stays at the maximum.
func plus(a uint32, b int) uint32 { return uint32(min(uint64(a)+uint64(b), math.MaxUint32)) }

// use records that the site is used on the day that it has reached.
func (t *Table) use(s *site) {
	s.rec.Used = s.rec.Day
	if s.place.On(&s.source.recent) {
		s.source.recent.MoveToBack(&s.place)
	}
	t.mark(s)
}

// find returns a site as it is today, and remembers it if it is new: in place of another
// one, or beyond the limit if that cannot be.
func (t *Table) find(w *source, k Key, today Day) *site {
	if s := t.sites[k]; s != nil {
		t.roll(s, today)
		return s
	}
	for w.sites() >= t.limit && t.forgetOne(w, today) {
	}
	s := &site{key: Key{w.name, strings.Clone(k.Site)}, source: w, rec: w.fresh(today)}
	s.rec.Used = today
	t.add(s)
	return s
}

// add adds a site that is not yet in the table.
func (t *Table) add(s *site) {
	t.sites[s.key] = s
	if s.key.Site == "" {
		s.source.whole = s
	}
	s.settle()
}

// settle puts a site on the list where it belongs, in its order, if it is not there.
func (s *site) settle() {
	w := s.source
	if s == w.whole || s.place.Listed() && s.place.On(&w.kept) == s.rec.Paused {
		return
	}
	if s.rec.Paused {
		if s.place.Listed() {
			w.recent.Remove(&s.place)
		}
		w.kept.PushBack(&s.place, s)
		return
	}
	if s.place.Listed() {
		w.kept.Remove(&s.place)
	}
	before := w.recent.Back()
	for before != nil && before.rec.Used > s.rec.Used {
		before = w.recent.Prev(&before.place)
	}
	if before == nil {
		w.recent.PushFront(&s.place, s)
	} else {
		w.recent.InsertAfter(&s.place, s, &before.place)
	}
}

// forgetOne forgets the site of a source that was not used for the longest time, if that
// was before a day. It reports whether there was one.
func (t *Table) forgetOne(w *source, before Day) bool {
	s := w.recent.Front()
	if s == nil || s.rec.Used >= before {
		return false
	}
	t.forget(s)
	return true
}

// forget forgets a site that is not paused.
func (t *Table) forget(s *site) {
	s.source.recent.Remove(&s.place)
	if s.unsaved.Listed() {
		t.dirty.Remove(&s.unsaved)
	}
	delete(t.sites, s.key)
	t.lost(s.key)
}

// Check panics where an invariant does not hold.
func (t *Table) Check() {
	n := 0
	for _, w := range t.byName {
		assert.That(t.sources[w.name] == w, "source %s is not found", w.name)
		if w.whole != nil {
			w.whole.check(t, Key{Source: w.name})
			n++
		}
		used := Day(0)
		for s := range w.recent.All() {
			assert.That(s.rec.Used >= used, "site %q was used before the one before it", s.key)
			used = s.rec.Used
		}
		for s := range w.all() {
			s.check(t, Key{w.name, s.key.Site})
			assert.That(s.place.On(&w.kept) == s.rec.Paused, "site %q: paused %v", s.key, s.rec.Paused)
			n++
		}
	}
	assert.That(len(t.sources) == len(t.byName) && len(t.sites) == n, "%d sources and %d sites, %d and %d are found", len(t.byName), n, len(t.sources), len(t.sites))
	assert.That(len(t.gone) <= t.goneMax(), "%d forgotten sites are unsaved", len(t.gone))
}

func (s *site) check(t *Table, k Key) {
	assert.That(s.key == k && t.sites[k] == s, "site %q is found as %q", s.key, k)
	if p := s.source.plan; p != nil && s.rec.State == Warming {
		assert.That(s.rec.Step < p.length() && s.rec.Allowed == uint32(p.Allowances[s.rec.Step]), "site %q: day %d of its plan allows %d", k, s.rec.Step+1, s.rec.Allowed)
	}
	assert.That(s.rec.State == Warming || s.rec.Step == 0 && s.rec.Allowed == 0, "site %q is warm and has a day", k)
}
