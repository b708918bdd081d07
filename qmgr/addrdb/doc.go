// Package addrdb is what is known of addresses: what their receivers said when they
// were asked, and for how long that is believed.
//
// An answer is believed for a time, and asked for again after a part of it, so that
// an address in use is never unknown: whoever wants to know is told what is known,
// and the question is put again meanwhile (Postfix's positive and negative refresh
// times). A refusal is believed for days only, for an address that does not exist may
// come about, and whoever was refused wants to be heard again. An answer that is none,
// because the receiver could not be reached or says that it does not know yet, is kept
// for minutes: as long as nobody should ask again. It never replaces one that is
// believed.
//
// There is a bound to how many addresses are known. Strangers decide which are asked
// for, so that whoever guesses addresses would fill all of it with refusals: these
// have half of it, and within either half what was asked for longest ago makes room.
package addrdb
