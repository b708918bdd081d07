package textmap

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"math"
	"strings"
	"unicode/utf8"
)

// LineMax is the length of the longest line, its continuation lines included, in bytes.
const LineMax = 64 << 10

// A Check returns the reason why a value cannot stand for a key, or nil.
type Check func(key, value string) error

// Read reads a file in the format of postmap(1): key, white space, value. Lines that begin
// with white space continue the line before; empty lines and those that begin with "#" are
// passed over. A key in double quotes, as a local part may be, can contain spaces. No key
// may occur twice. name is that of the file in errors, and octets its size, if it is known:
// a map is made of one block of memory. The error joins the mistakes of the file, the first
// twenty of them, or is that of the reader.
func Read(name string, r io.Reader, octets int64, check Check) (*Map, error) {
	m := &Map{name: name}
	var text strings.Builder
	if 0 < octets && octets < math.MaxUint32 {
		text.Grow(int(octets))
	}
	wrong := complaints{name: name}
	var lines []uint32 // of the entries
	err := logicalLines(r, &wrong, func(line int, s string) error {
		key, value, err := entry(s)
		if err == nil && check != nil {
			err = check(key, value)
		}
		if err != nil {
			wrong.add(line, "%v", err)
			return nil
		}
		if int64(text.Len())+int64(len(key)+len(value)) > math.MaxUint32 {
			return fmt.Errorf("%s: the file is larger than 4 GB", name)
		}
		m.at, m.keys, lines = append(m.at, uint32(text.Len())), append(m.keys, uint16(len(key))), append(lines, uint32(line))
		text.WriteString(key)
		text.WriteString(value)
		return nil
	})
	if err != nil {
		return nil, err
	}
	m.text = text.String()
	for _, r := range m.index() {
		wrong.add(int(lines[r.entry]), "the key %q is in line %d already", m.key(r.entry), lines[r.first])
	}
	if err := wrong.join(); err != nil {
		return nil, err
	}
	return m, nil
}

// entry splits a line into a key in lower case and its value.
func entry(line string) (key, value string, err error) {
	end := 0
	if line[0] == '"' {
		if end = quoted(line); end < 0 {
			return "", "", errors.New(`the quote (") is not closed`)
		}
	}
	n := strings.IndexAny(line[end:], " \t")
	if n < 0 {
		return "", "", fmt.Errorf("%s has no value; write a key, a space and a value", shorten(line))
	}
	key, value = line[:end+n], strings.Trim(line[end+n:], " \t")
	switch {
	case strings.HasSuffix(key, ":") && !strings.Contains(key, "@"):
		return "", "", fmt.Errorf("%s has a colon at its end, as in a file for newaliases; write a key, a space and a value", shorten(key))
	case len(key) > math.MaxUint16:
		return "", "", errors.New("the key is too long")
	}
	return fold(key), value, nil
}

// quoted returns the length of the quoted string at the front of a text, -1 if it has no
// end.
func quoted(text string) int {
	for i := 1; i < len(text); i++ {
		switch text[i] {
		case '\\':
			i++
		case '"':
			return i + 1
		}
	}
	return -1
}

// logicalLines calls visit with each line and its continuation lines, and the number of the
// first one.
func logicalLines(r io.Reader, wrong *complaints, visit func(line int, text string) error) error {
	in := bufio.NewScanner(r)
	in.Buffer(make([]byte, 4096), LineMax)
	var whole []byte
	begun, number := 0, 0
	flush := func() error {
		if begun == 0 {
			return nil
		}
		line := begun
		begun = 0
		switch {
		case len(whole) > LineMax:
			wrong.add(line, "the line is longer than %d bytes with those that continue it", LineMax)
		case !utf8.Valid(whole):
			wrong.add(line, "the line is not UTF-8")
		case strings.IndexFunc(string(whole), control) >= 0:
			wrong.add(line, "there is a control character in the line")
		default:
			return visit(line, string(whole))
		}
		return nil
	}
	for in.Scan() {
		number++
		line := in.Bytes()
		if number == 1 && strings.HasPrefix(string(line), "\ufeff") {
			line = line[len("\ufeff"):]
		}
		for len(line) > 0 && (line[len(line)-1] == ' ' || line[len(line)-1] == '\t' || line[len(line)-1] == '\r') {
			line = line[:len(line)-1]
		}
		start := strings.TrimLeft(string(line[:min(len(line), 256)]), " \t")
		switch {
		case len(line) == 0 || strings.HasPrefix(start, "#"):
		case line[0] != ' ' && line[0] != '\t':
			if err := flush(); err != nil {
				return err
			}
			begun, whole = number, append(whole[:0], line...)
		case begun == 0:
			wrong.add(number, "the first line begins with white space, and there is no line that it continues")
		case len(whole) <= LineMax:
			whole = append(whole, line...)
		}
	}
	if err := in.Err(); errors.Is(err, bufio.ErrTooLong) {
		wrong.add(number+1, "the line is longer than %d bytes, and what follows it was not read", LineMax)
	} else if err != nil {
		return fmt.Errorf("%s: %w", wrong.name, err)
	}
	return flush()
}

func control(r rune) bool { return r < ' ' && r != '\t' || r == 0x7f }

// shorten quotes a text in an error, the beginning of a long one.
func shorten(text string) string {
	const most = 60
	if len(text) > most {
		text = strings.ToValidUTF8(text[:most], "") + "…"
	}
	return fmt.Sprintf("%q", text)
}
