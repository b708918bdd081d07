package postfix

import (
	"errors"

	"github.com/posthaste-mta/posthaste/header"
	"github.com/posthaste-mta/posthaste/internal/cli/exit"
	"github.com/posthaste-mta/posthaste/internal/submit"
)

// codeOfSubmission returns the exit code for an error of submission, as programs that run
// sendmail know them: 75 is "try again later", all others are for good.
func codeOfSubmission(err error) exit.Code {
	var (
		known     *exit.Error
		input     *submit.InputError
		address   *header.AddressError
		ambiguous *submit.HeaderError
		refused   *submit.Refusal
		broken    *submit.ConnectionError
	)
	switch {
	case errors.As(err, &known):
		return known.Code
	case errors.As(err, &input):
		return exit.IO
	case errors.As(err, &address), errors.As(err, &ambiguous):
		return exit.Data
	case errors.As(err, &broken):
		return exit.TempFail
	case errors.As(err, &refused):
		return codeOfRefusal(refused)
	}
	return exit.OS
}

func codeOfRefusal(r *submit.Refusal) exit.Code {
	status := r.Reply.Status
	switch {
	case r.Reply.Temporary():
		return exit.TempFail
	case status.Subject == 7, r.Reply.Code == 530, r.Reply.Code == 535:
		return exit.NoPerm
	case status.Subject == 1 && status.Detail == 2, status.Subject == 1 && status.Detail == 10:
		return exit.NoHost
	case status.Subject == 1 && (status.Detail == 1 || status.Detail == 6), r.Recipient != "" && r.Reply.Code == 550:
		return exit.NoUser
	case status.Subject == 1, status.Subject == 6, r.Reply.Code == 552, r.Reply.Code == 501, r.Reply.Code == 553:
		return exit.Data
	}
	return exit.Unavailable
}
