package tomlfile

import (
	"regexp"
	"strconv"
	"strings"
)

// QuoteKey returns a key as it is written in a file: one of letters, digits,
// underscores and dashes needs no quotes.
func QuoteKey(name string) string {
	for i := range len(name) {
		switch c := name[i]; {
		case c >= 'a' && c <= 'z', c >= 'A' && c <= 'Z', c >= '0' && c <= '9', c == '_', c == '-':
		default:
			return QuoteText(name)
		}
	}
	if name == "" {
		return QuoteText(name)
	}
	return name
}

// unquoted is a line of the form that main.cf has: a key, "=", and a value
// without quotes.
var unquoted = regexp.MustCompile(`^\s*([A-Za-z0-9_.-]+)\s*=\s*([^"'\[{\s#][^"']*?)\s*(#.*)?$`)

// explainSyntax turns a complaint of the parser about a line into one that helps a
// user who knows main.cf better than TOML. At is the offset of the mistake in the
// line.
func explainSyntax(complaint, line string, at int) (message, hint string) {
	equals := strings.IndexByte(line, '=')
	key := strings.TrimSpace(line[:max(equals, 0)])
	switch m := unquoted.FindStringSubmatch(line); {
	case strings.HasPrefix(complaint, "expected ',' or ']'") && assignment.MatchString(line):
		return "the list that begins above is not closed", "put a comma between two values, and ] after the last one"
	case strings.Contains(complaint, "to close table name"):
		return "the name of the table has no closing bracket", ""
	case strings.Contains(complaint, "not terminated by"):
		return "the text that begins here is not closed", ""
	case equals >= 0 && at > equals && m != nil:
		return "a value that is neither a number nor true or false must be in quotes", "write " + m[1] + " = " + Quoted(m[2])
	case equals >= 0 && at >= equals && strings.TrimSpace(line[equals+1:]) == "":
		return "the value is missing", `to leave it empty, write ` + key + ` = ""`
	case equals > 0 && at <= equals && !strings.HasPrefix(key, "[") && !strings.ContainsAny(key, `"'`):
		return "a key with characters other than letters, digits, - and _ must be in quotes", "write " + QuoteText(key) + " ="
	case strings.Contains(complaint, "'='") && equals < 0:
		return "this is neither a [table] nor key = value", missingEquals(line)
	case strings.HasPrefix(complaint, "expected newline"):
		return "unexpected text after the value", "write one key and one value on a line"
	case strings.Contains(complaint, "cannot have new lines"):
		return "the text has no closing quote", ""
	case strings.HasPrefix(complaint, "invalid escape character"):
		return complaint, `\ begins an escape; write \\, or put the text in single quotes`
	}
	return complaint, ""
}

// colon is a line of the form that many other configuration files have.
var colon = regexp.MustCompile(`^\s*([A-Za-z0-9_-]+)\s*:\s*(\S.*?)\s*$`)

func missingEquals(line string) string {
	if m := colon.FindStringSubmatch(line); m != nil {
		return "write " + m[1] + " = " + Quoted(strings.Trim(m[2], `"'`))
	}
	return ""
}

// Quoted returns what a value without quotes should have been.
func Quoted(value string) string {
	switch strings.ToLower(value) {
	case "yes", "true", "on":
		return "true"
	case "no", "false", "off":
		return "false"
	}
	return QuoteText(value)
}

// QuoteText writes a text as a basic string of TOML.
func QuoteText(text string) string {
	var b strings.Builder
	b.WriteByte('"')
	for _, r := range text {
		switch {
		case r == '"' || r == '\\':
			b.WriteByte('\\')
			b.WriteRune(r)
		case r == '\n':
			b.WriteString(`\n`)
		case r == '\t':
			b.WriteString(`\t`)
		case r < ' ' || r == 0x7f:
			b.WriteString(`\u` + leftPad(strconv.FormatInt(int64(r), 16), 4))
		default:
			b.WriteRune(r)
		}
	}
	b.WriteByte('"')
	return b.String()
}

func leftPad(digits string, width int) string {
	return strings.Repeat("0", max(0, width-len(digits))) + digits
}
