package config

import (
	"fmt"
	"log/slog"
	"strings"
	"time"
)

// The tables of the file. Each transport, destination, class, tenant, source and pool has a
// table of its own.
const (
	tableTop          = ""
	tableRoutes       = "routes"
	tableSenderRoutes = "sender_routes"
	tableDNS          = "dns"
	tableSpool        = "spool"
	tableLog          = "log"
	tableTLSReports   = "tls_reports"
	tableTransport    = "transport"
	tableDestination  = "destination"
	tableClass        = "class"
	tableTenant       = "tenant"
	tableSource       = "source"
	tablePool         = "pool"
	tableWarmup       = "warmup"
	tableDKIM         = "dkim"
	tableListener     = "listener"    // a list
	tableCertificate  = "certificate" // a list
	tableHeaderRule   = "header_rule" // a list
	tableMilter       = "milter"      // a list
	tableFeedback     = "feedback"    // a list
	tableVERP         = "verp"
	tableReplyRule    = "reply_rule"
)

// nameHostname is the only parameter whose default comes from the environment.
const nameHostname = "myhostname"

// A section is a group of parameters in the reference.
type section struct {
	title      string
	table      string
	intro      string
	parameters []parameter[Config]
}

// sections is the table of all parameters except those of tables with names, such as
// [transport.NAME], in the order in which they are shown. It is built once:
// when every lookup of a key built it again, a file of 30 lines took 3.5 ms.
var sections = allSections()

func allSections() []section {
	return []section{
		{"This host", tableTop, "Its name, its directories and its sockets.", hostParameters()},
		{"Incoming mail", tableTop, "Where clients connect, and which mail is accepted from them.", inboundParameters()},
		{"Requests for mail", tableTop, "Sites that are not always connected, and ask for their mail by ETRN; see docs/listeners.md.", etrnParameters()},
		{"Certificates by ACME", tableTop, "A certificate for listeners that is obtained from an authority and renewed; those in files are in [[certificate]], see docs/tls.md.", acmeParameters()},
		{"Logins", tableTop, "Users who may log in with AUTH, and may then send anywhere; see docs/authentication.md.", loginParameters()},
		{"Administration over the network", tableTop, "The administration API for programs on this and other machines, see docs/api.md.", remoteParameters()},
		{"Limits on messages", tableTop, "What a client may send in one session.", restarting(messageParameters())},
		{"Limits on clients", tableTop, "How many clients are served at once, and for how long.", restarting(connectionParameters())},
		{"Whose mail it is", tableTop, "Classes, tenants and flows, among which capacity is shared; see docs/flows.md.", flowParameters()},
		{"Quotas", tableTop, "How much mail each tenant and each flow may have in the queue, and send in some time; see docs/quotas.md.", quotaDefaults()},
		{"Rewriting of addresses", tableTop, "Replacing addresses when mail arrives; see docs/rewriting.md.", rewritingParameters()},
		{"Signatures", tableTop, "DKIM signatures of the mail of clients that may send anywhere; the keys are in [dkim.NAME], see docs/dkim.md.", dkimParameters()},
		{"Where mail goes", tableTop, "Routes for single addresses and domains are in [routes].", routingParameters()},
		{"Replies of receivers", tableTop, "What replies mean; rules are in [reply_rule.NAME], see docs/replies.md.", replyParameters()},
		{"The queue", tableTop, "Memory limits, retry intervals and lifetimes.", queueParameters()},
		{"Metrics", tableTop, "Figures for Prometheus, and health checks; see docs/metrics.md.", restarting(metricsParameters())},
		{"Reports", tableTop, "Delivery status notifications for mail that could not be delivered.", reportParameters()},
		{"A sender for each recipient", tableTop, "Envelope senders that contain the recipient (VERP), so that the address of a bounce identifies the recipient; [verp.NAME] selects the mail, see docs/verp.md.", verpParameters()},
		{"Defaults of transports", tableTop, "These apply to every transport that does not set its own value in [transport.NAME].", globals(false)},
		{"Defaults of transports of type smtp", tableTop, "SMTP to other servers, unless [transport.NAME] sets its own value.", append(clientParameters(), globals(true)...)},
		{"Name servers", tableDNS, "DNS queries, and how long their answers are cached.", dnsParameters()},
		{"Reports on TLS", tableTLSReports, "Reports to domains that ask how TLS with their hosts works (TLSRPT); see docs/tls-reports.md.", tlsReportParameters()},
		{"The spool", tableSpool, "Storage of messages on disk.", restarting(spoolParameters())},
		{"Logging", tableLog, "Records of what the daemon does, on standard error or in a file; see docs/log.md.", logParameters()},
	}
}

// restarting marks parameters of components that are created once, when the
// program starts.
func restarting(all []parameter[Config]) []parameter[Config] {
	for i := range all {
		all[i] = all[i].onRestart()
	}
	return all
}

func hostParameters() []parameter[Config] {
	path := text("path", "", checkPath)
	group := optional(text("group", "a name or a number", checkGroup), "for none")
	socket := optional(text("path", "relative to queue_directory unless it begins with /", checkSocket), "for none")
	return []parameter[Config]{
		define(nameHostname, domain(), func(c *Config) *string { return &c.Hostname }, "",
			"The name of this host in greetings, Received fields and reports, and for addresses without a domain.",
			"Set it if the machine's own name is not its full name on the Internet.").onRestart(),
		define("queue_directory", path, func(c *Config) *string { return &c.QueueDirectory }, "./posthaste-data",
			"The directory that holds all queued mail; it is created if it does not exist.",
			"Set it to a directory on a local disk with room for the largest backlog you want to survive.").onRestart(),
		define("admin_socket", socket, func(c *Config) *string { return &c.AdminSocket }, "admin.sock",
			"The unix socket of the administration API, which the posthaste command uses.",
			"Set it if operators who cannot enter the queue directory must be able to use the command.").onRestart(),
		define("admin_group", group, func(c *Config) *string { return &c.AdminGroup }, "",
			"The group whose members may use admin_socket in addition to the owner of the queue; they can read, change and drop all mail.",
			"Set it to a group of administrators, and never to one that only submits mail.").onRestart(),
		define("submission_socket", socket, func(c *Config) *string { return &c.SubmissionSocket }, "submit.sock",
			"The unix socket through which programs on this machine submit mail, the sendmail command among them.",
			"Set it if those programs cannot enter the queue directory, or to \"\" if they must use SMTP instead.").onRestart(),
		define("submission_group", group, func(c *Config) *string { return &c.SubmissionGroup }, "",
			"The group whose members may submit mail through submission_socket in addition to the owner of the queue.",
			"Set it to the group of the users and programs that run sendmail.").onRestart(),
		define("maildrop", words(word[MaildropUsers]{"group", MaildropGroup}, word[MaildropUsers]{"all", MaildropAll}, word[MaildropUsers]{"off", MaildropOff}), func(c *Config) *MaildropUsers { return &c.Maildrop }, MaildropGroup,
			"The users whose sendmail leaves mail in the maildrop while the daemon is not running: group means the users who may use submission_socket, all means all users of this machine, who may then also submit mail while the daemon runs, and off means none.",
			"Set it to all on a machine whose users run sendmail without being members of submission_group; each of them can then fill the disk of the queue, unless the file system has quotas.").onRestart(),
		define("shutdown_time", period(time.Second, limit[time.Duration]{max: time.Hour, zero: "not waiting"}), func(c *Config) *time.Duration { return &c.ShutdownTime }, 30*time.Second,
			"The time that a shutdown waits for deliveries in progress before it cuts them off.",
			"Raise it if messages are large, since a delivery that is cut off is often repeated.").onRestart(),
	}
}

func checkPath(s string) (string, string) {
	if s == "" {
		return "the path is empty", ""
	}
	return "", ""
}

// socketPathMax is the longest path of a unix socket that every system supports:
// the limit is 104 bytes with the terminating zero on the BSDs, 108 on Linux.
const socketPathMax = 103

func checkSocket(s string) (string, string) {
	if len(s) > socketPathMax {
		return fmt.Sprintf("a unix socket's path cannot be longer than %d bytes", socketPathMax), ""
	}
	return "", ""
}

// checkGroup rejects a text that no system accepts as the name of a group. Whether
// the group exists is checked when the daemon starts.
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
			"The largest message that is kept inside the store; each larger message is a file of its own.",
			"Raise it if most mail is slightly larger than this and memory is plentiful."),
		define("ballast_size", size(limit[int64]{min: 4 << 10}), func(c *Config) *int64 { return &c.Spooling.Ballast }, 64<<20,
			"The size of a file that is deleted when the disk is full, so that the queue can still be emptied.",
			"Raise it if the disk fills up quickly."),
		define("memtable_size", size(limit[int64]{min: 64 << 10, max: 1 << 30}), func(c *Config) *int64 { return &c.Spooling.MemTable }, 32<<20,
			"The size of one in-memory write buffer; mail that is gone before the buffer is full is never written to a table file.",
			"Raise it if the mail in flight exceeds this size and memory is plentiful."),
		define("memtables", integer(limit[int]{min: 2, max: 64}), func(c *Config) *int { return &c.Spooling.MemTables }, 4,
			"The number of write buffers that may be waiting for the disk before writers wait too.",
			"Raise it for a disk that is fast on average but stalls now and then."),
		define("cache_size", size(limit[int64]{min: 1 << 20}), func(c *Config) *int64 { return &c.Spooling.Cache }, 32<<20,
			"The size of the cache for blocks of table files.",
			"Raise it if a large backlog is read again and again."),
		define("sync_interval", period(time.Second, limit[time.Duration]{max: time.Second, zero: "none"}), func(c *Config) *time.Duration { return &c.Spooling.SyncInterval }, 200*time.Microsecond,
			"The pause after each sync of the log while 12 or more messages are being received at once and 2,000 per second arrive, so that more of them share a sync.",
			"Set it to 0 if the last tenth of a millisecond counts more than processor time."),
		define("slow_disk_time", period(time.Second, limit[time.Duration]{min: 100 * time.Millisecond}), func(c *Config) *time.Duration { return &c.Spooling.SlowDisk }, 5*time.Second,
			"The duration of a single disk operation that raises an alarm.",
			"Lower it to learn of a failing disk sooner."),
		define("maintenance_interval", period(time.Second, limit[time.Duration]{min: time.Second}), func(c *Config) *time.Duration { return &c.Spooling.Maintenance }, time.Minute,
			"The interval between maintenance runs, which remove orphaned files.",
			"Raise it if the queue directory holds hundreds of thousands of files."),
		define("readers", integer(limit[int]{min: 1, max: 256}), func(c *Config) *int { return &c.Spooling.Readers }, 4,
			"The number of spool reads that run in parallel.",
			"Raise it for a disk that is fast only with parallel reads."),
	}
}

func logParameters() []parameter[Config] {
	return []parameter[Config]{
		define("level", words(word[slog.Level]{"debug", slog.LevelDebug}, word[slog.Level]{"info", slog.LevelInfo}, word[slog.Level]{"warn", slog.LevelWarn}, word[slog.Level]{"error", slog.LevelError}),
			func(c *Config) *slog.Level { return &c.Log.Level }, slog.LevelInfo,
			"The lowest level of the records that are written; each recipient's outcome is info.",
			"Set it to debug to see connections, or to warn only if outcomes are kept elsewhere."),
		define("format", words(word[LogFormat]{"text", LogText}, word[LogFormat]{"json", LogJSON}),
			func(c *Config) *LogFormat { return &c.Log.Format }, LogText,
			"The format of records: key=value text, or one JSON object per line.",
			"Set it to json if a program reads the log.").onRestart(),
		define("file", optional(text("path", "", checkPath), "for standard error"), func(c *Config) *string { return &c.Log.File }, "",
			"The file that records are appended to; if it is empty, they go to standard error. A reload opens it again, so logrotate can rename it.",
			"Set it where no service manager keeps standard error.").onRestart(),
		define("file_size", size(limit[int64]{min: 64 << 10, zero: "no limit"}), func(c *Config) *int64 { return &c.Log.Size }, 0,
			"The size of the log file after which a new one begins. The old one gets a timestamp appended to its name.",
			"Set it, such as to 100M, if no other program rotates the file.").onRestart(),
		define("file_age", period(time.Second, limit[time.Duration]{min: time.Second, zero: "no limit"}), func(c *Config) *time.Duration { return &c.Log.Age }, 0,
			"The age of the log file after which a new one begins with the next record.",
			"Set it to 1d for a file for each day.").onRestart(),
		define("file_keep", integer(limit[int]{min: 0, max: 10000}), func(c *Config) *int { return &c.Log.Keep }, 14,
			"The number of old log files that are kept; older ones are removed.",
			"Raise it if you have to look further back.").onRestart(),
		define("file_compress", flag(), func(c *Config) *bool { return &c.Log.Compress }, false,
			"Whether old log files are compressed with gzip.",
			"Set it to true if log files take too much of the disk.").onRestart(),
	}
}
