package pipe

import (
	"bytes"
	"os"
	"strconv"
	"time"
)

// killRounds and killPause bound how long processes are looked for that start others meanwhile.
const (
	killRounds = 20
	killPause  = 5 * time.Millisecond
)

// killMarked kills all processes whose environment has a variable. Without it, a process that has left its
// group and lost its parent (setsid, a double fork) could not be attributed to a program. Any process may leave
// its group, but it loses its environment only on purpose. No privilege is needed, because this process can
// read the environment of every process that it may kill. Rejected alternatives: cgroups, which most services
// and containers cannot write; and becoming the reaper of orphans, which does not show to which program an
// orphan belongs, and would make us wait for each of them.
func killMarked(mark string) {
	for range killRounds {
		if !killOnce([]byte(mark)) {
			return
		}
		time.Sleep(killPause)
	}
}

// killOnce kills the marked processes that exist now, and reports whether there were any.
func killOnce(mark []byte) (found bool) {
	dir, err := os.Open("/proc")
	if err != nil {
		return false
	}
	defer dir.Close() // it was only read
	names, _ := dir.Readdirnames(-1)
	for _, name := range names {
		pid, err := strconv.Atoi(name)
		if err != nil || pid == os.Getpid() || !marked(name, mark) {
			continue
		}
		// The number may belong to another process by now. The handle (pidfd) cannot change its process, so
		// the mark is checked again after it was opened.
		p, err := os.FindProcess(pid)
		if err != nil {
			continue
		}
		if marked(name, mark) && p.Kill() == nil {
			found = true
		}
		p.Release() // there is nothing to save
	}
	return found
}

// marked reports whether a process has a variable in the environment that it was started with.
func marked(pid string, mark []byte) bool {
	environment, err := os.ReadFile("/proc/" + pid + "/environ")
	if err != nil {
		return false // the process has ended, or belongs to another user
	}
	for variable := range bytes.SplitSeq(environment, []byte{0}) {
		if bytes.Equal(variable, mark) {
			return true
		}
	}
	return false
}
