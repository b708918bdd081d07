package main

import (
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
