package proxy

import (
	"bytes"
	"encoding/binary"
	"errors"
	"net/netip"
	"strings"
	"testing"
)

// binary2 is a header of version 2.
func binary2(command, family byte, rest string) string {
	size := binary.BigEndian.AppendUint16(nil, uint16(len(rest)))
	return signature2 + string([]byte{command, family}) + string(size) + rest
}

const (
	v4   = "\xc0\x00\x02\x01\xc6\x33\x64\x02\x9c\x40\x00\x19" // 192.0.2.1:40000 to 198.51.100.2:25
	v6   = "\x20\x01\x0d\xb8\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x01\x20\x01\x0d\xb8\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x02\x9c\x40\x00\x19"
	name = "\x02\x00\x0bexample.com" // an extension: the name in TLS
)

// feed gives Parse what it asks for, as a host does, and returns how much of the input it
// has taken.
func feed(in []byte) (h Header, n int, err error) {
	for {
		var more int
		if h, more, err = Parse(in[:n]); err != nil || more == 0 {
			return h, n, err
		}
		if n += more; n > len(in) {
			return Header{}, len(in), errTruncated
		}
	}
}

var errTruncated = errors.New("truncated")

// B-19: headers of both versions, and everything that is not a header. The bytes behind a header
// are never touched.
func TestParse(t *testing.T) {
	for _, test := range []struct {
		in, source, destination string // "" is a proxy that speaks for itself
		err                     error
	}{
		{in: "PROXY TCP4 192.0.2.1 198.51.100.2 40000 25\r\n", source: "192.0.2.1:40000", destination: "198.51.100.2:25"},
		{in: "PROXY TCP6 2001:db8::1 2001:db8::2 40000 25\r\n", source: "[2001:db8::1]:40000", destination: "[2001:db8::2]:25"},
		{in: "PROXY TCP6 ::ffff:192.0.2.1 ::1 65535 0\r\n", source: "192.0.2.1:65535", destination: "[::1]:0"},
		{in: "PROXY TCP4 127.0.0.1 127.0.0.1 1 25\r\n", source: "127.0.0.1:1", destination: "127.0.0.1:25"},
		{in: "PROXY UNKNOWN\r\n"}, {in: "PROXY UNKNOWN ffff::1 ffff::2 65535 65535\r\n"},
		{in: "PROXY TCP4 192.0.2.1 198.51.100.2 40000 25\n", err: ErrSyntax},
		{in: "PROXY TCP4 192.0.2.1 198.51.100.2 40000 25 \r\n", err: ErrSyntax},
		{in: "PROXY TCP4  192.0.2.1 198.51.100.2 40000 25\r\n", err: ErrSyntax},
		{in: "PROXY TCP4 192.0.2.1 198.51.100.2 40000\r\n", err: ErrSyntax},
		{in: "PROXY TCP4 192.0.2.1 198.51.100.2 40000 65536\r\n", err: ErrSyntax},
		{in: "PROXY TCP4 192.0.2.1 198.51.100.2 040 25\r\n", err: ErrSyntax},
		{in: "PROXY TCP4 192.0.2.1 198.51.100.2 +40 25\r\n", err: ErrSyntax},
		{in: "PROXY TCP4 192.0.2.256 198.51.100.2 40 25\r\n", err: ErrSyntax},
		{in: "PROXY TCP4 192.0.02.1 198.51.100.2 40 25\r\n", err: ErrSyntax},
		{in: "PROXY TCP4 2001:db8::1 2001:db8::2 40 25\r\n", err: ErrSyntax},
		{in: "PROXY TCP6 192.0.2.1 198.51.100.2 40 25\r\n", err: ErrSyntax},
		{in: "PROXY TCP6 fe80::1%eth0 2001:db8::2 40 25\r\n", err: ErrSyntax},
		{in: "PROXY TCP4 0.0.0.0 198.51.100.2 40 25\r\n", err: ErrSyntax},
		{in: "PROXY TCP4 224.0.0.1 198.51.100.2 40 25\r\n", err: ErrSyntax},
		{in: "PROXY UDP4 192.0.2.1 198.51.100.2 40 25\r\n", err: ErrSyntax},
		{in: "proxy TCP4 192.0.2.1 198.51.100.2 40 25\r\n", err: ErrSyntax},
		{in: "PROXY TCP4 192.0.2.1\n198.51.100.2 40 25\r\n", err: ErrSyntax},
		{in: "PROXY UNKNOWN " + strings.Repeat("x", 91) + "\r\n"},
		{in: "PROXY UNKNOWN " + strings.Repeat("x", 92) + "\r\n", err: ErrSyntax},
		{in: "EHLO client.example\r\n", err: ErrSyntax}, {in: "GET / HTTP/1.1\r\n\r\n", err: ErrSyntax}, {in: "\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03 and so on", err: ErrSyntax},
		{in: "PROXY", err: errTruncated}, {in: "PROXY TCP4 192.0.2.1", err: errTruncated}, {in: "", err: errTruncated},

		{in: binary2(0x21, 0x11, v4), source: "192.0.2.1:40000", destination: "198.51.100.2:25"},
		{in: binary2(0x21, 0x21, v6), source: "[2001:db8::1]:40000", destination: "[2001:db8::2]:25"},
		{in: binary2(0x21, 0x11, v4+name), source: "192.0.2.1:40000", destination: "198.51.100.2:25"},
		{in: binary2(0x20, 0x00, "")}, {in: binary2(0x20, 0x11, v4)}, {in: binary2(0x20, 0xff, "x")},
		{in: binary2(0x21, 0x00, "")}, {in: binary2(0x21, 0x00, "anything")}, {in: binary2(0x21, 0x31, strings.Repeat("\x00", 216))},
		{in: binary2(0x22, 0x11, v4), err: ErrSyntax}, {in: binary2(0x11, 0x11, v4), err: ErrSyntax},
		{in: binary2(0x21, 0x12, v4), err: ErrSyntax}, {in: binary2(0x21, 0x41, v4), err: ErrSyntax},
		{in: binary2(0x21, 0x11, v4[:11]), err: ErrSyntax}, {in: binary2(0x21, 0x21, v4), err: ErrSyntax}, {in: binary2(0x21, 0x31, "x"), err: ErrSyntax},
		{in: binary2(0x21, 0x11, v4+"\x02"), err: ErrSyntax}, {in: binary2(0x21, 0x11, v4+"\x02\x00\x05abc"), err: ErrSyntax},
		{in: binary2(0x21, 0x11, "\x00\x00\x00\x00"+v4[4:]), err: ErrSyntax},
		{in: binary2(0x21, 0x11, v4+"\x04\x01\xf9"+strings.Repeat("\x00", 505)), source: "192.0.2.1:40000", destination: "198.51.100.2:25"},
		{in: binary2(0x21, 0x11, v4+"\x04\x01\xfa"+strings.Repeat("\x00", 506)), err: ErrLong},
		{in: binary2(0x21, 0x11, strings.Repeat("\x00", 65535)), err: ErrLong},
		{in: binary2(0x21, 0x11, v4)[:20], err: errTruncated}, {in: signature2, err: errTruncated},
		{in: strings.Replace(binary2(0x21, 0x11, v4), "QUIT", "EHLO", 1), err: ErrSyntax},
	} {
		want := Header{}
		if test.source != "" {
			want = Header{netip.MustParseAddrPort(test.source), netip.MustParseAddrPort(test.destination)}
		}
		behind := "EHLO x\r\n\x16\x03\x01"
		if test.err == errTruncated {
			behind = ""
		}
		h, n, err := feed([]byte(test.in + behind))
		if h != want || !errors.Is(err, test.err) {
			t.Errorf("%q: %+v, %v; want %+v, %v", test.in, h, err, want, test.err)
		}
		if err == nil && n != len(test.in) {
			t.Errorf("%q: %d bytes were taken", test.in, n)
		}
	}
}

// Whatever comes, Parse asks for a bounded number of bytes, in a bounded number of steps,
// and what it takes for a header is the same in one piece.
func FuzzParse(f *testing.F) {
	for _, seed := range []string{"PROXY TCP4 192.0.2.1 198.51.100.2 40000 25\r\n", "PROXY UNKNOWN\r\nEHLO", binary2(0x21, 0x21, v6+name), binary2(0x20, 0, ""), signature2} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, in []byte) {
		before := bytes.Clone(in)
		h, n, err := feed(in)
		if !bytes.Equal(in, before) {
			t.Fatal("the input was changed")
		}
		if n > Header2Max {
			t.Fatalf("%d bytes were asked for", n)
		}
		if err != nil {
			return
		}
		again, more, err := Parse(in[:n])
		if again != h || more != 0 || err != nil {
			t.Fatalf("%+v and then %+v, %d, %v", h, again, more, err)
		}
		if h.Source.IsValid() != h.Destination.IsValid() || h.Source.Addr().Is4In6() || h.Source.Addr().Zone() != "" {
			t.Fatalf("%+v", h)
		}
	})
}
