package golden

import (
	"os"
	"strconv"
)

// Runs returns the number of random runs that a test makes: plain, which takes a
// fraction of a second, or POSTHASTE_RUNS if that is set in the environment, as
// .ci/run does. A test whose runs are shorter than others multiplies it.
func Runs(plain int) int {
	if n, err := strconv.Atoi(os.Getenv("POSTHASTE_RUNS")); err == nil {
		return n
	}
	return plain
}
