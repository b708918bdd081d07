package mtasts

import (
	"errors"
	"fmt"
	"reflect"
	"strings"
	"testing"
	"time"
)

// show renders a policy on one line.
func show(p Policy) string {
	return fmt.Sprintf("%s %v %v", p.Mode, p.MX, p.MaxAge)
}

// RFC 8461 3.2: what is a policy and what is none (row B-138).
func TestParsePolicy(t *testing.T) {
	const good = "enforce [mx.example.com] 24h0m0s"
	long := strings.Repeat("a", 63)
	for _, c := range []struct {
		name, text, want string // want is "" for an invalid one
	}{
		{"LF", "version: STSv1\nmode: enforce\nmx: mx.example.com\nmax_age: 86400\n", good},
		{"CRLF", "version: STSv1\r\nmode: enforce\r\nmx: mx.example.com\r\nmax_age: 86400\r\n", good},
		{"no last end of line", "version: STSv1\nmode: enforce\nmx: mx.example.com\nmax_age: 86400", good},
		{"no space, much space", "version:STSv1\nmode:  \t enforce \nmx:mx.example.com\t\nmax_age:86400  \n", good},
		{"another order", "max_age: 86400\nmx: mx.example.com\nmode: enforce\nversion: STSv1\n", good},
		{"empty lines", "\nversion: STSv1\n\r\nmode: enforce\nmx: mx.example.com\nmax_age: 86400\n\n", good},
		{"unknown fields", "version: STSv1\nmode: enforce\nx-y: z:1\nx-y: \u00fc\nmx: mx.example.com\nmax_age: 86400\n", good},
		{"later ones do not count", "version: STSv1\nmode: enforce\nmode: none\nmx: mx.example.com\nmax_age: 86400\nmax_age: 1\nversion: STSv2\n", good},
		{"upper-case host", "version: STSv1\nmode: enforce\nmx: MX.Example.COM\nmax_age: 86400\n", good},
		{"several hosts", "version: STSv1\nmode: testing\nmx: a.example\nmx: *.b.example\nmax_age: 1\n", "testing [a.example *.b.example] 1s"},
		{"none without hosts", "version: STSv1\nmode: none\nmax_age: 0\n", "none [] 0s"},
		{"longest", "version: STSv1\nmode: none\nmax_age: 31557600\n", "none [] 8766h0m0s"},
		{"leading zeros", "version: STSv1\nmode: none\nmax_age: 0000000001\n", "none [] 1s"},

		{"nothing", "", ""},
		{"HTML", "<!DOCTYPE html>\n<html><body>404</body></html>\n", ""},
		{"no version", "mode: none\nmax_age: 1\n", ""},
		{"later version", "version: STSv2\nmode: none\nmax_age: 1\n", ""},
		{"other case of the version", "version: stsv1\nmode: none\nmax_age: 1\n", ""},
		{"no mode", "version: STSv1\nmx: a.example\nmax_age: 1\n", ""},
		{"unknown mode", "version: STSv1\nmode: strict\nmx: a.example\nmax_age: 1\n", ""},
		{"other case of the mode", "version: STSv1\nmode: Enforce\nmx: a.example\nmax_age: 1\n", ""},
		{"no max_age", "version: STSv1\nmode: enforce\nmx: a.example\n", ""},
		{"negative max_age", "version: STSv1\nmode: none\nmax_age: -1\n", ""},
		{"above the limit", "version: STSv1\nmode: none\nmax_age: 31557601\n", ""},
		{"too many digits", "version: STSv1\nmode: none\nmax_age: 00000000001\n", ""},
		{"overflow", "version: STSv1\nmode: none\nmax_age: 9999999999\n", ""},
		{"a fraction", "version: STSv1\nmode: none\nmax_age: 1.5\n", ""},
		{"no hosts", "version: STSv1\nmode: enforce\nmax_age: 1\n", ""},
		{"no hosts in testing", "version: STSv1\nmode: testing\nmax_age: 1\n", ""},
		{"B-138 a star alone", "version: STSv1\nmode: enforce\nmx: *\nmax_age: 1\n", ""},
		{"a star among hosts", "version: STSv1\nmode: enforce\nmx: a.example\nmx: *\nmax_age: 1\n", ""},
		{"a star and a dot", "version: STSv1\nmode: enforce\nmx: *.\nmax_age: 1\n", ""},
		{"two stars", "version: STSv1\nmode: enforce\nmx: *.*.example\nmax_age: 1\n", ""},
		{"a star in a label", "version: STSv1\nmode: enforce\nmx: m*.example\nmax_age: 1\n", ""},
		{"a star further right", "version: STSv1\nmode: enforce\nmx: a.*.example\nmax_age: 1\n", ""},
		{"two hosts in a line", "version: STSv1\nmode: enforce\nmx: a.example b.example\nmax_age: 1\n", ""},
		{"a dot before", "version: STSv1\nmode: enforce\nmx: .a.example\nmax_age: 1\n", ""},
		{"a dot behind", "version: STSv1\nmode: enforce\nmx: a.example.\nmax_age: 1\n", ""},
		{"not ASCII", "version: STSv1\nmode: enforce\nmx: \u00fc.example\nmax_age: 1\n", ""},
		{"long label", "version: STSv1\nmode: enforce\nmx: a" + long + ".example\nmax_age: 1\n", ""},
		{"long name", "version: STSv1\nmode: enforce\nmx: " + strings.Repeat(long+".", 4) + "a\nmax_age: 1\n", ""},
		{"hyphen", "version: STSv1\nmode: enforce\nmx: -a.example\nmax_age: 1\n", ""},
		{"no colon", "version: STSv1\nmode: none\nmax_age: 1\nhello\n", ""},
		{"no value", "version: STSv1\nmode: none\nmax_age: 1\nx:\n", ""},
		{"space before the colon", "version : STSv1\nmode: none\nmax_age: 1\n", ""},
		{"bare CR", "version: STSv1\rmode: none\rmax_age: 1\r", ""},
		{"NUL", "version: STSv1\nmode: none\nmax_age: 1\nx: \x00\n", ""},
		{"byte order mark", "\ufeffversion: STSv1\nmode: none\nmax_age: 1\n", ""},
		{"too long", "version: STSv1\nmode: none\nmax_age: 1\nx: " + strings.Repeat("y", SizeMax-len("version: STSv1\nmode: none\nmax_age: 1\nx: ")+1), ""},
	} {
		p, err := ParsePolicy([]byte(c.text))
		switch {
		case c.want == "" && !errors.Is(err, ErrPolicy):
			t.Errorf("%s: accepted as %s, %v", c.name, show(p), err)
		case c.want != "" && (err != nil || show(p) != c.want):
			t.Errorf("%s: %s, %v", c.name, show(p), err)
		}
	}
	const short = "version: STSv1\nmode: none\nmax_age: 1\nx: "
	if p, err := ParsePolicy([]byte(short + strings.Repeat("y", SizeMax-len(short)))); err != nil {
		t.Errorf("at the limit: %s, %v", show(p), err)
	}
}

// RFC 8461 4.1: a star stands for the leftmost label and no more.
func TestMatches(t *testing.T) {
	p := Policy{MX: []string{"mx1.example.com", "*.mail.example.com"}}
	for mx, want := range map[string]bool{
		"mx1.example.com": true, "MX1.EXAMPLE.COM.": true, "a.mail.example.com": true, "A.Mail.Example.com": true,
		"mx2.example.com": false, "x.mx1.example.com": false, "example.com": false,
		"mail.example.com": false, "a.b.mail.example.com": false, ".mail.example.com": false, "*.mail.example.com": true,
		"mail.example.com.evil.example": false, "amail.example.com": false, "": false, ".": false, "com": false,
	} {
		if p.Matches(mx) != want {
			t.Errorf("%q: %v", mx, !want)
		}
	}
	if (Policy{}).Matches("mx1.example.com") {
		t.Error("a policy without hosts permits one")
	}
}

// matchesTwin is RFC 8461 4.1 label by label.
func matchesTwin(patterns []string, mx string) bool {
	labels := strings.Split(strings.ToLower(strings.TrimSuffix(mx, ".")), ".")
	for _, pattern := range patterns {
		want := strings.Split(pattern, ".")
		same := len(want) == len(labels)
		for i := range want {
			same = same && (want[i] == labels[i] || i == 0 && want[0] == "*" && labels[0] != "")
		}
		if same {
			return true
		}
	}
	return false
}

// What is parsed obeys the limits, means the same when written anew, and matches what a
// comparison of labels does.
func FuzzParsePolicy(f *testing.F) {
	f.Add("version: STSv1\r\nmode: enforce\r\nmx: *.example.com\r\nmx: a.example\r\nmax_age: 86400\r\n", "a.example.com")
	f.Add("version: STSv1\nmode: none\nmax_age: 0\n", "")
	f.Add("version: STSv1\nmode: testing\nmx: *\nmax_age: 99999999999\nx:y", "a")
	f.Fuzz(func(t *testing.T, text, mx string) {
		p, err := ParsePolicy([]byte(text))
		if err != nil {
			if !errors.Is(err, ErrPolicy) || !reflect.DeepEqual(p, Policy{}) {
				t.Fatalf("%+v, %v", p, err)
			}
			return
		}
		if p.MaxAge < 0 || p.MaxAge > MaxAgeMax || p.MaxAge%time.Second != 0 || p.Mode > Enforce || len(p.MX) == 0 && p.Mode != None {
			t.Errorf("%+v", p)
		}
		again, err := ParsePolicy([]byte(strings.Join(p.Lines(), "\n")))
		if err != nil || !reflect.DeepEqual(p, again) {
			t.Errorf("%+v became %+v, %v", p, again, err)
		}
		if p.Matches(mx) != matchesTwin(p.MX, mx) {
			t.Errorf("%q and %q: %v", p.MX, mx, p.Matches(mx))
		}
	})
}
