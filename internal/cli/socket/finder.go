// Package socket finds the sockets of the daemon that a command talks to: by flags, the
// environment, the daemon's configuration, or the default paths.
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

// The names of the daemon's sockets in its queue directory, and the default queue
// directories.
const (
	adminSocket   = "admin.sock"
	submitSocket  = "submit.sock"
	localQueue    = "posthaste-data"
	SystemQueue   = "/var/spool/posthaste"
	QueueVariable = "POSTHASTE_QUEUE_DIRECTORY" // environment variable
	TokenVariable = "POSTHASTE_TOKEN"           // environment variable
)

// A Finder has the location of the daemon as a command line gives it. At most one of
// Socket, Directory, Config and URL is set.
type Finder struct {
	Socket    string // of the administration API or for mail, depending on the command
	Directory string
	Config    string
	URL       string // of the administration API, for a daemon on another machine
	TokenFile string // the file with the token for URL; "" for TokenVariable
	System    bool   // ignore a queue in the working directory
}

// AddFlags adds the flags for the location of the daemon.
func (p *Finder) AddFlags(f *pflag.FlagSet) {
	f.StringVar(&p.Socket, "socket", "", "the daemon's administration `socket`")
	f.StringVar(&p.Directory, "queue-directory", "", "the daemon's queue `directory` (default $"+QueueVariable+", ./"+localQueue+
		" if it exists, or "+SystemQueue+")")
	f.StringVarP(&p.Config, "config", "c", "", "find the daemon by its configuration `file`")
	f.StringVar(&p.URL, "url", "", "the `URL` of a daemon on another machine: https://HOST:PORT, as in its admin_listen")
	f.StringVar(&p.TokenFile, "token-file", "", "the `file` with the token for --url (default: the token in $"+TokenVariable+")")
}

// check refuses more than one way of locating the daemon: all but one would be ignored.
func (p *Finder) check() error {
	var given []string
	for _, one := range [][2]string{{"--socket", p.Socket}, {"--queue-directory", p.Directory}, {"--config", p.Config}, {"--url", p.URL}} {
		if one[1] != "" {
			given = append(given, one[0])
		}
	}
	if len(given) > 1 {
		return exit.Usagef("%s exclude each other: each one locates the daemon", strings.Join(given, " and "))
	}
	if p.TokenFile != "" && p.URL == "" {
		return exit.Usagef("--token-file goes with --url: on a socket the file system decides who may connect")
	}
	return nil
}

// Submission returns the path of the socket for submission of mail.
func (p *Finder) Submission() (string, error) {
	return p.path(submitSocket, "submission", "submission_socket", (*config.Config).SubmissionSocketPath)
}

// Maildrop returns the path of the directory in which mail waits for a daemon that is not
// running, "" if there is none.
func (p *Finder) Maildrop() string {
	const name = "maildrop"
	switch {
	case p.Socket != "":
		return ""
	case p.Config == "":
		return filepath.Join(p.queue(), name)
	}
	cfg, err := placeConfig(p.Config)
	if err != nil || cfg.Maildrop == config.MaildropOff {
		return ""
	}
	return cfg.MaildropPath()
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

// queue returns the queue directory. A replacement of sendmail is called from any
// working directory, also from one that other users can write to, so with System it
// does not use a socket that happens to be there.
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

// Dial returns a client of the daemon. It does not connect.
func (p *Finder) Dial() (*client.Client, error) {
	if p.URL != "" {
		return p.remote()
	}
	socket, err := p.path(adminSocket, "administration", "admin_socket", (*config.Config).AdminSocketPath)
	if err != nil {
		return nil, err
	}
	return client.New(socket), nil
}
