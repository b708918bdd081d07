package sasl

import (
	"bytes"
	"encoding/base64"
	"errors"
	"strings"
	"testing"

	"github.com/xdg-go/scram"
)

func decode(t *testing.T, text string) []byte {
	t.Helper()
	b, err := base64.StdEncoding.DecodeString(text)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

func keysOf(t *testing.T, password string, salt []byte) Keys {
	t.Helper()
	k, err := NewKeys(password, salt, IterationsMin)
	if err != nil {
		t.Fatal(err)
	}
	return k
}

// The exchange of RFC 7677 section 3, octet by octet.
func TestScramVector(t *testing.T) {
	keys := keysOf(t, "pencil", decode(t, "W22ZaJ0SNY7soEsUEjb6gQ=="))
	s := NewScram(false, false, func(user string) Keys {
		if user != "user" {
			t.Errorf("keys of %q are looked up", user)
		}
		return keys
	}, nil)
	s.nonce = func() string { return "%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0" }
	for _, step := range []struct {
		in, out string
		done    bool
	}{
		{"n,,n=user,r=rOprNGfwEbeRWgbNEkqO", "r=rOprNGfwEbeRWgbNEkqO%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0,s=W22ZaJ0SNY7soEsUEjb6gQ==,i=4096", false},
		{"c=biws,r=rOprNGfwEbeRWgbNEkqO%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0,p=dHzbZapWIk4jUhN+Ute9ytag9zjfMHgsqmmiz7AndVQ=", "v=6rriTRBi23WpRR/wtup+mMhUZUn/dB5nLTJRsjl95G4=", false},
		{"", "", true},
	} {
		out, done, err := s.Next([]byte(step.in))
		if err != nil || string(out) != step.out || done != step.done {
			t.Fatalf("%s: %q, %v, %v; want %q, %v", step.in, out, done, err, step.out, step.done)
		}
	}
	if _, _, err := s.Next([]byte{}); err != ErrMessage {
		t.Errorf("after the end: %v", err)
	}
}

// A client of another implementation logs in: without a binding, and with each type that
// the connection has. It fails with a wrong password, with the binding of another connection (a
// man in the middle), with a type that the connection does not have, and if it believes that
// -PLUS was not offered while it was.
func TestScram(t *testing.T) {
	keys := keysOf(t, "sesame", []byte("0123456789abcdef"))
	has := func(kind string) []byte {
		return map[string][]byte{"tls-exporter": []byte("exported"), "tls-unique": []byte("unique"), "tls-server-end-point": []byte("hash")}[kind]
	}
	bound := func(kind, octets string) func(*scram.Client) *scram.ClientConversation {
		return func(c *scram.Client) *scram.ClientConversation {
			return c.NewConversationWithChannelBinding(scram.ChannelBinding{Type: scram.ChannelBindingType(kind), Data: []byte(octets)})
		}
	}
	unbound := (*scram.Client).NewConversation
	able := (*scram.Client).NewConversationAdvertisingChannelBinding
	for name, c := range map[string]struct {
		plus, offered bool
		talk          func(*scram.Client) *scram.ClientConversation
		password, act string
		want          error
	}{
		"plain":                 {false, true, unbound, "sesame", "", nil},
		"a wrong password":      {false, true, unbound, "sesame!", "", ErrRejected},
		"as itself":             {false, true, unbound, "sesame", "Alice", nil},
		"as another":            {false, true, unbound, "sesame", "bob", ErrOtherIdentity},
		"exporter":              {true, true, bound("tls-exporter", "exported"), "sesame", "", nil},
		"unique":                {true, true, bound("tls-unique", "unique"), "sesame", "", nil},
		"end point":             {true, true, bound("tls-server-end-point", "hash"), "sesame", "", nil},
		"bound, wrong password": {true, true, bound("tls-exporter", "exported"), "wrong", "", ErrRejected},
		"another connection":    {true, true, bound("tls-exporter", "relayed"), "sesame", "", ErrBinding},
		"no such type":          {true, true, bound("tls-unique", ""), "sesame", "", ErrBinding},
		"-PLUS was removed":     {false, true, able, "sesame", "", ErrBinding},
		"-PLUS was not offered": {false, false, able, "sesame", "", nil},
		"-PLUS without binding": {true, true, unbound, "sesame", "", ErrBinding},
		"binding without -PLUS": {false, true, bound("tls-exporter", "exported"), "sesame", "", ErrBinding},
	} {
		t.Run(name, func(t *testing.T) {
			client, err := scram.SHA256.NewClient("alice", c.password, c.act)
			if err != nil {
				t.Fatal(err)
			}
			talk := c.talk(client)
			server := NewScram(c.plus, c.offered, func(string) Keys { return keys }, func(kind string) []byte {
				if name == "no such type" {
					return nil
				}
				return has(kind)
			})
			message, done := "", false
			for !done {
				if message, err = talk.Step(message); err != nil {
					t.Fatal("the client: ", err)
				}
				var challenge []byte
				if challenge, done, err = server.Next([]byte(message)); err != nil {
					break
				}
				message = string(challenge)
			}
			if err != c.want || done != (err == nil) || done && (!talk.Valid() || server.User() != "alice") {
				t.Errorf("ended with %v, done %v, user %q; want %v", err, done, server.User(), c.want)
			}
		})
	}
}

// For a user that does not exist, keys are made up to which no password belongs: the exchange is
// the same, and fails at its end.
func TestScramUnknownUser(t *testing.T) {
	server := NewScram(false, false, func(string) Keys {
		return Keys{Salt: []byte("0123456789abcdef"), Iterations: IterationsMin, Stored: bytes.Repeat([]byte{1}, 32), Server: bytes.Repeat([]byte{2}, 32)}
	}, nil)
	client, err := scram.SHA256.NewClient("nobody", "x", "")
	if err != nil {
		t.Fatal(err)
	}
	talk := client.NewConversation()
	first, _ := talk.Step("")
	challenge, _, err := server.Next([]byte(first))
	if err != nil {
		t.Fatal(err)
	}
	final, err := talk.Step(string(challenge))
	if err != nil {
		t.Fatal(err)
	}
	if challenge, done, err := server.Next([]byte(final)); err != ErrRejected || done || challenge != nil {
		t.Errorf("%q, %v, %v", challenge, done, err)
	}
}

// B-68: what clients send instead of the messages of PLAIN and LOGIN ends the exchange, and
// no error has anything of it.
func TestPasswords(t *testing.T) {
	check := func(user, password string) error {
		switch {
		case user == "later":
			return ErrNotNow
		case user == "alice" && password == "sesame":
			return nil
		}
		return ErrRejected
	}
	for name, c := range map[string]struct {
		server   Server
		messages []string // "-" stands for none
		want     error
	}{
		"plain":                       {NewPlain(check), []string{"\x00alice\x00sesame"}, nil},
		"plain, asked":                {NewPlain(check), []string{"-", "\x00alice\x00sesame"}, nil},
		"plain, as itself":            {NewPlain(check), []string{"ALICE\x00alice\x00sesame"}, nil},
		"plain, as another":           {NewPlain(check), []string{"bob\x00alice\x00sesame"}, ErrOtherIdentity},
		"plain, wrong":                {NewPlain(check), []string{"\x00alice\x00secret"}, ErrRejected},
		"plain, not now":              {NewPlain(check), []string{"\x00later\x00secret"}, ErrNotNow},
		"plain, empty":                {NewPlain(check), []string{""}, ErrMessage},
		"plain, only NULs":            {NewPlain(check), []string{"\x00\x00"}, ErrMessage},
		"plain, four parts":           {NewPlain(check), []string{"\x00alice\x00sesame\x00"}, ErrMessage},
		"plain, no password":          {NewPlain(check), []string{"\x00alice\x00"}, ErrMessage},
		"plain, a long password":      {NewPlain(check), []string{"\x00alice\x00" + strings.Repeat("x", PasswordMax+1)}, ErrMessage},
		"login":                       {NewLogin(check), []string{"-", "alice", "sesame"}, nil},
		"login, user first":           {NewLogin(check), []string{"alice", "sesame"}, nil},
		"login, wrong":                {NewLogin(check), []string{"-", "alice", "secret"}, ErrRejected},
		"login, empty user":           {NewLogin(check), []string{"-", ""}, ErrMessage},
		"login, empty password":       {NewLogin(check), []string{"alice", ""}, ErrMessage},
		"scram gets a PLAIN":          {NewScram(false, false, nil, nil), []string{"\x00alice\x00sesame"}, ErrMessage},
		"scram without a user":        {NewScram(false, false, nil, nil), []string{"n,,r=abc"}, ErrMessage},
		"scram with extensions":       {NewScram(false, false, nil, nil), []string{"n,,m=x,n=alice,r=abc"}, ErrMessage},
		"scram, bad name":             {NewScram(false, false, nil, nil), []string{"n,,n=a=b,r=abc"}, ErrMessage},
		"scram, another's final":      {NewScram(false, false, anyKeys, nil), []string{"n,,n=a,r=abc", "c=biws,r=abc,p=AAAA"}, ErrRejected},
		"scram, no final":             {NewScram(false, false, anyKeys, nil), []string{"n,,n=a,r=abc", ""}, ErrMessage},
		"scram, unknown binding type": {NewScram(true, true, anyKeys, func(string) []byte { return nil }), []string{"p=x,,n=a,r=abc"}, ErrBinding},
	} {
		var done bool
		var err error
		for i, m := range c.messages {
			response := []byte(m)
			if m == "-" {
				response = nil
			}
			if _, done, err = c.server.Next(response); (err != nil || done) && i < len(c.messages)-1 {
				t.Errorf("%s: ended at message %d: %v", name, i, err)
			}
		}
		if !errors.Is(err, c.want) || done != (c.want == nil) {
			t.Errorf("%s: %v, done %v; want %v", name, err, done, c.want)
		}
		if _, again, err := c.server.Next([]byte("x")); again || err == nil {
			t.Errorf("%s: goes on after its end", name)
		}
	}
}

func anyKeys(string) Keys {
	return Keys{Salt: []byte("0123456789abcdef"), Iterations: IterationsMin, Stored: make([]byte, 32), Server: make([]byte, 32)}
}

// Names that look alike are the same user, passwords keep their case, and neither has
// control characters.
func TestPrepare(t *testing.T) {
	for in, want := range map[string]string{
		"Alice@Example.COM": "alice@example.com", "Ⅸ": "ix", "a\u00adb": "ab", "É": "é", "": "", "a b": "", "a\x01": "", "\xff": "", strings.Repeat("a", NameMax+1): "", "\u0627a": "",
	} {
		got, err := PrepareName(in)
		if got != want || (err == nil) != (want != "") {
			t.Errorf("name %q: %q, %v; want %q", in, got, err, want)
		}
	}
	for in, want := range map[string]string{
		"Sesame": "Sesame", "a\u00a0b": "a b", "\u2168": "IX", "": "", "\x00": "", "\xff": "", strings.Repeat("a", PasswordMax+1): "",
	} {
		got, err := Prepare(in)
		if got != want || (err == nil) != (want != "") {
			t.Errorf("password %q: %q, %v; want %q", in, got, err, want)
		}
		if err != nil && in != "" && strings.Contains(err.Error(), in) {
			t.Errorf("password %q is in the error %q", in, err)
		}
	}
}

// Keys of a file are of the sizes that clients can work with.
func TestKeys(t *testing.T) {
	good := anyKeys("")
	if err := good.Validate(); err != nil {
		t.Error(err)
	}
	for i, bad := range []Keys{
		{good.Salt, 4095, good.Stored, good.Server}, {good.Salt, IterationsMax + 1, good.Stored, good.Server},
		{good.Salt[:7], 4096, good.Stored, good.Server}, {make([]byte, 65), 4096, good.Stored, good.Server},
		{good.Salt, 4096, good.Stored[1:], good.Server}, {good.Salt, 4096, good.Stored, nil},
	} {
		if bad.Validate() == nil {
			t.Errorf("%d: no error", i)
		}
	}
}

// Whatever a client sends, it is not authenticated without the password.
func FuzzServer(f *testing.F) {
	f.Add(uint8(0), []byte("\x00alice\x00x"), []byte(""), []byte(""))
	f.Add(uint8(1), []byte("alice"), []byte("x"), []byte(""))
	f.Add(uint8(2), []byte("n,,n=user,r=abc"), []byte("c=biws,r=abc,p=dHzbZapWIk4jUhN+Ute9ytag9zjfMHgsqmmiz7AndVQ="), []byte(""))
	f.Add(uint8(3), []byte("p=tls-exporter,,n=user,r=abc"), []byte("c=biws,r=abc,p="), []byte(""))
	f.Fuzz(func(t *testing.T, kind uint8, one, two, three []byte) {
		check := func(user, password string) error { return ErrRejected }
		var s Server
		switch kind % 4 {
		case 0:
			s = NewPlain(check)
		case 1:
			s = NewLogin(check)
		case 2:
			s = NewScram(false, true, anyKeys, nil)
		default:
			s = NewScram(true, true, anyKeys, func(string) []byte { return []byte("bound") })
		}
		for _, m := range [][]byte{one, two, three} {
			_, done, err := s.Next(m)
			if done {
				t.Fatal("a client without a password was let in")
			}
			if err != nil && err != ErrMessage && err != ErrRejected && err != ErrBinding && err != ErrOtherIdentity {
				t.Fatalf("an error that is not of this package: %v", err)
			}
		}
	})
}

// Names that were prepared stay as they are.
func FuzzPrepare(f *testing.F) {
	f.Add("Alice")
	f.Add("Ⅸ\u00ad")
	f.Add("İ")
	f.Fuzz(func(t *testing.T, name string) {
		p, err := PrepareName(name)
		if err != nil {
			return
		}
		if again, err := PrepareName(p); err == nil && again != p {
			t.Errorf("%q becomes %q, and that %q", name, p, again)
		}
	})
}
