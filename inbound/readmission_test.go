package inbound

import (
	"errors"
	"strings"
	"testing"
	"testing/iotest"

	"github.com/google/go-cmp/cmp"

	"github.com/posthaste-mta/posthaste/flow"
	"github.com/posthaste-mta/posthaste/mail"
	"github.com/posthaste-mta/posthaste/rewrite"
)

// A plainMap is a map of whole addresses.
type plainMap map[string]string

func (m plainMap) Find(key string) (string, bool) {
	value, ok := m[key]
	return value, ok
}

func (plainMap) Whole() bool { return true }

// What is decided anew about mail that waits: sender and recipients by the rules for programs on this machine, in whose place
// others come with the DSN options that he had, and with his old address for reports; and the flow by the header.
func TestReadmission(t *testing.T) {
	rules, err := rewrite.New(rewrite.Config{Origin: "x.test", Canonical: []rewrite.Map{plainMap{"old@a.test": "new@a.test"}},
		Aliases: []rewrite.Map{plainMap{"team@a.test": "ann@b.test, bob@b.test", "round@a.test": "trip@a.test", "trip@a.test": "round@a.test", "self@a.test": "self@a.test"}}})
	if err != nil {
		t.Fatal(err)
	}
	flows, err := flow.NewRules(flow.Config{})
	if err != nil {
		t.Fatal(err)
	}
	r := Readmission{rules, flows}
	for from, want := range map[mail.Address]mail.Address{"old@a.test": "new@a.test", "b@a.test": "b@a.test", "": ""} {
		if got, err := r.Sender(from); got != want || err != nil {
			t.Errorf("<%s> became <%s>, %v", from, got, err)
		}
	}
	for _, c := range []struct {
		of   mail.Recipient
		want []mail.Replacement
		err  bool
	}{
		{mail.Recipient{Index: 3, Address: "team@a.test", Notify: mail.NotifyDelay}, []mail.Replacement{{Of: 3, Address: "ann@b.test", ORcpt: "rfc822;team@a.test", Notify: mail.NotifyDelay},
			{Of: 3, Address: "bob@b.test", ORcpt: "rfc822;team@a.test", Notify: mail.NotifyDelay}}, false},
		{mail.Recipient{Index: 1, Address: "old@a.test", ORcpt: "rfc822;first"}, []mail.Replacement{{Of: 1, Address: "new@a.test", ORcpt: "rfc822;first"}}, false},
		{mail.Recipient{Address: "ann@b.test"}, nil, false},
		{mail.Recipient{Address: "self@a.test"}, nil, false},
		{mail.Recipient{Address: "round@a.test"}, nil, true},
	} {
		got, err := r.Recipient(&c.of)
		if diff := cmp.Diff(c.want, got); diff != "" || (err != nil) != c.err {
			t.Errorf("%s: %v %s", c.of.Address, err, diff)
		}
	}
	e := mail.Envelope{Sender: "a@b.test", Recipients: 1, Client: mail.Client{Proto: "ESMTP"}, Flow: mail.Flow{Class: "normal", Tenant: "local", Flow: "before"}}
	long := "X: y\r\n" + strings.Repeat("Y: "+strings.Repeat("z", 900)+"\r\n", 20) + "List-Id: <x>\r\n\r\nbody\r\n"
	for content, class := range map[string]string{"Subject: x\r\n\r\nList-Id: x\r\n": "normal", long: "bulk", "List-Id: x": "bulk", "": "normal"} {
		f, err := r.Flow(&e, iotest.OneByteReader(strings.NewReader(content)))
		if want := (mail.Flow{Class: class, Tenant: "local", Flow: "a@b.test"}); f != want || err != nil {
			t.Errorf("%.20q: %+v, %v", content, f, err)
		}
	}
	if _, err := r.Flow(&e, iotest.ErrReader(errors.New("no disk"))); err == nil {
		t.Error("a header that cannot be read has a flow")
	}
	report := e
	report.Sender, report.Client.Proto = "", mail.ProtoLocal
	if f, err := r.Flow(&report, nil); f != e.Flow || err != nil {
		t.Errorf("a report: %+v %v", f, err)
	}
	none := Readmission{}
	same, _ := none.Sender("old@a.test")
	if to, err := none.Recipient(&mail.Recipient{Address: "team@a.test"}); to != nil || err != nil || same != "old@a.test" {
		t.Errorf("without rules: %v %v %s", to, err, same)
	}
	if f, err := none.Flow(&e, nil); f != e.Flow || err != nil {
		t.Errorf("without rules: %+v %v", f, err)
	}
}

// That a client has logged in is known from the protocol.
func TestLoggedIn(t *testing.T) {
	for proto, want := range map[string]bool{"ESMTP": false, "ESMTPS": false, "ESMTPA": true, "ESMTPSA": true, "UTF8SMTPA": true, "SMTP": false, mail.ProtoLocal: false} {
		if loggedIn(proto) != want {
			t.Errorf("%s: %v", proto, !want)
		}
	}
}
