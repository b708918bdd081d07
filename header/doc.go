// Package header reads and edits the headers of messages (RFC 5322) that clients submit
// (RFC 6409).
//
// # Procedure
//
// [Compile] makes the edits of a configuration: the corrections that a submission server may
// make, rules for single fields, and a function that rewrites addresses. An [Editor] applies
// them to the content of one message as it passes, field by field. It keeps at most one field,
// and only one that may have to be edited. What the header lacks is added at its end. What
// cannot be corrected is a [Problem], for which the message must be refused. The body passes
// unchanged.
//
// [KindOf] says what a field means for submission, and a [List] reads addresses. The
// sendmail command uses both, so that what it removes and what a listener removes are the
// same.
package header
