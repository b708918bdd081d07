package socket

import (
	"errors"
	"fmt"
	"os"
	"strings"

	"github.com/posthaste-mta/posthaste/config"
	"github.com/posthaste-mta/posthaste/internal/cli/configuration"
	"github.com/posthaste-mta/posthaste/internal/human"
	"github.com/posthaste-mta/posthaste/internal/tomlfile"
)

// placeConfig reads a configuration file for where the daemon's sockets are. After a
// reload that went wrong the file has mistakes, the daemon runs on with what it had,
// and the queue is what one wants to look at: then what says where they are is taken
// alone, with a warning, if it can be read.
func placeConfig(path string) (*config.Config, error) {
	cfg, err := configuration.Read(path)
	var mistakes *tomlfile.Problems
	if !errors.As(err, &mistakes) {
		return cfg, err
	}
	text, readErr := os.ReadFile(path)
	if readErr != nil {
		return nil, err
	}
	cfg, salvageErr := config.Parse(path, []byte(placeOnly(path, text)), configuration.Environment())
	if salvageErr != nil || !saysWhere(text, cfg) {
		return nil, err
	}
	fmt.Fprintf(os.Stderr, "posthaste: %s has mistakes (\"posthaste config check\" names them); only where the queue is was taken from it\n", human.Plain(path))
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

// saysWhere tells whether all that a file says of the place has been understood. A
// default in place of a line with a mistake would lead to another daemon's queue.
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
