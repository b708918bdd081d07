package command

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net/http"
	"strings"

	"github.com/posthaste-mta/posthaste/admin/client"
	"github.com/posthaste-mta/posthaste/internal/cli/exit"
	"github.com/posthaste-mta/posthaste/internal/human"
	"github.com/posthaste-mta/posthaste/internal/tomlfile"
)

// codeOf returns the exit code for an error, and a hint for the person.
func codeOf(err error) (exit.Code, string) {
	var (
		known       *exit.Error
		unreachable *client.Unreachable
		problem     *client.Problem
		partial     *client.Partial
		mistakes    *tomlfile.Problems
		file        *fs.PathError
	)
	switch {
	case err == nil:
		return exit.OK, ""
	case errors.As(err, &known):
		return known.Code, known.Hint
	case errors.As(err, &unreachable):
		if strings.Contains(unreachable.Server, "://") {
			return exit.Unavailable, "Compare the URL with admin_listen in the configuration of that daemon, and see whether it runs."
		}
		return exit.OfConnect(err)
	case errors.As(err, &problem):
		return codeOfProblem(problem), ""
	case errors.As(err, &partial):
		return exit.IO, "The others were read. Look at the log and at the disk; \"posthaste queue list --damaged\" shows what is known to be damaged."
	case errors.As(err, &mistakes):
		return exit.Config, ""
	case errors.As(err, &file) && file.Op == "write": // what was asked for, to a full disk
		return exit.IO, ""
	}
	return exit.Unavailable, ""
}

func codeOfProblem(p *client.Problem) exit.Code {
	switch p.Status {
	case http.StatusBadRequest, http.StatusUnprocessableEntity:
		return exit.Usage
	case http.StatusNotFound:
		return exit.NoInput
	case http.StatusUnauthorized, http.StatusForbidden:
		return exit.NoPerm
	case http.StatusServiceUnavailable, http.StatusTooManyRequests:
		return exit.TempFail
	}
	return exit.Unavailable
}

// Complain prints an error and its hint, and returns the exit code.
func Complain(w io.Writer, program string, err error) exit.Code {
	code, hint := codeOf(err)
	if code == exit.OK {
		return code
	}
	var mistakes *tomlfile.Problems
	if errors.As(err, &mistakes) {
		WritePlain(w, mistakes.String())
		return code
	}
	for line := range strings.Lines(err.Error()) { // errors that were joined are on lines of their own
		fmt.Fprintf(w, "%s: %s\n", program, human.Plain(strings.TrimSuffix(line, "\n")))
	}
	if hint != "" {
		fmt.Fprintln(w, hint)
	}
	return code
}

// WritePlain writes text of several lines, each made safe for a terminal.
func WritePlain(w io.Writer, text string) {
	for line := range strings.Lines(text) {
		fmt.Fprintln(w, human.Plain(strings.TrimSuffix(line, "\n")))
	}
}
