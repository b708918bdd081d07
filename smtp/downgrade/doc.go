// Package downgrade converts messages for servers that do not take them as they
// are: content with octets above 127 for servers without 8BITMIME, and lines of
// more than 998 octets for all of them.
//
// # Octets above 127 (RFC 6152 3)
//
// A part with such octets becomes quoted-printable, whether its encoding was given
// as 8bit, binary or 7bit, or not at all. Its Content-Transfer-Encoding field is
// dropped and a new one is written at the end of its header; a body without a
// Content-Type becomes text/plain of an unknown character set (RFC 1428), and a
// message without a MIME-Version gets one. Multiparts and messages within the
// message are entered; their own label becomes 7bit, as does that of parts that
// turn out to need no encoding. Everything else stays as it is, octet by octet,
// signed parts among it: a signature over 8-bit content does not survive a 7-bit
// path in any form, and whoever signs encodes beforehand (RFC 1847 2.1).
//
// This is what Postfix does, but for two things. Postfix believes the labels, and
// sends 8-bit octets under any other label as they are; here the octets decide.
// And Postfix encodes a part that is labelled 8bit even if it is ASCII.
//
// Octets above 127 in header fields, in parts that are encoded already, and in the
// text around the parts of a multipart are left alone, as Postfix leaves them: what
// they mean is unknown, and no conversion of them could be undone.
//
// # Long lines (RFC 5321 4.5.3.1.6)
//
// A line is broken after 998 octets, and each further line begins with a space, as
// Postfix does it (smtp_line_length_limit). A header field is only folded by that,
// and MIME keeps its structure. Signatures of DKIM do not survive it, but neither
// do they survive a server that refuses or cuts the line.
//
// # Procedure
//
// What becomes of a part's header depends on its body, so a message is read twice:
// a Scanner makes a Plan, which a Converter obeys. Both take the message in pieces
// of any size, hold a few kilobytes, and give the same result for the same octets
// however they are cut. Messages with more than 10,000 parts, or parts nested more
// than 100 deep, are not converted; nor are those with octets above 127 in a
// message/partial, which are put together with others undecoded (RFC 2046 5.2.2).
package downgrade
