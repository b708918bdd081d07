package config

// A nodeKind is what a value of the file is.
type nodeKind uint8

const (
	nodeText nodeKind = iota + 1
	nodeInteger
	nodeFloat
	nodeBool
	nodeTime
	nodeList
	nodeTable
)

// String returns what people call it.
func (k nodeKind) String() string {
	return [...]string{"nothing", "text", "a whole number", "a number", "true or false", "a date or time", "a list", "a table"}[k]
}

// A node is a value of the file.
type node struct {
	kind  nodeKind
	at    span
	text  string // nodeText: what it says; numbers, bools and times: as they are written
	items []*node
	table *table
}

// An entry is a key of a table and its value.
type entry struct {
	name  string
	at    span // of the key
	value *node
}

// A table is what stands below a [header], between braces, or under the common
// part of dotted keys.
type table struct {
	at      span // of the header, the brace, or the first key in it
	made    tableMaking
	entries []*entry
	index   map[string]*entry
}

// A tableMaking is how a table came to be, on which depends what may be added.
type tableMaking uint8

const (
	madeByKey    tableMaking = iota // by being part of a longer key: more may come, and a header
	madeByHeader                    // by its header: there must not be a second one
	madeInline                      // between braces: nothing may come
)

func newTable(at span, made tableMaking) *table {
	return &table{at: at, made: made, index: make(map[string]*entry)}
}

func (t *table) get(name string) *entry { return t.index[name] }

func (t *table) add(e *entry) {
	t.entries = append(t.entries, e)
	t.index[e.name] = e
}
