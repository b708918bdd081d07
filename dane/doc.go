// Package dane decides whether a mail server's certificate is the one that its
// domain's TLSA records demand (RFC 6698, with the updates of RFC 7671 and the
// rules for SMTP of RFC 7672).
//
// It is a function of its arguments: package resolve finds the records and how far
// DNSSEC vouches for them, the caller has the certificates of a handshake and the
// time. So each rule can be tested without a name server or a connection, and the
// same code can judge a recorded handshake.
//
// # Usable records
//
// A TLSA record has a certificate usage, a selector and a matching type. For SMTP
// only the usages DANE-TA(2) and DANE-EE(3) are usable: a mail server has no list of
// trusted authorities that its senders share, and no person can be asked (RFC 7672
// 3.1.3). Records with an unknown parameter, a digest of the wrong length, or data
// that is no certificate or key are unusable, too. They still matter: where a host
// has only those, TLS is mandatory without authentication (RFC 7672 2.2).
//
// # Verification
//
// One usable record that matches suffices.
//
//   - DANE-EE(3): the server's own certificate or key. The names and dates in the
//     certificate have no meaning, since the DNS says the same by the name and
//     lifetime of the record (RFC 7671 5.1).
//   - DANE-TA(2): an authority that the domain chose. A chain of signatures must lead
//     from the server's certificate to it, all of it must be valid now, and the
//     server's certificate must be for one of the reference identifiers, or everyone
//     with a certificate of the same authority could answer (RFC 7672 3.1.2). The
//     authority must be among the certificates that the server sent, unless the record
//     has the whole of its certificate or key (RFC 7671 5.2). The
//     server's own certificate is not such an authority, even if it is self-signed, as
//     in OpenSSL.
//
// Where records differ only in their digest, the strongest digest counts
// (RFC 7671 9): a domain that publishes SHA-512 beside SHA-256 wants to be protected
// from the day on which the other is broken.
package dane
