package pipe

import (
	"cmp"
	"fmt"
	"strings"
	"syscall"

	"github.com/posthaste-mta/posthaste/mail"
)

// An exit is the meaning of one exit status of a program.
type exit struct {
	status mail.Status
	text   string
}

// exitBase is the first exit status of sysexits.h.
const exitBase = 64

// exits returns the meanings of the exit statuses of sysexits.h, from exitBase on, as
// Postfix has them (sys_exits.c).
func exits() [15]exit {
	status := func(class, subject, detail uint16) mail.Status {
		return mail.Status{Class: class, Subject: subject, Detail: detail}
	}
	return [...]exit{
		{status(5, 3, 0), "command line usage error"},      // EX_USAGE
		{status(5, 6, 0), "data format error"},             // EX_DATAERR
		{status(5, 3, 0), "cannot open input"},             // EX_NOINPUT
		{status(5, 1, 1), "user unknown"},                  // EX_NOUSER
		{status(5, 1, 2), "host name unknown"},             // EX_NOHOST
		{status(5, 3, 0), "service unavailable"},           // EX_UNAVAILABLE
		{status(5, 3, 0), "internal software error"},       // EX_SOFTWARE
		{status(4, 3, 0), "system resource problem"},       // EX_OSERR
		{status(5, 3, 0), "critical OS file missing"},      // EX_OSFILE
		{status(5, 2, 0), "can't create user output file"}, // EX_CANTCREAT
		{status(5, 3, 0), "input/output error"},            // EX_IOERR
		{status(4, 3, 0), "temporary failure"},             // EX_TEMPFAIL
		{status(5, 5, 0), "remote error in protocol"},      // EX_PROTOCOL
		{status(5, 7, 0), "permission denied"},             // EX_NOPERM
		{status(5, 3, 5), "local configuration error"},     // EX_CONFIG
	}
}

// A verdict is the outcome for the recipients that follows from the end of a program.
type verdict struct {
	result  mail.Result
	reply   mail.Reply
	unknown bool // it may have delivered
}

// judge translates the end of a program. The last line of its output is part of the reply.
// A status code (RFC 3463) at the beginning of the output, where Postfix's pipe_command.c
// looks for it, or else of its last line, counts more than the exit status, unless that is
// 0.
func judge(ended syscall.WaitStatus, said *output) verdict {
	code, output := ended.ExitStatus(), said.lastLine()
	switch {
	case ended.Signaled():
		v := of(mail.Status{Class: 4, Subject: 3}, fmt.Sprintf("program was killed by signal %d (%s)", int(ended.Signal()), ended.Signal()), output)
		v.unknown = true
		return v
	case code == 0:
		return of(mail.Status{Class: 2}, "delivered to a program", output)
	}
	e := exit{mail.Status{Class: 5, Subject: 3}, fmt.Sprintf("program ended with status %d", code)}
	if known := exits(); code >= exitBase && code < exitBase+len(known) {
		e = known[code-exitBase]
	}
	for _, line := range []string{said.firstLine(), output} {
		if status, rest, ok := mail.ParseStatus(line); ok && status.Class != 2 {
			return of(status, cmp.Or(strings.TrimSpace(rest), e.text), "")
		}
	}
	return of(e.status, e.text, output)
}

// of returns the verdict of a status.
func of(status mail.Status, text, output string) verdict {
	if output != "" {
		text += ": " + output
	}
	v := verdict{reply: mail.Reply{Status: status, Text: mail.CleanText(text)}}
	switch status.Class {
	case 2:
		v.result, v.reply.Code = mail.Delivered, 250
	case 4:
		v.result, v.reply.Code = mail.Deferred, 451
	default:
		v.result, v.reply.Code = mail.Failed, 554
	}
	return v
}

// outOfTime is the verdict on a program that was killed because it took too long. Postfix
// returns the message; but the program may have delivered it, or may be slow today only.
func outOfTime(limit, output string) verdict {
	v := of(mail.Status{Class: 4, Subject: 3}, "program was killed after "+limit, output)
	v.unknown = true
	return v
}
