package archtest

import (
	"fmt"
	"go/ast"
	"go/token"
	"path"
	"regexp"
	"slices"
	"strings"
)

// drawers are names under which everything can be put.
var drawers = []string{"util", "utils", "common", "helper", "helpers", "misc", "shared", "models"}

var unfinished = regexp.MustCompile(`\b(FIXME|TODO)\b`)

// names complains about packages and files that are named after nothing, and
// about work that is marked as unfinished.
func names(t *Tree, _ *Rules) (out []Complaint) {
	for _, p := range t.packages {
		for _, f := range slices.Concat(p.files, p.tests) {
			stem := strings.TrimSuffix(strings.TrimSuffix(path.Base(f.name), ".go"), "_test")
			if slices.Contains(drawers, stem) || slices.Contains(drawers, path.Base(p.path)) || slices.Contains(drawers, f.Name.Name) {
				out = append(out, Complaint{f.name, f.line(f.Name),
					"a name that says nothing: call the package or file after the noun that is in it"})
			}
		}
		for _, f := range p.files {
			out = append(out, marks(f)...)
		}
	}
	return out
}

func marks(f *file) (out []Complaint) {
	for _, group := range f.Comments {
		for _, c := range group.List {
			if word := unfinished.FindString(c.Text); word != "" {
				out = append(out, Complaint{f.name, f.line(c), fmt.Sprintf(
					"%s: finish it, or say what is not done and what follows from that, as NOTE:", word)})
			}
		}
	}
	return out
}

// sleeps complains about tests that wait for real time. In a synctest bubble
// time is not real; the tests of whole programs, under test/, may have no
// other choice.
func sleeps(t *Tree, _ *Rules) (out []Complaint) {
	for _, p := range t.packages {
		if strings.HasPrefix(p.path, "test/") {
			continue
		}
		for _, f := range p.tests {
			if slices.ContainsFunc(f.Imports, func(s *ast.ImportSpec) bool { return importPath(s) == "testing/synctest" }) {
				continue
			}
			ast.Inspect(f.File, func(n ast.Node) bool {
				if call, ok := n.(*ast.CallExpr); ok && selects(call.Fun, "time", "Sleep") {
					out = append(out, Complaint{f.name, f.line(n),
						"a test that sleeps: wait for the event itself, or use testing/synctest"})
				}
				return true
			})
		}
	}
	return out
}

// selects reports whether e is written pkg.name.
func selects(e ast.Expr, pkg, name string) bool {
	s, ok := e.(*ast.SelectorExpr)
	if !ok || s.Sel.Name != name {
		return false
	}
	id, ok := s.X.(*ast.Ident)
	return ok && id.Name == pkg
}

// comments complains about packages and exported names without one.
func comments(t *Tree, _ *Rules) (out []Complaint) {
	for _, p := range t.packages {
		if len(p.files) == 0 {
			continue
		}
		if !slices.ContainsFunc(p.files, func(f *file) bool { return f.Doc != nil }) {
			first := p.files[0]
			out = append(out, Complaint{first.name, first.line(first.Name), fmt.Sprintf(
				"package %s has no comment: say in doc.go what it is for, then how it goes about it", p.path)})
		}
		for _, f := range p.files {
			if f.Name.Name == "main" {
				continue
			}
			for _, d := range f.Decls {
				out = append(out, undocumented(f, d)...)
			}
		}
	}
	return out
}

func undocumented(f *file, d ast.Decl) (out []Complaint) {
	complain := func(name *ast.Ident) {
		out = append(out, Complaint{f.name, f.line(name), fmt.Sprintf(
			"%s has no comment: say what it means, with units, ranges and errors", name.Name)})
	}
	switch d := d.(type) {
	case *ast.FuncDecl:
		if d.Name.IsExported() && d.Doc == nil && exportedReceiver(d) && !ofErrors(d) {
			complain(d.Name)
		}
	case *ast.GenDecl:
		for _, spec := range d.Specs {
			switch s := spec.(type) {
			case *ast.TypeSpec:
				if s.Name.IsExported() && d.Doc == nil && s.Doc == nil && s.Comment == nil {
					complain(s.Name)
				}
			case *ast.ValueSpec:
				// The constants of a group explain each other, mostly by their
				// type; whoever stands alone has a comment.
				if d.Doc == nil && s.Doc == nil && s.Comment == nil && s.Names[0].IsExported() && (d.Tok == token.VAR || d.Lparen == token.NoPos) {
					complain(s.Names[0])
				}
			}
		}
	}
	return out
}

// ofErrors reports whether a method is one that package errors looks for; these
// mean the same on every type.
func ofErrors(d *ast.FuncDecl) bool {
	return d.Recv != nil && slices.Contains([]string{"Error", "Unwrap", "Is", "As"}, d.Name.Name)
}

func exportedReceiver(d *ast.FuncDecl) bool {
	if d.Recv == nil {
		return true
	}
	e := d.Recv.List[0].Type
	for {
		switch x := e.(type) {
		case *ast.StarExpr:
			e = x.X
		case *ast.IndexExpr:
			e = x.X
		case *ast.IndexListExpr:
			e = x.X
		case *ast.Ident:
			return x.IsExported()
		default:
			return false
		}
	}
}
