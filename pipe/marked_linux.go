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

// killMarked kills the processes whose environment has a variable, wherever they are by now: a
// process that has left its group and lost its parent (setsid, a double fork) is not known to belong to a program
// otherwise. Everybody may leave a group, but has to put the environment away on purpose. No privilege is
// needed: who may be killed by this process can be read by it. Alternatives that were rejected:
// cgroups, which cannot be written in most services and containers; and to become the reaper
// of orphans, which says nothing about whose they are, and leaves the corpses to us.
func killMarked(mark string) {
	for range killRounds {
		if !killOnce([]byte(mark)) {
			return
		}
		time.Sleep(killPause)
	}
}

// killOnce does so once, and reports whether there was one.
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
		// A number may be another process's by now: this one does not change hands (pidfd), and has the
		// mark or not.
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
		return false // gone, or somebody else's
	}
	for variable := range bytes.SplitSeq(environment, []byte{0}) {
		if bytes.Equal(variable, mark) {
			return true
		}
	}
	return false
}
