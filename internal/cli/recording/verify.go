package recording

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"github.com/spf13/cobra"

	"github.com/posthaste-mta/posthaste/internal/cli/command"
	"github.com/posthaste-mta/posthaste/internal/cli/exit"
	"github.com/posthaste-mta/posthaste/internal/human"
	"github.com/posthaste-mta/posthaste/verify"
)

// exitDiffers is the exit code for a recording that differs, as of diff(1).
const exitDiffers exit.Code = 1

// NewVerifyCommand returns the commands that compare the scheduler with Postfix.
func NewVerifyCommand() *cobra.Command {
	return command.Group("verify", "Compare the scheduler with recordings of Postfix", `Replay recordings of Postfix's queue manager and compare every decision. PATH is a
file, or a directory that is searched for files at any depth.

The output has one line per file, "ok" or the first difference, and a total at the
end. The exit status is 1 if a recording differs and 2 if a file is not a recording.`,
		newVerifyKindCommand("golden", "Replay golden vectors: NAME.in with NAME.out, and SEQUENCES.txt", isGolden, verifyGolden),
		newVerifyKindCommand("oracle", "Replay decision traces: NAME.json", isOracle, verifyOracle))
}

func newVerifyKindCommand(name, short string, matches func(path string) bool, check func(path string) error) *cobra.Command {
	return &cobra.Command{
		Use:   name + " PATH…",
		Short: short,
		Args:  cobra.MinimumNArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			files, err := filesBelow(args, matches)
			if err != nil {
				return err
			}
			differ, unread := 0, 0
			for _, path := range files {
				answer := "ok"
				var other *fs.PathError
				switch err := check(path); {
				case errors.Is(err, verify.ErrNoRecording), errors.As(err, &other):
					answer = err.Error()
					unread++
				case err != nil:
					answer = err.Error()
					differ++
				}
				fmt.Fprintf(cmd.OutOrStdout(), "%s: %s\n", human.Plain(path), human.Plain(answer))
			}
			return verified(cmd.OutOrStdout(), len(files), differ, unread)
		},
	}
}

// verified writes the total. The exit code distinguishes a recording that differs from a
// file that is not a recording.
func verified(out io.Writer, files, differ, unread int) error {
	fmt.Fprintf(out, "%s, %d equal, %d differ", human.Count(files, "file"), files-differ-unread, differ)
	if unread > 0 {
		fmt.Fprintf(out, ", %d cannot be compared", unread)
	}
	fmt.Fprintln(out)
	switch {
	case differ > 0:
		return exit.Errorf(exitDiffers, "%d of %d recordings differ", differ, files)
	case unread > 0:
		return exit.Errorf(exitTraceInput, "%d of %d files cannot be compared", unread, files)
	}
	return nil
}

// filesBelow returns the files that were named, and those that match in the
// folders that were named.
func filesBelow(paths []string, matches func(path string) bool) (files []string, err error) {
	for _, path := range paths {
		found := len(files)
		err := filepath.WalkDir(path, func(p string, d fs.DirEntry, err error) error {
			if err == nil && !d.IsDir() && (p == path || matches(p)) {
				files = append(files, p)
			}
			return err
		})
		if err != nil {
			return nil, exit.New(exit.NoInput, err, "")
		}
		if len(files) == found {
			return nil, exit.Errorf(exit.NoInput, "%s: no recordings there", path)
		}
	}
	return files, nil
}

func isGolden(path string) bool {
	return strings.HasSuffix(path, ".in") || filepath.Base(path) == "SEQUENCES.txt"
}

func isOracle(path string) bool { return strings.HasSuffix(path, ".json") }

// verifyGolden replays a vector, which either of its two files names, or a list
// of sequences.
func verifyGolden(path string) error {
	base := strings.TrimSuffix(strings.TrimSuffix(path, ".in"), ".out")
	if base == path {
		text, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		return verify.Sequences(text)
	}
	in, err := os.ReadFile(base + ".in")
	if err != nil {
		return err
	}
	out, err := os.ReadFile(base + ".out")
	if err != nil {
		return err
	}
	return verify.Golden(in, out)
}

func verifyOracle(path string) error {
	trace, err := os.ReadFile(path)
	if err != nil {
		return err
	}
	return verify.Oracle(trace)
}
