package main

import "github.com/posthaste-mta/posthaste/test/daemon"

// settings are for short runs: times are short; the small memtable makes the
// store write tables and clean up all the time.
const settings = `
minimal_backoff_time = "1s"
maximal_backoff_time = "2s"
in_flow_delay = 0
qmgr_message_active_limit = 500
qmgr_message_recipient_limit = 2000

[transport.smtp]
connection_cache_time_limit = "1s"

[spool]
memtable_size = "1M"
ballast_size = "1M"
maintenance_interval = "1s"

[routes]
`

// newDaemon prepares a directory. Nothing runs yet.
func newDaemon(binary, dir, routes string) (*daemon.Daemon, error) {
	return daemon.New(daemon.Config{Binary: binary, Dir: dir, Hostname: "crash.test", FirstPort: 21000, Settings: settings + routes})
}
