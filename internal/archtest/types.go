package archtest

import (
	"bytes"
	"fmt"
	"go/ast"
	"go/importer"
	"go/types"
	"io"
	"maps"
	"os"
	"os/exec"
	"slices"
	"strings"
)

// A checker type-checks the pure packages: those of ours from the parsed tree,
// all others by the compiler's export data.
type checker struct {
	tree    *Tree
	others  types.Importer
	checked map[string]*types.Package
	infos   map[string]*types.Info
}

func newChecker(t *Tree, r *Rules) (*checker, error) {
	c := &checker{tree: t, checked: map[string]*types.Package{}, infos: map[string]*types.Info{}}
	exports, err := c.exports(r)
	if err != nil {
		return nil, err
	}
	c.others = importer.ForCompiler(t.fset, "gc", func(path string) (io.ReadCloser, error) {
		name, ok := exports[path]
		if !ok {
			return nil, fmt.Errorf("no export data for %s", path)
		}
		return os.Open(name)
	})
	return c, nil
}

// exports asks the go command for the export data of all that the pure
// packages, and what they import of ours, import from elsewhere.
func (c *checker) exports(r *Rules) (map[string]string, error) {
	wanted := map[string]bool{}
	seen := map[string]bool{}
	var add func(p *pkg)
	add = func(p *pkg) {
		seen[p.path] = true
		for _, f := range p.files {
			for _, spec := range f.Imports {
				path := importPath(spec)
				if rel, ours := c.tree.ours(path); !ours {
					wanted[path] = true
				} else if p := c.tree.lookup(rel); p != nil && !seen[rel] {
					add(p)
				}
			}
		}
	}
	for _, p := range c.tree.packages {
		if own := r.find(p.path); own != nil && own.pure && !seen[p.path] {
			add(p)
		}
	}
	if len(wanted) == 0 {
		return nil, nil
	}
	args := []string{"list", "-e", "-export", "-deps", "-f", "{{if .Export}}{{.ImportPath}} {{.Export}}{{end}}"}
	cmd := exec.Command("go", append(args, slices.Sorted(maps.Keys(wanted))...)...)
	cmd.Dir = c.tree.root
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if err != nil {
		return nil, fmt.Errorf("go list: %w: %s", err, stderr.String())
	}
	exports := map[string]string{}
	for line := range strings.Lines(string(out)) {
		if path, name, ok := strings.Cut(strings.TrimSpace(line), " "); ok {
			exports[path] = name
		}
	}
	return exports, nil
}

// check returns what is known of a package's types.
func (c *checker) check(p *pkg) *types.Info {
	if c.infos[p.path] == nil {
		info := &types.Info{
			Types:      map[ast.Expr]types.TypeAndValue{},
			Defs:       map[*ast.Ident]types.Object{},
			Uses:       map[*ast.Ident]types.Object{},
			Selections: map[*ast.SelectorExpr]*types.Selection{},
		}
		files := make([]*ast.File, len(p.files))
		for i, f := range p.files {
			files[i] = f.File
		}
		conf := types.Config{Importer: c, Error: func(error) {}}
		// An error here is the compiler's to report.
		c.checked[p.path], _ = conf.Check(c.tree.module+"/"+p.path, c.tree.fset, files, info)
		c.infos[p.path] = info
	}
	return c.infos[p.path]
}

// Import implements types.Importer.
func (c *checker) Import(path string) (*types.Package, error) {
	rel, ours := c.tree.ours(path)
	if !ours {
		return c.others.Import(path)
	}
	p := c.tree.lookup(rel)
	if p == nil || len(p.files) == 0 {
		return nil, fmt.Errorf("no package %s", rel)
	}
	c.check(p)
	return c.checked[rel], nil
}
