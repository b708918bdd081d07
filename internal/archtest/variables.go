package archtest

import (
	"fmt"
	"go/ast"
	"go/token"
	"go/types"
)

// variables complains about package variables that are neither errors nor
// tables. A table is set where it is declared and never changed.
func variables(f *file, info *types.Info, changed map[types.Object]ast.Node) (out []Complaint) {
	for _, d := range f.Decls {
		g, ok := d.(*ast.GenDecl)
		if !ok || g.Tok != token.VAR {
			continue
		}
		for _, spec := range g.Specs {
			s := spec.(*ast.ValueSpec)
			for _, name := range s.Names {
				obj := info.Defs[name]
				if name.Name == "_" || obj == nil || isError(obj.Type()) {
					continue
				}
				if at := changed[obj]; at != nil {
					out = append(out, Complaint{f.name, f.line(name), fmt.Sprintf(
						"package variable %s is changed (line %d of %s): make it a field of what owns it",
						name.Name, f.line(at), shortName(f, at))})
				} else if f.tree.ownPointer(obj.Type()) {
					out = append(out, Complaint{f.name, f.line(name), fmt.Sprintf(
						"package variable %s points to what its methods may change: make it a field of what owns it", name.Name)})
				} else if len(s.Values) == 0 {
					out = append(out, Complaint{f.name, f.line(name), fmt.Sprintf(
						"package variable %s has no value: make it a field of what owns it", name.Name)})
				}
			}
		}
	}
	return out
}

// ownPointer reports whether a type is a pointer to a structure of ours. Those of
// the standard library that are made once and kept, such as a
// *strings.Replacer, do not change.
func (t *Tree) ownPointer(typ types.Type) bool {
	p, ok := typ.(*types.Pointer)
	if !ok {
		return false
	}
	named, ok := p.Elem().(*types.Named)
	if !ok || named.Obj().Pkg() == nil {
		return false
	}
	_, ours := t.ours(named.Obj().Pkg().Path())
	return ours
}

func shortName(f *file, n ast.Node) string {
	name := f.tree.fset.Position(n.Pos()).Filename
	for _, p := range f.tree.packages {
		for _, other := range p.files {
			if f.tree.fset.Position(other.Pos()).Filename == name {
				return other.name
			}
		}
	}
	return name
}

func isError(t types.Type) bool {
	return t != nil && types.Identical(t, types.Universe.Lookup("error").Type())
}

// changedVariables finds the package's variables that are assigned to, whose
// address is taken, or that have a method called that may change them.
func changedVariables(p *pkg, info *types.Info) map[types.Object]ast.Node {
	changed := map[types.Object]ast.Node{}
	note := func(e ast.Expr) {
		if id := root(e); id != nil {
			if v, ok := info.Uses[id].(*types.Var); ok && v.Pkg() != nil && v.Parent() == v.Pkg().Scope() && changed[v] == nil {
				changed[v] = id
			}
		}
	}
	for _, f := range p.files {
		ast.Inspect(f.File, func(n ast.Node) bool {
			switch n := n.(type) {
			case *ast.AssignStmt:
				for _, e := range n.Lhs {
					note(e)
				}
			case *ast.IncDecStmt:
				note(n.X)
			case *ast.RangeStmt:
				if n.Tok == token.ASSIGN {
					note(n.Key)
					note(n.Value)
				}
			case *ast.UnaryExpr:
				if n.Op == token.AND {
					note(n.X)
				}
			case *ast.SelectorExpr:
				if sel := info.Selections[n]; sel != nil && mayChange(sel) {
					note(n.X)
				}
			}
			return true
		})
	}
	return changed
}

// root returns the variable that an expression is a part of; what lies beyond
// a pointer counts too, as the table would own it.
func root(e ast.Expr) *ast.Ident {
	for {
		switch x := e.(type) {
		case *ast.Ident:
			return x
		case *ast.ParenExpr:
			e = x.X
		case *ast.IndexExpr:
			e = x.X
		case *ast.SelectorExpr:
			e = x.X
		case *ast.StarExpr:
			e = x.X
		case *ast.SliceExpr:
			e = x.X
		default:
			return nil
		}
	}
}

// mayChange reports whether a method is called on the address of a variable.
func mayChange(sel *types.Selection) bool {
	if sel.Kind() != types.MethodVal {
		return false
	}
	f, ok := sel.Obj().(*types.Func)
	if !ok {
		return false
	}
	_, pointer := f.Signature().Recv().Type().(*types.Pointer)
	_, through := sel.Recv().Underlying().(*types.Pointer)
	return pointer && !through
}
