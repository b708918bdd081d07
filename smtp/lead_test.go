package smtp

import "testing"

func TestLeadScan(t *testing.T) {
	for _, test := range []struct {
		text string
		want Lead
	}{
		{"", LeadOpen}, {"Sub", LeadOpen}, {"Subject", LeadOpen}, {"Subject ", LeadOpen},
		{"Subject: x\r\n", LeadHeader}, {"Subject \t: x\r\n", LeadHeader}, {"\r\nHello", LeadHeader},
		{"From x@y Mon\r\n", LeadHeader}, {">From x@y Mon\r\n", LeadHeader}, {"From: x\r\n", LeadHeader},
		{"Hello.\r\n", LeadBody}, {"Hello there: x\r\n", LeadBody}, {" Subject: x\r\n", LeadBody}, {"\tx", LeadBody},
		{" \r\nSubject: x", LeadBody}, {"x\r\nSubject: x", LeadBody}, {"x: y\r\n", LeadHeader},
		{": x\r\n", LeadBody}, {"Gr\xc3\xbc\xc3\x9fe: x", LeadBody}, {"\n", LeadBody}, {"a\x00b: c", LeadBody}, {"a\x7fb: c", LeadBody},
	} {
		var whole, pieces LeadScan
		got := whole.Scan([]byte(test.text))
		piecemeal := LeadOpen
		for i := range len(test.text) {
			piecemeal = pieces.Scan([]byte(test.text[i : i+1]))
		}
		if got != test.want || piecemeal != test.want {
			t.Errorf("%q: %d, octet by octet %d, want %d", test.text, got, piecemeal, test.want)
		}
	}
	var s LeadScan
	for range nameMax {
		s.Scan([]byte("x"))
	}
	if got := s.Scan([]byte("x")); got != LeadBody {
		t.Errorf("a name without end: %d, want %d", got, LeadBody)
	}
}

func TestEightBit(t *testing.T) {
	text := []byte("0123456789abcdef0")
	for i := range text {
		if EightBit(text) {
			t.Fatalf("%q has octets above 127", text)
		}
		text[i] |= 0x80
		if !EightBit(text) {
			t.Errorf("octet %d of %q is not found", i, text)
		}
		text[i] &^= 0x80
	}
}
