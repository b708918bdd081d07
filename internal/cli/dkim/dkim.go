// Package dkim has the commands that make the keys of signatures, print the records that
// publish them, and compare these with what the DNS has.
package dkim

import (
	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/posthaste-mta/posthaste/config"
	"github.com/posthaste-mta/posthaste/dkim"
	"github.com/posthaste-mta/posthaste/dkim/keyring"
	"github.com/posthaste-mta/posthaste/internal/cli/command"
	"github.com/posthaste-mta/posthaste/internal/cli/configfile"
	"github.com/posthaste-mta/posthaste/internal/cli/exit"
)

// NewCommand returns the commands about keys of signatures.
func NewCommand() *cobra.Command {
	cmd := command.Group("dkim", "Make signing keys for mail, and check their records", `Make private keys, print the records that publish them, and check what the DNS has.
docs/dkim.md describes how the daemon uses keys.`,
		newKeygenCommand(), newRecordsCommand(), newCheckCommand())
	cmd.SuggestFor = []string{"opendkim", "sign"}
	return cmd
}

// configFlag adds the flag that names the configuration file.
func configFlag(f *pflag.FlagSet, path *string) {
	f.StringVarP(path, "config", "c", "", "configuration `file` (TOML) with the keys in [dkim.NAME]")
}

// readKeys reads the configuration and the keys in it.
func readKeys(path string) (*config.Config, *dkim.Ring, error) {
	cfg, err := configfile.Read(path)
	if err != nil {
		return nil, nil, err
	}
	ring, err := keyring.Load(cfg.Keyring())
	switch {
	case err != nil:
		return nil, nil, exit.New(exit.Config, err, "Run it as the user that runs posthaste, or as root.")
	case ring == nil:
		return nil, nil, exit.New(exit.NoInput, errNoKeys(path), "\"posthaste dkim keygen DOMAIN\" makes keys, and prints what to add to the configuration.")
	}
	return cfg, ring, nil
}

func errNoKeys(path string) error {
	if path == "" {
		return exit.Errorf(exit.Usage, "there are no keys without a configuration; name its file with --config")
	}
	return exit.Errorf(exit.NoInput, "%s has no keys: it has no table [dkim.NAME]", path)
}

// selected returns the keys for a domain, or all of them.
func selected(ring *dkim.Ring, args []string) ([]*dkim.Key, error) {
	var want string
	if len(args) > 0 {
		domain, ok := dkim.ParseDomain(args[0])
		if !ok {
			return nil, exit.Usagef("%q is not a domain", args[0])
		}
		want = domain
	}
	var list []*dkim.Key
	for i := range ring.Keys() {
		if k := &ring.Keys()[i]; want == "" || k.Signs(want) {
			list = append(list, k)
		}
	}
	if len(list) == 0 {
		return nil, exit.Errorf(exit.NoInput, "no key is for %s", want)
	}
	return list, nil
}
