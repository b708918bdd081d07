// Package replies says what the replies of receivers mean: the class of a reply, such as
// mailbox-full or rate-limited, and what the operator's rules make of it.
//
// # Classes
//
// SMTP has three digits and an enhanced status code (RFC 3463, and the registry of RFC
// 5248), and receivers say in words what they mean by them. So a class is found by a list
// of patterns, of which the first that matches counts: by code, by status, by the name of
// the host that replied, by words in the text, and by a regular expression. The patterns
// are data (package replies/patternfile); this package knows none of them.
//
// A class is computed where it is shown and never stored: it is a function of the reply,
// and with better patterns the mail that is already in the queue is described better.
//
// # Rules
//
// A Rule matches replies as a pattern does, and by class and transport. It may decide
// that a refusal is permanent or temporary, whatever its code, and demand a mail.Measure
// for the destination. The text and code of the reply stay as the host gave them. The
// first rule that matches is the only one that counts. Rules are about what receivers say:
// replies of this program are not matched.
//
// # Cost
//
// All words of all patterns are searched in one pass over the text, which takes time in
// proportion to its length whatever the text is. Regular expressions are RE2, so their
// time is linear, too, and a pattern's is tried only if everything else in it matches.
//
// A Book does not change once it is made, and is safe for concurrent use.
package replies
