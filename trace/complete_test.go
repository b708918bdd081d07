package trace

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"sync"
	"testing"
)

// An event or action that is added to the core and forgotten here would be
// written as "unknown", and no trace with it could be replayed. The core's source
// says which there are: the types with a method event or action.
func TestEveryTypeIsKnown(t *testing.T) {
	for method, known := range map[string][]string{"event": typeNames(eventKinds), "action": typeNames(actionKinds)} {
		var declared []string
		for _, f := range parse("qmgr") {
			for _, d := range f.Decls {
				if fn, ok := d.(*ast.FuncDecl); ok && fn.Name.Name == method && fn.Recv != nil && fn.Type.Params.NumFields() == 0 {
					if id, ok := fn.Recv.List[0].Type.(*ast.Ident); ok {
						declared = append(declared, id.Name)
					}
				}
			}
		}
		slices.Sort(declared)
		if len(declared) == 0 || !slices.Equal(known, declared) {
			t.Errorf("the core's types with the method %s are %q;\npackage trace knows %q: complete %sKinds", method, declared, known, method)
		}
	}
}

func typeNames[I any](kinds []kind[I]) (names []string) {
	for _, k := range kinds {
		names = append(names, reflect.TypeOf(k.zero).Name())
	}
	slices.Sort(names)
	return names
}

// A value of an enumeration that has no word here could be written, but not be
// read back.
func TestEveryConstantHasAWord(t *testing.T) {
	tables := map[string][]string{"intake.Scan": scanWords, "mail.Level": levels, "mail.Trust": trusts, "mail.CloseReason": closeReasons, "mail.Proof": proofs, "qmgr.Trouble": troubleWords,
		"qmgr.NoteKind": noteWords, "qmgr.FeedbackCause": causeWords, "qmgr.DoubleBounce": bounceWords, "sched.Scheduler": schedulers,
		"qmgr.Agents": agentWords, "window.Rule": ruleWords, "mail.Area": areas, "mail.Ret": retWords, "mail.TLSRequest": tlsWords, "mail.ByMode": byWords, "mail.BodyType": bodyWords,
		"mail.Result": results, "mail.ReportKind": reports, "mail.Stage": stages, "mail.ChangeOp": changeOps, "qmgr.UnknownOutcome": unknowns, "warmup.OrderKind": warmupOrders, "measure.Scope": scopeWords}
	seen := 0
	for _, zero := range everything() {
		enumerations(reflect.TypeOf(zero), func(e reflect.Type) {
			seen++
			words, ok := tables[e.String()]
			if n := constants(e); !ok || len(words) != n {
				t.Errorf("%v has %d values, and package trace the words %q for them (%v)", e, n, words, ok)
			}
		})
	}
	if seen < len(tables) {
		t.Errorf("only %d enumerations were found", seen)
	}
}

// enumerations calls found for each enumeration that a type has in it.
func enumerations(t reflect.Type, found func(reflect.Type)) {
	switch t.Kind() {
	case reflect.Struct:
		for i := range t.NumField() {
			if t.Field(i).IsExported() {
				enumerations(t.Field(i).Type, found)
			}
		}
	case reflect.Slice, reflect.Pointer:
		enumerations(t.Elem(), found)
	case reflect.Map:
		enumerations(t.Elem(), found)
	case reflect.Uint8:
		if t.Name() != "Notify" && t.Name() != "uint8" { // a set, an octet
			found(t)
		}
	}
}

var sources sync.Map // of []*ast.File by folder

// parse reads the source of one of the project's packages.
func parse(folder string) []*ast.File {
	if files, ok := sources.Load(folder); ok {
		return files.([]*ast.File)
	}
	paths, err := filepath.Glob(filepath.Join("..", filepath.FromSlash(folder), "*.go"))
	if err != nil || len(paths) == 0 {
		panic(fmt.Sprint("no source in ", folder, " ", err))
	}
	var files []*ast.File
	for _, path := range paths {
		if strings.HasSuffix(path, "_test.go") {
			continue
		}
		f, err := parser.ParseFile(token.NewFileSet(), path, nil, parser.SkipObjectResolution)
		if err != nil {
			panic(err)
		}
		files = append(files, f)
	}
	sources.Store(folder, files)
	return files
}

// constants returns how many values an enumeration has: one more than the last of
// its constants, which are declared with iota or iota + 1.
func constants(t reflect.Type) int {
	_, folder, _ := strings.Cut(t.PkgPath(), "/posthaste/")
	for _, f := range parse(folder) {
		for _, d := range f.Decls {
			if g, ok := d.(*ast.GenDecl); ok && g.Tok == token.CONST {
				if n := valuesIn(g, t.Name()); n > 0 {
					return n
				}
			}
		}
	}
	panic(fmt.Sprintf("%v is no enumeration", t))
}

// valuesIn returns how many values a declaration gives an enumeration, 0 if it
// is not the enumeration's.
func valuesIn(g *ast.GenDecl, name string) int {
	first := g.Specs[0].(*ast.ValueSpec)
	if id, ok := first.Type.(*ast.Ident); !ok || id.Name != name {
		return 0
	}
	n := 0
	if _, isIota := first.Values[0].(*ast.Ident); !isIota {
		n = 1 // iota + 1: 0 means nothing
	}
	for i, s := range g.Specs {
		if s := s.(*ast.ValueSpec); i > 0 && len(s.Values) > 0 {
			continue // it counts the others
		}
		if ast.IsExported(s.(*ast.ValueSpec).Names[0].Name) {
			n++
		}
	}
	return n
}
