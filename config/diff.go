package config

import (
	"maps"
	"slices"

	"github.com/posthaste-mta/posthaste/internal/tomlfile"
)

// A Change is one difference between two configurations.
type Change struct {
	Key     string // the parameter's full name, or that of a transport's or a destination's table
	Old     string // in TOML; "" if it did not exist
	New     string // in TOML; "" if it no longer exists
	Restart bool   // whether it takes effect only when the program starts again
}

// Diff returns the changes of a reload from one configuration to another, in the
// order of the reference. Only values count: a parameter that the file now sets to
// its default has not changed.
func Diff(before, after *Config) []Change {
	var all []Change
	for _, s := range sections {
		for _, p := range s.parameters {
			if !p.equal(before, after) {
				all = append(all, Change{fullName(s.table, p.name), literal(p.plain(before)), literal(p.plain(after)), p.restart})
			}
		}
	}
	all = append(all, diffTables(tableTransport, before.Transports, after.Transports, transportParameters)...)
	all = append(all, diffTables(tableDestination, before.Destinations, after.Destinations, destinationParameters)...)
	all = append(all, diffNamed(tableClass, before.Classes, after.Classes, className, classParameters)...)
	all = append(all, diffNamed(tableTenant, before.Tenants, after.Tenants, tenantName, tenantParameters)...)
	all = append(all, diffNamed(tableSource, before.Sources, after.Sources, sourceName, sourceParameters)...)
	all = append(all, diffNamed(tableWarmup, before.WarmupPlans, after.WarmupPlans, warmupPlanName, warmupParameters)...)
	all = append(all, diffNamed(tableDKIM, before.DKIMKeys, after.DKIMKeys, dkimKeyName, dkimKeyParameters)...)
	all = append(all, diffNamed(tableReplyRule, before.ReplyRules, after.ReplyRules, replyRuleName, replyRuleParameters)...)
	all = append(all, diffNamed(tablePool, before.Pools, after.Pools, poolName, poolParameters)...)
	all = append(all, diffListed(tableListener, before.Listeners, after.Listeners, listenerName, listenerParameters)...)
	all = append(all, diffListed(tableCertificate, before.Certificates, after.Certificates, certificateFile, certificateParameters)...)
	all = append(all, diffListed(tableHeaderRule, before.HeaderRules, after.HeaderRules, headerRuleNumber, headerRuleParameters)...)
	all = append(all, diffListed(tableMilter, before.Milters, after.Milters, milterName, milterParameters)...)
	all = append(all, diffNamed(tableVERP, before.VERPTables, after.VERPTables, verpRuleName, verpRuleParameters)...)
	all = append(all, diffListed(tableFeedback, before.Feedback, after.Feedback, feedbackName, feedbackParameters)...)
	all = append(all, diffRoutes(tableRoutes, before.Routes, after.Routes)...)
	return append(all, diffRoutes(tableSenderRoutes, before.SenderRoutes, after.SenderRoutes)...)
}

// TransportKey returns the full name of a transport's parameter, as in Change.
func TransportKey(transport, parameter string) string {
	return fullName(transportTable(transport), parameter)
}

// present stands for the existence of a table that has no value of its own.
const present = "{}"

// diffTables compares the tables [of.NAME].
func diffTables[O any](of string, before, after map[string]O, parameters []parameter[O]) []Change {
	var all []Change
	for _, name := range bothKeys(before, after) {
		old, had := before[name]
		now, has := after[name]
		table := fullName(of, name)
		switch {
		case !had:
			all = append(all, Change{Key: table, New: present})
		case !has:
			all = append(all, Change{Key: table, Old: present})
		default:
			for _, p := range parameters {
				if !p.equal(&old, &now) {
					all = append(all, Change{fullName(table, p.name), literal(p.plain(&old)), literal(p.plain(&now)), p.restart})
				}
			}
		}
	}
	return all
}

func diffRoutes(table string, before, after []Route) []Change {
	old, now := targets(before), targets(after)
	var all []Change
	for _, pattern := range bothKeys(old, now) {
		if old[pattern] != now[pattern] {
			all = append(all, Change{Key: fullName(table, pattern), Old: old[pattern], New: now[pattern]})
		}
	}
	return all
}

func targets(routes []Route) map[string]string {
	all := make(map[string]string, len(routes))
	for _, r := range routes {
		all[r.Pattern] = tomlfile.QuoteText(r.Target)
	}
	return all
}

func bothKeys[V any](a, b map[string]V) []string {
	keys := slices.AppendSeq(slices.Collect(maps.Keys(a)), maps.Keys(b))
	slices.Sort(keys)
	return slices.Compact(keys)
}
