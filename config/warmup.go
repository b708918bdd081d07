package config

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/posthaste-mta/posthaste/internal/tomlfile"
	"github.com/posthaste-mta/posthaste/qmgr/warmup"
)

// A WarmupPlan is a table [warmup.NAME].
type WarmupPlan struct {
	Name                string
	Allowances          []int // in place of Start, Growth and Days
	Start, Growth, Days int
	warmup.Limits
}

// warmupParameters is the table of the parameters of [warmup.NAME].
var warmupParameters = allWarmupParameters()

func allWarmupParameters() []parameter[WarmupPlan] {
	share := func(max int) kind[int] {
		k := integer(limit[int]{min: 1, max: max})
		k.unit = "%"
		return k
	}
	messages := integer(limit[int]{min: 1, max: 1_000_000_000})
	days := integer(limit[int]{min: 1, max: 366})
	standard := standardWarmupPlan("")
	return []parameter[WarmupPlan]{
		define("start", messages, func(p *WarmupPlan) *int { return &p.Start }, standard.Start,
			"The allowance of the plan's first day: the number of messages to one site.",
			"Raise it for an address from which the receivers have had mail before."),
		define("growth", share(900), func(p *WarmupPlan) *int { return &p.Growth }, standard.Growth,
			"The percentage by which the allowance grows from one day of the plan to the next, rounded down, but by 1 at least.",
			"Lower it if receivers defer mail while the plan advances."),
		define("days", days, func(p *WarmupPlan) *int { return &p.Days }, standard.Days,
			"The number of days of the plan, after which a site has no limit.",
			"Set it so that the last allowance is about what the source sends to its largest site."),
		define("allowances", list(quotable(messages), "whole numbers"), func(p *WarmupPlan) *[]int { return &p.Allowances }, nil,
			"The allowance of each day of the plan, in place of start, growth and days; none is smaller than the one before.",
			"Set it if a receiver or a contract names the numbers."),
		define("used", share(100), func(p *WarmupPlan) *int { return &p.UsedPercent }, standard.UsedPercent,
			"The percentage of a day's allowance that must have been delivered for the plan to advance.",
			"Lower it where the amount of mail differs much from day to day."),
		define("deferrals", share(100), func(p *WarmupPlan) *int { return &p.DeferralPercent }, standard.DeferralPercent,
			"The percentage of a day's recipients that a receiver may defer for the plan to advance.",
			"Raise it for receivers that defer all mail of an unknown sender at first."),
		define("bounces", share(100), func(p *WarmupPlan) *int { return &p.BouncePercent }, standard.BouncePercent,
			"The percentage of a day's recipients that a receiver may refuse for the plan to advance.",
			"Lower it to keep a bad list from hurting a new address."),
		define("failures", messages, func(p *WarmupPlan) *int { return &p.Failures }, standard.Failures,
			"The number of recipients that must have been deferred, or refused, for deferrals and bounces to apply.",
			"Raise it if single failures stop a small plan."),
		define("bad_days", integer(limit[int]{min: 1, max: 100}), func(p *WarmupPlan) *int { return &p.BadDays }, standard.BadDays,
			"The number of days in a row with too many deferrals or bounces after which the plan goes back by one day.",
			"Set it to 1 to react at once."),
		define("idle_days", days, func(p *WarmupPlan) *int { return &p.IdleDays }, standard.IdleDays,
			"The number of days without mail after which a site begins again.",
			"Raise it for receivers that are known to remember an address for longer."),
	}
}

// quotable is a number that may be written as text, as lists of them are shown.
func quotable(k kind[int]) kind[int] {
	read := k.read
	k.read = func(n *tomlfile.Node) (int, *flaw) {
		if plain := *n; n.Kind == tomlfile.KindText {
			plain.Kind = tomlfile.KindInteger
			if _, err := strconv.Atoi(n.Text); err == nil {
				return read(&plain)
			}
		}
		return read(n)
	}
	return k
}

// standardWarmupPlan returns a shipped plan, or the default of one with a name of its own.
func standardWarmupPlan(name string) WarmupPlan {
	plan := WarmupPlan{Name: name, Start: warmup.ConservativeStart, Growth: warmup.ConservativeGrowth, Days: warmup.ConservativeDays, Limits: warmup.Conservative().Limits}
	if fast := warmup.Fast(); name == fast.Name {
		plan = WarmupPlan{Name: name, Start: warmup.FastStart, Growth: warmup.FastGrowth, Days: warmup.FastDays, Limits: fast.Limits}
	}
	return plan
}

func warmupPlanName(p *WarmupPlan) string { return p.Name }

// plan returns the plan for the core.
func (p *WarmupPlan) plan() warmup.Plan {
	allowances := p.Allowances
	if len(allowances) == 0 {
		allowances = warmup.Grow(p.Start, p.Growth, p.Days)
	}
	return warmup.Plan{Name: p.Name, Allowances: allowances, Limits: p.Limits}
}

// warmupPlanNames returns the names of all plans.
func (c *Config) warmupPlanNames() []string {
	var names []string
	for _, p := range warmup.Plans() {
		names = append(names, p.Name)
	}
	for i := range c.WarmupPlans {
		if name := c.WarmupPlans[i].Name; !slices.Contains(names, name) {
			names = append(names, name)
		}
	}
	return names
}

// warmupPlan returns the plan of a name; the shipped one if the file has no other.
func (c *Config) warmupPlan(name string) warmup.Plan {
	for i := range c.WarmupPlans {
		if p := &c.WarmupPlans[i]; p.Name == name {
			return p.plan()
		}
	}
	shipped := standardWarmupPlan(name)
	return shipped.plan()
}

// warmup returns the sources that are warmed up for the core.
func (c *Config) warmup() warmup.Config {
	all := warmup.Config{SiteLimit: c.WarmupSiteLimit}
	for i := range c.Sources {
		if s := &c.Sources[i]; s.Warmup != "" {
			all.Sources = append(all.Sources, warmup.Source{Name: s.Name, Start: s.WarmupStart, Plan: c.warmupPlan(s.Warmup)})
		}
	}
	return all
}

// warmupPlans creates the plans that the file defines, in its order.
func (l *loader) warmupPlans(all *tomlfile.Entry) {
	loadNamed(l, tableWarmup, all, warmupParameters, standardWarmupPlan, func(t *tomlfile.Table, p WarmupPlan, whole bool) {
		l.c.WarmupPlans = append(l.c.WarmupPlans, p)
		if whole {
			l.checkWarmupPlan(t, &p)
		}
	})
}

func (l *loader) checkWarmupPlan(t *tomlfile.Table, p *WarmupPlan) {
	table := fullName(tableWarmup, p.Name)
	key := fullName(table, "allowances")
	for i := 1; i < len(p.Allowances); i++ {
		if before := p.Allowances[i-1]; p.Allowances[i] < before {
			l.src.Complain(l.places[key], tomlfile.Problem{Key: key, Message: fmt.Sprintf("the allowance %d of day %d is smaller than %d of the day before", p.Allowances[i], i+1, before)})
			return
		}
	}
	if len(p.Allowances) > 366 {
		l.src.Complain(l.places[key], tomlfile.Problem{Key: key, Message: fmt.Sprintf("a plan has at most 366 days, not %d", len(p.Allowances))})
	}
	for _, name := range []string{"start", "growth", "days"} {
		if at, given := l.places[fullName(table, name)]; given && len(p.Allowances) > 0 {
			l.src.Complain(at, tomlfile.Problem{Key: fullName(table, name), Message: name + " has no effect beside allowances", Hint: "remove one of them"})
		}
	}
}

// checkSourceWarmup complains about a plan that there is not, and about a start without a plan.
func (l *loader) checkSourceWarmup(s *Source) {
	table := fullName(tableSource, s.Name)
	names := l.c.warmupPlanNames()
	if key := fullName(table, "warmup"); s.Warmup != "" && !slices.Contains(names, s.Warmup) {
		hint := didYouMean(s.Warmup, names)
		if hint == "" {
			hint = "the plans are " + strings.Join(names, ", ") + "; add a table [warmup." + s.Warmup + "] for another one"
		}
		l.src.Complain(l.places[key], tomlfile.Problem{Key: key, Message: "there is no warm-up plan " + tomlfile.QuoteText(s.Warmup), Hint: hint})
	}
	if key := fullName(table, "warmup_start"); s.WarmupStart != 0 && s.Warmup == "" {
		l.src.Complain(l.places[key], tomlfile.Problem{Key: key, Message: "the day has no effect without a plan", Hint: `set warmup = "conservative" too`})
	}
}

// warmupPlan is the name of a plan.
func warmupPlan() kind[string] {
	return optional(text("plan", "", func(s string) (string, string) {
		if !tableName.MatchString(s) {
			return tomlfile.QuoteText(s) + " is not a name of 1 to 64 letters, digits, - and _", ""
		}
		return "", ""
	}), `for none, such as "conservative" or "fast"`)
}

// warmupStart is a date.
func warmupStart() kind[warmup.Day] {
	return kind[warmup.Day]{
		name: "date", form: `such as 2026-11-23, or "" for the first message`,
		plain: func(d warmup.Day) any {
			if d == 0 {
				return ""
			}
			return d.String()
		},
		read: func(n *tomlfile.Node) (warmup.Day, *flaw) {
			if n.Kind != tomlfile.KindTime && n.Kind != tomlfile.KindText {
				return 0, mismatch(n, "a date")
			}
			if n.Text == "" {
				return 0, nil
			}
			var numbers [3]int
			parts := strings.Split(n.Text, "-")
			for i := range min(len(parts), 3) {
				numbers[i], _ = strconv.Atoi(parts[i])
			}
			d := warmup.DayOn(numbers[0], max(1, min(numbers[1], 12)), numbers[2])
			if len(n.Text) != len("2026-11-23") || numbers[0] < 1971 || numbers[0] > 2261 || d.String() != n.Text {
				return 0, &flaw{message: tomlfile.QuoteText(n.Text) + " is not a date", hint: "write the year, the month and the day, as in 2026-11-23"}
			}
			return d, nil
		},
	}
}

// warmupTables shows the plans of the file.
func (s *shower) warmupTables() []shownTable {
	return showNamed(s, tableWarmup, s.c.WarmupPlans, warmupPlanName, standardWarmupPlan, warmupParameters)
}
