package intake

import (
	"slices"

	"github.com/posthaste-mta/posthaste/internal/assert"
	"github.com/posthaste-mta/posthaste/internal/ilist"
	"github.com/posthaste-mta/posthaste/internal/minheap"
	"github.com/posthaste-mta/posthaste/mail"
	"github.com/posthaste-mta/posthaste/qmgr/fair"
)

// A scan looks for messages in each bucket of an index by a search of its own. Those
// searches that have found something take turns in a fair order, so that a bucket with a
// million messages does not keep others waiting: they are fetched a few at a time from
// each, and one message is taken from the bucket whose turn it is.
//
// Which buckets have anything is not stored. A fetch from the start of bucket 0 names those
// that follow, mail.BucketsFound at a time; a fetch from the start of the last of them
// names the next. Until this survey has come to a bucket, a message that appears there
// has the whole bucket searched. After it, only what appears can be there.
type scan struct {
	of       Scan
	searches map[mail.Bucket]*search
	all      ilist.List[search] // in the order in which they came about; they stay, since their position does
	surveyed mail.Bucket        // the survey has named all buckets up to it; BucketEnd: it is over
	survey   *search            // whose fetch under way names the next

	hungry ilist.List[search] // more, nothing found, and no fetch under way
	progress
	dues    minheap.Heap[search, byDue]
	ready   fair.Order                     // searches that have found something
	blocked minheap.Heap[search, byInCore] // those of them whose bucket had its part of the core when it was their turn

	named []named        // ScanFlush: by Retry, and not taken
	some  []mail.QueueID // likewise, by RetrySome
	only  mail.Instant   // ScanWarmup: it is for what is due then, and nothing else; 0: it has ended
}

// named is a message that an operator has named.
type named struct {
	id    mail.QueueID
	asked mail.Instant
}

// progress counts what the searches of a scan are doing.
type progress struct {
	fetches int // under way
	asked   int // messages that these may find
	found   int // messages found and not taken
	unread  int // searches with more
	looking int // searches with more, or a fetch under way
}

const (
	// fetchMax is the largest number of messages that a fetch asks for. It bounds the wasted
	// reads if the active limit is reached in between.
	fetchMax = 256
	// fetchMin is what it asks for when foundMax is reached, so that each bucket has a
	// message for its turn.
	fetchMin = 4
	// foundMax is the number of messages found and not taken above which a scan fetches
	// fetchMin for each bucket only.
	foundMax = 4096
	// fetchesMax is the number of fetches of a scan that may be under way.
	fetchesMax = 16
)

// A search is a scan's way through one bucket. Messages before from are found, in core, or
// done, or will be announced again.
//
// Whatever rests at from or behind it is looked for while more is set. Behind it a Timed
// scan may leave what was not due yet: it looks again at nextDue. While a fetch is under
// way, more is about what comes after it.
type search struct {
	account  *Account
	from     mail.Cursor
	fetching bool
	asked    int           // messages that the fetch may find
	low      mail.Cursor   // missed: the first of what has appeared during the fetch
	missed   bool          // low is set; only while fetching
	more     bool          // there may be something at from or behind
	nextDue  mail.Instant  // when a Timed scan has something to find; Never if more, or if there is nothing
	found    []mail.Cursor // fetched and not taken, in the order of the index

	counted struct {
		unread, looking bool
		found           int
	}
	inAll    ilist.Link[search]
	inHungry ilist.Link[search]
	leaf     fair.Leaf
	due      minheap.Slot
	waits    minheap.Slot // in scan.blocked
}

type byDue struct{}

func (byDue) Before(a, b *search) bool {
	return a.nextDue < b.nextDue || a.nextDue == b.nextDue && a.account.bucket < b.account.bucket
}
func (byDue) Slot(s *search) *minheap.Slot { return &s.due }

type byInCore struct{}

func (byInCore) Before(a, b *search) bool {
	return a.account.inCore < b.account.inCore || a.account.inCore == b.account.inCore && a.account.bucket < b.account.bucket
}
func (byInCore) Slot(s *search) *minheap.Slot { return &s.waits }

// newSearch returns a search that has nothing to look for before a cursor.
func (sc *scan) newSearch(acc *Account, from mail.Cursor) *search {
	s := &search{account: acc, from: from, nextDue: mail.Never}
	s.leaf.Owner = s
	sc.searches[acc.bucket], acc.searches[sc.of] = s, s
	sc.all.PushBack(&s.inAll, s)
	return s
}

// bucketStart is the first position in a bucket that a message can have; a fetch from
// there asks for no other buckets. Bucket 0 is where the survey begins.
func bucketStart(b mail.Bucket) mail.Cursor {
	if b == 0 {
		return mail.Cursor{}
	}
	return mail.Cursor{Bucket: b, ID: 1}
}

func (sc *scan) underWay() bool { return sc.looking > 0 || sc.found > 0 }

// nextDue is when a Timed scan has something to look for.
func (sc *scan) nextDue() mail.Instant {
	if first := sc.dues.Min(); first != nil {
		return first.nextDue
	}
	return mail.Never
}

// back makes sure that a search will come to a cursor.
func (s *search) back(c mail.Cursor) {
	switch {
	case !s.fetching:
		if c.Before(s.from) {
			s.from = c
		}
	case !s.missed || c.Before(s.low):
		s.low, s.missed = c, true
	}
}

// appeared makes sure that the scan comes to a message. Where the survey has not been,
// there may be others.
func (sc *scan) appeared(acc *Account, c mail.Cursor) {
	s := acc.searches[sc.of]
	if s == nil {
		if acc.bucket > sc.surveyed {
			s = sc.newSearch(acc, bucketStart(acc.bucket))
			s.more = true
		} else {
			s = sc.newSearch(acc, c)
		}
	}
	sc.reach(s, c)
}

// reach makes sure that a search comes to a message.
func (sc *scan) reach(s *search, c mail.Cursor) {
	s.back(c)
	if sc.of.Timed() {
		s.nextDue = min(s.nextDue, c.Due)
	} else {
		s.more = true
	}
	sc.refresh(s)
}

// discover takes what the survey says of a bucket: its first message, or its start if the
// survey is to go on from there. One that is searched is searched as a whole.
func (sc *scan) discover(acc *Account, first mail.Cursor) {
	s := acc.searches[sc.of]
	switch {
	case first.ID == 0:
		if s == nil {
			s = sc.newSearch(acc, first)
		}
		s.more = true
		s.back(first)
		sc.refresh(s)
	case s == nil:
		sc.reach(sc.newSearch(acc, first), first)
	}
}

// fetch begins the fetch of the search that has waited longest for one.
func (sc *scan) fetch() (from mail.Cursor, most int) {
	s := sc.hungry.Front()
	s.fetching, s.more = true, false
	s.asked = min(max((foundMax-sc.found-sc.asked)/8, fetchMin), fetchMax)
	if sc.surveyed == s.account.bucket && s.from == (mail.Cursor{Bucket: sc.surveyed}) {
		sc.survey = s
	}
	sc.fetches++
	sc.asked += s.asked
	sc.refresh(s)
	return s.from, s.asked
}

// take takes the answer of a fetch.
func (sc *scan) take(s *search, f mail.Found) {
	sc.fetches--
	sc.asked -= s.asked
	s.fetching, s.asked = false, 0
	s.from, s.more = f.Next, s.more || f.More
	if s.missed && s.low.Before(s.from) {
		s.from, s.more = s.low, true
	}
	s.missed = false
	s.found = append(s.found[:0], f.Cursors...)
	if sc.of == ScanWarmup {
		if n := slices.IndexFunc(s.found, func(c mail.Cursor) bool { return c.Due != sc.only }); n >= 0 {
			s.found, s.more = s.found[:n], false
		}
		s.more = s.more && sc.only > 0
	}
	if sc.of == ScanResume {
		s.found = slices.DeleteFunc(s.found, func(c mail.Cursor) bool { return !Marked(c.Due) })
	}
	if sc.of.Timed() && !f.More {
		s.nextDue = min(s.nextDue, f.NextDue)
	}
	sc.refresh(s)
}

// refresh draws the consequences of what has changed in a search. All that depends on
// several of its fields is kept up here.
func (sc *scan) refresh(s *search) {
	unread, looking := count(&s.counted.unread, s.more), count(&s.counted.looking, s.more || s.fetching)
	sc.unread += unread
	sc.looking += looking
	sc.found += len(s.found) - s.counted.found
	s.counted.found = len(s.found)
	if hungry := s.more && !s.fetching && len(s.found) == 0; hungry != s.inHungry.Listed() {
		if hungry {
			sc.hungry.PushBack(&s.inHungry, s)
		} else {
			sc.hungry.Remove(&s.inHungry)
		}
	}
	sc.refreshDue(s)
	switch has, waits := len(s.found) > 0, s.waits.Heaped(); {
	case !has && waits:
		sc.blocked.Remove(s)
	case has == (waits || s.leaf.Joined()):
	case has:
		sc.ready.Join(&s.leaf, s.account.path)
	default:
		sc.ready.Leave(&s.leaf)
	}
}

func (sc *scan) refreshDue(s *search) {
	switch waits := s.nextDue != mail.Never; {
	case waits && s.due.Heaped():
		sc.dues.Fix(s)
	case waits:
		sc.dues.Push(s)
	case s.due.Heaped():
		sc.dues.Remove(s)
	}
}

// count sets a flag, and returns by how much that changes the number of those that are set.
func count(flag *bool, to bool) int {
	switch from := *flag; {
	case from == to:
		return 0
	case to:
		*flag = true
		return 1
	}
	*flag = false
	return -1
}

func (sc *scan) check() {
	unread, looking, found, fetches, asked := 0, 0, 0, 0, 0
	for s := range sc.all.All() {
		unread += count(new(bool), s.more)
		looking += count(new(bool), s.more || s.fetching)
		fetches += count(new(bool), s.fetching)
		found, asked = found+len(s.found), asked+s.asked
		assert.That(sc.searches[s.account.bucket] == s && s.account.searches[sc.of] == s, "a search of %v mail is not the one of its bucket", sc.of)
		assert.That(s.from.Bucket == s.account.bucket, "the search in bucket %v of %v mail is at %v", s.account.bucket, sc.of, s.from)
		assert.That(!s.missed || s.fetching, "the scan of %v mail missed something, and fetches nothing", sc.of)
		assert.That(sc.of.Timed() || s.nextDue == mail.Never, "the scan of %v mail waits for an instant", sc.of)
		assert.That(sc.of != ScanHeld || !s.from.Before(heldFrom), "the scan of held mail is at %v, where all is held without end", s.from)
		assert.That((s.nextDue != mail.Never) == s.due.Heaped(), "a search of %v mail waits until %v", sc.of, s.nextDue)
		assert.That(s.inHungry.Listed() == (s.more && !s.fetching && len(s.found) == 0), "a search of %v mail waits for a fetch: %t", sc.of, s.inHungry.Listed())
		assert.That(!s.leaf.Joined() || !s.waits.Heaped(), "a search of %v mail waits for room and for its turn", sc.of)
		assert.That((s.leaf.Joined() || s.waits.Heaped()) == (len(s.found) > 0), "a search of %v mail has found %d messages, and waits for its turn: %t", sc.of, len(s.found), s.leaf.Joined())
		for n := 1; n < len(s.found); n++ {
			assert.That(s.found[n-1].Before(s.found[n]), "the scan of %v mail has found %v before %v", sc.of, s.found[n-1], s.found[n])
		}
	}
	assert.That(unread == sc.unread && looking == sc.looking && found == sc.found && fetches == sc.fetches && asked == sc.asked,
		"the scan of %v mail counts %d unread, %d looking, %d found, %d fetches, %d asked; there are %d, %d, %d, %d, %d", sc.of,
		sc.unread, sc.looking, sc.found, sc.fetches, sc.asked, unread, looking, found, fetches, asked)
	assert.That(sc.all.Len() == len(sc.searches), "%d searches of %v mail, %d by bucket", sc.all.Len(), sc.of, len(sc.searches))
	assert.That(sc.only == 0 || sc.of == ScanWarmup, "the scan of %v mail is for one instant", sc.of)
	assert.That(sc.of == ScanFlush || len(sc.named)+len(sc.some) == 0, "an operator has named mail to the scan of %v mail", sc.of)
	sc.dues.Check()
	sc.blocked.Check()
	sc.ready.Check()
}
