package dkim

import (
	"bytes"
	"net/mail"
	"strings"
	"testing"

	"github.com/emersion/go-msgauth/dkim"

	ours "github.com/posthaste-mta/posthaste/mail"
)

// A message is signed only if receivers will agree who its author is, and where its header
// ends. Everything else goes as it came.
func TestUnsigned(t *testing.T) {
	r := twoKeys(t)
	long := "From: " + strings.Repeat("x", KeptMax) + " <a@example.com>\r\n\r\nx\r\n"
	for _, c := range []struct {
		content string
		want    Reason
	}{
		{"", NoFrom},
		{"\r\nFrom: a@example.com\r\n", NoFrom},
		{"Subject: x\r\n\r\nx\r\n", NoFrom},
		{"From: a@example.com\r\nSubject: x\r\nfrom: a@example.com\r\n\r\nx\r\n", SeveralFroms},
		{"From: \r\n\r\nx\r\n", NoAuthor},
		{"From: <>\r\n\r\nx\r\n", NoAuthor},
		{"From: undisclosed\r\n\r\nx\r\n", NoAuthor},
		{"From: a@[192.0.2.1]\r\n\r\nx\r\n", NoAuthor},
		{"From: a@example.org\r\n\r\nx\r\n", NoKey},
		{"From: a@notexample.com\r\n\r\nx\r\n", NoKey},
		{"From: a@example.com\r\nthis is no field\r\n\r\nx\r\n", NoHeader},
		{"From: a@example.com\r\n: x\r\n\r\nx\r\n", NoHeader},
		{"From: a@example.com\r\nS\xfcbject: x\r\n\r\nx\r\n", NoHeader},
		{" folded\r\nFrom: a@example.com\r\n\r\nx\r\n", NoHeader},
		{"From a@example.com Mon\r\nFrom: a@example.com\r\n\r\nx\r\n", NoHeader},
		{"From: a@example.com\r\nSubj", NoHeader},
		{"From: a@example.com\r\n\r", NoHeader},
		{long, LongHeader},
	} {
		for _, size := range []int{1, 7, 1 << 30} {
			signed, p := sign(t, r, c.content, func() int { return size })
			if p.Reason != c.want || signed != c.content || p.Octets() != 0 || p.Signatures() != nil {
				t.Errorf("%.60q in pieces of %d: %v, want %v", c.content, size, p.Reason, c.want)
			}
		}
	}
	for i := range Reasons {
		if Reason(i).String() == "" {
			t.Errorf("reason %d has no words", i)
		}
	}
}

// A message that ends with its header is valid, and has an empty body (RFC 5322 3.5). The
// library refuses it, so the empty line is added for it, which changes neither part.
func TestHeaderOnly(t *testing.T) {
	r := twoKeys(t)
	signed, p := sign(t, r, "From: a@example.com\r\nSubject: x\r\n", whole)
	if p.Reason != Signed || verify(t, r, signed+"\r\n") != 2 {
		t.Errorf("%v\n%s", p.Reason, signed)
	}
	if _, err := dkim.Verify(strings.NewReader(signed)); err == nil {
		t.Error("the library has learned it: verify the message itself")
	}
}

// Fields beyond the limit of memory are left out of the signature, all of one name, and the
// message is signed without them.
func TestFieldsBeyondTheLimits(t *testing.T) {
	r := twoKeys(t)
	huge := "To: " + strings.Repeat("somebody@example.net,\r\n ", KeptMax/20) + "x@example.net\r\n"
	many := strings.Repeat("List-Id: x\r\n", fieldMax)
	for name, c := range map[string]struct{ content, missing, present string }{
		"huge":               {"From: a@example.com\r\n" + huge + "Subject: x\r\n\r\nx\r\n", "To", "Subject"},
		"huge and small":     {"To: x\r\nFrom: a@example.com\r\n" + huge + "Subject: x\r\n\r\nx\r\n", "To", "Subject"},
		"many":               {"From: a@example.com\r\n" + many + "Subject: x\r\n\r\nx\r\n", "List-Id", "From"},
		"spaces do not help": {"From: a@example.com\r\nTo:" + strings.Repeat(" ", KeptMax) + "x\r\nSubject: x\r\n\r\nx\r\n", "To", "Subject"},
	} {
		for _, size := range []int{1, 1000, 1 << 30} {
			signed, p := sign(t, r, c.content, func() int { return size })
			if p.Reason != Signed || size == 1000 && verify(t, r, signed) != 2 { // once: the library takes a second
				t.Fatalf("%s: %v", name, p.Reason)
			}
			field, _, _ := strings.Cut(signed, "bh=")
			if strings.Contains(field, ":"+c.missing+":") || !strings.Contains(field, c.present+":") {
				t.Errorf("%s in pieces of %d:\n%s", name, size, field)
			}
		}
	}
}

// The largest signatures fit into what a spool puts in front of a content (16 KiB).
func TestSignaturesAreBounded(t *testing.T) {
	long := strings.Repeat(strings.Repeat("d", 60)+".", 4) + "example" // 251 bytes
	var keys []Key
	for i := range 9 {
		keys = append(keys, Key{Name: "k", Domains: []string{"example.com"}, Domain: long, Selector: strings.Repeat("s", 60) + string(rune('a'+i)), Private: largestKey(t)})
		keys[i].Domain = string(rune('a'+i)) + long[1:]
	}
	r, err := NewRing(keys)
	if err != nil {
		t.Fatal(err)
	}
	signed, p := sign(t, r, "From: a@example.com\r\n"+strings.Repeat("Content-Transfer-Encoding: x\r\n", 2*fieldMax)+"\r\n", whole)
	if n := p.Octets(); n > 16<<10 || len(p.Signatures()) != SignaturesMax {
		t.Errorf("%d bytes of %d signatures", n, len(p.Signatures()))
	}
	verify(t, r, signed)
	signed, p = sign(t, r, "From: a@example.com\r\n"+strings.Repeat("Content-Transfer-Encoding: x\r\n", fieldMax-1)+"\r\n", whole)
	if n := p.Octets(); n < 8<<10 || n > 16<<10 {
		t.Errorf("%d bytes", n)
	}
	verify(t, r, signed)
}

// Lines of the field have at most 76 bytes where tags allow that, so that no host folds
// them, which the relaxed form would survive, but not every host's folding.
func TestFolding(t *testing.T) {
	r := twoKeys(t)
	signed, _ := sign(t, r, allFields(), whole)
	fields, _, _ := strings.Cut(signed, "From:\r\n")
	for line := range strings.Lines(fields[:strings.Index(signed, "\r\nFrom: ")]) {
		if text, ok := strings.CutSuffix(line, "\r\n"); ok && len(text) > lineMax+len("\t")+1 {
			t.Errorf("%d bytes: %q", len(text), text)
		}
	}
	if n := strings.Count(signed, "DKIM-Signature: v=1; a="); n != 2 || !strings.HasPrefix(signed, "DKIM-Signature: v=1; a=rsa-sha256;") {
		t.Errorf("%d signatures: %.300s", n, signed)
	}
	if strings.Contains(signed, "l=") {
		t.Error("there is an l= tag")
	}
}

// A host that changes what a reader sees voids the signature, also by adding a field that the
// message has, or does not have, already.
func TestChangesVoidTheSignature(t *testing.T) {
	r := twoKeys(t)
	signed, _ := sign(t, r, "From: a@example.com\r\nTo: b@example.net\r\nSubject: One\r\nDate: d\r\nMIME-Version: 1.0\r\n\r\nbody\r\n", whole)
	header, body, _ := strings.Cut(signed, "\r\n\r\n")
	for name, changed := range map[string]string{
		"body":              header + "\r\n\r\nBody\r\n",
		"longer body":       signed + "more\r\n",
		"subject":           strings.Replace(signed, "Subject: One", "Subject: Two", 1),
		"a second From":     "From: x@example.com\r\n" + signed,
		"a From at the end": header + "\r\nFrom: x@example.com\r\n\r\n" + body,
		"a second Subject":  header + "\r\nSubject: x\r\n\r\n" + body,
		"a second To":       "To: x\r\n" + signed,
		"a second Date":     header + "\r\nDate: x\r\n\r\n" + body,
		"a Reply-To":        header + "\r\nReply-To: x@example.org\r\n\r\n" + body,
		"a Cc":              "Cc: x@example.org\r\n" + signed,
		"a second version":  "MIME-Version: 2.0\r\n" + signed,
		"no Subject":        strings.Replace(signed, "Subject: One\r\n", "", 1),
	} {
		found, err := dkim.VerifyWithOptions(strings.NewReader(changed), &dkim.VerifyOptions{LookupTXT: records(r)})
		if err != nil || len(found) != 2 || found[0].Err == nil || found[1].Err == nil {
			t.Errorf("%s: %+v %v", name, found, err)
		}
	}
	for name, changed := range map[string]string{
		"a trace field":     "Received: from x\r\n\tby y\r\n" + signed,
		"a Return-Path":     "Return-Path: <a@example.com>\r\n" + signed,
		"a List-Id":         header + "\r\nList-Id: x\r\n\r\n" + body,
		"other white space": strings.Replace(strings.Replace(signed, "Subject: One", "subject:\tOne ", 1), "body", "body \t", 1) + "\r\n",
		"a folded field":    strings.Replace(signed, "To: b", "To:\r\n b", 1),
	} {
		if changed == signed || verify(t, r, changed) != 2 {
			t.Error(name)
		}
	}
}

// From fields of all kinds: what counts is the domain that a reader's program shows.
func TestAuthorDomain(t *testing.T) {
	for value, want := range map[string]string{
		"a@example.com":                   "example.com",
		" A B <a@Example.COM> ":           "example.com",
		`"b@example.org" <a@x.com>`:       "x.com",
		`"<b@example.org>" <a@x.com>`:     "x.com",
		`"a\"b@y.com" <a@x.com>`:          "x.com",
		`"a@b"@x.com`:                     "x.com",
		"(b@y.com) a@x.com":               "x.com",
		"(a(b)@y.com\\)) a@x.com (c)":     "x.com",
		"b@y.com <a@x.com>":               "x.com",
		"a @ x . com":                     "x.com",
		"a@x.com, b@y.com":                "x.com",
		"A, b@y.com":                      "y.com",
		"Group: a@x.com, b@y.com;":        "x.com",
		"Group:;":                         "",
		"<@r.com,@s.com:a@x.com>":         "x.com",
		"<a@x.com":                        "x.com",
		"a@x.com.":                        "x.com",
		"a@b\xc3\xbccher.example":         "xn--bcher-kva.example",
		"=?utf-8?q?b=40y.com?= <a@x.com>": "x.com",
		"a@[192.0.2.1]":                   "",
		"a@[IPv6:2001:db8::1], b@x.com":   "x.com",
		"a@":                              "",
		"a":                               "",
		"":                                "",
		"(":                               "",
		`"`:                               "",
		"a@x_y.com":                       "",
		"a@localhost":                     "localhost",
	} {
		if got := authorDomain([]byte(value)); got != want {
			t.Errorf("%q: %q, want %q", value, got, want)
		}
	}
}

// Where the standard library finds an author, we find the same one.
func FuzzAuthorDomain(f *testing.F) {
	for _, s := range []string{"A <a@x.com>", "a@x.com, b@y.com", "G: a@x.com;", `"x" <a@b>`, "(c) a@x.com", `"a@b"@x.com`, "=?utf-8?q?=40?= <a@x>"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, value string) {
		got := authorDomain([]byte(value))
		if got != "" && asciiDomain(got) != got {
			t.Fatalf("%q is not in the form of asciiDomain", got)
		}
		list, err := mail.ParseAddressList(value)
		if err != nil || len(list) == 0 {
			return
		}
		first := list[0].Address
		want := asciiDomain(first[strings.LastIndexByte(first, '@')+1:])
		if want != "" && got != want {
			t.Fatalf("%q: %q, and net/mail has %q", value, got, want)
		}
	})
}

// Any content of CRLF lines is signed, or not, in the same way however it is split, and what
// is signed verifies.
func FuzzMessage(f *testing.F) {
	for _, content := range contents {
		header, body, _ := strings.Cut(content[:min(len(content), 300)], "\r\n\r\n")
		f.Add(header+"\r\n\r\n", body, uint8(3))
	}
	f.Add("From: a@example.com\r\nSubject", " x\r\n \r\n\r\n", uint8(1))
	r, err := NewRing([]Key{{Name: "ed", Domains: []string{"example.com", "*.example.com"}, Selector: "s", Private: testKeys()[1]}})
	if err != nil {
		f.Fatal(err)
	}
	f.Fuzz(func(t *testing.T, header, body string, size uint8) {
		content := strings.ReplaceAll(strings.NewReplacer("\r\n", "\n", "\r", "").Replace(header+body), "\n", "\r\n")
		one, p := sign(t, r, content, whole)
		two, q := sign(t, r, content, func() int { return max(1, int(size)) })
		if p.Reason != q.Reason || one != two {
			t.Fatalf("%v, %v:\n%q\n%q", p.Reason, q.Reason, one, two)
		}
		if p.Reason != Signed || strings.Contains(strings.ToLower(content), "dkim-signature") {
			return // such a one would not be valid
		}
		for !strings.Contains(one, "\r\n\r\n") {
			one += "\r\n" // see TestHeaderOnly
		}
		if verify(t, r, one) != 1 {
			t.Fatalf("%q", one)
		}
	})
}

// A Message is used for one message after another, and forgets the one before.
func TestMessageIsUsedAgain(t *testing.T) {
	r := twoKeys(t)
	var m Message
	for _, name := range []string{"usual", "a megabyte", "long field", "tiny", "usual"} {
		content := []byte(contents[name])
		m.Begin(r)
		m.Write(bytes.Clone(content))
		p := m.Finish("", ours.Flow{}, now)
		fields, err := p.Sign()
		if err != nil {
			t.Fatal(err)
		}
		if n := verify(t, r, string(fields)+string(content)); n != 2 {
			t.Errorf("%s: %d signatures", name, n)
		}
		m.Begin(r)
		m.Write([]byte("From: half a header"))
	}
}
