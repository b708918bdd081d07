package admin_test

import (
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/posthaste-mta/posthaste/admin"
	"github.com/posthaste-mta/posthaste/admin/admintest"
	"github.com/posthaste-mta/posthaste/mail"
)

// A message is shown with the attempts that the host remembers, and with an empty list where there are none.
func TestHistory(t *testing.T) {
	q := admintest.New(message(1, mail.AreaDeferred, "s@s.test", "a@a.test"))
	id := id(1)
	show := func(cfg admin.Config) string {
		w := serve(t, q, cfg).do(http.MethodGet, "/v1/messages/"+id.String(), "")
		if w.Code != http.StatusOK {
			t.Fatal(w.Code, w.Body)
		}
		return w.Body.String()
	}
	if got := show(admin.Config{}); !strings.Contains(got, `"history":[]`) {
		t.Error(got)
	}
	at := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	got := show(admin.Config{Attempts: func(of mail.QueueID) []admin.Attempt {
		if of != id {
			t.Errorf("asked for %s", of)
		}
		return []admin.Attempt{{At: at, Number: 1, Result: "deferred", Host: "mx", Stage: "rcpt", Reply: "451 later", Recipient: "a@a.test", More: 2}}
	}})
	if !strings.Contains(got, `"history":[{"at":"2026-01-02T03:04:05Z","number":1,"result":"deferred","host":"mx","stage":"rcpt","reply":"451 later","recipient":"a@a.test","more":2}]`) {
		t.Error(got)
	}
}
