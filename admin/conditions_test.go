package admin_test

import (
	"net/url"
	"os"
	"reflect"
	"regexp"
	"strings"
	"testing"

	"github.com/posthaste-mta/posthaste/admin"
	"github.com/posthaste-mta/posthaste/admin/admintest"
	"github.com/posthaste-mta/posthaste/mail"
)

// docs/api.md says of each condition what it is compared with and what a star is in it. It is asked of the program.
//
// Seen failing: the document said that a star stands for any text in all conditions, and in error it is a star.
func TestConditionsAreAsDocumented(t *testing.T) {
	m := message(1, mail.AreaDeferred, "abc@sender.test", "abc@abc.test")
	m.Envelope.Flow = mail.Flow{Class: "abc", Tenant: "abc", Flow: "abc"}
	m.Recipients[0].Outcome = mail.Outcome{Result: mail.Deferred, Reply: mail.Reply{Code: 450, Text: "said abc", By: "abc.test[192.0.2.1]"}, Via: mail.Via{Transport: "smtp", Nexthop: "abc.test", Source: "abc"}}
	a := serve(t, admintest.New(m), admin.Config{ReplyClass: func(mail.Reply) string { return "abc" }})
	values := map[string]string{"sender": "abc@sender.test", "recipient": "abc@abc.test", "domain": "abc.test", "site": "abc.test", "host": "abc.test", "error": "said abc"}
	documented := conditionsOf(t)
	f := reflect.TypeFor[admin.Filter]()
	for i := range f.NumField() {
		name, list := strings.CutSuffix(f.Field(i).Tag.Get("query"), ",explode")
		if !list || name == "id" || name == "area" {
			continue
		}
		doc, ok := documented[name]
		if !ok {
			t.Errorf("docs/api.md does not have the condition %s", name)
			continue
		}
		value := values[name]
		if value == "" {
			value = "abc"
		}
		for pattern, want := range map[string]bool{
			value:                                  true,
			strings.ToUpper(value):                 true,
			strings.Replace(value, "b", "*", 1):    doc.star == "any text",
			value[:len(value)-1]:                   strings.HasPrefix(doc.with, "a part"),
			"/" + value[1:len(value)-1] + "/":      true,
			"/^" + value[:len(value)-1] + "$/":     false,
			strings.Replace(value, "abc", "xz", 1): false,
		} {
			page := get[admin.Page](a, "GET", "/v1/messages?"+url.Values{name: {pattern}}.Encode(), "")
			if got := len(page.Messages) == 1; got != want {
				t.Errorf("%s=%s finds %q: %v, and docs/api.md says %+v", name, pattern, value, got, doc)
			}
		}
		delete(documented, name)
	}
	for name := range documented {
		t.Errorf("docs/api.md has %s, which is no condition", name)
	}
}

// A documentedCondition is a row of the table.
type documentedCondition struct{ with, star string }

func conditionsOf(t *testing.T) map[string]documentedCondition {
	text, err := os.ReadFile("../docs/api.md")
	if err != nil {
		t.Fatal(err)
	}
	_, table, ok := strings.Cut(string(text), "| condition | compared with |")
	if !ok {
		t.Fatal("docs/api.md has no table of conditions")
	}
	all := make(map[string]documentedCondition)
	for _, line := range strings.Split(table, "\n")[2:] {
		cells := strings.Split(line, "|")
		if len(cells) < 5 {
			break
		}
		for _, name := range regexp.MustCompile("`([a-z_]+)`").FindAllStringSubmatch(cells[1], -1) {
			all[name[1]] = documentedCondition{strings.TrimSpace(cells[2]), strings.TrimSpace(cells[3])}
		}
	}
	return all
}
