package archtest

import (
	"fmt"
	"go/ast"
	"slices"
	"strconv"
	"strings"
)

// imports compares every import with the rules.
func imports(t *Tree, r *Rules) (out []Complaint) {
	for _, p := range t.packages {
		own := r.find(p.path)
		if own == nil {
			first := slices.Concat(p.files, p.tests)[0]
			out = append(out, Complaint{first.name, first.line(first.Name), fmt.Sprintf(
				"no rule for package %s: add a line to internal/archtest/rules.txt, after those that it imports", p.path)})
			continue
		}
		for _, f := range p.files {
			out = append(out, importsOf(f, func(path string) string { return t.forbidden(own, path) })...)
		}
		for _, f := range p.tests {
			out = append(out, importsOf(f, func(path string) string { return t.forbiddenInTest(r, own, p, path) })...)
		}
	}
	return out
}

func importsOf(f *file, forbidden func(path string) string) (out []Complaint) {
	for _, spec := range f.Imports {
		if why := forbidden(importPath(spec)); why != "" {
			out = append(out, Complaint{f.name, f.line(spec), why})
		}
	}
	return out
}

func importPath(spec *ast.ImportSpec) string {
	path, err := strconv.Unquote(spec.Path.Value)
	if err != nil {
		return spec.Path.Value
	}
	return path
}

// forbidden returns why a package with this rule must not import path, or ""
// if the import is allowed.
func (t *Tree) forbidden(own *rule, path string) string {
	if own.all {
		return ""
	}
	if rel, ours := t.ours(path); ours {
		if own.ours[rel] || (patterns{own.path}).match(rel) {
			return ""
		}
		return fmt.Sprintf("%s must not import %s: move what is shared to a package below both, "+
			"or let %s declare an interface that its host fills", own.path, rel, own.path)
	}
	if standard(path) {
		if own.std.match(path) {
			return ""
		}
		hint := "take what it gives as an argument or an event"
		if !own.pure {
			hint = "see its line in rules.txt"
		}
		return fmt.Sprintf("%s must not import %s: %s", own.path, path, hint)
	}
	if own.modules.match(path) {
		return ""
	}
	return fmt.Sprintf("%s must not import %s: another module's package belongs to one adapter; "+
		"argue a new one in ARCHITECTURE.md, then allow it in rules.txt", own.path, path)
}

// forbiddenInTest is forbidden for a test file of package p.
func (t *Tree) forbiddenInTest(r *Rules, own *rule, p *pkg, path string) string {
	rel, ours := t.ours(path)
	if !ours {
		rel = path
	}
	if ours && rel == p.path || !ours && standard(path) || r.tests.match(rel) || own.test.match(rel) {
		return ""
	}
	return t.forbidden(own, path)
}

// ours returns an import path relative to the module.
func (t *Tree) ours(path string) (rel string, ok bool) {
	if path == t.module {
		return ".", true
	}
	return strings.CutPrefix(path, t.module+"/")
}

// standard reports whether a path is of the standard library: those of modules
// have a dot in the first element.
func standard(path string) bool {
	first, _, _ := strings.Cut(path, "/")
	return !strings.Contains(first, ".")
}
