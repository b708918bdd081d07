package config

import (
	"bytes"
	"fmt"
	"strings"

	"github.com/posthaste-mta/posthaste/internal/tomlfile"
)

// example generates Example.
func example() string {
	var b bytes.Buffer
	b.WriteString("# Configuration of Posthaste. Every parameter is listed with its default; remove the\n# \"#\" in front of one to change it. \"posthaste config check\" finds mistakes.\n#\n# Times are written as \"30s\", \"5m\", \"2h30m\", \"5d\"; sizes as 10240000, \"64K\", \"10M\".\n# Parameters that belong to no table must come before the first [table].\n")
	standard := Default(Environment{})
	for _, s := range sections {
		b.WriteString("\n#\n")
		writeComment(&b, s.title+". "+s.intro)
		b.WriteString("#\n")
		if s.table != tableTop {
			fmt.Fprintf(&b, "\n#[%s]\n", s.table)
		}
		for _, p := range s.parameters {
			value := literal(p.plain(standard))
			if p.name == nameHostname {
				value = `"mail.example.com"`
			}
			b.WriteByte('\n')
			writeComment(&b, p.meaning+" "+p.change)
			if value == "0" || value == `"0s"` || value == `""` { // which says little by itself
				writeComment(&b, "Value: "+valueOf(describe(p, s.table, value))+".")
			}
			fmt.Fprintf(&b, "#%s = %s\n", tomlfile.QuoteKey(p.name), value)
		}
	}
	b.WriteString(exampleTransport)
	return b.String()
}

const exampleTransport = `
#
# Listeners. Where clients connect, each with its purpose and its limits. The short form
# is the parameter listen above; see docs/listeners.md.
#

#[[listener]]
#address = "192.0.2.1:587"
#name = "submission"
#purpose = "submission"
#message_size_limit = "50M"

#
# Certificates for TLS, chosen by the name that a client asks for; see docs/tls.md.
#

#[[certificate]]
#cert = "/etc/posthaste/mail.example.com.pem"
#key = "/etc/posthaste/mail.example.com.key"

#
# Header rules. Fields that are removed from, replaced in or added to the headers of
# messages that arrive; see docs/submission.md.
#

#[[header_rule]]
#field = "X-Originating-IP"
#listener = ["submission"]

#
# Mail filters (milters), which see messages as they arrive; see docs/milters.md.
#

#[[milter]]
#name = "opendkim"
#address = "unix:/run/opendkim/opendkim.sock"
#purpose = ["submission", "submissions"]
#non_smtpd = true

#
# Transports. Each has its own limits; those that it does not set come from the
# parameters above. smtp, relay, lmtp, discard, error and retry always exist; see
# docs/transports.md.
#

#[transport.bulk]
#process_limit = 200
#destination_concurrency_limit = 5
#connect_timeout = "10s"

#
# Destinations. Limits for certain receivers, whichever transport delivers mail to
# them. Limits that a destination does not set are those of the transport.
#

#[destination.provider]
#mx = [".mail.example.net", "mx*.example.org"]
#destination_concurrency_limit = 5
#destination_rate = "10/s, 20000/h"

#
# Classes and tenants, among which capacity is shared by weight. The first whose
# conditions a message meets applies; bulk and normal always exist.
#

#[class.otp]
#sender = ["otp@*"]
#weight = 20

#[class.bulk]
#weight = 1

#[tenant.shop]
#sender = ["shop.example", ".shop.example"]
#weight = 2

#
# Sources and pools: from which addresses of this machine mail leaves. The first pool
# whose conditions a message meets applies; see docs/sources.md.
#

#[source.a]
#address = ["192.0.2.1", "2001:db8::1"]
#ehlo = "a.mail.example.com"

#[source.b]
#address = ["192.0.2.2"]
#warmup = "slow"

#[warmup.slow]
#start = 20
#growth = 20

#[pool.bulk]
#class = ["bulk"]
#sources = ["b"]

#[pool.main]
#sources = ["a:3", "b"]

#
# Rules on what receivers reply; the first that matches counts. See docs/replies.md.
#

#[reply_rule.busy]
#receiver = [".mx.example.net"]
#class = ["rate-limited"]
#concurrency = 1
#for = "1h"

#
# Keys of DKIM signatures. "posthaste dkim keygen example.com" makes the files and
# prints these tables and the records for the DNS; see docs/dkim.md.
#

#[dkim.rsa]
#domain = ["example.com", "*.example.com"]
#selector = "202611-rsa"
#key = "example.com.202611-rsa.pem"

#[dkim.ed25519]
#domain = ["example.com", "*.example.com"]
#selector = "202611-ed25519"
#key = "example.com.202611-ed25519.pem"

#
# VERP: an envelope sender for each recipient. The first table whose conditions a message
# meets applies; see docs/verp.md.
#

#[verp.mailings]
#class = ["bulk"]
#sender = ["bounces@shop.example"]

#
# Reports that come back about mail that was sent; see docs/feedback.md.
#

#[[feedback]]
#addresses = ["bounces@shop.example", "fbl@shop.example"]
#unparsed_to = "postmaster@shop.example"

#
# Routes. Exceptions from default_transport and relayhost for certain recipients.
#

#[routes]
#"example.com" = "smtp:[mail.example.net]:587"
#".example.com" = "bulk:"
#"user@example.org" = "error:5.1.6 this user has moved"

#
# Routes by sender, for recipients without a route above.
#

#[sender_routes]
#"news.example.com" = "bulk:"
`

// writeComment writes a comment in lines of at most 80 characters.
func writeComment(b *bytes.Buffer, text string) {
	line := "#"
	for _, word := range strings.Fields(text) {
		if len(line)+1+len(word) > 80 {
			b.WriteString(line + "\n")
			line = "#"
		}
		line += " " + word
	}
	b.WriteString(line + "\n")
}

// Reference returns docs/config.md, the reference of all parameters in Markdown.
func Reference() string {
	var b bytes.Buffer
	b.WriteString(referenceIntro)
	standard := Default(Environment{})
	for _, s := range sections {
		title := s.title
		if s.table != tableTop {
			title += ": [" + s.table + "]"
		}
		fmt.Fprintf(&b, "\n## %s\n\n%s\n", title, s.intro)
		for _, p := range s.parameters {
			describeIn(&b, describe(p, s.table, literal(p.plain(standard))), "")
		}
	}
	b.WriteString(referenceListeners)
	for _, p := range listenerParameters {
		if p.global != "" {
			fmt.Fprintf(&b, "\n### %s\n\nOverrides `%s` for this listener.\n", p.name, p.global)
			continue
		}
		describeIn(&b, describe(p, tableListener, listenerDefault(p)), "")
	}
	b.WriteString(referenceCertificates)
	describeAll(&b, tableCertificate, certificateParameters, standardCertificate())
	b.WriteString(referenceHeaderRules)
	describeAll(&b, tableHeaderRule, headerRuleParameters, standardHeaderRule())
	b.WriteString(referenceMilters)
	describeAll(&b, tableMilter, milterParameters, standardMilter())
	b.WriteString(referenceTransports)
	for _, p := range transportParameters {
		standard := describe(p, tableTransport, literal(p.plain(&standard.Defaults)))
		describeIn(&b, standard, p.global)
	}
	b.WriteString(referenceDestinations)
	for _, p := range destinationParameters {
		describeDestination(&b, p)
	}
	b.WriteString(referenceClasses)
	describeAll(&b, tableClass, classParameters, standardClass(""))
	b.WriteString(referenceTenants)
	describeAll(&b, tableTenant, tenantParameters, standardTenant(""))
	b.WriteString(referenceSources)
	describeAll(&b, tableSource, sourceParameters, standardSource(""))
	b.WriteString(referencePools)
	describeAll(&b, tablePool, poolParameters, standardPool(""))
	b.WriteString(referenceWarmups)
	describeAll(&b, tableWarmup, warmupParameters, standardWarmupPlan(""))
	b.WriteString(referenceDKIM)
	describeAll(&b, tableDKIM, dkimKeyParameters, standardDKIMKey(""))
	b.WriteString(referenceReplyRules)
	describeAll(&b, tableReplyRule, replyRuleParameters, standardReplyRule(""))
	b.WriteString(referenceVERP)
	describeAll(&b, tableVERP, verpRuleParameters, standardVERPRule(""))
	b.WriteString(referenceFeedback)
	describeAll(&b, tableFeedback, feedbackParameters, standardFeedback())
	b.WriteString(referenceRoutes)
	return b.String()
}

// describeIn writes the entry of one parameter. A parameter that takes its default
// from another is explained there.
func describeIn(b *bytes.Buffer, p Parameter, global string) {
	fmt.Fprintf(b, "\n### %s\n\n", p.Name)
	if global != "" {
		fmt.Fprintf(b, "Overrides `%s` for this transport.\n", global)
		return
	}
	fmt.Fprintf(b, "%s %s\n\n", p.Meaning, p.Change)
	standard := p.Default
	if p.Name != nameHostname && p.Name != "tls" {
		standard = "`" + standard + "`"
	}
	if p.Postfix != "" {
		standard += " (Postfix: `" + p.Postfix + "`)"
	}
	fmt.Fprintf(b, "- Default: %s\n- Value: %s\n", standard, valueOf(p))
	if p.Restart {
		b.WriteString("- A change needs a restart.\n")
	}
}

// describeAll writes the entries of the parameters of a table.
func describeAll[O any](b *bytes.Buffer, table string, parameters []parameter[O], standard O) {
	for _, p := range parameters {
		describeIn(b, describe(p, table, standardText(p.plain(&standard))), "")
	}
}

// describeDestination writes the entry of a destination's parameter.
func describeDestination(b *bytes.Buffer, p parameter[Destination]) {
	if p.global != "" {
		fmt.Fprintf(b, "\n### %s\n\nOverrides the transport's `%s` for these receivers.\n", p.name, p.global)
		return
	}
	describeIn(b, describe(p, tableDestination, destinationDefault(p)), "")
}

// valueOf describes the allowed values. The syntax of times and sizes is explained
// once, at the top of the page.
func valueOf(p Parameter) string {
	switch p.Type {
	case "time":
		text, _, _ := strings.Cut(p.Allowed, ", such as")
		unit, _ := timeUnit(p.Unit)
		return text + "; a number without a unit is in " + plural(unit)
	case "size":
		text, _, _ := strings.Cut(p.Allowed, "; a number")
		return text
	}
	return p.Allowed
}

const referenceIntro = `# Configuration

This page is generated from the program's own table of parameters: ` + "`UPDATE=1 go test ./config`" + ` writes it.

Posthaste reads one file in [TOML](https://toml.io). A parameter that Postfix also has uses Postfix's name and units, and
its default unless the entry says otherwise. An empty file is valid: everything has a default.

` + "```toml" + `
myhostname = "mail.example.com"
mynetworks = ["127.0.0.0/8", "10.20.0.0/16"]
listen = [":25"]

[transport.bulk]
destination_concurrency_limit = 5

[routes]
"news.example.com" = "bulk:"
` + "```" + `

- Text is written in quotes; numbers, ` + "`true` and `false`" + ` are not.
- A **time** is written ` + "`\"30s\"`, `\"5m\"`, `\"2h30m\"`, `\"5d\"`, `\"1w\"`" + `, and short ones also ` + "`\"300us\"` or `\"20ms\"`" + `. A number without a unit
  is in the parameter's own unit, as in Postfix.
- A **size** is a number of bytes, or ` + "`\"64K\"`, `\"10M\"`, `\"2G\"`" + `, where K is 1024.
- A **list** is ` + "`[\"a\", \"b\"]`, or one text that separates its items with commas or spaces: `\"a, b\"`" + `.
- References to other parameters (` + "`$myhostname`" + `) and lookup tables (` + "`hash:/etc/…`" + `) are not supported.
- Parameters above the first ` + "`[table]`" + ` belong to no table; those below a header belong to that table.
- A parameter in ` + "`[transport.NAME]`" + ` overrides its top-level default for this transport, and one in ` + "`[destination.NAME]`" + `
  overrides the transport's for these receivers. A limit in ` + "`[[listener]]`" + ` overrides the top-level one for its clients.
  Nothing else overrides anything.

` + "`posthaste config check`" + ` reports all mistakes of a file at once, each with its position, the allowed values, and what was
probably meant. ` + "`posthaste config show`" + ` prints the effective values, and with ` + "`--changed`" + ` only those that differ from the default.
`

const referenceListeners = `
## Listeners: [[listener]]

Each table is an address at which clients connect, with its own purpose and limits; see docs/listeners.md. ` + "`listen`" + ` is the
short form for listeners that only have an address. Tables in double brackets are a list; their order does not matter.

` + "```toml" + `
[[listener]]
address = ":25"

[[listener]]
address = ":587"
name = "submission"
purpose = "submission"
recipient_limit = 100

[[certificate]]
cert = "/etc/posthaste/fullchain.pem"
key = "/etc/posthaste/privkey.pem"
` + "```" + `

A limit that a listener does not set has the value of the top-level parameter named below. A reload opens new listeners and closes
those that were removed, but does not end their sessions. The other listeners stay open, and new limits apply to clients that
connect after the reload.
`

const referenceCertificates = `
## Certificates: [[certificate]]

Each table is a certificate that listeners show to TLS clients; see docs/tls.md. The first one is also for clients that ask for no
name, or for a name that no certificate has. A reload reads all files again; if one of them cannot be used, the certificates in
force stay.
`

const referenceMilters = `
## Mail filters: [[milter]]

Each table is a mail filter (milter) that sees messages as they arrive, and may refuse, hold or change them; see
docs/milters.md. They see a message in the order of the tables. A reload applies to clients that send their first message after it.

` + "```toml" + `
[[milter]]
name = "opendkim"
address = "unix:/run/opendkim/opendkim.sock"
purpose = ["submission", "submissions"]
non_smtpd = true
on_failure = "tempfail"
` + "```" + `
`

const referenceHeaderRules = `
## Header rules: [[header_rule]]

Each table removes, replaces or adds a field in the headers of messages that arrive; see docs/submission.md. Rules are applied
in their order. A reload applies to messages that begin after it.

` + "```toml" + `
[[header_rule]]
field = "Received"
match = "\\binside\\.example\\.com\\b"
action = "remove"
listener = ["submission"]

[[header_rule]]
field = "Organization"
action = "add-missing"
value = "Example, Inc."
` + "```" + `
`

const referenceTransports = `
## Transports: [transport.NAME]

A transport is a named way to deliver mail, with its own limits. Routes and ` + "`default_transport`" + ` refer to it by name. The
transports ` + "`smtp`, `relay`, `discard`" + ` (mail is discarded), ` + "`error`" + ` (mail is refused) and ` + "`retry`" + ` (mail is deferred) always
exist; the type of the last three cannot be changed. A parameter that a transport does not set has the value of the
top-level parameter named below.
`

const referenceDestinations = `
## Destinations: [destination.NAME]

A destination replaces limits of the transport for certain receivers. Its name is only for people. At least one of
` + "`domains`, `mx` and `networks`" + ` must select the receivers; a destination matches if any of its patterns does.

` + "```toml" + `
[destination.provider]
mx = [".mail.example.net"]
destination_concurrency_limit = 10
destination_rate = "20/s, 50000/h"

[destination.careful]
domains = ["small.example"]
destination_rate = "1/s"
connection_reuse_count_limit = 5
` + "```" + `

If several destinations match, each limit comes from the most specific one that sets it: one that names the domain, then the
longest ` + "`.domain`" + ` above it, then the name of an MX host, then the pattern with the most characters, then the smallest network.
A receiver can have several hosts: for limits on the destination it is enough that one of them matches, while limits on a
connection (` + "`destination_host_concurrency_limit`, `connection_reuse_…`, `pipelining`" + `) apply only to the hosts that match.
`

const referenceClasses = `
## Classes: [class.NAME]

A class is a kind of mail. Where mail has to wait, the classes with mail share the capacity by weight. Within a class, its tenants
share the capacity in the same way, and within a tenant, its flows (docs/flows.md). A message has the class that a permitted client
names in the field ` + "`X-Posthaste-Class`" + `, or otherwise the first class in the file whose conditions it meets. It must meet one
condition of each list that is not empty.

` + "```toml" + `
[class.otp]
sender = ["otp@*"]
priority = "strict"
max_share = 20

[class.campaign]
header = ["X-Campaign", "Feedback-ID: *:shop"]
weight = 2
` + "```" + `

Two classes always exist. ` + "`bulk`" + ` has the weight 1 and, unless it is given conditions, the mail with ` + "`List-Unsubscribe`,\n`List-Id`, `Precedence: bulk` or `Precedence: list`" + ` and the mail to more than 100 recipients. ` + "`normal`" + ` has all mail that belongs
to no other class. If they are not in the file, both are tried after the other classes. Any other class without conditions has only
the mail that names it.
`

const referenceTenants = `
## Tenants: [tenant.NAME]

A tenant is a customer, or a part of your organization. A message belongs to the tenant that a permitted client names in the
field ` + "`X-Posthaste-Tenant`" + `, or otherwise to the first tenant in the file whose conditions it meets. Other mail belongs to a tenant
that is made for it: the user who submits it on this host, such as ` + "`uid:33`, `local`" + ` if it comes by TCP from this host, or
the network of the client, such as ` + "`192.0.2.0/24` or `2001:db8::/64`" + `. Such a tenant has the weight 1.
`

const referenceSources = `
## Sources: [source.NAME]

A source is one identity of this machine towards receivers. It sends the mail of the pools that name it; see docs/sources.md.
`

const referencePools = `
## Pools: [pool.NAME]

A pool is a set of sources that share mail. A message leaves from the first pool in the file whose conditions it meets: one of each
kind that is set. A pool without conditions takes all mail that remains. Mail that no pool takes leaves from
` + "`bind_address`" + `, or from the address that the system chooses.
`

const referenceWarmups = `
## Warm-up plans: [warmup.NAME]

A plan limits the number of messages per day that a source which receivers do not know yet may send to each site; see docs/warmup.md.
The plans ` + "`conservative` and `fast`" + ` always exist; a table with one of these names replaces its parameters. You can define
further plans. The defaults are those of ` + "`conservative`" + `.
`

const referenceReplyRules = `
## Rules on replies: [reply_rule.NAME]

A rule applies to refusals that meet all of its conditions; only the first rule that matches counts. Its name is in the log and in
` + "`posthaste queue hosts`" + `; see docs/replies.md.

` + "```toml" + `
[reply_rule.busy]
receiver = [".mx.example.net"]
class = ["rate-limited"]
times = 3
within = "10m"
concurrency = 1
rate = "30/min"
for = "1h"
` + "```" + `
`

const referenceDKIM = `
## Keys of signatures: [dkim.NAME]

A key signs the mail of the domains in ` + "`domain`" + `; see docs/dkim.md. Its name is only for people. If there are keys of both kinds, a
message gets one signature with RSA and one with Ed25519.

` + "```toml" + `
[dkim.rsa]
domain = ["example.com", "*.example.com"]
selector = "202611-rsa"
key = "example.com.202611-rsa.pem"

[dkim.next]
domain = ["example.com", "*.example.com"]
selector = "202705-rsa"
key = "example.com.202705-rsa.pem"
valid_from = 2027-05-01
` + "```" + `
`

const referenceVERP = `
## A sender for each recipient: [verp.NAME]

The copy for each recipient of a message that meets the conditions of a table gets an envelope sender that contains the recipient:
bounces@shop.example becomes bounces+jane=example.net@shop.example. The first table whose conditions are met applies, in the order of
the file, to mail of clients that may send anywhere; see docs/verp.md. The name of a table is only for people.

` + "```toml" + `
[verp.mailings]
class = ["bulk"]
sender = ["bounces@shop.example"]
` + "```" + `
`

const referenceFeedback = `
## Reports that come back: [[feedback]]

Bounces and complaints about mail that was sent, which are read and counted; see docs/feedback.md. A single table may also be written
in single brackets.

` + "```toml" + `
[[feedback]]
addresses = ["bounces@shop.example"]
tenant = "shop"

[[feedback]]
addresses = ["@bounces.club.example", "fbl@example.com"]
` + "```" + `
`

const referenceRoutes = `
## Routes: [routes]

Each key is a pattern for recipients. Each value is the transport and the nexthop of their mail, separated by a colon. With
` + "`\"bulk:\"`, or `\"bulk\"`" + ` alone, the nexthop is that of the transport or, if it has none, the domain of the recipient. The order of
routes does not matter: the most specific pattern wins.

| pattern | recipients |
|---|---|
| ` + "`\"user@example.com\"`" + ` | this address |
| ` + "`\"example.com\"`" + ` | addresses of this domain |
| ` + "`\".example.com\"`" + ` | addresses of the domains below it; the longest pattern wins |
| ` + "`\"/^list-.*@/\"`" + ` | addresses in which the regular expression (RE2) is found, in any case; of several, the first in the file |
| ` + "`\"*\"`" + ` | all others |

| value | where mail goes |
|---|---|
| ` + "`\"smtp:\"`" + ` | to the recipient's domain, with this transport |
| ` + "`\"smtp:example.net\"`" + ` | to the MX hosts of example.net |
| ` + "`\"smtp:[mail.example.net]:587\"`" + ` | to this host and port |
| ` + "`\":[10.0.0.1],[10.0.0.2]\"`" + ` | with the default transport, to the first of these hosts that can be reached |
| ` + "`\"error:5.1.6 has moved\"`" + ` | back to its sender, with this text |
| ` + "`\"retry:4.4.1 later\"`" + ` | it is deferred |
| ` + "`\"discard:\"`" + ` | it is thrown away |
| ` + "`\":\"`" + ` | where it would go without routes |

## Routes by sender: [sender_routes]

Each key is a pattern for envelope senders, as above; ` + "`\"<>\"`" + ` is the null sender. The values are the same. These routes are for
recipients for whom [routes] has none, or one that is ` + "`\":\"`" + `, and take the place of default_transport and relayhost: they are
sender_dependent_relayhost_maps and sender_dependent_default_transport_maps of Postfix.

` + "```toml" + `
[sender_routes]
"news.example.com" = "bulk:"
"/@.*\\.example\\.org$/" = "smtp:[relay.example.org]:587"
` + "```" + `
`
