// Package tlspolicy says how a connection to a receiver must be secured, and judges whether
// it is. It is pure: the handshake, the name servers and the certificates are its caller's.
//
// # Levels
//
// The names are those of Postfix (TLS_README, "Client TLS security levels"), and so is what
// they mean, but for mta-sts, which Postfix leaves to plug-ins:
//
//	none         plaintext
//	may          TLS if the server offers it, whatever its certificate; else plaintext
//	encrypt      TLS, whatever the certificate
//	fingerprint  TLS, and a certificate or public key with one of the digests given
//	verify       TLS, and a valid certificate for the name of the MX host
//	secure       TLS, and a valid certificate for the nexthop's domain, which no answer
//	             of the DNS can change
//	dane         what the host's TLSA records demand (RFC 7672); may if it has none
//	dane-only    the same, and nothing for a host without usable records
//	mta-sts      dane if the host has TLSA records, else what the domain's policy demands
//	             (RFC 8461), else may
//
// # A policy and a demand
//
// A [Policy] is what is configured. What follows from it for one nexthop is a [Demand]: its
// names are filled in, and with mta-sts it is known whether the domain has a policy that is
// to be enforced. The text of a Demand is part of the identity of a queue, a connection and
// what is remembered of a host: equal texts are equal demands, so that a connection is only
// used for mail that demands what the connection was judged by. The text of [May] is empty,
// because that is what most mail demands.
//
// # A failed demand
//
// It is no failure of the host: others may use it. [Demand.Judge] gives the reply for the
// mail, which waits, and the reason that a report for the domain names (RFC 8460 4.3).
package tlspolicy
