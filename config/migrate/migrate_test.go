package migrate_test

import (
	"fmt"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"strings"
	"testing"

	"github.com/posthaste-mta/posthaste/config"
	"github.com/posthaste-mta/posthaste/config/maincf"
	"github.com/posthaste-mta/posthaste/config/migrate"
	"github.com/posthaste-mta/posthaste/internal/golden"
)

// translate translates files of Postfix. Maps are found by the last part of their names.
func translate(files map[string]string, credentials string) (*migrate.Result, *maincf.Main, []maincf.Service) {
	main, problems := maincf.ParseMain("main.cf", files["main.cf"])
	in := migrate.Input{Main: main, Problems: problems, Credentials: credentials, Environment: config.Environment{Hostname: "host.example.com"},
		Read: func(_ string, t maincf.Table) (string, string, error) {
			name := path.Base(t.Name)
			if text, ok := files[name]; ok && name != "main.cf" {
				return name, text, nil
			}
			return "", "", fs.ErrNotExist
		}}
	if text, ok := files["master.cf"]; ok {
		var more []maincf.Problem
		in.Services, more = maincf.ParseMaster("master.cf", text)
		in.Problems = append(in.Problems, more...)
	}
	return migrate.Translate(in), main, in.Services
}

// remarks returns remarks as the golden files have them.
func remarks(all []migrate.Remark) string {
	var b strings.Builder
	for _, r := range all {
		fmt.Fprintf(&b, "%s\n", [...]string{"not understood", "lost", "different", "to do"}[r.Kind])
		for _, at := range r.At {
			fmt.Fprintf(&b, "  %s\n", at)
		}
		if r.Text != "" {
			fmt.Fprintf(&b, "    %s\n", r.Text)
		}
	}
	return b.String()
}

func read(t *testing.T, dir string) map[string]string {
	files := map[string]string{}
	entries, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range entries {
		text, err := os.ReadFile(filepath.Join(dir, e.Name()))
		if err != nil {
			t.Fatal(err)
		}
		files[e.Name()] = string(text)
	}
	return files
}

// Configurations of the kinds that guides describe: what becomes of each is in result.toml, remarks.txt
// and credentials.toml beside it. Package config accepts each result, and no line of main.cf is lost
// without a word.
func TestConfigurations(t *testing.T) {
	dirs, err := filepath.Glob("testdata/configurations/*")
	if err != nil || len(dirs) < 12 {
		t.Fatalf("%d configurations: %v", len(dirs), err)
	}
	for _, dir := range dirs {
		t.Run(filepath.Base(dir), func(t *testing.T) {
			files := read(t, dir)
			r, main, services := translate(files, "/etc/posthaste/credentials.toml")
			golden.File(t, filepath.Join(dir, "result.toml"), r.TOML)
			golden.File(t, filepath.Join(dir, "remarks.txt"), remarks(r.Remarks))
			if r.Credentials != "" || files["credentials.toml"] != "" {
				golden.File(t, filepath.Join(dir, "credentials.toml"), r.Credentials)
			}
			if _, err := config.Parse("result.toml", []byte(r.TOML), config.Environment{Hostname: "host.example.com"}); err != nil {
				t.Error(err)
			}
			accounted(t, r, main, services)
		})
	}
}

// accounted checks that each line of main.cf, and each service, is in the result or in a remark.
func accounted(t *testing.T, r *migrate.Result, main *maincf.Main, services []maincf.Service) {
	t.Helper()
	said := r.TOML + remarks(r.Remarks)
	for _, e := range main.Entries {
		if line := fmt.Sprintf("%s:%d: %s =", e.File, e.Line, e.Name); !strings.Contains(said, line) {
			t.Errorf("nothing is said of %s", line)
		}
	}
	for _, s := range services {
		if line := fmt.Sprintf("%s:%d: %s %s", s.File, s.Line, s.Name, s.Type); !strings.Contains(said, line) {
			t.Errorf("nothing is said of %s", line)
		}
		for _, o := range s.Options {
			if line := fmt.Sprintf("%s:%d: %s … -o %s", o.File, o.Line, s.Name, o.Name); !strings.Contains(said, line) && o.Name != "syslog_name" && s.Command != "pipe" {
				t.Errorf("nothing is said of %s", line)
			}
		}
	}
}
