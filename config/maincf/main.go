package maincf

import "strings"

// A Main is a main.cf.
type Main struct {
	// File is its name in messages.
	File string
	// Entries are the parameters that it sets, in the order in which they first occur.
	Entries []Entry

	index map[string]int // numbers of entries by name
}

// An Entry is a parameter and its value.
type Entry struct {
	Name  string
	Value string // without white space at its ends; $name is not expanded
	File  string
	Line  int // where it was set last
}

// ParseMain reads a main.cf. Of a parameter that occurs several times the last value counts,
// as with Postfix, and there is a problem that says so.
func ParseMain(file, text string) (*Main, []Problem) {
	m := &Main{File: file, index: make(map[string]int)}
	wrong := problems{file: file}
	for _, line := range logicalLines(text, &wrong) {
		name, value, ok := strings.Cut(line.text, "=")
		name = strings.TrimRight(name, " \t")
		switch {
		case !ok:
			wrong.add(line.number, "%s is not \"name = value\"", shorten(line.text))
			continue
		case name == "":
			wrong.add(line.number, "the name of a parameter is missing before the =")
			continue
		case strings.ContainsAny(name, " \t"):
			wrong.add(line.number, "%s is not the name of a parameter: there is a space in it", shorten(name))
			continue
		}
		e := Entry{name, strings.TrimLeft(value, " \t"), file, line.number}
		if i, again := m.index[name]; again {
			wrong.add(line.number, "%s is set again; the value in line %d does not count", name, m.Entries[i].Line)
			m.Entries[i] = e
			continue
		}
		m.index[name] = len(m.Entries)
		m.Entries = append(m.Entries, e)
	}
	return m, wrong.all()
}

// Get returns the entry of a parameter; ok is false if main.cf does not set it.
func (m *Main) Get(name string) (e Entry, ok bool) {
	i, ok := m.index[name]
	if !ok {
		return Entry{}, false
	}
	return m.Entries[i], true
}
