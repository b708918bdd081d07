package server

import (
	"fmt"
	"strings"
	"testing"

	"github.com/posthaste-mta/posthaste/mail"
	"github.com/posthaste-mta/posthaste/smtp"
)

// fields sends a message in pieces of n octets to a session that looks for fields,
// and returns the stored content after our Received field, the host, and the fields.
func fields(t *testing.T, content string, peer Peer, bdat bool, n int) (stored string, h *host) {
	t.Helper()
	h = newHost(testConfig(), peer)
	h.session.Watch(smtp.NewFieldWatch([]smtp.WatchedField{{Name: "X-Class", Remove: true}, {Name: "List-Id"}}))
	input := "EHLO x\r\nMAIL FROM:<a@a.example>\r\nRCPT TO:<b@b.example>\r\n"
	if bdat {
		input += fmt.Sprintf("BDAT %d LAST\r\n%s", len(content), content)
	} else {
		input += "DATA\r\n" + strings.ReplaceAll(content, "\r\n.", "\r\n..") + ".\r\n"
	}
	for rest := input; rest != ""; {
		piece := rest[:min(n, len(rest))]
		rest = rest[len(piece):]
		h.feed([]byte(piece))
	}
	if len(h.messages) == 0 {
		return "", h
	}
	m := h.messages[0]
	if m.envelope.Size != int64(len(m.content)) {
		t.Errorf("size %d, stored are %d", m.envelope.Size, len(m.content))
	}
	_, stored, _ = strings.Cut(m.content, testDate+"\r\n")
	return stored, h
}

// A field that is removed is not in the stored message, nor counted in its size; the
// message is otherwise as it came, by DATA and by BDAT, and what is left without a
// header gets the empty line that all content without one gets.
func TestFieldsAreRemoved(t *testing.T) {
	for _, test := range []struct {
		content, stored string
		found           []string
	}{
		{"Subject: x\r\n\r\nX-Class: a\r\n", "Subject: x\r\n\r\nX-Class: a\r\n", nil},
		{"Subject: x\r\nX-Class: bulk\r\n of it\r\nList-Id: l\r\n\r\nHi\r\n.dot\r\n", "Subject: x\r\nList-Id: l\r\n\r\nHi\r\n.dot\r\n", []string{"0 bulk of it", "1 l"}},
		{"X-Class: bulk\r\n\r\nHi\r\n", "\r\nHi\r\n", []string{"0 bulk"}},
		{"X-Class: bulk\r\nHi there\r\n", "\r\nHi there\r\n", []string{"0 bulk"}},
		{"X-Class: bulk\r\n", "", []string{"0 bulk"}},
		{"Hi there\r\nX-Class: bulk\r\n", "\r\nHi there\r\nX-Class: bulk\r\n", nil},
		{"X-Cl\r\n", "\r\nX-Cl\r\n", nil},
	} {
		for _, bdat := range []bool{false, true} {
			for _, n := range []int{1, 5, 1000} {
				stored, h := fields(t, test.content, loopbackPeer(), bdat, n)
				if stored != test.stored || fmt.Sprint(h.fields) != fmt.Sprint(test.found) {
					t.Errorf("%q, bdat %v, in pieces of %d: %q with %q, want %q with %q\n%s", test.content, bdat, n, stored, h.fields, test.stored, test.found, h.replies)
				}
			}
		}
	}
	// Content by BDAT may end anywhere.
	for content, want := range map[string]string{"A: b\r\nX-Class: bu": "A: b\r\n", "A: b\r\nX-Cla": "A: b\r\nX-Cla", "X-Cla": "\r\nX-Cla", "X": "\r\nX"} {
		if stored, h := fields(t, content, loopbackPeer(), true, 3); stored != want {
			t.Errorf("%q: %q, want %q\n%s", content, stored, want, h.replies)
		}
	}
	// Line ends that are repaired are repaired first.
	peer := loopbackPeer()
	peer.Normalize = true
	if stored, _ := fields(t, "A: b\nX-Class: bulk\nC: d\n\nHi\r\n", peer, false, 4); stored != "A: b\r\nC: d\r\n\r\nHi\r\n" {
		t.Errorf("%q", stored)
	}
}

// What is wrong in a field that is removed is still a reason to refuse the message.
func TestFlawsInRemovedFields(t *testing.T) {
	for _, content := range []string{"X-Class: a\nb: c\r\n\r\n", "X-Class: a\r\r\n\r\n", "X-Class: \x00\r\n\r\n", "X-Class: " + strings.Repeat("x", 70_000) + "\r\n\r\n"} {
		if _, h := fields(t, content, loopbackPeer(), false, 10_000); len(h.messages) > 0 || !strings.Contains(string(h.replies), "\r\n55") {
			t.Errorf("%.40q is accepted: %s", content, h.replies)
		}
	}
}

// A second message of a session does not have the fields of the first.
func TestFieldsOfEachMessage(t *testing.T) {
	_, h := fields(t, "X-Class: a\r\n\r\n", loopbackPeer(), false, 1000)
	h.feed([]byte("MAIL FROM:<a@a.example>\r\nRCPT TO:<b@b.example>\r\nDATA\r\nSubject: y\r\n\r\n.\r\n"))
	if len(h.messages) != 2 || len(h.fields) != 0 {
		t.Errorf("%d messages, the last with %q", len(h.messages), h.fields)
	}
	if h.messages[1].envelope.Flow != (mail.Flow{}) {
		t.Errorf("%+v", h.messages[1].envelope)
	}
}
