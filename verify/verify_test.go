package verify_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/posthaste-mta/posthaste/verify"
)

func shared() string {
	if dir := os.Getenv("POSTHASTE_SHARED"); dir != "" {
		return dir
	}
	return "../../shared"
}

func TestGoldenShared(t *testing.T) {
	files, _ := filepath.Glob(filepath.Join(shared(), "golden/qmgr/*.in"))
	for _, f := range files {
		in, _ := os.ReadFile(f)
		out, _ := os.ReadFile(strings.TrimSuffix(f, ".in") + ".out")
		if err := verify.Golden(in, out); err != nil {
			t.Errorf("%s: %v", filepath.Base(f), err)
		}
	}
}

func TestOracleShared(t *testing.T) {
	files, _ := filepath.Glob(filepath.Join(shared(), "oracle/*.json"))
	for _, f := range files {
		b, _ := os.ReadFile(f)
		if err := verify.Oracle(b); err != nil {
			t.Errorf("%s: %v", filepath.Base(f), err)
		}
	}
}
