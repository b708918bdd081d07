// Package socket finds the sockets of the daemon that a command is for: by flags, by
// the environment, by the daemon's configuration, or where they are by default.
package socket

import (
	"errors"
	"os"
	"path/filepath"
	"strings"

	"github.com/spf13/pflag"

	"github.com/posthaste-mta/posthaste/admin/client"
	"github.com/posthaste-mta/posthaste/config"
	"github.com/posthaste-mta/posthaste/internal/cli/exit"
)

// The names of the daemon's sockets in its queue directory, and where that is
// if nobody says.
const (
	adminSocket   = "admin.sock"
	submitSocket  = "submit.sock"
	localQueue    = "posthaste-data"
	SystemQueue   = "/var/spool/posthaste"
	QueueVariable = "POSTHASTE_QUEUE_DIRECTORY" // environment variable
)

// A Finder says where the daemon is.
type Finder struct {
	Socket    string // of the administration API or for mail, as is asked for
	Directory string
	Config    string
	System    bool // not to look in the working directory
}

// AddFlags adds the flags that say where the daemon is.
func (p *Finder) AddFlags(f *pflag.FlagSet) {
	f.StringVar(&p.Socket, "socket", "", "the daemon's administration `socket`")
	f.StringVar(&p.Directory, "queue-directory", "", "the daemon's queue `directory` (default $"+QueueVariable+", ./"+localQueue+
		" if it is there, or "+SystemQueue+")")
	f.StringVarP(&p.Config, "config", "c", "", "take it from the daemon's configuration `file`")
}

// check refuses a place that is told in two ways, of which one would be passed over.
func (p *Finder) check() error {
	var given []string
	for _, one := range [][2]string{{"--socket", p.Socket}, {"--queue-directory", p.Directory}, {"--config", p.Config}} {
		if one[1] != "" {
			given = append(given, one[0])
		}
	}
	if len(given) > 1 {
		return exit.Usagef("%s exclude each other: each says where the daemon is", strings.Join(given, " and "))
	}
	return nil
}

// Submission returns the path of the socket that takes mail.
func (p *Finder) Submission() (string, error) {
	return p.path(submitSocket, "submission", "submission_socket", (*config.Config).SubmissionSocketPath)
}

// path returns the path of a socket: its name in the queue directory, what it is for,
// and the parameter that sets it.
func (p *Finder) path(name, purpose, key string, in func(*config.Config) string) (string, error) {
	if err := p.check(); err != nil || p.Socket != "" {
		return p.Socket, err
	}
	if p.Config == "" {
		return filepath.Join(p.queue(), name), nil
	}
	cfg, err := placeConfig(p.Config)
	if err != nil {
		return "", err
	}
	if path := in(cfg); path != "" {
		return path, nil
	}
	return "", exit.New(exit.Config, errors.New("the daemon has no "+purpose+" socket"), "Set "+key+" in "+p.Config+".")
}

// queue returns the queue directory. A program that stands in for sendmail is
// called from anywhere, directories that others can write in among them, so it
// does not take mail to a socket that happens to be there.
func (p *Finder) queue() string {
	if p.Directory != "" {
		return p.Directory
	}
	if directory := os.Getenv(QueueVariable); directory != "" {
		return directory
	}
	if !p.System {
		if info, err := os.Stat(localQueue); err == nil && info.IsDir() {
			return localQueue
		}
	}
	return SystemQueue
}

// Dial returns a client of the daemon.
func (p *Finder) Dial() (*client.Client, error) {
	socket, err := p.path(adminSocket, "administration", "admin_socket", (*config.Config).AdminSocketPath)
	if err != nil {
		return nil, err
	}
	return client.New(socket), nil
}
