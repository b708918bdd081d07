package dkim

import (
	"strings"
	"testing"

	"github.com/emersion/go-msgauth/dkim"
)

// A record with a key of 2048 bits does not fit into one string of a TXT record; zone files
// of others have failed on that.
func TestZoneLine(t *testing.T) {
	keys := testKeys()
	long := ZoneLine("s1", "example.com", Record(keys[0]))
	if !strings.HasPrefix(long, "s1._domainkey.example.com. IN TXT (\n\t\"v=DKIM1; k=rsa; p=MIIB") || !strings.HasSuffix(long, "IDAQAB\" )") {
		t.Error(long)
	}
	parts := Strings(Record(keys[0]))
	if len(parts) != 2 || len(parts[0]) != 255 || strings.Join(parts, "") != Record(keys[0]) {
		t.Errorf("%q", parts)
	}
	if line := ZoneLine("s2", "example.com", Record(keys[1])); line != "s2._domainkey.example.com. IN TXT \""+Record(keys[1])+`"` || len(Record(keys[1])) != 66 {
		t.Error(line)
	}
	if n := len(Strings(strings.Repeat("x", 255))); n != 1 {
		t.Errorf("%d strings for 255 bytes", n)
	}
}

// What is wrong with a record is said in words; what is right is not remarked upon.
func TestCheckRecord(t *testing.T) {
	keys := testKeys()
	good := [2]string{Record(keys[0]), Record(keys[1])}
	p := strings.Split(good[1], "p=")[1]
	for _, c := range []struct {
		key   Algorithm
		texts []string
		want  string // "" for nothing
	}{
		{RSA, good[:1], ""},
		{Ed25519, good[1:], ""},
		{RSA, []string{strings.Replace(good[0], "k=rsa; ", "", 1)}, ""},
		{RSA, []string{strings.Replace(good[0], "v=DKIM1; ", "", 1)}, ""},
		{RSA, []string{strings.Replace(good[0], "p=MIIB", "p=MI IB", 1) + "; t=s; s=email; h=sha1 : sha256;"}, ""},
		{RSA, nil, "no record"},
		{RSA, []string{good[0], "v=spf1 -all"}, "2 records"},
		{RSA, good[1:], "another key than|it is for ed25519, and the key is rsa"},
		{Ed25519, []string{"v=DKIM1; p=" + p}, "it is for rsa, and the key is ed25519"},
		{Ed25519, []string{"v=DKIM1; k=ed25519; p="}, "revoked"},
		{Ed25519, []string{"v=DKIM1; k=ed25519"}, "no p= tag"},
		{Ed25519, []string{"v=DKIM1; k=ed25519; p=%%"}, "not base64"},
		{Ed25519, []string{"v=DKIM1; k=ed25519; p=AAAA"}, "another key than"},
		{Ed25519, []string{"v=DKIM2; k=ed25519; p=" + p}, "begin with v=DKIM1"},
		{Ed25519, []string{"k=ed25519; v=DKIM1; p=" + p}, "begin with v=DKIM1"},
		{Ed25519, []string{good[1] + "; t=s:y"}, "t=y"},
		{Ed25519, []string{good[1] + "; h=sha1"}, "sha256"},
		{Ed25519, []string{good[1] + "; s=tlsrpt"}, "not for mail"},
		{Ed25519, []string{good[1] + "; p=" + p}, "two tags p="},
		{Ed25519, []string{"\"" + good[1]}, "cannot be read"},
		{Ed25519, []string{"hello"}, "cannot be read"},
		{Ed25519, []string{""}, "cannot be read"},
		{Ed25519, []string{good[1] + "; g="}, "advice: g= was removed"},
		{Ed25519, []string{good[1] + "; n=" + strings.Repeat("x", 500)}, "advice: the answer of"},
		{Ed25519, []string{good[1] + "; n=" + strings.Repeat("x", 1200)}, "too long"},
	} {
		found := CheckRecord(keys[c.key], "s._domainkey.example.com", c.texts)
		if c.want == "" {
			if len(found) > 0 {
				t.Errorf("%q: %+v", c.texts, found)
			}
			continue
		}
		for want := range strings.SplitSeq(c.want, "|") {
			text, isAdvice := strings.CutPrefix(want, "advice: ")
			has := false
			for _, f := range found {
				has = has || strings.Contains(f.Text, text) && f.Wrong != isAdvice
			}
			if !has {
				t.Errorf("%q: %+v, want %q", c.texts, found, want)
			}
		}
	}
}

// Which policies make a signature count.
func TestCheckDMARC(t *testing.T) {
	for _, c := range []struct {
		author, signing string
		texts           []string
		want            string
		wrong           bool
	}{
		{"example.com", "example.com", []string{"v=DMARC1; p=none", "something else"}, "", false},
		{"a.example.com", "example.com", []string{"v=DMARC1; p=reject; adkim=r"}, "", false},
		{"example.com", "mail.example.com", []string{"v=DMARC1; p=reject"}, "", false},
		{"example.com", "example.com", []string{"v=DMARC1; p=reject; adkim=s"}, "", false},
		{"a.example.com", "example.com", []string{"v=DMARC1; p=reject; adkim=s"}, "adkim=s", true},
		{"example.com", "esp.example", []string{"v=DMARC1; p=none"}, "not aligned", true},
		{"example.com", "example.com", nil, "no DMARC record", false},
		{"example.com", "example.com", []string{"v=spf1"}, "no DMARC record", false},
		{"example.com", "example.com", []string{"v=DMARC1; p=none", "v=DMARC1; p=reject"}, "2 DMARC records", true},
		{"example.com", "example.com", []string{"v=DMARC1; p"}, "cannot be read", true},
	} {
		found := CheckDMARC(c.author, c.signing, c.texts)
		if c.want == "" && len(found) > 0 || c.want != "" && (len(found) != 1 || found[0].Wrong != c.wrong || !strings.Contains(found[0].Text, c.want)) {
			t.Errorf("%+v: %+v", c, found)
		}
	}
	if got := strings.Join(DMARCNames("a.b.example.com"), " "); got != "_dmarc.a.b.example.com _dmarc.b.example.com _dmarc.example.com" {
		t.Error(got)
	}
	if got := strings.Join(DMARCNames("localhost"), " "); got != "_dmarc.localhost" {
		t.Error(got)
	}
}

// A record with which the library refuses a signature is wrong for us, too.
func FuzzCheckRecord(f *testing.F) {
	private := testKeys()[Ed25519]
	good := Record(private)
	for _, s := range []string{good, good + "; t=y", good + ";h=sha256", "p=" + good[20:], good + "; s=email:*", strings.ToLower(good), good + "; k=rsa"} {
		f.Add(s)
	}
	r, err := NewRing([]Key{{Name: "ed", Domains: []string{"example.com"}, Selector: "s", Private: private}})
	if err != nil {
		f.Fatal(err)
	}
	signed, _ := sign(f, r, contents["tiny"], whole)
	f.Fuzz(func(t *testing.T, text string) {
		found, err := dkim.VerifyWithOptions(strings.NewReader(signed), &dkim.VerifyOptions{LookupTXT: func(string) ([]string, error) { return []string{text}, nil }})
		if err != nil || len(found) != 1 {
			t.Fatal(found, err)
		}
		right := true
		for _, one := range CheckRecord(private, "s._domainkey.example.com", []string{text}) {
			right = right && !one.Wrong
		}
		if right && found[0].Err != nil {
			t.Errorf("%q: the library says %v, and we say nothing", text, found[0].Err)
		}
	})
}

// A key signs reports on TLS only if its record is for them, which the tag s= may say (RFC 8460 3).
func TestCheckReports(t *testing.T) {
	for text, want := range map[string]string{
		"v=DKIM1; p=AAAA": "", "v=DKIM1; s=*; p=AAAA": "", "v=DKIM1; s=email:tlsrpt; p=AAAA": "", "s= tlsrpt ; p=AAAA": "", "v=DKIM1; s=email:*; p=AAAA": "", "hello": "",
		"v=DKIM1; s=email; p=AAAA": "s=email:tlsrpt", "v=DKIM1; s=email : other; p=AAAA": "not for reports on TLS (s=email : other)", "s=; p=AAAA": "not for reports",
	} {
		got := ""
		for _, f := range CheckReports([]string{text}) {
			if got += f.Text; f.Wrong {
				t.Errorf("%q: receivers refuse no signature for that", text)
			}
		}
		if (got == "") != (want == "") || !strings.Contains(got, want) {
			t.Errorf("%q: %q, want %q", text, got, want)
		}
	}
	if all := append(CheckReports(nil), CheckReports([]string{"s=x", "s=y"})...); len(all) > 0 {
		t.Errorf("%+v", all)
	}
}
