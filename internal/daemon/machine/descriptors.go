package machine

import (
	"fmt"
	"log/slog"
	"maps"
	"strings"

	"github.com/posthaste-mta/posthaste/config"
	"github.com/posthaste-mta/posthaste/mail"
	"github.com/posthaste-mta/posthaste/resolve"
)

// Without a file descriptor the store cannot begin a new log, no client can be
// accepted, no server be reached and no content be read. Nothing good can be done at
// that point, so every part gets a share that it cannot exceed, and the shares
// together are fewer than the process has.

// File descriptors outside of the shares.
const (
	// descriptorsFixed are the standard streams, the runtime's poller, the log, the
	// trace, and the store's lock, directories, log, manifest and the files that it
	// writes. An idle daemon has 17, without listeners; a compaction takes 4 more.
	descriptorsFixed = 32
	// descriptorsReserve is left for what cannot be counted, such as a connection
	// that is refused as one too many, or /etc/resolv.conf; a sixteenth of the
	// limit where that is less.
	descriptorsReserve = 64
)

// A share is how many file descriptors one part of the program may have.
type share struct {
	name   string // the parameter, or what it is
	wanted int    // as configured
	least  int    // it does not work with fewer
	each   int    // descriptors for one of these
	weight int    // of the share where there are not enough for all
	got    int
	lasts  bool // it takes a restart to change it
}

// The shares, in this order.
const (
	shareClients = iota
	shareServers
	shareLookups
	shareSlowLookups
	shareTables
	shareAdmin
	sharePrograms
	shareKinds
)

const (
	tableFilesWanted = 1000 // Pebble's default
	// tableFilesLeast is what Pebble takes at least, however few are configured.
	tableFilesLeast        = 74
	adminConnectionsWanted = 64
)

// sharesOf returns what a configuration asks for. A connection has one descriptor
// and one for each message's content that is open on it; that of a client also those of its milters.
func sharesOf(cfg *config.Config) [shareKinds]share {
	return [shareKinds]share{
		shareClients:     {name: "smtpd_connection_limit", wanted: cfg.SMTPD.ConnectionLimit, least: 8, each: 2 + ofMilters(cfg), weight: 5, lasts: true},
		shareServers:     {name: "smtp_connection_limit", wanted: cfg.SMTPConnectionLimit, least: 4, each: 1 + openContents(cfg), weight: 4},
		shareLookups:     {name: "dns.concurrency", wanted: cfg.DNS.Concurrency, least: 4, each: 1, weight: 1},
		shareSlowLookups: {name: "slow lookups", wanted: resolve.SlowFactor * cfg.DNS.Concurrency, least: 4, each: 1, weight: 1},
		shareTables:      {name: "open table files", wanted: tableFilesWanted, least: tableFilesLeast, each: 1, weight: 2, lasts: true},
		shareAdmin:       {name: "admin connections", wanted: adminConnectionsWanted, least: 4, each: 2, weight: 1, lasts: true},
		sharePrograms:    {name: "process_limit of transports of type pipe", wanted: programsOf(cfg), least: 4, each: descriptorsOfProgram, weight: 1},
	}
}

// descriptorsOfContent are the files of a content that milters look at: the message as it came, the
// body that one of them has replaced, and that which another is replacing.
const descriptorsOfContent = 3

// ofMilters returns how many descriptors the milters of one client take.
func ofMilters(cfg *config.Config) int {
	most := cfg.MilterConnections()
	if most == 0 {
		return 0
	}
	return most + descriptorsOfContent
}

// descriptorsOfProgram are those that a program takes while it is started: the message,
// both ends of its output, and both of a pipe by which the system says that it runs. There are
// no more while the message is written.
const descriptorsOfProgram = 5

// programsOf returns how many programs may run at once.
func programsOf(cfg *config.Config) (n int) {
	for _, t := range cfg.Transports {
		if t.Type == config.TypePipe {
			n += t.ProcessLimit
		}
	}
	return n
}

// limitPrograms lowers the limits of transports of type pipe in proportion, so that they are
// at most most together, unless that is fewer than there are transports.
func (f *Fitted) limitPrograms(most int) {
	all := programsOf(f.Config)
	if most >= all {
		return
	}
	f.Transports = maps.Clone(f.Transports)
	for name, t := range f.Transports {
		if t.Type == config.TypePipe {
			t.ProcessLimit = max(t.ProcessLimit*most/all, 1)
			f.Transports[name] = t
		}
	}
}

// openContents is the number of contents that may be open on one connection to a server: that
// of the message whose reply is awaited, and those that are sent behind it.
func openContents(cfg *config.Config) int {
	most := 1
	for _, t := range cfg.Transports {
		most = max(most, contentsAt(t.Connections.Level, t.Connections.InFlight))
	}
	return most
}

func contentsAt(l mail.Level, inFlight int) int {
	switch l {
	case mail.LevelStream:
		return inFlight + 1
	case mail.LevelOverlap:
		return 2
	}
	return 1
}

// divide gives every share what it wants, or if there are not enough descriptors,
// what it needs at least and a part by its weight of what is left. It reports
// whether there are enough for the least of all.
func divide(all *[shareKinds]share, descriptors int) bool {
	for i := range all {
		s := &all[i]
		s.got = min(s.least, s.wanted)
		descriptors -= s.got * s.each
	}
	if descriptors < 0 {
		return false
	}
	// What one share does not want is divided again among the others.
	for again := true; again; {
		again = false
		weights := 0
		for _, s := range all {
			if s.got < s.wanted {
				weights += s.weight
			}
		}
		left := descriptors
		for i := range all {
			s := &all[i]
			if s.got == s.wanted {
				continue
			}
			more := min(left*s.weight/weights/s.each, s.wanted-s.got)
			s.got += more
			descriptors -= more * s.each
			again = again || more > 0
		}
	}
	return true
}

// keep leaves the shares that last as they were when the daemon began.
func keep(all *[shareKinds]share, started *Fitted) {
	all[shareClients].got, all[shareTables].got, all[shareAdmin].got = started.SMTPD.ConnectionLimit, started.TableFiles, started.AdminConnections
	for i := range all {
		if s := &all[i]; s.lasts {
			s.wanted, s.least = s.got, s.got
		}
	}
}

// fitDescriptors makes limits smaller until all can be reached at once. A reporter has
// the content of a message open, and that of the report which it writes.
func (f *Fitted) fitDescriptors(limit int, started *Fitted, listeners int, log *slog.Logger) error {
	all := sharesOf(f.Config)
	if started != nil {
		keep(&all, started)
	}
	fixed := descriptorsFixed + listeners + f.Spooling.Readers + 2*f.Driver().WithDefaults().Reporters
	reserve := min(descriptorsReserve, limit/16)
	need, least := fixed+descriptorsReserve, fixed+descriptorsReserve/4
	for _, s := range all {
		need += s.wanted * s.each
		least += min(s.least, s.wanted) * s.each
	}
	if !divide(&all, limit-fixed-reserve) {
		return &TooSmallError{limit, least, need}
	}
	f.SMTPD.ConnectionLimit, f.SMTPConnectionLimit, f.DNS.Concurrency = all[shareClients].got, all[shareServers].got, all[shareLookups].got
	f.SlowLookups, f.TableFiles, f.AdminConnections = all[shareSlowLookups].got, all[shareTables].got, all[shareAdmin].got
	f.limitPrograms(all[sharePrograms].got)
	var smaller []string
	for _, s := range all {
		if s.got < s.wanted {
			smaller = append(smaller, fmt.Sprintf("%s %d instead of %d", s.name, s.got, s.wanted))
		}
	}
	if len(smaller) == 0 {
		log.Info("file descriptors", "limit", limit, "needed", need)
		return nil
	}
	log.Warn("the limit of file descriptors is too small for the configuration, so other limits are lowered; raise it with LimitNOFILE under systemd or with ulimit -n",
		"limit", limit, "needed", need, "reserve", reserve, "lowered", strings.Join(smaller, ", "))
	return nil
}

// TooSmallError is the error that the process has fewer file descriptors than the
// least that the daemon runs with.
type TooSmallError struct {
	limit, least int
	Needed       int // by the configuration
}

func (e *TooSmallError) Error() string {
	return fmt.Sprintf("a limit of %d file descriptors is too small: Posthaste needs at least %d, and %d for this configuration", e.limit, e.least, e.Needed)
}
