package config

import (
	"errors"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/posthaste-mta/posthaste/inbound"

	"github.com/posthaste-mta/posthaste/internal/tomlfile"
)

// A reload must report to the operator what changes now, and what changes only at
// the next start.
func TestDiff(t *testing.T) {
	before := mustParse(t, `
minimal_backoff_time = "300s"
default_process_limit = 50
[transport.bulk]
process_limit = 50
[transport.old]
[routes]
"a.example" = "bulk:"
"b.example" = "bulk:"
`)
	after := mustParse(t, `
listen = [":25"]
maximal_backoff_time = "2h"
minimal_backoff_time = 300
default_process_limit = 60
spool.cache_size = "1G"
[transport.bulk]
process_limit = 50
connect_timeout = "5s"
[transport."new"]
[routes]
"a.example" = "new:"
"c.example" = "bulk:"
`)
	want := []Change{
		{"listen", `["127.0.0.1:2525"]`, `["[::]:25"]`, false},
		{"maximal_backoff_time", `"4000s"`, `"2h"`, false},
		{"default_process_limit", "50", "60", false},
		{"spool.cache_size", `"32M"`, `"1G"`, true},
		{"transport.bulk.connect_timeout", `"30s"`, `"5s"`, false},
		{"transport.discard.process_limit", "50", "60", false},
		{"transport.error.process_limit", "50", "60", false},
		{"transport.feedback.process_limit", "50", "60", false},
		{"transport.lmtp.process_limit", "50", "60", false},
		{"transport.new", "", "{}", false},
		{"transport.old", "{}", "", false},
		{"transport.relay.process_limit", "50", "60", false},
		{"transport.retry.process_limit", "50", "60", false},
		{"transport.smtp.process_limit", "50", "60", false},
		{`routes."a.example"`, `"bulk:"`, `"new:"`, false},
		{`routes."b.example"`, `"bulk:"`, "", false},
		{`routes."c.example"`, "", `"bulk:"`, false},
	}
	got := Diff(before, after)
	for i := range max(len(got), len(want)) {
		if i >= len(got) || i >= len(want) || got[i] != want[i] {
			t.Errorf("change %d:\n got %v\nwant %v", i, at(got, i), at(want, i))
		}
	}
	for i, back := range Diff(after, before) {
		if i < len(got) && (back.Key != got[i].Key || back.Old != got[i].New || back.New != got[i].Old) {
			t.Errorf("backwards, change %d is %v, and forwards %v", i, back, got[i])
		}
	}
	if changes := Diff(before, before); len(changes) > 0 {
		t.Errorf("nothing differs from itself: %v", changes)
	}
}

func at(all []Change, i int) any {
	if i < len(all) {
		return all[i]
	}
	return "nothing"
}

// effects returns the parts of a configuration that the program uses: those that a
// reload applies, and those that are read only when the program starts. They must
// match what the program does.
func effects(c *Config) (reloaded, started []any) {
	d := c.Driver()
	reloaded = []any{d.Qmgr, d.FlowDelay, c.Route(), c.Resolve(), c.Outbound(), c.Pipe(), c.Router(), c.RelayPolicy(), c.FastFlush, c.Flows(), c.Quotas(), c.SMTPD.Verify.Recipients, c.AllListeners(), terms(c), c.Remote.Tokens, c.Log.Level,
		c.Keyring(), c.DKIM.Unsigned, c.Certificates, c.ACME, c.RelayClientCerts, c.Credentials, c.headers(), c.Rewriting, c.RouteFiles, c.rewriting(), c.EveryReplyRule(), c.ReplyClasses, c.Feedback, c.TLSReports, c.VERP, c.VERPRules(), milters(c)}
	started = []any{
		c.Spool(), c.Inbound(), c.Report(), c.AdminSocketPath(), c.SubmissionSocketPath(), c.AdminGroup, c.SubmissionGroup, c.Maildrop, c.Metrics,
		c.Log.Format, c.Log.File, c.Log.Size, c.Log.Age, c.Log.Keep, c.Log.Compress, d.Grace, d.Readers, c.DKIM.Concurrency, c.Remote.Listen, c.Remote.TLS,
	}
	for _, name := range bothKeys(c.Transports, nil) {
		started = append(started, c.Transports[name].Type)
	}
	return reloaded, started
}

// milters returns the milters as package inbound gets them.
func milters(c *Config) *inbound.Milters {
	set, _, err := c.MakeMilters(nil, nil)
	if err != nil {
		panic(err)
	}
	return set
}

// terms returns the listeners as package inbound gets them.
func terms(c *Config) (all []inbound.Listener) {
	for _, l := range c.AllListeners() {
		all = append(all, c.Terms(&l))
	}
	return all
}

// A parameter that no package receives is a lie, and so is one that is documented as
// reloadable but needs a restart. Each parameter is changed alone, and the
// configurations of the packages are compared.
func TestEveryParameterHasItsEffect(t *testing.T) {
	reached := make(map[string]bool)      // fields of a transport's configurations
	const both = "maximal_queue_lifetime" // in force at once; only the text of delay reports waits for the restart
	for _, p := range Parameters() {
		context, value := "", ""
		if values := samples(p); len(values) > 0 {
			value = values[len(values)-1]
		}
		switch p.Name {
		case "backoff_jitter", "qmgr_fudge_factor", "strict_rfc821_envelopes", "smtp_randomize_addresses", "randomize_addresses", "smtp_loop_check",
			"smtp_site_rollup", "site_rollup", "smtp_requiretls", "requiretls", "requiretls_enable", "tls_required_enable":
			value = samples(p)[0]
			if p.Type == "switch" {
				value = "false"
			}
		case "level", "sync_interval":
			value = map[string]string{"level": `"error"`, "sync_interval": `"250us"`}[p.Name]
		case "delay_warning_time":
			value = `"4h"`
		case "smtpd_greet_pause":
			context, value = "smtpd_forbid_unauth_pipelining = true\n", `"4s"`
		case "2bounce_notice_recipient":
			context, value = "double_bounce = \"report\"\n", `"boss@a.example"`
		case "relayhost", "smtp_fallback_relay", "fallback_relay":
			value = `"[relay.example.net]"`
		case "nexthop":
			context, value = "[routes]\n\"a.example\" = \"x:\"\n", `"[relay.example.net]"`
		case "type":
			value = `"discard"`
		case "smtp_tls_security_level", "tls_security_level":
			value = `"encrypt"`
		case "smtp_tls_wrappermode", "tls_wrappermode":
			context, value = "smtp_tls_security_level = \"encrypt\"\n", "true"
		case "smtp_tls_match":
			context, value = "smtp_tls_security_level = \"verify\"\n", `"mx.example"`
		case "priority", "max_share":
			value = map[string]string{"priority": "\"strict\"\nmax_share = 20", "max_share": "20\npriority = \"strict\""}[p.Name]
		case "dkim_directory":
			after := "[dkim.x]\ndomain = \"x.example\"\nselector = \"s\"\nkey = \"k\"\n"
			value += "\n" + after
		case "dkim_log_unsigned":
			value = `"warn"`
		default:
			if p.Type == "switch" {
				value = strconv.FormatBool(p.Default != "true")
			}
		}
		header, usual := "", "" // usual is the parameter before the change, if it has to be set
		switch p.Table {
		case tableTop:
			if p.Name == "users" || p.Name == "admin_tokens" {
				const listener = "[[listener]]\naddress = \":587\"\npurpose = \"submission\"\ntls = \"none\"\n"
				usual, value = "users = \"\"\n"+listener, "\"/etc/posthaste/users\"\n"+listener
			}
			if p.Name == "smtp_tls_fingerprints" {
				context, usual, value = "smtp_tls_security_level = \"fingerprint\"\n", "smtp_tls_fingerprints = \""+strings.Repeat("00", 32)+"\"\n", `"`+strings.Repeat("11", 32)+`"`
			}
		case tableTransport:
			header = "[transport.x]\n"
			if ofPrograms(p.Name) {
				header += "type = \"pipe\"\ndestination_recipient_limit = 1\n"
				if p.Name != "command" {
					header += "command = [\"/bin/a\"]\n"
				}
			}
			switch p.Name {
			case "command":
				usual, value = "command = [\"/bin/a\"]\n", `["/bin/b"]`
			case "command_flags":
				value = `"DR"`
			case "command_user":
				value = `"vmail"`
			case "command_environment":
				value = `["A=b"]`
			case "null_sender":
				value = `"postmaster"`
			case "tls_match":
				header, value = header+"tls_security_level = \"verify\"\n", `"mx.example"`
			case "tls_fingerprints":
				header += "tls_security_level = \"fingerprint\"\n"
				usual, value = "tls_fingerprints = \""+strings.Repeat("00", 32)+"\"\n", `"`+strings.Repeat("11", 32)+`"`
			}
		case tableDestination:
			header = "[destination.x]\nnetworks = [\"203.0.113.0/24\"]\n"
			switch p.Name {
			case "networks", "tls_security_level":
				header = "[destination.x]\ndomains = [\"a.example\"]\n"
			case "tls_match":
				header, value = "[destination.x]\ndomains = [\"a.example\"]\ntls_security_level = \"verify\"\n", `"mx.example"`
			case "tls_fingerprints":
				header = "[destination.x]\ndomains = [\"a.example\"]\ntls_security_level = \"fingerprint\"\n"
				usual, value = "tls_fingerprints = \""+strings.Repeat("00", 32)+"\"\n", `"`+strings.Repeat("11", 32)+`"`
			}
		case tableListener:
			header = "[[certificate]]\ncert = \"/c\"\nkey = \"/k\"\n[[listener]]\naddress = \":587\"\n"
			switch p.Name {
			case "address":
				header, usual, value = "[[listener]]\n", "address = \":587\"\n", `":588"`
			case "complete_domain":
				header, value = header+"purpose = \"submission\"\n", `"b.example"`
			case "auth":
				context, value = "users = \"/u\"\n", `"optional"`
			case "auth_mechanisms":
				context, value = "users = \"/u\"\n", `["PLAIN"]`
				header += "auth = \"optional\"\n"
			case "purpose", "tls":
				value = map[string]string{"purpose": `"submission"`, "tls": `"none"`}[p.Name]
			case "group":
				header, value = "[[listener]]\naddress = \"unix:/run/x\"\n", `"mail"`
			case "etrn":
				context, value = "fast_flush_domains = \"a.example\"\n", `"trusted"`
			}
		case tableMilter:
			header = "[[milter]]\nname = \"m\"\naddress = \"inet:h:1\"\n"
			switch p.Name {
			case "name":
				header, usual, value = "[[milter]]\naddress = \"inet:h:1\"\n", "name = \"m\"\n", `"n"`
			case "address":
				header, usual, value = "[[milter]]\nname = \"m\"\n", "address = \"inet:h:1\"\n", `"inet:h:2"`
			case "listener":
				header, value = "[[listener]]\nname = \"l\"\naddress = \":26\"\n"+header, `["l"]`
			case "purpose":
				value = `["submission"]`
			case "daemon_name":
				value = `"x"`
			}
		case tableHeaderRule:
			header = "[[header_rule]]\n"
			switch p.Name {
			case "field":
				usual, value = "field = \"A\"\n", `"B"`
			case "action":
				header, usual, value = "[[header_rule]]\nfield = \"A\"\nvalue = \"x\"\n", "action = \"add\"\n", `"replace"`
			case "value":
				header, usual, value = "[[header_rule]]\nfield = \"A\"\naction = \"add\"\n", "value = \"x\"\n", `"y"`
			case "match":
				header += "field = \"A\"\n"
				value = `"^x"`
			case "listener":
				header += "field = \"A\"\n"
				value = `["submission_socket"]`
			}
		case tableTLSReports:
			if header = "[tls_reports]\n"; p.Name != "organization" {
				header += "organization = \"o\"\n"
			}
		case tableFeedback:
			if header = "[feedback]\n"; p.Name != "addresses" {
				header += "addresses = [\"bounces@example.com\"]\n"
			}
			if p.Name == "verp_tags" {
				context = "verp_secret_file = \"/s\"\n"
			}
		case tableVERP:
			header, context = "[verp.x]\n", "verp_secret_file = \"/s\"\n"
			if p.Name == "tags" {
				value = "false"
			}
		case tableCertificate:
			header, usual, value = "[[certificate]]\ncert = \"/c\"\n", "key = \"/k\"\n", `"/l"`
			if p.Name == "cert" {
				header, usual = "[[certificate]]\nkey = \"/k\"\n", "cert = \"/c\"\n"
			}
		case tableClass:
			header = "[class.x]\n"
			if p.Name == "listener" {
				header = "[[listener]]\naddress = \":587\"\nname = \"b\"\n[class.x]\n"
			}
		case tableSource:
			header = "[source.x]\n"
			usual, value = "address = [\"192.0.2.1\"]\n", `["192.0.2.2"]`
			if p.Name != "address" {
				header, usual = header+usual, ""
				value = map[string]string{"ehlo": `"x.example"`, "warmup": `"fast"`, "warmup_start": "2026-11-23"}[p.Name]
			}
			if p.Name == "warmup_start" {
				header += "warmup = \"fast\"\n"
			}
		case tableWarmup:
			header = "[source.s]\naddress = [\"192.0.2.1\"]\nwarmup = \"x\"\n[warmup.x]\n"
			if p.Name == "allowances" {
				value = "[5, \"6\"]"
			}
		case tablePool:
			header = "[source.s]\naddress = [\"192.0.2.1\"]\n[pool.x]\n"
			if p.Name == "sources" {
				usual, value = "sources = [\"s\"]\n", `["s:2"]`
			} else {
				header += "sources = [\"s\"]\n"
			}
		case tableReplyRule:
			header = "[reply_rule.x]\nclass = [\"spam\"]\nbackoff = \"1h\"\n"
			value = map[string]string{"receiver": `[".a.example"]`, "code": `"421"`, "status": `"4.7.x"`, "words": `["some words"]`, "text": `"a+"`,
				"transport": `"relay"`, "stage": `"mail"`, "times": "3", "within": `"2m"`, "sender_domains": "3", "tenants": "3", "recipients": "3", "result": `"permanent"`}[p.Name]
			switch p.Name {
			case "class":
				header, usual, value = "[reply_rule.x]\nbackoff = \"1h\"\n", "class = \"spam\"\n", `"policy"`
			case "backoff":
				header, usual, value = "[reply_rule.x]\nclass = \"spam\"\n", "backoff = \"1h\"\n", `"2h"`
			case "suspend":
				header, value = "[reply_rule.x]\nclass = \"spam\"\nresult = \"permanent\"\n", `"until-resumed"`
			case "suspend_first", "recipient_domains":
				header, value = "[reply_rule.x]\nclass = \"spam\"\nsuspend = \"4h\"\n", map[string]string{"suspend_first": `"5m"`, "recipient_domains": "3"}[p.Name]
			case "in_a_row":
				header, value = header+"times = 3\n", "true"
			case "concurrency":
				header, value = header+"rate = \"1/s\"\nfor = \"1h\"\n", "3"
			case "rate":
				header, value = header+"concurrency = 2\nfor = \"1h\"\n", `"2/s"`
			case "for":
				header, usual, value = header+"concurrency = 2\n", "for = \"1h\"\n", `"2h"`
			}
		case tableDKIM:
			header = "[dkim.x]\n"
			for _, one := range []string{"domain = \"x.example\"\n", "selector = \"s\"\n", "key = \"k\"\n"} {
				if !strings.HasPrefix(one, p.Name+" ") {
					header += one
				} else {
					usual = one
				}
			}
		case tableTenant:
			header = "[tenant.x]\nclient = [\"203.0.113.0/24\"]\n"
			if p.Name == "client" {
				header = "[tenant.x]\nuser = [\"x\"]\n"
			}
		default:
			header = "[" + p.Table + "]\n"
		}
		before, after := mustParse(t, context+header+usual), mustParse(t, context+header+p.Name+" = "+value+"\n")
		reloadBefore, startBefore := effects(before)
		reloadAfter, startAfter := effects(after)
		reloaded, started := !reflect.DeepEqual(reloadBefore, reloadAfter), !reflect.DeepEqual(startBefore, startAfter)
		name := strings.TrimPrefix(p.Table+"."+p.Name, ".")
		if p.Table == tableTransport {
			old, now := before.Transports["x"], after.Transports["x"]
			differing(reached, "qmgr", reflect.ValueOf(old.limits()), reflect.ValueOf(now.limits()))
			differing(reached, "outbound", reflect.ValueOf(old.settings()), reflect.ValueOf(now.settings()))
			differing(reached, "pipe", reflect.ValueOf(old.Pipe), reflect.ValueOf(now.Pipe))
		}
		switch {
		case !reloaded && !started:
			t.Errorf("%s = %s changes nothing", name, value)
		case started != p.Restart && p.Name != both:
			t.Errorf("%s = %s: said to need a restart: %v, needs one: %v", name, value, p.Restart, started)
		}
	}
	for _, without := range []string{
		"qmgr.Agents", "outbound.LMTP", // follow from the type
		"pipe.Delimiter",           // a top-level parameter
		"qmgr.PerRecipientQueues",  // only for the comparison with Postfix
		"qmgr.Connections.Limit",   // the core sets it to process_limit
		"qmgr.Connections.NoProbe", // not for operators
	} {
		reached[without] = true
	}
	all := make(map[string]bool)
	differing(all, "qmgr", reflect.ValueOf(Transport{}.limits()), reflect.Value{})
	differing(all, "outbound", reflect.ValueOf(Transport{}.settings()), reflect.Value{})
	differing(all, "pipe", reflect.ValueOf(Transport{}.Pipe), reflect.Value{})
	for field := range all {
		if !reached[field] {
			t.Errorf("no parameter of a transport sets %s", field)
		}
	}
}

// ofPrograms reports whether only transports of type pipe have a parameter.
func ofPrograms(name string) bool {
	return slices.ContainsFunc(programs(), func(p parameter[Transport]) bool { return p.name == name })
}

// differing adds the paths of the fields that differ to a set; without b, those of
// all fields.
func differing(set map[string]bool, path string, a, b reflect.Value) {
	if a.Kind() == reflect.Struct && a.NumField() > 0 && a.Type().Field(0).IsExported() {
		for i := range a.NumField() {
			var other reflect.Value
			if b.IsValid() {
				other = b.Field(i)
			}
			differing(set, path+"."+a.Type().Field(i).Name, a.Field(i), other)
		}
		return
	}
	if !b.IsValid() || !reflect.DeepEqual(a.Interface(), b.Interface()) {
		set[path] = true
	}
}

// Load distinguishes a missing file from one with mistakes: only the second is
// EX_CONFIG.
func TestLoad(t *testing.T) {
	path := filepath.Join(t.TempDir(), "posthaste.toml")
	if _, err := Load(path, testEnvironment); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("no file: %v", err)
	}
	write := func(text string) {
		t.Helper()
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	write("\ufeffmyhostname = \"mail.example.com\"\r\nqueue_directory = \"/srv/q\"\r\nadmin_socket = \"/run/a.sock\"\r\n")
	c, err := Load(path, testEnvironment)
	if err != nil {
		t.Fatal(err)
	}
	if c.Hostname != "mail.example.com" || c.AdminSocketPath() != "/run/a.sock" || c.SubmissionSocketPath() != "/srv/q/submit.sock" {
		t.Errorf("%q %q %q", c.Hostname, c.AdminSocketPath(), c.SubmissionSocketPath())
	}
	write("nothing = 1")
	var problems *tomlfile.Problems
	if _, err := Load(path, testEnvironment); !errors.As(err, &problems) || problems.List[0].File != path {
		t.Errorf("wrong file: %v", err)
	}
	write(strings.Repeat("# no end\n", fileMax/9+1))
	if _, err := Load(path, testEnvironment); !errors.As(err, &problems) || !strings.Contains(err.Error(), "larger than 1M") {
		t.Errorf("huge file: %v", err)
	}
}

// The machine's name is used as it is, with or without a dot, unless it is not valid
// in a greeting.
func TestHostname(t *testing.T) {
	for name, want := range map[string]string{"box": "box", "mail.example.com": "mail.example.com", "": "localhost"} {
		c, err := Parse("", nil, Environment{Hostname: name})
		if err != nil || c.Hostname != want {
			t.Errorf("%q: %v %v", name, c, err)
		}
	}
	if _, err := Parse("", []byte("relayhost = \"\""), Environment{Hostname: "my_box"}); err == nil || !strings.Contains(err.Error(), "my_box") {
		t.Errorf("my_box: %v", err)
	}
	if _, err := Parse("", []byte("myhostname = \"box\""), Environment{Hostname: "my_box"}); err != nil {
		t.Errorf("my_box, with a name in the file: %v", err)
	}
}
