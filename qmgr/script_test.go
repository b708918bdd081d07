package qmgr_test

import (
	"testing"

	"github.com/posthaste-mta/posthaste/internal/golden"
	"github.com/posthaste-mta/posthaste/qmgr/qmgrtest"
)

// Scripts teach while they test: each shows what happens in one kind of
// situation. Package qmgrtest has the language.
func TestScripts(t *testing.T) { golden.RunAll(t, "testdata/*.txt", qmgrtest.Handler) }
