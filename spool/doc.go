// Package spool keeps messages on disk: it accepts them, finds those that are due,
// records the outcomes of their recipients, and removes them.
//
// # What is on disk
//
// A spool is one directory. In it, db is a Pebble key-value store (an LSM tree with
// a write-ahead log), body holds the content of large messages as files, lock keeps
// a second process out, and ballast is a file that is deleted to make room when the
// disk fills. delivered has notes of deliveries that the store's log may lack after a
// kill. manifest holds a checksummed copy of the store's list of files, and
// damaged holds the originals of files that were replaced because they were
// damaged.
//
// Keys of the store, numbers in big endian so that keys sort as they do; ID is
// the queue ID and grows with time, so that tables of different age do not
// overlap and most compactions only move files:
//
//	m ID         the envelope as it was accepted; a short recipient list too
//	r ID chunk   256 recipients, where the list is longer
//	b ID         the content, up to Config.InlineMax octets
//	s ID         what changes: area, due, attempts; outcomes of a short list
//	x ID chunk   outcomes of 256 recipients
//	i ID         index of the incoming area (empty value)
//	d due ID     index of the deferred area
//	i 255 bucket ID, d 255 bucket due ID
//	             the same, of mail whose flow has a bucket (mail.Bucket)
//	h ID, c ID   indexes of the hold and the corrupt area
//	h 255 due ID the same of the hold area, of what is removed at due
//	k KEY        the record of a host (SaveHosts)
//	l KEY        the record of what a tenant has sent (SaveRates)
//	o KEY        the record of an operator's order about something that need not have mail (SaveOrders)
//	w ID         recipients have been written ahead of the commit of a draft
//	g KIND       an index is being rebuilt
//	q            what is counted, and whether that is complete
//	q c CLASS, q t TENANT, q f TENANT 0 FLOW
//	             the number and size of messages in the spool
//	p N          what one batch changes in these, until it is added to them
//	f, n         format of the spool; queue IDs below n have been used
//
// The incoming and the deferred index are divided into buckets, so that a sender with few
// messages need not wait for a scan to step over a million messages of another one. The
// bucket follows from the flow, which is in the envelope and never changes. Which buckets have
// anything is not stored: a scan finds the next one by a search for the first key behind
// the one before. Mail without a flow, which is all mail in spools of format 1, has bucket 0
// and the keys that it always had.
//
// A new message is three keys, m, b and i, so that delivering it at once costs
// three tombstones; state (s, x) is created by the first change. Every value begins
// with a version byte (2 for an envelope with a flow, 3 for one with the beginning of a
// content whose rest is a file, 7 for outcomes with the way of an attempt, and others in
// value.go; otherwise 1) and ends with a CRC-32C over its key and
// itself, which is checked whenever it is read; the length and CRC-32C of a content file
// are in the envelope.
//
// # The life of a message
//
// Begin returns a Draft, which collects recipients and content in memory up to
// fixed bounds, and beyond these writes them ahead of the commit: content to a
// temporary file, recipients under r, with a w key that marks them as possibly
// unowned. Commit makes a content file durable (data, rename, directory) and then
// writes everything else in one synced batch, so that an envelope never lacks its
// content. Files and recipients without an envelope, left by a crash, are removed
// in the background after a start; queue IDs are never used twice, so no later
// message can adopt them.
//
// Apply changes messages, many in one synced batch. The caller passes the
// mail.Place, which determines the keys that a change touches; a message that was
// never changed is removed without a single read. There is no area for active mail:
// a message stays in its index until a change moves it, and the caller's
// mail.Cursor lets a scan skip the tombstones of what was removed before it.
//
// A mail.Split creates a message from some recipients of another one, in the same
// batch that marks them as moved; a content file gets a second name, which is made
// durable first. If it takes the place of that message (mail.Requeue) and nothing is left there, the batch
// removes that one, too.
//
// Rules for outcomes, where mail.ChangeOp leaves room: a settled outcome is final,
// so a change may be repeated at any later time; an owed delay report stays owed
// when another deferral is recorded, and lapses when the recipient is settled;
// ChangeWarn and ChangeLate owe no report to the null sender; a repeated ChangeDefer (same At)
// counts as one attempt, and leaves a held message with unsettled recipients
// alone; and a message leaves the corrupt area only by
// ChangeRemove, or by ChangeRelease if all of it can be read.
//
// # What can go wrong
//
// A value whose checksum is wrong, or that cannot be decoded, is ErrCorrupt if a
// second read has the same result. The message is moved to the corrupt area, an
// Alarm is raised, and everything else continues. At a start, and when it is
// released, the message is read again, and leaves the area if it is readable. Any
// other error, including a missing file and EIO, may be temporary: it does not mark
// a message as damaged, and only operations on that message fail. A damaged index
// is rebuilt from all keys that name a message; parts that cannot be read are
// skipped, with an alarm that says which.
//
// With quotas, messages are counted by class, tenant and flow (counts.go and the files it names), in the batches
// that add and remove them, so that the counts are right after any crash. They are counted
// anew, in the background, when a quota is first configured and when damage may have
// made them wrong.
//
// Host records are written without waiting for a sync, skipped if damaged, and
// refused when there is no room: a lost record costs a connection, not mail.
//
// Below Config.MinFree drafts are refused with ErrFull; drafts for reports may use
// half of what is left, and changes are never refused. When the store cannot write
// because the disk is full, the ballast is deleted; when that room is used up too,
// commits wait until there is room.
//
// The store also waits if it cannot create a file for lack of inodes or file
// descriptors.
//
// A write-ahead log that cannot be written for any other reason cannot be handled
// within the process: Config.Fatal is called and must end it. The same holds for a
// panic in a commit. A commit to a directory that was removed, moved or replaced is
// an error.
package spool
