// Package dkim signs messages with DKIM (RFC 6376), by RSA and by Ed25519 (RFC 8463). It
// reads no files and asks no servers.
//
// # Procedure
//
// A [Ring] is the set of keys. A [Message] follows the content of one message as it is
// written, in pieces of any size, and never holds it: of the header it keeps the fields
// that are signed, up to [KeptMax] bytes, until the header ends, and of the body nothing but
// the state of a hash. When the content is complete, Finish chooses the keys by the domain
// of the From field, the flow of the message and the time, and returns a [Plan]. The size of
// the signatures is known then, and the only thing left to do is to compute them
// ([Plan.Sign]), which takes a millisecond with RSA, so that a host can limit how many are
// computed at once.
//
// Signatures are relaxed/relaxed, cover the whole body (there is never an l= tag), and
// cover the fields that the table in fields.go lists.
//
// # Why not a library
//
// github.com/emersion/go-msgauth signs, too, and the tests check every signature with it. Its
// signer does not suit a server that takes content from clients, as the benchmarks of
// this package show (go test ./dkim -bench Library):
//
//   - It unfolds a header field by appending one line after another: one field with
//     lines of a few bytes takes time with the square of its size: 64 KB a quarter of a second,
//     1 MB more than a minute.
//   - It keeps empty lines, as long as only empty lines follow, in memory, however many
//     the client sends.
//   - It is a goroutine and a pipe for each signature, from the first byte of the message
//     to the last, and each of them canonicalizes and hashes the body anew.
//   - It refuses a message that ends with its header, which is valid (RFC 5322 3.5).
//   - It has to know the key before the first byte, while the key depends on the From
//     field and on the flow of the message.
//
// What would be left of it is the syntax of one field.
package dkim
