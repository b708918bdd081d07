package event

import (
	"os"
	"regexp"
	"strings"
	"testing"
)

// Programs that read the log are written by the documentation and the schema, so both are made of the declarations.
// UPDATE=1 writes them.
func TestDocumentationIsUpToDate(t *testing.T) {
	const schema, doc = "../../contrib/log.schema.json", "../../docs/log.md"
	const begin, end = "<!-- events: made by UPDATE=1 go test ./internal/event -->\n", "<!-- end of events -->\n"
	text, err := os.ReadFile(doc)
	if err != nil {
		t.Fatal(err)
	}
	head, rest, ok := strings.Cut(string(text), begin)
	_, tail, ended := strings.Cut(rest, end)
	if !ok || !ended {
		t.Fatalf("%s has no place for the events", doc)
	}
	want := map[string]string{schema: string(Schema()), doc: head + begin + "\n" + Markdown() + "\n" + end + tail}
	for path, text := range want {
		if os.Getenv("UPDATE") != "" {
			if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
				t.Fatal(err)
			}
		}
		if got, err := os.ReadFile(path); err != nil || string(got) != text {
			t.Errorf("%s is not what the declarations say (%v); run UPDATE=1 go test ./internal/event", path, err)
		}
	}
}

// A field has one type wherever it occurs, and a name that needs no quotation marks in a query; each event and field is described.
func TestDeclarationsAgree(t *testing.T) {
	types := map[string]Type{}
	name := regexp.MustCompile(`^[a-z][a-z_]*$`)
	kinds := append(Kinds(), streamKinds...)
	seen := map[string]bool{}
	for _, k := range kinds {
		if seen[k.Name] || k.Meaning == "" || k.Level == "" {
			t.Errorf("%+v is declared twice, or not described", k)
		}
		seen[k.Name] = true
		own := map[string]bool{}
		for _, f := range k.Fields {
			if before := types[f.Name]; before != 0 && before != f.Type {
				t.Errorf("%s is %v in %s and %v elsewhere", f.Name, f.Type, k.Name, before)
			}
			if types[f.Name] = f.Type; !name.MatchString(f.Name) || f.Meaning == "" || own[f.Name] || f.Name == "time" || f.Name == "level" || f.Name == "msg" {
				t.Errorf("%s: %+v", k.Name, f)
			}
			own[f.Name] = true
		}
	}
}
