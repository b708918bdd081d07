package config

import (
	"bytes"
	_ "embed" // the example file
	"fmt"
	"strings"

	"github.com/posthaste-mta/posthaste/internal/tomlfile"
)

// Example is a configuration file that sets nothing: every parameter with its
// meaning and its default, commented out. It is generated (see the tests).
//
//go:embed posthaste.toml
var Example string

// example returns what Example should be.
func example() string {
	var b bytes.Buffer
	b.WriteString("# Configuration of Posthaste. Every parameter is here with its default; take away\n# the \"#\" in front of one to change it. \"posthaste config check\" finds mistakes.\n#\n# Times are written as \"30s\", \"5m\", \"2h30m\", \"5d\"; sizes as 10240000, \"64K\", \"10M\".\n# Parameters that stand before the first [table] belong to no table.\n")
	standard := Default(Environment{})
	for _, s := range sections {
		fmt.Fprintf(&b, "\n#\n# %s. %s\n#\n", s.title, s.intro)
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
			fmt.Fprintf(&b, "#%s = %s\n", tomlfile.QuoteKey(p.name), value)
		}
	}
	b.WriteString(exampleTransport)
	return b.String()
}

const exampleTransport = `
#
# Transports. Each has limits of its own; what it does not say it takes from the
# parameters above. smtp and relay always exist, and so do discard, error and retry.
#

#[transport.bulk]
#process_limit = 200
#destination_concurrency_limit = 5
#connect_timeout = "10s"

#
# Destinations: receivers that have limits of their own, whichever transport mail
# takes to them. What one does not say is as the transport says.
#

#[destination.provider]
#mx = [".mail.example.net", "mx*.example.org"]
#destination_concurrency_limit = 5
#destination_rate = "10/s, 20000/h"

#
# Routes: recipients that do not take the way of all others.
#

#[routes]
#"example.com" = "smtp:[mail.example.net]:587"
#".example.com" = "bulk:"
#"user@example.org" = "error:5.1.6 this user has moved"
`

// writeComment writes a text in lines of at most 80 characters.
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

// Reference returns the reference of all parameters in Markdown, which is
// docs/config.md.
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
	b.WriteString(referenceTransports)
	for _, p := range transportParameters {
		standard := describe(p, tableTransport, literal(p.plain(&standard.Defaults)))
		describeIn(&b, standard, p.global)
	}
	b.WriteString(referenceDestinations)
	for _, p := range destinationParameters {
		describeDestination(&b, p)
	}
	b.WriteString(referenceRoutes)
	return b.String()
}

// describeIn writes the entry of one parameter. One that takes its default from
// another is explained there.
func describeIn(b *bytes.Buffer, p Parameter, global string) {
	fmt.Fprintf(b, "\n### %s\n\n", p.Name)
	if global != "" {
		fmt.Fprintf(b, "As `%s`, for this transport.\n", global)
		return
	}
	fmt.Fprintf(b, "%s %s\n\n", p.Meaning, p.Change)
	standard := p.Default
	if p.Name != nameHostname {
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

// describeDestination writes the entry of a destination's parameter.
func describeDestination(b *bytes.Buffer, p parameter[Destination]) {
	if p.global != "" {
		fmt.Fprintf(b, "\n### %s\n\nAs `%s` of a transport, for these receivers.\n", p.name, p.global)
		return
	}
	describeIn(b, describe(p, tableDestination, destinationDefault(p)), "")
}

// valueOf says what values there are. How times and sizes are written is said
// once, at the head of the page.
func valueOf(p Parameter) string {
	switch p.Type {
	case "time":
		text, _, _ := strings.Cut(p.Allowed, ", such as")
		unit, _ := timeUnit(p.Unit)
		return text + "; a number alone counts in " + plural(unit)
	case "size":
		text, _, _ := strings.Cut(p.Allowed, "; a number")
		return text
	}
	return p.Allowed
}

const referenceIntro = `# Configuration

This page is generated from the program's own table of parameters: ` + "`UPDATE=1 go test ./config`" + ` writes it.

Posthaste reads one file in [TOML](https://toml.io). A parameter has the name, the default and the units that it has in
Postfix, where Postfix has it. An empty file is a good file: everything has a default.

` + "```toml" + `
myhostname = "mail.example.com"
mynetworks = ["127.0.0.0/8", "10.20.0.0/16"]
listen = [":25"]

[transport.bulk]
destination_concurrency_limit = 5

[routes]
"news.example.com" = "bulk:"
` + "```" + `

- Text stands in quotes; numbers, ` + "`true` and `false`" + ` do not.
- A **time** is written ` + "`\"30s\"`, `\"5m\"`, `\"2h30m\"`, `\"5d\"`, `\"1w\"`" + `, for short ones also ` + "`\"300us\"` or `\"20ms\"`" + `. A number alone counts in the
  parameter's own unit, as in Postfix.
- A **size** is a number of octets, or ` + "`\"64K\"`, `\"10M\"`, `\"2G\"`" + `, in steps of 1024.
- A **list** is ` + "`[\"a\", \"b\"]`, or one text with commas or spaces between its parts: `\"a, b\"`" + `.
- There are no references to other parameters (` + "`$myhostname`" + `) and no look-up tables (` + "`hash:/etc/…`" + `).
- Parameters above the first ` + "`[table]`" + ` belong to no table; those below a header belong to that table.
- What a ` + "`[transport.NAME]`" + ` says holds for this transport in place of the default of the same name. Nothing else overrides
  anything.

` + "`posthaste config check`" + ` reports all mistakes of a file at once, each with its place, what is allowed, and what was
probably meant. ` + "`posthaste config show`" + ` prints what is in force, ` + "`--changed`" + ` only what is not the default.
`

const referenceTransports = `
## Transports: [transport.NAME]

A transport is a named way to deliver, with limits of its own. Routes and ` + "`default_transport`" + ` name it. ` + "`smtp` and `relay`" + `
always exist, and so do ` + "`discard`" + ` (mail is thrown away), ` + "`error`" + ` (mail is refused) and ` + "`retry`" + ` (mail is deferred), whose
type cannot be changed. What a transport does not say it takes from the default that is named.
`

const referenceDestinations = `
## Destinations: [destination.NAME]

Limits of some receivers, in place of those of the transport that mail takes to them. The name is only for people. At least one
of ` + "`domains`, `mx` and `networks`" + ` says which receivers they are; a destination matches if one of its patterns does.

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

Where several match, each limit is taken from the most specific one that sets it: one that names the domain, then the longest
` + "`.domain`" + ` above it, then the name of an MX host, then the pattern with the most characters, then the smallest network. Mail goes
to several hosts; for the limits of a destination it is enough that one of them matches, those of a connection
(` + "`destination_host_concurrency_limit`, `connection_reuse_…`, `pipelining`" + `) are of the host that matches.
`

const referenceRoutes = `
## Routes: [routes]

Each key is a pattern for recipients, each value the transport and the nexthop of their mail, with a colon between them; "bulk:", or "bulk" alone, leaves the nexthop to the transport: its own, or the domain of the recipient.
The order does not matter: the most specific pattern counts.

| pattern | recipients |
|---|---|
| ` + "`\"user@example.com\"`" + ` | this address |
| ` + "`\"example.com\"`" + ` | addresses of this domain |
| ` + "`\".example.com\"`" + ` | addresses of the domains below it, the longest pattern first |
| ` + "`\"*\"`" + ` | all others |

| value | mail goes |
|---|---|
| ` + "`\"smtp:\"`" + ` | to the recipient's domain, by this transport |
| ` + "`\"smtp:example.net\"`" + ` | to the MX hosts of example.net |
| ` + "`\"smtp:[mail.example.net]:587\"`" + ` | to this host and port |
| ` + "`\":[10.0.0.1],[10.0.0.2]\"`" + ` | by the default transport, to the first of these that can be reached |
| ` + "`\"error:5.1.6 has moved\"`" + ` | back to its sender, with this text |
| ` + "`\"retry:4.4.1 later\"`" + ` | nowhere for now |
| ` + "`\"discard:\"`" + ` | nowhere at all |
| ` + "`\":\"`" + ` | as if there were no routes |
`
