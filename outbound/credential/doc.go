// Package credential has what this host says to servers to which it must authenticate (SASL, RFC
// 4954 and 4422): which credential is for which nexthop, the client's side of the mechanisms,
// and where tokens come from.
//
// # Which credential
//
// A credential is for nexthops, as the configuration writes them, and never for names of MX
// hosts: who can forge an answer of the DNS must not be able to choose who gets a password.
// The name of a credential is part of what mail demands of a connection (tlspolicy.Demand),
// and so of the identity of a queue and a connection.
//
// # Secrets
//
// A [Secret] is no text: whatever prints a value that has one prints an address or a
// placeholder. Errors of this package name credentials and files, and have nothing of what is
// in them, nor anything that a token command has written.
package credential
