package credential

import (
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/xdg-go/scram"

	"github.com/posthaste-mta/posthaste/mail"
)

const pass = "correct horse"

func password(name string, nexthops ...string) Credential {
	return Credential{Name: name, For: nexthops, User: "mia", Password: NewSecret(pass)}
}

// Whatever prints a value with a secret does not print that.
func TestSecretsAreNotPrinted(t *testing.T) {
	table, err := NewTable([]Credential{password("office", "*")}, "")
	if err != nil {
		t.Fatal(err)
	}
	h := table.Named("office")
	v, scrammed := NewConversation(h, NewSecret(pass)), NewConversation(h, NewSecret(pass))
	if _, _, err := v.Begin([]string{Plain}, true); err != nil {
		t.Fatal(err)
	}
	if _, _, err := scrammed.Begin([]string{SCRAM}, true); err != nil {
		t.Fatal(err)
	}
	var log strings.Builder
	for _, value := range []any{h.Password, &h.Password, h.Credential, h, *v, h.Redactor(NewSecret("token of " + pass)), *h.Redactor(Secret{}), h.seen, struct{ s Secret }{h.Password}, map[string]Secret{"x": h.Password}, v.client, *scrammed, scrammed.client} {
		for _, verb := range []string{"%v", "%+v", "%#v", "%s", "%q", "%x", "%d"} {
			fmt.Fprintf(&log, verb, value)
		}
		slog.New(slog.NewJSONHandler(&log, nil)).Info("x", "value", value)
		slog.New(slog.NewTextHandler(&log, nil)).Info("x", "value", value)
		text, err := json.Marshal(value)
		fmt.Fprint(&log, string(text), err)
	}
	if text := log.String(); strings.Contains(text, pass) || strings.Contains(text, fmt.Sprintf("%x", pass)) {
		t.Errorf("a secret is printed:\n%s", text)
	}
}

// Which credential is for which nexthop, from the narrowest pattern to the widest.
func TestTable(t *testing.T) {
	table, err := NewTable([]Credential{
		password("exact", "[smtp.example.net]:587"), password("port", "smtp.example.net:2525"), password("host", "Smtp.Example.Net", "[192.0.2.1]"),
		password("below", ".example.net"), password("far", ".sub.example.net"), password("rest", "*"),
	}, "")
	if err != nil {
		t.Fatal(err)
	}
	for _, row := range []struct {
		nexthop    string
		configured bool
		want       string
	}{
		{"[smtp.example.net]:587", true, "exact"},
		{"smtp.example.net:587", true, "host"},
		{"[smtp.example.net]:2525", true, "port"},
		{"smtp.example.net:2525", true, "port"},
		{"[smtp.example.net]", true, "host"},
		{"smtp.example.net", false, "host"},
		{"mx.example.net", false, "below"},
		{"a.sub.example.net", false, "far"},
		{"sub.example.net", false, "below"},
		{"example.net", false, ""},
		{"example.net", true, "rest"},
		{"badexample.net", false, ""},
		{"[192.0.2.1]", true, "host"},
		{"[192.0.2.1]:25", true, "rest"},
		{"[192.0.2.2]", false, ""},
		{"{smtp.example.net}", false, ""},
		{"a.example,b.example", true, "rest"},
		{"", false, ""},
	} {
		if got := table.For(row.nexthop, row.configured, ""); got != row.want {
			t.Errorf("%s (configured %v): %q, want %q", row.nexthop, row.configured, got, row.want)
		}
	}
	var none *Table
	if none.For("[smtp.example.net]:587", true, "") != "" || none.Named("exact") != nil {
		t.Error("a nil table has a credential")
	}
}

// Which credential is for which sender's mail. One for the sender comes before one for all mail, though
// that may name the nexthop more closely: so it is with Postfix, where the sender is looked up first.
func TestTableBySender(t *testing.T) {
	of := func(name string, senders []string, nexthops ...string) Credential {
		c := password(name, nexthops...)
		c.Senders = senders
		return c
	}
	all := []Credential{
		of("all", nil, "[relay.example]:587", "*"), of("mia", []string{"Mia@Shop.example"}, "relay.example"), of("news", []string{"mia+news@shop.example"}, "*"),
		of("shop", []string{"@shop.example", "@bücher.example"}, "relay.example", "*"), of("reports", []string{"<>"}, "relay.example"), of("other", []string{"a@other.example"}, "other.example"),
		of("kim", []string{"kim@shop.example"}, "*"),
	}
	table, err := NewTable(all, "+")
	if err != nil {
		t.Fatal(err)
	}
	for _, row := range []struct {
		nexthop, sender, want string
	}{
		{"[relay.example]:587", "mia@shop.example", "mia"},
		{"[relay.example]:587", "MIA@SHOP.EXAMPLE", "mia"},
		{"[relay.example]:587", "mia+sales@shop.example", "mia"},
		{"[relay.example]:587", "mia+news@shop.example", "news"},
		{"[relay.example]:587", "+mia@shop.example", "shop"},
		{"[relay.example]:587", "kim@shop.example", "kim"},
		{"[relay.example]:587", "\u212aim@shop.example", "shop"}, // the sign for kelvin, which is a k in lower case
		{"[relay.example]:587", "bob@shop.example", "shop"},
		{"[relay.example]:587", "bob@xn--bcher-kva.example", "shop"},
		{"[relay.example]:587", "bob@Bücher.example.", "shop"},
		{"[relay.example]:587", "mia@a.shop.example", "all"},
		{"[relay.example]:587", "mia@badshop.example", "all"},
		{"[relay.example]:587", "\"a@shop.example\"@elsewhere.example", "all"},
		{"[relay.example]:587", "<>", "reports"},
		{"[relay.example]:587", "", "all"},
		{"[relay.example]:587", "mia", "all"},
		{"[relay.example]:587", "mia@[192.0.2.1]", "all"},
		{"[third.example]", "mia@shop.example", "shop"},
		{"[third.example]", "<>", "all"},
		{"other.example", "a@other.example", "other"},
		{"other.example", "b@other.example", "all"},
	} {
		if got := table.For(row.nexthop, true, mail.Address(row.sender)); got != row.want {
			t.Errorf("%s from %q: %q, want %q", row.nexthop, row.sender, got, row.want)
		}
	}
	if got := table.For("other.example", false, "b@other.example"); got != "" {
		t.Errorf("a sender that no credential is for has %q", got)
	}
	if !table.Any("other.example", false) || table.Any("third.example", false) || !table.Any("third.example", true) {
		t.Error("Any does not find the credentials of all senders")
	}
	plain, err := NewTable(all, "")
	if err != nil {
		t.Fatal(err)
	}
	if got := plain.For("[relay.example]:587", true, "mia+sales@shop.example"); got != "shop" {
		t.Errorf("without a delimiter: %q", got)
	}
	var none *Table
	simple, _ := NewTable(all[:1], "")
	if !table.BySender() || simple.BySender() || none.BySender() || none.Any("a.example", true) {
		t.Error("whether senders count")
	}
	changed, _ := NewTable(append([]Credential{all[0], of("mia2", all[1].Senders, "relay.example")}, all[2:]...), "+")
	again, _ := NewTable(all, "+")
	if !table.Same(again) || table.Same(changed) || table.Same(plain) || table.Same(none) || none.Same(table) || !none.Same(nil) {
		t.Error("which tables are the same")
	}
	if _, err := NewTable([]Credential{of("a", []string{"@a.example", "@A.example"}, "b.example", "B.example")}, ""); err != nil {
		t.Errorf("a credential that says twice for whom it is: %v", err)
	}
	if _, err := NewTable([]Credential{of("a", []string{"@a.example"}, "*"), of("b", []string{"x@b.example", "@A.example"}, "c.example", "*")}, ""); err == nil || !strings.Contains(err.Error(), "a is for * and @a.example, too") {
		t.Errorf("two credentials for one sender: %v", err)
	}
}

// What is wrong with a credential is said without its secret.
func TestValidate(t *testing.T) {
	with := func(change func(*Credential)) Credential {
		c := password("office", "[smtp.example.net]:587")
		change(&c)
		return c
	}
	for want, c := range map[string]Credential{
		"cannot be the name":                       with(func(c *Credential) { c.Name = "a+b" }),
		"for no nexthop":                           with(func(c *Credential) { c.For = nil }),
		"for: ":                                    with(func(c *Credential) { c.For = []string{"a b"} }),
		"a dot and a domain":                       with(func(c *Credential) { c.For = []string{".example.net:25"} }),
		"a list of hosts":                          with(func(c *Credential) { c.For = []string{"{a.example}"} }),
		`senders: "mia" is no sender`:              with(func(c *Credential) { c.Senders = []string{"mia"} }),
		`senders: "@a b" is no sender`:             with(func(c *Credential) { c.Senders = []string{"a@b.example", "@a b"} }),
		`"" is no sender: write an address, @ and`: with(func(c *Credential) { c.Senders = []string{""} }),
		"has no user":                              with(func(c *Credential) { c.User = "" }),
		"control character":                        with(func(c *Credential) { c.User = "a\x00b" }),
		"has a NUL":                                with(func(c *Credential) { c.Password = NewSecret(pass + "\x00") }),
		"no two of them":                           with(func(c *Credential) { c.Token.File = "/x" }),
		"it needs one":                             with(func(c *Credential) { c.Password = Secret{} }),
		"absolute path":                            with(func(c *Credential) { c.Password, c.Token.Command = Secret{}, []string{"token"} }),
		"no effect unless":                         with(func(c *Credential) { c.InClear = true }),
		`"XOAUTH2" is none`:                        with(func(c *Credential) { c.Mechanisms = []string{XOAuth2} }),
		`"PLAIN" is none that`:                     with(func(c *Credential) { c.Password, c.Token.File, c.Mechanisms = Secret{}, "/x", []string{Plain} }),
		"letters, digits, -, _":                    with(func(c *Credential) { c.Name = strings.Repeat("x", NameMax+1) }),
	} {
		_, err := NewTable([]Credential{c}, "")
		if err == nil || !strings.Contains(err.Error(), want) || strings.Contains(err.Error(), pass) {
			t.Errorf("want %q: %v", want, err)
		}
	}
	if _, err := NewTable([]Credential{password("a", "*"), password("a", "a.example")}, ""); err == nil {
		t.Error("two credentials have one name")
	}
	if _, err := NewTable([]Credential{password("a", "*"), password("b", "*")}, ""); err == nil {
		t.Error("two credentials have one pattern")
	}
}

// The example of RFC 2195 2.
func TestCRAMVector(t *testing.T) {
	c := cramMD5{&Credential{User: "tim", Password: NewSecret("tanstaaftanstaaf")}}
	got, err := c.next([]byte("<1896.697170952@postoffice.reston.mci.net>"))
	if want := "tim b913a602c7eda7a495b4e6e7334d3890"; err != nil || string(got) != want {
		t.Errorf("%s, want %s (%v)", got, want, err)
	}
	if _, err := c.next(nil); err == nil {
		t.Error("an empty challenge is answered")
	}
}

// The example of RFC 7677 3, and what a hostile server may say in it.
func TestSCRAM(t *testing.T) {
	begin := func() *scramClient {
		c, err := scram.SHA256.NewClient("user", "pencil", "")
		if err != nil {
			t.Fatal(err)
		}
		s := &scramClient{conversation: c.WithNonceGenerator(func() string { return "rOprNGfwEbeRWgbNEkqO" }).NewConversation()}
		if first, _ := s.start(); string(first) != "n,,n=user,r=rOprNGfwEbeRWgbNEkqO" {
			t.Fatalf("first message %q", first)
		}
		return s
	}
	const serverFirst = "r=rOprNGfwEbeRWgbNEkqO%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0,s=W22ZaJ0SNY7soEsUEjb6gQ==,i=4096"
	const serverFinal = "v=6rriTRBi23WpRR/wtup+mMhUZUn/dB5nLTJRsjl95G4="
	s := begin()
	got, err := s.next([]byte(serverFirst))
	if want := "c=biws,r=rOprNGfwEbeRWgbNEkqO%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0,p=dHzbZapWIk4jUhN+Ute9ytag9zjfMHgsqmmiz7AndVQ="; err != nil || string(got) != want {
		t.Fatalf("%s, want %s (%v)", got, want, err)
	}
	v := &Conversation{client: s}
	if v.Complete() {
		t.Error("complete before the server's proof")
	}
	if _, err := s.next([]byte(serverFinal)); err != nil || !v.Complete() {
		t.Errorf("the server's proof: %v", err)
	}
	if _, err := s.next([]byte(serverFinal)); err == nil {
		t.Error("a message after the last one is answered")
	}
	for _, first := range []string{
		"", "x", "r=other,s=W22ZaJ0SNY7soEsUEjb6gQ==,i=4096", strings.Replace(serverFirst, "4096", "1", 1), strings.Replace(serverFirst, "4096", "2147483647", 1),
		strings.Replace(serverFirst, "4096", "99999999999999999999", 1), strings.Replace(serverFirst, "4096", "-4096", 1), strings.Replace(serverFirst, "s=W22ZaJ0SNY7soEsUEjb6gQ==", "s=%", 1),
	} {
		if _, err := begin().next([]byte(first)); err == nil {
			t.Errorf("%q is answered", first)
		}
	}
	s = begin()
	s.next([]byte(serverFirst))
	for _, final := range []string{"v=AAAA", "e=other-error", "", strings.Replace(serverFinal, "6rri", "7rri", 1)} {
		s := s
		if _, err := s.next([]byte(final)); err == nil || s.conversation.Valid() {
			t.Errorf("%q proves something", final)
		}
	}
}

// What a server says in place of each message never crashes us, and is never a success without
// its proof.
func FuzzConversation(f *testing.F) {
	f.Add(uint8(0), "r=x,s=W22ZaJ0SNY7soEsUEjb6gQ==,i=4096", "v=AAAA")
	f.Add(uint8(1), "<1@x>", "")
	f.Add(uint8(4), "Username:", "Password:")
	f.Add(uint8(6), `{"status":"401"}`, "")
	f.Fuzz(func(t *testing.T, which uint8, one, two string) {
		c := password("office", "*")
		m := Mechanisms()[int(which)%len(Mechanisms())]
		if slices.Contains(tokenMechanisms(), m) {
			c.Password, c.Token.File = Secret{}, "/x"
		}
		v := NewConversation(&Held{Credential: c}, NewSecret("token"))
		if _, _, err := v.Begin([]string{m}, true); err != nil {
			return // SCRAM-SHA-256-PLUS without TLS
		}
		_, err := v.Answer([]byte(one))
		if err == nil {
			_, err = v.Answer([]byte(two))
		}
		if strings.HasPrefix(m, "SCRAM") && v.Complete() {
			t.Fatal("a server that does not know the password has proved that it does")
		}
		if err != nil && (strings.Contains(err.Error(), pass) || strings.Contains(err.Error(), "token")) {
			t.Fatalf("an error has a secret: %v", err)
		}
	})
}

// What a command prints is a token, or JSON with one, and nothing else: least of all what would
// end a response and begin another field.
func FuzzOutput(f *testing.F) {
	for _, text := range []string{"abc", "abc\n", " abc\r\nmore", `{"access_token":"abc","expires_in":3600}`, `{"access_token":"a\u0001b"}`, `{"access_token":"abc","expires_in":1e300}`, `{"expires_in":-1}`, "{", "", "a b", "\x01"} {
		f.Add([]byte(text))
	}
	f.Fuzz(func(t *testing.T, text []byte) {
		token, lifetime, ok := parseOutput(text, time.Minute)
		if !ok {
			return
		}
		if s := token.reveal(); s == "" || strings.ContainsFunc(s, func(r rune) bool { return r <= ' ' || r >= 0x7f }) || lifetime <= 0 || lifetime > 24*time.Hour {
			t.Fatalf("%q for %v", s, lifetime)
		}
	})
}

func program(t *testing.T, text string) string {
	t.Helper()
	if runtime.GOOS == "windows" {
		t.Skip("there is no shell")
	}
	path := filepath.Join(t.TempDir(), "token")
	if err := os.WriteFile(path, []byte("#!/bin/sh\n"+text+"\n"), 0o700); err != nil {
		t.Fatal(err)
	}
	return path
}

func held(s TokenSource) *Held {
	h := &Held{Credential: Credential{Name: "office", User: "mia", Token: s}}
	h.tokens.init(&h.Credential)
	return h
}

// A hundred connections that need a token run the command once; its arguments are not
// interpreted, and its standard input is empty.
func TestTokenCommandRunsOnce(t *testing.T) {
	dir := t.TempDir()
	h := held(TokenSource{Command: []string{program(t, `echo x >>"$1/runs"; cat; echo "{\"access_token\":\"abc\",\"expires_in\":3600}"`), dir, "$(exit 1); `exit 1`"}})
	var group sync.WaitGroup
	for range 100 {
		group.Go(func() {
			if token, _, err := h.Token(t.Context()); err != nil || token.reveal() != "abc" {
				t.Errorf("%v", err)
			}
		})
	}
	group.Wait()
	if runs, _ := os.ReadFile(filepath.Join(dir, "runs")); string(runs) != "x\n" {
		t.Errorf("the command ran %d times", strings.Count(string(runs), "x"))
	}
	if _, kept, _ := h.Token(t.Context()); !kept {
		t.Error("the token is not known to be an old one")
	}
	h.Forget(NewSecret("other"))
	if _, kept, _ := h.Token(t.Context()); !kept {
		t.Error("the token was forgotten because of another one")
	}
	h.Forget(NewSecret("abc"))
	if _, kept, err := h.Token(t.Context()); kept || err != nil {
		t.Errorf("the token was kept (%v)", err)
	}
}

// A command that fails says so without what it has printed, and is not run again at once; one that
// hangs is killed with its children.
func TestTokenCommandFails(t *testing.T) {
	dir := t.TempDir()
	for text, want := range map[string]string{
		`echo secret; exit 3`:  "exit status 3",
		`echo secret and more`: "neither an access token nor JSON",
		`trap "" PIPE; yes secret 2>/dev/null | head -c 100000; exit 0`: "too much output",
		`echo secret >&2; sleep 60 & sleep 60`:                          "did not end within",
	} {
		h := held(TokenSource{Command: []string{program(t, `echo x >>`+dir+"/$$\n"+text)}, Timeout: 200 * time.Millisecond})
		if want != "did not end within" {
			h.tokens.source.Timeout = time.Minute
		}
		for range 2 {
			_, _, err := h.Token(t.Context())
			if err == nil || !strings.Contains(err.Error(), want) || strings.Contains(err.Error(), "secret") {
				t.Errorf("%s: %v", text, err)
			}
		}
	}
	files, _ := filepath.Glob(dir + "/*")
	for _, f := range files {
		if runs, _ := os.ReadFile(f); string(runs) != "x\n" {
			t.Errorf("a command that had failed ran again: %q", runs)
		}
	}
	if _, _, err := held(TokenSource{Command: []string{"/nonexistent/token"}}).Token(t.Context()); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("%v", err)
	}
}

// A token file is read again each time, and refused if others can read it.
func TestTokenFile(t *testing.T) {
	path := filepath.Join(t.TempDir(), "token")
	h := held(TokenSource{File: path})
	write := func(text string, mode os.FileMode) {
		os.Remove(path)
		if err := os.WriteFile(path, []byte(text), mode); err != nil {
			t.Fatal(err)
		}
		if err := os.Chmod(path, mode); err != nil {
			t.Fatal(err)
		}
	}
	for _, row := range []struct {
		text  string
		mode  os.FileMode
		token string
		want  string
	}{
		{"one\n", 0o600, "one", ""}, {"two", 0o400, "two", ""}, {"two", 0o604, "", "all users may use this file"}, {"a b", 0o600, "", "is not an access token"}, {"", 0o600, "", "is not an access token"},
	} {
		write(row.text, row.mode)
		token, kept, err := h.Token(t.Context())
		if token.reveal() != row.token || kept || (err == nil) != (row.want == "") || err != nil && !strings.Contains(err.Error(), row.want) {
			t.Errorf("%+v: %v", row, err)
		}
	}
}

// What servers say is cleaned of what they were sent, in any form that was sent; of a token also after there is
// another.
func TestRedactor(t *testing.T) {
	h := &Held{Credential: password("office", "*")}
	long := strings.Repeat("x", mail.ReplyTextMax)
	for _, row := range []struct{ text, want string }{
		{"250 fine", "250 fine"},
		{"bad password correct horse", "bad password [secret]"},
		{"correct horsecorrect horse correct hors", "[secret][secret] correct hors"},
		{"cannot parse AG1pYQBjb3JyZWN0IGhvcnNl", "cannot parse [secret]"},
		{"Y29ycmVjdCBob3JzZQ== is wrong, Y29ycmVjdCBob3JzZQ too", "[secret] is wrong, [secret] too"},
		{"\x00mia\x00correct horse", "\x00mia\x00[secret]"},
		{"one\ncorrect horse\ntwo", "one\n[secret]\ntwo"},
		{long + "correct hors", long + "[secret]"}, // the line was cut
		{long + "AG1pYQBjb3", long + "[secret]"},
		{long + "cor", long + "cor"},
		{"correct hors\n" + long + "correct horse\n" + long + "correct", "correct hors\n" + long + "[secret]\n" + long + "[secret]"},
	} {
		if got := h.Redactor(Secret{}).Redact(row.text); got != row.want {
			t.Errorf("%q becomes %q, want %q", row.text, got, row.want)
		}
	}
	short := &Held{Credential: Credential{User: "mia", Password: NewSecret("abc")}}
	if got := short.Redactor(Secret{}).Redact("abc"); got != "abc" || short.Redactor(Secret{}) != nil {
		t.Errorf("%q", got)
	}
	tokens := &Held{Credential: Credential{User: "a=b", Token: TokenSource{File: "/x"}}}
	first := tokens.Redactor(NewSecret("ya29.first"))
	for i := range tokensRedacted {
		if got := tokens.Redactor(NewSecret(fmt.Sprintf("ya29.token%d", i))).Redact("ya29.first"); (got == hidden) != (i < tokensRedacted-1) {
			t.Errorf("after %d other tokens the first is shown as %q", i+1, got)
		}
	}
	if first.Redact("ya29.first ya29.token3") != "[secret] ya29.token3" {
		t.Error("a redactor changes")
	}
	for _, mechanism := range []string{XOAuth2, OAuthBearer} {
		response, err := (&bearer{user: "a=b", token: NewSecret("ya29.token3"), mechanism: mechanism}).start()
		text := base64.StdEncoding.EncodeToString(response)
		if got := tokens.Redactor(NewSecret("ya29.token3")).Redact("no " + text + "; " + string(response)); err != nil || strings.Contains(got, "ya29") || strings.Contains(got, text) {
			t.Errorf("%s: %q", mechanism, got)
		}
	}
	if again := tokens.Redactor(NewSecret("ya29.token3")); tokens.Redactor(NewSecret("ya29.token3")) != again {
		t.Error("each connection has a redactor of its own")
	}
}

// A label stays as it is while the same user logs in to the same servers, so that connections and what is known of hosts are
// used on; and is another one for another user or account, or if the secret may be used on other connections.
func TestLabel(t *testing.T) {
	office := Credential{Name: "office", User: "mia", Password: NewSecret("one"), For: []string{"relay.example"}}
	labelOf := func(c Credential) string {
		table, err := NewTable([]Credential{c}, "")
		if err != nil {
			t.Fatal(err)
		}
		label := table.LabelFor(table.All()[0].For[0], false, "mia@shop.example")
		if h, err := table.Labeled(label); err != nil || h.Label() != label {
			t.Errorf("label %s: %v", label, err)
		}
		if h, err := table.Labeled(c.Name); err == nil {
			t.Errorf("a name is taken for a label: %+v", h)
		}
		return label
	}
	label := labelOf(office)
	for what, change := range map[string]func(*Credential){
		"password":   func(c *Credential) { c.Password = NewSecret("two") },
		"for":        func(c *Credential) { c.For = []string{"other.example"} },
		"senders":    func(c *Credential) { c.Senders = []string{"@shop.example"} },
		"mechanisms": func(c *Credential) { c.Mechanisms = []string{Plain} },
	} {
		c := office
		if change(&c); labelOf(c) != label {
			t.Errorf("the label depends on %s: %s and %s", what, labelOf(c), label)
		}
	}
	seen := map[string]string{label: "nothing"}
	for what, change := range map[string]func(*Credential){
		"name":          func(c *Credential) { c.Name = "desk" },
		"user":          func(c *Credential) { c.User = "ben" },
		"tls":           func(c *Credential) { c.Protection = Encrypted },
		"optional":      func(c *Credential) { c.Protection = Optional },
		"in clear":      func(c *Credential) { c.Protection, c.InClear = Optional, true },
		"token_file":    func(c *Credential) { c.Password, c.Token.File = Secret{}, "/run/token" },
		"token_command": func(c *Credential) { c.Password, c.Token.Command = Secret{}, []string{"/bin/token", "mia"} },
		"arguments":     func(c *Credential) { c.Password, c.Token.Command = Secret{}, []string{"/bin/token", "m", "ia"} },
	} {
		c := office
		change(&c)
		if other, twice := seen[labelOf(c)]; twice {
			t.Errorf("with another %s the label is that with another %s: %s", what, other, labelOf(c))
		}
		seen[labelOf(c)] = what
	}
}
