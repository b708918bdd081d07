package mtasts

import (
	"errors"
	"strings"
	"testing"
)

// RFC 8461 3.1: what TXT records announce a policy.
func TestParseRecords(t *testing.T) {
	for _, c := range []struct {
		name  string
		texts []string
		id    string
		err   error
	}{
		{"plain", []string{"v=STSv1; id=20160831085700Z;"}, "20160831085700Z", nil},
		{"no space, no end", []string{"v=STSv1;id=1"}, "1", nil},
		{"spaces and tabs", []string{"v=STSv1; \t id=1 \t ; "}, "1", nil},
		{"extension", []string{"v=STSv1; a.b-c_d=x/y,z; id=1; z=1"}, "1", nil},
		{"among others", []string{"spf or so", "v=STSv1; id=1", "v=STSv2; id=2", "v=STSv1"}, "1", nil},
		{"longest id", []string{"v=STSv1; id=" + strings.Repeat("a", 32)}, strings.Repeat("a", 32), nil},

		{"none", nil, "", ErrNoRecord},
		{"others only", []string{"v=spf1 -all", ""}, "", ErrNoRecord},
		{"other case of the version", []string{"V=STSv1; id=1"}, "", ErrNoRecord},
		{"space before", []string{" v=STSv1; id=1"}, "", ErrNoRecord},
		{"version without end", []string{"v=STSv1 id=1"}, "", ErrNoRecord},
		{"later version", []string{"v=STSv10; id=1"}, "", ErrNoRecord},
		{"two", []string{"v=STSv1; id=1", "v=STSv1; id=2"}, "", ErrRecords},
		{"two equal ones", []string{"v=STSv1; id=1", "v=STSv1; id=1"}, "", ErrRecords},
		{"one malformed, one good", []string{"v=STSv1;", "v=STSv1; id=1"}, "", ErrRecords},
		{"one good, one malformed", []string{"v=STSv1; id=1", "v=STSv1;"}, "", ErrRecords},
		{"no id", []string{"v=STSv1;"}, "", ErrRecord},
		{"only an extension", []string{"v=STSv1; x=1;"}, "", ErrRecord},
		{"empty id", []string{"v=STSv1; id=;"}, "", ErrRecord},
		{"upper-case name", []string{"v=STSv1; ID=1;"}, "", ErrRecord},
		{"long id", []string{"v=STSv1; id=" + strings.Repeat("a", 33)}, "", ErrRecord},
		{"odd id", []string{"v=STSv1; id=a-b"}, "", ErrRecord},
		{"space in the id", []string{"v=STSv1; id=a b"}, "", ErrRecord},
		{"space before =", []string{"v=STSv1; id =1"}, "", ErrRecord},
		{"two ids", []string{"v=STSv1; id=1; id=2"}, "", ErrRecord},
		{"empty field", []string{"v=STSv1;; id=1"}, "", ErrRecord},
		{"two ends", []string{"v=STSv1; id=1;;"}, "", ErrRecord},
		{"no value", []string{"v=STSv1; id=1; x"}, "", ErrRecord},
		{"odd name", []string{"v=STSv1; id=1; -x=1"}, "", ErrRecord},
		{"long name", []string{"v=STSv1; id=1; " + strings.Repeat("x", 33) + "=1"}, "", ErrRecord},
		{"= in a value", []string{"v=STSv1; id=1; x=a=b"}, "", ErrRecord},
		{"NUL", []string{"v=STSv1; id=1; x=\x00"}, "", ErrRecord},
		{"line", []string{"v=STSv1; id=1\n"}, "", ErrRecord},
	} {
		if id, err := ParseRecords(c.texts); id != c.id || !errors.Is(err, c.err) {
			t.Errorf("%s: %q, %v", c.name, id, err)
		}
	}
}

// An id that comes out can be written into a record, a log line and the file.
func FuzzParseRecords(f *testing.F) {
	f.Add("v=STSv1; id=20160831085700Z;", "v=spf1 -all")
	f.Add("v=STSv1;a=b;id=1 ", "v=STSv1; id=2")
	f.Fuzz(func(t *testing.T, a, b string) {
		id, err := ParseRecords([]string{a, b})
		if (err == nil) != isID(id) {
			t.Fatalf("%q, %v", id, err)
		}
		if err != nil {
			return
		}
		if again, err := ParseRecords([]string{"v=STSv1; id=" + id}); again != id || err != nil {
			t.Errorf("%q became %q, %v", id, again, err)
		}
		if _, err := ParseRecords([]string{a, b, "v=STSv1; id=1"}); !errors.Is(err, ErrRecords) {
			t.Errorf("with one more: %v", err)
		}
	})
}
