// Package version returns the version of the program.
package version

import (
	"fmt"
	"runtime"
	"runtime/debug"

	"github.com/spf13/cobra"
)

// String returns the program's version: the module's if it was installed by
// "go install module@version", else the commit it was built from.
func String() string {
	info, ok := debug.ReadBuildInfo()
	if !ok {
		return "unknown"
	}
	if v := info.Main.Version; v != "" && v != "(devel)" {
		return v
	}
	if commit, _ := commitOf(info); commit != "" {
		return "devel-" + commit[:min(12, len(commit))]
	}
	return "devel"
}

// commitOf returns the commit that the program was built from, with a "+" if
// files had changed since, and its time; "" where it is not known.
func commitOf(info *debug.BuildInfo) (commit, at string) {
	changed := ""
	for _, s := range info.Settings {
		switch {
		case s.Key == "vcs.revision":
			commit = s.Value
		case s.Key == "vcs.time":
			at = s.Value
		case s.Key == "vcs.modified" && s.Value == "true":
			changed = "+"
		}
	}
	if commit == "" {
		return "", ""
	}
	return commit + changed, at
}

// NewCommand returns the command that prints the version.
func NewCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "version",
		Short: "Print the version",
		Args:  cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			out := cmd.OutOrStdout()
			fmt.Fprintf(out, "posthaste %s\n", String())
			if info, ok := debug.ReadBuildInfo(); ok {
				if commit, at := commitOf(info); commit != "" {
					fmt.Fprintf(out, "commit    %s %s\n", commit, at)
				}
			}
			fmt.Fprintf(out, "go        %s %s/%s\n", runtime.Version(), runtime.GOOS, runtime.GOARCH)
			return nil
		},
	}
}
