package replies

import (
	"strings"

	"github.com/posthaste-mta/posthaste/mail"
)

// withoutAddresses returns the text of a reply without the addresses in it: what stands in angle brackets and has an @, and the
// sender and the recipient of whom the reply is, if they are known. A client that chooses an address must not choose by
// that what a reply seems to say, as with "client host"@example.com.
func withoutAddresses(text string, of ...mail.Address) string {
	text = withoutBrackets(text)
	for _, a := range of {
		if a.Domain() == "" {
			continue
		}
		text = withoutWord(text, string(a))
		text = withoutWord(text, unquoted(a.Local())+"@"+a.Domain()) // as Postfix writes it
	}
	return text
}

// withoutBrackets leaves out what stands in angle brackets and has an @.
func withoutBrackets(text string) string {
	if !strings.Contains(text, "@") {
		return text
	}
	var b strings.Builder
	for {
		open := strings.IndexByte(text, '<')
		if open < 0 {
			break
		}
		end := strings.IndexByte(text[open:], '>')
		if end < 0 {
			break
		}
		end += open
		if b.WriteString(text[:open+1]); !strings.Contains(text[open:end], "@") {
			b.WriteString(text[open+1 : end])
		}
		b.WriteByte('>')
		text = text[end+1:]
	}
	b.WriteString(text)
	return b.String()
}

// withoutWord leaves out a word wherever it stands, in whatever case its ASCII letters are.
func withoutWord(text, word string) string {
	for from := 0; ; {
		at := indexFold(text[from:], word)
		if at < 0 {
			return text
		}
		from += at
		text = text[:from] + text[from+len(word):]
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
