package maincf

import (
	"fmt"
	"net/netip"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func texts(all []Problem) (lines []string) {
	for _, p := range all {
		lines = append(lines, p.Error())
	}
	return lines
}

// A main.cf as it has grown over the years: comments, continued lines with comments between
// them, a parameter that was set twice, and a line without its "=".
func TestParseMain(t *testing.T) {
	m, wrong := ParseMain("main.cf", "\ufeff# a comment\r\n"+
		"myhostname = mail.example.com\r\n"+
		"\n"+
		"mynetworks = 127.0.0.0/8\n"+
		"  # not now: 10.0.0.0/8\n"+
		"\n"+
		"\t192.0.2.0/24,   \n"+
		"    [::1]/128\n"+
		"relayhost=\n"+
		"  \t \n"+
		"myhostname=other.example.com  \n"+
		"smtp_tls_security_level may\n"+
		" = 5\n"+ // continues the line above
		"= 5\n"+
		"two words = 5\n"+
		"x = a=b=c\n")
	want := []Entry{
		{"myhostname", "other.example.com", "main.cf", 11},
		{"mynetworks", "127.0.0.0/8 192.0.2.0/24,    [::1]/128", "main.cf", 4},
		{"relayhost", "", "main.cf", 9},
		{"x", "a=b=c", "main.cf", 16},
	}
	if diff := cmp.Diff(want, m.Entries); diff != "" {
		t.Error(diff)
	}
	wantProblems := []string{
		`main.cf:11: myhostname is set again; the value in line 2 does not count`,
		`main.cf:12: "smtp_tls_security_level may" is not the name of a parameter: there is a space in it`,
		`main.cf:14: the name of a parameter is missing before the =`,
		`main.cf:15: "two words" is not the name of a parameter: there is a space in it`,
	}
	if diff := cmp.Diff(wantProblems, texts(wrong)); diff != "" {
		t.Error(diff)
	}
	if _, ok := m.Get("mydomain"); ok {
		t.Error("a parameter that is not there is set")
	}
	if e, ok := m.Get("relayhost"); !ok || e.Value != "" {
		t.Error("a parameter without a value is not set")
	}
}

// Files that are no main.cf say so in few words, and nothing of them is read.
func TestParseMainRefuses(t *testing.T) {
	for text, want := range map[string]string{
		"a = b\x00c":                    "f:1: this is not a text: there is a byte 0 in it",
		"a = b\n\n\x00":                 "f:3: this is not a text: there is a byte 0 in it",
		"a = \xff":                      "f:1: the line is not UTF-8",
		"# \xff\na = b":                 "",
		"a = \x1b[2J":                   "f:1: there is a control character in the line",
		"  a = b":                       "f:1: this line continues another one, and there is none before it",
		"nothing":                       `f:1: "nothing" is not "name = value"`,
		"a = " + long("b ") + "\nb = c": "f:1: the line is longer than 262144 bytes with those that continue it",
		"a = b\n" + strings.Repeat(" "+strings.Repeat("x", 1000)+"\n", 300): "f:1: the line is longer than 262144 bytes with those that continue it",
	} {
		_, wrong := ParseMain("f", text)
		if got := strings.Join(texts(wrong), "\n"); got != want {
			t.Errorf("%.40q: %s\nwant %s", text, got, want)
		}
	}
	_, wrong := ParseMain("f", strings.Repeat("x\n", 1000))
	if n := len(wrong); n != problemsMax+1 || wrong[n-1].Error() != "f: 950 more problems" {
		t.Errorf("%d problems, the last of them %v", n, wrong[n-1])
	}
}

func long(s string) string { return strings.Repeat(s, LineMax/len(s)+1) }

// What stands for references, as `postconf -x` of Postfix 3.7 shows it.
func TestExpand(t *testing.T) {
	values := map[string]string{
		"a": "1", "b": "$a$a", "empty": "", "host": "mail.$domain", "domain": "example.com", "stress": "",
		"big": "10", "small": "9", "self": "x${self}", "p": "$q", "q": "${r?$p}", "r": "1",
	}
	look := func(name string) (string, bool) { v, ok := values[name]; return v, ok }
	for value, want := range map[string]string{
		"plain":                            "plain",
		"$host, localhost.$domain":         "mail.example.com, localhost.example.com",
		"${b}-$(b)-$b.c":                   "11-11-11.c",
		"$$a $${a}":                        "$a ${a}",
		"<$empty$unknown>":                 "<>",
		"${stress?10}${stress:20}s":        "20s",
		"${stress?{10}:{300}}s":            "300s",
		"${a?{ x }:{ y }}":                 "x",
		"${a ? {x} : {y}}":                 "x",
		"${empty?x:y}":                     "",
		"${a?x:y}":                         "x:y",
		"${a?{x}:y$a}":                     "x",
		"${empty?{x}:y$a}":                 "y1",
		"${a:{z}}":                         "",
		"${empty:{z$a}}":                   "z1",
		"${{$big} > {$small} ? {b} : {s}}": "b",
		"${{x10} > {x9} ? {b} : {s}}":      "s",
		"${{$a} == {1}}":                   "true",
		"${{$a} != {1}}":                   "",
		"${{a}<{b}?{yes}}":                 "yes",
		"${{2}<={10}?{yes}}":               "yes",
		"${{2}>={10}?{yes}:no}":            "no",
		"${ a }":                           "1",
		"${a?${b?{$host}}}":                "mail.example.com",
	} {
		if got, err := Expand(value, look); err != nil || got != want {
			t.Errorf("%s: %q %v, want %q", value, got, err, want)
		}
	}
	for value, want := range map[string]string{
		"$":               "a $ at the end names no parameter",
		"a $ b":           `the $ in "$ b" names no parameter`,
		"${}":             "names no parameter",
		"${a":             `"${a" is not closed`,
		"$(a":             `"$(a" is not closed`,
		"${a b}":          `"${a b}" is neither a name nor a condition`,
		"${f{x}}":         `"${f{x}}" is neither a name nor a condition`,
		"${{a} ~ {b}}":    `there is no comparison such as == behind "{a}"`,
		"${{a} == b}":     `the comparison "==b" is not known here`,
		"${{a} ==xt {b}}": `the comparison "==xt" is not known here`,
		"${{a} == }":      "there is no {text} behind ==",
		"${{a} == {b} x}": `there is neither ? nor : before "x"`,
		"${a?{b}c}":       `"c" is not understood behind a condition`,
		"${a:{b}:{c}}":    `":{c}" is not understood behind a condition`,
		"${a?{b}:{c}d}":   "is not understood behind a condition",
		"$self":           "parameters refer to each other: self -> self",
		"$p":              "parameters refer to each other: p -> q -> p",
	} {
		if got, err := Expand(value, look); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %q %v, want %s", value, got, err, want)
		}
	}
}

// Values that would fill the memory, or take for ever, end with an error.
func TestExpandIsBounded(t *testing.T) {
	values := map[string]string{"a0": strings.Repeat("x", 1000)}
	for i := range 99 {
		values[fmt.Sprint("a", i+1)] = strings.Repeat(fmt.Sprintf("$a%d", i), 10)
	}
	look := func(name string) (string, bool) { v, ok := values[name]; return v, ok }
	for value, want := range map[string]string{
		"$a9":  "longer than 262144 bytes",
		"$a95": "longer than 262144 bytes",
		"${{$a2}=={$a2}?{x}}" + strings.Repeat("${{$a2}=={$a2}?{x}}", 100): "longer than 262144 bytes",
		strings.Repeat("$unknown", stepsMax+1):                             "more than 10000 references",
		strings.Repeat("${a0?{", 120) + strings.Repeat("}}", 120):          "more than 100 references within each other",
	} {
		if _, err := Expand(value, look); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%.40s: %v, want %s", value, err, want)
		}
	}
}

func TestNames(t *testing.T) {
	got := Names("$a ${b?{$c}:{$d}} $(e) ${{$f}=={g}?{$h}} $a $$i")
	if diff := cmp.Diff([]string{"a", "b", "c", "d", "e", "f", "h"}, got); diff != "" {
		t.Error(diff)
	}
}

// A master.cf with the options that administrators add, in all the ways in which they can be
// written.
func TestParseMaster(t *testing.T) {
	all, wrong := ParseMaster("master.cf", `
# service type  private unpriv  chroot  wakeup  maxproc command + args
smtp      inet  n       -       y       -       -       smtpd
submission inet n - y - 10 smtpd
  -o syslog_name=postfix/submission
#  -o smtpd_etrn_restrictions=reject
  -o { smtpd_client_restrictions = permit_sasl_authenticated, reject }
  -osmtpd_tls_security_level=may -o smtpd_tls_security_level=encrypt
slow      unix  -       -       n       -       2       smtp -v -o smtp_bind_address=192.0.2.1
maildrop  unix  -       n       n       -       -       pipe
  flags=DRXhu user=vmail argv=/usr/bin/maildrop -d ${recipient} -o { a b }
short     unix  -       n
odd       tcp   -       -       n       -       -       smtp
bad       unix  -       -       n       -       -       smtp -o name -o = -o
slow      unix  -       -       n       -       3       smtp
`)
	want := []Service{
		{Name: "smtp", Type: "inet", Limit: "-", Command: "smtpd", File: "master.cf", Line: 3},
		{Name: "submission", Type: "inet", Limit: "10", Command: "smtpd", File: "master.cf", Line: 4, Options: []Entry{
			{"syslog_name", "postfix/submission", "master.cf", 4},
			{"smtpd_client_restrictions", "permit_sasl_authenticated, reject", "master.cf", 4},
			{"smtpd_tls_security_level", "may", "master.cf", 4}, {"smtpd_tls_security_level", "encrypt", "master.cf", 4},
		}},
		{Name: "slow", Type: "unix", Limit: "3", Command: "smtp", File: "master.cf", Line: 15},
		{Name: "maildrop", Type: "unix", Limit: "-", Command: "pipe", File: "master.cf", Line: 10,
			Args: []string{"flags=DRXhu", "user=vmail", "argv=/usr/bin/maildrop", "-d", "${recipient}", "-o", "a b"}},
		{Name: "bad", Type: "unix", Limit: "-", Command: "smtp", File: "master.cf", Line: 14},
	}
	if diff := cmp.Diff(want, all); diff != "" {
		t.Error(diff)
	}
	wantProblems := []string{
		`master.cf:12: "short     unix  -       n" is not a service: it has 4 columns, and a service has 8 or more (name, type, private, unprivileged, chroot, wakeup, processes, command)`,
		`master.cf:13: "tcp" is not a type of service: it is one of inet, unix, unix-dgram, fifo, pass`,
		`master.cf:14: -o "name" of the service bad is not name=value`,
		`master.cf:14: -o "=" of the service bad is not name=value`,
		`master.cf:14: the last -o of the service bad has nothing behind it`,
		`master.cf:15: the service slow of type unix is there again; that of line 9 does not count`,
	}
	if diff := cmp.Diff(wantProblems, texts(wrong)); diff != "" {
		t.Error(diff)
	}
	if e, ok := all[1].Option("smtpd_tls_security_level"); !ok || e.Value != "encrypt" {
		t.Errorf("the last option does not count: %v", e)
	}
}

func TestParseTables(t *testing.T) {
	all, err := ParseTables("hash:/etc/postfix/a, proxy:pcre:/etc/postfix/b example.com !10.0.0.1 [::1]/128 static:{ a b } inline:{ x=1, { y = 2 3 } } cidr:/c $none /file regexp:/r")
	if err != nil {
		t.Fatal(err)
	}
	want := []Table{
		{Type: "hash", Name: "/etc/postfix/a"}, {Type: "pcre", Name: "/etc/postfix/b"}, {Name: "example.com"}, {Name: "10.0.0.1", Not: true}, {Name: "[::1]/128"},
		{Type: "static", Name: "a b"}, {Type: "inline", Name: "{ x=1, { y = 2 3 } }", Pairs: []Pair{{Key: "x", Value: "1"}, {Key: "y", Value: "2 3"}}},
		{Type: "cidr", Name: "/c"}, {Name: "$none"}, {Name: "/file"}, {Type: "regexp", Name: "/r"},
	}
	if diff := cmp.Diff(want, all); diff != "" {
		t.Error(diff)
	}
	if got := all[5].String() + " " + all[6].String() + " " + all[0].String(); got != "static:… inline:… hash:/etc/postfix/a" {
		t.Error("a map with its entries in it is shown as", got)
	}
	for value, want := range map[string]string{
		"inline:{ [relay]:587=mia:secret }": "", "inline:{mia secret}": "item 1 of an inline map is not key=value", "inline:x": "an inline map is written", "inline:{ a=b": "an inline map is written",
	} {
		_, err := ParseTables(value)
		if (err == nil) != (want == "") || err != nil && (!strings.Contains(err.Error(), want) || strings.Contains(err.Error(), "secret")) {
			t.Errorf("%s: %v", value, err)
		}
	}
}

// The texts of maps, as postmap, newaliases and Postfix itself read them.
func TestSources(t *testing.T) {
	pairs, wrong := ParseSource("f", "# x\nexample.com   smtp:[a]:25\n \"a b\"@c  x\n\"a b\"@example.com\ty  z\nEXAMPLE.com error:\nalone\n")
	if diff := cmp.Diff([]Pair{{"example.com", `smtp:[a]:25 "a b"@c  x`, 2}, {`"a b"@example.com`, "y  z", 4}}, pairs); diff != "" {
		t.Error(diff)
	}
	if diff := cmp.Diff([]string{"f:5: this key is in line 2, too, which counts", "f:6: the key has no value behind it"}, texts(wrong)); diff != "" {
		t.Error(diff)
	}
	pairs, wrong = ParseAliases("f", "root: mia, \n  joe\n\"a:b\" : c\nMAILER-DAEMON:postmaster\nnobody\n\"x\n: y\n")
	if diff := cmp.Diff([]Pair{{"root", "mia,  joe", 1}, {"a:b", "c", 3}, {"MAILER-DAEMON", "postmaster", 4}}, pairs); diff != "" {
		t.Error(diff)
	}
	if len(wrong) != 3 {
		t.Error(texts(wrong))
	}
	expressions, wrong := ParseExpressions("f", "/^a\\/b/  REJECT x y\nif /c/\n!/d/i  OK\nendif\n|e|xU HOLD\n/f/\n/g\nh i\n")
	if diff := cmp.Diff([]Expression{{Pattern: `^a\/b`, Value: "REJECT x y", Line: 1}, {Pattern: "d", Flags: "i", Not: true, Value: "OK", Within: true, Line: 3}, {Pattern: "e", Flags: "xU", Value: "HOLD", Line: 5}, {Pattern: "f", Line: 6}}, expressions); diff != "" {
		t.Error(diff)
	}
	if diff := cmp.Diff([]string{"f:7: the expression has no / at its end", `f:8: "h i" does not begin with an expression such as /^joe@/`}, texts(wrong)); diff != "" {
		t.Error(diff)
	}
	networks, wrong := ParseNetworks("f", "192.0.2.0/24 OK\n2001:db8::/32 REJECT no\n!10.0.0.1 OK\nif 10.0.0.0/8\n10.1.0.0/16 DUNNO\nendif\n192.0.2.1/24 OK\nexample.com OK\n")
	if diff := cmp.Diff([]Network{{Prefix: netip.MustParsePrefix("192.0.2.0/24"), Value: "OK", Line: 1}, {Prefix: netip.MustParsePrefix("2001:db8::/32"), Value: "REJECT no", Line: 2},
		{Prefix: netip.MustParsePrefix("10.0.0.1/32"), Not: true, Value: "OK", Line: 3}, {Prefix: netip.MustParsePrefix("10.1.0.0/16"), Value: "DUNNO", Within: true, Line: 5}}, networks,
		cmp.Comparer(func(a, b netip.Prefix) bool { return a == b })); diff != "" {
		t.Error(diff)
	}
	if len(wrong) != 2 {
		t.Error(texts(wrong))
	}
	for s, want := range map[string]string{"[::1]/128": "::1/128", "[2001:db8::]/32": "2001:db8::/32", "[::1]": "::1/128", "127.0.0.1": "127.0.0.1/32", "[::ffff:127.0.0.0]/104": "127.0.0.0/8", "::ffff:10.1.2.3": "10.1.2.3/32"} {
		if p, ok := ParseNetwork(s); !ok || p.String() != want {
			t.Errorf("%s: %v", s, p)
		}
	}
	for _, s := range []string{"", "[", "[]", "fe80::1%eth0", "10.0.0.0/33", "10.0.0.1/8", "x"} {
		if p, ok := ParseNetwork(s); ok {
			t.Errorf("%s: %v", s, p)
		}
	}
}

// No text breaks a reader, and what one has read can be expanded.
func FuzzParse(f *testing.F) {
	for i, text := range []string{
		"a = $b ${c?{d}:{e}}\n  $(f)\n#\nb=${{1}<{2}?x}\n", "smtp inet n - y - - smtpd\n -o { a = b }\n -o c=d\n", "hash:/a, !inline:{a=b, { c = d }} static:{x}",
		"\"a b\"@c d\n e\n", "root: |\"x\"\n", "!/a\\/b/i c\nif /d/\nendif\n", "!10.0.0.0/8 x\n", "[::1]/128",
	} {
		f.Add(byte(i), text)
	}
	f.Fuzz(func(t *testing.T, which byte, text string) {
		switch which % 8 {
		case 0:
			m, _ := ParseMain("f", text)
			look := func(name string) (string, bool) { e, ok := m.Get(name); return e.Value, ok }
			for _, e := range m.Entries {
				got, err := Expand(e.Value, look)
				if err == nil && len(got) > ExpandedMax {
					t.Errorf("%s has %d bytes", e.Name, len(got))
				}
				Names(e.Value)
			}
		case 1:
			all, _ := ParseMaster("f", text)
			for _, s := range all {
				if s.Name == "" || s.Command == "" {
					t.Errorf("a service without a name or command: %+v", s)
				}
			}
		case 2:
			if all, err := ParseTables(text); err == nil {
				for _, one := range all {
					_ = one.String()
				}
			}
		case 3:
			ParseSource("f", text)
		case 4:
			ParseAliases("f", text)
		case 5:
			ParseExpressions("f", text)
		case 6:
			ParseNetworks("f", text)
		case 7:
			if p, ok := ParseNetwork(text); ok && !p.IsValid() {
				t.Errorf("%q: %v", text, p)
			}
		}
	})
}
