// Package quota decides how much mail a class, a tenant or a flow may have in the queue,
// and how much it may send in some time.
//
// # What is limited
//
// Messages and bytes that wait are counted by the spool, which knows them after any
// start; a Book compares. Messages and recipients per time are counted here, in sliding
// windows (package qmgr/rate): no span of the given time ever has more than the limit. A
// message counts when it is accepted, and one that is refused does not.
//
// # When
//
// A Book is asked at MAIL, at each RCPT and at the end of the content, each time with what
// is certain then about whose the message is: a header field may name another tenant, and
// a class often depends on the header. What is certain at MAIL is refused there, before
// any content is sent; at the end everything is. Nothing is accepted and bounced later.
//
// A limit that can be met later refuses with a temporary reply, one that this message can
// never meet with a permanent one: a client would otherwise repeat it for days. Too many
// recipients get 452 4.5.3 at RCPT, upon which clients send the rest in another
// transaction (RFC 5321 4.5.3.1.10).
//
// # Memory
//
// Tenants and flows may be names that clients invent. Each that has been counted in the
// longest time of a limit has a meter. There are at most metersMax of tenants and of flows
// each, and flowsMax flows of one tenant; names beyond these share meters by a hash of the
// name, so that more of them cannot send more. Classes and tenants with limits of their own
// always have meters of their own.
//
// # Procedure
//
// The owner serializes all calls. Admit is called once for each message, when nothing else
// can refuse it, and counts it if it returns nil.
package quota
