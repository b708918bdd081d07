// Package downgrade converts messages for servers that do not accept them as they
// are: content with octets above 127 for servers without 8BITMIME, and lines of
// more than 998 octets for all servers.
//
// # Octets above 127 (RFC 6152 3)
//
// A part with such octets becomes quoted-printable, whether its encoding was given
// as 8bit, binary or 7bit, or not at all. Its Content-Transfer-Encoding field is
// dropped and a new one is written at the end of its header; a body without a
// Content-Type becomes text/plain of an unknown character set (RFC 1428), and a
// message without a MIME-Version gets one. Multiparts and messages within the
// message are entered; their own label becomes 7bit, as does that of parts that
// turn out to need no encoding. Everything else stays the same, octet by octet,
// including signed parts: a signature over 8-bit content does not survive a 7-bit
// path in any form, so a signer must encode before signing (RFC 1847 2.1).
//
// This is what Postfix does, with two differences. Postfix trusts the labels, and
// sends 8-bit octets under any other label unchanged; here the octets decide.
// And Postfix encodes a part that is labeled 8bit even if it is ASCII.
//
// Octets above 127 in header fields, in parts that are already encoded, and in the
// text around the parts of a multipart are left alone, as in Postfix: their
// meaning is unknown, and no conversion of them could be undone.
//
// # Long lines (RFC 5321 4.5.3.1.6)
//
// A line is broken after 998 octets, and each further line begins with a space, as
// in Postfix (smtp_line_length_limit). A header field is merely folded by this,
// and MIME keeps its structure. DKIM signatures do not survive it, but neither
// do they survive a server that refuses or truncates the line.
//
// # Procedure
//
// The conversion of a part's header depends on its body, so a message is read
// twice: a Scanner makes a Plan, and a Converter executes it. Both read the
// message in pieces of any size, hold a few kilobytes, and give the same result
// for the same octets however they are split. Messages with more than 10,000
// parts, or with parts nested more than 100 deep, are not converted. Neither are
// those with octets above 127 in a message/partial, which is reassembled with
// others without being decoded (RFC 2046 5.2.2).
package downgrade
