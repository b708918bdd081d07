package socket

import (
	"errors"
	"fmt"
	"os"
	"strings"

	"github.com/posthaste-mta/posthaste/config"
	"github.com/posthaste-mta/posthaste/internal/cli/configfile"
	"github.com/posthaste-mta/posthaste/internal/human"
	"github.com/posthaste-mta/posthaste/internal/tomlfile"
)

// placeConfig reads the location of the daemon's sockets from a configuration file.
// After a failed reload the file has mistakes, the daemon continues with its old
// configuration, and an operator wants to look at the queue. In that case only the
// parameters of the location are read, with a warning.
func placeConfig(path string) (*config.Config, error) {
	cfg, err := configfile.Read(path)
	var mistakes *tomlfile.Problems
	if !errors.As(err, &mistakes) {
		return cfg, err
	}
	text, readErr := os.ReadFile(path)
	if readErr != nil {
		return nil, err
	}
	cfg, salvageErr := config.Parse(path, []byte(placeOnly(path, text)), configfile.Environment())
	if salvageErr != nil || !saysWhere(text, cfg) {
		return nil, err
	}
	fmt.Fprintf(os.Stderr, "posthaste: %s has mistakes (see \"posthaste config check\"); only the location of the queue was read from it\n", human.Plain(path))
	return cfg, nil
}

// placeKeys are the parameters that say where the daemon's sockets are.
func placeKeys() []string { return []string{"queue_directory", "admin_socket", "submission_socket"} }

// placeOnly returns what is left of a configuration file without all other parameters.
func placeOnly(name string, text []byte) string {
	var b strings.Builder
	for _, e := range tomlfile.New(name, text).Parse().Entries {
		for _, key := range placeKeys() {
			if e.Name == key && e.Value.Kind == tomlfile.KindText {
				fmt.Fprintf(&b, "%s = %s\n", key, tomlfile.QuoteText(e.Value.Text))
			}
		}
	}
	return b.String()
}

// saysWhere reports whether every line of a file about the location was understood. A
// default instead of a line with a mistake would lead to another daemon's queue.
func saysWhere(text []byte, cfg *config.Config) bool {
	understood := placeOnly("", text)
	for line := range strings.Lines(string(text)) {
		if strings.HasPrefix(strings.TrimSpace(line), "#") {
			continue
		}
		for _, key := range placeKeys() {
			if strings.Contains(line, key) && !strings.Contains(understood, key+" = ") {
				return false
			}
		}
	}
	return cfg.QueueDirectory != "" && strings.Contains(understood, " = ")
}
