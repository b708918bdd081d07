package flow

import (
	"fmt"
	"math/rand/v2"
	"net/netip"
	"testing"

	"github.com/posthaste-mta/posthaste/mail"
	"github.com/posthaste-mta/posthaste/smtp"
)

// What is certain at MAIL is what the message has at its end, whatever header and
// recipients follow.
func TestForesee(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 1))
	pick := func(list ...string) string { return list[rng.IntN(len(list))] }
	certain := map[string]int{}
	for range 3000 {
		match := func() (m Match) {
			if rng.IntN(2) == 0 {
				m.Senders = []string{pick("a.example", "news@*", "<>")}
			}
			if rng.IntN(3) == 0 {
				m.Clients = []netip.Prefix{netip.MustParsePrefix("192.0.2.0/24")}
			}
			if rng.IntN(4) == 0 {
				m.Headers = []string{"X-A"}
			}
			if rng.IntN(4) == 0 {
				m.MinRecipients = 2
			}
			if rng.IntN(4) == 0 {
				m.Tenants = []string{pick("shop", "192.*")}
			}
			return m
		}
		cfg := Config{HeaderClients: []netip.Prefix{netip.MustParsePrefix("10.0.0.0/8")}, Tenants: []Tenant{{Name: "shop", Weight: 1, Match: Match{Senders: []string{pick("a.example", "b.example")}}}}}
		for n := range rng.IntN(3) {
			cfg.Classes = append(cfg.Classes, Class{Name: fmt.Sprint(n), Weight: 1, Match: match()})
		}
		if rng.IntN(3) == 0 {
			cfg.Classes = append(cfg.Classes, Class{Name: ClassBulk, Weight: 1, Match: Match{Senders: []string{"never@example.com"}}})
		}
		if rng.IntN(4) == 0 {
			cfg.Key = Key{Kind: KeyHeader, Header: "X-Flow"}
		}
		r, err := NewRules(cfg)
		if err != nil {
			t.Fatal(err)
		}
		var addr netip.Addr
		if text := pick("", "10.1.1.1", "192.0.2.7", "198.51.100.1"); text != "" {
			addr = netip.MustParseAddr(text)
		}
		c := NewClient(addr, Listener{}, "")
		sender := mail.Address(pick("", "news@a.example", "jane@b.example"))
		f, known := r.Foresee(c, sender, 0)
		for range 10 {
			m := Message{Client: c, Sender: sender, Recipients: 1 + rng.IntN(200)}
			for i := range 8 {
				if rng.IntN(2) == 0 {
					m.Fields = append(m.Fields, smtp.Field{Watched: i, Value: []byte(pick("bulk", "0", "x"))})
				}
			}
			got, _ := r.Classify(&m)
			if known.Class && got.Class != f.Class || known.Tenant && got.Tenant != f.Tenant || known.Flow && got.Flow != f.Flow {
				t.Fatalf("%+v, foreseen %+v as %+v; rules %+v", got, known, f, cfg)
			}
		}
		for what, is := range map[string]bool{"class": known.Class, "tenant": known.Tenant, "flow": known.Flow} {
			if is {
				certain[what]++
			}
		}
	}
	for _, what := range []string{"class", "tenant", "flow"} {
		if n := certain[what]; n < 100 || n == 3000 {
			t.Errorf("the %s is certain %d times", what, n)
		}
	}
}
