package archtest

import (
	"fmt"
	"go/ast"
	"regexp"
	"slices"
	"strings"
)

// skipsName is the table of the tests that may skip themselves.
const skipsName = "internal/archtest/skips.txt"

// A skip is a line of that table: a test, or a helper of tests, and the stage of .ci/run in
// which it does not skip.
type skip struct {
	line        int
	pkg, name   string
	stage, need string // need is what the stage's command must contain, often nothing
}

// Skips compares the tests that may skip themselves with the table of them, and the table
// with the stages of .ci/run: a test that is skipped wherever it runs shows nothing.
func Skips(t *Tree, table, ci string) (out []Complaint) {
	listed := make(map[string]*skip)
	for i, line := range strings.Split(table, "\n") {
		line, _, _ = strings.Cut(line, "#")
		f := strings.Fields(line)
		switch len(f) {
		case 0:
			continue
		case 3:
			f = append(f, "")
		case 4:
		default:
			out = append(out, Complaint{skipsName, i + 1, "want PACKAGE TEST STAGE [NEED] # condition"})
			continue
		}
		listed[f[0]+" "+f[1]] = &skip{i + 1, f[0], f[1], f[2], f[3]}
	}
	commands := stages(ci)
	found := make(map[string]bool)
	for _, p := range t.packages {
		g := skippers(p)
		for name, fn := range g {
			s := listed[p.path+" "+name]
			switch {
			case s != nil && g.reaches(name, func(string) bool { return false }):
				found[p.path+" "+name] = true
				if text := s.wrong(commands); text != "" {
					out = append(out, Complaint{skipsName, s.line, text})
				}
			case isTest(name) && g.reaches(name, func(n string) bool { return listed[p.path+" "+n] != nil }):
				out = append(out, Complaint{fn.file, fn.line, fmt.Sprintf("%s may skip itself: say in %s in which stage of .ci/run it does not", name, skipsName)})
			}
		}
	}
	for key, s := range listed {
		if !found[key] {
			out = append(out, Complaint{skipsName, s.line, fmt.Sprintf("%s of %s does not exist, or does not skip", s.name, s.pkg)})
		}
	}
	slices.SortFunc(out, func(a, b Complaint) int { return strings.Compare(a.String(), b.String()) })
	return out
}

// wrong returns what is wrong with the stage of a line, or nothing.
func (s *skip) wrong(commands map[string][]testCommand) string {
	if !isTest(s.name) {
		if s.stage != "test" {
			return fmt.Sprintf("%s is a helper: name the tests that call it, since only in the stage test no more than a helper is needed", s.name)
		}
		return ""
	}
	for _, c := range commands[s.stage] {
		if c.runs(s.pkg, s.name) && strings.Contains(c.text, s.need) {
			return ""
		}
	}
	return strings.TrimSpace(fmt.Sprintf("no command of the stage %s of .ci/run runs %s of %s %s", s.stage, s.name, s.pkg, s.need))
}

// A testFunc is a function of a package's tests.
type testFunc struct {
	file  string
	line  int
	skips bool
	calls []string // functions without a receiver
}

// A testGraph is who calls whom in the tests of a package.
type testGraph map[string]*testFunc

func skippers(p *pkg) testGraph {
	g := make(testGraph)
	for _, f := range p.tests {
		for _, d := range f.Decls {
			fn, ok := d.(*ast.FuncDecl)
			if !ok || fn.Recv != nil || fn.Body == nil {
				continue
			}
			node := &testFunc{file: f.name, line: f.line(fn)}
			ast.Inspect(fn.Body, func(n ast.Node) bool {
				call, ok := n.(*ast.CallExpr)
				if !ok {
					return true
				}
				switch to := call.Fun.(type) {
				case *ast.Ident:
					node.calls = append(node.calls, to.Name)
				case *ast.SelectorExpr:
					if _, simple := to.X.(*ast.Ident); simple && slices.Contains([]string{"Skip", "Skipf", "SkipNow"}, to.Sel.Name) {
						node.skips = true
					}
				}
				return true
			})
			g[fn.Name.Name] = node
		}
	}
	return g
}

// reaches reports whether a function may skip a test, itself or by others, besides those
// that are known.
func (g testGraph) reaches(name string, known func(string) bool) bool {
	seen := make(map[string]bool)
	var visit func(string) bool
	visit = func(name string) bool {
		fn := g[name]
		if fn == nil || seen[name] || known(name) {
			return false
		}
		seen[name] = true
		return fn.skips || slices.ContainsFunc(fn.calls, visit)
	}
	return visit(name)
}

func isTest(name string) bool { return strings.HasPrefix(name, "Test") }

// A testCommand is a "go test" of .ci/run.
type testCommand struct {
	text     string
	packages []string
	run      *regexp.Regexp // nil for all tests
}

func (c *testCommand) runs(pkg, test string) bool {
	in := slices.ContainsFunc(c.packages, func(pattern string) bool {
		return patterns{strings.TrimPrefix(pattern, "./")}.match(pkg)
	})
	return in && (c.run == nil || c.run.MatchString(test))
}

var (
	stageLine    = regexp.MustCompile(`(?m)^(?:  )?stage (\S+) (.*)$`)
	functionText = regexp.MustCompile(`(?ms)^(\w+)\(\) \{\n(.*?)^\}`)
	runFlag      = regexp.MustCompile(`-run '?([^'\s]+)'?`)
)

// stages returns the "go test" commands of each stage, be they on its line or in the function that
// the line names.
func stages(ci string) map[string][]testCommand {
	ci = strings.ReplaceAll(ci, "\\\n", " ")
	bodies := make(map[string]string)
	for _, m := range functionText.FindAllStringSubmatch(ci, -1) {
		bodies[m[1]] = m[2]
	}
	out := make(map[string][]testCommand)
	for _, m := range stageLine.FindAllStringSubmatch(ci, -1) {
		text := m[2]
		if body, ok := bodies[strings.TrimSpace(text)]; ok {
			text = body
		}
		for part := range strings.SplitSeq(strings.ReplaceAll(text, "&&", "\n"), "\n") {
			if !strings.Contains(part, "go test ") {
				continue
			}
			c := testCommand{text: part}
			for _, word := range strings.Fields(part) {
				if strings.HasPrefix(word, "./") {
					c.packages = append(c.packages, word)
				}
			}
			if run := runFlag.FindStringSubmatch(part); run != nil {
				c.run = regexp.MustCompile(run[1])
			}
			out[m[1]] = append(out[m[1]], c)
		}
	}
	return out
}
