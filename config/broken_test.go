package config

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/posthaste-mta/posthaste/internal/golden"
	"github.com/posthaste-mta/posthaste/internal/tomlfile"
)

// An operator who fixes a file sees nothing of this program but these messages,
// so each file of testdata/broken has its messages beside it. Read every difference
// as that operator would.
func TestBroken(t *testing.T) {
	files, err := filepath.Glob("testdata/broken/*.toml")
	if err != nil || len(files) == 0 {
		t.Fatalf("no files: %v", err)
	}
	for _, path := range files {
		name := filepath.Base(path)
		t.Run(strings.TrimSuffix(name, ".toml"), func(t *testing.T) {
			text, err := os.ReadFile(path)
			if err != nil {
				t.Fatal(err)
			}
			_, err = Parse(name, text, Environment{Hostname: "host.example.com"})
			var problems *tomlfile.Problems
			if !errors.As(err, &problems) {
				t.Fatalf("the error is %v, want problems", err)
			}
			golden.File(t, strings.TrimSuffix(path, ".toml")+".txt", problems.String())
		})
	}
}
