package archtest

import (
	"fmt"
	"go/ast"
	"go/token"
	"go/types"
	"strings"
)

// purity looks for syntax that has no place in the pure half.
func purity(t *Tree, r *Rules) (out []Complaint, err error) {
	c, err := newChecker(t, r)
	if err != nil {
		return nil, err
	}
	for _, p := range t.packages {
		own := r.find(p.path)
		if own == nil || !own.pure || len(p.files) == 0 {
			continue
		}
		info := c.check(p)
		changed := changedVariables(p, info)
		for _, f := range p.files {
			v := &visitor{file: f, info: info, anyOrder: anyOrderLines(f)}
			v.out = append(v.out, variables(f, info, changed)...)
			ast.Inspect(f.File, v.visit)
			for line, reason := range v.anyOrder {
				if reason == "" {
					v.out = append(v.out, Complaint{f.name, line, "archtest:anyorder wants a reason"})
				}
			}
			out = append(out, v.out...)
		}
	}
	return out, nil
}

// A visitor collects the complaints about one file.
type visitor struct {
	file     *file
	info     *types.Info
	anyOrder map[int]string // line to reason
	out      []Complaint
}

func (v *visitor) complain(n ast.Node, format string, args ...any) {
	v.out = append(v.out, Complaint{v.file.name, v.file.line(n), fmt.Sprintf(format, args...)})
}

func (v *visitor) visit(n ast.Node) bool {
	switch n := n.(type) {
	case *ast.GoStmt:
		v.complain(n, "a goroutine in the pure half: emit an action and let the host do it")
	case *ast.ChanType:
		v.complain(n, "a channel in the pure half: take events, give actions")
	case *ast.SelectStmt:
		v.complain(n, "a select in the pure half: take events, give actions")
	case *ast.RangeStmt:
		v.rangeOver(n)
	case *ast.CallExpr:
		v.call(n)
	case *ast.SelectorExpr:
		v.selector(n)
	case *ast.BinaryExpr:
		if n.Op == token.ADD || n.Op == token.SUB {
			v.fused(n.X)
			v.fused(n.Y)
		}
	case *ast.AssignStmt:
		if n.Tok == token.ADD_ASSIGN || n.Tok == token.SUB_ASSIGN {
			v.fused(n.Rhs[0])
		}
	}
	return true
}

const orderHint = "iterate a list or a sorted slice; if no order can be seen from outside, say //archtest:anyorder and why"

func (v *visitor) rangeOver(n *ast.RangeStmt) {
	if _, isMap := under(v.info.TypeOf(n.X)).(*types.Map); isMap && !v.excused(n) {
		v.complain(n, "a range over a map: %s", orderHint)
	}
}

// call looks for recover, and for map iterators that nothing sorts.
func (v *visitor) call(n *ast.CallExpr) {
	if id, ok := n.Fun.(*ast.Ident); ok {
		if b, ok := v.info.Uses[id].(*types.Builtin); ok && b.Name() == "recover" {
			v.complain(n, "recover in the pure half: a panic there is a bug, and its host decides what to do")
		}
	}
	for _, arg := range n.Args {
		if inner, ok := arg.(*ast.CallExpr); ok && v.sorts(n) {
			v.excuse(inner)
		}
	}
	if f := v.function(n); f != nil && f.Pkg() != nil && f.Pkg().Path() == "maps" {
		switch f.Name() {
		case "All", "Keys", "Values":
			if !v.excused(n) {
				v.complain(n, "maps.%s in map order: sort it (slices.Sorted), or %s", f.Name(), orderHint)
			}
		}
	}
}

// sorts reports whether a call's result does not depend on the order of the
// sequence that it is given.
func (v *visitor) sorts(n *ast.CallExpr) bool {
	f := v.function(n)
	if f == nil || f.Pkg() == nil {
		return false
	}
	switch f.Pkg().Path() + "." + f.Name() {
	case "slices.Sorted", "slices.SortedFunc", "slices.SortedStableFunc", "maps.Collect", "maps.Insert":
		return true
	}
	return false
}

func (v *visitor) function(n *ast.CallExpr) *types.Func {
	fun := n.Fun
	if index, ok := fun.(*ast.IndexExpr); ok {
		fun = index.X
	}
	if s, ok := fun.(*ast.SelectorExpr); ok {
		f, _ := v.info.Uses[s.Sel].(*types.Func)
		return f
	}
	return nil
}

// excuse lets one line use map order.
func (v *visitor) excuse(n ast.Node) {
	line := v.file.line(n)
	if v.anyOrder[line] == "" {
		v.anyOrder[line] = "sorted"
	}
}

func (v *visitor) excused(n ast.Node) bool {
	line := v.file.line(n)
	for _, l := range []int{line, line - 1} {
		if _, ok := v.anyOrder[l]; ok {
			return true
		}
	}
	return false
}

const anyOrder = "//archtest:anyorder"

func anyOrderLines(f *file) map[int]string {
	lines := map[int]string{}
	for _, group := range f.Comments {
		for _, c := range group.List {
			if reason, ok := strings.CutPrefix(c.Text, anyOrder); ok {
				lines[f.line(c)] = strings.TrimSpace(reason)
			}
		}
	}
	return lines
}

// selector allows of package time what has nothing to do with the clock.
func (v *visitor) selector(n *ast.SelectorExpr) {
	id, ok := n.X.(*ast.Ident)
	if !ok {
		return
	}
	name, ok := v.info.Uses[id].(*types.PkgName)
	if !ok || name.Imported().Path() != "time" || n.Sel.Name == "Duration" || n.Sel.Name == "ParseDuration" {
		return
	}
	if c, ok := v.info.Uses[n.Sel].(*types.Const); ok {
		if named, ok := c.Type().(*types.Named); ok && named.Obj().Name() == "Duration" {
			return
		}
	}
	v.complain(n, "time.%s in the pure half: take a mail.Instant as an argument; only Duration and its constants are allowed", n.Sel.Name)
}

// fused complains about a floating-point product that is a term of a sum: on
// some architectures both become one instruction, with one rounding less.
func (v *visitor) fused(term ast.Expr) {
	for {
		p, ok := term.(*ast.ParenExpr)
		if !ok {
			break
		}
		term = p.X
	}
	product, ok := term.(*ast.BinaryExpr)
	if !ok || product.Op != token.MUL || v.info.Types[product].Value != nil {
		return
	}
	if basic, ok := under(v.info.TypeOf(product)).(*types.Basic); ok && basic.Info()&types.IsFloat != 0 {
		v.complain(product, "a product inside a sum rounds differently where the two are fused: write float64(x*y)")
	}
}

func under(t types.Type) types.Type {
	if t == nil {
		return nil
	}
	if p, ok := t.(*types.TypeParam); ok {
		t = p.Constraint()
	}
	if u, ok := t.Underlying().(*types.Interface); ok && u.NumEmbeddeds() == 1 {
		return u.EmbeddedType(0).Underlying()
	}
	return t.Underlying()
}
