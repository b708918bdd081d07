package config

import (
	"fmt"
	"io"
	"log/slog"
	"maps"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"time"

	"github.com/posthaste-mta/posthaste/flow"
	"github.com/posthaste-mta/posthaste/inbound"
	"github.com/posthaste-mta/posthaste/internal/certificate"
	"github.com/posthaste-mta/posthaste/internal/tomlfile"
	"github.com/posthaste-mta/posthaste/mail"
	"github.com/posthaste-mta/posthaste/outbound"
	"github.com/posthaste-mta/posthaste/pipe"
	"github.com/posthaste-mta/posthaste/qmgr"
	"github.com/posthaste-mta/posthaste/qmgr/source"
	"github.com/posthaste-mta/posthaste/quota"
	"github.com/posthaste-mta/posthaste/resolve"
	"github.com/posthaste-mta/posthaste/route"
	"github.com/posthaste-mta/posthaste/tlspolicy"
)

// An Environment is the machine that defaults depend on. It is passed in rather
// than looked up, so that a file has the same meaning in every test.
type Environment struct {
	// Hostname is this machine's name, preferably fully qualified; "" means
	// localhost.
	Hostname string
	// Addresses are this machine's own addresses, on all of which a listener
	// without an address listens. Without them, a mail loop through such a
	// listener is not detected, and no warning is given of a source that is elsewhere.
	Addresses []netip.Addr
}

// A Config is the configuration of the whole program: the values that a file
// sets, and the defaults of all others. Fields have the names of the parameters,
// which Parameters and docs/config.md explain. It must not be modified after it
// has been created.
type Config struct {
	Hostname         string // myhostname
	QueueDirectory   string
	AdminSocket      string // as written; see AdminSocketPath
	AdminGroup       string
	SubmissionSocket string // as written; see SubmissionSocketPath
	SubmissionGroup  string
	Maildrop         MaildropUsers
	ShutdownTime     time.Duration
	Metrics          Metrics

	Listen           []netip.AddrPort
	Listeners        []Listener         // in the order of the file
	Certificates     []certificate.Pair // likewise
	ACME             ACME
	Remote           Remote
	HeaderRules      []HeaderRule // likewise
	Milters          []Milter     // likewise
	ProxyInterfaces  []netip.Addr
	MyNetworks       []netip.Prefix
	RelayDomains     []string
	RelayClientCerts []string // fingerprints, and paths of files with some
	Relay            Relay
	Logins           Logins
	SMTPD            SMTPD
	FastFlush        inbound.FlushConfig

	FlowKey           flow.Key
	FlowHeaderClients []netip.Prefix
	Classes           []Class  // in the order of trial; includes the standard ones
	Tenants           []Tenant // likewise
	EachTenant        quota.Limits
	EachFlow          quota.Limits

	Sources []Source      // in the order of the file
	Pools   []source.Pool // in the order of trial

	WarmupPlans     []WarmupPlan // in the order of the file; includes the shipped ones
	WarmupSiteLimit int

	Rewriting Rewriting

	DKIM     DKIM
	DKIMKeys []DKIMKey // in the order of the file

	ReplyClasses      string      // as written; see ReplyClassesPath
	ReplyRules        []ReplyRule // in the order of the file
	ShippedReplyRules bool        // those for large receivers
	BlockReplyRules   bool        // those for receivers that block our address

	DefaultTransport string
	RelayHost        string
	Credentials      string // path; see LoadCredentials
	Postmaster       string
	Routes           []Route // sorted by pattern, then expressions in the order of the file
	SenderRoutes     []Route // likewise
	RouteFiles       RouteFiles

	InetProtocols       route.Families
	HeloName            string // smtp_helo_name
	LoopCheck           bool   // smtp_loop_check
	SMTPConnectionLimit int    // smtp_connection_limit

	Queue Queue
	Retry Retry

	Reports Reports

	Defaults   Transport            // of all transports
	Transports map[string]Transport // by name, with the defaults filled in; includes the built-in ones

	Destinations map[string]Destination // by name

	DNS      DNS      // [dns]
	Spooling Spooling // [spool]
	Log      Log      // [log]

	TLSReports TLSReports // [tls_reports]

	VERP       VERP
	VERPTables []VERPRule // in the order of trial
	Feedback   []Feedback // in the order of the file

	env      Environment
	explicit map[string]bool // keys that the file sets
	lines    map[string]int  // their lines in the file
}

// Relay is the forms of recipients that mynetworks may use in addition; the
// permit_ parameters.
type Relay struct {
	AddressLiterals    bool
	UnqualifiedDomains bool
	RoutedAddresses    bool
}

// Reports is the notifications about failures, and the handling of double bounces.
type Reports struct {
	SizeLimit      int64
	RecipientLimit int
	Footer         string
	DoubleBounce   qmgr.DoubleBounce
	DoubleBounceTo string
}

// SMTPD is the limits on the server's sessions; the smtpd_ parameters.
type SMTPD struct {
	Banner             string
	MessageSizeLimit   int64 // 0: none
	RecipientLimit     int   // 0: none
	RecipientOvershoot int
	LineLengthLimit    int64
	HeaderSizeLimit    int64
	HopcountLimit      int
	OwnHopcountLimit   int
	SoftErrorLimit     int
	HardErrorLimit     int
	ErrorSleepTime     time.Duration
	JunkCommandLimit   int
	StrictEnvelopes    bool
	PermitUnderscores  bool
	LocalPartLimit     int

	ConnectionLimit       int
	ClientConnectionLimit int // 0: none
	PrefixConnectionLimit int // 0: none
	IPv4PrefixLength      int
	IPv6PrefixLength      int
	LimitExceptions       []netip.Prefix
	RefuseNetworks        []netip.Prefix
	NormalizeNetworks     []netip.Prefix
	ForbidEarly           bool
	RequireTLS            bool // REQUIRETLS is offered
	TLSOptional           bool // TLS-Required: No counts
	GreetPause            time.Duration
	HandshakeTime         time.Duration
	HandshakeLimit        int
	Timeout               time.Duration
	StressTimeout         time.Duration
	TransactionTime       time.Duration
	MinDataRate           int

	Verify Verify
}

// Verify is the verification of recipients before they are accepted.
type Verify struct {
	Recipients   Verification
	Limit        int // of lookups in progress, and of call-outs
	NetworkLimit int // the same for one network of clients
	Deadline     time.Duration
	PositiveTime time.Duration
	NegativeTime time.Duration
	Sender       string // of call-outs; "" is the null sender
	RejectReason string // in replies, in place of the result of the call-out; "" for that result
	DeferReason  string
	AddressLimit int
	// Lifetimes of call-out results.
	AddressPositive, AddressPositiveRefresh time.Duration
	AddressNegative, AddressNegativeRefresh time.Duration
}

// A Verification is the extent of recipient verification.
type Verification uint8

const (
	VerifyNothing Verification = iota
	VerifyRoute                // whether mail can be sent to the domain
	VerifyCallout              // also whether its server would accept the recipient
)

// Queue is the limits on the core and on intake.
type Queue struct {
	ActiveLimit        int
	RecipientLimit     int
	RecipientMinimum   int
	FudgeFactor        int // percent
	LookupLimit        int
	MessageConcurrency int
	ConcurrencyScale   int           // 0: none
	InFlowDelay        time.Duration // 0: none
	MinFree            int64
}

// Retry is the intervals and the lifetimes of retries.
type Retry struct {
	MinimalBackoff   time.Duration
	MaximalBackoff   time.Duration
	JitterPercent    int
	TransportRetry   time.Duration
	MaximalLifetime  time.Duration // 0: a single attempt
	BounceLifetime   time.Duration // 0: a single attempt
	DelayWarningTime time.Duration // 0: never
}

// A Route is a line of [routes]: mail for recipients that match the pattern
// goes to the target, a transport and a nexthop with a colon between them.
type Route struct{ Pattern, Target string }

// A TransportType is the delivery method of a transport.
type TransportType uint8

const (
	TypeSMTP     TransportType = iota // sent to another server
	TypeDiscard                       // thrown away, and counted as delivered
	TypeError                         // refused; the built-in transport error
	TypeRetry                         // deferred; the built-in transport retry
	TypeLMTP                          // sent to a server that delivers into mailboxes
	TypePipe                          // given to a program
	TypeFeedback                      // read as a report; the built-in transport feedback
)

// String returns the type as written in the file.
func (t TransportType) String() string {
	return [...]string{"smtp", "discard", "error", "retry", "lmtp", "pipe", "feedback"}[t]
}

// connects reports whether transports of the type make connections, and have the
// parameters of those.
func (t TransportType) connects() bool { return t == TypeSMTP || t == TypeLMTP }

// A Transport is a named way to deliver, with its own limits. It holds the
// configurations of the packages that use them, so a parameter needs no field here.
type Transport struct {
	Type    TransportType
	Nexthop string

	qmgr.TransportConfig // except for Agents and Connections.Initial, which follow from the other values

	SMTP SMTP
	Pipe pipe.TransportConfig // of type pipe; without Delimiter
}

// SMTP is the additional parameters of a transport of type smtp or lmtp.
type SMTP struct {
	outbound.TransportConfig // except for LMTP, and FallbackRelays, which is FallbackRelay in canonical form

	FallbackRelay string // as written
	SiteRollup    bool
	RequireTLS    bool // REQUIRETLS is demanded for mail that asks for it
	Policy        tlspolicy.Policy
}

// standardTransport returns the default of all transports: that of the packages,
// except where the program has its own.
func standardTransport() *Transport {
	t := &Transport{
		TransportConfig: qmgr.Config{}.WithDefaults().DefaultTransport,
		SMTP: SMTP{TransportConfig: outbound.TransportConfig{}.WithDefaults(), SiteRollup: true, RequireTLS: true,
			Policy: tlspolicy.Policy{Level: tlspolicy.May}},
		Pipe: pipe.TransportConfig{}.WithDefaults(),
	}
	t.Connections.Level = mail.LevelOverlap
	return t
}

// DNS is the table [dns].
type DNS struct {
	resolve.Config // 0 of StaleMax: not used
	HostLimit      int
}

// Spooling is the table [spool].
type Spooling struct {
	InlineLimit  int64
	Ballast      int64
	MemTable     int64
	MemTables    int
	Cache        int64
	SyncInterval time.Duration
	SlowDisk     time.Duration
	Maintenance  time.Duration
	Readers      int
}

// Log is the table [log].
type Log struct {
	Level  slog.Level
	Format LogFormat

	File     string        // "" is standard error
	Size     int64         // of the file, after which a new one begins; 0: any
	Age      time.Duration // likewise
	Keep     int           // old files that are kept
	Compress bool          // old files
}

// A LogFormat is the format of log records.
type LogFormat uint8

const (
	LogText LogFormat = iota // key=value
	LogJSON                  // one object per line
)

// builtin returns the transports that exist without being configured.
func builtin() map[string]TransportType {
	return map[string]TransportType{
		"smtp": TypeSMTP, "relay": TypeSMTP, "lmtp": TypeLMTP,
		route.TransportDiscard: TypeDiscard, route.TransportError: TypeError, route.TransportRetry: TypeRetry,
		TransportFeedback: TypeFeedback,
	}
}

// typeMayChange reports whether a file may give a built-in transport another type.
func typeMayChange(name string) bool { return name == "smtp" || name == "relay" }

// Default returns the configuration of an empty file.
func Default(env Environment) *Config {
	c := &Config{env: env, explicit: make(map[string]bool), lines: make(map[string]int), Transports: make(map[string]Transport), Destinations: make(map[string]Destination)}
	for _, s := range sections {
		for _, p := range s.parameters {
			p.reset(c)
		}
	}
	for _, p := range transportParameters {
		p.reset(&c.Defaults)
	}
	c.Hostname = env.Hostname
	if c.Hostname == "" {
		c.Hostname = "localhost"
	}
	c.addTransports(nil)
	c.addClasses()
	return c
}

// addTransports creates the built-in transports and the given ones.
func (c *Config) addTransports(names []string) {
	types := builtin()
	for _, name := range slices.Concat(slices.Collect(maps.Keys(types)), names) {
		t := c.Defaults
		t.Type = types[name] // the zero type is smtp
		c.Transports[name] = t
	}
}

// fileMax is the size of the largest file that is read. Ten thousand routes fit.
const fileMax = 1 << 20

// Load reads a configuration file. If the file can be read but has mistakes, the
// error is a *tomlfile.Problems.
func Load(path string, env Environment) (*Config, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, err // it names the operation and the path
	}
	defer f.Close()
	text, err := io.ReadAll(io.LimitReader(f, fileMax+1))
	if err != nil {
		return nil, err
	}
	return LoadText(path, text, env)
}

// LoadText is Load for the text of a file, whose name in messages is name.
func LoadText(name string, text []byte, env Environment) (*Config, error) {
	c, err := Parse(name, text, env)
	if err != nil {
		return nil, err
	}
	if err := c.readRouteFiles(); err != nil {
		return nil, err
	}
	return c, nil
}

// Parse reads the text of a configuration file; name is its name in messages. An
// error is a *tomlfile.Problems.
func Parse(name string, text []byte, env Environment) (*Config, error) {
	if len(text) > fileMax {
		src := tomlfile.New(name, nil)
		src.Complain(tomlfile.Span{}, tomlfile.Problem{Message: fmt.Sprintf("the file is larger than %s", FormatSize(fileMax))})
		return nil, src.Problems()
	}
	src := tomlfile.New(name, text)
	l := &loader{src: src, c: Default(env), places: make(map[string]tomlfile.Span)}
	root := src.Parse()
	if isSomethingElse(src, text) {
		return nil, src.Problems()
	}
	l.load(root)
	l.check()
	src.CheckWhole()
	if err := src.Problems(); err != nil {
		return nil, err
	}
	return l.c, nil
}

// MaildropUsers are the users who may leave mail for a daemon that is not running.
type MaildropUsers uint8

const (
	MaildropGroup MaildropUsers = iota // those of submission_group
	MaildropAll                        // all users of the machine
	MaildropOff                        // none
)

// MaildropPath returns the path of the directory in which mail waits for the daemon.
func (c *Config) MaildropPath() string { return c.inQueueDirectory("maildrop") }

// AdminSocketPath returns the path of the socket of the administration API.
func (c *Config) AdminSocketPath() string { return c.inQueueDirectory(c.AdminSocket) }

// SubmissionSocketPath returns the path of the socket through which local programs
// submit mail.
func (c *Config) SubmissionSocketPath() string { return c.inQueueDirectory(c.SubmissionSocket) }

func (c *Config) inQueueDirectory(path string) string {
	if path == "" || filepath.IsAbs(path) {
		return path
	}
	return filepath.Join(c.QueueDirectory, path)
}
