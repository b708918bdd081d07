package command

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"syscall"
	"testing"

	"github.com/posthaste-mta/posthaste/admin/client"
	"github.com/posthaste-mta/posthaste/internal/cli/exit"
	"github.com/posthaste-mta/posthaste/internal/tomlfile"
)

// Programs decide by the exit code whether to try again, to give up or to alert
// an operator, so each kind of trouble needs its own.
func TestExitCodes(t *testing.T) {
	for _, c := range []struct {
		err  error
		want exit.Code
	}{
		{nil, exit.OK},
		{errors.New("x"), exit.Unavailable},
		{&client.Unreachable{Err: fs.ErrNotExist}, exit.Unavailable},
		{&client.Unreachable{Err: fs.ErrPermission}, exit.NoPerm},
		{&client.Unreachable{Err: syscall.EINVAL}, exit.Config},
		{&client.Unreachable{Err: syscall.EMFILE}, exit.Unavailable},
		{&client.Unreachable{Server: "https://mail.example:8025", Err: fs.ErrPermission}, exit.Unavailable},
		{&client.Problem{Status: 401}, exit.NoPerm},
		{&client.Problem{Status: 403}, exit.NoPerm},
		{fmt.Errorf("x: %w", &client.Problem{Status: 404}), exit.NoInput},
		{&client.Problem{Status: 422}, exit.Usage},
		{&client.Problem{Status: 429}, exit.TempFail},
		{&client.Problem{Status: 503}, exit.TempFail},
		{&client.Problem{Status: 500}, exit.Unavailable},
		{&fs.PathError{Op: "write", Path: "/dev/stdout", Err: syscall.ENOSPC}, exit.IO},
		{fmt.Errorf("not in the queue: x; %w", &client.Partial{}), exit.IO},
		{&tomlfile.Problems{}, exit.Config},
	} {
		if got, _ := codeOf(c.err); got != c.want {
			t.Errorf("%T %v: %d, want %d", c.err, c.err, got, c.want)
		}
	}
}

// Errors that were joined, as those of several files, are on lines of their own: an operator
// must see where one ends.
func TestComplainOnLines(t *testing.T) {
	var b bytes.Buffer
	Complain(&b, "posthaste", exit.New(exit.Config, errors.Join(errors.New("one\x1b[2J"), errors.New("two")), "What to do."))
	if got, want := b.String(), "posthaste: one?[2J\nposthaste: two\nWhat to do.\n"; got != want {
		t.Errorf("%q, want %q", got, want)
	}
}
