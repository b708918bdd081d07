package daemon

import (
	"maps"
	"slices"

	"github.com/posthaste-mta/posthaste/config"
)

// transports are those that the program has had since its start, each as it was last
// in force. A transport is of one type for as long as the program runs: the core has
// mail for it, and connections or none, and would dial for what takes no connections.
type transports map[string]config.Transport

// keep returns a configuration as it can be put in force: a transport whose type is
// another now stays as it was. It names the parameters that wait for a restart.
func (t transports) keep(cfg *config.Config) (possible *config.Config, restart []string) {
	next := *cfg
	next.Transports = maps.Clone(cfg.Transports)
	for _, name := range slices.Sorted(maps.Keys(cfg.Transports)) {
		if old, ok := t[name]; ok && old.Type != cfg.Transports[name].Type {
			next.Transports[name] = old
			restart = append(restart, config.TransportKey(name, "type"))
		}
	}
	return &next, restart
}

// add takes in what is in force.
func (t transports) add(cfg *config.Config) { maps.Copy(t, cfg.Transports) }
