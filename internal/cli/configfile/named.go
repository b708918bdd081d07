package configfile

import (
	"errors"

	"github.com/spf13/pflag"

	"github.com/posthaste-mta/posthaste/config"
	"github.com/posthaste-mta/posthaste/internal/cli/exit"
)

// A Named is a file that the configuration names, and that commands change themselves.
type Named struct {
	What      string                      // what is in the file: "users"
	Parameter string                      // the parameter that names it
	In        func(*config.Config) string // its value

	config, file string
}

// AddFlags adds the flags that say which file is meant.
func (n *Named) AddFlags(f *pflag.FlagSet) {
	f.StringVarP(&n.config, "config", "c", "", "configuration `file` (TOML) whose parameter "+n.Parameter+" names the file")
	f.StringVarP(&n.file, "file", "f", "", "`file` of "+n.What+", instead of that of the configuration")
}

// Path returns the file, and the group that has to read a new one, -1 for none.
func (n *Named) Path() (path string, readers int, err error) {
	if n.file != "" && n.config == "" {
		return n.file, -1, nil
	}
	cfg, err := Read(n.config)
	if err != nil {
		return "", 0, err
	}
	if path = n.file; path == "" {
		path = n.In(cfg)
	}
	if path == "" {
		return "", 0, exit.New(exit.Usage, errors.New("the configuration names no file of "+n.What),
			"Name the configuration with --config, set "+n.Parameter+" in it, or name the file of "+n.What+" with --file.")
	}
	return path, Readers(cfg), nil
}
