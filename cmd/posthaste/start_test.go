package main

import (
	"fmt"
	"io"
	"log/slog"
	"net"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/posthaste-mta/posthaste/config"
	"github.com/posthaste-mta/posthaste/internal/cli"
	"github.com/posthaste-mta/posthaste/internal/cli/command"
	"github.com/posthaste-mta/posthaste/internal/cli/exit"
	"github.com/posthaste-mta/posthaste/internal/cli/service"
	"github.com/posthaste-mta/posthaste/internal/daemon"
	"github.com/posthaste-mta/posthaste/internal/daemon/machine"
	"github.com/posthaste-mta/posthaste/spool"
)

// A daemon that does not start ends with a code by which its supervisor knows whether
// to try again, and says what to do.
func TestCodeOfStart(t *testing.T) {
	used, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer used.Close()
	queue := t.TempDir()
	begin := func(text string, m machine.Limits) error {
		cfg, err := config.Parse("test.toml", fmt.Appendf(nil, "queue_directory = %q\nspool.ballast_size = \"64K\"\n%s", queue, text), config.Environment{Hostname: "mta.test"})
		if err != nil {
			t.Fatal(err)
		}
		d, err := daemon.New(cfg, daemon.Options{Log: slog.New(slog.DiscardHandler), Machine: m})
		if err == nil {
			t.Cleanup(d.Close)
		}
		return err
	}
	free := "listen = [\"127.0.0.1:0\"]\n"
	for _, c := range []struct {
		name string
		err  error
		code exit.Code
		hint string
	}{
		{"few descriptors", begin(free, machine.Limits{Descriptors: 100}), exit.OS, "LimitNOFILE="},
		{"an address in use", begin(fmt.Sprintf("listen = [%q]\n", used.Addr()), machine.Limits{}), exit.Unavailable, "Another program listens on this address"},
		{"no such group", begin(free+"admin_group = \"no-such-group-here\"\n", machine.Limits{}), exit.Config, "getent group"},
		{"no key of signatures", begin(free+"[dkim.a]\ndomain = \"a.test\"\nselector = \"s\"\nkey = \"none.pem\"\n", machine.Limits{}), exit.Config, "posthaste dkim keygen"},
		{"the first", begin(free, machine.Limits{}), exit.Unavailable, ""},
		{"the second", begin(free, machine.Limits{}), exit.Unavailable, "Another posthaste serves this queue"},
	} {
		code, hint := service.CodeOfStart(c.err)
		if code != c.code || !strings.Contains(hint, c.hint) || (c.err == nil) != (c.hint == "") {
			t.Errorf("%s: %d %q for %v", c.name, code, hint, c.err)
		}
	}
}

// A trace that cannot be written keeps the daemon from starting, with a reason;
// nothing stays open, so that it starts without.
func TestTraceThatCannotBeWritten(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	file := filepath.Join(dir, "test.toml")
	if err := os.WriteFile(file, fmt.Appendf(nil, "queue_directory = %q\nlisten = [\"127.0.0.1:0\"]\nspool.ballast_size = \"64K\"\n", dir), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, test := range []struct{ path, want string }{
		{filepath.Join(dir, "nowhere", "x.trace"), "no such file or directory"},
		{"/dev/full", "no space left on device"},
	} {
		var said strings.Builder
		code := cli.Run(t.Context(), "posthaste", []string{"serve", "--config", file, "--trace", test.path}, command.Streams{In: strings.NewReader(""), Out: io.Discard, Err: &said})
		if out := said.String(); code != exit.IO || !strings.Contains(out, "the trace cannot be written") || !strings.Contains(out, test.want) || !strings.Contains(out, "--trace") {
			t.Errorf("%s: exit status %d, %q", test.path, code, out)
		}
	}
	cfg, err := config.Load(file, config.Environment{Hostname: "mta.test"})
	if err != nil {
		t.Fatal(err)
	}
	d, err := daemon.New(cfg, daemon.Options{Log: slog.New(slog.DiscardHandler)})
	if err != nil {
		t.Fatal(err)
	}
	d.Close()
}

// A start that fails because of the file system says what to do about it.
func TestDisksThatForbidAStart(t *testing.T) {
	for cause, hint := range map[error]string{
		spool.ErrFull:  "Make room",
		syscall.ENOSPC: "Make room",
		syscall.EDQUOT: "Make room",
		syscall.EROFS:  "mounted read-only",
		syscall.EIO:    "dmesg",
	} {
		err := fmt.Errorf("listen: %w", &net.OpError{Op: "listen", Net: "unix", Err: cause})
		if code, got := service.CodeOfStart(err); code != exit.IO || !strings.Contains(got, hint) {
			t.Errorf("%v: code %d, hint %q; want %q", cause, code, got, hint)
		}
	}
}
