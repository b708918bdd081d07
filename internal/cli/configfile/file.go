// Package configfile reads the configuration file that a command names.
package configfile

import (
	"errors"
	"fmt"
	"io/fs"
	"net"
	"net/netip"
	"os"
	"syscall"

	"github.com/posthaste-mta/posthaste/config"
	"github.com/posthaste-mta/posthaste/internal/cli/exit"
)

// Read reads a configuration file that a user has named, with hints about errors.
func Read(path string) (*config.Config, error) {
	cfg, err := Load(path)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil, exit.New(exit.NoInput, err, "The file does not exist. \"posthaste config show --example\" prints one to start from.")
	case errors.Is(err, syscall.EISDIR):
		return nil, exit.New(exit.NoInput, fmt.Errorf("%s is a directory", path), "Name a configuration file in this directory.")
	case errors.Is(err, fs.ErrPermission):
		return nil, exit.New(exit.NoPerm, err, "")
	}
	return cfg, err
}

// Load reads a configuration file; "" means the defaults.
func Load(path string) (*config.Config, error) {
	env := Environment()
	if path == "" {
		return config.Default(env), nil
	}
	return config.Load(path, env)
}

// Environment is what the configuration's defaults depend on.
func Environment() config.Environment {
	var env config.Environment
	env.Hostname, _ = os.Hostname() // "" stands for localhost
	interfaces, err := net.InterfaceAddrs()
	if err != nil {
		return env // loops through wildcard listeners are detected by the greeting
	}
	for _, a := range interfaces {
		if p, err := netip.ParsePrefix(a.String()); err == nil {
			env.Addresses = append(env.Addresses, p.Addr())
		}
	}
	return env
}

// Readers returns the group that has to read a new file with secrets, -1 for none: the daemon
// is the owner of its queue, and reads what root has made by its group.
func Readers(cfg *config.Config) int {
	if info, err := os.Stat(cfg.QueueDirectory); err == nil && os.Geteuid() == 0 {
		return groupOf(info)
	}
	return -1
}
