package inbound

import (
	"testing"
	"testing/synctest"

	"github.com/posthaste-mta/posthaste/mail"
)

// Each refusal is about something, by its status code or else by its code, and is counted there.
func TestRefusalReasons(t *testing.T) {
	for _, c := range []struct {
		code, subject, detail uint16
		want                  RefusalReason
	}{
		{500, 5, 2, RefusalProtocol}, {503, 5, 1, RefusalProtocol}, {554, 5, 1, RefusalProtocol}, {501, 0, 0, RefusalProtocol},
		{550, 1, 1, RefusalAddress}, {501, 1, 3, RefusalAddress}, {450, 1, 8, RefusalAddress}, {552, 2, 2, RefusalAddress},
		{452, 5, 3, RefusalRecipients},
		{554, 7, 1, RefusalPolicy}, {550, 7, 9, RefusalPolicy}, {450, 7, 1, RefusalPolicy},
		{530, 7, 0, RefusalLogin}, {535, 7, 8, RefusalLogin}, {538, 7, 11, RefusalLogin}, {454, 7, 0, RefusalLogin},
		{552, 3, 4, RefusalSize},
		{554, 6, 0, RefusalContent}, {554, 4, 6, RefusalContent},
		{452, 3, 1, RefusalSystem}, {451, 3, 0, RefusalSystem}, {454, 3, 0, RefusalSystem}, {450, 4, 4, RefusalSystem},
		{554, 0, 0, RefusalOther}, {421, 0, 0, RefusalOther}, {599, 9, 9, RefusalOther},
	} {
		r := mail.Reply{Code: c.code, Status: mail.Status{Class: c.code / 100, Subject: c.subject, Detail: c.detail}}
		if c.subject == 0 {
			r.Status = mail.Status{}
		}
		if got := reasonOf(r); got != c.want {
			t.Errorf("%d %v is about %v, want %v", c.code, r.Status, got, c.want)
		}
	}
	for r := range RefusalReason(RefusalReasons) {
		if r.String() == "" {
			t.Errorf("reason %d has no name", r)
		}
	}
}

// A session's refusals are in the snapshot by their reasons, and their sum is the number of all.
func TestSnapshotOfRefusals(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ts := start(t, Config{}, nil, EarlyLog)
		c := ts.dial(t, "203.0.113.9") // not of our networks
		c.hello()
		c.say("BOGUS")
		c.hear("500")
		c.say("MAIL FROM:<a@b..c>")
		c.hear("501 5.1.7")
		c.say("MAIL FROM:<a@b.example>")
		c.hear("250")
		c.say("RCPT TO:<x@elsewhere.example>")
		c.hear("550 5.7.1")
		c.say("QUIT")
		c.hear("221")
		ts.end(t)
		n := ts.Snapshot()
		want := [RefusalReasons]int64{RefusalProtocol: 1, RefusalAddress: 1, RefusalPolicy: 1}
		if n.Refusals != want || n.Rejections != 3 || n.Connections != 1 || n.Open != 0 || n.Messages != 0 {
			t.Errorf("%+v, want %v", n, want)
		}
	})
}
