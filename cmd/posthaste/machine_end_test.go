package main

import (
	"bytes"
	"errors"
	"os"
	"os/exec"
	"strings"
	"testing"

	"github.com/posthaste-mta/posthaste/config"
)

// The reason for which the program ends against its will is in its log: lines
// that are still in memory are written out first.
//
// Seen failing: end without lastWords: the log was empty.
func TestLastWords(t *testing.T) {
	const how = "POSTHASTE_TEST_LAST_WORDS"
	if os.Getenv(how) != "" {
		log, closeLog := newLog(config.Log{}, os.Stderr)
		for range 1000 {
			log.Error("the disk is on fire")
		}
		machine{lastWords: closeLog}.end(int(exitIO))
	}
	cmd := exec.Command(os.Args[0], "-test.run=^TestLastWords$")
	cmd.Env = append(os.Environ(), how+"=1")
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	err := cmd.Run()
	var ended *exec.ExitError
	if !errors.As(err, &ended) || ended.ExitCode() != int(exitIO) {
		t.Errorf("ended with %v", err)
	}
	if n := strings.Count(stderr.String(), "the disk is on fire"); n != 1000 {
		t.Errorf("%d of 1000 lines", n)
	}
}
