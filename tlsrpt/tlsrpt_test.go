package tlsrpt

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"
)

var (
	today = DayOf(time.Date(2026, 11, 23, 12, 0, 0, 0, time.UTC))
	sts   = Policy{STS, []string{"version: STSv1", "mode: enforce", "mx: *.example.com", "max_age: 86400"}, "example.com", []string{"*.example.com"}}
	plain = Policy{Type: NoPolicy, Domain: "example.com"}
)

func expired(mx string, n uint64) Failure {
	return Failure{Result: CertificateExpired, SendingIP: "198.51.100.9", MX: mx, Receiving: "198.51.100.1", Sessions: n}
}

// schema is the template of RFC 8460 4.4: the kinds of values; a "?" before a name means that
// it may be missing.
var schema = map[string]any{
	"organization-name": "", "contact-info": "", "report-id": "",
	"date-range": map[string]any{"start-datetime": "", "end-datetime": ""},
	"policies": []any{map[string]any{
		"policy":  map[string]any{"policy-type": "", "?policy-string": []any{""}, "policy-domain": "", "?mx-host": []any{""}},
		"summary": map[string]any{"total-successful-session-count": 0.0, "total-failure-session-count": 0.0},
		"?failure-details": []any{map[string]any{
			"result-type": "", "?sending-mta-ip": "", "?receiving-mx-hostname": "", "?receiving-mx-helo": "", "?receiving-ip": "",
			"failed-session-count": 0.0, "?additional-information": "", "?failure-reason-code": "",
		}},
	}},
}

// conform returns what is wrong with a value.
func conform(at string, value, want any) (wrong []string) {
	switch want := want.(type) {
	case map[string]any:
		object, ok := value.(map[string]any)
		if !ok {
			return []string{at + " is no object"}
		}
		known := make(map[string]bool)
		for name, kind := range want {
			name, optional := strings.CutPrefix(name, "?")
			known[name] = true
			if v, there := object[name]; there {
				wrong = append(wrong, conform(at+"."+name, v, kind)...)
			} else if !optional {
				wrong = append(wrong, at+"."+name+" is missing")
			}
		}
		for name := range object {
			if !known[name] {
				wrong = append(wrong, at+"."+name+" is unknown")
			}
		}
	case []any:
		list, ok := value.([]any)
		if !ok {
			return []string{at + " is no list"}
		}
		for i, v := range list {
			wrong = append(wrong, conform(fmt.Sprint(at, i), v, want[0])...)
		}
	default:
		if reflect.TypeOf(value) != reflect.TypeOf(want) {
			wrong = append(wrong, fmt.Sprintf("%s is %v", at, value))
		}
	}
	return wrong
}

// A report has the names, kinds and sums of RFC 8460 4.4, with all of its parts and with as
// few as possible.
func TestReport(t *testing.T) {
	var b Book
	b.Success(today, "example.com", sts, 5)
	b.Success(today, "example.com", sts, 2)
	b.Failure(today, "example.com", sts, expired("mx1.example.com", 1))
	b.Failure(today, "example.com", sts, expired("mx1.example.com", 2))
	b.Failure(today, "example.com", sts, expired("mx2.example.com", 9))
	b.Failure(today, "example.com", sts, Failure{STSWebPKIInvalid, "198.51.100.9", "mx", "helo", "198.51.100.1", 1, "https://example.org/", "expired"})
	b.Success(today, "example.com", plain, 1)
	b.Success(today+1, "example.com", plain, 1)
	r := Report{"Example", today.Range(), "postmaster@example.org", "1@example.org", b.Sections(today, "example.com")}
	text, err := r.JSON()
	if err != nil {
		t.Fatal(err)
	}
	var value any
	if err := json.Unmarshal(text, &value); err != nil {
		t.Fatal(err)
	}
	if wrong := conform("report", value, schema); len(wrong) > 0 {
		t.Errorf("%q", wrong)
	}
	if !bytes.Contains(text, []byte(`"start-datetime":"2026-11-23T00:00:00Z","end-datetime":"2026-11-23T23:59:59Z"`)) {
		t.Errorf("%s", text)
	}
	s := r.Sections[0]
	if len(r.Sections) != 2 || s.Summary != (Summary{7, 13}) || len(s.Failures) != 3 || s.Failures[0] != expired("mx2.example.com", 9) || s.Failures[1] != expired("mx1.example.com", 3) {
		t.Errorf("%+v", r.Sections)
	}
	if wrong := conform("", map[string]any{"policies": []any{""}, "x": 1}, schema); len(wrong) < 4 {
		t.Errorf("the check finds only %q", wrong)
	}
}

// The example of RFC 8460, Appendix B, is read and written as it is.
func TestExample(t *testing.T) {
	const example = `{
		"organization-name": "Company-X",
		"date-range": {"start-datetime": "2016-04-01T00:00:00Z", "end-datetime": "2016-04-01T23:59:59Z"},
		"contact-info": "sts-reporting@company-x.example",
		"report-id": "5065427c-23d3-47ca-b6e0-946ea0e8c4be",
		"policies": [{
			"policy": {"policy-type": "sts", "policy-string": ["version: STSv1", "mode: testing", "mx: *.mail.company-y.example", "max_age: 86400"],
				"policy-domain": "company-y.example", "mx-host": ["*.mail.company-y.example"]},
			"summary": {"total-successful-session-count": 5326, "total-failure-session-count": 303},
			"failure-details": [
				{"result-type": "certificate-expired", "sending-mta-ip": "2001:db8:abcd:0012::1", "receiving-mx-hostname": "mx1.mail.company-y.example",
					"failed-session-count": 100},
				{"result-type": "starttls-not-supported", "sending-mta-ip": "2001:db8:abcd:0013::1", "receiving-mx-hostname": "mx2.mail.company-y.example",
					"receiving-ip": "203.0.113.56", "failed-session-count": 200,
					"additional-information": "https://reports.company-x.example/report_info?id=5065427c-23d3#StarttlsNotSupported"},
				{"result-type": "validation-failure", "sending-mta-ip": "198.51.100.62", "receiving-ip": "203.0.113.58",
					"receiving-mx-hostname": "mx-backup.mail.company-y.example", "failed-session-count": 3,
					"failure-reason-code": "X509_V_ERR_PROXY_PATH_LENGTH_EXCEEDED"}
			]}]}`
	var want, got any
	var r Report
	for _, v := range []any{&want, &r} {
		d := json.NewDecoder(strings.NewReader(example))
		d.DisallowUnknownFields()
		if err := d.Decode(v); err != nil {
			t.Fatal(err)
		}
	}
	text, err := r.JSON()
	if err != nil {
		t.Fatal(err)
	}
	if err := json.Unmarshal(text, &got); err != nil {
		t.Fatal(err)
	}
	if !reflect.DeepEqual(got, want) {
		t.Errorf("%s", text)
	}
	sections, err := json.Marshal(r.Sections)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := ParseSections(sections); err != nil {
		t.Error(err)
	}
}

// All domains and days together have bounds, too, and forgetting gives room.
func TestBoundsOfAll(t *testing.T) {
	var b Book
	for i := range AccountsMax + 5 {
		b.Success(today+Day(i%4), fmt.Sprint(i/4), plain, 1)
	}
	if b.Skipped != 5 || b.accounts != AccountsMax {
		t.Errorf("%d skipped, %d accounts", b.Skipped, b.accounts)
	}
	b.kinds = KindsMax
	b.Failure(today, "0", plain, expired("mx.example.com", 1))
	if s := b.Sections(today, "0")[0]; s.Summary != (Summary{1, 1}) || s.Failures[0] != (Failure{Result: CertificateExpired, Sessions: 1}) {
		t.Errorf("%+v", s)
	}
	b.kinds -= KindsMax
	for _, day := range b.Days() {
		b.Forget(day)
	}
	if b.accounts != 0 || b.kinds != 0 || len(b.Days()) != 0 {
		t.Errorf("%d accounts, %d kinds, %v", b.accounts, b.kinds, b.Days())
	}
	many := Policy{Type: TLSA, Domain: "a.test", Text: slices.Repeat([]string{"3 1 1 00"}, 1000)}
	b.Success(today, "a.test", many, 1)
	if s := b.Sections(today, "a.test")[0]; len(s.Policy.Text) != linesMax {
		t.Errorf("%d lines of a policy", len(s.Policy.Text))
	}
}

// Days are UTC days, whatever the zone of the clock.
func TestDays(t *testing.T) {
	zone := time.FixedZone("", -10*60*60)
	if d := DayOf(time.Date(2026, 11, 22, 14, 0, 0, 0, zone)); d != today || d.String() != "2026-11-23" {
		t.Error(d)
	}
	if d := DayOf(time.Date(2026, 11, 22, 13, 59, 59, 0, zone)); d != today-1 {
		t.Error(d)
	}
	if d := DayOf(today.Range().End); d != today || DayOf(today.Range().End.Add(time.Second)) != today+1 {
		t.Error(d)
	}
}

// Counts that are split among books in any way, kept as JSON and merged, are those of one book.
func TestMerge(t *testing.T) {
	seed := rand.Uint64()
	rng := rand.New(rand.NewPCG(seed, 0))
	var whole, merged Book
	parts := make([]Book, 5)
	for range 2000 {
		day, domain := today+Day(rng.IntN(3)), fmt.Sprintf("d%d.example", rng.IntN(4))
		p := []Policy{sts, plain, {Type: TLSA, Text: []string{"3 1 1 00"}, Domain: domain}}[rng.IntN(3)]
		part := &parts[rng.IntN(len(parts))]
		n := 1 + rng.Uint64N(5)
		if rng.IntN(2) == 0 {
			whole.Success(day, domain, p, n)
			part.Success(day, domain, p, n)
			continue
		}
		f := Failure{Result: results[rng.IntN(len(results))], MX: fmt.Sprint("mx", rng.IntN(3)), Sessions: n}
		whole.Failure(day, domain, p, f)
		part.Failure(day, domain, p, f)
	}
	for i := range parts {
		for _, day := range parts[i].Days() {
			for _, domain := range parts[i].Domains(day) {
				text, err := json.Marshal(parts[i].Sections(day, domain))
				if err != nil {
					t.Fatal(err)
				}
				sections, err := ParseSections(text)
				if err != nil {
					t.Fatal(err)
				}
				merged.Merge(day, domain, sections)
			}
		}
	}
	if !slices.Equal(whole.Days(), merged.Days()) || len(whole.Days()) != 3 {
		t.Fatal(merged.Days())
	}
	for _, day := range whole.Days() {
		if !slices.Equal(whole.Domains(day), merged.Domains(day)) {
			t.Fatal(merged.Domains(day))
		}
		for _, domain := range whole.Domains(day) {
			a, b := whole.Sections(day, domain), merged.Sections(day, domain)
			order := func(x, y Section) int { return strings.Compare(string(x.Policy.Type), string(y.Policy.Type)) }
			slices.SortFunc(a, order)
			slices.SortFunc(b, order)
			if !reflect.DeepEqual(a, b) {
				t.Errorf("seed %d, %v %s:\n%+v\n%+v", seed, day, domain, a, b)
			}
		}
		merged.Forget(day)
	}
	if len(merged.Days()) != 0 {
		t.Error("days are not forgotten")
	}
}

// A domain with very many hosts and policies, and very many domains, cost a limited amount
// of memory; no failure under a policy is left out of its sum.
func TestBounds(t *testing.T) {
	var b Book
	for i := range 10 * FailuresMax {
		b.Failure(today, "example.com", sts, expired(fmt.Sprint("mx", i), 1))
	}
	s := b.Sections(today, "example.com")[0]
	if len(s.Failures) != FailuresMax+1 || s.Summary.Failed != 10*FailuresMax || s.Failures[0] != (Failure{Result: CertificateExpired, Sessions: 9 * FailuresMax}) {
		t.Errorf("%d kinds, %d sessions, %+v", len(s.Failures), s.Summary.Failed, s.Failures[0])
	}
	for i := range 2 * PoliciesMax {
		b.Success(today, "example.org", Policy{Type: STS, Domain: fmt.Sprint(i)}, 2)
	}
	if n := len(b.Sections(today, "example.org")); n != PoliciesMax || b.Skipped != 2*PoliciesMax {
		t.Errorf("%d policies, %d skipped", n, b.Skipped)
	}
	b.Skipped = 0
	for i := range DomainsMax {
		b.Success(today, fmt.Sprint(i), plain, 1)
	}
	if n := len(b.Domains(today)); n != DomainsMax || b.Skipped != 2 {
		t.Errorf("%d domains, %d skipped", n, b.Skipped)
	}
}

// RFC 8460 3: who wants reports, and where.
func TestParseRecords(t *testing.T) {
	for _, c := range []struct {
		texts []string
		want  string
		err   error
	}{
		{[]string{"v=TLSRPTv1; rua=mailto:reports@example.com"}, "[mailto:reports@example.com]", nil},
		{[]string{"v=TLSRPTv1;rua=https://reporting.example.com/v1/tlsrpt;"}, "[https://reporting.example.com/v1/tlsrpt]", nil},
		{[]string{"v=spf1 -all", "v=TLSRPTv1; x=y; rua = mailto:a@b , https://c/%2C,ftp://d/ ;"}, "[mailto:a@b https://c/%2C]", nil},
		{nil, "[]", ErrNoRecord},
		{[]string{"v=TLSRPTv1", "v=TLSRPTv2; rua=mailto:a@b"}, "[]", ErrNoRecord},
		{[]string{"v=TLSRPTv1; rua=mailto:a@b", "v=TLSRPTv1;"}, "[]", ErrRecords},
		{[]string{"v=TLSRPTv1;"}, "[]", ErrRecord},
		{[]string{"v=TLSRPTv1; rua="}, "[]", ErrRecord},
		{[]string{"v=TLSRPTv1; rua=http://a/"}, "[]", ErrRecord},
		{[]string{"v=TLSRPTv1; rua=https:///x"}, "[]", ErrRecord},
		{[]string{"v=TLSRPTv1; rua=https://user@a/"}, "[]", ErrRecord},
		{[]string{"v=TLSRPTv1; rua=mailto:nobody"}, "[]", ErrRecord},
		{[]string{"v=TLSRPTv1; rua=%zz"}, "[]", ErrRecord},
	} {
		uris, err := ParseRecords(c.texts)
		if got := fmt.Sprint(uris); got != c.want || !errors.Is(err, c.err) {
			t.Errorf("%q: %s, %v", c.texts, got, err)
		}
	}
}

func FuzzParseRecords(f *testing.F) {
	f.Add("v=TLSRPTv1; rua=mailto:a@b,https://c/d;")
	f.Fuzz(func(t *testing.T, text string) {
		uris, err := ParseRecords([]string{text})
		if (err == nil) != (len(uris) > 0) || len(uris) > urisMax {
			t.Fatalf("%v, %v", uris, err)
		}
		for _, u := range uris {
			if u.Scheme != "mailto" && u.Scheme != "https" {
				t.Error(u)
			}
		}
	})
}

// What is read can be counted and written again.
func FuzzParseSections(f *testing.F) {
	var b Book
	b.Failure(today, "example.com", sts, expired("mx1.example.com", 1))
	text, _ := json.Marshal(b.Sections(today, "example.com"))
	f.Add(string(text))
	f.Add("[{}]")
	f.Fuzz(func(t *testing.T, text string) {
		sections, err := ParseSections([]byte(text))
		if err != nil {
			return
		}
		var b Book
		b.Merge(today, "example.com", sections)
		again, err := json.Marshal(b.Sections(today, "example.com"))
		if err != nil {
			t.Fatal(err)
		}
		if _, err := ParseSections(again); err != nil {
			t.Errorf("%s: %v", again, err)
		}
	})
}
