// Package tlsrpt counts how the TLS policies of domains fare, and writes the reports that
// the domains ask for (RFC 8460).
//
// A [Book] counts sessions by UTC day and policy domain, under each policy that was
// applied, and failures by what failed where. A report is about one domain and one day;
// its JSON is also how counts are kept and merged, so that there is one format. Sending is
// the concern of others, and so is the time: all functions depend on their arguments only.
//
// Everything in a report comes from the domain that gets it, or is our own address. Still it
// has bounds, since a domain has as many hosts as it likes: beyond FailuresMax kinds of
// failures under one policy they are counted without addresses, beyond PoliciesMax
// policies of a domain, DomainsMax domains of a day or AccountsMax policies in all they are not counted, and Skipped
// says how many.
package tlsrpt
