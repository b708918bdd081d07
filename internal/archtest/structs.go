package archtest

import (
	"fmt"
	"go/ast"
	"strings"
)

// structs complains about structs with more fields than a line "fields" allows: a reader cannot keep
// in mind what holds between them. One that has as many because its fields are independent values, as the parameters
// of a Config are, says so in its doc comment: //archtest:fields and why.
func structs(t *Tree, r *Rules) (out []Complaint) {
	for _, p := range t.packages {
		most := r.fieldsOf(p.path)
		if most == 0 {
			continue
		}
		for _, f := range p.files {
			if strings.HasSuffix(f.name, "_test.go") {
				continue
			}
			ast.Inspect(f.File, func(n ast.Node) bool {
				g, ok := n.(*ast.GenDecl)
				if !ok {
					return true
				}
				for _, spec := range g.Specs {
					if s, ok := spec.(*ast.TypeSpec); ok {
						out = append(out, f.fields(s, most, g.Doc, s.Doc)...)
					}
				}
				return true
			})
		}
	}
	return out
}

// fields complains about one type with more fields than that.
func (f *file) fields(s *ast.TypeSpec, most int, docs ...*ast.CommentGroup) []Complaint {
	st, ok := s.Type.(*ast.StructType)
	if !ok {
		return nil
	}
	n := 0
	for _, field := range st.Fields.List {
		n += max(len(field.Names), 1)
	}
	if n <= most {
		return nil
	}
	for _, doc := range docs {
		if doc == nil {
			continue
		}
		for _, c := range doc.List {
			if why, excused := strings.CutPrefix(c.Text, "//archtest:fields"); excused {
				if strings.TrimSpace(why) == "" {
					return []Complaint{{f.name, f.line(s), "archtest:fields wants a reason"}}
				}
				return nil
			}
		}
	}
	return []Complaint{{f.name, f.line(s), fmt.Sprintf("%s has %d fields, more than %d: split it by what belongs together, each part with its invariant", s.Name.Name, n, most)}}
}
