package flow

import (
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"
)

// clean returns text as a part of a mail.Flow: printable, and bounded.
func clean(text string, max int) string { return bound(printable(text), max) }

// printable replaces what is not printable, and white space, by "?".
func printable(text string) string {
	if !strings.ContainsFunc(text, unprintable) {
		return text
	}
	return strings.Map(func(r rune) rune {
		if unprintable(r) {
			return '?'
		}
		return r
	}, text)
}

// bound cuts a text of more than max bytes, which then ends in a hash of the whole, so
// that different texts stay different.
func bound(text string, max int) string {
	if len(text) <= max {
		return text
	}
	hash := "~" + strconv.FormatUint(fnv(text), 16)
	return cut(text, max-len(hash)) + hash
}

// cut returns at most max bytes of a text, no part of a character.
func cut(text string, max int) string {
	if len(text) <= max {
		return text
	}
	for max > 0 && !utf8.RuneStart(text[max]) {
		max--
	}
	return text[:max]
}

// unprintable reports whether a character cannot be part of a flow: spaces, controls,
// what changes the text around it, and what is not valid UTF-8.
func unprintable(r rune) bool { return r == ' ' || r == unicode.ReplacementChar || !unicode.IsPrint(r) }

// fnv is FNV-1a: the hash only has to keep long texts apart that are not made to
// collide, and who makes them collide shares one flow with himself.
func fnv(text string) uint64 {
	h := uint64(14695981039346656037)
	for i := 0; i < len(text); i++ {
		h = (h ^ uint64(text[i])) * 1099511628211
	}
	return h
}
