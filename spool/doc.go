// Package spool keeps messages on disk: it takes them in, finds the ones that
// are due, records what became of their recipients, and forgets them.
//
// # What is on disk
//
// A spool is one directory. In it, db is a Pebble key-value store (an LSM tree
// with a write-ahead log), body holds the content of large messages as files,
// lock keeps a second process out, and ballast is room that is given up when
// the disk fills. manifest holds a checksummed copy of the store's list of
// files, and damaged holds files that were replaced because they were damaged.
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
//	h ID, c ID   indexes of the hold and the corrupt area
//	h 255 due ID the same of the hold area, of what is removed at due
//	k KEY        what is known of a host (SaveHosts)
//	w ID         recipients have been written ahead of the commit of a draft
//	g KIND       an index is being made anew
//	f, n         format of the spool; queue IDs below n have been given out
//
// A fresh message is three keys, m, b and i, so that delivering it at once
// costs three tombstones; state (s, x) comes into being with the first thing
// to remember. Every value begins with a version octet and ends with a CRC-32C
// over its key and itself, which is checked whenever it is read; of a content
// file, length and CRC-32C are kept in the envelope.
//
// # The life of a message
//
// Begin gives out a Draft, which gathers recipients and content in memory up
// to fixed bounds, and beyond these writes them ahead of the commit: content
// into a temporary file, recipients under r, with a w key as a reminder that
// they may be nobody's. Commit makes a content file durable (data, rename,
// directory) and then writes all else as one synced batch, so that there is no
// instant at which an envelope lacks its content. Files and recipients without
// an envelope, left by a crash, are cleared in the background after a start;
// queue IDs are never given out twice, so no later message can adopt them.
//
// Apply changes messages, many in one synced batch. Which keys a change
// touches follows from mail.Place, which the caller carries; a message that
// was never touched is removed without a single read. There is no area for
// active mail: a message stays in its index until a change moves it, and the
// caller's mail.Cursor keeps a scan from starting over the tombstones of what
// has gone before.
//
// A mail.Split makes a message out of some recipients of another one, in the same
// batch that marks them as moved there; content in a file gets a second name, which
// is durable before.
//
// Rules for outcomes, where mail.ChangeOp leaves room: a settled outcome is
// final, so a change may be repeated at any later time; a delay report that is
// owed stays owed when another deferral is recorded and lapses when the
// recipient is settled; ChangeWarn owes the null sender nothing; a repeated
// ChangeDefer (same At) counts as one attempt; and a message in the corrupt
// area is only taken out by ChangeRemove, and by ChangeRelease if all of it can
// be read.
//
// # What can go wrong
//
// A value whose checksum is wrong, or that cannot be decoded, is ErrCorrupt if it
// is so again when it is read a second time. The message is put aside in the
// corrupt area, an Alarm raised, and all else goes on. At a start, and when it is
// released, it is read again, and leaves the area if it can be read. Any
// other error, a file that is not there and EIO among them, may pass: it is no
// verdict on a message, and fails nothing but what concerns that message. A
// damaged index is made anew from all keys that tell of a message; what cannot be
// read is stepped over, with an alarm that says what it is.
//
// What is known of hosts is written without waiting for a sync, skipped where
// it is damaged, and refused when there is no room: it is worth a connection,
// not mail.
//
// Below Config.MinFree drafts are refused with ErrFull; drafts for reports may
// use half of what is left, and changes are never refused. When the store
// cannot write for want of room, the ballast is deleted; when that is used up
// too, whoever has something to commit waits until there is room.
//
// A new file of the store that cannot be made for want of inodes or file
// descriptors is waited for as well.
//
// A write-ahead log that cannot be written for any other reason is beyond
// repair from inside: Config.Fatal is called and must end the process. So is a
// panic in a commit. A commit into a directory that was removed, moved or
// replaced is an error.
package spool
