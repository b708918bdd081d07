package archtest

import (
	"fmt"
	"go/ast"
	"maps"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
)

// The history names files that are gone, which is right.
const historyName = "CHANGELOG.md"

// What documents name: paths from the root, and tests.
var (
	namedPath = regexp.MustCompile(`(?:^|[\s(|\x60])(?:\./)?(\w[\w.-]*(?:/[\w.-]+)+)`)
	namedTest = regexp.MustCompile(`\b(?:Test|Fuzz|Benchmark)[A-Z]\w*`)
)

// references checks that the files, folders and tests that a document names exist,
// and that ARCHITECTURE.md, where there is one, names every package.
func references(t *Tree, _ *Rules) (out []Complaint) {
	tests := t.testNames()
	for _, name := range t.documents {
		text, err := os.ReadFile(filepath.Join(t.root, filepath.FromSlash(name)))
		if err != nil || path.Base(name) == historyName {
			continue // documents complains
		}
		for i, line := range strings.Split(string(text), "\n") {
			for _, m := range namedPath.FindAllStringSubmatch(line, -1) {
				if p := strings.TrimRight(m[1], "."); t.gone(strings.TrimSuffix(p, "/")) {
					out = append(out, Complaint{name, i + 1, "there is no " + p})
				}
			}
			for _, m := range namedTest.FindAllString(line, -1) {
				if !slices.ContainsFunc(tests, func(test string) bool { return strings.HasPrefix(test, m) }) {
					out = append(out, Complaint{name, i + 1, "there is no test " + m})
				}
			}
		}
		if name == "ARCHITECTURE.md" {
			out = append(out, t.unnamed(name, string(text))...)
		}
	}
	return out
}

// gone reports whether a path begins with one of the module's folders and leads nowhere.
func (t *Tree) gone(name string) bool {
	top, _, _ := strings.Cut(name, "/")
	if !slices.ContainsFunc(t.packages, func(p *pkg) bool { return p.path == top || strings.HasPrefix(p.path, top+"/") }) {
		return false
	}
	_, err := os.Stat(filepath.Join(t.root, filepath.FromSlash(name)))
	return err != nil
}

// unnamed complains about packages that the document does not name, by path or, where
// several of a folder share a line, by the last part of it. Programs that are tests
// have a document of their own.
func (t *Tree) unnamed(document, text string) (out []Complaint) {
	for _, p := range t.packages {
		if p.path == "." || strings.HasPrefix(p.path, "test/") || len(p.files) == 0 {
			continue
		}
		if !strings.Contains(text, "`"+p.path+"`") && !strings.Contains(text, "`"+path.Base(p.path)+"`") {
			out = append(out, Complaint{document, 0, fmt.Sprintf("say what %s is", p.path)})
		}
	}
	return out
}

// testNames returns the names of all tests, fuzz targets and benchmarks.
func (t *Tree) testNames() []string {
	names := map[string]bool{}
	for _, p := range t.packages {
		for _, f := range p.tests {
			for _, d := range f.Decls {
				if fn, ok := d.(*ast.FuncDecl); ok && fn.Recv == nil {
					names[fn.Name.Name] = true
				}
			}
		}
	}
	return slices.Sorted(maps.Keys(names))
}
