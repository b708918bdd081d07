package ascii

import "testing"

func TestLower(t *testing.T) {
	for s, want := range map[string]string{
		"":              "",
		"abc@[`{z":      "abc@[`{z",
		"AbZ@[`{Zz09":   "abz@[`{zz09",
		"zÄÖ\u212aA":    "zÄÖ\u212aa", // KELVIN SIGN, whose lower case is k
		"\xff\xc3A\x80": "\xff\xc3a\x80",
	} {
		if got := Lower(s); got != want {
			t.Errorf("Lower(%q) = %q, want %q", s, got, want)
		}
	}
	if n := testing.AllocsPerRun(10, func() { Lower("nothing to change \xff") }); n != 0 {
		t.Errorf("%v allocations where nothing changes", n)
	}
}
