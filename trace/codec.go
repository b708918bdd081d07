package trace

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/posthaste-mta/posthaste/mail"
)

// A codec writes or reads the fields of one line. Each field is named once, for
// both directions: writing leaves it out if it is zero, reading takes it if it
// is what comes next. So a new type of event or action is one more element of
// eventKinds or actionKinds, and a new field is one more line there; tests
// complain about what is missing.
type codec struct {
	format  Format
	now     mail.Instant
	writing bool
	json    bool     // writing: JSON instead of words
	subject *Subject // writing: what the line names is noted there, if it is not nil
	out     []byte
	in      []word
	err     error
}

// A word is a bare word or, if it has a key, a pair.
type word struct {
	key, value string
	quoted     bool
}

func (w word) String() string {
	if w.key == "" {
		return w.value
	}
	return w.key + "=" + w.value
}

// split cuts a line into words.
func split(text string) ([]word, error) {
	var words []word
	for rest := strings.TrimLeft(text, " "); rest != ""; rest = strings.TrimLeft(rest, " ") {
		var w word
		if end := strings.IndexAny(rest, ` "=`); end > 0 && rest[end] == '=' {
			w.key, rest = rest[:end], rest[end+1:]
		}
		if !strings.HasPrefix(rest, `"`) {
			w.value, rest, _ = strings.Cut(rest, " ")
			words = append(words, w)
			continue
		}
		quoted, err := strconv.QuotedPrefix(rest)
		if err != nil {
			return nil, fmt.Errorf("bad quoting in %s", rest)
		}
		w.quoted = true
		if w.value, err = strconv.Unquote(quoted); err != nil {
			return nil, fmt.Errorf("bad quoting in %s", rest)
		}
		rest = rest[len(quoted):]
		if rest != "" && rest[0] != ' ' {
			return nil, fmt.Errorf("no space after %s", quoted)
		}
		words = append(words, w)
	}
	return words, nil
}

func (c *codec) fail(format string, args ...any) {
	if c.err == nil {
		c.err = fmt.Errorf(format, args...)
	}
}

// plain reports whether a value can be written as it is.
func plain(s string) bool {
	for i := 0; i < len(s); i++ {
		if s[i] <= ' ' || s[i] >= 0x7f || s[i] == '"' || s[i] == '=' {
			return false
		}
	}
	return s != "" && s != ">"
}

// put writes a pair.
func (c *codec) put(key, value string) {
	c.key(key)
	c.value(key, value)
}

// putWord writes a bare word. Only JSON shows its name.
func (c *codec) putWord(name, value string) {
	if c.json {
		c.key(name)
	} else {
		c.out = append(c.out, ' ')
	}
	c.value(name, value)
}

func (c *codec) putNumber(key string, n int64) {
	c.key(key)
	c.out = strconv.AppendInt(c.out, n, 10)
}

func (c *codec) key(key string) {
	if c.json {
		c.comma()
		c.out = append(strconv.AppendQuote(c.out, key), ':')
		return
	}
	c.out = append(append(append(c.out, ' '), key...), '=')
}

func (c *codec) value(name, value string) {
	if c.subject != nil {
		c.subject.note(name, value)
	}
	switch {
	case c.json:
		c.out = appendJSON(c.out, value)
	case plain(value):
		c.out = append(c.out, value...)
	default:
		c.out = quote(c.out, value)
	}
}

// quote appends a Go string. Most of those in a trace are what servers have said,
// for which this takes a third of strconv's time.
func quote(b []byte, s string) []byte {
	for i := 0; i < len(s); i++ {
		if s[i] < ' ' || s[i] >= 0x7f || s[i] == '"' || s[i] == '\\' {
			return strconv.AppendQuote(b, s)
		}
	}
	return append(append(append(b, '"'), s...), '"')
}

// next reports whether a pair with this key comes next.
func (c *codec) next(key string) bool {
	return c.err == nil && len(c.in) > 0 && c.in[0].key == key
}

func (c *codec) take() string {
	w := c.in[0]
	c.in = c.in[1:]
	return w.value
}

// word is a word that is always there.
func (c *codec) word(name string, v *string) {
	switch {
	case c.writing:
		c.putWord(name, *v)
	case c.next(""):
		*v = c.take()
	default:
		c.fail("a word is missing: %s", name)
	}
}

// text is a pair; empty text is left out.
func (c *codec) text(key string, v *string) {
	if c.writing {
		if *v != "" {
			c.put(key, *v)
		}
	} else if c.next(key) {
		*v = c.take()
	}
}

// always is a pair that begins an element of a list: it is there even if it is
// empty.
func (c *codec) always(key string, v *string) {
	if c.writing {
		c.put(key, *v)
	} else if c.next(key) {
		*v = c.take()
	}
}

// value is a pair of any kind that has a text; zero values are left out.
func value[T comparable](c *codec, key string, v *T, format func(T) string, parse func(string) (T, error)) {
	var zero T
	if c.writing {
		if *v != zero {
			c.put(key, format(*v))
		}
		return
	}
	if parsed, ok := parsePair(c, key, parse); ok {
		*v = parsed
	}
}

// parsePair reads a pair if it comes next, and reports whether it did.
func parsePair[T any](c *codec, key string, parse func(string) (T, error)) (v T, ok bool) {
	if !c.next(key) {
		return v, false
	}
	text := c.take()
	v, err := parse(text)
	if err != nil {
		c.fail("%s=%s: %w", key, text, err)
	}
	return v, err == nil
}

func parseInt(s string) (int64, error) { return strconv.ParseInt(s, 10, 64) }

// number is a pair with a whole number.
func number[T ~int | ~int8 | ~int32 | ~int64 | ~uint16 | ~uint32](c *codec, key string, v *T) {
	if c.writing {
		if *v != 0 {
			c.putNumber(key, int64(*v))
		}
		return
	}
	value(c, key, v, nil, func(s string) (T, error) {
		n, err := parseInt(s)
		if err == nil && int64(T(n)) != n {
			err = strconv.ErrRange
		}
		return T(n), err
	})
}

func (c *codec) float(key string, v *float64) {
	if c.writing && *v != 0 {
		c.key(key)
		c.out = strconv.AppendFloat(c.out, *v, 'g', -1, 64)
	}
	if !c.writing {
		value(c, key, v, nil, func(s string) (float64, error) { return strconv.ParseFloat(s, 64) })
	}
}

func (c *codec) duration(key string, v *time.Duration) {
	value(c, key, v, time.Duration.String, time.ParseDuration)
}

func (c *codec) instant(key string, v *mail.Instant) {
	switch {
	case !c.writing:
		value(c, key, v, nil, c.format.parseInstant)
	case *v != 0:
		c.putInstant(key, *v)
	}
}

func (c *codec) putInstant(key string, v mail.Instant) {
	if c.json || c.format.Instant != nil {
		c.put(key, c.format.instant(v))
		return
	}
	c.key(key)
	c.out = c.format.appendInstant(c.out, v)
}

// unset stands for an instant that is not set where another one is usual.
const unset = "unset"

// usually is an instant that is left out where it is the usual one.
func (c *codec) usually(key string, v *mail.Instant, usual mail.Instant) {
	switch {
	case c.writing && *v == usual:
	case c.writing && *v == 0:
		c.put(key, unset)
	case c.writing:
		c.putInstant(key, *v)
	case !c.next(key):
		*v = usual
	case c.in[0].value == unset:
		c.take()
	default:
		c.instant(key, v)
	}
}

// flag is a bare word that is there or not.
func (c *codec) flag(name string, v *bool) {
	if c.writing {
		switch {
		case !*v:
		case c.json:
			c.key(name)
			c.out = append(c.out, "true"...)
		default:
			c.putWord(name, name)
		}
	} else if c.next("") && c.in[0].value == name && !c.in[0].quoted {
		c.take()
		*v = true
	}
}

// choice is a word out of a list; its index is the value.
func choice[T ~uint8](c *codec, name string, words []string, v *T) {
	text := ""
	if c.writing {
		text = wordFor(words, *v)
	}
	c.word(name, &text)
	if !c.writing && c.err == nil {
		*v = T(c.index(words, text))
	}
}

// option is a pair out of a list; the first is the zero value and left out.
func option[T ~uint8](c *codec, key string, words []string, v *T) {
	value(c, key, v, func(t T) string { return wordFor(words, t) }, func(s string) (T, error) {
		return T(c.index(words, s)), c.err
	})
}

// wordFor returns the word for a value. A value without a word, because it was
// forgotten here, must not end the daemon that writes the trace.
func wordFor[T ~uint8](words []string, v T) string {
	if int(v) < len(words) {
		return words[v]
	}
	return "value-" + strconv.Itoa(int(v))
}

func (c *codec) index(words []string, text string) int {
	i := slices.Index(words, text)
	if i < 0 || text == "" {
		c.fail("%q is not one of %s", text, strings.Join(words, " "))
		return 0
	}
	return i
}

// id is a message's ID that is always there.
func (c *codec) id(name string, v *mail.QueueID) {
	text := ""
	if c.writing {
		text = c.idText(*v)
	}
	c.word(name, &text)
	if !c.writing && c.err == nil {
		*v = c.parseID(text)
	}
}

func (c *codec) idText(id mail.QueueID) string {
	if c.subject != nil {
		c.subject.Messages = append(c.subject.Messages, id)
	}
	if c.format.Name != nil {
		return c.format.Name(id)
	}
	return id.String()
}

func (c *codec) parseID(text string) mail.QueueID {
	parse := c.format.ID
	if parse == nil {
		parse = mail.ParseQueueID
	}
	id, err := parse(text)
	if err != nil {
		c.fail("message %q: %w", text, err)
	}
	return id
}

// idPair is an ID with a key; 0 is left out.
func (c *codec) idPair(key string, v *mail.QueueID) {
	value(c, key, v, c.idText, func(s string) (mail.QueueID, error) { return c.parseID(s), c.err })
}

// list is a list whose elements each begin with one of the keys, or with a bare
// word if the key is empty. Only JSON shows its name.
func list[T any](c *codec, name string, keys []string, v *[]T, element func(*T, int)) {
	switch {
	case c.writing && c.json:
		c.elements(name, len(*v), func(i int) { element(&(*v)[i], i) })
		return
	case c.writing:
		for i := range *v {
			element(&(*v)[i], i)
		}
		return
	}
	begins := func() bool {
		return c.err == nil && len(c.in) > 0 && slices.Contains(keys, c.in[0].key)
	}
	for i := 0; begins(); i++ {
		var e T
		element(&e, i)
		*v = append(*v, e)
	}
}

// elements writes a list.
func (c *codec) elements(name string, n int, element func(int)) {
	if !c.json {
		for i := range n {
			element(i)
		}
		return
	}
	if n == 0 {
		return
	}
	c.key(name)
	c.out = append(c.out, '[')
	for i := range n {
		c.comma()
		c.out = append(c.out, '{')
		element(i)
		c.out = append(c.out, '}')
	}
	c.out = append(c.out, ']')
}
