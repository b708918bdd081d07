// Package sasl is the server's side of the mechanisms by which a client shows who it is
// (RFC 4422): SCRAM-SHA-256 and SCRAM-SHA-256-PLUS (RFC 5802, RFC 7677), PLAIN (RFC 4616)
// and LOGIN. It reads no files and no sockets: passwords and keys are asked of functions,
// and messages go in and out decoded.
//
// # Procedure
//
// An exchange is a [Server] of github.com/emersion/go-sasl, which has PLAIN; LOGIN is
// written here, since that library has only its client. SCRAM is that of
// github.com/xdg-go/scram, to which this package adds what depends on the connection:
//
//   - The mechanism is bound to the connection exactly if its name ends in -PLUS. A client
//     that could do it, and believes that we cannot, was deceived by an attacker who removed
//     it from our offer (RFC 5802 6), so it fails.
//   - The type of the binding is the client's choice among those that the connection has
//     ([Binding]), as RFC 5802 6 leaves it to the client.
//   - An identity to act as must be that of the user: no user acts for another.
//
// # Names
//
// Names and passwords are compared in the form that [Prepare] returns (SASLprep, RFC 4013),
// names without regard to case. So what is stored with a name in one spelling is found by
// all mechanisms under every other.
package sasl
