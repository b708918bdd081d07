//go:build unix

package credential

import (
	"os/exec"
	"syscall"
)

// alone makes a command the leader of a process group, all of which is killed if it takes too
// long: a script's children would otherwise go on.
func alone(cmd *exec.Cmd) {
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	cmd.Cancel = func() error { return syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) }
}
