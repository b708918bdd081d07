package archtest

import (
	"cmp"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
)

// A Complaint is one thing that is wrong. Its text says what to do.
type Complaint struct {
	File string // relative to the root
	Line int    // 0 if it is about the file as a whole
	Text string
}

// String returns file:line: text.
func (c Complaint) String() string {
	if c.Line == 0 {
		return fmt.Sprintf("%s: %s", c.File, c.Text)
	}
	return fmt.Sprintf("%s:%d: %s", c.File, c.Line, c.Text)
}

// A Tree is a module's source, parsed.
type Tree struct {
	root      string
	module    string // the module's path
	fset      *token.FileSet
	packages  []*pkg   // ordered by path
	documents []string // markdown files, relative to root
}

// A pkg is one folder of Go files.
type pkg struct {
	path  string // relative to the root, "." for the root itself
	files []*file
	tests []*file // _test.go
}

type file struct {
	name string // relative to the root
	tree *Tree
	*ast.File
}

func (f *file) line(n ast.Node) int { return f.tree.fset.Position(n.Pos()).Line }

// Load parses the module at root.
func Load(root string) (*Tree, error) {
	t := &Tree{root: root, fset: token.NewFileSet()}
	var err error
	if t.module, err = modulePath(filepath.Join(root, "go.mod")); err != nil {
		return nil, err
	}
	err = filepath.WalkDir(root, func(name string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if d.IsDir() {
			if name != root && (skipped(d.Name()) || isModule(name)) {
				return fs.SkipDir
			}
			return nil
		}
		return t.add(name)
	})
	return t, err
}

// isModule reports whether a folder is a module of its own, which the go command leaves out of
// the one around it.
func isModule(folder string) bool {
	_, err := os.Stat(filepath.Join(folder, "go.mod"))
	return err == nil
}

// skipped are the folders that the go command ignores, too.
func skipped(name string) bool {
	return name == "testdata" || name == "out" || strings.HasPrefix(name, ".") || strings.HasPrefix(name, "_")
}

func modulePath(name string) (string, error) {
	text, err := os.ReadFile(name)
	if err != nil {
		return "", err
	}
	for line := range strings.Lines(string(text)) {
		if p, ok := strings.CutPrefix(line, "module "); ok {
			return strings.TrimSpace(p), nil
		}
	}
	return "", fmt.Errorf("%s: no module line", name)
}

func (t *Tree) add(name string) error {
	rel, err := filepath.Rel(t.root, name)
	if err != nil {
		return err
	}
	rel = filepath.ToSlash(rel)
	switch path.Ext(rel) {
	case ".md":
		t.documents = append(t.documents, rel)
	case ".go":
		parsed, err := parser.ParseFile(t.fset, name, nil, parser.ParseComments|parser.SkipObjectResolution)
		if err != nil {
			return err
		}
		p := t.find(path.Dir(rel))
		f := &file{name: rel, tree: t, File: parsed}
		if strings.HasSuffix(rel, "_test.go") {
			p.tests = append(p.tests, f)
		} else {
			p.files = append(p.files, f)
		}
	}
	return nil
}

// find returns the package at a path, and makes it if there is none.
func (t *Tree) find(path string) *pkg {
	i, ok := t.search(path)
	if !ok {
		t.packages = slices.Insert(t.packages, i, &pkg{path: path})
	}
	return t.packages[i]
}

// lookup returns the package at a path, nil if there is none.
func (t *Tree) lookup(path string) *pkg {
	if i, ok := t.search(path); ok {
		return t.packages[i]
	}
	return nil
}

func (t *Tree) search(path string) (int, bool) {
	return slices.BinarySearchFunc(t.packages, path, func(p *pkg, path string) int { return cmp.Compare(p.path, path) })
}

// Check runs every check. The complaints are ordered by file and line.
func Check(t *Tree, r *Rules) ([]Complaint, error) {
	var all []Complaint
	for _, check := range []func(*Tree, *Rules) []Complaint{imports, names, sleeps, comments, documents, references, structs} {
		all = append(all, check(t, r)...)
	}
	impure, err := purity(t, r)
	if err != nil {
		return nil, err
	}
	all = append(all, impure...)
	slices.SortFunc(all, func(a, b Complaint) int {
		return cmp.Or(cmp.Compare(a.File, b.File), cmp.Compare(a.Line, b.Line), cmp.Compare(a.Text, b.Text))
	})
	return all, nil
}
