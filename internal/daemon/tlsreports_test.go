package daemon

import (
	"bytes"
	"compress/gzip"
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"io"
	"mime"
	"mime/multipart"
	"net"
	"net/http"
	"net/http/httptest"
	netmail "net/mail"
	"net/netip"
	"reflect"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/posthaste-mta/posthaste/config"
	"github.com/posthaste-mta/posthaste/dane"
	"github.com/posthaste-mta/posthaste/internal/sink"
	"github.com/posthaste-mta/posthaste/mail"
	"github.com/posthaste-mta/posthaste/mtasts"
	"github.com/posthaste-mta/posthaste/outbound"
	"github.com/posthaste-mta/posthaste/tlspolicy"
	"github.com/posthaste-mta/posthaste/tlsrpt"
	"github.com/posthaste-mta/posthaste/tlsrpt/courier"
)

// tlsReportOf reads a report, compressed as it is sent.
func tlsReportOf(t *testing.T, packed io.Reader) (r tlsrpt.Report) {
	t.Helper()
	z, err := gzip.NewReader(packed)
	if err != nil {
		t.Fatal(err)
	}
	if err := json.NewDecoder(z).Decode(&r); err != nil {
		t.Fatal(err)
	}
	return r
}

// One daemon sends mail to domains whose policies are in mode testing, and to one without a
// policy. On the next day, after a restart, those that want a report have one, signed mail or a POST, with
// what was counted; after another restart nothing is left to be sent.
func TestDomainsGetReportsOnTLS(t *testing.T) {
	t.Parallel()
	cert, key, _ := selfSigned(t, "mx.d.test")
	ln, err := net.Listen("tcp", "127.0.0.4:0")
	if err != nil {
		t.Skipf("this machine has only one loopback address: %v", err)
	}
	box, plain := receive(t, sink.Config{}), receive(t, sink.Config{}, ln)
	_, port, err := net.SplitHostPort(plain.address)
	if err != nil {
		t.Fatal(err)
	}
	start(t, t.TempDir(), fmt.Sprintf("myhostname = \"mx.d.test\"\nrelay_domains = [\"d.test\", \"e.test\"]\n[[listener]]\naddress = \"127.0.0.3:%s\"\ntls = \"may\"\n"+
		"[[listener]]\naddress = \"127.0.0.5:%[1]s\"\ntls = \"may\"\n[[certificate]]\ncert = %q\nkey = %q\n", port, cert, key)+
		routes("d.test", box.address, "e.test", box.address))
	var posted atomic.Pointer[tlsrpt.Report]
	web := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Method == http.MethodPost {
			report := tlsReportOf(t, r.Body)
			posted.Store(&report)
			return
		}
		w.Header().Set("Content-Type", "text/plain")
		fmt.Fprint(w, "version: STSv1\r\nmode: testing\r\nmx: *.d.test\r\nmx: *.e.test\r\nmax_age: 86400\r\n")
	}))
	_, _, pair := selfSigned(t, "mta-sts.d.test", "mta-sts.e.test", "web.r.test")
	web.TLS = &tls.Config{Certificates: []tls.Certificate{pair}}
	web.StartTLS()
	t.Cleanup(web.Close)
	roots := x509.NewCertPool()
	roots.AddCert(pair.Leaf)
	server := zone(t, `
d.test.           60 IN MX 10 mx.d.test.
mx.d.test.        60 IN A 127.0.0.3
_mta-sts.d.test.  60 IN TXT "v=STSv1; id=1"
mta-sts.d.test.   60 IN A 127.0.0.1
_smtp._tls.d.test. 60 IN TXT "v=TLSRPTv1; rua=mailto:reports@r.test"
e.test.           60 IN MX 10 mx.e.test.
mx.e.test.        60 IN A 127.0.0.5
_mta-sts.e.test.  60 IN TXT "v=STSv1; id=1"
mta-sts.e.test.   60 IN A 127.0.0.1
_smtp._tls.e.test. 60 IN TXT "v=TLSRPTv1; rua=https://web.r.test/tlsrpt"
web.r.test.       60 IN A 127.0.0.1
one._domainkey.origin.test. 60 IN TXT "v=DKIM1; k=ed25519; s=email; p=AAAA"
f.test.           60 IN MX 10 mx.f.test.
mx.f.test.        60 IN A 127.0.0.4
`)
	dial := func(ctx context.Context, network, _ string) (net.Conn, error) {
		return new(net.Dialer).DialContext(ctx, network, web.Listener.Addr().String())
	}
	permit := func(netip.Addr) bool { return true }
	noon := tlsrpt.DayOf(time.Now()).Range().Start.Add(12 * time.Hour)
	options := func(day int) Options {
		return Options{STS: mtasts.Config{Roots: roots, Permit: permit, Dial: dial},
			TLSReports: courier.Config{Roots: roots, Permit: permit, Dial: dial, Spread: 1, Now: func() time.Time { return noon.AddDate(0, 0, day) }}}
	}
	z, dir := make(records), t.TempDir()
	text := fmt.Sprintf("dns.servers = [%q]\nsmtp_permit_private_hosts = true\nsmtp_tls_security_level = \"mta-sts\"\nsmtp_tls_ca_file = %q\n", server, cert) +
		"[tls_reports]\norganization = \"Origin\"\nfrom = \"tls-reports@origin.test\"\n" +
		routes("d.test", "smtp:d.test:"+port, "e.test", "smtp:e.test:"+port, "f.test", "smtp:f.test:"+port, "r.test", box.address) + z.newKeys(t, dir, [3]string{"one", "ed25519", ""})

	r := startWith(t, dir, text, options(0))
	r.feed(letter("<1>", "a@d.test"), letter("<2>", "a@e.test"), letter("<3>", "a@f.test"))
	r.settled()
	r.until("the other daemon to have passed the mail on", func() bool { return len(box.deliveries()) == 2 })
	box.copies().matches(t, copies{"<1> a@d.test": 1, "<2> a@e.test": 1})
	plain.copies().matches(t, copies{"<3> a@f.test": 1})
	page, err := r.d.tlsReports.page(noon.Format(time.DateOnly), "F.test")
	if err != nil || !page.Counting || fmt.Sprint(page.Domains) != "[d.test e.test f.test]" || !strings.Contains(string(page.Report), `"no-policy-found"`) || !strings.Contains(string(page.Report), `"starttls-not-supported"`) {
		t.Errorf("%+v %s, %v", page, page.Report, err)
	}
	r.end()

	r = startWith(t, dir, text, options(1))
	r.until("the report on d.test to arrive", func() bool { return len(box.deliveries()) == 3 })
	r.until("the report on e.test to arrive", func() bool { return posted.Load() != nil })
	r.until("the courier to have done its work", func() bool { return len(r.d.tlsReports.keeper.Days()) == 0 })
	r.settled()
	if r.log.count("a TLS report was mailed, and receivers may ignore it", "one._domainkey.origin.test", "s=email:tlsrpt") != 1 {
		t.Error("the log does not say that the key is not for reports")
	}
	r.end()

	d := box.deliveries()[2]
	if got := z.selectors(t, d.Content); len(got) != 1 {
		t.Errorf("signatures %v", got)
	}
	m, err := netmail.ReadMessage(bytes.NewReader(d.Content))
	if err != nil {
		t.Fatal(err)
	}
	_, params, err := mime.ParseMediaType(m.Header.Get("Content-Type"))
	if err != nil || params["report-type"] != "tlsrpt" || m.Header.Get("TLS-Report-Domain") != "d.test" || d.Sender != "tls-reports@origin.test" {
		t.Errorf("%v, %v", m.Header, err)
	}
	parts := multipart.NewReader(m.Body, params["boundary"])
	var part *multipart.Part
	for range 2 {
		if part, err = parts.NextPart(); err != nil {
			t.Fatal(err)
		}
	}
	mailed := tlsReportOf(t, base64.NewDecoder(base64.StdEncoding, part))
	sts := func(domain string) tlsrpt.Policy {
		return tlsrpt.Policy{Type: tlsrpt.STS, Domain: domain, MX: []string{"*.d.test", "*.e.test"},
			Text: []string{"version: STSv1", "mode: testing", "mx: *.d.test", "mx: *.e.test", "max_age: 86400"}}
	}
	if want := []tlsrpt.Section{{Policy: sts("d.test"), Summary: tlsrpt.Summary{Successful: 1}}}; !reflect.DeepEqual(mailed.Sections, want) {
		t.Errorf("%+v", mailed.Sections)
	}
	want := []tlsrpt.Section{{Policy: sts("e.test"), Summary: tlsrpt.Summary{Failed: 1}, Failures: []tlsrpt.Failure{
		{Result: tlsrpt.CertificateHostMismatch, SendingIP: "127.0.0.1", MX: "mx.e.test", Receiving: "127.0.0.5", Sessions: 1}}}}
	if got := posted.Load(); !reflect.DeepEqual(got.Sections, want) || got.Organization != "Origin" || got.Range != tlsrpt.DayOf(noon).Range() {
		t.Errorf("%+v", got)
	}

	again, err := New(configure(t, dir, text), Options{Log: quiet.Log, TLSReports: options(1).TLSReports})
	if err != nil {
		t.Fatal(err)
	}
	defer again.Close()
	if days := again.tlsReports.keeper.Days(); len(days) != 0 {
		t.Errorf("after a restart there are reports to send: %v", days)
	}
}

// A session counts for the domains whose mail it was for, and one that failed before there was any
// for those with mail at the site; under TLSA records if there are any, and not where the operator
// has named the host, nor for domains that are excluded.
func TestSessionsAreCounted(t *testing.T) {
	record, err := dane.Parse([]byte{3, 1, 1, 0xab})
	if err != nil {
		t.Fatal(err)
	}
	answer := dane.Answer{State: dane.Usable, Base: "mx.d.test", Records: dane.Records{record}}
	host := mail.Host{Name: "mx.d.test", Addr: netip.MustParseAddrPort("192.0.2.7:25")}
	const site = "{mx.d.test}"
	for _, c := range []struct {
		name    string
		session outbound.Session
		want    string
	}{
		{"no policy", outbound.Session{Nexthop: "d.test", Fault: outbound.FaultUntrusted}, "d.test no-policy-found d.test 1 0"},
		{"no TLS", outbound.Session{Nexthop: "d.test", Fault: outbound.FaultPlaintext}, "d.test no-policy-found d.test 0 1 starttls-not-supported"},
		{"no handshake", outbound.Session{Nexthop: "d.test", Fault: outbound.FaultHandshake}, "d.test no-policy-found d.test 0 1 validation-failure tls-handshake-failed"},
		{"TLSA", outbound.Session{Nexthop: "d.test", Records: tlspolicy.RecordsUsable, TLSA: answer}, "d.test tlsa mx.d.test 1 0"},
		{"TLSA mismatch", outbound.Session{Nexthop: "d.test", Records: tlspolicy.RecordsUsable, TLSA: answer, Fault: outbound.FaultMismatch, Failed: true}, "d.test tlsa mx.d.test 0 1 validation-failure tlsa-mismatch"},
		{"TLSA unusable", outbound.Session{Nexthop: "d.test", Records: tlspolicy.RecordsUnusable, TLSA: answer, Fault: outbound.FaultRecords}, "d.test tlsa mx.d.test 0 1 tlsa-invalid"},
		{"forged", outbound.Session{Nexthop: "d.test", Records: tlspolicy.RecordsFailed, Fault: outbound.FaultDNSSEC, Failed: true}, "d.test tlsa mx.d.test 0 1 dnssec-invalid"},
		{"site", outbound.Session{Nexthop: site, Domain: "d.test"}, "d.test no-policy-found d.test 1 0"},
		{"failed site", outbound.Session{Nexthop: site, Fault: outbound.FaultPlaintext, Failed: true}, "d.test no-policy-found d.test 0 1 starttls-not-supported; e.test no-policy-found e.test 0 1 starttls-not-supported"},
		{"unknown site", outbound.Session{Nexthop: "{mx.x.test}", Failed: true}, ""},
		{"a host of the operator's", outbound.Session{Nexthop: "[mx.d.test]:25"}, ""},
		{"excluded", outbound.Session{Nexthop: "x.test"}, ""},
		{"excluded at a site", outbound.Session{Nexthop: site, Domain: "x.test"}, ""},
	} {
		keeper, err := courier.New(courier.Config{Identity: courier.Identity{Organization: "o", From: "a@origin.test", Hostname: "mta.test"}, Resolver: currentResolver{},
			Mail: func(context.Context, courier.Message) error { return nil }})
		if err != nil {
			t.Fatal(err)
		}
		r := &tlsReports{sts: newSTSFinder(&config.Config{}, &quiet, &agents{})}
		r.rules.Store(&reportRules{keeper, []string{"x.test"}})
		for _, domain := range []string{"d.test", "e.test", "x.test", "d.test"} {
			r.notes(mail.Route{Transport: "smtp", Nexthop: domain, Site: site, Security: "dane"}, mail.Route{Transport: "smtp", Nexthop: domain})
		}
		c.session.Host, c.session.Security = host, "dane"
		r.session(c.session)
		var got []string
		for _, day := range keeper.Days() {
			for _, domain := range keeper.Domains(day) {
				report, _ := keeper.Report(day, domain)
				s := report.Sections[0]
				line := fmt.Sprint(domain, " ", s.Policy.Type, " ", s.Policy.Domain, " ", s.Summary.Successful, " ", s.Summary.Failed)
				for _, f := range s.Failures {
					line = strings.TrimSpace(fmt.Sprint(line, " ", f.Result, " ", f.ReasonCode))
				}
				got = append(got, line)
			}
		}
		if text := strings.Join(got, "; "); text != c.want {
			t.Errorf("%s: %q, want %q", c.name, text, c.want)
		}
	}
}

// A reload switches reports on and off, and changes in whose name they are. What was counted stays, and one
// that cannot be put into force changes nothing.
func TestReloadOfTLSReports(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	r := start(t, dir, "")
	reload := func(text string) error {
		restart, err := r.d.reload(configure(t, dir, text))
		if len(restart) > 0 {
			t.Errorf("a restart is needed for %q", restart)
		}
		return err
	}
	session := outbound.Session{Nexthop: "d.test", Security: "dane", Host: mail.Host{Name: "mx.d.test", Addr: netip.MustParseAddrPort("192.0.2.7:25")}}
	shown := func() string {
		page, err := r.d.tlsReports.page(time.Now().UTC().Format(time.DateOnly), "d.test")
		if err != nil || !page.Counting {
			return fmt.Sprint("off ", err)
		}
		var report tlsrpt.Report
		if len(page.Report) > 0 {
			if err := json.Unmarshal(page.Report, &report); err != nil {
				t.Error(err)
			}
			return fmt.Sprint(report.Organization, " ", report.Contact, " ", report.Sections[0].Summary.Successful)
		}
		return "on"
	}
	const on = "[tls_reports]\norganization = \"One\"\n"
	for i, step := range []struct{ text, want string }{
		{"", "off <nil>"}, {on, "on"}, {on, "One tls-reports@mta.test 1"}, {"[tls_reports]\norganization = \"Two\"\ncontact = \"boss@two.test\"\n", "Two boss@two.test 2"},
		{"", "off <nil>"}, {on + "exclude = [\"D.test\"]\n", "One tls-reports@mta.test 3"}, {on, "One tls-reports@mta.test 3"},
	} {
		if err := reload(step.text); err != nil {
			t.Fatal(err)
		}
		if got := shown(); got != step.want {
			t.Errorf("step %d: %q, want %q", i, got, step.want)
		}
		r.d.tlsReports.session(session)
	}
	if err := reload(on + "from = \"tls!reports@origin.test\"\n"); err == nil || !strings.Contains(err.Error(), "tls_reports: ") {
		t.Errorf("an address that reports cannot come from: %v", err)
	}
	if got := shown(); got != "One tls-reports@mta.test 4" {
		t.Errorf("after a reload that failed: %q", got)
	}
	r.end()
	again, err := New(configure(t, dir, on), quiet)
	if err != nil {
		t.Fatal(err)
	}
	defer again.Close()
	if domains := again.tlsReports.keeper.Domains(tlsrpt.DayOf(time.Now())); fmt.Sprint(domains) != "[d.test]" {
		t.Errorf("after a restart: %v", domains)
	}
}

// How many domains are remembered for a site, and how many sites, does not depend on what is routed.
func TestSitesAreBounded(t *testing.T) {
	var s siteDomains
	now := time.Now()
	for i := range 3 * siteDomainsMax {
		s.note(&mail.Route{Nexthop: fmt.Sprintf("d%d.test", i), Site: "{mx.test}", Security: "dane"}, now)
	}
	list := s.of(siteKey{"{mx.test}", "dane"}, now)
	if len(list) != siteDomainsMax || list[siteDomainsMax-1] != fmt.Sprintf("d%d.test", 3*siteDomainsMax-1) {
		t.Errorf("%d domains: %v", len(list), list)
	}
	for i := range sitesMax + 1 {
		s.note(&mail.Route{Nexthop: "d.test", Site: fmt.Sprint("{mx", i, ".test}"), Security: "dane"}, now)
	}
	if len(s.all) > sitesMax {
		t.Errorf("%d sites", len(s.all))
	}
}

// A session that failed before it carried mail counts for the domains that have mail for its hosts now, and not for one
// whose mail went there yesterday: its report would list failures of mail that was not for it.
func TestSitesForgetDomainsWithoutMail(t *testing.T) {
	var s siteDomains
	start, key := time.Now(), siteKey{"{mx.test}", "dane"}
	at := func(after time.Duration, domain string) {
		s.note(&mail.Route{Nexthop: domain, Site: key.site, Security: key.security}, start.Add(after))
	}
	at(0, "a.test")
	at(0, "b.test")
	at(0, "[c.test]") // no domain
	at(50*time.Minute, "a.test")
	for after, want := range map[time.Duration]string{0: "[b.test a.test]", time.Hour: "[b.test a.test]", 62 * time.Minute: "[a.test]", 24 * time.Hour: "[a.test]"} {
		if got := fmt.Sprint(s.of(key, start.Add(after))); got != want {
			t.Errorf("after %v: %s, want %s", after, got, want)
		}
	}
	if got := s.of(siteKey{"{mx.test}", "sts"}, start); len(got) > 0 {
		t.Errorf("another demand has %q", got)
	}
}
