package rewrite

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/posthaste-mta/posthaste/mail"
)

// A table is a map of keys.
type table map[string]string

func (t table) Find(key string) (string, bool) { v, ok := t[strings.ToLower(key)]; return v, ok }
func (table) Whole() bool                      { return false }

// A pattern is a map of whole addresses, as one of expressions is.
type pattern struct{ suffix, value string }

func (p pattern) Find(key string) (string, bool) { return p.value, strings.HasSuffix(key, p.suffix) }
func (pattern) Whole() bool                      { return true }

func rules(t testing.TB, cfg Config) *Rules {
	t.Helper()
	cfg.Origin = "origin.example"
	r, err := New(cfg)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

// Which entry is for an address, the most specific first, and what becomes of its extension.
func TestCanonical(t *testing.T) {
	maps := []Map{table{
		"joe+news@a.example": "newsletter@b.example", "joe@a.example": "joseph@b.example", "@a.example": "@c.example",
		"ann": "ann.smith@b.example", "bob+x": "bx", "bob": "robert", "@d.example": "all@d.example", `"j d"@e.example`: "jd@e.example",
		"one@f.example": "two@f.example", "two@f.example": "three@f.example", "round@g.example": "about@g.example", "about@g.example": "round@g.example",
		"self@h.example": "self@h.example", "q@i.example": `"q r"@i.example`, "utf@j.example": "jörg@j.example",
	}, pattern{"@regexp.example", "found@r.example"}, pattern{"joe@a.example", "never@x.example"}}
	r := rules(t, Config{Canonical: maps, Domains: []string{"Own.example"}, Delimiter: "+"})
	for a, want := range map[mail.Address]mail.Address{
		"": "", "joe+news@a.example": "newsletter@b.example", "Joe+Other@A.example": "joseph+Other@b.example", "joe@a.example": "joseph@b.example",
		"jane+x@a.example": "jane+x@c.example", "ann@origin.example": "ann.smith@b.example", "ann+z@own.example": "ann.smith+z@b.example", "ann@x.example": "ann@x.example",
		"bob+x@own.example": "bx@origin.example", "bob@own.example": "robert@origin.example", "joe@d.example": "all@d.example", `"j d"@e.example`: "jd@e.example",
		"one@f.example": "three@f.example", "self@h.example": "self@h.example", "q+e@i.example": `"q r+e"@i.example`, "utf@j.example": "utf@j.example",
		"jörg@a.example": "jörg@c.example", "x@regexp.example": "found@r.example", "+jim@a.example": "+jim@c.example",
	} {
		if got, err := r.Sender(a); err != nil || got != want {
			t.Errorf("%q: %q %v, want %q", a, got, err, want)
		}
	}
	if got, err := r.Sender("round@g.example"); !errors.Is(err, ErrEndless) {
		t.Errorf("a circle: %q %v", got, err)
	}
	if got := r.Header("round@g.example", true); got != "round@g.example" {
		t.Errorf("a circle in a header: %q", got)
	}
}

// Where maps and masquerading apply follows from the classes.
func TestClasses(t *testing.T) {
	r := rules(t, Config{
		CanonicalSenders: []Map{table{"a@h.x.example": "s@h.x.example"}}, CanonicalRecipients: []Map{table{"a@h.x.example": "r@h.x.example"}},
		Canonical: []Map{table{"s@h.x.example": "s2@h.x.example", "r@h.x.example": "r2@h.x.example"}}, CanonicalClasses: EnvelopeSender | HeaderRecipient,
		Masquerade: []string{"!keep.x.example", "X.example"}, MasqueradeExceptions: []string{"Root"},
	})
	sender, _ := r.Sender("a@h.x.example")
	recipients, _ := r.Expand("a@h.x.example")
	got := fmt.Sprint(sender, " ", recipients, " ", r.Header("a@h.x.example", true), " ", r.Header("a@h.x.example", false))
	if want := "s2@x.example [r@h.x.example] s@x.example r2@x.example"; got != want {
		t.Errorf("%s, want %s", got, want)
	}
	for a, want := range map[mail.Address]mail.Address{
		"b@x.example": "b@x.example", "b@H.X.example": "b@x.example", "b@g.keep.x.example": "b@g.keep.x.example", "b@keep.x.example": "b@keep.x.example",
		"ROOT@h.x.example": "ROOT@h.x.example", "b@yx.example": "b@yx.example", "b": "b",
	} {
		if got := r.Header(a, true); got != want {
			t.Errorf("%q: %q, want %q", a, got, want)
		}
	}
	if rules(t, Config{CanonicalClasses: EnvelopeSender, Canonical: []Map{table{}}}).RewritesHeaders() || !r.RewritesHeaders() {
		t.Error("it is not known whether headers are rewritten")
	}
	if !rules(t, Config{}).Idle() || r.Idle() || rules(t, Config{AlwaysBcc: "a@b.example"}).Idle() {
		t.Error("Idle does not report whether the rules change anything")
	}
}

// Aliases make several recipients of one, each of them once, and none is lost: a loop is an error,
// not an empty list.
func TestExpand(t *testing.T) {
	r := rules(t, Config{AliasLimit: 5, Delimiter: "+", Aliases: []Map{table{
		"team@a.example": "ann@a.example, bob@a.example,team@a.example", "all@a.example": "team@a.example  carl@a.example ann@a.example", "bob@a.example": "bob@b.example",
		"loop@a.example": "carl@a.example, loop2@a.example", "loop2@a.example": "loop@a.example", "many@a.example": "a b c d e", "toomany@a.example": "many@a.example f",
		"sales@a.example": "ann@b.example", "@c.example": "@d.example", "q@a.example": `"x, y"@b.example`, "twice@a.example": "twice@a.example TWICE@a.example",
	}}})
	for a, want := range map[mail.Address]string{
		"x@a.example": "x@a.example", "team@a.example": "ann@a.example bob@b.example team@a.example", "all@a.example": "ann@a.example bob@b.example team@a.example carl@a.example",
		"sales+x@a.example": "ann+x@b.example", "many@a.example": "a@origin.example b@origin.example c@origin.example d@origin.example e@origin.example",
		"u@c.example": "u@d.example", "q@a.example": `"x, y"@b.example`, "twice@a.example": "twice@a.example",
	} {
		all, err := r.Expand(a)
		if got := strings.Trim(fmt.Sprint(all), "[]"); err != nil || got != want {
			t.Errorf("%q: %s %v, want %s", a, got, err, want)
		}
	}
	for _, a := range []mail.Address{"loop@a.example", "loop2@a.example", "toomany@a.example"} {
		if all, err := r.Expand(a); !errors.Is(err, ErrEndless) {
			t.Errorf("%q: %v %v", a, all, err)
		}
	}
	if _, err := rules(t, Config{Aliases: []Map{pattern{"", "not an address\x00"}}}).Expand("a@b.example"); err == nil {
		t.Error("a recipient that becomes nothing is accepted")
	}
}

// plainExpand follows aliases without limits, in a graph without circles.
func plainExpand(aliases table, a string) (all []string) {
	value, ok := aliases[a]
	if !ok {
		return []string{a}
	}
	for _, field := range strings.Fields(value) {
		next := []string{a}
		if field != a {
			next = plainExpand(aliases, field)
		}
		for _, one := range next {
			if !slices.Contains(all, one) {
				all = append(all, one)
			}
		}
	}
	return all
}

// The expansion agrees with the plain version on random aliases: each of them stands for later
// addresses, and sometimes for itself.
func TestExpandAgainstPlain(t *testing.T) {
	seed := rand.Uint64()
	random := rand.New(rand.NewPCG(seed, 2))
	t.Logf("seed %d", seed)
	name := func(i int) string { return fmt.Sprintf("u%d@x.example", i) }
	for range 300 {
		aliases := table{}
		for i := range 9 {
			if random.IntN(3) == 0 {
				continue
			}
			var value []string
			for range 1 + random.IntN(3) {
				value = append(value, name(i+random.IntN(10-i)))
			}
			aliases[name(i)] = strings.Join(value, " ")
		}
		all, err := rules(t, Config{Aliases: []Map{aliases}}).Expand(mail.Address(name(0)))
		if want := plainExpand(aliases, name(0)); err != nil || strings.Trim(fmt.Sprint(all), "[]") != strings.Join(want, " ") {
			t.Fatalf("%v: %v %v, want %v", aliases, all, err, want)
		}
	}
}

// Which keys are not those of an address, and where an expansion ends.
func TestExpandBorders(t *testing.T) {
	chain := table{}
	for i := range 60 {
		chain[fmt.Sprintf("c%d@x.example", i)] = fmt.Sprintf("c%d@x.example", i+1)
	}
	wide := table{"all@x.example": "t0@x.example t1@x.example t2@x.example t3@x.example t4@x.example t5@x.example t6@x.example t7@x.example t8@x.example"}
	for i := range 9 {
		wide[fmt.Sprintf("t%d@x.example", i)] = "z@x.example"
	}
	for _, c := range []struct {
		name    string
		aliases Map
		to      mail.Address
		want    string // "" for ErrEndless
	}{
		{"a user of another domain", table{"joe": "z@x.example"}, "joe+x@x.example", "[joe+x@x.example]"},
		{"quotes have no extension", table{`"a@x.example`: "z@x.example"}, `"a+b"@x.example`, `["a+b"@x.example]`},
		{"a delimiter in front is none", table{"@x.example": "z@y.example"}, "+b@x.example", "[z@y.example]"},
		{"expressions get whole addresses", pattern{"joe", "z@x.example"}, "joe@origin.example", "[joe@origin.example]"},
		{"a quote in quotes", table{"a@x.example": `"a\" b"@y.example, c@y.example`}, "a@x.example", `["a\" b"@y.example c@y.example]`},
		{"what is no address is left out", table{"a@x.example": "a@@c, b@y.example"}, "a@x.example", "[b@y.example]"},
		{"nothing is left", table{"a@x.example": "a@@c"}, "a@x.example", ""},
		{"too deep", chain, "c0@x.example", ""},
		{"deep", chain, "c20@x.example", "[c60@x.example]"},
		{"too much work", wide, "all@x.example", ""},
	} {
		all, err := rules(t, Config{Delimiter: "+", AliasLimit: map[bool]int{true: 2, false: 100}[c.name == "too much work"], Aliases: []Map{c.aliases}}).Expand(c.to)
		if got := fmt.Sprint(all); c.want == "" && !errors.Is(err, ErrEndless) || c.want != "" && (err != nil || got != c.want) {
			t.Errorf("%s: %s, %v, want %s", c.name, got, err, c.want)
		}
	}
	r := rules(t, Config{Masquerade: []string{"example.com"}})
	if got, err := r.Sender("a@Example.COM"); err != nil || got != "a@Example.COM" {
		t.Errorf("the domain itself: %v, %v", got, err)
	}
}

// Copies go to those whom the maps name for a sender or a recipient.
func TestCopies(t *testing.T) {
	r := rules(t, Config{AlwaysBcc: "archive@x.example", SenderBcc: []Map{table{"@a.example": "boss@a.example, log"}}, RecipientBcc: []Map{table{"r@b.example": "r2@b.example"}}})
	if got := fmt.Sprint(r.SenderCopies("joe@a.example"), r.SenderCopies("joe@z.example"), r.SenderCopies(""), r.RecipientCopies("r@b.example"), r.RecipientCopies("s@b.example")); got !=
		"[archive@x.example boss@a.example log@origin.example] [archive@x.example] [archive@x.example] [r2@b.example] []" {
		t.Error(got)
	}
	r = rules(t, Config{Delimiter: "+", SenderBcc: []Map{table{"joe@a.example": "kept@a.example"}}, RecipientBcc: []Map{table{"r@b.example": "kept@b.example, @c.example"}}})
	if got := fmt.Sprint(r.SenderCopies("joe+x@a.example"), r.RecipientCopies("r+y@b.example")); got != "[kept@a.example] [kept@b.example r+y@c.example]" {
		t.Errorf("with extensions: %s", got)
	}
}

// Values that cannot be used are found when a map is read.
func TestCheckValue(t *testing.T) {
	for value, want := range map[string]string{
		"a@b.example": "", "a": "", "@b.example": "", "a@b.example, c": "there are 2 addresses", `"a b"@c.example`: "", "$1@b.example": "", "": "there is no address", ",": "there is no address",
		"a b@@c": "is not an address", "|/bin/sh": "is a program or a file", "/dev/null": "is a program or a file", "@": "has no domain", "jörg@b.example": "is not an address", "a@-b": "is not an address",
	} {
		err := CheckValue(value, strings.Contains(want, "not an") || strings.Contains(want, "program"))
		if (err == nil) != (want == "") || err != nil && !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v, want %q", value, err, want)
		}
	}
	if err := CheckValue("a@b.example c, d@e.example", true); err != nil {
		t.Error(err)
	}
}

// Mistakes of a configuration are found all at once.
func TestValidate(t *testing.T) {
	_, err := New(Config{Origin: "-", AliasLimit: -1, Delimiter: "ab", Domains: []string{"a b"}, Masquerade: []string{"!-"}})
	for _, want := range []string{`origin "-"`, "alias limit -1", `delimiter "ab"`, `"a b" is not a domain`, `"!-" is not a domain`} {
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q is not in %v", want, err)
		}
	}
}

// Whatever addresses and maps are, results are addresses, and no more than are allowed.
func FuzzExpand(f *testing.F) {
	f.Add("joe+x@a.example", "joe@a.example", "a@b.example, \"c d\"@e.example @f.example")
	f.Fuzz(func(t *testing.T, a, key, value string) {
		m := table{strings.ToLower(key): value}
		r := rules(t, Config{AliasLimit: 3, Delimiter: "+", Aliases: []Map{m}, Canonical: []Map{m}})
		if a == "" || valid(a, true) != mail.Address(a) { // a recipient is never the null address
			return
		}
		all, err := r.Expand(mail.Address(a))
		if err != nil {
			return
		}
		if len(all) == 0 || len(all) > 3 {
			t.Errorf("%d recipients", len(all))
		}
		for _, one := range all {
			if valid(string(one), true) == "" {
				t.Errorf("%q is not an address", one)
			}
		}
	})
}
