package intake

import (
	"strconv"

	"github.com/posthaste-mta/posthaste/mail"
	"github.com/posthaste-mta/posthaste/qmgr/fair"
)

// An Account is what one bucket has in core.
//
// As long as only mail of bucket 0 has been seen, which was not classified, it may fill the
// core, as in Postfix. From then on a bucket gets no further message while it has sharePart
// times as many as there is still room for. This is the dynamic threshold of Choudhury and Hahne (1998), as for connections
// (package conns) and for mail of destinations that do not answer: nothing is reserved, and
// yet there is room for a bucket that has little. A single bucket may use 16/17 of the core,
// two of them 32/33; with a hundred at their limit, a 1,601st part is left for the next. When
// nothing is left at all, as with thousands, the next message that leaves makes room for the
// bucket that has least: it is not refused, and the fair order serves it first.
//
// Accounts stay, since the positions of searches do. There are as many as buckets that
// anything was seen of, 16,384 of a class at most, which takes an attacker with 64
// tenants; each takes some hundred bytes.
type Account struct {
	bucket   mail.Bucket
	inCore   int
	rescued  bool      // Rescue was for it
	path     fair.Path // in the order of buckets
	searches [scans]*search
}

const sharePart = 16

// Account returns the account of a bucket.
func (a *Admission) Account(b mail.Bucket) *Account {
	if a.recent != nil && a.recent.bucket == b {
		return a.recent
	}
	acc := a.accounts[b]
	if acc == nil {
		acc = &Account{bucket: b, path: a.path(b)}
		a.accounts[b] = acc
	}
	a.recent = acc
	return acc
}

// path returns where a bucket is in a fair order. Its class is the first of the
// configuration that has its bits; a class that is not configured has its bits as its name.
func (a *Admission) path(b mail.Bucket) fair.Path {
	if b == 0 {
		return fair.Path{}
	}
	p := fair.Path{Class: "#" + strconv.Itoa(int(b.Class())), Tenant: strconv.Itoa(int(b.Tenant())), Flow: strconv.Itoa(int(b))}
	for _, name := range a.classes {
		if mail.ClassBucket(name) == b.Class() {
			p.Class = name
			break
		}
	}
	return p
}

// Enter counts a message of the account's bucket that comes into core.
func (a *Admission) Enter(acc *Account) {
	acc.inCore++
	a.recount(acc)
}

// Leave counts one that leaves.
func (a *Admission) Leave(acc *Account) {
	acc.inCore--
	a.recount(acc)
}

func (a *Admission) recount(acc *Account) {
	for s, search := range acc.searches {
		if search != nil && search.waits.Heaped() {
			a.scans[s].blocked.Fix(search)
		}
	}
}

// hasRoom reports whether a bucket may have one more message in core, where there is room
// for so many.
func (a *Admission) hasRoom(acc *Account, free int) bool {
	return free > 0 && (!a.Shared() || acc.inCore < sharePart*free)
}

// next returns the search whose turn it is, of those that have found something and whose
// buckets have room; nil if there is none. One that was blocked takes part again when it is
// the one with least in core, one at a time: with thousands of them, a message that leaves
// makes room for one or a few.
func (a *Admission) next(sc *scan, free int) *search {
	if sc.of == ScanHeld {
		free = 1 // it comes into no core
	}
	if least := sc.blocked.Min(); least != nil && a.hasRoom(least.account, free) {
		sc.blocked.Remove(least)
		sc.ready.Join(&least.leaf, least.account.path)
	}
	for leaf := sc.ready.Next(); leaf != nil; leaf = sc.ready.Next() {
		s := leaf.Owner.(*search)
		if sc.of == ScanHeld || a.hasRoom(s.account, free) {
			return s
		}
		sc.ready.Leave(leaf)
		sc.blocked.Push(s)
	}
	return nil
}
