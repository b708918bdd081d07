package destdb

import (
	"bytes"
	"strings"
	"testing"

	"github.com/posthaste-mta/posthaste/mail"
)

// A number has as many bytes as it needs, and is read as it was written.
func TestNumbers(t *testing.T) {
	for bits := range 64 {
		for _, n := range []uint64{1<<bits - 1, 1 << bits, 1<<bits + 1} {
			e := codec{writing: true}
			e.write(n)
			length := 1
			for rest := n >> 7; rest > 0; rest >>= 7 {
				length++
			}
			d := codec{in: e.out}
			if got := d.read(1<<64 - 1); got != n || !d.done() || len(e.out) != length {
				t.Errorf("%d is written %x, want %d bytes, and read back as %d", n, e.out, length, got)
			}
			if d := (codec{in: e.out}); n > 0 && (d.read(n-1) != 0 || d.done()) {
				t.Errorf("%d is read where at most %d is allowed", n, n-1)
			}
		}
	}
}

// What no encoder writes is refused: a number that is cut off, has more bytes than it
// needs or more bits than there are, a text that is longer than what is left, or one that
// would not be fit to be shown.
func TestMalformed(t *testing.T) {
	ninth := bytes.Repeat([]byte{0xff}, 9)
	for _, in := range [][]byte{{}, {0x80}, {0x80, 0}, {0x81, 0x80, 0}, append(ninth[:9:9], 2), append(ninth[:9:9], 0x80, 1), append(ninth[:9:9], 0xff, 0xff, 1)} {
		d := codec{in: in}
		if n := d.read(1<<64 - 1); n != 0 || !d.bad {
			t.Errorf("number %x is read as %d", in, n)
		}
		if d.read(1) != 0 || d.text("", 10) != "" || d.done() {
			t.Errorf("more is read behind number %x", in)
		}
	}
	for _, in := range [][]byte{{1}, {3, 'a', 'b'}, {2, 'a', 'b'}} {
		d := codec{in: in}
		if text := d.text("", 1); text != "" || d.done() {
			t.Errorf("text %x is read as %q where one octet is allowed", in, text)
		}
	}

	r := Record{Health: Health{Failures: 1, Reason: mail.Reply{Text: "seeX", By: "byX"}}}
	record := AppendRecord(nil, r)
	for _, word := range []string{"see", "by"} {
		i := bytes.Index(record, []byte(word)) + len(word)
		for _, octet := range []byte{'\x01', '\x7f', '\xff'} {
			bad := bytes.Clone(record)
			bad[i] = octet
			if got, err := ParseRecord(bad); err == nil {
				t.Errorf("a reply of %q is read", got.Health.Reason)
			}
		}
	}
	key, _ := AppendKey(nil, Key{Addr: key("a").Addr, Source: "e"})
	for name, whole := range map[string][]byte{"record": record, "key": key} {
		parse := func(b []byte) error {
			if name == "key" {
				_, err := ParseKey(b)
				return err
			}
			_, err := ParseRecord(b)
			return err
		}
		if err := parse(whole); err != nil {
			t.Errorf("%s: %v", name, err)
		}
		for n := range whole {
			if parse(whole[:n]) == nil {
				t.Errorf("%d of %d bytes of a %s are read", n, len(whole), name)
			}
		}
		if parse(append(bytes.Clone(whole), 0)) == nil {
			t.Errorf("a %s with one octet more is read", name)
		}
		whole[0]++
		if parse(whole) == nil {
			t.Errorf("a %s of another format is read", name)
		}
	}
	if _, err := ParseKey([]byte{format, 3, 1, 2, 3, 25, 0, 0}); err == nil || !strings.Contains(err.Error(), "8 bytes") {
		t.Errorf("a key with an address of three bytes: %v", err)
	}
}
