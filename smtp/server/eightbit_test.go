package server

import (
	"testing"

	"github.com/posthaste-mta/posthaste/mail"
)

// The envelope states what the content contains, whether the client declared it or
// not, so that the content need not be examined again.
func TestUndeclaredEightBit(t *testing.T) {
	for _, test := range []struct {
		parameters, text string
		want             mail.BodyType
	}{
		{"", "Subject: x\r\n\r\nplain\r\n", mail.Body7Bit},
		{"", "Subject: x\r\n\r\nCaf\xc3\xa9\r\n", mail.Body8BitMIME},
		{" BODY=7BIT", "Subject: Caf\xc3\xa9\r\n\r\n", mail.Body8BitMIME},
		{" BODY=8BITMIME", "Subject: x\r\n\r\nplain\r\n", mail.Body8BitMIME},
	} {
		h := newHost(testConfig(), loopbackPeer())
		h.feed([]byte("EHLO c\r\nMAIL FROM:<a@a.example>" + test.parameters + "\r\nRCPT TO:<b@b.example>\r\nDATA\r\n"))
		for i := range len(test.text) {
			h.feed([]byte(test.text[i : i+1]))
		}
		h.feed([]byte(".\r\n"))
		if len(h.messages) != 1 || h.messages[0].envelope.Body != test.want || h.messages[0].envelope.Size != int64(len(h.messages[0].content)) {
			t.Errorf("%q after MAIL%s: %+v, want one that needs %v", test.text, test.parameters, h.messages, test.want)
		}
	}
}
