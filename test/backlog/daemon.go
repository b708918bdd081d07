package main

import (
	"fmt"
	"strings"

	"github.com/posthaste-mta/posthaste/test/daemon"
)

// Ports from where on free ones are looked for: the program must not listen where
// no server may listen.
const (
	daemonPort = 22000
	sitePort   = 26000
)

// newDaemon prepares a directory. The settings are for the top of the
// configuration; routes follow. Nothing runs yet.
func newDaemon(o options, dir, settings, routes string) (*daemon.Daemon, error) {
	return daemon.New(daemon.Config{Binary: o.binary, Dir: dir, Hostname: "backlog.test", FirstPort: daemonPort,
		Settings: o.settings + "\n" + settings + "\n[routes]\n" + routes})
}

// stop ends the daemon, and looks into its log.
func stop(d *daemon.Daemon) error {
	if err := d.Stop(); err != nil {
		return err
	}
	found, err := d.Errors()
	if err == nil && len(found) > 0 {
		err = fmt.Errorf("its log has errors:\n%s", strings.Join(found, "\n"))
	}
	return err
}
