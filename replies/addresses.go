package replies

import (
	"strings"

	"github.com/posthaste-mta/posthaste/mail"
)

// withoutAddresses returns the text of a reply with a mark in place of each address: of the sender and the recipient of whom the
// reply is, if they are known, and of what stands in angle brackets and has an @. A client that chooses an address must
// not choose by that what a reply seems to say, as with "client host"@example.com. All of them are looked for in the text
// as it came: with one left out, the rest of another may not be found.
func withoutAddresses(text string, of ...mail.Address) string {
	if !strings.Contains(text, "@") {
		return text
	}
	within := make([]bool, len(text)) // an address
	for _, a := range of {
		if a.Domain() != "" {
			mark(within, text, string(a))
			local := unquoted(a.Local())
			mark(within, text, local+"@"+a.Domain()) // as Postfix writes it
			if local != a.Local() {
				mark(within, text, a.Local())
				mark(within, text, `"`+local+`"`)
				mark(within, text, local) // which is more than one word, or none that a receiver says
			}
		}
	}
	markBrackets(within, text)
	var b strings.Builder
	for i := range len(text) {
		switch {
		case !within[i]:
			b.WriteByte(text[i])
		case i == 0 || !within[i-1]:
			b.WriteByte(addressMark)
		}
	}
	return b.String()
}

// addressMark is what stands for an address. It separates words, and is none.
const addressMark = '@'

// mark marks a word wherever it stands, in whatever case its ASCII letters are.
func mark(within []bool, text, word string) {
	for from := 0; from < len(text); {
		at := indexFold(text[from:], word)
		if at < 0 {
			return
		}
		fill(within[from+at:][:len(word)])
		from += at + 1
	}
}

// markBrackets marks what stands in angle brackets and has an @. Of several opening brackets, the last one counts.
func markBrackets(within []bool, text string) {
	open := -1
	for i := range len(text) {
		switch {
		case within[i]:
		case text[i] == '<':
			open = i
		case text[i] == '>' && open >= 0:
			if strings.Contains(text[open:i], "@") {
				fill(within[open+1 : i])
			}
			open = -1
		}
	}
}

func fill(all []bool) {
	for i := range all {
		all[i] = true
	}
}

// indexFold is strings.Index without regard to the case of ASCII letters.
func indexFold(text, word string) int {
	for i := 0; i+len(word) <= len(text); i++ {
		if strings.EqualFold(text[i:i+len(word)], word) {
			return i
		}
	}
	return -1
}

// unquoted returns a local part without quotation marks and backslashes.
func unquoted(local string) string {
	if len(local) < 2 || local[0] != '"' || local[len(local)-1] != '"' {
		return local
	}
	var b strings.Builder
	for i := 1; i < len(local)-1; i++ {
		if local[i] == '\\' && i+1 < len(local)-1 {
			i++
		}
		b.WriteByte(local[i])
	}
	return b.String()
}
