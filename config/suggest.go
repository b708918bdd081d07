package config

import (
	"fmt"
	"slices"
	"strings"

	"github.com/posthaste-mta/posthaste/internal/near"
	"github.com/posthaste-mta/posthaste/internal/tomlfile"
)

// didYouMean returns a hint with the name that a misspelled one probably means, or
// "".
func didYouMean(name string, names []string) string {
	if guess := near.Name(name, names); guess != "" {
		return "did you mean " + tomlfile.QuoteKey(guess) + "?"
	}
	return ""
}

// suggest returns a hint for an unknown key: it may belong to another table, be a
// parameter of Postfix that has another name here, or be misspelled.
func suggest(name, table string) string {
	if table == tableTransport {
		if note, ok := foreignAttributes[name]; ok {
			return note
		}
		for _, p := range transportParameters {
			if p.global == name || "smtp_"+p.name == name {
				return fmt.Sprintf("in a transport it is called %s", p.name)
			}
		}
	}
	if table == tableDestination {
		for _, p := range transportParameters {
			if slices.Contains(namesOf(table), p.name) && (p.global == name || "smtp_"+p.name == name) {
				return fmt.Sprintf("in a destination it is called %s", p.name)
			}
		}
		if slices.Contains(namesOf(table), "destination_"+name) {
			return "in a destination it is called destination_" + name
		}
		if slices.Contains(namesOf(tableTransport), name) {
			return "this applies to a whole transport: write it under [transport.NAME]"
		}
	}
	if table != tableTop && topLevel(name) {
		return fmt.Sprintf("%s is not part of a table: set it above the first [table] of the file", tomlfile.QuoteKey(name))
	}
	// The exact name of a parameter of Postfix precedes all guesses: smtpd_tls_cert_file is not
	// smtp_tls_cert_file with a letter too many.
	if note, ok := Foreign(name); ok {
		return note
	}
	listed := slices.ContainsFunc(listedTables, func(of string) bool { return slices.Contains(namesOf(of), name) })
	if table != tableTransport && !listed {
		if hint := suggestTransport(name, namesOf(table)); hint != "" {
			return hint
		}
	}
	if table != tableDestination && slices.Contains(namesOf(tableDestination), name) {
		return "write it under [destination.NAME]"
	}
	if hint := suggestFlows(name, table); hint != "" {
		return hint
	}
	for _, s := range sections {
		for _, p := range s.parameters {
			if s.table != table && s.table != tableTop && (p.name == name || s.table+"_"+p.name == name) {
				return fmt.Sprintf("write %s under [%s]", p.name, s.table)
			}
		}
	}
	return didYouMean(name, namesOf(table))
}

// suggestFlows returns a hint for a parameter of classes, tenants, sources, pools or
// listeners in another table.
func suggestFlows(name, table string) string {
	var where []string
	for _, of := range []string{tableClass, tableTenant, tableSource, tablePool, tableWarmup, tableDKIM, tableReplyRule, tableVERP} {
		if of != table && slices.Contains(namesOf(of), name) {
			where = append(where, "["+of+".NAME]")
		}
	}
	for _, of := range listedTables {
		if of != table && slices.Contains(namesOf(of), name) {
			where = append(where, "[["+of+"]]")
		}
	}
	if len(where) == 0 {
		return ""
	}
	belongs := name + " belongs under " + strings.Join(where, " or ")
	if guess := didYouMean(name, namesOf(table)); guess != "" {
		return guess + " " + belongs
	}
	return belongs
}

func topLevel(name string) bool {
	return slices.Contains(namesOf(tableTop), name) && !slices.Contains(tableNames(), name)
}

// suggestTransport returns a hint for a transport's parameter in another table,
// under its own name or the name of Postfix's parameter for one transport, unless that
// name is nearer to one that the table has.
func suggestTransport(name string, others []string) string {
	for _, p := range transportParameters {
		if p.name == name && p.global != "" {
			return fmt.Sprintf("write %s here, or %s under [transport.NAME]", p.global, p.name)
		}
		if p.name == name {
			return "write it under [transport.NAME]"
		}
		if owner, found := strings.CutSuffix(name, "_"+p.name); found && owner != "default" && owner != "" {
			real, found := strings.CutSuffix(near.Name(name, others), "_"+p.name)
			if found && near.Name(owner, []string{real}) != "" && !slices.Contains(postfixServices, owner) {
				return didYouMean(name, others)
			}
			return fmt.Sprintf("write %s under [transport.%s]", p.name, tomlfile.QuoteKey(owner))
		}
	}
	return ""
}

// postfixServices are the names of transports in Postfix's master.cf, with which its
// parameters begin.
var postfixServices = []string{"lmtp", "local", "pipe", "relay", "uucp", "virtual"}

func tableNames() []string {
	return slices.Concat(namedTables, listedTables, []string{tableRoutes, tableSenderRoutes, tableDNS, tableTLSReports, tableSpool, tableLog})
}

// tablesInWords lists all tables as they are written in the file.
func tablesInWords() string {
	var all []string
	for _, name := range tableNames() {
		switch {
		case namesTables(name):
			name = "[" + name + ".NAME]"
		case slices.Contains(listedTables, name):
			name = "[[" + name + "]]"
		default:
			name = "[" + name + "]"
		}
		all = append(all, name)
	}
	last := len(all) - 1
	return strings.Join(all[:last], ", ") + " and " + all[last]
}

// namesOf returns the names of the parameters in a table.
func namesOf(table string) []string {
	var names []string
	switch table {
	case tableTransport:
		return appendNames(names, transportParameters)
	case tableDestination:
		return appendNames(names, destinationParameters)
	case tableClass:
		return appendNames(names, classParameters)
	case tableTenant:
		return appendNames(names, tenantParameters)
	case tableSource:
		return appendNames(names, sourceParameters)
	case tablePool:
		return appendNames(names, poolParameters)
	case tableWarmup:
		return appendNames(names, warmupParameters)
	case tableDKIM:
		return appendNames(names, dkimKeyParameters)
	case tableReplyRule:
		return appendNames(names, replyRuleParameters)
	case tableVERP:
		return appendNames(names, verpRuleParameters)
	case tableFeedback:
		return appendNames(names, feedbackParameters)
	case tableListener:
		return appendNames(names, listenerParameters)
	case tableCertificate:
		return appendNames(names, certificateParameters)
	case tableHeaderRule:
		return appendNames(names, headerRuleParameters)
	case tableMilter:
		return appendNames(names, milterParameters)
	}
	for _, s := range sections {
		if s.table != table {
			continue
		}
		names = appendNames(names, s.parameters)
	}
	if table == tableTop {
		names = append(names, tableNames()...)
	}
	return names
}

func appendNames[O any](names []string, parameters []parameter[O]) []string {
	for _, p := range parameters {
		names = append(names, p.name)
	}
	return names
}
