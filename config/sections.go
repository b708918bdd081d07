package config

import (
	"fmt"
	"log/slog"
	"strings"
	"time"
)

// The tables of the file. Of transports and destinations there is one for each
// name.
const (
	tableTop         = ""
	tableRoutes      = "routes"
	tableDNS         = "dns"
	tableSpool       = "spool"
	tableLog         = "log"
	tableTransport   = "transport"
	tableDestination = "destination"
)

// nameHostname is the one parameter whose default comes from the environment.
const nameHostname = "myhostname"

// A section is parameters that the reference treats together.
type section struct {
	title      string
	table      string
	intro      string
	parameters []parameter[Config]
}

// sections is the table of all parameters but those of [transport.NAME], in the
// order in which they are shown. It is made once, because looking a key up
// would otherwise make it anew: a file of 30 lines took 3.5 ms.
var sections = allSections()

func allSections() []section {
	return []section{
		{"This host", tableTop, "Who we are, and where things are kept.", hostParameters()},
		{"Mail that comes in", tableTop, "Where clients connect, and who may send to whom.", inboundParameters()},
		{"Limits on messages", tableTop, "What a client may send in one session.", restarting(messageParameters())},
		{"Limits on clients", tableTop, "How many may come, and how long they may take.", restarting(connectionParameters())},
		{"Where mail goes", tableTop, "Routes for single addresses and domains are in [routes].", routingParameters()},
		{"The queue", tableTop, "How much is held in memory, and when mail is tried again.", queueParameters()},
		{"Reports", tableTop, "What senders are told about mail that could not be delivered.", reportParameters()},
		{"Defaults of transports", tableTop, "What holds for every transport that does not say otherwise in its [transport.NAME].", globals(false)},
		{"Defaults of transports of type smtp", tableTop, "How other servers are talked to, unless [transport.NAME] says otherwise.", append(clientParameters(), globals(true)...)},
		{"Name servers", tableDNS, "How hosts are looked up, and how long answers are remembered.", dnsParameters()},
		{"The spool", tableSpool, "How messages are kept on disk.", restarting(spoolParameters())},
		{"Logging", tableLog, "What is written to standard error.", restarting(logParameters())},
	}
}

// restarting marks parameters of parts that are made once, when the program
// starts.
func restarting(all []parameter[Config]) []parameter[Config] {
	for i := range all {
		all[i] = all[i].onRestart()
	}
	return all
}

func hostParameters() []parameter[Config] {
	path := text("path", "", func(s string) (string, string) {
		if s == "" {
			return "the path is empty", ""
		}
		return "", ""
	})
	group := optional(text("group", "a name or a number", checkGroup), "for none")
	socket := optional(text("path", "relative to queue_directory unless it begins with /", checkSocket), "for none")
	return []parameter[Config]{
		define(nameHostname, domain(), func(c *Config) *string { return &c.Hostname }, "",
			"The name of this host, in greetings, in Received fields, in reports and for addresses without a domain.",
			"Set it if the machine's own name is not the full name under which the Internet knows it.").onRestart(),
		define("queue_directory", path, func(c *Config) *string { return &c.QueueDirectory }, "./posthaste-data",
			"The directory that holds all queued mail; it is made if it does not exist.",
			"Set it to a local disk with room for the largest backlog you want to survive.").onRestart(),
		define("admin_socket", socket, func(c *Config) *string { return &c.AdminSocket }, "admin.sock",
			"The unix socket of the administration API, which the posthaste command talks to.",
			"Set it if operators who may not enter the queue directory are to use the command.").onRestart(),
		define("admin_group", group, func(c *Config) *string { return &c.AdminGroup }, "",
			"The group, by name or number, whose members may use admin_socket beside the owner of the queue; they can read, change and drop all mail.",
			"Set it to a group of administrators, and never to one that only submits mail.").onRestart(),
		define("submission_socket", socket, func(c *Config) *string { return &c.SubmissionSocket }, "submit.sock",
			"The unix socket through which programs on this machine hand in mail, the sendmail command among them.",
			"Set it if the queue directory is closed to those programs, or to \"\" if they are to use SMTP.").onRestart(),
		define("submission_group", group, func(c *Config) *string { return &c.SubmissionGroup }, "",
			"The group, by name or number, whose members may submit mail through submission_socket beside the owner of the queue.",
			"Set it to the group of the users and programs that run sendmail.").onRestart(),
		define("shutdown_time", period(time.Second, limit[time.Duration]{max: time.Hour, zero: "not waiting"}), func(c *Config) *time.Duration { return &c.ShutdownTime }, 30*time.Second,
			"How long a stop waits for deliveries that are under way before it cuts them off.",
			"Raise it if messages are large and a delivery that is cut off would often be made twice.").onRestart(),
	}
}

// socketPathMax is how long the path of a unix socket may be on every system:
// 104 octets with the zero at its end on the BSDs, 108 on Linux.
const socketPathMax = 103

func checkSocket(s string) (string, string) {
	if len(s) > socketPathMax {
		return fmt.Sprintf("a unix socket's path cannot be longer than %d octets", socketPathMax), ""
	}
	return "", ""
}

// checkGroup refuses what no system takes for the name of a group. Whether there is
// such a group shows when the daemon starts.
func checkGroup(s string) (string, string) {
	if strings.ContainsAny(s, ":, \t/") || strings.HasPrefix(s, "-") {
		return fmt.Sprintf("%q is not the name of one group", s), ""
	}
	return "", ""
}

// globals returns the top-level parameters that set defaults of transports:
// those of type smtp, or the others.
func globals(smtp bool) []parameter[Config] {
	var all []parameter[Config]
	for _, p := range allTransportParameters() {
		if p.global != "" && p.smtp == smtp {
			all = append(all, asGlobal(p))
		}
	}
	return all
}

func spoolParameters() []parameter[Config] {
	return []parameter[Config]{
		define("inline_limit", size(limit[int64]{min: 1, max: 1 << 20}), func(c *Config) *int64 { return &c.Spooling.InlineLimit }, 64<<10,
			"The largest message that is kept inside the store; larger ones are files.",
			"Raise it where most mail is a little larger and memory is plentiful."),
		define("ballast_size", size(limit[int64]{min: 4 << 10}), func(c *Config) *int64 { return &c.Spooling.Ballast }, 64<<20,
			"The size of a file that is deleted when the disk runs full, so that the queue can still be emptied.",
			"Raise it if the disk fills up quickly."),
		define("memtable_size", size(limit[int64]{min: 64 << 10, max: 1 << 30}), func(c *Config) *int64 { return &c.Spooling.MemTable }, 32<<20,
			"How much is written before it goes to a table file; mail that is gone by then never does.",
			"Raise it where more mail than that is in flight and memory is plentiful."),
		define("memtables", integer(limit[int]{min: 2, max: 64}), func(c *Config) *int { return &c.Spooling.MemTables }, 4,
			"How many such memories there may be before writers wait for the disk.",
			"Raise it on a disk that is fast on average and stalls now and then."),
		define("cache_size", size(limit[int64]{min: 1 << 20}), func(c *Config) *int64 { return &c.Spooling.Cache }, 32<<20,
			"The memory in which blocks of table files are kept.",
			"Raise it if a large backlog is read again and again."),
		define("sync_interval", period(time.Second, limit[time.Duration]{max: time.Second, zero: "none"}), func(c *Config) *time.Duration { return &c.Spooling.SyncInterval }, 0,
			"The least time between two syncs of the log.",
			"Set it to 300us or 500us on a slow disk, to commit larger groups."),
		define("slow_disk_time", period(time.Second, limit[time.Duration]{min: 100 * time.Millisecond}), func(c *Config) *time.Duration { return &c.Spooling.SlowDisk }, 5*time.Second,
			"How long one disk operation may take before an alarm is raised.",
			"Lower it to hear of a failing disk sooner."),
		define("maintenance_interval", period(time.Second, limit[time.Duration]{min: time.Second}), func(c *Config) *time.Duration { return &c.Spooling.Maintenance }, time.Minute,
			"The time between two rounds of maintenance, which removes orphaned files.",
			"Raise it if the queue directory holds hundreds of thousands of files."),
		define("readers", integer(limit[int]{min: 1, max: 256}), func(c *Config) *int { return &c.Spooling.Readers }, 4,
			"How many reads of the spool go on at once.",
			"Raise it on a disk that is fast only for parallel reads."),
	}
}

func logParameters() []parameter[Config] {
	return []parameter[Config]{
		define("level", words(word[slog.Level]{"debug", slog.LevelDebug}, word[slog.Level]{"info", slog.LevelInfo}, word[slog.Level]{"warn", slog.LevelWarn}, word[slog.Level]{"error", slog.LevelError}),
			func(c *Config) *slog.Level { return &c.Log.Level }, slog.LevelInfo,
			"The least important records that are written; each recipient's outcome is info.",
			"Set it to debug to see connections, and to warn only if the outcomes are kept elsewhere."),
		define("format", words(word[LogFormat]{"text", LogText}, word[LogFormat]{"json", LogJSON}),
			func(c *Config) *LogFormat { return &c.Log.Format }, LogText,
			"How records are written: as key=value, or as one JSON object per line.",
			"Set it to json if a program reads them."),
	}
}
