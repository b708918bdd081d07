package config

import (
	"math"
	"net/netip"
	"slices"
	"strings"
	"time"

	"github.com/posthaste-mta/posthaste/driver"
	"github.com/posthaste-mta/posthaste/header"
	"github.com/posthaste-mta/posthaste/inbound"
	"github.com/posthaste-mta/posthaste/mail"
	"github.com/posthaste-mta/posthaste/outbound"
	"github.com/posthaste-mta/posthaste/qmgr"
	"github.com/posthaste-mta/posthaste/qmgr/addrdb"
	"github.com/posthaste-mta/posthaste/qmgr/backoff"
	"github.com/posthaste-mta/posthaste/report"
	"github.com/posthaste-mta/posthaste/resolve"
	"github.com/posthaste-mta/posthaste/route"
	"github.com/posthaste-mta/posthaste/smtp/server"
	"github.com/posthaste-mta/posthaste/spool/settings"
)

// The methods of this file fill in each package's Config. Loggers, clocks,
// seeds and callbacks are left to the caller, since no file can name them.
//
// Where 0 means "none" in the file, the packages use a negative value, because
// their zero value means the default.

// orNone returns the packages' value for one whose 0 means none.
func orNone[N int | int64 | time.Duration](v N) N {
	if v == 0 {
		return -1
	}
	return v
}

// Spool returns the settings of package spool.
func (c *Config) Spool() settings.Settings {
	s := c.Spooling
	return settings.Settings{
		Dir: c.QueueDirectory, InlineMax: int(s.InlineLimit), MinFree: c.Queue.MinFree, Ballast: s.Ballast,
		MemTable: int(s.MemTable), MemTables: s.MemTables, Cache: s.Cache,
		SyncInterval: orNone(s.SyncInterval), SlowDisk: s.SlowDisk, Maintain: s.Maintenance,
	}
}

// addresses returns the configuration of package addrdb.
func (c *Config) addresses() addrdb.Config {
	v := c.SMTPD.Verify
	return addrdb.Config{Limit: v.AddressLimit, PositiveTime: v.AddressPositive, PositiveRefresh: v.AddressPositiveRefresh,
		NegativeTime: v.AddressNegative, NegativeRefresh: v.AddressNegativeRefresh}
}

// Driver returns the configuration of package driver, including that of the core.
func (c *Config) Driver() driver.Config {
	q := qmgr.Config{
		ActiveLimit: c.Queue.ActiveLimit, RecipientLimit: c.Queue.RecipientLimit, RecipientMinimum: c.Queue.RecipientMinimum,
		ConnectionLimit: c.SMTPConnectionLimit, LookupLimit: c.Queue.LookupLimit, MessageConcurrency: c.Queue.MessageConcurrency, ConcurrencyScale: orNone(c.Queue.ConcurrencyScale),
		VerifyLimit: c.SMTPD.Verify.Limit, VerifyNetworkLimit: c.SMTPD.Verify.NetworkLimit, VerifyDeadline: c.SMTPD.Verify.Deadline,
		VerifySender: mail.Address(c.SMTPD.Verify.Sender), VerifyRejectReason: c.SMTPD.Verify.RejectReason, VerifyDeferReason: c.SMTPD.Verify.DeferReason, Addresses: c.addresses(),
		FudgeFactor:    max(c.Queue.FudgeFactor, 1), // 0 is the default there; one recipient is always read
		RoutesBySender: len(c.SenderRoutes)+len(c.RouteFiles.senderRoutes) > 0,
		DoubleBounce:   c.Reports.DoubleBounce, TransportRetryTime: c.Retry.TransportRetry,
		Backoff: backoff.Config{
			MinimalBackoffTime: c.Retry.MinimalBackoff, MaximalBackoffTime: c.Retry.MaximalBackoff,
			JitterPercent:        orNone(c.Retry.JitterPercent),
			MaximalQueueLifetime: orNone(c.Retry.MaximalLifetime), BounceQueueLifetime: orNone(c.Retry.BounceLifetime),
			DelayWarningTime: c.Retry.DelayWarningTime,
		},
		DefaultTransport: c.Defaults.limits(), Destinations: c.Shapes(), Shares: c.shares(), Sources: c.sources(), Warmup: c.warmup(),
		Transports: make(map[string]qmgr.TransportConfig, len(c.Transports)),
	}
	for name, t := range c.Transports {
		limits := t.limits()
		if t.Type.connects() {
			limits.Agents = qmgr.AgentsConnections
		}
		q.Transports[name] = limits
	}
	return driver.Config{Qmgr: q, Grace: orNone(c.ShutdownTime), FlowDelay: orNone(c.Queue.InFlowDelay), Readers: c.Spooling.Readers}
}

// limits returns the transport's part of the core's configuration.
func (t Transport) limits() qmgr.TransportConfig {
	c := t.TransportConfig
	c.Connections.Initial = c.Window.Initial
	return c
}

// Inbound returns the configuration of package inbound.
func (c *Config) Inbound() inbound.Config {
	s := c.SMTPD
	return inbound.Config{
		Session: server.Config{
			Hostname: c.Hostname, Banner: s.Banner,
			SizeLimit: orNone(s.MessageSizeLimit), RecipientLimit: orNone(s.RecipientLimit), RecipientOvershoot: s.RecipientOvershoot,
			TextLineLimit: int(s.LineLengthLimit), HeaderLimit: int(s.HeaderSizeLimit), HopLimit: s.HopcountLimit, OwnHopLimit: s.OwnHopcountLimit,
			SoftErrorLimit: s.SoftErrorLimit, ErrorDelay: s.ErrorSleepTime, HardErrorLimit: s.HardErrorLimit, JunkLimit: s.JunkCommandLimit,
			LenientPaths: !s.StrictEnvelopes, Underscores: s.PermitUnderscores, LocalPartLimit: s.LocalPartLimit,
			ShowUser: c.Logins.ShowUser,
		},
		NormalizeNetworks: s.NormalizeNetworks, RefuseNetworks: s.RefuseNetworks,
		ConnectionLimit: s.ConnectionLimit, ClientConnectionLimit: orNone(s.ClientConnectionLimit),
		PrefixConnectionLimit: orNone(s.PrefixConnectionLimit), IPv4PrefixLength: s.IPv4PrefixLength, IPv6PrefixLength: s.IPv6PrefixLength,
		LimitExceptions: s.LimitExceptions,
		CommandTimeout:  s.Timeout, StressTimeout: s.StressTimeout, DataRate: s.MinDataRate, TransactionTimeout: s.TransactionTime,
		GreetPause: s.GreetPause, HandshakeTimeout: s.HandshakeTime, HandshakeLimit: s.HandshakeLimit,
		Auth: c.logins(),
	}
}

// RelayPolicy returns the configuration of inbound's relay policy.
func (c *Config) RelayPolicy() inbound.RelayConfig {
	return inbound.RelayConfig{
		Networks: c.MyNetworks, RelayDomains: c.RelayDomains, AllowLiterals: c.Relay.AddressLiterals,
		AllowUnqualified: c.Relay.UnqualifiedDomains, AllowRouting: c.Relay.RoutedAddresses, SenderLogins: c.senderLogins(),
	}
}

// Outbound returns the configuration of package outbound: all transports of
// type smtp and lmtp.
func (c *Config) Outbound() outbound.Config {
	all := make(map[string]outbound.TransportConfig)
	for name, t := range c.Transports {
		if t.Type.connects() {
			all[name] = t.settings()
		}
	}
	return outbound.Config{
		Hello: c.helo(), Self: c.Hostname, AllowSelf: !c.LoopCheck, Own: c.own(),
		Trusted: c.trusted(), Transports: all, Sources: c.sourceAddresses(),
	}
}

func (c *Config) helo() string {
	if c.HeloName != "" {
		return c.HeloName
	}
	return c.Hostname
}

func (t Transport) settings() outbound.TransportConfig {
	c := t.SMTP.TransportConfig
	c.LMTP, c.FallbackRelays = t.Type == TypeLMTP, t.fallbackRelays()
	return c
}

func (t Transport) fallbackRelays() []string {
	if t.Type == TypeLMTP {
		return canonicalNexthops(lmtpNexthops(t.SMTP.FallbackRelay))
	}
	return canonicalNexthops(t.SMTP.FallbackRelay)
}

// canonicalNexthops splits a list of nexthops, which has been validated before.
func canonicalNexthops(list string) []string {
	parsed, err := route.ParseNexthops(list)
	if err != nil {
		return nil // empty
	}
	all := make([]string, len(parsed))
	for i, n := range parsed {
		all[i] = n.String()
	}
	return all
}

// own returns the addresses at which mail for this program arrives.
func (c *Config) own() []netip.AddrPort {
	var all []netip.AddrPort
	for _, one := range c.AllListeners() {
		l := one.Address.TCP
		if l.Port() == 0 {
			continue // not known yet, or a unix socket
		}
		addresses := []netip.Addr{l.Addr()}
		if l.Addr().IsUnspecified() {
			addresses = c.env.Addresses
		}
		for _, a := range slices.Concat(addresses, c.ProxyInterfaces) {
			if one := netip.AddrPortFrom(a, l.Port()); !slices.Contains(all, one) {
				all = append(all, one)
			}
		}
	}
	return all
}

// Route returns the configuration of package route's table.
func (c *Config) Route() route.Config {
	r := route.Config{
		Hostname: c.Hostname, Postmaster: mail.Address(c.Postmaster), DefaultTransport: c.DefaultTransport, Relayhost: c.RelayHost,
	}
	if c.RelayHost == "" {
		r.DefaultTransport = c.withNexthop(c.DefaultTransport)
	} else if c.typeOf(c.DefaultTransport) == TypeLMTP {
		r.Relayhost = lmtpNexthops(c.RelayHost)
	}
	for _, one := range slices.Concat(c.Routes, c.RouteFiles.routes) {
		r.Rules = append(r.Rules, one.Pattern+" "+c.withNexthop(one.Target))
	}
	for _, one := range slices.Concat(c.SenderRoutes, c.RouteFiles.senderRoutes) {
		r.SenderRules = append(r.SenderRules, one.Pattern+" "+c.withNexthop(one.Target))
	}
	return r
}

// withNexthop adds the transport's own nexthop to a target without one. The nexthops of
// LMTP become those of hosts.
func (c *Config) withNexthop(target string) string {
	name, nexthop, _ := strings.Cut(target, ":")
	nexthop = strings.TrimSpace(nexthop)
	if t := c.Transports[name]; t.Nexthop != "" && nexthop == "" {
		nexthop = t.Nexthop
		target = name + ":" + nexthop
	}
	if nexthop != "" && c.typeOf(target) == TypeLMTP {
		return name + ":" + lmtpNexthops(nexthop)
	}
	return target
}

// typeOf returns the type of the transport of a target. A target that begins with the
// colon is one of the default transport.
func (c *Config) typeOf(target string) TransportType {
	name, _, _ := strings.Cut(target, ":")
	if name == "" {
		name, _, _ = strings.Cut(c.DefaultTransport, ":")
	}
	return c.Transports[name].Type
}

// Resolve returns the configuration of package resolve.
func (c *Config) Resolve() resolve.Config {
	r := c.DNS.Config
	r.NoStale, r.Policy, r.Trusted = r.StaleMax == 0, c.policy(), c.trusted()
	return r
}

// Router returns the configuration of package resolve's router.
func (c *Config) Router() resolve.RouterConfig {
	r := resolve.RouterConfig{Transports: make(map[string]resolve.Lookups), Security: c.securityTable(), VerdictEntries: c.DNS.CacheEntries,
		VerdictPositive: c.SMTPD.Verify.PositiveTime, VerdictNegative: c.SMTPD.Verify.NegativeTime}
	for name, t := range c.Transports {
		if t.Type.connects() {
			r.Transports[name] = resolve.Lookups{Sites: t.SMTP.SiteRollup, Fallback: t.SMTP.FallbackRelay != "", Unrequired: !t.SMTP.RequireTLS || t.Type == TypeLMTP}
		}
	}
	return r
}

// policy returns the widest limits of all transports; package outbound applies
// those of each transport afterwards.
func (c *Config) policy() route.Policy {
	p := route.Policy{
		Self:     route.Self{Names: c.names(), Listeners: c.own()},
		Families: c.InetProtocols, HostsMax: c.DNS.HostLimit,
	}
	for _, t := range c.Transports {
		if !t.Type.connects() {
			continue
		}
		if t.SMTP.PermitPrivateHosts {
			p.Reach = route.ReachPrivate
		}
		most := t.SMTP.MXAddressLimit
		if most < 0 {
			most = math.MaxInt16 // more than any DNS response can contain
		}
		p.AddressesMax = max(p.AddressesMax, most)
	}
	return p
}

func (c *Config) names() []string {
	names := []string{strings.ToLower(c.Hostname)}
	if helo := strings.ToLower(c.helo()); helo != names[0] {
		names = append(names, helo)
	}
	return names
}

// trusted returns the nexthops that the operator configured.
func (c *Config) trusted() []string {
	var all []string
	if table, err := route.NewTable(c.Route()); err == nil { // checkPackages reports errors
		all = table.Nexthops()
	}
	for _, t := range c.Transports {
		if t.Type.connects() {
			all = append(all, t.fallbackRelays()...)
		}
	}
	slices.Sort(all)
	return slices.Compact(all)
}

// Report returns the configuration of package report. It always has the recipient
// of double bounces: whether there are any is decided by the core, which unlike
// the reporter accepts a new configuration while it runs.
func (c *Config) Report() report.Config {
	r := report.Config{
		Hostname: c.Hostname, Postmaster: mail.Address(c.Postmaster), Footer: c.Reports.Footer,
		ReturnMax: int(c.Reports.SizeLimit), RecipientsMax: c.Reports.RecipientLimit, Lifetime: c.Retry.MaximalLifetime,
		DoubleBounceTo: mail.Address(c.Reports.DoubleBounceTo),
	}
	if r.DoubleBounceTo == "" {
		r.DoubleBounceTo = r.WithDefaults().Postmaster
	}
	return r
}

// validateAll has every package validate its configuration.
func (c *Config) validateAll() []error {
	_, relay := inbound.NewRelayPolicy(c.RelayPolicy())
	var all []error
	for _, l := range c.AllListeners() {
		t := c.Terms(&l)
		if err := t.Validate(); err != nil {
			all = append(all, err)
		}
	}
	for _, err := range []error{
		c.Spool().Validate(), c.FastFlush.WithDefaults().Validate(), c.Driver().WithDefaults().Validate(), c.Inbound().WithDefaults().Validate(), relay,
		c.Outbound().WithDefaults().Validate(), c.Route().Validate(), c.Resolve().Validate(), c.Flows().WithDefaults().Validate(), c.Report().WithDefaults().Validate(), c.rewriting().WithDefaults().Validate(), c.Pipe().WithDefaults().Validate(),
	} {
		if err != nil {
			all = append(all, err)
		}
	}
	for _, one := range c.headers() {
		if _, err := header.Compile(one.Config); err != nil {
			all = append(all, err)
		}
	}
	return append(all, c.validateKeys()...)
}
