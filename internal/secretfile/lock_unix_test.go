//go:build unix && !solaris && !aix && !illumos

package secretfile

import (
	"strings"
	"testing"
)

// Another user of the machine who locks the directory for good does not keep an administrator
// waiting for ever, and is not waited for once the lock is gone.
func TestLockDirectory(t *testing.T) {
	dir := t.TempDir()
	unlock, err := lockDirectory(dir, 0)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := lockDirectory(dir, 2*lockPause); err == nil || !strings.Contains(err.Error(), "another program has locked it") {
		t.Errorf("a directory that is locked: %v", err)
	}
	unlock()
	unlock, err = lockDirectory(dir, 0)
	if err != nil {
		t.Fatalf("a directory that is not locked any more: %v", err)
	}
	unlock()
}
