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
// is what comes next.
type codec struct {
	format  Format
	now     mail.Instant
	writing bool
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
			return nil, fmt.Errorf("trace line %q: bad quoting in %s", text, rest)
		}
		w.quoted = true
		if w.value, err = strconv.Unquote(quoted); err != nil {
			return nil, fmt.Errorf("trace line %q: bad quoting in %s", text, rest)
		}
		rest = rest[len(quoted):]
		if rest != "" && rest[0] != ' ' {
			return nil, fmt.Errorf("trace line %q: no space after %s", text, quoted)
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

// plain tells whether a value can be written as it is.
func plain(s string) bool {
	for i := 0; i < len(s); i++ {
		if s[i] <= ' ' || s[i] >= 0x7f || s[i] == '"' || s[i] == '=' {
			return false
		}
	}
	return s != "" && s != ">"
}

func (c *codec) put(key, value string) {
	c.out = append(c.out, ' ')
	if key != "" {
		c.out = append(append(c.out, key...), '=')
	}
	if plain(value) {
		c.out = append(c.out, value...)
	} else {
		c.out = strconv.AppendQuote(c.out, value)
	}
}

// next tells whether a pair with this key comes next.
func (c *codec) next(key string) bool {
	return c.err == nil && len(c.in) > 0 && c.in[0].key == key
}

func (c *codec) take() string {
	w := c.in[0]
	c.in = c.in[1:]
	return w.value
}

// word is a word that is always there.
func (c *codec) word(v *string) {
	switch {
	case c.writing:
		c.put("", *v)
	case c.next(""):
		*v = c.take()
	default:
		c.fail("a word is missing")
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

// value is a pair of any kind that has a text; zero values are left out.
func value[T comparable](c *codec, key string, v *T, format func(T) string, parse func(string) (T, error)) {
	var zero T
	if c.writing {
		if *v != zero {
			c.put(key, format(*v))
		}
		return
	}
	if !c.next(key) {
		return
	}
	text := c.take()
	parsed, err := parse(text)
	if err != nil {
		c.fail("%s=%s: %w", key, text, err)
		return
	}
	*v = parsed
}

func parseInt(s string) (int64, error) { return strconv.ParseInt(s, 10, 64) }

// number is a pair with a whole number.
func number[T ~int | ~int64 | ~uint16 | ~uint32 | ~uint64](c *codec, key string, v *T) {
	value(c, key, v, func(n T) string { return fmt.Sprint(n) }, func(s string) (T, error) {
		n, err := parseInt(s)
		if err == nil && int64(T(n)) != n {
			err = strconv.ErrRange
		}
		return T(n), err
	})
}

func (c *codec) float(key string, v *float64) {
	value(c, key, v, func(f float64) string { return strconv.FormatFloat(f, 'g', -1, 64) },
		func(s string) (float64, error) { return strconv.ParseFloat(s, 64) })
}

func (c *codec) duration(key string, v *time.Duration) {
	value(c, key, v, time.Duration.String, time.ParseDuration)
}

func (c *codec) instant(key string, v *mail.Instant) {
	value(c, key, v, c.format.instant, c.format.parseInstant)
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
		c.put(key, c.format.instant(*v))
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
		if *v {
			c.put("", name)
		}
	} else if c.next("") && c.in[0].value == name && !c.in[0].quoted {
		c.take()
		*v = true
	}
}

// choice is a word out of a list; its index is the value.
func choice[T ~uint8](c *codec, words []string, v *T) {
	text := ""
	if c.writing {
		text = words[*v]
	}
	c.word(&text)
	if !c.writing && c.err == nil {
		*v = T(c.index(words, text))
	}
}

// option is a pair out of a list; the first is the zero value and left out.
func option[T ~uint8](c *codec, key string, words []string, v *T) {
	value(c, key, v, func(t T) string { return words[t] }, func(s string) (T, error) {
		return T(c.index(words, s)), c.err
	})
}

func (c *codec) index(words []string, text string) int {
	i := slices.Index(words, text)
	if i < 0 || text == "" {
		c.fail("%q is none of %s", text, strings.Join(words, " "))
		return 0
	}
	return i
}

func (c *codec) id(v *mail.QueueID) {
	text := ""
	if c.writing {
		text = c.idText(*v)
	}
	c.word(&text)
	if !c.writing && c.err == nil {
		*v = c.parseID(text)
	}
}

func (c *codec) idText(id mail.QueueID) string {
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
// word if keys is empty.
func list[T any](c *codec, keys []string, v *[]T, element func(*T, int)) {
	if c.writing {
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
