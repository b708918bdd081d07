package config

import (
	"bytes"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"reflect"
	"strings"
	"testing"

	"github.com/pelletier/go-toml/v2"

	"github.com/posthaste-mta/posthaste/internal/golden"
)

var testEnvironment = Environment{Hostname: "host.example.com"}

func mustParse(t testing.TB, text string) *Config {
	t.Helper()
	c, err := Parse("test.toml", []byte(text), testEnvironment)
	if err != nil {
		t.Fatalf("%v\nin\n%s", err, text)
	}
	return c
}

func shown(t testing.TB, c *Config, onlyChanged, asJSON bool) string {
	t.Helper()
	var b bytes.Buffer
	if err := c.Show(&b, onlyChanged, asJSON); err != nil {
		t.Fatal(err)
	}
	return b.String()
}

const sample = `
myhostname = "mail.example.com"
listen = [":25", "[::1]:587"]
mynetworks = "127.0.0.0/8 [2001:db8::]/32, 192.0.2.7"
message_size_limit = "20M"
maximal_queue_lifetime = 3
minimal_backoff_time = 300
backoff_jitter = "25%"
default_destination_concurrency_positive_feedback = 0.5
default_process_limit = 100
bounce_footer = "first line\nsecond \"line\""
spool.sync_interval = "300us"

[transport.bulk]
process_limit = 200
destination_concurrency_limit = 0
destination_concurrency_negative_feedback = "1/concurrency"
connect_timeout = "1m30s"
nexthop = "[out.example.net]:587"

[destination.provider]
mx = ".mail.example.net, MX*.example.org"
domains = ["Münz.example"]
networks = "192.0.2.7"
destination_rate = ["5000/h", "10/s"]
destination_concurrency_limit = 0
pipelining = "stream"

[transport.sink]
type = "discard"

[transport.error]
process_limit = 5

[transport.plain]

[routes]
"example.com" = "bulk:"
".example.com" = "smtp:[mail.example.net]:587"
"*" = "sink:"

[log]
level = "debug"
`

// All values, and those that the file changed, in both formats. An operator compares
// the short form with the file.
func TestShow(t *testing.T) {
	c := mustParse(t, sample)
	golden.File(t, "testdata/show-all.txt", shown(t, c, false, false))
	golden.File(t, "testdata/show-changed.txt", shown(t, c, true, false))
	golden.File(t, "testdata/show-changed.json", shown(t, c, true, true))
	if got := shown(t, Default(testEnvironment), true, false); got != "" {
		t.Errorf("the defaults differ from the defaults:\n%s", got)
	}
}

// JSON and TOML have the same content, so that a program may read either.
func TestShowJSON(t *testing.T) {
	for _, onlyChanged := range []bool{false, true} {
		c := mustParse(t, sample)
		var fromJSON, fromTOML map[string]any
		if err := json.Unmarshal([]byte(shown(t, c, onlyChanged, true)), &fromJSON); err != nil {
			t.Fatal(err)
		}
		if err := toml.Unmarshal([]byte(shown(t, c, onlyChanged, false)), &fromTOML); err != nil {
			t.Fatal(err)
		}
		again, err := json.Marshal(fromTOML) // numbers become floats, as in the other
		if err != nil {
			t.Fatal(err)
		}
		fromTOML = nil
		if err := json.Unmarshal(again, &fromTOML); err != nil {
			t.Fatal(err)
		}
		if !reflect.DeepEqual(fromJSON, fromTOML) {
			t.Errorf("onlyChanged %v: JSON has\n%v\nTOML has\n%v", onlyChanged, fromJSON, fromTOML)
		}
	}
}

// Every configuration can be written and read again: operators keep the output of
// config show.
func TestRoundTrip(t *testing.T) {
	t.Parallel()
	rng := rand.New(rand.NewPCG(1, 2))
	for i := range min(golden.Runs(30), 300) {
		text := randomFile(rng)
		c, err := Parse("random.toml", []byte(text), testEnvironment)
		if err != nil {
			t.Fatalf("file %d: %v\n%s", i, err, text)
		}
		for _, onlyChanged := range []bool{false, true} {
			written := shown(t, c, onlyChanged, false)
			again, err := Parse("again.toml", []byte(written), testEnvironment)
			if err != nil {
				t.Fatalf("file %d, onlyChanged %v: %v\n%s", i, onlyChanged, err, written)
			}
			if changes := Diff(c, again); len(changes) > 0 {
				t.Fatalf("file %d, onlyChanged %v: changed on the way: %v\n%s", i, onlyChanged, changes, written)
			}
			if onlyChanged && shown(t, again, true, false) != written {
				t.Fatalf("file %d: what was changed has changed:\n%s\nwas\n%s", i, shown(t, again, true, false), written)
			}
		}
		checkMapped(t, c)
	}
}

// samples returns valid values for every kind of parameter, by the kind's name.
func samples(p Parameter) []string {
	if p.Table == tableWarmup {
		switch p.Name {
		case "allowances":
			return nil // not together with others
		case "start":
			return []string{"7", "100"}
		}
		return []string{"21", "22"}
	}
	if p.Table == tableDKIM {
		switch p.Name {
		case "domain":
			return []string{`["a.example", "*.A.example"]`, `"b.example, .b.example"`}
		case "selector":
			return []string{`"s1"`, `"s2.sub"`}
		case "valid_from":
			return []string{`""`, "2026-11-23"}
		case "valid_until":
			return []string{"2027-11-23", `"2028-01-01"`}
		case "tenant":
			return []string{`["a", "b"]`, `"a"`}
		}
	}
	if p.Table == tableReplyRule {
		switch p.Name {
		case "concurrency", "for", "class", "backoff", "suspend", "suspend_first", "recipient_domains", "in_a_row":
			return nil // right only together with others
		case "sender_domains", "tenants", "recipients":
			return []string{"3", "0xf"}
		case "receiver":
			return []string{`[".a.example", "MX.b.example"]`}
		case "code":
			return []string{`["421", "55x"]`, `"4xx"`}
		case "status":
			return []string{`["4.7.28", "x.1.x"]`}
		case "words":
			return []string{`["too many, Connections"]`}
		case "text":
			return []string{`'^a+ \d$'`}
		case "transport":
			return []string{`["smtp"]`}
		case "result":
			return []string{`"permanent"`, `"temporary"`}
		case "rate":
			return []string{`"10/min"`}
		}
	}
	if p.Table == tableCertificate {
		return nil // right only together with the other
	}
	if p.Table == tableMilter {
		switch p.Name {
		case "name", "daemon_name":
			return []string{`"mail-filter"`}
		case "address":
			return []string{`"unix:/run/f.sock"`, `"inet:[::1]:8891"`}
		case "listener":
			return []string{`[]`}
		case "purpose":
			return []string{`["relay", "submission"]`}
		}
	}
	if p.Table == tableFeedback && p.Name == "verp_tags" || p.Table == tableVERP && p.Name == "tags" {
		return []string{map[string]string{"verp_tags": `"no"`, "tags": "false"}[p.Name]} // without verp_secret_file
	}
	if p.Table == tableHeaderRule {
		switch p.Name {
		case "match":
			return []string{`"^x"`}
		case "field":
			return []string{`"X-A"`, `"X-B"`}
		case "listener":
			return []string{`["submission_socket"]`}
		}
		return nil // right only together with others
	}
	if p.Table == tableListener {
		switch p.Name {
		case "address", "complete_domain", "group", "tls", "purpose":
			return nil // right only together with others
		case "name":
			return []string{`"a"`, `"b"`}
		case "proxy_networks", "xclient_networks", "xforward_networks":
			return []string{`["10.0.0.0/8"]`}
		}
	}
	switch p.Name {
	case "mt_priority_max", "min_mt_priority":
		return []string{"1", "9"}
	case "max_mt_priority":
		return []string{"-1", "-9"}
	case "minimal_backoff_time":
		return []string{"300", `"1m"`}
	case "smtpd_soft_error_limit":
		return []string{"5", "20"}
	case "positive_ttl_min", "negative_ttl_min", "failure_time_min":
		return []string{"10", `"20s"`}
	case "positive_ttl_max", "negative_ttl_max", "failure_time_max":
		return []string{`"1m"`, `"1m30s"`}
	case "smtp_tls_security_level", "tls_security_level":
		return []string{`"none"`, `"may"`, `"dane"`}
	case "tls_ca_file", "smtp_tls_ca_file", "tls_cert_file", "smtp_tls_cert_file", "tls_key_file", "smtp_tls_key_file":
		return []string{`""`, `"/etc/tls/cert.pem"`}
	case "verp_secret_file":
		return []string{`""`, `"systemd:verp"`, `"/etc/x y"`}
	case "credentials":
		return []string{`""`, `"systemd:smtp"`, `"/etc/x y"`}
	case "smtp_tls_wrappermode", "tls_wrappermode", "smtp_tls_match", "tls_match", "smtp_tls_fingerprints", "tls_fingerprints":
		return nil // right only together with others
	case "delay_warning_time", "smtpd_greet_pause", "2bounce_notice_recipient", "max_share", "priority", "address", "sources":
		return nil // right only together with others
	case "maximal_backoff_time":
		return []string{`"2h"`, `"301s"`}
	case "cache_size", "queue_minfree":
		return []string{`"8M"`}
	case "readers":
		return []string{"8"}
	case "smtp_pipelining_in_flight", "pipelining_in_flight":
		return []string{"2", "16"}
	case "smtpd_client_ipv4_prefix_length", "smtpd_client_ipv6_prefix_length":
		return []string{"32", "16"}
	case "attempts":
		return []string{"0", "3"}
	case "default_delivery_slot_cost", "delivery_slot_cost":
		return []string{"0", "7"}
	case "acme_names":
		return []string{`["mail.a.example"]`, `"a.example b.example"`}
	case "acme_directory":
		return []string{`"https://acme.a.example/dir"`}
	case "acme_ca_file":
		return []string{`""`, `"/etc/ca.pem"`}
	case "acme_addresses", "admin_listen":
		return []string{`[":80"]`, `"192.0.2.1:443"`}
	case "sync_interval":
		return []string{`"250us"`, "0"}
	case "inline_limit":
		return []string{`"1K"`, "1048576"}
	case "memtables", "memtable_size":
		return []string{map[string]string{"memtables": "3", "memtable_size": `"64M"`}[p.Name]}
	case "warmup":
		return []string{`""`, `"conservative"`, `"fast"`}
	case "warmup_start":
		return nil
	case "admin_socket", "submission_socket":
		return []string{`"/run/` + p.Name + `"`, `""`}
	case "type":
		return []string{`"smtp"`}
	case "users", "admin_tokens":
		return []string{`"/etc/posthaste/users"`, `"/tmp/x y"`}
	case "auth":
		return []string{`"off"`}
	case "command_directory":
		return []string{`"/tmp"`}
	case "listener":
		return []string{`":587"`, `["submission_socket", "192.0.2.1:25"]`}
	case "route":
		return []string{`["smtp:"]`, `"*:.b.example relay"`}
	case "default_transport":
		return []string{`"relay"`, `"smtp:example.net"`}
	}
	switch p.Type {
	case "path":
		return []string{`"/tmp/x y"`, `'it is \'`}
	case "group":
		return []string{`""`, `"mail"`, `"8"`}
	case "domain name":
		return []string{`"a.example"`}
	case "time":
		return []string{"7", `"8s"`}
	case "size":
		return []string{"65537", `"512K"`}
	case "whole number":
		return []string{"101", "1_000", "0x80"}
	case "percentage":
		return []string{"0", "100", `"33%"`}
	case "switch":
		return []string{"true", "false"}
	case "feedback":
		return []string{"0", "1", "0.25", `"1/8"`, `"1/concurrency"`, `"0.5/sqrt_concurrency"`}
	case "text", "name", "contact":
		return []string{`"some text"`, `'\ " #'`}
	case "nexthop":
		return []string{`"[a.example]:26"`, `"a.example, [192.0.2.1]"`, `""`}
	case "mail address":
		return []string{`"root@a.example"`}
	case "IP address":
		return []string{`"192.0.2.9"`}
	case "word":
		return []string{`"` + strings.Fields(strings.NewReplacer(",", "", " or ", " ").Replace(p.Allowed))[1] + `"`}
	case "list of networks":
		return []string{`[]`, `["10.0.0.0/8"]`, `"[2001:db8::]/32 192.0.2.1"`}
	case "rate":
		return []string{`""`, `"10/s, 5000/h"`, `["7/min", "1/s"]`}
	case "list of patterns":
		return []string{`[".mx.example", "MX*.a.example"]`, `"mx.example"`}
	case "list of domains":
		if p.Name == "masquerade_domains" || p.Name == "user_domains" || p.Name == "exclude" {
			return []string{`["a.example", "b.example"]`}
		}
		return []string{`["a.example", ".b.example"]`}
	case "list of addresses":
		if p.Table == tableFeedback {
			return []string{`["bounces@example.com", "@b.example.com"]`, `"bounces@example.com, fbl@example.com"`}
		}
		if p.Name == "listen" || p.Name == "metrics_listen" {
			return []string{`[":25"]`, `"127.0.0.1:2525, [::1]:2525"`}
		}
		return []string{`["192.0.2.53"]`, `"[2001:db8::53]:5353"`}
	case "list of fingerprints":
		return []string{`[]`, `"` + strings.Repeat("AB:", 31) + `ab"`, `["/etc/clients", "` + strings.Repeat("0a", 32) + `"]`}
	case "flow key":
		return []string{`"header:X-Campaign"`, `"none"`, `"sender-domain"`}
	case "list of header fields":
		return []string{`["X-Campaign", "Precedence: bulk"]`, `"Feedback-ID: *:x, y"`}
	case "list of files":
		return []string{`["/etc/posthaste/routes"]`, `"/etc/a, /etc/b"`}
	case "list of maps":
		return []string{`["/etc/canonical", "regexp:/etc/expressions"]`, `"/etc/a, /etc/b"`}
	case "characters":
		return []string{`"+-=/"`}
	case "tenant":
		return []string{`""`, `"a"`}
	case "two characters":
		return []string{`"-="`, `"=="`}
	case "character":
		return []string{`"-"`, `"+"`}
	case "list of classes":
		if p.Name != "class" {
			return []string{`["header_sender"]`, `"envelope_sender header_recipient"`}
		}
		return []string{`["bulk"]`, `"normal bulk"`}
	case "list of senders with their users":
		return []string{`["*@a.example {sender}", "info@a.example jane joe"]`, `[".a.example *"]`}
	case "list of mechanisms":
		return []string{`["PLAIN"]`, `["SCRAM-SHA-256", "LOGIN"]`}
	case "list of users":
		if p.Name == "masquerade_exceptions" {
			return []string{`["root"]`, `"root, jane"`}
		}
		return []string{`["jane", "uid:33"]`, `"uid:0 jane"`}
	case "list of stages":
		return []string{`["mail", "greeting"]`}
	case "list of texts":
		return []string{`["/bin/cat", "${sender} \"", "$$"]`}
	case "flags":
		return []string{`"RF."`, `">qhB"`}
	case "user":
		return []string{`"vmail"`, `"vmail:mail"`}
	case "list of variables":
		return []string{`["HOME=/x y", "A="]`}
	case "list of IP addresses":
		return []string{`["192.0.2.4", "2001:db8::4"]`}
	}
	panic("no samples for type " + p.Type)
}

// randomFile returns a valid file that sets about a third of all parameters.
func randomFile(rng *rand.Rand) string {
	tables := map[string]*strings.Builder{}
	table := func(name string) *strings.Builder {
		if tables[name] == nil {
			tables[name] = &strings.Builder{}
		}
		return tables[name]
	}
	names := []string{"bulk", "smtp", "relay", "9"}
	for _, p := range Parameters() {
		values := samples(p)
		if len(values) == 0 || rng.IntN(3) > 0 {
			continue
		}
		to := p.Table
		switch to {
		case tableTransport:
			to = tableTransport + "." + names[rng.IntN(len(names))]
			if ofPrograms(p.Name) {
				to = tableTransport + ".program"
				switch {
				case tables[to] == nil && p.Name != "command":
					table(to).WriteString("type = \"pipe\"\ndestination_recipient_limit = 1\ncommand = [\"/bin/cat\"]\n")
				case tables[to] == nil:
					table(to).WriteString("type = \"pipe\"\ndestination_recipient_limit = 1\n")
				case p.Name == "command":
					continue
				}
			}
		case tableDestination:
			to = tableDestination + "." + names[rng.IntN(len(names))]
			if p.Default == "[]" { // a pattern can have one destination only
				continue
			}
			if tables[to] == nil {
				fmt.Fprintf(table(to), "domains = [\".%s.example\", \"Ümlaut-%s.example\"]\n", to[len(to)-1:], to[len(to)-1:])
			}
		case tableClass:
			to = tableClass + "." + []string{"otp", "bulk", "normal", "9"}[rng.IntN(4)]
			if tables[to] == nil && rng.IntN(2) == 0 {
				table(to).WriteString("max_share = 20\npriority = \"strict\"\n")
			}
		case tableTLSReports:
			if tables[to] == nil && p.Name != "organization" {
				table(to).WriteString("organization = \"o\"\n")
			}
		case tableFeedback:
			to = fmt.Sprint(tableFeedback, " ", rng.IntN(2))
			if p.Name == "addresses" {
				continue
			}
			if tables[to] == nil {
				fmt.Fprintf(table(to), "addresses = [\"bounces@%s.example.com\"]\n", to[len(to)-1:])
			}
		case tableVERP:
			if p.Name == "sender" {
				continue // every table has it, or none after it would have an effect
			}
			to = tableVERP + "." + names[rng.IntN(len(names))]
			if tables[to] == nil {
				table(to).WriteString("sender = \"news@*\"\n")
			}
		case tableHeaderRule:
			to = fmt.Sprint(tableHeaderRule, " ", rng.IntN(2))
			if tables[to] == nil && p.Name != "field" {
				table(to).WriteString("field = \"X\"\n")
			} else if tables[to] != nil && p.Name == "field" {
				continue
			}
		case tableMilter:
			to = fmt.Sprint(tableMilter, " ", rng.IntN(2))
			if p.Name == "name" || p.Name == "address" {
				continue
			}
			if tables[to] == nil {
				fmt.Fprintf(table(to), "name = %q\naddress = \"inet:h:1\"\n", to)
			}
		case tableListener:
			to = fmt.Sprint(tableListener, " ", rng.IntN(3))
			if strings.HasSuffix(p.Name, "_networks") && to == "listener 2" {
				continue // it is a unix socket
			}
			if p.Name == "etrn" && to == "listener 1" {
				continue // it is for submission
			}
			if p.Name == "name" {
				values = []string{`"name-` + to[len(to)-1:] + `"`}
			}
			if tables[to] == nil {
				if to == "listener 1" {
					tables[tableCertificate+" 0"] = nil
					table(tableCertificate + " 0").WriteString("cert = \"/c\"\nkey = \"/k\"\n")
					table(to).WriteString("tls = \"require\"\npurpose = \"submission\"\n")
				}
				fmt.Fprintf(table(to), "address = %q\n", []string{"127.0.0.1:1", ":0", "unix:/run/x"}[to[len(to)-1]-'0'])
			}
		case tableSource:
			to = tableSource + ".a"
			if tables[to] == nil {
				table(to).WriteString("address = \"192.0.2.1 2001:db8::1\"\n")
			}
		case tableWarmup:
			to = tableWarmup + "." + names[rng.IntN(len(names))]
		case tablePool:
			to = tablePool + "." + names[rng.IntN(len(names))]
			if tables[to] == nil {
				table(to).WriteString("sources = \"s:3\"\n")
				tables[tableSource+".s"] = nil
				table(tableSource + ".s").WriteString("address = \"192.0.2.2\"\n")
			}
		case tableReplyRule:
			to = tableReplyRule + "." + names[rng.IntN(len(names))]
			if tables[to] == nil {
				table(to).WriteString("class = \"spam\"\nconcurrency = 3\nfor = \"1h\"\n" + []string{"backoff = 60\n", "suspend = \"4h\"\n", "suspend = \"until-resumed\"\n"}[rng.IntN(3)])
			}
		case tableDKIM:
			if p.Name == "domain" || p.Name == "selector" || p.Name == "key" {
				continue
			}
			name := names[rng.IntN(len(names))]
			if to = tableDKIM + "." + name; tables[to] == nil {
				fmt.Fprintf(table(to), "domain = [\"Ümlaut.example\", \".b.example\", \"*\"]\nselector = \"%s\"\nkey = \"%[1]s.pem\"\n", name)
				if p.Name != "signing_domain" {
					table(to).WriteString("signing_domain = \"Ümlaut.example\"\n")
				}
			}
		case tableTenant:
			if p.Name == "client" {
				continue
			}
			to = tableTenant + "." + names[rng.IntN(len(names))]
			if tables[to] == nil {
				table(to).WriteString("client = \"10.0.0.0/8\"\n")
			}
		}
		fmt.Fprintf(table(to), "%s = %s\n", p.Name, values[rng.IntN(len(values))])
	}
	if rng.IntN(2) == 0 {
		fmt.Fprintf(table(tableTransport+".sink"), "type = \"discard\"\nprocess_limit = 3\n")
		fmt.Fprintf(table("routes"), "\"a.example\" = \"sink:\"\n\"é@b.example\" = \"error:5.1.1 no \\\"one\\\"\"\n")
	}
	var file strings.Builder
	if top := tables[tableTop]; top != nil {
		file.WriteString(top.String())
	}
	for name, b := range tables {
		if of, _, listed := strings.Cut(name, " "); listed {
			fmt.Fprintf(&file, "[[%s]]\n%s", of, b)
		} else if name != tableTop {
			fmt.Fprintf(&file, "[%s]\n%s", name, b)
		}
	}
	return file.String()
}
