package tomlfile

// A Kind is what a value of the file is.
type Kind uint8

const (
	KindText Kind = iota + 1
	KindInteger
	KindFloat
	KindBool
	KindTime
	KindList
	KindTable
)

// String returns what people call it.
func (k Kind) String() string {
	return [...]string{"nothing", "text", "a whole number", "a number", "true or false", "a date or time", "a list", "a table"}[k]
}

// A Node is a value of the file.
type Node struct {
	Kind  Kind
	At    Span
	Text  string  // KindText: what it says; numbers, bools and times: as they are written
	Items []*Node // of a KindList; a [[list of tables]] is one, too
	Table *Table  // of a KindTable
}

// An Entry is a key of a table and its value.
type Entry struct {
	Name  string
	At    Span // of the key
	Value *Node
}

// A Table is what stands below a [header], between braces, or under the common
// part of dotted keys.
type Table struct {
	At      Span     // of the header, the brace, or the first key in it
	Entries []*Entry // in the order of the file
	made    tableMaking
	index   map[string]*Entry
}

// A tableMaking is how a table came to be, on which depends what may be added.
type tableMaking uint8

const (
	madeByKey    tableMaking = iota // by being part of a longer key: more may come, and a header
	madeByHeader                    // by its header: there must not be a second one
	madeInline                      // between braces: nothing may come
)

func newTable(at Span, made tableMaking) *Table {
	return &Table{At: at, made: made, index: make(map[string]*Entry)}
}

// Get returns the entry of a key, nil if there is none.
func (t *Table) Get(name string) *Entry { return t.index[name] }

func (t *Table) add(e *Entry) {
	t.Entries = append(t.Entries, e)
	t.index[e.Name] = e
}

// newest returns the table that further keys go to: of a [[list of tables]] the
// last one. Of any other value it returns the value itself.
func (n *Node) newest() *Node {
	if n.Kind == KindList && len(n.Items) > 0 {
		if last := n.Items[len(n.Items)-1]; last.Kind == KindTable && last.Table.made == madeByHeader {
			return last
		}
	}
	return n
}
