package dkim

import (
	"bytes"
	"encoding/base64"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/posthaste-mta/posthaste/internal/ascii"
)

// A Finding is something about a record that its owner should know.
type Finding struct {
	Wrong bool   // receivers refuse signatures, or do not count them; otherwise it is advice
	Text  string // what it is and what to do
}

func wrong(format string, args ...any) Finding { return Finding{true, fmt.Sprintf(format, args...)} }
func advice(format string, args ...any) Finding {
	return Finding{false, fmt.Sprintf(format, args...)}
}

// What a record may take. An answer that is larger than a message without EDNS gets lost
// where a resolver has neither EDNS nor TCP, and one that is larger than a packet where it
// has no TCP (RFC 6376 3.3.3, RFC 9715).
const (
	answerMin   = 512
	answerMax   = 1232
	answerRest  = 12 + 6 + 12 // header, question and record, without the name and the text
	keySizeGood = 2048
)

// CheckRecord compares the texts of the TXT records of a name with a key. No finding means
// that receivers accept the key.
func CheckRecord(k PrivateKey, name string, texts []string) []Finding {
	switch len(texts) {
	case 0:
		return []Finding{wrong("no record; publish what \"posthaste dkim dns\" prints")}
	case 1:
	default:
		return []Finding{wrong("%d records, of which receivers accept none (RFC 6376 3.6.2.2); remove all but one", len(texts))}
	}
	text := texts[0]
	var all []Finding
	switch size := answerRest + len(name) + len(text) + len(text)/stringMax + 1; {
	case size > answerMax:
		all = append(all, wrong("the record is too long: an answer of %d bytes does not fit into a packet; use a key of %d bits", size, keySizeGood))
	case size > answerMin:
		all = append(all, advice("the answer of %d bytes is lost where a resolver has neither EDNS nor TCP", size))
	}
	if bits := k.Bits(); k.Algorithm() == RSA && bits < keySizeGood {
		all = append(all, advice("the key has %d bits, and receivers may demand %d (RFC 8301 3.2)", bits, keySizeGood))
	}
	list, err := parseTags(text)
	if err != nil {
		return append(all, wrong("the record cannot be read: %v: %q", err, short(text)))
	}
	return append(all, checkTags(k, list)...)
}

// checkTags checks the tags of a record (RFC 6376 3.6.1).
func checkTags(k PrivateKey, list tagList) (all []Finding) {
	if v, ok := list.get("v"); ok && (v != "DKIM1" || list[0].name != "v") {
		all = append(all, wrong("it does not begin with v=DKIM1"))
	}
	if kind, ok := list.get("k"); !ok && k.Algorithm() != RSA || ok && kind != k.Algorithm().String() {
		if kind == "" {
			kind = "rsa"
		}
		all = append(all, wrong("it is for %s, and the key is %s", kind, k.Algorithm()))
	}
	p, ok := list.get("p")
	p = strings.ReplaceAll(p, " ", "")
	octets, err := base64.StdEncoding.DecodeString(p)
	switch {
	case !ok:
		all = append(all, wrong("it has no p= tag"))
	case p == "":
		all = append(all, wrong("the key is revoked: p= is empty"))
	case err != nil:
		all = append(all, wrong("p= cannot be read: it is not base64"))
	case !bytes.Equal(octets, publicBytes(k.Public())):
		all = append(all, wrong("it publishes another key than the one that signs"))
	}
	if h, ok := list.get("h"); ok && !slices.Contains(splitList(h), "sha256") {
		all = append(all, wrong("it does not allow sha256 (h=%s)", h))
	}
	if s, ok := list.get("s"); ok && !slices.Contains(splitList(s), "*") && !slices.Contains(splitList(s), "email") {
		all = append(all, wrong("it is not for mail (s=%s)", s))
	}
	if flags, _ := list.get("t"); slices.Contains(splitList(flags), "y") {
		all = append(all, wrong("t=y: receivers treat the domain's mail as if it were not signed; remove t=y once all is tested"))
	}
	if g, ok := list.get("g"); ok && g != "*" {
		all = append(all, advice("g= was removed from the standard, and some receivers still take it to mean that mail of others is not signed; remove it"))
	}
	return all
}

// CheckReports reports whether the record of a key is for reports on TLS as well as for mail: without that, receivers
// may ignore a report that the key has signed (RFC 8460 3). What is wrong with the record besides is CheckRecord's.
func CheckReports(texts []string) []Finding {
	if len(texts) != 1 {
		return nil
	}
	list, err := parseTags(texts[0])
	if err != nil {
		return nil
	}
	s, ok := list.get("s")
	if services := splitList(s); !ok || slices.Contains(services, "*") || slices.Contains(services, "tlsrpt") {
		return nil
	}
	return []Finding{advice("it is not for reports on TLS (s=%s), which receivers may ignore then (RFC 8460 3); write s=%[1]s:tlsrpt, or remove s=", s)}
}

// CheckDMARC looks at the policy that receivers find for mail from a domain, and reports
// whether a signature of a key with the given signing domain counts for it (RFC 7489 3.1.1).
// The texts are the records of the first of DMARCNames that has any. The author's domain may
// be a pattern such as "*.example.com".
func CheckDMARC(author, signing string, texts []string) []Finding {
	texts = DMARCTexts(texts)
	switch len(texts) {
	case 0:
		return []Finding{advice("%s has no DMARC record; receivers expect one, such as \"v=DMARC1; p=none\" at _dmarc.%s", author, strings.TrimPrefix(author, "*."))}
	case 1:
	default:
		return []Finding{wrong("%s has %d DMARC records, of which none counts; remove all but one", author, len(texts))}
	}
	list, err := parseTags(texts[0])
	if err != nil {
		return []Finding{wrong("the DMARC record of %s cannot be read: %v: %q", author, err, short(texts[0]))}
	}
	strict, _ := list.get("adkim")
	switch {
	case author == signing:
	case strings.EqualFold(strict, "s"):
		return []Finding{wrong("the DMARC record of %s has adkim=s, and mail from there is signed by %s: that counts as not signed", author, signing)}
	case !strings.HasSuffix(author, "."+signing) && !strings.HasSuffix(signing, "."+author):
		return []Finding{wrong("mail from %s is signed by %s, which is not aligned: for DMARC it counts as not signed", author, signing)}
	}
	return nil
}

// DMARCTexts returns those of the TXT records of a name that are DMARC records.
func DMARCTexts(texts []string) []string {
	return slices.DeleteFunc(slices.Clone(texts), func(s string) bool { return !strings.HasPrefix(s, "v=DMARC1") })
}

// DMARCNames returns the names under which receivers look for the policy of a domain: its
// own, and then those of the domains above it that have a dot.
func DMARCNames(author string) (names []string) {
	for name, ok := author, true; ok && (len(names) == 0 || strings.Contains(name, ".")); _, name, ok = strings.Cut(name, ".") {
		names = append(names, "_dmarc."+name)
	}
	return names
}

// short cuts a text for a message.
func short(s string) string {
	if len(s) > 60 {
		return s[:60] + "…"
	}
	return s
}

// A tagList is a list as in records and signatures (RFC 6376 3.2).
type tagList []tag

type tag struct{ name, value string }

// parseTags reads a list of tags.
func parseTags(text string) (list tagList, err error) {
	for part := range strings.SplitSeq(text, ";") {
		name, value, ok := strings.Cut(part, "=")
		name, value = strings.TrimSpace(name), strings.TrimSpace(value)
		if !ok && name == "" {
			continue
		}
		if !ok || !isTagName(name) {
			return nil, errors.New("it is not a list of tags such as v=DKIM1; p=…")
		}
		if _, found := list.get(name); found {
			return nil, fmt.Errorf("there are two tags %s=", name)
		}
		list = append(list, tag{name, value})
	}
	if len(list) == 0 {
		return nil, errors.New("it is empty")
	}
	return list, nil
}

// isTagName reports whether a text can be the name of a tag: no quotes, for example, which
// some forms of providers take literally.
func isTagName(s string) bool {
	for i := 0; i < len(s); i++ {
		c := ascii.LowerByte(s[i])
		if letter := 'a' <= c && c <= 'z'; !letter && (i == 0 || c != '_' && (c < '0' || c > '9')) {
			return false
		}
	}
	return s != ""
}

// get returns the value of a tag.
func (l tagList) get(name string) (value string, ok bool) {
	for _, t := range l {
		if t.name == name {
			return t.value, true
		}
	}
	return "", false
}

// splitList splits a value at its colons.
func splitList(value string) []string {
	parts := strings.Split(value, ":")
	for i := range parts {
		parts[i] = strings.TrimSpace(parts[i])
	}
	return parts
}
