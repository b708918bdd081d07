package maincf

import (
	"fmt"
	"net/netip"
	"regexp"
	"slices"
	"strings"
)

// A Table is an item of a value that names a map, such as hash:/etc/postfix/transport, or
// another item of a list.
type Table struct {
	// Type is that of the map, such as hash; "" for an item that names none.
	Type string
	// Name is what follows the type, most often a path; of an item without type, the item.
	Name string
	// Not reports that a "!" precedes the item.
	Not bool
	// Pairs are the entries of a map of type inline.
	Pairs []Pair
}

// String returns the map as it is written, but for pairs, which may have secrets in them.
func (t *Table) String() string {
	switch t.Type {
	case "":
		return t.Name
	case TypeInline, TypeStatic:
		return t.Type + ":…"
	}
	return t.Type + ":" + t.Name
}

// A Pair is an entry of a map.
type Pair struct {
	Key, Value string
	Line       int // in the text of the map; 0 for inline
}

const (
	TypeInline = "inline"
	TypeStatic = "static"
)

// textual are the types of maps that postmap makes of a text of keys and values, or that are read
// from one.
var textual = []string{"hash", "btree", "lmdb", "cdb", "dbm", "sdbm", "texthash"}

// IsText reports whether the map has a source that ParseSource reads.
func (t *Table) IsText() bool { return slices.Contains(textual, t.Type) }

// HasExpressions reports whether the map has a source that ParseExpressions reads.
func (t *Table) HasExpressions() bool { return t.Type == "regexp" || t.Type == "pcre" }

// tableName matches the type of a map, with a proxy in front.
var tableType = regexp.MustCompile(`^(?:proxy:)?([a-z][a-z0-9_-]*):`)

// ParseTables takes the value of a parameter, or a list, apart. Maps that are read by way of proxymap
// are those behind it. Addresses of IPv6 in brackets, which have colons, are no maps.
func ParseTables(value string) ([]Table, error) {
	var all []Table
	for _, word := range Words(value) {
		var t Table
		word, t.Not = strings.CutPrefix(word, "!")
		m := tableType.FindStringSubmatch(word)
		if m == nil {
			t.Name = word
			all = append(all, t)
			continue
		}
		t.Type, t.Name = m[1], word[len(m[0]):]
		if inside, rest, ok := braced(t.Name); ok && rest == "" && t.Type == TypeStatic {
			t.Name = strings.TrimSpace(inside)
		}
		if t.Type == TypeInline {
			inside, rest, ok := braced(t.Name)
			if !ok || rest != "" {
				return nil, fmt.Errorf("an inline map is written inline:{key=value, …}")
			}
			var err error
			if t.Pairs, err = inlinePairs(inside); err != nil {
				return nil, err
			}
		}
		all = append(all, t)
	}
	return all, nil
}

// inlinePairs reads "key=value, {key = value with spaces}". An error does not quote what is
// wrong, which may be a password.
func inlinePairs(text string) ([]Pair, error) {
	var all []Pair
	for i, word := range Words(text) {
		if inside, rest, ok := braced(word); ok && rest == "" {
			word = inside
		}
		key, value, ok := strings.Cut(word, "=")
		if key = strings.TrimSpace(key); !ok || key == "" {
			return nil, fmt.Errorf("item %d of an inline map is not key=value; white space needs braces: {key = value}", i+1)
		}
		all = append(all, Pair{Key: key, Value: strings.TrimSpace(value)})
	}
	return all, nil
}

// ParseSource reads the text of which postmap makes a map: a key, white space and a value in
// each line. Of a key that occurs several times the first value counts, as with postmap, and
// there is a problem that says so; keys differ by more than the case of letters.
func ParseSource(file, text string) ([]Pair, []Problem) {
	wrong := problems{file: file}
	var all []Pair
	lines := make(map[string]int)
	for _, line := range logicalLines(text, &wrong) {
		key, value := cutKey(line.text)
		if value == "" {
			wrong.add(line.number, "the key has no value behind it")
			continue
		}
		folded := strings.ToLower(key)
		if first, again := lines[folded]; again {
			wrong.add(line.number, "this key is in line %d, too, which counts", first)
			continue
		}
		lines[folded] = line.number
		all = append(all, Pair{key, value, line.number})
	}
	return all, wrong.all()
}

// cutKey separates a line at the first white space that is not in double quotes.
func cutKey(line string) (key, value string) {
	quoted := false
	for i := 0; i < len(line); i++ {
		switch c := line[i]; {
		case c == '\\' && quoted:
			i++
		case c == '"':
			quoted = !quoted
		case (c == ' ' || c == '\t') && !quoted:
			return line[:i], strings.TrimSpace(line[i:])
		}
	}
	return line, ""
}

// ParseAliases reads the text of which newaliases makes a map (aliases(5)): a name, a colon and
// a value in each line.
func ParseAliases(file, text string) ([]Pair, []Problem) {
	wrong := problems{file: file}
	var all []Pair
	for _, line := range logicalLines(text, &wrong) {
		name, value, ok := cutAlias(line.text)
		if value = strings.TrimSpace(value); !ok || name == "" || value == "" {
			wrong.add(line.number, "%s is not \"name: value\"", shorten(line.text))
			continue
		}
		all = append(all, Pair{name, value, line.number})
	}
	return all, wrong.all()
}

// cutAlias separates a line of aliases(5), whose name may be in double quotes.
func cutAlias(line string) (name, value string, ok bool) {
	if rest, quoted := strings.CutPrefix(line, `"`); quoted {
		name, rest, ok = strings.Cut(rest, `"`)
		rest = strings.TrimLeft(rest, " \t")
		if !ok || !strings.HasPrefix(rest, ":") {
			return "", "", false
		}
		return name, rest[1:], true
	}
	name, value, ok = strings.Cut(line, ":")
	return strings.TrimSpace(name), value, ok
}

// nesting is the number of if lines that have not met their endif.
type nesting int

// enter takes the first word of a line, and reports whether the line is an if or an endif. An
// endif without an if changes nothing.
func (n *nesting) enter(word string) bool {
	switch strings.ToLower(word) {
	case "if":
		*n++
	case "endif":
		*n = max(*n-1, 0)
	default:
		return false
	}
	return true
}

// An Expression is a line of regexp_table(5) or pcre_table(5).
type Expression struct {
	Pattern string // what is between the delimiters
	Flags   string // behind them
	Not     bool   // what does not match is meant
	Value   string
	Within  bool // it is between if and endif
	Line    int
}

// ParseExpressions reads the text of a map of type regexp or pcre. Patterns are not
// compiled: those of Perl and POSIX are not those of Go.
func ParseExpressions(file, text string) ([]Expression, []Problem) {
	wrong := problems{file: file}
	var all []Expression
	var depth nesting
	for _, line := range logicalLines(text, &wrong) {
		word, _ := cutKey(line.text)
		if depth.enter(word) {
			continue
		}
		e := Expression{Within: depth > 0, Line: line.number}
		rest := line.text
		rest, e.Not = strings.CutPrefix(rest, "!")
		rest = strings.TrimLeft(rest, " \t")
		if rest == "" || rest[0] >= 0x80 || rest[0] == '\\' || nameLength(rest) > 0 && rest[0] != '_' {
			wrong.add(line.number, "%s does not begin with an expression such as /^joe@/", shorten(line.text))
			continue
		}
		end := 1
		for end < len(rest) && rest[end] != rest[0] {
			if rest[end] == '\\' {
				end++
			}
			end++
		}
		if end >= len(rest) {
			wrong.add(line.number, "the expression has no %c at its end", rest[0])
			continue
		}
		e.Pattern, rest = rest[1:end], rest[end+1:]
		e.Flags, e.Value = cutKey(rest)
		if strings.HasPrefix(rest, " ") || strings.HasPrefix(rest, "\t") {
			e.Flags, e.Value = "", strings.TrimSpace(rest)
		}
		all = append(all, e)
	}
	return all, wrong.all()
}

// A Network is a line of cidr_table(5).
type Network struct {
	Prefix netip.Prefix
	Not    bool // addresses outside are meant
	Value  string
	Within bool // it is between if and endif
	Line   int
}

// ParseNetworks reads the text of a map of type cidr.
func ParseNetworks(file, text string) ([]Network, []Problem) {
	wrong := problems{file: file}
	var all []Network
	var depth nesting
	for _, line := range logicalLines(text, &wrong) {
		key, value := cutKey(line.text)
		if depth.enter(key) {
			continue
		}
		n := Network{Value: value, Within: depth > 0, Line: line.number}
		key, n.Not = strings.CutPrefix(key, "!")
		var ok bool
		if n.Prefix, ok = ParseNetwork(key); !ok {
			wrong.add(line.number, "%s is not a network such as 192.0.2.0/24", shorten(key))
			continue
		}
		all = append(all, n)
	}
	return all, wrong.all()
}

// ParseNetwork parses a network, or an address, as Postfix writes them: those of IPv6 may be in
// brackets, as in [::1]/128.
func ParseNetwork(s string) (netip.Prefix, bool) {
	if strings.HasPrefix(s, "[") {
		s = strings.Replace(s[1:], "]", "", 1)
	}
	if strings.Contains(s, "/") {
		p, err := netip.ParsePrefix(s)
		if err == nil && p.Addr().Is4In6() && p.Bits() >= 96 { // ::ffff:127.0.0.0/104 is 127.0.0.0/8
			p = netip.PrefixFrom(p.Addr().Unmap(), p.Bits()-96)
		}
		return p, err == nil && p.Masked() == p
	}
	a, err := netip.ParseAddr(s)
	if err != nil || a.Zone() != "" {
		return netip.Prefix{}, false
	}
	a = a.Unmap()
	return netip.PrefixFrom(a, a.BitLen()), true
}
