//go:build unix

package daemon

import (
	"errors"
	"fmt"
	"io/fs"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
)

// What other users may do with the queue directory. A user who can reach admin.sock
// can read and drop all mail, and one who can open the lock can keep the daemon from
// starting, so a group that may submit mail gets one socket and nothing else.
func TestPermissions(t *testing.T) {
	if os.Getenv(permissionsProbe) != "" {
		t.Skip("this is the probe itself")
	}
	own := strconv.Itoa(os.Getgid())
	for _, c := range []struct {
		name, text    string
		admin, submit fs.FileMode
		others        fs.FileMode // of the directory
	}{
		{"no group", "", 0o600, 0o600, 0},
		{"submission by a group", `submission_group = "` + own + `"`, 0o600, 0o660, 0o011},
		{"administration by a group", `admin_group = "` + own + `"`, 0o660, 0o600, 0o011},
	} {
		dir := filepath.Join(t.TempDir(), "queue")
		r := start(t, dir, c.text)
		for name, want := range map[string]fs.FileMode{"admin.sock": c.admin, "submit.sock": c.submit, "lock": 0o600, "db": 0o700, "body": 0o700, ".": 0o700 | c.others} {
			info, err := os.Stat(filepath.Join(dir, name))
			if err != nil || info.Mode().Perm() != want {
				t.Errorf("%s: %s has mode %o, want %o (%v)", c.name, name, info.Mode().Perm(), want, err)
			}
		}
		r.end()
	}
}

// A queue that an earlier version has made, or that was opened to a group as its
// documentation said, is closed when the daemon starts.
func TestPermissionsAreMended(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "queue")
	start(t, dir, "").end()
	for name, mode := range map[string]fs.FileMode{"lock": 0o644, "db": 0o755, "body": 0o755, ".": 0o750} {
		if err := os.Chmod(filepath.Join(dir, name), mode); err != nil {
			t.Fatal(err)
		}
	}
	r := start(t, dir, "")
	for name, want := range map[string]fs.FileMode{"lock": 0o600, "db": 0o700, "body": 0o700, "admin.sock": 0o600} {
		if info, err := os.Stat(filepath.Join(dir, name)); err != nil || info.Mode().Perm() != want {
			t.Errorf("%s has mode %v, want %o (%v)", name, info.Mode(), want, err)
		}
	}
	if r.log.count("level=WARN", "queue_directory", "mode=750") != 1 {
		t.Errorf("no warning about a directory that is open to others:\n%s", r.log.tail(2000))
	}
}

// A misspelled group must not leave a socket open to the wrong users, or silently to
// none.
func TestUnknownGroup(t *testing.T) {
	for _, key := range []string{"submission_group", "admin_group"} {
		cfg := configure(t, t.TempDir(), key+` = "no-such-group-here"`)
		d, err := New(cfg, quiet)
		if err == nil {
			d.Close()
			t.Fatalf("%s: the daemon starts", key)
		}
		var group *GroupError
		if !errors.As(err, &group) || !strings.Contains(err.Error(), key) || !strings.Contains(err.Error(), "no-such-group-here") {
			t.Errorf("%s: %v", key, err)
		}
	}
}

const permissionsProbe = "POSTHASTE_TEST_PROBE"

// A member of the group can submit mail and nothing else, as the system enforces
// it; a stranger cannot even do that.
func TestPermissionsAsAnotherUser(t *testing.T) {
	if dir := os.Getenv(permissionsProbe); dir != "" {
		probe(dir)
		return
	}
	if os.Getuid() != 0 {
		t.Skip("only root can become another user")
	}
	const uid, gid = 54321, 54322
	dir := filepath.Join(t.TempDir(), "queue")
	for up := filepath.Dir(dir); up != os.TempDir() && up != "/"; up = filepath.Dir(up) {
		if err := os.Chmod(up, 0o755); err != nil {
			t.Fatal(err)
		}
	}
	start(t, dir, fmt.Sprintf(`submission_group = "%d"`, gid))
	program := filepath.Join(filepath.Dir(dir), "probe")
	if text, err := os.ReadFile(os.Args[0]); err != nil {
		t.Fatal(err)
	} else if err := os.WriteFile(program, text, 0o755); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		gid  uint32
		want string
	}{{gid, "submit.sock"}, {uid, ""}} {
		cmd := exec.Command(program, "-test.run=^TestPermissionsAsAnotherUser$")
		cmd.Dir = filepath.Dir(dir)
		cmd.Env = append(os.Environ(), permissionsProbe+"="+dir)
		cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: uid, Gid: c.gid}}
		out, err := cmd.CombinedOutput()
		if err != nil {
			t.Fatalf("%v: %s", err, out)
		}
		first, _, _ := strings.Cut(string(out), "\n")
		if got := strings.TrimPrefix(first, "may use: "); got != c.want {
			t.Errorf("group %d may use %q, want %q", c.gid, got, c.want)
		}
	}
}

// probe prints what this process may use of a queue directory.
func probe(dir string) {
	var may []string
	for _, name := range []string{"admin.sock", "submit.sock"} {
		if conn, err := net.Dial("unix", filepath.Join(dir, name)); err == nil {
			conn.Close()
			may = append(may, name)
		} else if !errors.Is(err, fs.ErrPermission) {
			may = append(may, err.Error())
		}
	}
	for _, name := range []string{".", "lock", "db", "body"} {
		if f, err := os.Open(filepath.Join(dir, name)); err == nil {
			f.Close()
			may = append(may, name)
		}
	}
	fmt.Println("may use: " + strings.Join(may, " "))
}
