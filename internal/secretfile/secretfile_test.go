package secretfile

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// A file with secrets is read if only its owner or our group can read it, and other users cannot
// replace it. Errors do not quote its contents.
func TestRead(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "secret")
	if err := os.WriteFile(path, []byte("hunter2"), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, row := range []struct {
		mode os.FileMode
		max  int
		want string
	}{
		{0o600, 7, ""}, {0o400, 7, ""}, {0o640, 7, ""},
		{0o660, 7, "may change this file"}, {0o604, 7, "all users"}, {0o602, 7, "all users"}, {0o601, 7, "all users"}, {0o600, 6, "larger than 6 bytes"},
	} {
		if err := os.Chmod(path, row.mode); err != nil {
			t.Fatal(err)
		}
		text, err := Read(path, row.max)
		if (err == nil) != (row.want == "") || err == nil && string(text) != "hunter2" {
			t.Errorf("mode %o: %q, %v", row.mode, text, err)
		}
		if err != nil && (!strings.Contains(err.Error(), row.want) || !strings.Contains(err.Error(), path) || strings.Contains(err.Error(), "hunter2")) {
			t.Errorf("mode %o: %v", row.mode, err)
		}
	}
	if _, err := Read(dir, 7); err == nil {
		t.Error("a directory is read")
	}
	if _, err := Read(filepath.Join(dir, "none"), 7); !os.IsNotExist(err) {
		t.Errorf("%v", err)
	}
}

// A credential of the service is in the directory that the service manager names, with the mode
// that it chose.
func TestReadCredentialOfTheService(t *testing.T) {
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "smtp"), []byte("hunter2"), 0o644); err != nil {
		t.Fatal(err)
	}
	t.Setenv(directoryVariable, dir)
	if text, err := Read("systemd:smtp", 100); err != nil || string(text) != "hunter2" {
		t.Errorf("%q, %v", text, err)
	}
	for _, path := range []string{"systemd:../smtp", "systemd:", "systemd:..", "systemd:none"} {
		if _, err := Read(path, 100); err == nil {
			t.Errorf("%s is read", path)
		}
	}
	t.Setenv(directoryVariable, "")
	if _, err := Read("systemd:smtp", 100); err == nil || !strings.Contains(err.Error(), "LoadCredential=smtp") {
		t.Errorf("%v", err)
	}
	for path, want := range map[string]bool{"/etc/x": true, "x": false, "": false, "systemd:x": true, "systemd:a/b": false, "systemd:": false} {
		if ValidPath(path) != want {
			t.Errorf("ValidPath(%q) is %v", path, !want)
		}
	}
}
