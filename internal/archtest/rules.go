package archtest

import (
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
)

// Rules say what each package may import. The language is described at the
// top of rules.txt.
type Rules struct {
	packages []*rule // in the order of the file
	tests    patterns
	never    [][2]string
	fields   []fieldRule
}

// A fieldRule is how many fields structs may have, in packages that match.
type fieldRule struct {
	packages patterns
	most     int
}

// fieldsOf returns how many fields structs of a package may have; 0 for any number.
func (r *Rules) fieldsOf(path string) int {
	for _, f := range r.fields {
		if f.packages.match(path) {
			return f.most
		}
	}
	return 0
}

// A rule is what one package, or all below a folder, may import.
type rule struct {
	path    string // relative to the module's root; may be a pattern
	ours    map[string]bool
	all     bool // "*": everything
	std     patterns
	modules patterns
	test    patterns
	pure    bool
}

// patterns are import paths; one that ends in "/..." also means all below it,
// and "..." everything.
type patterns []string

func (p patterns) match(path string) bool {
	for _, pattern := range p {
		base, below := strings.CutSuffix(pattern, "...")
		if path == pattern || below && (strings.HasPrefix(path, base) || path == strings.TrimSuffix(base, "/")) {
			return true
		}
	}
	return false
}

// find returns the rule for a package: the one that names it, or else the
// longest pattern that covers it.
func (r *Rules) find(path string) *rule {
	var best *rule
	for _, p := range r.packages {
		if p.path == path {
			return p
		}
		if (patterns{p.path}).match(path) && (best == nil || len(p.path) > len(best.path)) {
			best = p
		}
	}
	return best
}

// ParseRules reads a text of rules; name stands for it in errors.
func ParseRules(name, text string) (*Rules, error) {
	p := ruleParser{rules: &Rules{}, std: map[string]patterns{}}
	for i, line := range strings.Split(text, "\n") {
		line, _, _ = strings.Cut(line, "#")
		if strings.TrimSpace(line) == "" {
			continue
		}
		if err := p.line(line); err != nil {
			return nil, fmt.Errorf("%s:%d: %w", name, i+1, err)
		}
	}
	for _, n := range p.rules.never {
		if p.rules.find(n[0]).ours[n[1]] {
			return nil, fmt.Errorf("%s: %s never %s, but the rules allow it", name, n[0], n[1])
		}
	}
	return p.rules, nil
}

type ruleParser struct {
	rules *Rules
	std   map[string]patterns

	titled     bool // there was a title
	sectionStd patterns
	pure       bool
	current    *rule
}

func (p *ruleParser) line(line string) error {
	words := strings.Fields(line)
	switch {
	case line[0] == ' ' || line[0] == '\t':
		return p.detail(words)
	case line[0] == '[':
		return p.section(line)
	case words[0] == "std":
		return p.define(words[1:])
	case words[0] == "tests:":
		p.rules.tests = append(p.rules.tests, words[1:]...)
		return nil
	case len(words) == 3 && words[1] == "never":
		return p.forbid(words[0], words[2])
	case len(words) >= 3 && words[0] == "fields":
		return p.limitFields(words[1], words[2:])
	case strings.HasSuffix(words[0], ":"):
		return p.begin(strings.TrimSuffix(words[0], ":"), words[1:])
	}
	return fmt.Errorf("cannot read %q", line)
}

func (p *ruleParser) define(words []string) error {
	if len(words) < 3 || words[1] != "=" {
		return fmt.Errorf("want std NAME = PATTERN …")
	}
	p.std[words[0]] = p.expand(words[2:])
	return nil
}

// expand replaces the names of sets by what is in them.
func (p *ruleParser) expand(words []string) (out patterns) {
	for _, w := range words {
		if set, ok := p.std[w]; ok {
			out = append(out, set...)
		} else {
			out = append(out, w)
		}
	}
	return out
}

func (p *ruleParser) section(line string) error {
	_, settings, ok := strings.Cut(line, "]")
	words := strings.Fields(settings)
	if !ok || len(words) < 2 || words[0] != "std" {
		return fmt.Errorf("want [title] std NAME… [pure]")
	}
	words = words[1:]
	last := len(words) - 1
	p.pure = last > 0 && words[last] == "pure"
	if p.pure {
		words = words[:last]
	}
	p.sectionStd, p.titled, p.current = p.expand(words), true, nil
	return nil
}

func (p *ruleParser) begin(path string, imports []string) error {
	if !p.titled {
		return fmt.Errorf("%s: no [title] above it", path)
	}
	if slices.ContainsFunc(p.rules.packages, func(r *rule) bool { return r.path == path }) {
		return fmt.Errorf("%s: there is a rule already", path)
	}
	r := &rule{path: path, std: p.sectionStd, pure: p.pure, ours: map[string]bool{}}
	for _, imp := range imports {
		if imp == "*" {
			r.all = true
			continue
		}
		dep := p.rules.find(imp)
		if dep == nil || dep.path != imp {
			return fmt.Errorf("%s: there is no rule for %s above it", path, imp)
		}
		r.ours[imp] = true
		maps.Copy(r.ours, dep.ours)
	}
	p.rules.packages, p.current = append(p.rules.packages, r), r
	return nil
}

func (p *ruleParser) detail(words []string) error {
	if p.current == nil {
		return fmt.Errorf("%s: no package above it", words[0])
	}
	r := p.current
	switch words[0] {
	case "std":
		r.std = append(slices.Clone(r.std), p.expand(words[1:])...)
	case "module":
		r.modules = append(r.modules, words[1:]...)
	case "test":
		r.test = append(r.test, words[1:]...)
	default:
		return fmt.Errorf("want std, module or test, not %s", words[0])
	}
	return nil
}

func (p *ruleParser) limitFields(number string, packages []string) error {
	most, err := strconv.Atoi(number)
	if err != nil || most < 1 {
		return fmt.Errorf("want fields NUMBER PATTERN …")
	}
	p.rules.fields = append(p.rules.fields, fieldRule{packages, most})
	return nil
}

func (p *ruleParser) forbid(from, to string) error {
	for _, path := range []string{from, to} {
		if p.rules.find(path) == nil {
			return fmt.Errorf("there is no rule for %s above it", path)
		}
	}
	p.rules.never = append(p.rules.never, [2]string{from, to})
	return nil
}
