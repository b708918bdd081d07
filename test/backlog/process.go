package main

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/posthaste-mta/posthaste/internal/pause"
)

// memory is what a process takes of it, in MB of 2^20 octets.
type memory struct {
	own  float64 // now, without the pages of its program
	peak float64 // the most until now, with them
}

// memoryOf reads the resident memory of a process. How many pages of its program count as
// resident is up to the kernel: 20 or 36 MB of one and the same program, depending on how large
// the pieces are in which its file is cached. They are shared by all processes that run it.
func memoryOf(pid int) (memory, error) {
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	if err != nil {
		return memory{}, err
	}
	var m memory
	for line := range bytes.Lines(text) {
		var kB float64
		if _, err := fmt.Sscanf(string(line), "RssAnon: %f kB", &kB); err == nil {
			m.own = kB / 1024
		}
		if _, err := fmt.Sscanf(string(line), "VmHWM: %f kB", &kB); err == nil {
			m.peak = kB / 1024
		}
	}
	return m, nil
}

// cpuOf returns the processor time that a process has used.
func cpuOf(pid int) (time.Duration, error) {
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return 0, err
	}
	// The second field, a name in parentheses, may hold spaces.
	fields := strings.Fields(string(text[bytes.LastIndexByte(text, ')')+1:]))
	var ticks int64
	for _, field := range fields[11:13] { // utime and stime
		n, err := strconv.ParseInt(field, 10, 64)
		if err != nil {
			return 0, err
		}
		ticks += n
	}
	return time.Duration(ticks) * 10 * time.Millisecond, nil // Linux reports hundredths of a second
}

// A watch samples a process's own memory against a count that grows.
type watch struct {
	stop    context.CancelFunc
	stopped sync.WaitGroup
	samples []sample
}

type sample struct {
	count int
	mb    float64
}

func watchMemory(ctx context.Context, pid int, count func() int) *watch {
	ctx, stop := context.WithCancel(ctx)
	w := &watch{stop: stop}
	w.stopped.Go(func() {
		for pause.For(ctx, 50*time.Millisecond) {
			if m, err := memoryOf(pid); err == nil {
				w.samples = append(w.samples, sample{count(), m.own})
			}
		}
	})
	return w
}

// end stops the sampling.
func (w *watch) end() {
	w.stop()
	w.stopped.Wait()
}

// mean returns the mean memory while the count was in a range.
func (w *watch) mean(from, to int) float64 {
	sum, n := 0.0, 0
	for _, s := range w.samples {
		if s.count >= from && s.count <= to {
			sum += s.mb
			n++
		}
	}
	return sum / float64(max(n, 1))
}

// largest returns the most of its own memory that was sampled.
func (w *watch) largest() (mb float64) {
	for _, s := range w.samples {
		mb = max(mb, s.mb)
	}
	return mb
}
