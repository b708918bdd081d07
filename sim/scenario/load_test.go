package scenario

import (
	"errors"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"testing/fstest"
	"time"

	"github.com/posthaste-mta/posthaste/internal/tomlfile"
	"github.com/posthaste-mta/posthaste/mail"
	"github.com/posthaste-mta/posthaste/qmgr"
	"github.com/posthaste-mta/posthaste/sim"
)

// Authors of scenarios make mistakes; each of them is reported with its place and
// with what was probably meant, all of them at once. The files beside those in
// testdata/bad hold what is said; UPDATE=1 writes them anew.
func TestBadScenarios(t *testing.T) {
	files, err := filepath.Glob("testdata/bad/*.toml")
	if err != nil || len(files) < 5 {
		t.Fatal(files, err)
	}
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		_, err = Parse(filepath.Base(file), "bad", text, os.DirFS("testdata/bad"))
		var problems *tomlfile.Problems
		if !errors.As(err, &problems) {
			t.Errorf("%s: %v", file, err)
			continue
		}
		golden := strings.TrimSuffix(file, ".toml") + ".txt"
		if os.Getenv("UPDATE") != "" {
			if err := os.WriteFile(golden, []byte(problems.String()), 0o666); err != nil {
				t.Fatal(err)
			}
		}
		want, err := os.ReadFile(golden)
		if err != nil {
			t.Fatal(err)
		}
		if got := problems.String(); got != string(want) {
			t.Errorf("%s: got\n%s\nwant\n%s", file, got, want)
		}
	}
}

// Everything that a file can say arrives where it belongs.
func TestEveryKey(t *testing.T) {
	const text = `
description = "all keys"
seed = 7
until = "first round"
duration = "2h"
patience = "3h"

[disk]
commit = "1ms..2ms"
read = "exponential 3ms"

[dns]
delay = "lognormal 20ms 0.5"
ttl = "1h"
failure_percent = 0.5

[site.one]
copies = 3
transport = "relay"
connect = "1ms"
transaction = "2ms"
recipient = 3
connection_limit = 4
processes = 5
backlog = 6
overflow = "drop-ack"
retransmit = ["1s", 2]
servers = 7
bad_servers = 2
balance = "random"
bad = "silent"
greylist = "8m"
soft_percent = 9
hard_percent = 10.5
drop_percent = 11
outage = [{ from = "1m", until = "2m", fault = "drop" }]

[[site.one.change]]
at = "5m"
connection_limit = 40

[[site.one.change]]
at = "6m"
bad_servers = 0

[site.two]

[agents.relay]
outage = [{ from = "1m", until = "2m" }, { from = "3m", until = "4m" }]

[arrivals.bulk]
to = ["one", "two"]
order = "random"
recipients = "2..3"
pattern = "bursts"
from = "1s"
until = "2s"
messages = 4
burst = 5
every = "6s"
null_sender = true
poison = true
size = 1000
class = "news"
tenant = "shop"
tenants = 3
flow = "list"
flows = 4

[arrivals.rest]
to = "two"
pattern = "recorded"
records = ["500ms 2", "1s 1 one"]
file = "more.txt"

[arrivals.steady]
to = "two"
pattern = "poisson"
rate = "120/min"

[arrivals.old]
to = "two"
pattern = "backlog"
messages = 5
age = "1h..2h"
due = "0s..10m"

[config]
minimal_backoff_time = "60s"

[config.transport.smtp]
destination_concurrency_limit = 10
connection_cache_time_limit = "2s"

[[run]]
name = "first"
transport.smtp.destination_concurrency_limit = 30
reference = [{ source = "README", deferred_pct = 1.5 }]

[[run]]
flows = false
without = ["rest", "old"]
`
	s, err := Parse("all.toml", "all", []byte(text), fstest.MapFS{"more.txt": {Data: []byte("# more\n2s 5\n")}})
	if err != nil {
		t.Fatal(err)
	}
	b := sim.Behaviour{Connect: sim.Fixed(time.Millisecond), Transaction: sim.Fixed(2 * time.Millisecond), Recipient: sim.Fixed(3 * time.Second),
		ConnectionLimit: 4, Processes: 5, Backlog: 6, Overflow: sim.OverflowDropACK, Retransmit: []time.Duration{time.Second, 2 * time.Second},
		Servers: 7, BadServers: 2, Random: true, Bad: sim.FaultSilent, Greylist: 8 * time.Minute, SoftPercent: 9, HardPercent: 10.5, DropPercent: 11}
	one := s.Sites[0]
	if !sameBehaviour(one.Behaviour, b) || one.Copies != 3 || one.Transport != "relay" {
		t.Errorf("site one is %+v", one)
	}
	if !slices.Equal(one.Outages, []sim.Outage{{From: time.Minute, Until: 2 * time.Minute, Fault: sim.FaultDrop}}) {
		t.Errorf("outages %+v", one.Outages)
	}
	if !slices.Equal(s.Agents, []sim.AgentOutage{
		{Transport: "relay", From: time.Minute, Until: 2 * time.Minute}, {Transport: "relay", From: 3 * time.Minute, Until: 4 * time.Minute}}) {
		t.Errorf("agents' outages %+v", s.Agents)
	}
	later, last := b, b
	later.ConnectionLimit, last.ConnectionLimit, last.BadServers = 40, 40, 0
	if len(one.Changes) != 2 || one.Changes[0].At != 5*time.Minute || !sameBehaviour(one.Changes[0].Behaviour, later) || !sameBehaviour(one.Changes[1].Behaviour, last) {
		t.Errorf("changes %+v", one.Changes)
	}
	if s.Name != "all" || s.Seed != 7 || s.Until != sim.UntilFirstRound || s.Duration != 2*time.Hour || s.Patience != 3*time.Hour ||
		s.Disk != (sim.Disk{Commit: sim.Uniform(time.Millisecond, 2*time.Millisecond), Read: sim.Exponential(3 * time.Millisecond)}) ||
		s.DNS != (sim.DNS{Delay: sim.LogNormal(20*time.Millisecond, 0.5), TTL: time.Hour, FailurePercent: 0.5}) {
		t.Errorf("%+v", s)
	}
	a := s.Arrivals[0]
	if a.Class != "bulk" || !slices.Equal(a.To, []string{"one", "two"}) || !a.Random || a.Min != 2 || a.Max != 3 || a.Pattern != sim.PatternBursts ||
		a.From != time.Second || a.Until != 2*time.Second || a.Messages != 4 || a.Burst != 5 || a.Every != 6*time.Second || !a.NullSender || a.Size != 1000 ||
		a.Flow != (mail.Flow{Class: "news", Tenant: "shop", Flow: "list"}) || a.Tenants != 3 || a.Flows != 4 {
		t.Errorf("bulk is %+v", a)
	}
	if r := s.Arrivals[1].Records; !slices.Equal(r, []sim.Record{{At: 500 * time.Millisecond, Recipients: 2}, {At: time.Second, Recipients: 1, To: "one"}, {At: 2 * time.Second, Recipients: 5}}) {
		t.Errorf("records %+v", r)
	}
	if s.Arrivals[2].Rate != 2 || s.Arrivals[3].Age != sim.Uniform(time.Hour, 2*time.Hour) || s.Arrivals[3].Due != sim.Uniform(0, 10*time.Minute) {
		t.Errorf("steady %+v, old %+v", s.Arrivals[2], s.Arrivals[3])
	}
	checkRuns(t, s.Runs)
}

func sameBehaviour(a, b sim.Behaviour) bool {
	same := slices.Equal(a.Retransmit, b.Retransmit)
	a.Retransmit, b.Retransmit = nil, nil
	return same && a.Connect == b.Connect && a.Transaction == b.Transaction && a.Recipient == b.Recipient &&
		a.ConnectionLimit == b.ConnectionLimit && a.Processes == b.Processes && a.Backlog == b.Backlog && a.Overflow == b.Overflow &&
		a.Servers == b.Servers && a.BadServers == b.BadServers && a.Random == b.Random && a.Bad == b.Bad && a.Greylist == b.Greylist &&
		a.SoftPercent == b.SoftPercent && a.HardPercent == b.HardPercent && a.DropPercent == b.DropPercent
}

func checkRuns(t *testing.T, runs []sim.Run) {
	t.Helper()
	limit := func(r sim.Run) int { return r.Core.Transports["smtp"].Window.Limit }
	if len(runs) != 2 || runs[0].Name != "first" || runs[1].Name != "2" || limit(runs[0]) != 30 || limit(runs[1]) != 10 {
		t.Fatalf("runs %+v", runs)
	}
	for _, r := range runs {
		if r.Core.Backoff.MinimalBackoffTime != time.Minute || r.Clients["smtp"].CacheTime != 2*time.Second || r.Clients["smtp"].GreetingTimeout != 300*time.Second {
			t.Errorf("run %s: %+v, %+v", r.Name, r.Core.Backoff, r.Clients["smtp"])
		}
	}
	if p := runs[0].Parameters; !slices.Equal(p, []sim.Parameter{{Name: "transport.smtp.destination_concurrency_limit", Value: "30"}}) {
		t.Errorf("parameters %+v", p)
	}
	if r := runs[1]; runs[0].Unclassified || !r.Unclassified || runs[0].Without != nil || !slices.Equal(r.Without, []string{"rest", "old"}) ||
		!slices.Equal(r.Parameters, []sim.Parameter{{Name: "flows", Value: "false"}, {Name: "without", Value: `["rest", "old"]`}}) {
		t.Errorf("without flows and some of the mail: %+v", r)
	}
	if f := runs[0].References; len(f) != 1 || f[0].Source != "README" || f[0].DeferredPct != 1.5 || f[0].WindowMean >= 0 {
		t.Errorf("references %+v", f)
	}
	var _ qmgr.Config = runs[0].Core
}

// The text of a scenario may be anything; reading it ends with a scenario that
// can be run, or with a complaint.
func FuzzParse(f *testing.F) {
	for _, name := range Shipped() {
		text, err := Text(name)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(text)
	}
	f.Add([]byte("[site.a]\n[arrivals.b]\nto='a'\n[[run]]\nx.y.z=[[1],\n2]\n"))
	f.Fuzz(func(t *testing.T, text []byte) {
		s, err := Parse("fuzz.toml", "fuzz", text, fstest.MapFS{})
		if (s == nil) == (err == nil) {
			t.Fatalf("scenario %v, error %v", s, err)
		}
	})
}

// A transport whose agents cannot be started is tried again once in every
// transport_retry_time, and all of its mail is delivered in the end: what was
// deferred meanwhile, when it is due. No destination is blamed.
func TestAgentOutage(t *testing.T) {
	s, err := Parse("outage.toml", "outage", []byte(`
[site.a]
transaction = "100ms"
[[agents.smtp.outage]]
from = "60s"
until = "200s"
[arrivals.letters]
to = "a"
pattern = "regular"
rate = 1
until = "300s"
[config]
transport_retry_time = "50s"
backoff_jitter = 0
`), fstest.MapFS{})
	if err != nil {
		t.Fatal(err)
	}
	r, err := sim.Simulate(s, sim.Options{})
	if err != nil || r.Verdict() != sim.VerdictOK {
		t.Fatalf("%v, %+v", err, r)
	}
	run := r.Runs[0]
	// Tried at 60, 110 and 160 s without success, then at 210 s: 150 messages of
	// 300 were deferred, for 300 s each.
	if math.Abs(run.DeferredPct-50) > 1 {
		t.Errorf("%.1f %% were deferred, want half", run.DeferredPct)
	}
	if worst := run.DelayMS["letters"].Max; worst < 300_000 || worst > 310_000 {
		t.Errorf("the longest delay is %v ms, want 300 s", worst)
	}
	if run.WindowMean < 5 {
		t.Errorf("the mean window is %.1f: the destination was blamed", run.WindowMean)
	}
}

// With a rate delay of the transport no two deliveries start closer together than
// the delay, to whatever destination: each waits from the end of the one before.
func TestTransportRateDelay(t *testing.T) {
	s, err := Parse("pace.toml", "pace", []byte(`
[site.a]
copies = 3
transaction = "1s"
[arrivals.letters]
to = "a"
messages = 7
[config.transport.smtp]
transport_rate_delay = "10s"
connection_cache_time_limit = 0
`), fstest.MapFS{})
	if err != nil {
		t.Fatal(err)
	}
	r, err := sim.Simulate(s, sim.Options{})
	if err != nil || r.Verdict() != sim.VerdictOK {
		t.Fatalf("%v, %+v", err, r)
	}
	slots := r.Runs[0].Pictures.Slots
	if len(slots) != 7 {
		t.Fatalf("%d deliveries, want 7", len(slots))
	}
	for i, slot := range slots {
		if want := 10*time.Second + time.Duration(i)*11*time.Second; slot.At != want {
			t.Errorf("delivery %d starts at %v, want %v", i+1, slot.At, want)
		}
	}
}

// A name that does not exist is answered with one that does.
func TestOpenUnknown(t *testing.T) {
	if _, err := Open("readme-412"); err == nil || !strings.Contains(err.Error(), `did you mean "readme-421"?`) {
		t.Errorf("error %v", err)
	}
	if _, err := Load("testdata/nothing.toml"); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("error %v", err)
	}
}

// A host behaves as its site does where it does not say otherwise; the site's changes
// and outages are its own as well.
func TestHostsOfASite(t *testing.T) {
	s, err := Parse("hosts.toml", "hosts", []byte(`
mode = "relay"
[[outage]]
from = "1h"
until = "2h"
names = true
[site.a]
copies = 2
shared_hosts = true
transaction = "1s"
rtt = "30ms"
pipelining = "stream"
mails_per_connection = 7
announce_mails = true
idle_limit = "9s"
[[site.a.change]]
at = "10m"
transaction = "2s"
[[site.a.outage]]
from = "3m"
until = "4m"
fault = "close"
open = "break"
[[site.a.host]]
preference = 10
[[site.a.host]]
name = "backup"
copies = 3
preference = 20
rtt = "5ms"
[[site.a.host.change]]
at = "5m"
soft_percent = 50
[[site.a.host.outage]]
from = "1m"
until = "2m"
[site.b]
[arrivals.letters]
to = "a"
[config.transport.smtp]
fallback_relay = "[b.test]"
[[run]]
[[run]]
mode = "agents"
`), fstest.MapFS{})
	if err != nil {
		t.Fatal(err)
	}
	a := s.Sites[0]
	b := a.Behaviour
	if !a.SharedHosts || b.RTT != sim.Fixed(30*time.Millisecond) || b.Pipelining != mail.LevelStream || b.MailsPerConnection != 7 || !b.AnnounceMails || b.IdleLimit != 9*time.Second {
		t.Errorf("site a is %+v", a)
	}
	if len(a.Hosts) != 2 || a.Hosts[0].Name != "mx1" || a.Hosts[1].Name != "backup" || a.Hosts[1].Copies != 3 || a.Hosts[0].Preference != 10 || a.Hosts[1].Preference != 20 {
		t.Fatalf("hosts %+v", a.Hosts)
	}
	if first, backup := a.Hosts[0].Behaviour, a.Hosts[1].Behaviour; first.RTT != b.RTT || backup.RTT != sim.Fixed(5*time.Millisecond) || backup.IdleLimit != b.IdleLimit {
		t.Errorf("hosts %+v", a.Hosts)
	}
	// The backup's own change first, then the site's, which keeps what the first did.
	changes := a.Hosts[1].Changes
	if len(changes) != 2 || changes[0].At != 5*time.Minute || changes[0].Behaviour.SoftPercent != 50 ||
		changes[1].At != 10*time.Minute || changes[1].Behaviour.SoftPercent != 50 || changes[1].Behaviour.Transaction != sim.Fixed(2*time.Second) {
		t.Errorf("the backup's changes are %+v", changes)
	}
	if want := []sim.Outage{{From: 3 * time.Minute, Until: 4 * time.Minute, Fault: sim.FaultClose, Open: sim.OpenBreaks}}; !slices.Equal(a.Outages, want) {
		t.Errorf("the site's outages are %+v", a.Outages)
	}
	if want := []sim.Outage{{From: time.Hour, Until: 2 * time.Hour, Fault: sim.FaultTimeout, Open: sim.OpenHangs, Names: true}}; !slices.Equal(s.Outages, want) {
		t.Errorf("our network's outages are %+v", s.Outages)
	}
	for i, agents := range []qmgr.Agents{qmgr.AgentsConnections, qmgr.AgentsOwn} {
		if r := s.Runs[i]; r.Core.Transports["smtp"].Agents != agents || !slices.Equal(r.Fallbacks["smtp"], []string{"b.test"}) {
			t.Errorf("run %s: agents %v, fallbacks %v", r.Name, r.Core.Transports["smtp"].Agents, r.Fallbacks)
		}
	}
}
