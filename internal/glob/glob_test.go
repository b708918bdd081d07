package glob

import (
	"strings"
	"testing"
)

func TestMatches(t *testing.T) {
	for _, test := range []struct {
		pattern Pattern
		text    string
		want    bool
	}{
		{"", "", true}, {"", "a", false}, {"*", "", true}, {"*", "abc", true}, {"a*c", "abc", true}, {"a*c", "abcd", false}, {"a*c", "ac", true},
		{"*b*", "ABC", true}, {"a*b*c", "axxbxxbxc", true}, {"a*b*c", "axxbxxbx", false}, {"**a**", "a", true}, {"abc", "ABC", true}, {"abc", "ab", false},
	} {
		if got := Matches(test.pattern, test.text); got != test.want {
			t.Errorf("%q and %q: %v", test.pattern, test.text, got)
		}
		if got := Matches(test.pattern, []byte(test.text)); got != test.want {
			t.Errorf("%q and the bytes %q: %v", test.pattern, test.text, got)
		}
	}
	if Matches(Pattern(strings.Repeat("*a", 128)+"b"), strings.Repeat("a", 256)) {
		t.Error("a pattern matches that does not")
	}
}

func TestSenders(t *testing.T) {
	for _, c := range []struct {
		pattern string
		match   []string
		not     []string
	}{
		{"otp@*", []string{"otp@a.example", "OTP@b.example"}, []string{"", "notp@a.example", "otp"}},
		{"Shop.example", []string{"a@shop.example", "a@b@SHOP.example", "@shop.example"}, []string{"", "shop.example", "a@x.shop.example"}},
		{".shop.example", []string{"a@x.shop.example", "a@y.x.shop.example"}, []string{"a@shop.example", ""}},
		{"<>", []string{""}, []string{"<>x", "a@b"}},
		{"*", []string{"a@b"}, []string{"", "postmaster"}},
	} {
		all := NewSenders([]string{"nobody@nowhere", c.pattern})
		for _, address := range c.match {
			if !all.Match(address) {
				t.Errorf("%s does not match %q", c.pattern, address)
			}
		}
		for _, address := range c.not {
			if all.Match(address) {
				t.Errorf("%s matches %q", c.pattern, address)
			}
		}
	}
}
