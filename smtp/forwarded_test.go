package smtp

import (
	"net/netip"
	"strings"
	"testing"
)

// Attributes as Postfix and proxies send them, and those that must not be believed.
func TestParseForwarded(t *testing.T) {
	four, six := netip.MustParseAddr("192.0.2.1"), netip.MustParseAddr("2001:db8::1")
	for _, test := range []struct {
		arg   string
		of    Attributes
		want  Forwarded
		wrong string
	}{
		{arg: "NAME=spike.example ADDR=192.0.2.1", of: XClientAttributes, want: Forwarded{Given: AttrName | AttrAddr, Name: "spike.example", Addr: four}},
		{arg: "addr=IPv6:2001:db8::1 proto=esmtp HELO=client PORT=40000 DESTADDR=192.0.2.9 DESTPORT=25", of: XClientAttributes,
			want: Forwarded{Given: AttrAddr | AttrProto | AttrHelo | AttrPort | AttrDestAddr | AttrDestPort, Addr: six, Proto: "ESMTP", Helo: "client"}},
		{arg: "NAME=[UNAVAILABLE] ADDR=[TEMPUNAVAIL]", of: XClientAttributes, want: Forwarded{Given: AttrName | AttrAddr}},
		{arg: "HELO=a+20b+3Dc", of: XForwardAttributes, want: Forwarded{Given: AttrHelo, Helo: "a b=c"}},
		{arg: "IDENT=4F2A SOURCE=local", of: XForwardAttributes, want: Forwarded{Given: AttrIdent | AttrSource, Ident: "4F2A", Source: "LOCAL"}},
		{arg: "ADDR=IPV6:::ffff:192.0.2.1", of: XClientAttributes, want: Forwarded{Given: AttrAddr, Addr: four}},
		{of: XClientAttributes, wrong: "no attributes"},
		{arg: "IDENT=x", of: XClientAttributes, wrong: "IDENT"}, {arg: "LOGIN=x", of: XForwardAttributes, wrong: "LOGIN"}, {arg: "LOGIN=a+20b", of: XClientAttributes, wrong: "LOGIN"}, {arg: "DESTADDR=192.0.2.1", of: XForwardAttributes, wrong: "DESTADDR"},
		{arg: "ADDR=192.0.2.1 ADDR=192.0.2.2", of: XClientAttributes, wrong: "ADDR"}, {arg: "ADDR", of: XClientAttributes, wrong: "ADDR"}, {arg: "ADDR=", of: XClientAttributes, wrong: "ADDR"},
		{arg: "ADDR=2001:db8::1", of: XClientAttributes, wrong: "ADDR"}, {arg: "ADDR=IPV6:192.0.2.1", of: XClientAttributes, wrong: "ADDR"}, {arg: "ADDR=0.0.0.0", of: XClientAttributes, wrong: "ADDR"},
		{arg: "ADDR=IPV6:fe80::1%eth0", of: XClientAttributes, wrong: "ADDR"}, {arg: "ADDR=192.0.2", of: XClientAttributes, wrong: "ADDR"},
		{arg: "NAME=a  ADDR=192.0.2.1", of: XClientAttributes, wrong: "one without a name"}, {arg: "NAME=not+20a+20name", of: XClientAttributes, wrong: "NAME"},
		{arg: "HELO=a+0Db", of: XClientAttributes, wrong: "HELO"}, {arg: "HELO=a+0", of: XClientAttributes, wrong: "HELO"}, {arg: "HELO=a=b", of: XClientAttributes, wrong: "HELO"},
		{arg: "HELO=" + strings.Repeat("x", 256), of: XClientAttributes, wrong: "HELO"}, {arg: "PORT=65536", of: XClientAttributes, wrong: "PORT"}, {arg: "PORT=-1", of: XClientAttributes, wrong: "PORT"},
		{arg: "PROTO=HTTP", of: XClientAttributes, wrong: "PROTO"}, {arg: "SOURCE=elsewhere", of: XForwardAttributes, wrong: "SOURCE"},
	} {
		got, wrong := ParseForwarded([]byte(test.arg), test.of)
		if got != test.want || wrong != test.wrong {
			t.Errorf("%q: %+v, wrong %q; want %+v, %q", test.arg, got, wrong, test.want, test.wrong)
		}
	}
	if got := XClientAttributes.String(); got != "NAME ADDR PORT PROTO HELO LOGIN DESTADDR DESTPORT" {
		t.Error(got)
	}
	if got := XForwardAttributes.String(); got != "NAME ADDR PORT PROTO HELO IDENT SOURCE" {
		t.Error(got)
	}
}

// XFORWARD may come in several commands; a later value replaces an earlier one, also by
// saying that it is not known.
func TestMergeForwarded(t *testing.T) {
	var all Forwarded
	for _, arg := range []string{"NAME=a ADDR=192.0.2.1 HELO=h", "IDENT=1 NAME=[UNAVAILABLE]", "SOURCE=LOCAL PROTO=SMTP"} {
		f, wrong := ParseForwarded([]byte(arg), XForwardAttributes)
		if wrong != "" {
			t.Fatal(wrong)
		}
		all.Merge(&f)
	}
	want := Forwarded{Given: AttrName | AttrAddr | AttrHelo | AttrIdent | AttrSource | AttrProto, Addr: netip.MustParseAddr("192.0.2.1"), Helo: "h", Ident: "1", Source: "LOCAL", Proto: "SMTP"}
	if all != want {
		t.Errorf("%+v, want %+v", all, want)
	}
}

// What is believed has no control characters, and an address that a client can have.
func FuzzParseForwarded(f *testing.F) {
	f.Add([]byte("NAME=spike.example ADDR=IPV6:2001:db8::1 HELO=a+20b"), true)
	f.Add([]byte("IDENT=[UNAVAILABLE] SOURCE=LOCAL PORT=25"), false)
	f.Fuzz(func(t *testing.T, arg []byte, client bool) {
		allowed := XForwardAttributes
		if client {
			allowed = XClientAttributes
		}
		got, _ := ParseForwarded(arg, allowed)
		if got.Given&^allowed != 0 || got.Addr.Is4In6() || got.Addr.Zone() != "" || got.Addr.IsValid() && got.Addr.IsUnspecified() {
			t.Errorf("%+v", got)
		}
		for _, text := range []string{got.Name, got.Helo, got.Proto, got.Ident, got.Source} {
			if !printable(text) || len(text) > forwardedMax {
				t.Errorf("%q", text)
			}
		}
	})
}
