// Package rewrite puts addresses in place of others, as cleanup(8) of Postfix does:
// canonical(5), masquerading, virtual(5) aliases, and copies to further recipients.
//
// # Procedure
//
// [New] makes the rules of a configuration. [Rules.Sender], [Rules.Expand] and [Rules.Header]
// apply them to an envelope sender, to a recipient and to an address in a header:
//
//	sender, header     canonical maps, then masquerading
//	recipient          canonical maps, then masquerading, then aliases, which may make
//	                   several recipients of one; aliases of aliases are followed
//
// An address is looked up as a whole and by its parts, the most specific first:
// user+extension@domain, user@domain, user+extension and user if the domain is one of our
// own, and @domain. What a user's extension is goes on to the result, unless the whole address
// was found. Where rewriting does not end, the address is refused.
package rewrite
