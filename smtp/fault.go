package smtp

import "github.com/posthaste-mta/posthaste/mail"

// A Fault is an error in the argument of a command.
type Fault uint8

const (
	FaultNone        Fault = iota
	FaultKeyword           // MAIL without FROM:, RCPT without TO:
	FaultBrackets          // the path is not in angle brackets
	FaultNull              // the null path where a mailbox is needed
	FaultRoute             // a malformed source route
	FaultLocal             // no local part, or one with octets that are not allowed
	FaultLocalLong         // local part longer than allowed
	FaultDomain            // no domain, or an invalid one
	FaultDomainLong        // longer than 255 octets
	FaultPathLong          // longer than 256 octets
	FaultLiteral           // an address literal of no known form
	FaultCharset           // not UTF-8, or a character that is not allowed in an address
	FaultNotUTF8           // beyond ASCII, and MAIL had no SMTPUTF8
	FaultParamSyntax       // not KEYWORD or KEYWORD=value
	FaultParamUnknown
	FaultParamTwice
	FaultParamValue
	FaultSizeRange // SIZE does not fit an int64
)

// faultReplies holds the reply to each Fault. Status 5.1.3 is about a
// recipient; for a sender it becomes 5.1.7 (RFC 3463 3.2).
var faultReplies = [...]struct {
	code            uint16
	subject, detail uint16
	text            string
}{
	FaultNone:         {250, 0, 0, "Ok"},
	FaultKeyword:      {501, 5, 4, "Syntax: MAIL FROM:<address> or RCPT TO:<address>"},
	FaultBrackets:     {501, 1, 3, "Bad address syntax: not in angle brackets"},
	FaultNull:         {501, 1, 3, "Bad address syntax: no mailbox"},
	FaultRoute:        {501, 1, 3, "Bad address syntax: source route"},
	FaultLocal:        {501, 1, 3, "Bad address syntax: local part"},
	FaultLocalLong:    {501, 1, 3, "Bad address syntax: local part too long"},
	FaultDomain:       {501, 1, 3, "Bad address syntax: domain"},
	FaultDomainLong:   {501, 1, 3, "Bad address syntax: domain too long"},
	FaultPathLong:     {501, 1, 3, "Bad address syntax: too long"},
	FaultLiteral:      {501, 1, 3, "Bad address syntax: address literal"},
	FaultCharset:      {501, 6, 7, "Bad address syntax: characters"},
	FaultNotUTF8:      {553, 6, 7, "Address needs SMTPUTF8"},
	FaultParamSyntax:  {501, 5, 4, "Bad parameter syntax"},
	FaultParamUnknown: {555, 5, 4, "Parameter not recognized"},
	FaultParamTwice:   {501, 5, 4, "Parameter given twice"},
	FaultParamValue:   {501, 5, 4, "Bad parameter value"},
	FaultSizeRange:    {552, 3, 4, "Message size exceeds any limit"},
}

// Reply returns the server's reply to a command with this fault; v is VerbMAIL
// or VerbRCPT.
func (f Fault) Reply(v Verb) mail.Reply {
	row := faultReplies[f]
	status := mail.Status{Class: row.code / 100, Subject: row.subject, Detail: row.detail}
	if v == VerbMAIL && row.subject == 1 {
		status.Detail = 7
	}
	return mail.Reply{Code: row.code, Status: status, Text: row.text}
}
